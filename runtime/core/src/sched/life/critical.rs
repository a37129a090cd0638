//! Critical sections: while a process is inside of one, no other process runs.
//!
//! It has a level of its own then, above all that can be given to a process. So nobody is its equal
//! and nobody more urgent, and whatever asks who runs next (a yield, a preemption, a deadline)
//! finds the same process again, without asking about critical sections. What would have to wait is
//! told [`WakeReason::Forbidden`](crate::sched::WakeReason) instead.

use crate::sched::slab::NIL;
use crate::sched::{NotCritical, ProcessId, Scheduler};

impl<C> Scheduler<C> {
    /// The current process enters a critical section; they nest.
    ///
    /// ```
    /// use baton_core::sched::{Scheduler, Next, Priority, SpawnOptions};
    ///
    /// let mut sched: Scheduler<()> = Scheduler::new(10);
    /// sched.spawn(SpawnOptions::default(), ())?;
    /// let _ = sched.schedule();
    /// sched.enter_critical();
    /// let options = SpawnOptions { priority: Priority::HIGHEST, ..SpawnOptions::default() };
    /// let urgent = sched.spawn(options, ())?;
    /// assert_eq!(sched.schedule(), Next::Same);
    /// sched.leave_critical().expect("it is inside");
    /// assert_eq!(sched.schedule(), Next::Other(urgent));
    /// # Ok::<(), baton_core::sched::ProcessLimit>(())
    /// ```
    pub fn enter_critical(&mut self) {
        self.set_critical(|critical| critical + 1);
    }

    /// The current process leaves a critical section. Whether it has to give way then,
    /// `current_should_yield` says.
    ///
    /// # Errors
    /// Outside of critical sections; nothing has changed then.
    pub fn leave_critical(&mut self) -> Result<(), NotCritical> {
        if !self.is_critical() {
            return Err(NotCritical);
        }
        self.set_critical(|critical| critical - 1);
        Ok(())
    }

    /// Whether the current process is in a critical section.
    #[inline]
    pub fn is_critical(&self) -> bool {
        self.current != NIL && self.processes[self.current].critical > 0
    }

    /// Whether a process left critical sections when it suspended itself, and has not run since.
    #[inline]
    pub fn has_left_critical(&self, pid: ProcessId) -> bool {
        self.processes
            .find(pid)
            .is_some_and(|index| self.processes[index].critical_left > 0)
    }

    /// The current process had suspended itself inside of critical sections, and runs again: it is
    /// inside as before.
    pub fn reenter_critical(&mut self) {
        if self.current != NIL && self.processes[self.current].critical_left > 0 {
            let left = std::mem::take(&mut self.processes[self.current].critical_left);
            self.set_critical(|critical| critical + left);
        }
    }

    /// The current process is about to suspend itself: others run until it is resumed.
    pub(super) fn leave_critical_to_suspend(&mut self, index: u32) {
        let process = &mut self.processes[index];
        if process.critical > 0 {
            process.critical_left = std::mem::take(&mut process.critical);
            self.inherit(index);
        }
    }

    fn set_critical(&mut self, change: impl FnOnce(u32) -> u32) {
        if self.current != NIL {
            let process = &mut self.processes[self.current];
            process.critical = change(process.critical);
            self.inherit(self.current);
        }
    }
}
