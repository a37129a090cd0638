//! What can be seen of a process from outside.

use super::process::{Phase, Process};
use super::slab::NIL;
use super::waiters::Kind;
use super::{
    BarrierId, CarrierId, ChannelId, ConditionId, EventId, Kernel, MutexId, ProcessId, RwLockId, SemaphoreId, State,
    WaitQueueId,
};

/// What a process waits for: for reports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Blocker {
    /// A time.
    Sleep,
    /// The end of another process.
    Join(ProcessId),
    /// The end of all others.
    Rest,
    /// A semaphore.
    Semaphore(SemaphoreId),
    /// A mutex; `mutex_owner` says whose it is.
    Mutex(MutexId),
    /// A condition.
    Condition(ConditionId),
    /// An event.
    Event(EventId),
    /// To read under a lock.
    Read(RwLockId),
    /// To write under a lock.
    Write(RwLockId),
    /// The others at a barrier.
    Barrier(BarrierId),
    /// To send to a channel.
    Send(ChannelId),
    /// To receive from a channel.
    Receive(ChannelId),
    /// One of several cases, this many.
    Select(usize),
    /// A bare queue.
    Queue(WaitQueueId),
    /// A descriptor, by its number.
    Descriptor(u32),
    /// One of several descriptors, this many.
    Descriptors(usize),
    /// The native thread that it has to run on, where another process is out.
    Thread(CarrierId),
}

impl<C> Kernel<C> {
    /// What a process is doing.
    pub fn state(&self, pid: ProcessId) -> State {
        let Some(index) = self.processes.find_alive(pid) else {
            return State::Dead;
        };
        let process = &self.processes[index];
        if index == self.current {
            return State::Running;
        }
        if process.suspended {
            return State::Suspended;
        }
        match process.phase {
            Phase::Ready | Phase::Aside => State::Runnable,
            Phase::Waiting => State::Waiting,
            Phase::Sleeping => State::Sleeping,
            Phase::Halted | Phase::Prepared => State::Suspended,
            Phase::Foreign => State::Foreign,
            Phase::Free | Phase::Dead => State::Dead,
        }
    }

    /// Whether a process has not ended.
    #[inline]
    pub fn is_alive(&self, pid: ProcessId) -> bool {
        self.processes.find_alive(pid).is_some()
    }

    /// Whether a process is out in a foreign call, suspended or not.
    pub fn is_foreign(&self, pid: ProcessId) -> bool {
        self.processes
            .find(pid)
            .is_some_and(|index| self.processes[index].phase == Phase::Foreign)
    }

    /// What a process waits for; `None` if it does not wait.
    ///
    /// ```
    /// use baton_core::kernel::{Blocker, Deadline, Kernel, SpawnOptions, State};
    ///
    /// let mut kernel: Kernel<()> = Kernel::new(10);
    /// let waiter = kernel.spawn(SpawnOptions::default(), ())?;
    /// let _ = kernel.schedule();
    /// let event = kernel.event_new();
    /// let _ = kernel.event_wait(event, Deadline::Never);
    /// assert_eq!(kernel.state(waiter), State::Waiting);
    /// assert_eq!(kernel.blocker(waiter), Some(Blocker::Event(event)));
    /// # Ok::<(), baton_core::kernel::ProcessLimit>(())
    /// ```
    pub fn blocker(&self, pid: ProcessId) -> Option<Blocker> {
        let index = self.processes.find(pid)?;
        let process = &self.processes[index];
        match process.phase {
            Phase::Sleeping => return Some(Blocker::Sleep),
            Phase::Aside => return Some(Blocker::Thread(CarrierId(process.carrier))),
            _ => {}
        }
        if process.phase != Phase::Waiting {
            return None;
        }
        if process.waiters == NIL {
            return Some(Blocker::Select(0));
        }
        let node = self.waiters.node(process.waiters);
        if node.sibling != NIL {
            let count = self.case_count(process.waiters);
            return Some(match node.ticket.kind {
                Kind::Descriptor => Blocker::Descriptors(count),
                _ => Blocker::Select(count),
            });
        }
        let object = node.ticket.object;
        match node.ticket.kind {
            Kind::Semaphore => self
                .semaphores
                .key_at(object)
                .map(|key| Blocker::Semaphore(SemaphoreId(key))),
            Kind::Mutex => self.mutex_id(object).map(Blocker::Mutex),
            Kind::Condition => self
                .conditions
                .key_at(object)
                .map(|key| Blocker::Condition(ConditionId(key))),
            Kind::Event => self.events.key_at(object).map(|key| Blocker::Event(EventId(key))),
            Kind::Read => self.rwlocks.key_at(object).map(|key| Blocker::Read(RwLockId(key))),
            Kind::Write => self.rwlocks.key_at(object).map(|key| Blocker::Write(RwLockId(key))),
            Kind::Barrier => self.barriers.key_at(object).map(|key| Blocker::Barrier(BarrierId(key))),
            Kind::Receive => self.channels.key_at(object).map(|key| Blocker::Receive(ChannelId(key))),
            Kind::Send => self.channels.key_at(object).map(|key| Blocker::Send(ChannelId(key))),
            Kind::Queue => self.queues.key_at(object).map(|key| Blocker::Queue(WaitQueueId(key))),
            Kind::Descriptor => Some(Blocker::Descriptor(object)),
            Kind::Join => Some(Blocker::Join(self.processes.id(object))),
            Kind::Rest => Some(Blocker::Rest),
            Kind::Sentinel | Kind::Free => None,
        }
    }

