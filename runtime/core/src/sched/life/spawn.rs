//! Spawning, ending and forgetting processes.

use crate::sched::process::Phase;
use crate::sched::run::decay::Decay;
use crate::sched::slab::NIL;
use crate::sched::time::deadlines::Owner;
use crate::sched::{CarrierId, Priority, ProcessId, ProcessLimit, Scheduler, Wake, WakeReason};

/// The options of a new process.
#[derive(Clone, Copy, Debug)]
pub struct SpawnOptions {
    /// How urgent it is.
    pub priority: Priority,
    /// Whether it may be preempted; if not, it must yield by itself.
    pub preemptible: bool,
    /// Whether a whole slice makes it a level less urgent, until it waits.
    pub decay: bool,
    /// Whether the program may end before it.
    pub daemon: bool,
    /// Whether its failure is not reported.
    pub quiet: bool,
    /// Whether it is suspended at first.
    pub suspended: bool,
    /// The only carrier that it may run on.
    pub pin: Option<CarrierId>,
    /// The guest's own record of it.
    pub user_data: usize,
}

impl Default for SpawnOptions {
    fn default() -> Self {
        SpawnOptions {
            priority: Priority::DEFAULT,
            preemptible: true,
            decay: false,
            daemon: false,
            quiet: false,
            suspended: false,
            pin: None,
            user_data: 0,
        }
    }
}

impl<C> Scheduler<C> {
    /// Creates a process: runnable at the back of its level, or suspended. Afterwards
    /// `current_should_yield` says whether the current process must give way to it.
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

    /// Creates a process for a timer. It is not listed until the timer fires it.
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

    /// Ends the current process. Its locks go to their next waiters, its joiners are woken, and no
    /// process is current. Returns the ended process.
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
    /// assert!(sched.forget(process)); // frees its slot
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
        self.deadlines.cancel(Owner::Safepoint(index));
        self.deadlines.cancel(Owner::Decay(index));
        self.abandon_rwlocks(index);
        self.release_joiners(index);
        self.wake_if_at_rest();
        Some(pid)
    }

    /// Ends a process that was spawned and has not run, so that it is on no stack. Returns whether
    /// it was such a process.
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

    /// Frees the slot and the payload of a dead process, or of a prepared one that no timer fires
    /// any more. Its ids are stale afterwards. Does nothing for any other process. Returns whether
    /// it did.
    pub fn forget(&mut self, pid: ProcessId) -> bool
    where
        C: Default,
    {
        let Some(index) = self.processes.find(pid) else {
            return false;
        };
        match self.processes[index].phase {
            Phase::Dead => {}
            Phase::Prepared => self.discard_prepared(index),
            _ => return false,
        }
        self.forget_process_name(pid);
        self.census[Phase::Dead as usize] -= 1;
        self.payloads[index as usize] = C::default();
        self.processes.release(index);
        true
    }

    /// How many processes live; dead and prepared ones are not counted.
    #[inline]
    pub fn live_count(&self) -> usize {
        self.live as usize
    }

    /// How many living processes are no daemons: the program's end waits for them.
    #[inline]
    pub fn live_non_daemon_count(&self) -> usize {
        self.live_non_daemons as usize
    }

    /// Starts a prepared process, as its timer fires.
    pub(in crate::sched) fn fire(&mut self, index: u32) {
        self.begin_life(index);
        if self.processes[index].suspended {
            self.set_phase(index, Phase::Halted);
        } else {
            self.make_ready(index);
        }
    }

    /// Ends a prepared process that will never be fired.
    pub(in crate::sched) fn discard_prepared(&mut self, index: u32) {
        self.set_phase(index, Phase::Dead);
        self.detach(index);
        self.release_joiners(index);
    }

    /// Checks that one more process is allowed.
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
        process.decay = Decay::of_option(options.decay);
        process.daemon = options.daemon;
        process.quiet = options.quiet;
        process.suspended = options.suspended;
        process.user_data = options.user_data;
        self.census[Phase::Prepared as usize] += 1;
        match self.payloads.get_mut(index as usize) {
            Some(place) => *place = payload,
            None => self.payloads.push(payload),
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
