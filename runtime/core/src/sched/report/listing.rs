//! The state of a process, as seen from outside.

use crate::sched::process::{Phase, Process};
use crate::sched::slab::NIL;
use crate::sched::wait::waiters::{Kind, Waiter};
use crate::sched::{
    BarrierId, CarrierId, ChannelId, ConditionId, EventId, MutexId, ProcessId, RwLockId, Scheduler,
    SemaphoreId, SharedKind, SharedWaitId, State, TimerId, WaitQueueId,
};

/// What a process waits for; for reports.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Blocker {
    /// A time.
    Sleep,
    /// The end of a process.
    Join(ProcessId),
    /// The end of all other processes.
    Rest,
    /// An alarm.
    Alarm(TimerId),
    /// A semaphore.
    Semaphore(SemaphoreId),
    /// A mutex; see `mutex_owner`.
    Mutex(MutexId),
    /// A condition.
    Condition(ConditionId),
    /// An event.
    Event(EventId),
    /// A lock, for reading.
    Read(RwLockId),
    /// A lock, for writing.
    Write(RwLockId),
    /// The other processes at a barrier.
    Barrier(BarrierId),
    /// Room in a channel.
    Send(ChannelId),
    /// A value from a channel.
    Receive(ChannelId),
    /// One of several cases; their number.
    Select(u32),
    /// A plain wait queue.
    Queue(WaitQueueId),
    /// A descriptor.
    Descriptor(u32),
    /// One of several descriptors; their number.
    Descriptors(u32),
    /// An object that several VMs share.
    Shared(SharedWaitId, SharedKind),
    /// The native thread that it must run on, while another process is out there.
    Thread(CarrierId),
}

