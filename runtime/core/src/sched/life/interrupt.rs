//! Interrupting a wait: unlike a kill, it raises an error that the process may handle.

use crate::sched::process::Phase;
use crate::sched::{ProcessId, Scheduler, Wake, WakeReason};

impl<C> Scheduler<C> {
    /// Ends the wait or sleep of a process with [`WakeReason::Interrupted`]; a suspended process
    /// stays suspended. Returns whether it waited. If not, the executor makes the process raise the
    /// interrupt at its next safepoint.
    ///
    /// ```
    /// use baton_core::sched::{Attempt, Scheduler, SpawnOptions, WakeReason};
    /// use baton_sys::clock::Instant;
    ///
    /// let mut sched: Scheduler<()> = Scheduler::new(10);
    /// let sleeper = sched.spawn(SpawnOptions::default(), ())?;
    /// let _ = sched.schedule();
    /// assert!(!sched.interrupt(sleeper));
    /// assert_eq!(sched.sleep(Instant::from_nanos(1000)), Attempt::Blocked);
    /// assert!(sched.interrupt(sleeper));
    /// let _ = sched.schedule();
    /// assert_eq!(sched.take_wake(sleeper).reason, WakeReason::Interrupted);
    /// # Ok::<(), baton_core::sched::ProcessLimit>(())
    /// ```
    pub fn interrupt(&mut self, pid: ProcessId) -> bool {
        let Some(index) = self.processes.find_alive(pid) else {
            return false;
        };
        let interrupted = Wake::because(WakeReason::Interrupted);
        match self.processes[index].phase {
            Phase::Sleeping => {
                self.wake_process(index, interrupted);
                true
            }
            Phase::Waiting if self.is_relocking(index) => {
                self.end_relock(index, interrupted);
                true
            }
            Phase::Waiting => {
                self.wake_process(index, interrupted);
                true
            }
            _ => false,
        }
    }
}
