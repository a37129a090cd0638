//! Suspending and resuming a process, whatever else its state is.
//!
//! A wait continues while the process is suspended. When it ends, the process stays in the phase
//! `Halted`, with its wake unread, until it is resumed.

use crate::sched::process::Phase;
use crate::sched::{ProcessId, ResumeOutcome, Scheduler, SuspendOutcome, Wake, WakeReason};

impl<C> Scheduler<C> {
    /// Suspends a process in any state.
    pub fn suspend(&mut self, pid: ProcessId) -> SuspendOutcome {
        let Some(index) = self.processes.find_alive(pid) else {
            return SuspendOutcome::Dead;
        };
        let process = &mut self.processes[index];
        if process.kill_is_due() {
            return SuspendOutcome::Killed;
        }
        if process.suspended {
            return SuspendOutcome::Already;
        }
        process.suspended = true;
        if index == self.current {
            self.leave_critical_to_suspend(index);
        }
        if matches!(self.processes[index].phase, Phase::Ready | Phase::Aside) {
            self.leave_run_queue(index);
            self.set_phase(index, Phase::Halted);
            if self.processes[index].decay.has_sunk() {
                self.come_back(index);
            }
            // It may have given way in the middle of a foreign function. Processes that need its
            // carrier must not wait until it is resumed.
            if let Some(carrier) = self.processes[index].pinned {
                self.release(carrier, pid);
            }
        }
        if index != self.current {
            return SuspendOutcome::Suspended;
        }
        let process = &mut self.processes[index];
        process.wake = Wake::because(WakeReason::Done);
        process.has_wake = false;
        self.clear_current();
        SuspendOutcome::CurrentMustSwitch
    }

    /// Resumes a suspended process.
    pub fn resume(&mut self, pid: ProcessId) -> ResumeOutcome {
        let Some(index) = self.processes.find_alive(pid) else {
            return ResumeOutcome::Dead;
        };
        if !self.processes[index].suspended {
            return ResumeOutcome::NotSuspended;
        }
        self.end_suspension(index);
        ResumeOutcome::Resumed
    }

    /// Whether a process is suspended.
    pub fn is_suspended(&self, pid: ProcessId) -> bool {
        self.processes
            .find_alive(pid)
            .is_some_and(|index| self.processes[index].suspended)
    }

    pub(super) fn end_suspension(&mut self, index: u32) {
        self.processes[index].suspended = false;
        if self.processes[index].phase == Phase::Halted {
            if self.wakes.is_noted() {
                self.note_wake(index, WakeReason::Done);
            }
            self.make_ready(index);
        }
    }
}
