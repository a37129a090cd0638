//! Critical sections: while a process is in one, no other process runs.
//!
//! The process then has a priority level of its own, above all that can be given. So no process is
//! equal or more urgent. A yield, a preemption or a deadline chooses the same process again,
//! without special cases. An operation that would wait ends with
//! [`WakeReason::Forbidden`](crate::sched::WakeReason).

use crate::sched::slab::NIL;
use crate::sched::{NotCritical, ProcessId, Scheduler};

impl<C> Scheduler<C> {
    /// Makes the current process enter a critical section. Sections nest.
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

    /// Makes the current process leave a critical section. Afterwards `current_should_yield` says
    /// whether it must give way.
    ///
    /// # Errors
    /// Outside of critical sections. Nothing changes.
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

    /// Makes the current process enter again the critical sections that it left when it suspended
    /// itself.
    pub fn reenter_critical(&mut self) {
        if self.current != NIL && self.processes[self.current].critical_left > 0 {
            let left = std::mem::take(&mut self.processes[self.current].critical_left);
            self.set_critical(|critical| critical + left);
        }
    }

    /// Makes the current process leave its critical sections, as it is about to suspend itself.
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
