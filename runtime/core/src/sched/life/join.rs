//! Waiting for the end of one process or of all others; sleeping; the state of time.

use baton_sys::clock::Instant;
use std::time::Duration;

use crate::sched::process::Phase;
use crate::sched::slab::NIL;
use crate::sched::time::deadlines::Owner;
use crate::sched::wait::waiters::{Kind, Ticket, WaitQueue};
use crate::sched::{Attempt, Deadline, ProcessId, Scheduler, Wake, WakeReason};

impl<C> Scheduler<C> {
    /// Waits until `target` has ended: `Done`. If a process joins itself, the result is `Dead`.
    ///
    /// ```
    /// use baton_core::sched::{Attempt, Deadline, Scheduler, Next, SpawnOptions, WakeReason};
    ///
    /// let mut sched: Scheduler<()> = Scheduler::new(10);
    /// let waiter = sched.spawn(SpawnOptions::default(), ())?;
    /// let target = sched.spawn(SpawnOptions::default(), ())?;
    /// let _ = sched.schedule();
    /// assert_eq!(sched.join(target, Deadline::Never), Attempt::Blocked);
    /// assert_eq!(sched.schedule(), Next::Other(target));
    /// assert_eq!(sched.exit_current(), Some(target));
    /// assert_eq!(sched.schedule(), Next::Other(waiter));
    /// assert_eq!(sched.take_wake(waiter).reason, WakeReason::Done);
    /// # Ok::<(), baton_core::sched::ProcessLimit>(())
    /// ```
    pub fn join(&mut self, target: ProcessId, deadline: Deadline) -> Attempt {
        let me = match self.may_wait() {
            Ok(me) => me,
            Err(answer) => return answer,
        };
        let Some(index) = self.processes.find_alive(target) else {
            return Attempt::because(WakeReason::Done);
        };
        if index == me {
            return Attempt::because(WakeReason::Dead);
        }
        if let Some(refusal) = self.refusal_to_block(me, deadline) {
            return refusal;
        }
        let joiners = self.joiners_of(index);
        self.wait_in(me, joiners, Ticket::new(Kind::Join, index), deadline)
    }

    /// The queue of a living process's joiners.
    pub(in crate::sched) fn joiners_of(&mut self, index: u32) -> WaitQueue {
        if self.processes[index].joiners == NIL {
            self.processes[index].joiners = self.waiters.make_queue().0;
        }
        WaitQueue(self.processes[index].joiners)
    }

    /// How many processes wait in `join` for this one.
    pub fn joiner_count(&self, pid: ProcessId) -> usize {
        match self
            .processes
            .find(pid)
            .map(|index| self.processes[index].joiners)
        {
            None | Some(NIL) => 0,
            Some(joiners) => self.waiters.iter(WaitQueue(joiners)).count(),
        }
    }

    /// Wakes all processes that wait in `join` for this one, with `Done`, as if it had ended.
    pub fn release_joiners_of(&mut self, pid: ProcessId) {
        if let Some(index) = self.processes.find_alive(pid) {
            self.release_joiners(index);
        }
    }

    /// Waits until no other non-daemon process lives and no timer is pending: `Done`. Processes
    /// that wait here as well do not count.
    pub fn wait_for_rest(&mut self, deadline: Deadline) -> Attempt {
        let me = match self.may_wait() {
            Ok(me) => me,
            Err(answer) => return answer,
        };
        if self.is_at_rest(u32::from(!self.processes[me].daemon)) {
            return Attempt::because(WakeReason::Done);
        }
        let attempt = self.wait_in(me, self.rest, Ticket::new(Kind::Rest, NIL), deadline);
        if attempt == Attempt::Blocked {
            self.wake_if_at_rest();
        }
        attempt
    }

    /// Sleeps until a time: `Done`.
    ///
    /// ```
    /// use baton_core::sched::{Attempt, Scheduler, Next, SpawnOptions};
    /// use baton_sys::clock::Instant;
    ///
    /// let mut sched: Scheduler<()> = Scheduler::new(10);
    /// let sleeper = sched.spawn(SpawnOptions::default(), ())?;
    /// let _ = sched.schedule();
    /// assert_eq!(sched.sleep(Instant::from_nanos(1000)), Attempt::Blocked);
    /// assert_eq!(sched.expire(Instant::from_nanos(999)), 0);
    /// assert_eq!(sched.expire(Instant::from_nanos(1000)), 1);
    /// assert_eq!(sched.schedule(), Next::Other(sleeper));
    /// # Ok::<(), baton_core::sched::ProcessLimit>(())
    /// ```
    pub fn sleep(&mut self, until: Instant) -> Attempt {
        match self.may_wait() {
            Ok(me) => {
                let refusal = self.refusal_to_block(me, Deadline::At(until));
                refusal.unwrap_or_else(|| self.block(me, Phase::Sleeping, Deadline::At(until)))
            }
            Err(answer) => answer,
        }
    }

