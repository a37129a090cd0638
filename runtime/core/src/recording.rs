//! Recorded runs: which decisions a simulated run made, and runs that make given decisions.
//!
//! A simulated run ([`Vm::simulate`](crate::vm::Vm::simulate)) decides by random numbers. A
//! *recorded run* also writes its decisions and its last switches to words of memory, which
//! another program may read, even after the run was killed. A *directed run* makes the decisions
//! that these words give it, and no others: without any, it is a run in plain order.
//!
//! A decision belongs to a [`Point`] of one process: how many steps that process has made by then.
//! So another decision can be left out, and most of the rest keep their meaning.
//!
//! | kind | decision | without it |
//! |---|---|---|
//! | [`DecisionKind::Preempt`] | the process is preempted, and `value` runs next | it continues |
//! | [`DecisionKind::Order`] | the process waits, yields or ends, and `value` runs next, before its turn | the first of the equals runs |
//! | [`DecisionKind::Select`] | the ready case of a select, or what the guest chooses, by `value` modulo their number | the first one |
//!
//! Processes are numbered from 1, in the order of their spawning.
//!
//! | file | what it does |
//! |---|---|
//! | `recording.rs` | decisions, and where they are in memory |
//! | `recording/switches.rs` | the last switches, with texts |
//! | `recording/notation.rs` | decisions as text |

mod notation;
mod switches;

pub use notation::NotationError;
pub(crate) use switches::Part;
pub use switches::{Switch, SwitchCause};

use crate::sched::ProcessId;
use baton_sys::shared_memory;
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

/// The most decisions that are recorded or given. A run may have more switches.
pub const MOST_DECISIONS: usize = 1 << 17;

/// The most processes at a time that have decisions.
const MOST_PROCESSES: usize = 1 << 16;

/// The words of a decision: process, number and kind; steps; value.
const DECISION: usize = 3;

/// The words of a process: its number and how often it was left at this step; its steps.
const PROCESS: usize = 2;

/// Places of words.
const GIVEN_COUNT: usize = 0;
const DECISION_COUNT: usize = 1;
const SWITCH_COUNT: usize = 2;
const PROCESS_COUNT: usize = 3;
const MARK_COUNT: usize = 4;
const SEVERAL_VMS: usize = 5;
const GIVEN: usize = 16;
const DECISIONS: usize = GIVEN + DECISION * MOST_DECISIONS;
const PROCESSES: usize = DECISIONS + DECISION * MOST_DECISIONS;
const SWITCHES: usize = PROCESSES + PROCESS * MOST_PROCESSES;
const WORDS: usize = SWITCHES + switches::WORDS;

/// The number of given decisions of a run that is not directed.
const NOT_DIRECTED: u64 = u64::MAX;

/// A point in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Point {
    /// The number of the process, from 1.
    pub process: u32,
    /// How many steps the process has made, with the one that it is about to make or is in.
    pub step: u64,
    /// How often it was left at this step before, or has chosen.
    pub again: u16,
}

/// What is decided. The module's text has the meanings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum DecisionKind {
    /// A preemption.
    Preempt = 1,
    /// Which of several equals runs after the process.
    Order = 2,
    /// Which of several ready cases is taken, or what the guest chooses
    /// ([`Inside::choose`](crate::vm::Inside::choose)).
    Select = 3,
}

/// A decision of a simulated run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunDecision {
    /// Where it is made.
    pub point: Point,
    /// What is decided.
    pub kind: DecisionKind,
    /// The number of a process, or a number that chooses a case.
    pub value: u32,
}

impl RunDecision {
    fn to_words(self) -> [u64; DECISION] {
        let Point {
            process,
            step,
            again,
        } = self.point;
        let first = u64::from(process) << 32 | u64::from(again) << 8 | self.kind as u64;
        [first, step, self.value.into()]
    }

    fn from_words([first, step, value]: [u64; DECISION]) -> Option<RunDecision> {
        let kind = match first as u8 {
            1 => DecisionKind::Preempt,
            2 => DecisionKind::Order,
            3 => DecisionKind::Select,
            _ => return None,
        };
        let point = Point {
            process: (first >> 32) as u32,
            step,
            again: (first >> 8) as u16,
        };
        Some(RunDecision {
            point,
            kind,
            value: value as u32,
        })
    }
}

/// The words of a recorded run.
///
#[derive(Clone, Copy, Debug)]
pub struct Recording {
    words: &'static [AtomicU64],
}

impl Recording {
    /// Makes words for recorded runs, in a file that another program can open. They are for one
    /// run; see [`Recording::prepare`].
    ///
    /// ```
    /// use baton_core::recording::{RunDecision, DecisionKind, Point, Recording};
    ///
    /// let (file, parent) = Recording::new()?;
    /// let child = Recording::open(&file)?;
    /// let point = Point { process: 2, step: 57, again: 0 };
    /// let decision = RunDecision { point, kind: DecisionKind::Preempt, value: 3 };
    /// parent.prepare(Some(&[decision]));
    /// assert_eq!(child.given(point, DecisionKind::Preempt), Some(3));
    /// assert_eq!(child.given(point, DecisionKind::Order), None);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// When the system refuses.
    pub fn new() -> io::Result<(File, Recording)> {
        let file = shared_memory::new_file(WORDS)?;
        let recording = Recording::open(&file)?;
        Ok((file, recording))
    }

