//! Earliest deadline first, among processes of one priority.
//!
//! A process may have a *due time*: when its present work must be done. Among runnable equals, the
//! process with the earliest due time runs first; processes without one come last. A due time does
//! not preempt, as a newly runnable equal never does. When a process with a due time yields, or its
//! slice is over, it goes behind those that are due as early. If there are none, it continues.

use baton_sys::clock::Instant;

use crate::sched::process::{NO_DUE_TIME, Phase};
use crate::sched::{ProcessId, Scheduler};

impl<C> Scheduler<C> {
    /// Sets or removes the due time of a process. It moves within its level at once; the current
    /// process keeps its place. Returns whether it is alive.
    ///
    /// ```
    /// use baton_core::sched::{Scheduler, Next, SpawnOptions};
    /// use baton_sys::clock::Instant;
    ///
    /// let mut sched: Scheduler<()> = Scheduler::new(10);
    /// let first = sched.spawn(SpawnOptions::default(), ())?;
    /// let pressed = sched.spawn(SpawnOptions::default(), ())?;
    /// sched.set_due_time(pressed, Some(Instant::from_nanos(1_000)));
    /// assert_eq!(sched.schedule(), Next::Other(pressed));
    /// sched.exit_current();
    /// assert_eq!(sched.schedule(), Next::Other(first));
    /// # Ok::<(), baton_core::sched::ProcessLimit>(())
    /// ```
    pub fn set_due_time(&mut self, pid: ProcessId, due: Option<Instant>) -> bool {
        let Some(index) = self.processes.find_alive(pid) else {
            return false;
        };
        self.forget_due_time(index);
        if let Some(due) = due {
            self.processes[index].due = due.as_nanos().min(NO_DUE_TIME - 1);
            self.with_due_time += 1;
        }
        if self.processes[index].phase == Phase::Ready && index != self.current {
            self.leave_run_queue(index);
            self.make_ready(index);
        }
        true
    }

    /// The due time of a process.
    pub fn due_time(&self, pid: ProcessId) -> Option<Instant> {
        let due = self.processes[self.processes.find(pid)?].due;
        (due != NO_DUE_TIME).then(|| Instant::from_nanos(due))
    }

    /// Removes the due time of a process, when it has ended or gets another one.
    pub(in crate::sched) fn forget_due_time(&mut self, index: u32) {
        if std::mem::replace(&mut self.processes[index].due, NO_DUE_TIME) != NO_DUE_TIME {
            self.with_due_time -= 1;
        }
    }
}
