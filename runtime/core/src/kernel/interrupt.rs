//! Interrupting a wait: the process goes on with an error that it may handle, unlike a kill.

use super::process::Phase;
use super::{Kernel, ProcessId, Wake, WakeReason};

impl<C> Kernel<C> {
    /// Ends the wait or sleep of a process with [`WakeReason::Interrupted`]; a suspended process stays
    /// suspended. Says whether it waited at all; if not, the executor has the process raise the interrupt
    /// at its next safepoint.
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