    /// The words of a file that [`Recording::new`] has made. They stay mapped for ever.
    ///
    /// # Errors
    /// When it is another file, or the system refuses.
    pub fn open(file: &File) -> io::Result<Recording> {
        shared_memory::map(file, WORDS).map(|words| Recording { words })
    }

    /// Clears what the last run has written, and gives decisions to the next one, in their order.
    /// With `None` that run decides by random numbers. Decisions beyond [`MOST_DECISIONS`] are left
    /// out.
    pub fn prepare(&self, given: Option<&[RunDecision]>) {
        let used = PROCESS * (self.read(PROCESS_COUNT) as usize).min(MOST_PROCESSES);
        for place in PROCESSES..PROCESSES + used {
            self.write(place, 0);
        }
        for place in [
            DECISION_COUNT,
            SWITCH_COUNT,
            PROCESS_COUNT,
            MARK_COUNT,
            SEVERAL_VMS,
        ] {
            self.write(place, 0);
        }
        let Some(given) = given else {
            self.write(GIVEN_COUNT, NOT_DIRECTED);
            return;
        };
        let given = &given[..given.len().min(MOST_DECISIONS)];
        for (index, decision) in given.iter().enumerate() {
            self.write_all(GIVEN + DECISION * index, decision.to_words());
        }
        self.write(GIVEN_COUNT, given.len() as u64);
    }

    /// The decisions of the last run, in the order of their points; `None` if there were too many.
    #[must_use]
    pub fn decisions(&self) -> Option<Vec<RunDecision>> {
        let count = self.read(DECISION_COUNT) as usize;
        let read = |index| RunDecision::from_words(self.read_all(DECISIONS + DECISION * index));
        let mut decisions: Vec<_> = (0..count.min(MOST_DECISIONS)).filter_map(read).collect();
        decisions.sort_unstable();
        (count <= MOST_DECISIONS).then_some(decisions)
    }

    /// Whether the program has started a second VM. Its decisions are not recorded, nor those
    /// between VMs.
    #[must_use]
    pub fn has_several_vms(&self) -> bool {
        self.read(SEVERAL_VMS) != 0
    }

    pub(crate) fn note_several_vms(&self) {
        self.write(SEVERAL_VMS, 1);
    }

    /// Whether the run is directed.
    pub(crate) fn is_directed(&self) -> bool {
        self.read(GIVEN_COUNT) != NOT_DIRECTED
    }

