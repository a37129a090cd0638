//! Events that were read at once, with the names that they need.

use super::super::stacks;
use crate::wording::WORDING;
use baton_core::sched::{Blocker, ProcessId, State};
use baton_core::trace::{Reading, TraceEvent, What};
use baton_core::vm::View;
use baton_sys::clock::Instant;
use std::collections::HashSet;
use std::time::Duration;

/// The maximal number of events that are read in one look. All processes wait meanwhile: about a
/// tenth of a millisecond.
pub(super) const MOST: usize = 4096;

/// How many objects may be known before all of them are named anew.
const MOST_OBJECTS: usize = 100_000;

/// The maximal number of processes whose last state is told.
const MOST_STANDING: usize = 10_000;

/// Events, and what is known of what they name.
pub(super) struct Batch {
    pub(super) events: Vec<TraceEvent>,
    pub(super) reading: Reading,
    /// The number of the next event of the VM.
    pub(super) end: u64,
    pub(super) processes: Vec<Named>,
    pub(super) objects: Vec<(Blocker, String)>,
    /// Whether all objects are named anew from this batch on.
    pub(super) forgets_objects: bool,
}

impl Batch {
    /// Leaves out what was before `beginning`. What is lost was earlier, too.
    pub(super) fn keep_after(&mut self, beginning: Instant) {
        self.events.retain(|event| event.at >= beginning);
        self.reading.lost = 0;
    }

    /// Adds the next batch.
    pub(super) fn continue_with(&mut self, next: Batch) {
        self.events.extend(next.events);
        self.processes.extend(next.processes);
        self.objects.extend(next.objects);
        self.forgets_objects |= next.forgets_objects;
        (self.reading, self.end) = (next.reading, next.end);
    }
}

/// A process, its number, and the name that the program gave it.
pub(super) struct Named {
    pub(super) process: ProcessId,
    pub(super) number: u64,
    pub(super) name: String,
}

/// What a process was in at the end of the trace.
pub(super) struct Standing {
    pub(super) named: Named,
    pub(super) state: State,
    pub(super) blocker: Option<Blocker>,
    /// When it ran last, to some milliseconds.
    pub(super) since: Instant,
}

/// What earlier batches have named.
#[derive(Default)]
pub(super) struct Known {
    /// Generations of processes, by index; 0: none.
    processes: Vec<u32>,
    objects: HashSet<Blocker>,
}

impl Known {
    /// Whether the process is new.
    fn add(&mut self, process: ProcessId) -> bool {
        let index = process.index() as usize;
        if index >= self.processes.len() {
            self.processes.resize(index + 1, 0);
        }
        let before = std::mem::replace(&mut self.processes[index], process.generation());
        before != process.generation()
    }
}

/// Reads events from number `from` on.
pub(super) fn read(view: &mut View<'_>, from: u64, most: usize, known: &mut Known) -> Batch {
    let mut events = Vec::with_capacity(most.min(MOST));
    let reading = view.read_trace(from, most, &mut events);
    let (mut processes, mut objects) = (Vec::new(), Vec::new());
    let forgets_objects = known.objects.len() > MOST_OBJECTS;
    if forgets_objects {
        known.objects.clear();
    }
    for event in &events {
        let (process, by) = processes_of(event.what);
        for process in [process, by].into_iter().flatten() {
            if known.add(process) {
                processes.extend(named(view, process));
            }
        }
        if let What::Left {
            blocker: Some(blocker),
            ..
        } = event.what
            && !matches!(blocker, Blocker::Sleep | Blocker::Descriptor(_))
            && known.objects.insert(blocker)
            && let Some(name) = view.sched().name_of(blocker)
        {
            objects.push((blocker, name.to_owned()));
        }
    }
    Batch {
        events,
        reading,
        end: view.trace_end(),
        processes,
        objects,
        forgets_objects,
    }
}

/// The processes that are not running, as they are now.
pub(super) fn standing(view: &View<'_>) -> Vec<Standing> {
    let now = Instant::now();
    let sched = view.sched();
    let all = sched
        .iter()
        .filter(|&process| sched.current() != Some(process));
    let standing = all.take(MOST_STANDING).filter_map(|process| {
        Some(Standing {
            named: named(view, process)?,
            state: sched.state(process),
            blocker: sched.blocker(process),
            since: now - view.idle_for(process).unwrap_or(Duration::ZERO),
        })
    });
    standing.collect()
}

/// A living process.
fn named(view: &View<'_>, process: ProcessId) -> Option<Named> {
    let sched = view.sched();
    let record = sched
        .user_data(process)
        .filter(|_| sched.is_alive(process))?;
    let mut name = String::new();
    // A string takes all that is written to it.
    let _ = (WORDING.name)(record, &mut name);
    Some(Named {
        process,
        number: stacks::number(record),
        name,
    })
}

/// The process of an event, and the one that has caused it.
pub(super) fn processes_of(what: What) -> (Option<ProcessId>, Option<ProcessId>) {
    match what {
        What::Wakes { process, by, .. } | What::Spawned { process, by } => (Some(process), by),
        What::Runs { process, .. }
        | What::Left { process, .. }
        | What::Due { process, .. }
        | What::CallBegins { process, .. }
        | What::CallEnds { process }
        | What::Ended { process, .. }
        | What::Stalls { process } => (Some(process), None),
        What::IdleBegins { .. }
        | What::IdleEnds
        | What::GarbageBegins
        | What::GarbageEnds
        | What::Name(_) => (None, None),
    }
}
