//! Heap snapshots in Chrome's format, `.heapsnapshot`, and the difference of two.
//!
//! A [`SnapshotWriter`] writes a heap of any size object by object; it keeps only names in memory.
//! A [`Snapshot`] reads such a file, and a [`Growth`] compares two.
//!
//! Chrome has a viewer for these files: DevTools, the tab Memory, *Load profile*. It keeps the low
//! 32 bits of an object's size and of twice its number.

mod diff;
mod layout;
mod paths;
mod reader;
mod shapes;
mod writer;

use crate::text;

pub use diff::{ClassGrowth, Growth, Step};
pub use reader::Snapshot;
pub use writer::{Counts, SnapshotWriter};

/// What an object is. The viewer groups objects by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NodeKind {
    /// A part of the interpreter. The viewer calls it *(system)*.
    Hidden,
    /// A list within an object.
    Array,
    /// A string; its name is its text.
    String,
    /// An object, such as a table; its name is its class.
    Object,
    /// Compiled code.
    Code,
    /// A function.
    Closure,
    /// A number on the heap.
    Number,
    /// An object of C code.
    Native,
    /// No object: a name for a group of roots.
    Synthetic,
}

/// An object of a heap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// What it is.
    pub kind: NodeKind,
    /// Its class, or the text of a string.
    pub name: String,
    /// Its number, less than 2^52. It is the same in all snapshots, so that they can be compared:
    /// an address divided by its alignment, for example.
    pub id: u64,
    /// Its size in bytes, without the objects that it refers to.
    pub self_size: u64,
    /// The number of its references.
    pub edges: u32,
}

impl Node {
    /// An object without references. Bytes of its name that are not UTF-8 become U+FFFD.
    pub fn new(kind: NodeKind, name: impl AsRef<[u8]>, id: u64, self_size: u64) -> Self {
        Self {
            kind,
            name: text::lossy(name),
            id,
            self_size,
            edges: 0,
        }
    }

    /// The same object with this number of references.
    #[must_use]
    pub fn with_edges(mut self, edges: u32) -> Self {
        self.edges = edges;
        self
    }
}

/// How an object refers to another.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum EdgeKind {
    /// By a variable of a function.
    Context(String),
    /// By a number in an array.
    Element(u64),
    /// By the name of a field.
    Property(String),
    /// By a part that programs cannot name, such as a metatable.
    Internal(String),
    /// By a part without a name, with this number.
    Hidden(u64),
    /// In a way that does not keep the other object alive.
    Weak(String),
}

impl EdgeKind {
    /// The reference in the guest's manner, behind the object that has it: `.name`, `[1]`,
    /// `<metatable>`.
    #[must_use]
    pub fn shown(&self) -> String {
        match self {
            Self::Property(name) if is_identifier(name) => format!(".{name}"),
            Self::Property(name) => format!("[{name:?}]"),
            Self::Element(index) => format!("[{index}]"),
            Self::Context(name) => format!("<variable {name}>"),
            Self::Internal(name) | Self::Weak(name) => format!("<{name}>"),
            Self::Hidden(index) => format!("<#{index}>"),
        }
    }
}

fn is_identifier(name: &str) -> bool {
    let is_word = |character: char| character.is_ascii_alphanumeric() || character == '_';
    !name.is_empty() && !name.starts_with(|c: char| c.is_ascii_digit()) && name.chars().all(is_word)
}

/// A reference from one object to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edge {
    /// How it refers.
    pub kind: EdgeKind,
    /// The other object: the place of its node, from 0, in the order in which nodes are written.
    pub to: usize,
}