    /// What was given for a point; `None` if nothing was, or the run is not directed.
    #[must_use]
    pub fn given(&self, point: Point, kind: DecisionKind) -> Option<u32> {
        if !self.is_directed() || point.process == 0 {
            return None;
        }
        let wanted = (point, kind);
        let (mut low, mut high) = (0, self.read(GIVEN_COUNT) as usize);
        while low < high {
            let middle = low.midpoint(high);
            let decision = RunDecision::from_words(self.read_all(GIVEN + DECISION * middle))?;
            match (decision.point, decision.kind).cmp(&wanted) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Equal => return Some(decision.value),
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        None
    }

    /// Records a decision.
    pub(crate) fn add(&self, decision: RunDecision) {
        let count = self.read(DECISION_COUNT);
        self.write(DECISION_COUNT, count + 1);
        if (count as usize) < MOST_DECISIONS && decision.point.process != 0 {
            self.write_all(DECISIONS + DECISION * count as usize, decision.to_words());
        }
    }

    /// Gives a new process its number.
    pub(crate) fn number(&self, process: ProcessId) {
        let number = self.read(PROCESS_COUNT) + 1;
        self.write(PROCESS_COUNT, number);
        if let Some(place) = place_of(process) {
            self.write_all(place, [number << 32, 0]);
        }
    }

    /// The number of a process; 0 if it has none.
    pub(crate) fn number_of(&self, process: ProcessId) -> u32 {
        place_of(process).map_or(0, |place| (self.read(place) >> 32) as u32)
    }

    /// Counts steps of a process. Returns where it is then.
    pub(crate) fn count(&self, process: ProcessId, steps: u32) -> Point {
        if let Some(place) = place_of(process).filter(|_| steps > 0) {
            self.write(place, self.read(place) >> 32 << 32);
            self.write(place + 1, self.read(place + 1) + u64::from(steps));
        }
        self.point_of(process)
    }

    /// Where a process is.
    pub(crate) fn point_of(&self, process: ProcessId) -> Point {
        let [first, step] = place_of(process).map_or([0; PROCESS], |place| self.read_all(place));
        Point {
            process: (first >> 32) as u32,
            step,
            again: first as u16,
        }
    }

    /// Notes that a process was left where it is, or has chosen.
    pub(crate) fn leave(&self, process: ProcessId) {
        if let Some(place) = place_of(process) {
            let first = self.read(place);
            let again = (first as u16).saturating_add(1);
            self.write(place, first >> 32 << 32 | u64::from(again));
        }
    }

    fn read(&self, place: usize) -> u64 {
        // Relaxed (both): a run uses them on one thread at a time, ordered by the VM lock. Another
        // program reads them after its end.
        self.words[place].load(Ordering::Relaxed)
    }

    fn write(&self, place: usize, value: u64) {
        self.words[place].store(value, Ordering::Relaxed);
    }

    fn read_all<const N: usize>(&self, place: usize) -> [u64; N] {
        std::array::from_fn(|index| self.read(place + index))
    }

    fn write_all<const N: usize>(&self, place: usize, values: [u64; N]) {
        for (index, value) in values.into_iter().enumerate() {
            self.write(place + index, value);
        }
    }
}

/// The place of a process's words; `None` if there are too many processes.
fn place_of(process: ProcessId) -> Option<usize> {
    let index = process.index() as usize;
    (index < MOST_PROCESSES).then_some(PROCESSES + PROCESS * index)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decision(
        process: u32,
        step: u64,
        again: u16,
        kind: DecisionKind,
        value: u32,
    ) -> RunDecision {
        let point = Point {
            process,
            step,
            again,
        };
        RunDecision { point, kind, value }
    }

    fn ids() -> [ProcessId; 2] {
        [0_u64, 1].map(|index| ProcessId::from_bits(1 << 32 | index).expect("an id"))
    }

    #[test]
    fn given_decisions_are_found_by_point_and_kind() {
        let (_, recording) = Recording::new().expect("there is memory");
        let mut given: Vec<_> = (1..500_u32)
            .map(|n| {
                decision(
                    n % 7 + 1,
                    u64::from(n / 7),
                    (n % 3) as u16,
                    DecisionKind::Order,
                    n,
                )
            })
            .collect();
        given.sort_unstable();
        recording.prepare(Some(&given));
        for decision in &given {
            assert_eq!(
                recording.given(decision.point, DecisionKind::Order),
                Some(decision.value)
            );
            assert_eq!(recording.given(decision.point, DecisionKind::Preempt), None);
        }
        recording.prepare(None);
        assert_eq!(recording.given(given[0].point, DecisionKind::Order), None);
    }

    #[test]
    fn recorded_decisions_come_back_sorted_and_are_cleared() {
        let (_, recording) = Recording::new().expect("there is memory");
        let [later, sooner] = [
            decision(2, u64::MAX, u16::MAX, DecisionKind::Select, u32::MAX),
            decision(1, 8, 0, DecisionKind::Preempt, 2),
        ];
        recording.prepare(None);
        recording.add(later);
        recording.add(sooner);
        assert_eq!(recording.decisions(), Some(vec![sooner, later]));
        recording.prepare(Some(&[]));
        assert_eq!(recording.decisions(), Some(Vec::new()));
    }

    #[test]
    fn too_many_decisions_are_counted_and_not_returned() {
        let (_, recording) = Recording::new().expect("there is memory");
        recording.prepare(None);
        for step in 0..=MOST_DECISIONS as u64 {
            recording.add(decision(1, step, 0, DecisionKind::Preempt, 2));
        }
        assert_eq!(recording.decisions(), None);
        let last = recording.read_all(GIVEN + DECISION * (2 * MOST_DECISIONS - 1));
        let last = RunDecision::from_words(last).expect("the last one that fits");
        assert_eq!(last.point.step, MOST_DECISIONS as u64 - 1);
        assert_eq!(
            recording.number_of(ids()[0]),
            0,
            "nothing is written beyond"
        );
    }

    #[test]
    fn a_point_is_a_count_of_the_steps_of_a_process() {
        let (_, recording) = Recording::new().expect("there is memory");
        recording.prepare(None);
        let [first, second] = ids();
        recording.number(first);
        recording.number(second);
        recording.count(first, 1);
        recording.count(second, 1);
        let point = recording.count(first, 1);
        assert_eq!((point.process, point.step, point.again), (1, 2, 0));
        recording.leave(first);
        let again = recording.point_of(first);
        assert_eq!((again.step, again.again), (2, 1));
        assert_eq!(recording.count(first, 0), again);
        assert_eq!(recording.count(first, 1).again, 0);
        assert_eq!(recording.point_of(second).process, 2);
    }

    #[test]
    fn a_slot_that_is_used_again_counts_from_the_beginning() {
        let (_, recording) = Recording::new().expect("there is memory");
        recording.prepare(None);
        let first = ids()[0];
        recording.number(first);
        recording.count(first, 9);
        recording.leave(first);
        recording.number(first);
        let point = recording.point_of(first);
        assert_eq!((point.process, point.step, point.again), (2, 0, 0));
    }
}