    /// The processes that live, by index.
    pub fn iter(&self) -> impl Iterator<Item = ProcessId> + '_ {
        let is_live = |process: &Process| !matches!(process.phase, Phase::Free | Phase::Dead | Phase::Prepared);
        let slots = self.processes.slots.iter().enumerate();
        slots
            .filter(move |(_, process)| is_live(process))
            .map(|(index, process)| ProcessId {
                index: index as u32,
                generation: process.generation,
            })
    }

    /// Whether the program may end without a process.
    pub fn is_daemon(&self, pid: ProcessId) -> bool {
        self.look(pid, |process| process.daemon)
    }

    /// Whether the failure of a process is kept quiet.
    pub fn is_quiet(&self, pid: ProcessId) -> bool {
        self.look(pid, |process| process.quiet)
    }

    /// Whether a process may be made to give way.
    #[inline]
    pub fn is_preemptible(&self, pid: ProcessId) -> bool {
        self.look(pid, |process| process.preemptible)
    }

    /// The same of the current process.
    #[inline]
    pub fn current_is_preemptible(&self) -> Option<bool> {
        (self.current != NIL).then(|| self.processes[self.current].preemptible)
    }

    /// Says whether a process may be made to give way.
    pub fn set_preemptible(&mut self, pid: ProcessId, preemptible: bool) {
        if let Some(index) = self.processes.find(pid) {
            self.processes[index].preemptible = preemptible;
            self.preemptible_changes += 1;
        }
    }

    /// Whether a process has run: what `mark_started` noted.
    #[inline]
    pub fn is_started(&self, pid: ProcessId) -> bool {
        self.look(pid, |process| process.started)
    }

    /// Notes that a process has run.
    pub fn mark_started(&mut self, pid: ProcessId) {
        if let Some(index) = self.processes.find(pid) {
            self.processes[index].started = true;
        }
    }

    /// The guest's own word; 0 for a forgotten process.
    #[inline]
    pub fn guest(&self, pid: ProcessId) -> usize {
        self.processes.find(pid).map_or(0, |index| self.processes[index].guest)
    }

    /// Changes the guest's own word.
    pub fn set_guest(&mut self, pid: ProcessId, guest: usize) {
        if let Some(index) = self.processes.find(pid) {
            self.processes[index].guest = guest;
        }
    }

    /// What the executor keeps with a process; `None` once it was taken or the process forgotten.
    #[inline]
    pub fn payload(&self, pid: ProcessId) -> Option<&C> {
        let index = self.processes.find(pid)?;
        self.payloads[index as usize].as_ref()
    }

    /// As [`Kernel::payload`], to be changed.
    #[inline]
    pub fn payload_mut(&mut self, pid: ProcessId) -> Option<&mut C> {
        let index = self.processes.find(pid)?;
        self.payloads[index as usize].as_mut()
    }

    /// Takes what the executor keeps with a process.
    pub fn take_payload(&mut self, pid: ProcessId) -> Option<C> {
        let index = self.processes.find(pid)?;
        self.payloads[index as usize].take()
    }

    #[inline]
    fn look(&self, pid: ProcessId, question: impl FnOnce(&Process) -> bool) -> bool {
        self.processes
            .find(pid)
            .is_some_and(|index| question(&self.processes[index]))
    }

    fn case_count(&self, first: u32) -> usize {
        let follow = |&node: &u32| Some(self.waiters.node(node).sibling).filter(|&next| next != NIL);
        std::iter::successors(Some(first), follow).count()
    }
}
