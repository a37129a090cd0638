//! Killing: a request that a process cannot refuse, only put off.
//!
//! The scheduler counts kills and ends waits; that the process then raises the kill is the
//! executor's part. While a process *holds* kills, the first one changes nothing but that; a second
//! one, while the first is put off, abandons the hold. Otherwise a second kill adds nothing to the
//! first.

use crate::sched::process::Phase;
use crate::sched::{KillOutcome, ProcessId, Scheduler, Wake, WakeReason};

impl<C> Scheduler<C> {
    /// Kills a process.
    ///
    /// ```
    /// use baton_core::sched::{Attempt, Scheduler, KillOutcome, Next, SpawnOptions, WakeReason};
    /// use baton_sys::clock::Instant;
    ///
    /// let mut sched: Scheduler<()> = Scheduler::new(10);
    /// let sleeper = sched.spawn(SpawnOptions::default(), ())?;
    /// let _ = sched.schedule();
    /// assert_eq!(sched.sleep(Instant::from_nanos(1000)), Attempt::Blocked);
    /// assert_eq!(sched.kill(sleeper), KillOutcome::Woken);
    /// assert_eq!(sched.schedule(), Next::Other(sleeper));
    /// assert_eq!(sched.take_wake(sleeper).reason, WakeReason::Killed);
    /// assert!(sched.kill_is_due(sleeper)); // until it has ended
    /// # Ok::<(), baton_core::sched::ProcessLimit>(())
    /// ```
    pub fn kill(&mut self, pid: ProcessId) -> KillOutcome {
        let Some(index) = self.processes.find_alive(pid) else {
            return KillOutcome::AlreadyDead;
        };
        let process = &mut self.processes[index];
        let is_put_off = process.holds_kills || process.relock.is_some();
        process.kills = if process.kills > 0 && is_put_off {
            2
        } else {
            process.kills.max(1)
        };
        self.counters.kills += 1;
        if !self.processes[index].kill_is_due() {
            return KillOutcome::Held;
        }
        if index == self.current {
            return KillOutcome::IsCurrent;
        }
        self.deliver_kill(index)
    }

    /// Whether a process is to die at its next safepoint: it was killed, and does not hold kills or
    /// was killed again.
    #[inline]
    pub fn kill_is_due(&self, pid: ProcessId) -> bool {
        self.processes
            .find_alive(pid)
            .is_some_and(|index| self.processes[index].kill_is_due())
    }

    /// 0: a process was not killed; 1: it was; 2: and again, while it put the first one off.
    pub fn kill_count(&self, pid: ProcessId) -> u32 {
        self.processes
            .find(pid)
            .map_or(0, |index| self.processes[index].kills)
    }

    /// Begins or ends a hold. A kill that was put off is due when the hold ends, and may be put off
    /// once more by another hold.
    #[inline]
    pub fn set_kill_hold(&mut self, pid: ProcessId, holds: bool) {
        let Some(index) = self.processes.find_alive(pid) else {
            return;
        };
        let process = &mut self.processes[index];
        // What was abandoned, by a second kill, is over: another hold, or the way back to a
        // condition's mutex.
        if process.holds_kills != holds {
            process.kills = process.kills.min(1);
        }
        process.holds_kills = holds;
        if process.kill_is_due() && index != self.current {
            let _ = self.deliver_kill(index);
        }
    }

    /// Takes back all kills of a process that lives on: it has been told, and has something left to
    /// do.
    pub fn pardon(&mut self, pid: ProcessId) {
        if let Some(index) = self.processes.find_alive(pid) {
            self.processes[index].kills = 0;
        }
    }

    /// Whether a process holds kills.
    pub fn holds_kills(&self, pid: ProcessId) -> bool {
        self.processes
            .find_alive(pid)
            .is_some_and(|index| self.processes[index].holds_kills)
    }

    /// Ends whatever blocks a process whose kill is due.
    fn deliver_kill(&mut self, index: u32) -> KillOutcome {
        let killed = Wake::because(WakeReason::Killed);
        match self.processes[index].phase {
            Phase::Waiting | Phase::Sleeping => {
                self.processes[index].suspended = false;
                self.end_wait_by_kill(index);
                KillOutcome::Woken
            }
            Phase::Halted => {
                // A wait that ended while the process was suspended has given it something: that
                // is not taken back, and the kill is seen at the next safepoint.
                if !self.processes[index].has_wake {
                    self.processes[index].wake = killed;
                    self.processes[index].has_wake = true;
                }
                self.end_suspension(index);
                KillOutcome::Woken
            }
            _ => {
                self.processes[index].suspended = false;
                KillOutcome::Pending
            }
        }
    }

    /// A process that locks its mutex again after a condition's wait stays in the mutex's queue,
    /// but for a second kill.
    fn end_wait_by_kill(&mut self, index: u32) {
        let process = &mut self.processes[index];
        if process.relock.is_some() && process.kills > 1 {
            process.relock = None;
        }
        if process.relock.is_some() && self.is_relocking(index) {
            self.processes[index].wake = Wake::because(WakeReason::Killed);
            return;
        }
        self.wake_process(index, Wake::because(WakeReason::Killed));
    }
}
