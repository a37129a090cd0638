//! Reports of native threads that a call of one process has held for long, while other processes
//! can run nowhere else.
//!
//! The owner notes held threads whenever it updates the hints. The time of the next report is one
//! more deadline. A call that gives way in its middle (`lock/kept.rs`) releases its thread for
//! short moments in which the others are not chosen. So a thread that was held a short time ago
//! counts as held throughout.

use crate::sched::{CarrierId, ProcessId};
use crate::vm::{Inner, Inside};
use baton_sys::clock::Instant;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// If a thread was released for longer than this, its next hold is a new one.
const LATELY: Duration = Duration::from_millis(50);

/// A native thread that is held.
#[derive(Debug, Clone, Copy)]
struct HeldThread {
    carrier: CarrierId,
    holder: ProcessId,
    waiter: ProcessId,
    since: Instant,
    last_seen: Instant,
    is_held: bool,
    is_reported: bool,
}

/// All held threads. The owner's.
#[derive(Debug, Default)]
pub(in crate::vm) struct HeldThreads(Vec<HeldThread>);

impl HeldThreads {
    pub(in crate::vm) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn note(
        &mut self,
        now: Instant,
        held: impl Iterator<Item = (CarrierId, ProcessId, ProcessId)>,
    ) {
        // What was held at the last note was held until now.
        for held in self.0.iter_mut().filter(|held| held.is_held) {
            (held.last_seen, held.is_held) = (now, false);
        }
        for (carrier, holder, waiter) in held {
            let known = self.0.iter_mut().find(|held| {
                held.carrier == carrier && held.holder == holder && now < held.last_seen + LATELY
            });
            match known {
                Some(known) => (known.last_seen, known.waiter, known.is_held) = (now, waiter, true),
                None => self.0.push(HeldThread {
                    carrier,
                    holder,
                    waiter,
                    since: now,
                    last_seen: now,
                    is_held: true,
                    is_reported: false,
                }),
            }
        }
        self.0
            .retain(|held| held.is_held || now < held.last_seen + LATELY);
    }

    /// When the next report is due.
    pub(in crate::vm) fn next(&self, patience: Duration) -> Option<Instant> {
        let unreported = self
            .0
            .iter()
            .filter(|held| held.is_held && !held.is_reported);
        unreported.map(|held| held.since + patience).min()
    }

    /// Takes a hold that is due for a report: the holder, and a process that waits for its thread.
    /// The holder may be `current`, between two moments in which it gives way. In one of those the
    /// process that waited may have ended. Then nobody waits, until the next one is noted.
    fn take_due(
        &mut self,
        now: Instant,
        patience: Duration,
        current: Option<ProcessId>,
        is_alive: impl Fn(ProcessId) -> bool,
    ) -> Option<(ProcessId, ProcessId)> {
        let due = self.0.iter_mut().find(|held| {
            let holds = held.is_held || current == Some(held.holder) && is_alive(held.waiter);
            holds && !held.is_reported && now >= held.since + patience
        })?;
        due.is_reported = true;
        Some((due.holder, due.waiter))
    }
}

impl Inner {
    /// Notes held threads. To be called when processes are kept aside, or were.
    #[cold]
    #[inline(never)]
    pub(in crate::vm) fn note_held_threads(&mut self) {
        let held = self.sched.held_carriers();
        self.held_threads.note(Instant::now(), held);
    }
}

impl Inside<'_> {
    /// Reports the threads that have been held for long. Inside the VM.
    #[cold]
    pub(in crate::vm) fn report_held_threads(&self) {
        let patience = self.parameters.warn_blocked.get();
        while let Some((holder, waiter, is_bound)) = self.with_inner(|inner| {
            inner.note_held_threads();
            let Inner {
                held_threads,
                sched,
                ..
            } = inner;
            let (now, current) = (Instant::now(), sched.current());
            let (holder, waiter) =
                held_threads.take_due(now, patience, current, |process| sched.is_alive(process))?;
            let is_bound = sched.pinned(waiter).is_none();
            Some((sched.user_data(holder)?, sched.user_data(waiter)?, is_bound))
        }) {
            // Relaxed (both): read under the VM's mutex after a take, which orders it.
            let retaking = self.retaking.swap(false, Ordering::Relaxed);
            self.reborrow()
                .foreign(|| self.guest.warn_thread(holder, waiter, is_bound));
            self.retaking.store(retaking, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    fn id(number: u64) -> ProcessId {
        ProcessId::from_bits(number | 1 << 32).expect("an id is not zero")
    }

    const PATIENCE: Duration = Duration::from_millis(100);

    fn lives(_: ProcessId) -> bool {
        true
    }

    #[test]
    fn a_thread_held_for_long_is_reported_once() {
        let mut threads = HeldThreads::default();
        let held = || [(CarrierId(1), id(1), id(2))].into_iter();
        threads.note(at(0), held());
        assert_eq!(threads.next(PATIENCE), Some(at(100)));
        threads.note(at(99), held());
        assert_eq!(threads.take_due(at(99), PATIENCE, None, lives), None);
        assert_eq!(
            threads.take_due(at(100), PATIENCE, None, lives),
            Some((id(1), id(2)))
        );
        assert_eq!(threads.take_due(at(500), PATIENCE, None, lives), None);
        assert_eq!(threads.next(PATIENCE), None);
        threads.note(at(600), std::iter::empty());
        assert_eq!(threads.next(PATIENCE), None);
        threads.note(at(700), std::iter::empty());
        assert!(threads.is_empty());
    }

    #[test]
    fn a_moment_in_which_it_is_free_does_not_count_and_a_longer_one_does() {
        let mut threads = HeldThreads::default();
        let held = || [(CarrierId(1), id(1), id(2))].into_iter();
        for moment in [0, 20, 40, 60] {
            threads.note(at(moment), held());
            threads.note(at(moment + 10), std::iter::empty());
        }
        assert_eq!(threads.next(PATIENCE), None);
        let mut others = HeldThreads(threads.0.clone());
        assert_eq!(others.take_due(at(101), PATIENCE, Some(id(2)), lives), None);
        assert_eq!(
            others.take_due(at(101), PATIENCE, Some(id(1)), lives),
            Some((id(1), id(2)))
        );
        threads.note(at(80), held());
        assert_eq!(threads.next(PATIENCE), Some(at(100)));
        threads.note(at(90), std::iter::empty());
        threads.note(at(200), held());
        assert_eq!(threads.next(PATIENCE), Some(at(300)));
    }

    #[test]
    fn a_process_that_has_ended_waits_for_no_thread_and_the_next_one_does() {
        let mut threads = HeldThreads::default();
        let holder = Some(id(1));
        let ended = |process| process != id(2);
        threads.note(at(0), [(CarrierId(1), id(1), id(2))].into_iter());
        threads.note(at(95), std::iter::empty());
        assert_eq!(threads.take_due(at(101), PATIENCE, holder, ended), None);
        threads.note(at(102), [(CarrierId(1), id(1), id(3))].into_iter());
        assert_eq!(
            threads.take_due(at(103), PATIENCE, holder, ended),
            Some((id(1), id(3)))
        );
    }
}
