//! Killing a process. A process can defer a kill, but not refuse it.
//!
//! The scheduler counts kills and ends waits; the executor makes the process raise the kill. While
//! a process *holds* kills, the first kill is deferred. A second one, while the first is deferred,
//! cancels the hold. In all other cases a second kill has no effect.

use crate::sched::process::Phase;
use crate::sched::time::deadlines::Owner;
use crate::sched::{KillOutcome, ProcessId, Scheduler, Wake, WakeReason};
use baton_sys::clock::Instant;

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
        let cuts_hold = process.kills == 1 && is_put_off;
        process.kills = process.kills.max(if cuts_hold { 2 } else { 1 });
        self.counters.kills += 1;
        self.counters.holds_cut += u64::from(cuts_hold);
        if !self.processes[index].kill_is_due() {
            self.counters.kills_held += 1;
            return KillOutcome::Held;
        }
        if index == self.current {
            return KillOutcome::IsCurrent;
        }
        self.deliver_kill(index)
    }

    /// Whether a process must die at its next safepoint: it was killed, and does not hold kills or
    /// was killed again.
    #[inline]
    pub fn kill_is_due(&self, pid: ProcessId) -> bool {
        self.processes
            .find_alive(pid)
            .is_some_and(|index| self.processes[index].kill_is_due())
    }

    /// 0: a process was not killed. 1: it was. 2: it was killed again while it deferred the first
    /// kill.
    pub fn kill_count(&self, pid: ProcessId) -> u32 {
        self.processes
            .find(pid)
            .map_or(0, |index| self.processes[index].kills)
    }

    /// Begins or ends a hold. A deferred kill is due when the hold ends, and another hold may defer
    /// it again.
    #[inline]
    pub fn set_kill_hold(&mut self, pid: ProcessId, holds: bool) {
        let Some(index) = self.processes.find_alive(pid) else {
            return;
        };
        let process = &mut self.processes[index];
        // A second kill cancelled the hold, or the relock of a condition's mutex. Now this is a new
        // hold, or the end of that one.
        if process.holds_kills != holds {
            process.kills = process.kills.min(1);
        }
        process.holds_kills = holds;
        if process.kill_is_due() && index != self.current {
            let _ = self.deliver_kill(index);
        }
    }

    /// Has the executor ask a process for a safepoint at `due`, once, in place of an earlier
    /// request; `None`: not any more. For a guest that limits how long a process holds kills.
    ///
    /// ```
    /// use baton_core::sched::{Scheduler, SpawnOptions};
    /// use baton_sys::clock::Instant;
    ///
    /// let mut sched: Scheduler<()> = Scheduler::new(10);
    /// let process = sched.spawn(SpawnOptions::default(), ())?;
    /// let due = Instant::from_nanos(1000);
    /// sched.request_safepoint_at(process, Some(due));
    /// assert_eq!(sched.next_deadline(), Some(due));
    /// sched.request_safepoint_at(process, None);
    /// assert_eq!(sched.next_deadline(), None);
    /// # Ok::<(), baton_core::sched::ProcessLimit>(())
    /// ```
    pub fn request_safepoint_at(&mut self, pid: ProcessId, due: Option<Instant>) {
        let Some(index) = self.processes.find_alive(pid) else {
            return;
        };
        match due {
            Some(due) => self.deadlines.set(Owner::Safepoint(index), due.as_nanos()),
            None => {
                self.deadlines.cancel(Owner::Safepoint(index));
            }
        }
    }

    /// Cancels all kills of a process that lives on: it has raised them, and has something left to
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

    /// Ends any wait of a process whose kill is due.
    fn deliver_kill(&mut self, index: u32) -> KillOutcome {
        let killed = Wake::because(WakeReason::Killed);
        match self.processes[index].phase {
            Phase::Waiting | Phase::Sleeping => {
                self.processes[index].suspended = false;
                self.end_wait_by_kill(index);
                KillOutcome::Woken
            }
            Phase::Halted => {
                // A wait that ended while the process was suspended has a result. It is not
                // revoked, and the process raises the kill at its next safepoint.
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

    /// Ends a wait because of a kill. A process that is relocking its mutex after a condition's
    /// wait stays in the mutex's queue, unless it was killed twice.
    fn end_wait_by_kill(&mut self, index: u32) {
        let killed = Wake::because(WakeReason::Killed);
        let is_relocking = self.is_relocking(index);
        if is_relocking {
            self.end_relock(index, killed);
        }
        let process = &mut self.processes[index];
        if process.relock.is_some() && process.kills > 1 {
            process.relock = None;
        } else if is_relocking {
            return;
        }
        self.wake_process(index, killed);
    }
}
