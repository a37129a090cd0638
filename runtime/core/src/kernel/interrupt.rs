//! Interrupting a wait: the process goes on with an error that it may handle, unlike a kill.

use super::process::Phase;
use super::{Kernel, ProcessId, Wake, WakeReason};

impl<C> Kernel<C> {
    /// Ends the wait or sleep of a process with [`WakeReason::Interrupted`]; a suspended process stays
    /// suspended. Says whether it waited at all; if not, the executor has the process raise the interrupt
    /// at its next safepoint.
    ///
    /// ```
    /// use baton_core::kernel::{Attempt, Kernel, SpawnOptions, WakeReason};
    /// use baton_sys::clock::Instant;
    ///
    /// let mut kernel: Kernel<()> = Kernel::new(10);
    /// let sleeper = kernel.spawn(SpawnOptions::default(), ())?;
    /// let _ = kernel.schedule();
    /// assert!(!kernel.interrupt(sleeper));
    /// assert_eq!(kernel.sleep(Instant::from_nanos(1000)), Attempt::Blocked);
    /// assert!(kernel.interrupt(sleeper));
    /// let _ = kernel.schedule();
    /// assert_eq!(kernel.take_wake(sleeper).reason, WakeReason::Interrupted);
    /// # Ok::<(), baton_core::kernel::ProcessLimit>(())
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
            Phase::Waiting if self.processes[index].relock.is_some() && self.is_relocking(index) => {
                self.processes[index].wake = interrupted;
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
