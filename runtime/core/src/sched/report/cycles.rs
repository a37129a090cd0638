//! Detects cycles of locks: processes that wait for each other's locks, and so for ever.
//!
//! A process searches before it waits. It follows the holders of the wanted lock, and the locks
//! that these wait for, back to itself. Only waits that nothing else can end count: for one lock,
//! without a deadline. So a cycle with a timeout does not count, nor does one through a select
//! of several cases. The search ends at a process that holds a lock and waits for something else.

use crate::sched::process::Phase;
use crate::sched::slab::NIL;
use crate::sched::time::deadlines::Owner;
use crate::sched::wait::waiters::Kind;
use crate::sched::{Blocker, ProcessId, RwLockId, Scheduler};

/// The most waits that one search follows. A longer cycle is not found.
const MOST_FOLLOWED: usize = 10_000;

/// One part of a cycle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Link {
    /// A process.
    pub process: ProcessId,
    /// What it waits for: the next process of the cycle holds it.
    pub waits_for: Blocker,
}

/// A wait that the search has followed.
struct Step {
    process: u32,
    waits_for: Blocker,
    /// The step before this one.
    before: usize,
}

impl<C> Scheduler<C> {
    /// The cycle that the current process would close by waiting for a lock without a deadline. The
    /// current process comes first. Each process is followed by the holder of the lock that it
    /// waits for.
    ///
    /// ```
    /// use baton_core::sched::{Attempt, Blocker, Deadline, Scheduler, SpawnOptions};
    ///
    /// let mut sched: Scheduler<()> = Scheduler::new(10);
    /// let mutexes = [0; 2].map(|_| sched.mutex_new());
    /// let mut spawn = || sched.spawn(SpawnOptions::default(), ()).expect("there is room");
    /// let processes = [spawn(), spawn()];
    /// for (process, mutex) in processes.into_iter().zip(mutexes) {
    ///     let _ = sched.switch_to(process);
    ///     let _ = sched.mutex_lock(mutex, Deadline::Never);
    /// }
    /// assert_eq!(sched.cycle_closed_by(Blocker::Mutex(mutexes[0])), None);
    /// assert_eq!(sched.mutex_lock(mutexes[0], Deadline::Never), Ok(Attempt::Blocked));
    /// let _ = sched.switch_to(processes[0]);
    /// let cycle = sched.cycle_closed_by(Blocker::Mutex(mutexes[1]));
    /// let cycle = cycle.expect("each has what the other wants");
    /// assert_eq!([cycle[0].process, cycle[1].process], processes);
    /// ```
    pub fn cycle_closed_by(&self, wanted: Blocker) -> Option<Vec<Link>> {
        let me = self.current;
        if me == NIL || !self.may_close_cycle(wanted) {
            return None;
        }
        let mut steps = vec![Step {
            process: me,
            waits_for: wanted,
            before: 0,
        }];
        let mut seen = std::collections::HashSet::new();
        let mut at = 0;
        while let Some(step) = steps.get(at) {
            let waits_for = step.waits_for;
            for holder in self.holders_of(waits_for) {
                if holder == me {
                    return Some(self.links_back_from(&steps, at));
                }
                let Some(waits_for) = self.endless_wait_for_lock(holder) else {
                    continue;
                };
                if steps.len() < MOST_FOLLOWED && seen.insert(holder) {
                    let (process, before) = (holder, at);
                    steps.push(Step {
                        process,
                        waits_for,
                        before,
                    });
                }
            }
            at += 1;
        }
        None
    }

    /// Whether a holder of the lock waits for a lock itself, or is the current process. Most do
    /// not. Then there is nothing to search.
    fn may_close_cycle(&self, wanted: Blocker) -> bool {
        let mut holders = self.holders_of(wanted);
        holders.any(|holder| holder == self.current || self.endless_wait_for_lock(holder).is_some())
    }

    fn links_back_from(&self, steps: &[Step], last: usize) -> Vec<Link> {
        let before = |&at: &usize| (at != 0).then(|| steps[at].before);
        let link = |at: usize| Link {
            process: self.processes.id(steps[at].process),
            waits_for: steps[at].waits_for,
        };
        let mut links: Vec<Link> = std::iter::successors(Some(last), before)
            .map(link)
            .collect();
        links.reverse();
        links
    }

    /// The lock that a process waits for, if nothing but that lock ends the wait.
    fn endless_wait_for_lock(&self, index: u32) -> Option<Blocker> {
        let process = &self.processes[index];
        if process.phase != Phase::Waiting || process.waiters == NIL {
            return None;
        }
        let node = self.waiters.node(process.waiters);
        if node.sibling != NIL || self.deadlines.of(Owner::Process(index)).is_some() {
            return None;
        }
        let object = node.ticket.object;
        match node.ticket.kind {
            Kind::Mutex => self.mutex_id(object).map(Blocker::Mutex),
            Kind::Read => self
                .rwlocks
                .key_at(object)
                .map(|key| Blocker::Read(RwLockId(key))),
            Kind::Write => self
                .rwlocks
                .key_at(object)
                .map(|key| Blocker::Write(RwLockId(key))),
            _ => None,
        }
    }
}