impl<C> Scheduler<C> {
    /// The state of a process.
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
    /// use baton_core::sched::{Blocker, Deadline, Scheduler, SpawnOptions, State};
    ///
    /// let mut sched: Scheduler<()> = Scheduler::new(10);
    /// let waiter = sched.spawn(SpawnOptions::default(), ())?;
    /// let _ = sched.schedule();
    /// let event = sched.event_new();
    /// let _ = sched.event_wait(event, Deadline::Never);
    /// assert_eq!(sched.state(waiter), State::Waiting);
    /// assert_eq!(sched.blocker(waiter), Some(Blocker::Event(event)));
    /// # Ok::<(), baton_core::sched::ProcessLimit>(())
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
            let (mut count, mut descriptors) = (0, 0);
            for node in self.nodes_of(index) {
                count += 1;
                descriptors += u32::from(node.ticket.kind == Kind::Descriptor);
            }
            return Some(match count == descriptors {
                true => Blocker::Descriptors(count),
                false => Blocker::Select(count),
            });
        }
        self.blocker_of(node)
    }

    /// What a process waits for: one item per case of a select, the last case first.
    pub fn blockers(&self, pid: ProcessId) -> impl Iterator<Item = Blocker> + '_ {
        let index = self.processes.find(pid).into_iter();
        index
            .flat_map(|index| self.nodes_of(index))
            .filter_map(|node| self.blocker_of(node))
    }

    /// The processes that hold a lock: the owner of a mutex, or all processes inside a lock for
    /// readers and writers.
    pub fn holders(&self, blocker: Blocker) -> impl Iterator<Item = ProcessId> + '_ {
        self.holders_of(blocker)
            .map(|index| self.processes.id(index))
    }

    pub(super) fn holders_of(&self, blocker: Blocker) -> impl Iterator<Item = u32> + '_ {
        let owner = match blocker {
            Blocker::Mutex(mutex) => self.mutexes.get(mutex.0).map(|mutex| mutex.owner),
            _ => None,
        };
        let first_hold = match blocker {
            Blocker::Read(lock) | Blocker::Write(lock) => {
                self.rwlocks.get(lock.0).map_or(NIL, |lock| lock.holds)
            }
            _ => NIL,
        };
        let inside = self
            .holds_of_lock(first_hold)
            .filter_map(|hold| self.holds.at(hold));
        let owner = owner.filter(|&owner| owner != NIL);
        owner.into_iter().chain(inside.map(|hold| hold.process))
    }

    /// The waiter nodes of a process, the last one first.
    pub(in crate::sched) fn nodes_of(&self, index: u32) -> impl Iterator<Item = &Waiter> {
        let node = move |place: u32| (place != NIL).then(|| self.waiters.node(place));
        std::iter::successors(node(self.processes[index].waiters), move |last| {
            node(last.sibling)
        })
    }

    fn blocker_of(&self, node: &Waiter) -> Option<Blocker> {
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
            Kind::Event => self
                .events
                .key_at(object)
                .map(|key| Blocker::Event(EventId(key))),
            Kind::Read => self
                .rwlocks
                .key_at(object)
                .map(|key| Blocker::Read(RwLockId(key))),
            Kind::Write => self
                .rwlocks
                .key_at(object)
                .map(|key| Blocker::Write(RwLockId(key))),
            Kind::Barrier => self
                .barriers
                .key_at(object)
                .map(|key| Blocker::Barrier(BarrierId(key))),
            Kind::Receive => self
                .channels
                .key_at(object)
                .map(|key| Blocker::Receive(ChannelId(key))),
            Kind::Send => self
                .channels
                .key_at(object)
                .map(|key| Blocker::Send(ChannelId(key))),
            Kind::Queue => self
                .queues
                .key_at(object)
                .map(|key| Blocker::Queue(WaitQueueId(key))),
            Kind::Descriptor => Some(Blocker::Descriptor(object)),
            Kind::Join => Some(Blocker::Join(self.processes.id(object))),
            Kind::Rest => Some(Blocker::Rest),
            Kind::Alarm => self
                .timers
                .key_at(object)
                .map(|key| Blocker::Alarm(TimerId(key))),
            Kind::Shared => {
                let id = SharedWaitId(self.shared_waits.key_at(object)?);
                let kind = self.shared_waits.get(id.0)?.kind;
                Some(Blocker::Shared(id, kind))
            }
            Kind::Sentinel | Kind::Free => None,
        }
    }

    /// All channels. Of each, how many values are in its buffer, and how many there is room for.
    ///
    /// ```
    /// use baton_core::sched::Scheduler;
    ///
    /// let mut sched: Scheduler<()> = Scheduler::new(10);
    /// let channel = sched.channel_new(3);
    /// assert!(sched.channel_post(channel, 7));
    /// assert_eq!(sched.channels().collect::<Vec<_>>(), [(channel, 1, 3)]);
    /// ```
    pub fn channels(&self) -> impl Iterator<Item = (ChannelId, usize, usize)> + '_ {
        (0..self.channels.places()).filter_map(|index| {
            let key = self.channels.key_at(index)?;
            let channel = self.channels.get(key)?;
            Some((ChannelId(key), channel.buffer.len(), channel.capacity))
        })
    }

    /// The processes that live, by index.
    pub fn iter(&self) -> impl Iterator<Item = ProcessId> + '_ {
        (0..self.places()).filter_map(|place| self.process_at(place))
    }

    /// How many places there are for processes; some are empty. For samples of the processes.
    pub fn places(&self) -> u32 {
        self.processes.slots.len() as u32
    }

    /// The process at a place below [`Scheduler::places`], if one lives there.
    ///
    /// ```
    /// use baton_core::sched::{Scheduler, SpawnOptions};
    ///
    /// let mut sched: Scheduler<()> = Scheduler::new(10);
    /// let process = sched.spawn(SpawnOptions::default(), ())?;
    /// let found = (0..sched.places()).filter_map(|place| sched.process_at(place));
    /// assert_eq!(found.collect::<Vec<_>>(), [process]);
    /// assert_eq!(sched.process_at(sched.places()), None);
    /// # Ok::<(), baton_core::sched::ProcessLimit>(())
    /// ```
    pub fn process_at(&self, place: u32) -> Option<ProcessId> {
        let process: &Process = self.processes.slots.get(place as usize)?;
        let lives = !matches!(process.phase, Phase::Free | Phase::Dead | Phase::Prepared);
        lives.then_some(ProcessId {
            index: place,
            generation: process.generation,
        })
    }

    /// Whether a process is a daemon: the program may end before it.
    pub fn is_daemon(&self, pid: ProcessId) -> bool {
        self.ask(pid, |process| process.daemon)
    }

    /// Whether the failure of a process is not reported.
    pub fn is_quiet(&self, pid: ProcessId) -> bool {
        self.ask(pid, |process| process.quiet)
    }

    /// Whether a process may be preempted.
    #[inline]
    pub fn is_preemptible(&self, pid: ProcessId) -> bool {
        self.ask(pid, |process| process.preemptible)
    }

    /// Sets whether a process may be preempted.
    pub fn set_preemptible(&mut self, pid: ProcessId, preemptible: bool) {
        if let Some(index) = self.processes.find(pid) {
            self.processes[index].preemptible = preemptible;
            self.run_queue.note_change();
        }
    }

    /// Whether a process has run: what `mark_started` noted.
    #[inline]
    pub fn is_started(&self, pid: ProcessId) -> bool {
        self.ask(pid, |process| process.started)
    }

    /// Notes that a process has run.
    pub fn mark_started(&mut self, pid: ProcessId) {
        if let Some(index) = self.processes.find(pid) {
            self.processes[index].started = true;
        }
    }

    /// The guest's record of a process; `None` once the process was forgotten. Whoever has kept an
    /// id while other processes ran must ask: the process may have ended, and its record with it.
    #[inline]
    pub fn user_data(&self, pid: ProcessId) -> Option<usize> {
        let index = self.processes.find(pid)?;
        Some(self.processes[index].user_data)
    }

    /// Sets the guest's record of a process.
    pub fn set_user_data(&mut self, pid: ProcessId, user_data: usize) {
        if let Some(index) = self.processes.find(pid) {
            self.processes[index].user_data = user_data;
        }
    }

    /// The executor's data of a process; `None` once the process was forgotten.
    #[inline]
    pub fn payload(&self, pid: ProcessId) -> Option<&C> {
        let index = self.processes.find(pid)?;
        self.payloads.get(index as usize)
    }

    /// As [`Scheduler::payload`], mutable.
    #[inline]
    pub fn payload_mut(&mut self, pid: ProcessId) -> Option<&mut C> {
        let index = self.processes.find(pid)?;
        self.payloads.get_mut(index as usize)
    }

    #[inline]
    fn ask(&self, pid: ProcessId, question: impl FnOnce(&Process) -> bool) -> bool {
        self.processes
            .find(pid)
            .is_some_and(|index| question(&self.processes[index]))
    }
}
