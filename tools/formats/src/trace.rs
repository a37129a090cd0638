//! Traces: what happened when, on a track for each process and native thread.
//!
//! A [`TraceWriter`] appends one event after the other to a file that Perfetto
//! (<https://ui.perfetto.dev>) opens. It keeps the names in memory, and no events.
//!
//! [`messages`] has the parts of Perfetto's schema that are written here. Programs that read such
//! files can use them too.

pub mod messages;
mod names;
mod writer;

use std::time::Duration;

use crate::text;

pub use writer::TraceWriter;

/// A track that a [`TraceWriter`] has described. It is valid only for that trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Track(u64);

/// The number of a flow: an arrow from the event that causes another, to that other event. It is
/// unique in its trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Flow(pub u64);

/// The unit of a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CounterUnit {
    /// A number of things.
    Count,
    /// Nanoseconds.
    Nanoseconds,
    /// Bytes.
    Bytes,
}

/// The value of a counter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum CounterValue {
    /// A whole number.
    Whole(i64),
    /// Any number.
    Real(f64),
}

/// The value of an argument.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// True or false.
    Bool(bool),
    /// A number from 0.
    Natural(u64),
    /// A whole number.
    Whole(i64),
    /// Any number.
    Real(f64),
    /// A text.
    Text(String),
}

impl Value {
    /// A text. Bytes that are not UTF-8 become U+FFFD.
    pub fn text(bytes: impl AsRef<[u8]>) -> Self {
        Self::Text(text::lossy(bytes))
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<u64> for Value {
    fn from(value: u64) -> Self {
        Self::Natural(value)
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Whole(value)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Real(value)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

/// Something that happened: the beginning of a slice, or an instant.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Event {
    /// When it happened, on the clock of the trace.
    pub at: Duration,
    /// What happened.
    pub name: String,
    /// A word for events of its kind, such as `call` or `wait`.
    pub category: String,
    /// What else is known of it, in the order in which it is shown.
    pub arguments: Vec<(String, Value)>,
    /// The flow that begins here, if this caused another event.
    pub causes: Option<Flow>,
    /// The flow that ends here, if this was caused by another event.
    pub caused_by: Option<Flow>,
}

impl Event {
    /// An event. Bytes that are not UTF-8 become U+FFFD.
    pub fn new(at: Duration, category: impl AsRef<[u8]>, name: impl AsRef<[u8]>) -> Self {
        Self {
            at,
            name: text::lossy(name),
            category: text::lossy(category),
            ..Self::default()
        }
    }

    /// The same event with one more argument.
    #[must_use]
    pub fn with(mut self, name: impl AsRef<[u8]>, value: impl Into<Value>) -> Self {
        self.arguments.push((text::lossy(name), value.into()));
        self
    }

    /// The same event, at which a flow begins.
    #[must_use]
    pub fn causing(mut self, flow: Flow) -> Self {
        self.causes = Some(flow);
        self
    }

    /// The same event, at which a flow ends.
    #[must_use]
    pub fn caused_by(mut self, flow: Flow) -> Self {
        self.caused_by = Some(flow);
        self
    }
}