    /// How many processes sleep.
    #[inline]
    pub fn sleeping_count(&self) -> usize {
        self.count_of(Phase::Sleeping)
    }

    /// How many processes wait, sleeping processes not counted.
    #[inline]
    pub fn waiting_count(&self) -> usize {
        self.count_of(Phase::Waiting)
    }

    /// The earliest deadline of a wait, a sleep or a timer.
    #[inline]
    pub fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.earliest().map(Instant::from_nanos)
    }

    /// Sets the scheduler's time. All waits and sleeps that are due end, and all timers that are
    /// due fire, in the order of their deadlines. Returns how many.
    pub fn expire(&mut self, now: Instant) -> usize {
        self.expire_and_ask(now, |_| {})
    }

    /// As [`Scheduler::expire`]. Calls `ask` with the user data of each process that is to come to
    /// a safepoint by now ([`Scheduler::request_safepoint_at`]).
    pub(crate) fn expire_and_ask(&mut self, now: Instant, mut ask: impl FnMut(usize)) -> usize {
        self.now = self.now.max(now);
        let mut count = 0;
        while let Some((owner, due)) = self.deadlines.take_due(now.as_nanos()) {
            if let Owner::Decay(index) = owner {
                self.come_back(index);
                continue;
            }
            self.lateness.add(now.as_nanos().saturating_sub(due));
            self.wakes.set_due(Some(due));
            match owner {
                Owner::Process(index) => self.time_out(index),
                Owner::Timer(index) => self.fire_timer(index, due),
                Owner::Safepoint(index) => ask(self.processes[index].user_data),
                Owner::Decay(_) => {}
            }
            count += 1;
        }
        self.wakes.set_due(None);
        count
    }

    /// Moves all deadlines of waits, sleeps and timers into the future, as if the time had stood
    /// still so long.
    ///
    /// ```
    /// use baton_core::sched::{Scheduler, SpawnOptions};
    /// use baton_sys::clock::Instant;
    /// use std::time::Duration;
    ///
    /// let mut sched: Scheduler<()> = Scheduler::new(10);
    /// sched.spawn(SpawnOptions::default(), ())?;
    /// sched.schedule();
    /// sched.sleep(Instant::from_nanos(1000));
    /// sched.postpone(Duration::from_nanos(500));
    /// assert_eq!(sched.next_deadline(), Some(Instant::from_nanos(1500)));
    /// # Ok::<(), baton_core::sched::ProcessLimit>(())
    /// ```
    pub fn postpone(&mut self, by: Duration) {
        self.deadlines
            .postpone(u64::try_from(by.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Whether no process can ever run again without an event from outside. Then:
    ///
    /// - no process is running or runnable;
    /// - no deadline and no timer is pending;
    /// - no foreign call is out, which could return;
    /// - no process waits for a value from outside ([`Scheduler::channel_set_fed`]).
    ///
    /// If the guest expects no other event from outside, this is a deadlock.
    pub fn all_blocked(&self) -> bool {
        self.live > 0
            && self.current == NIL
            && self.count_of(Phase::Ready) == 0
            && self.count_of(Phase::Aside) == 0
            && self.count_of(Phase::Foreign) == 0
            && self.deadlines.is_empty()
            && self.watching == 0
            && !self.waits_for_outside()
    }

    fn time_out(&mut self, index: u32) {
        if self.processes[index].phase == Phase::Sleeping {
            self.counters.sleeps += 1;
            self.wake_process(index, Wake::because(WakeReason::Done));
        } else {
            self.counters.timeouts += 1;
            self.wake_process(index, Wake::because(WakeReason::TimedOut));
        }
    }

    /// Wakes the processes in `wait_for_rest`, if only those are left. Called whenever a process
    /// ends, a timer will not fire again, or another process begins to wait there.
    pub(in crate::sched) fn wake_if_at_rest(&mut self) {
        if !self.waiters.is_empty(self.rest) && self.is_at_rest(0) {
            self.wake_each(self.rest, Wake::because(WakeReason::Done));
        }
    }

    fn is_at_rest(&self, others: u32) -> bool {
        if self.pending_timers > 0 {
            return false;
        }
        let is_counted = |process: u32| !self.processes[process].daemon;
        let waiting = self
            .waiters
            .iter(self.rest)
            .filter(|node| is_counted(node.process))
            .count();
        self.live_non_daemons as usize == waiting + others as usize
    }
}
