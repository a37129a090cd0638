//! Decay: a process that uses up whole slices sinks a level until it waits.
//!
//! A process that was spawned with the option `decay` has one of two levels: its own, or the one
//! below, to which it has *sunk*. So those that compute run behind those that wait often, and these
//! preempt them, although all were given the same priority. Other processes pay nothing for it: the
//! end of a slice and the end of a run ask, and no yield does.
//!
//! | from | to | by |
//! |---|---|---|
//! | own level | sunk | [`Scheduler::sink_current`], at the end of a whole slice |
//! | sunk | sunk, with a later deadline | the same |
//! | sunk | own level | [`Scheduler::come_back`]: it begins to wait, is suspended or is out in a foreign call; or its deadline is due |
//! | sunk | own level | [`Scheduler::set_priority`] |
//!
//! The deadline bounds the starvation of a process that has sunk: if it does not use up another
//! slice within [`LONGEST_SUNK`], it comes back for one. So it waits at most that long, then as
//! long as any process of its own level.
//!
//! Rejected: docs/adr/0082-a-process-that-computes-sinks-a-level.md

use crate::sched::slab::NIL;
use crate::sched::time::deadlines::Owner;
use crate::sched::{Priority, ProcessId, Scheduler};
use baton_sys::clock::Instant;
use std::time::Duration;

/// The longest time that a process that has sunk goes without the use of a whole slice.
pub(in crate::sched) const LONGEST_SUNK: Duration = Duration::from_secs(1);

/// Whether a process sinks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::sched) enum Decay {
    /// It never sinks.
    Never,
    /// It is at its own level.
    OwnLevel,
    /// It is a level below its own.
    Sunk,
}

impl Decay {
    pub(in crate::sched) fn of_option(decays: bool) -> Decay {
        match decays {
            true => Decay::OwnLevel,
            false => Decay::Never,
        }
    }

    #[inline]
    pub(in crate::sched) fn has_sunk(self) -> bool {
        self == Decay::Sunk
    }

    /// The priority that a process was given, whose present own priority is `own`.
    pub(in crate::sched) fn given(self, own: Priority) -> Priority {
        match self {
            Decay::Sunk => Priority::new(own.get() + 1).unwrap_or(own),
            Decay::Never | Decay::OwnLevel => own,
        }
    }
}

impl<C> Scheduler<C> {
    /// Whether a process was spawned with the option `decay`.
    pub fn decays(&self, pid: ProcessId) -> bool {
        let index = self.processes.find(pid);
        index.is_some_and(|index| self.processes[index].decay != Decay::Never)
    }

    /// Whether a process has sunk below its own level.
    pub fn has_sunk(&self, pid: ProcessId) -> bool {
        let index = self.processes.find(pid);
        index.is_some_and(|index| self.processes[index].decay.has_sunk())
    }

    /// Notes that the current process has used up a whole slice at `now`: if it decays, it sinks a
    /// level. Called before the preemption at the end of the slice. At the lowest level, it stays.
    ///
    /// ```
    /// use baton_core::sched::{Next, Preemption, Scheduler, SpawnOptions};
    /// use baton_sys::clock::Instant;
    ///
    /// let mut sched: Scheduler<()> = Scheduler::new(10);
    /// let decaying = SpawnOptions { decay: true, ..SpawnOptions::default() };
    /// let computing = sched.spawn(decaying, ())?;
    /// let other = sched.spawn(SpawnOptions::default(), ())?;
    /// assert_eq!(sched.schedule(), Next::Other(computing));
    /// sched.sink_current(|| Instant::from_nanos(10));
    /// assert!(sched.has_sunk(computing));
    /// assert_eq!(sched.preempt_current(Preemption::SliceExpired), Next::Other(other));
    /// assert_eq!(sched.yield_current(), Next::Same); // `computing` is less urgent now
    /// # Ok::<(), baton_core::sched::ProcessLimit>(())
    /// ```
    #[inline]
    pub fn sink_current(&mut self, now: impl FnOnce() -> Instant) {
        let index = self.current;
        if index != NIL && self.processes[index].decay != Decay::Never {
            self.sink(index, now());
        }
    }

    #[cold]
    fn sink(&mut self, index: u32, now: Instant) {
        let process = &mut self.processes[index];
        if process.decay == Decay::OwnLevel {
            let Some(lower) = Priority::new(process.own_priority.get() - 1) else {
                return;
            };
            process.decay = Decay::Sunk;
            process.own_priority = lower;
            self.inherit(index);
        }
        let longest = LONGEST_SUNK.as_nanos() as u64;
        let due = now.as_nanos().saturating_add(longest);
        self.deadlines.set(Owner::Decay(index), due);
    }

    /// Brings a process that has sunk back to its own level: to its back, or to its place in the
    /// queues in which it has begun to wait.
    #[cold]
    pub(in crate::sched) fn come_back(&mut self, index: u32) {
        self.forget_sinking(index);
        self.inherit(index);
    }

    /// As [`Scheduler::come_back`], before another change of the priority.
    pub(in crate::sched) fn forget_sinking(&mut self, index: u32) {
        let process = &mut self.processes[index];
        if process.decay.has_sunk() {
            process.own_priority = process.decay.given(process.own_priority);
            process.decay = Decay::OwnLevel;
            self.deadlines.cancel(Owner::Decay(index));
        }
    }
}
