//! Profiles: what was measured, and in which functions.
//!
//! Fill a [`Profile`], then [write](Profile::write) it in a [`Format`], or [sum it
//! up](Profile::summary).

mod flame_graph;
mod folded;
mod format;
mod merged;
pub mod pprof;
mod speedscope;
mod summary;
mod waits;

use std::collections::HashMap;
use std::io::{self, Write};
use std::time::{Duration, SystemTime};

use crate::interned::Interned;
use crate::{quantity, text};

pub use format::{Format, UnknownFormat};
pub use summary::{FunctionCost, Summary};
pub use waits::{HeldPlace, HolderCost, WaitCost};

/// What a profile measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Measure {
    /// The time in which processes ran.
    CpuTime,
    /// The time that passed while processes existed, running or not.
    WallTime,
    /// The time that processes spent waiting for an object.
    Waits,
    /// The memory that was allocated.
    Allocation,
}

impl Measure {
    /// The unit of the values.
    #[must_use]
    pub fn unit(self) -> Unit {
        match self {
            Self::Allocation => Unit::Bytes,
            Self::CpuTime | Self::WallTime | Self::Waits => Unit::Nanoseconds,
        }
    }

    /// A heading.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::CpuTime => "CPU time",
            Self::WallTime => "Wall time",
            Self::Waits => "Waits",
            Self::Allocation => "Allocation",
        }
    }

    /// A name for programs: `cpu`, `wall`, `waits` or `alloc`.
    #[must_use]
    pub fn key(self) -> &'static str {
        match self {
            Self::CpuTime => "cpu",
            Self::WallTime => "wall",
            Self::Waits => "waits",
            Self::Allocation => "alloc",
        }
    }

    /// What a sample's count counts.
    fn counted(self) -> &'static str {
        match self {
            Self::CpuTime | Self::WallTime | Self::Waits => "samples",
            Self::Allocation => "allocations",
        }
    }
}

/// The unit of a profile's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unit {
    /// Nanoseconds.
    Nanoseconds,
    /// Bytes.
    Bytes,
}

impl Unit {
    /// The name of the unit, as the file formats have it.
    fn name(self) -> &'static str {
        match self {
            Self::Nanoseconds => "nanoseconds",
            Self::Bytes => "bytes",
        }
    }

    /// A value in this unit, for people.
    fn shown(self, value: u64) -> String {
        match self {
            Self::Nanoseconds => quantity::time(value),
            Self::Bytes => quantity::size(value),
        }
    }
}

/// Whose code a frame runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FrameKind {
    /// A function of the guest's language.
    Lua,
    /// A function in C.
    C,
}

/// One level of a stack: a function, and the line at which it was.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Frame {
    /// The name of the function; empty if it has none, and `main chunk` of a file's outermost code.
    pub function: String,
    /// Its source file, or the library that has it; empty if that is not known.
    pub file: String,
    /// The line that ran; 0 if that is not known.
    pub line: u32,
    /// The first line of the function; 0 if that is not known.
    pub first_line: u32,
    /// Whose code it is.
    pub kind: FrameKind,
}

impl Frame {
    /// A frame of the guest's language, without the first line of its function. Bytes that are not
    /// UTF-8 become U+FFFD.
    pub fn lua(function: impl AsRef<[u8]>, file: impl AsRef<[u8]>, line: u32) -> Self {
        Self {
            function: text::lossy(function),
            file: text::lossy(file),
            line,
            first_line: 0,
            kind: FrameKind::Lua,
        }
    }

    /// A frame in C. Bytes that are not UTF-8 become U+FFFD.
    pub fn c(function: impl AsRef<[u8]>, library: impl AsRef<[u8]>) -> Self {
        Self {
            function: text::lossy(function),
            file: text::lossy(library),
            line: 0,
            first_line: 0,
            kind: FrameKind::C,
        }
    }

    /// The same frame, of a function that begins at this line.
    #[must_use]
    pub fn beginning_at(mut self, first_line: u32) -> Self {
        self.first_line = first_line;
        self
    }
}

