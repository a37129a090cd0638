//! How processes begin, end, and are forgotten.

use crate::sched::process::Phase;
use crate::sched::slab::NIL;
use crate::sched::{CarrierId, Priority, ProcessId, ProcessLimit, Scheduler, Wake, WakeReason};

/// How a process begins.
#[derive(Clone, Copy, Debug)]
pub struct SpawnOptions {
    /// How urgent it is.
    pub priority: Priority,
    /// Whether it may be made to give way; if not, it must yield by itself.
    pub preemptible: bool,
    /// Whether the program may end without it.
    pub daemon: bool,
    /// Whether its failure is kept quiet.
    pub quiet: bool,
    /// Whether it begins suspended.
    pub suspended: bool,
    /// The only carrier on which it is to run.
    pub pin: Option<CarrierId>,
    /// The guest's record of it.
    pub user_data: usize,
}

impl Default for SpawnOptions {
    fn default() -> Self {
        SpawnOptions {
            priority: Priority::DEFAULT,
            preemptible: true,
            daemon: false,
            quiet: false,
            suspended: false,
            pin: None,
            user_data: 0,
        }
    }
}

impl<C> Scheduler<C> {
    /// A new process, runnable at the back of its level, or suspended. Whether the current one has
    /// to give way to it, `current_should_yield` says.
    ///
    /// # Errors
    ///
    /// [`ProcessLimit`] if there are as many processes as the limit allows. The payload is dropped.
    pub fn spawn(&mut self, options: SpawnOptions, payload: C) -> Result<ProcessId, ProcessLimit> {
        let index = self.make_process(options, payload)?;
        self.begin_life(index);
        if options.suspended {
            self.set_phase(index, Phase::Halted);
        } else {
            self.make_ready(index);
        }
        Ok(self.processes.id(index))
    }

    /// A new process for a timer: nobody sees it until it is fired.
    ///
    /// # Errors
    ///
    /// As for [`Scheduler::spawn`].
    pub fn spawn_prepared(
        &mut self,
        options: SpawnOptions,
        payload: C,
    ) -> Result<ProcessId, ProcessLimit> {
        let index = self.make_process(options, payload)?;
        Ok(self.processes.id(index))
    }

    /// The current process ends: its mutexes go to those who wait for them, its joiners are woken,
    /// and nobody is current. Returns who it was.
    ///
    /// ```
    /// use baton_core::sched::{Scheduler, SpawnOptions, State};
    ///
    /// let mut sched: Scheduler<()> = Scheduler::new(10);
    /// let process = sched.spawn(SpawnOptions::default(), ())?;
    /// let _ = sched.schedule();
    /// assert_eq!(sched.state(process), State::Running);
    /// assert_eq!(sched.exit_current(), Some(process));
    /// assert_eq!(sched.state(process), State::Dead);
    /// assert_eq!(sched.live_count(), 0);
    /// assert!(sched.forget(process)); // there is room for another one again
    /// # Ok::<(), baton_core::sched::ProcessLimit>(())
    /// ```
    pub fn exit_current(&mut self) -> Option<ProcessId> {
        let pid = self.current()?;
        let index = pid.index;
        self.leave_run_queue(index);
        self.set_phase(index, Phase::Dead);
        self.clear_current();
        self.detach(index);
        self.live -= 1;
        self.live_non_daemons -= u32::from(!self.processes[index].daemon);
        self.counters.ended += 1;
        self.abandon_mutexes(index);
        self.abandon_rwlocks(index);
        self.release_joiners(index);
        self.wake_if_at_rest();
        Some(pid)
    }

    /// Ends a process that was spawned and has not run: nothing of it is on any stack. Says whether
    /// it was one.
    pub fn end_unstarted(&mut self, pid: ProcessId) -> bool {
        let Some(index) = self.processes.find_alive(pid) else {
            return false;
        };
        let process = &self.processes[index];
        match process.phase {
            _ if process.started || index == self.current => return false,
            Phase::Ready | Phase::Aside => self.leave_run_queue(index),
            Phase::Halted => {}
            _ => return false,
        }
        self.set_phase(index, Phase::Dead);
        self.detach(index);
        self.live -= 1;
        self.live_non_daemons -= u32::from(!self.processes[index].daemon);
        self.counters.ended += 1;
        self.release_joiners(index);
        self.wake_if_at_rest();
        true
    }

    /// Gives the slot of a dead process back, with its payload; or that of a prepared one that no
    /// timer fires any more. Its ids are stale from here on. Does nothing, and says so, for any
    /// other.
    pub fn forget(&mut self, pid: ProcessId) -> bool {
        let Some(index) = self.processes.find(pid) else {
            return false;
        };
        match self.processes[index].phase {
            Phase::Dead => {}
            Phase::Prepared => self.discard_prepared(index),
            _ => return false,
        }
        self.census[Phase::Dead as usize] -= 1;
        self.payloads[index as usize] = None;
        self.processes.release(index);
        true
    }

    /// How many processes there are, the dead and the prepared ones not counted.
    #[inline]
    pub fn live_count(&self) -> usize {
        self.live as usize
    }

    /// How many of them the end of the program waits for.
    #[inline]
    pub fn live_non_daemon_count(&self) -> usize {
        self.live_non_daemons as usize
    }

    /// A timer fires a prepared process: it begins to live.
    pub(in crate::sched) fn fire(&mut self, index: u32) {
        self.begin_life(index);
        if self.processes[index].suspended {
            self.set_phase(index, Phase::Halted);
        } else {
            self.make_ready(index);
        }
    }

    /// A prepared process will never be fired: it is dead without having lived.
    pub(in crate::sched) fn discard_prepared(&mut self, index: u32) {
        self.set_phase(index, Phase::Dead);
        self.detach(index);
        self.release_joiners(index);
    }

    /// Whether there may be one more process.
    ///
    /// # Errors
    ///
    /// [`ProcessLimit`] if there are as many as the limit allows.
    pub fn check_room(&self) -> Result<(), ProcessLimit> {
        if self.census.iter().sum::<u32>() >= self.limit {
            return Err(ProcessLimit { limit: self.limit });
        }
        Ok(())
    }

    fn make_process(&mut self, options: SpawnOptions, payload: C) -> Result<u32, ProcessLimit> {
        self.check_room()?;
        let index = self.processes.allocate();
        let process = &mut self.processes[index];
        process.phase = Phase::Prepared;
        process.priority = options.priority;
        process.own_priority = options.priority;
        process.preemptible = options.preemptible;
        process.daemon = options.daemon;
        process.quiet = options.quiet;
        process.suspended = options.suspended;
        process.user_data = options.user_data;
        self.census[Phase::Prepared as usize] += 1;
        match self.payloads.get_mut(index as usize) {
            Some(place) => *place = Some(payload),
            None => self.payloads.push(Some(payload)),
        }
        if options.pin.is_some() {
            self.set_pin(self.processes.id(index), options.pin);
        }
        Ok(index)
    }

    fn begin_life(&mut self, index: u32) {
        self.live += 1;
        self.live_non_daemons += u32::from(!self.processes[index].daemon);
        self.counters.spawned += 1;
    }

    pub(super) fn release_joiners(&mut self, index: u32) {
        let joiners = std::mem::replace(&mut self.processes[index].joiners, NIL);
        if joiners != NIL {
            let joiners = crate::sched::WaitQueue(joiners);
            self.wake_each(joiners, Wake::because(WakeReason::Done));
            self.waiters.free_queue(joiners);
        }
    }
}
