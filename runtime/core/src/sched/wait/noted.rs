//! Notes of waits that have ended, for a trace. The executor turns them on and takes them.

use crate::sched::{ProcessId, Scheduler, WakeReason};
use baton_sys::ticks::Ticks;

/// A wait that has ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NotedWake {
    pub(crate) at: Ticks,
    pub(crate) process: ProcessId,
    /// The process that is current, or was last; `None` if a deadline or something outside of the
    /// VM has ended the wait.
    pub(crate) by: Option<ProcessId>,
    pub(crate) reason: WakeReason,
    /// The deadline that came.
    pub(crate) due: Option<u64>,
}

/// The number of notes for which there is room.
const ROOM: usize = 1 << 13;

/// The notes. None are made unless there is a clock: the scheduler itself reads none.
#[derive(Debug, Default)]
pub(in crate::sched) struct NotedWakes {
    clock: Option<fn() -> Ticks>,
    noted: Vec<NotedWake>,
    /// The deadline that is being handled.
    due: Option<u64>,
    /// What is being handled was caused by no process.
    is_from_outside: bool,
    /// When the first wait was ended by no process. Those that follow at once share this reading
    /// of the clock.
    since: Option<Ticks>,
}

impl NotedWakes {
    #[inline]
    pub(in crate::sched) fn is_noted(&self) -> bool {
        self.clock.is_some()
    }

    #[inline]
    pub(in crate::sched) fn set_due(&mut self, due: Option<u64>) {
        self.due = due;
        if due.is_none() {
            self.since = None;
        }
    }
}

impl<C> Scheduler<C> {
    /// Notes waits that end from now on, with the time by this clock; `None` ends that.
    pub(crate) fn note_wakes(&mut self, clock: Option<fn() -> Ticks>) {
        self.wakes.clock = clock;
        self.wakes.noted = Vec::new();
        // Room for many is not in the way of the guest's objects (see `trace/ring.rs`). Without
        // memory for it, nothing is noted.
        let room = if clock.is_some() { ROOM } else { 0 };
        let _ = self.wakes.noted.try_reserve_exact(room);
    }

    /// Says whether what is done from now on comes from outside of the VM, and not from the current
    /// process.
    #[inline]
    pub(crate) fn set_from_outside(&mut self, is_from_outside: bool) {
        self.wakes.is_from_outside = is_from_outside;
        self.wakes.since = None;
    }

    #[inline]
    pub(crate) fn has_noted_wakes(&self) -> bool {
        !self.wakes.noted.is_empty()
    }

    /// Hands the notes so far to `f`, in order, and forgets them.
    #[inline]
    pub(crate) fn take_noted_wakes(&mut self, mut f: impl FnMut(&NotedWake)) {
        self.wakes.noted.iter().for_each(&mut f);
        self.wakes.noted.clear();
    }

    #[cold]
    #[inline(never)]
    pub(in crate::sched) fn note_wake(&mut self, index: u32, reason: WakeReason) {
        let Some(clock) = self.wakes.clock else {
            return;
        };
        let due = self.wakes.due;
        let has_waker = due.is_none() && !self.wakes.is_from_outside;
        let note = NotedWake {
            at: match has_waker {
                true => clock(),
                false => *self.wakes.since.get_or_insert_with(clock),
            },
            process: self.processes.id(index),
            by: self
                .current()
                .or_else(|| self.last_current())
                .filter(|_| has_waker),
            reason,
            due,
        };
        // One operation may end more waits than there is room for: then the rest is left out.
        if self.wakes.noted.len() < self.wakes.noted.capacity() {
            self.wakes.noted.push(note);
        }
    }
}