/// What else is known of a sample. Empty texts and the number 0 mean that it is not known.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Labels {
    /// The name of the process.
    pub process: String,
    /// The number of the process.
    pub process_id: u64,
    /// The object that the process waited for, such as `mutex 'accounts'`.
    pub object: String,
    /// The process that had that object.
    pub holder: String,
    /// The name of the VM.
    pub vm: String,
    /// Other labels: their names and values.
    pub context: Vec<(String, String)>,
}

impl Labels {
    /// The labels of a process. Bytes that are not UTF-8 become U+FFFD.
    pub fn of_process(name: impl AsRef<[u8]>, id: u64) -> Self {
        Self {
            process: text::lossy(name),
            process_id: id,
            ..Self::default()
        }
    }

    /// The same labels, of a process in this VM. Bytes that are not UTF-8 become U+FFFD.
    #[must_use]
    pub fn in_vm(mut self, name: impl AsRef<[u8]>) -> Self {
        self.vm = text::lossy(name);
        self
    }

    /// The same labels, and these.
    #[must_use]
    pub fn with_context(mut self, fields: Vec<(String, String)>) -> Self {
        self.context = fields;
        self
    }

    /// The same labels, for a wait. Bytes that are not UTF-8 become U+FFFD.
    #[must_use]
    pub fn waiting_for(mut self, object: impl AsRef<[u8]>, holder: impl AsRef<[u8]>) -> Self {
        self.object = text::lossy(object);
        self.holder = text::lossy(holder);
        self
    }
}

/// A stack that a profile has stored. It is valid only for that profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StackId(u32);

/// All that was measured at one stack with the same labels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    /// The stack.
    pub stack: StackId,
    /// The sum of what was measured, in [`Measure::unit`].
    pub value: u64,
    /// How often it was measured.
    pub count: u64,
    /// What else is known.
    pub labels: Labels,
}

/// What was measured, by stack.
#[derive(Debug, Clone)]
pub struct Profile {
    /// What was measured.
    pub measure: Measure,
    /// The name of the program, for headings.
    pub program: String,
    /// The distance between two samples, in [`Measure::unit`]; 0 if everything was measured.
    pub period: u64,
    /// When it began.
    pub started: Option<SystemTime>,
    /// How long it lasted.
    pub duration: Duration,
    frames: Interned<Frame>,
    /// Numbers of frames, the innermost first.
    stacks: Interned<[u32]>,
    samples: Vec<Sample>,
    /// The place in `samples` of each stack with its labels.
    places: HashMap<(StackId, Labels), usize>,
    wait_details: waits::WaitDetails,
}

impl Profile {
    /// A profile without samples. `program` is a name for headings; bytes that are not UTF-8
    /// become U+FFFD.
    pub fn new(measure: Measure, program: impl AsRef<[u8]>) -> Self {
        Self {
            measure,
            program: text::lossy(program),
            period: 0,
            started: None,
            duration: Duration::ZERO,
            frames: Interned::default(),
            stacks: Interned::default(),
            samples: Vec::new(),
            places: HashMap::new(),
            wait_details: waits::WaitDetails::default(),
        }
    }

    /// Stores a stack, the innermost frame first. Equal stacks are stored once.
    pub fn stack(&mut self, frames: impl IntoIterator<Item = Frame>) -> StackId {
        let numbers: Vec<u32> = frames
            .into_iter()
            .map(|frame| self.frames.add(frame))
            .collect();
        StackId(self.stacks.add(numbers))
    }

    /// Adds what was measured `count` times at a stack: `value` in all, in [`Measure::unit`].
    /// Sums stay at the greatest number if they would exceed it.
    pub fn add(&mut self, stack: StackId, value: u64, count: u64, labels: Labels) {
        let next = self.samples.len();
        let place = *self.places.entry((stack, labels.clone())).or_insert(next);
        if place == next {
            self.samples.push(Sample {
                stack,
                value: 0,
                count: 0,
                labels,
            });
        }
        let sample = &mut self.samples[place];
        sample.value = sample.value.saturating_add(value);
        sample.count = sample.count.saturating_add(count);
    }

    /// All samples, in the order in which their stacks came. No two have the same stack and labels.
    #[must_use]
    pub fn samples(&self) -> &[Sample] {
        &self.samples
    }

    /// The frames of a stack, the innermost first.
    pub fn frames(&self, stack: StackId) -> impl DoubleEndedIterator<Item = &Frame> {
        let numbers = self.stacks.get(stack.0);
        numbers.iter().map(move |&number| self.frames.get(number))
    }

    /// The sum of all values, in [`Measure::unit`].
    #[must_use]
    pub fn total(&self) -> u64 {
        let values = self.samples.iter().map(|sample| sample.value);
        values.fold(0, u64::saturating_add)
    }

    /// The sum of all counts.
    #[must_use]
    pub fn count(&self) -> u64 {
        let counts = self.samples.iter().map(|sample| sample.count);
        counts.fold(0, u64::saturating_add)
    }

    /// Writes the profile as a file of this format.
    ///
    /// # Errors
    ///
    /// Those of `out`.
    pub fn write(&self, format: Format, out: &mut impl Write) -> io::Result<()> {
        match format {
            Format::FlameGraph => out.write_all(flame_graph::drawn(self).as_bytes()),
            Format::Pprof => pprof::write(self, out),
            Format::Folded => folded::write(self, out),
            Format::Speedscope => speedscope::write(self, out),
        }
    }

    /// What each function cost, and what was waited for.
    #[must_use]
    pub fn summary(&self) -> Summary {
        summary::of(self)
    }

    /// Whether it has samples of more than one VM.
    fn has_several_vms(&self) -> bool {
        let mut vms = self.samples.iter().map(|sample| &sample.labels.vm);
        let first = vms.next();
        vms.any(|vm| Some(vm) != first)
    }

    /// How long it lasted, in nanoseconds.
    fn duration_nanos(&self) -> u64 {
        u64::try_from(self.duration.as_nanos()).unwrap_or(u64::MAX)
    }

    /// What was profiled, in a line.
    fn heading(&self) -> String {
        let title = self.measure.title();
        match self.program.as_str() {
            "" => title.to_owned(),
            program => format!("{title} of {program}"),
        }
    }
}

#[cfg(test)]
mod checks {
    use super::*;

    #[test]
    fn samples_of_one_stack_with_the_same_labels_are_summed_up() {
        let mut profile = Profile::new(Measure::CpuTime, "a.lua");
        let stack = profile.stack([Frame::lua("f", "a.lua", 2), Frame::lua("g", "a.lua", 9)]);
        let same = profile.stack([Frame::lua("f", "a.lua", 2), Frame::lua("g", "a.lua", 9)]);
        assert_eq!(stack, same);
        profile.add(stack, 10, 1, Labels::default());
        profile.add(stack, 5, 1, Labels::default());
        profile.add(stack, 7, 2, Labels::of_process("p", 1));
        let sums: Vec<(u64, u64)> = profile
            .samples()
            .iter()
            .map(|sample| (sample.value, sample.count))
            .collect();
        assert_eq!(sums, [(15, 2), (7, 2)]);
        assert_eq!((profile.total(), profile.count()), (22, 4));
    }

    #[test]
    fn a_sum_that_would_overflow_stays_at_the_greatest_number() {
        let mut profile = Profile::new(Measure::Allocation, "a.lua");
        let stack = profile.stack([]);
        profile.add(stack, u64::MAX, 1, Labels::default());
        profile.add(stack, 1, u64::MAX, Labels::default());
        assert_eq!((profile.total(), profile.count()), (u64::MAX, u64::MAX));
    }

    #[test]
    fn names_may_hold_any_bytes() {
        let frame = Frame::lua(b"f\xff", b"=\xfe\n", 1);
        assert_eq!(frame.function, "f\u{fffd}");
        assert_eq!(frame.file, "=\u{fffd}\n");
    }
}
