//! Random operations, and the scheduler with its objects that they are carried out on.

use proptest::prelude::*;
use proptest::sample::select;

use super::super::*;
use crate::sched::{
    BarrierId, CarrierId, ChannelId, ConditionId, Edition, EventId, MutexId, Preemption, Readiness,
    RwLockId, SemaphoreId, TimerId, WaitQueueId, Watch,
};

/// What is done. Most act on the current process, the others on any.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// Both paths are compared.
    Compare,
    Spawn,
    Yield,
    YieldTo,
    Preempt,
    EndSlice,
    Exit,
    Suspend,
    Resume,
    Kill,
    HoldKills,
    Interrupt,
    SetPriority,
    SetPreemptible,
    SetDueTime,
    ForgetDueTimes,
    Bind,
    Unbind,
    SetPinned,
    KeepThread,
    FreeThread,
    BeginForeign,
    EndForeign,
    EnterCritical,
    LeaveCritical,
    Relinquish,
    Wait,
    Signal,
    Lock,
    Unlock,
    ConditionWait,
    ConditionSignal,
    EventWait,
    EventSet,
    EventClear,
    Enter,
    Leave,
    Meet,
    Send,
    Receive,
    Join,
    Sleep,
    QueueWait,
    QueueWake,
    AlarmSet,
    AlarmWait,
    Watch,
    Ready,
    Expire,
}

/// Those that make processes and keep them running stand here more than once.
const KINDS: &[Kind] = {
    use Kind::*;
    &[
        Spawn,
        Spawn,
        Spawn,
        Spawn,
        Spawn,
        Spawn,
        Spawn,
        Yield,
        YieldTo,
        Preempt,
        EndSlice,
        Exit,
        Suspend,
        Resume,
        Resume,
        Resume,
        Kill,
        HoldKills,
        Interrupt,
        SetPriority,
        SetPreemptible,
        SetDueTime,
        ForgetDueTimes,
        ForgetDueTimes,
        Bind,
        Unbind,
        Unbind,
        SetPinned,
        KeepThread,
        FreeThread,
        FreeThread,
        BeginForeign,
        EndForeign,
        EndForeign,
        EnterCritical,
        LeaveCritical,
        LeaveCritical,
        Relinquish,
        Wait,
        Signal,
        Lock,
        Unlock,
        ConditionWait,
        ConditionSignal,
        EventWait,
        EventSet,
        EventClear,
        Enter,
        Leave,
        Meet,
        Send,
        Receive,
        Receive,
        Join,
        Sleep,
        QueueWait,
        QueueWake,
        AlarmSet,
        AlarmWait,
        Watch,
        Ready,
        Expire,
    ]
};

/// An operation; the numbers choose a process, an object, a priority or a time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operation {
    pub(super) kind: Kind,
    pub(super) a: u8,
    pub(super) b: u8,
}

pub(super) fn operation() -> impl Strategy<Value = Operation> {
    let kind = prop_oneof![1 => Just(Kind::Compare), 2 => select(KINDS)];
    let parts = (kind, any::<u8>(), any::<u8>());
    parts.prop_map(|(kind, a, b)| Operation { kind, a, b })
}

pub(super) struct World {
    pub(super) sched: Scheduler<u32>,
    now: u64,
    spawned: u32,
    pub(super) processes: Vec<ProcessId>,
    /// The last one is freed.
    semaphores: [SemaphoreId; 3],
    mutexes: [MutexId; 3],
    /// The last two are closed and freed.
    channels: [ChannelId; 5],
    pub(super) condition: ConditionId,
    pub(super) event: EventId,
    /// An event that nothing sets.
    pub(super) never: EventId,
    rwlock: RwLockId,
    barrier: BarrierId,
    pub(super) queue: WaitQueueId,
    pub(super) alarm: TimerId,
}

impl World {
    pub(super) fn new() -> World {
        let mut sched = Scheduler::new(14);
        let semaphores = [0, 1, 2].map(|count| sched.semaphore_new(count));
        sched.semaphore_free(semaphores[2]);
        let mutexes = [(); 3].map(|()| sched.mutex_new());
        sched.mutex_free(mutexes[2]);
        let channels = [0, 1, 3, 1, 1].map(|capacity| sched.channel_new(capacity));
        sched.channel_post(channels[3], 5);
        sched.channel_close(channels[3]);
        sched.channel_free(channels[4]);
        let [event, never] = [(); 2].map(|()| sched.event_new());
        let mut world = World {
            now: 0,
            spawned: 0,
            processes: Vec::new(),
            semaphores,
            mutexes,
            channels,
            condition: sched.condition_new(),
            event,
            never,
            rwlock: sched.rwlock_new(),
            barrier: sched.barrier_new(2),
            queue: sched.wait_queue_new(),
            alarm: sched.alarm_new(at(5)),
            sched,
        };
        for _ in 0..3 {
            world.spawn(World::options(4, 4));
        }
        world.settle();
        world
    }

    /// Half of all processes are equals, and most may run everywhere.
    pub(super) fn options(a: u8, b: u8) -> SpawnOptions {
        SpawnOptions {
            priority: level(a),
            preemptible: b % 16 < 15,
            daemon: b % 3 == 1,
            suspended: b % 11 == 1,
            pin: (b % 7 == 1).then_some(carrier(b)),
            ..SpawnOptions::default()
        }
    }

    pub(super) fn spawn(&mut self, options: SpawnOptions) -> Option<ProcessId> {
        self.spawned += 1;
        let pid = self.sched.spawn(options, self.spawned).ok()?;
        self.processes.push(pid);
        Some(pid)
    }

    /// As [`World::spawn`], for a timer.
    pub(super) fn spawn_prepared(&mut self, options: SpawnOptions) -> Option<ProcessId> {
        self.spawned += 1;
        let pid = self.sched.spawn_prepared(options, self.spawned).ok()?;
        self.processes.push(pid);
        Some(pid)
    }

    /// Some process runs, if any can; it has begun then.
    pub(super) fn settle(&mut self) {
        if self.sched.current().is_none() {
            let _ = self.sched.schedule();
        }
        if let Some(current) = self.sched.current() {
            self.sched.mark_started(current);
        }
    }

    pub(super) fn any_process(&self, number: u8) -> Option<ProcessId> {
        let place = usize::from(number).checked_rem(self.processes.len())?;
        Some(self.processes[place])
    }

    pub(super) fn semaphore(&self, number: u8) -> SemaphoreId {
        self.semaphores[usize::from(number) % self.semaphores.len()]
    }

    pub(super) fn mutex(&self, number: u8) -> MutexId {
        self.mutexes[usize::from(number) % self.mutexes.len()]
    }

    pub(super) fn channel(&self, number: u8) -> ChannelId {
        self.channels[usize::from(number) % self.channels.len()]
    }

    pub(super) fn deadline(&self, number: u8) -> Deadline {
        match number % 4 {
            0 => Deadline::Now,
            1 => until(self.now + u64::from(number / 4)),
            _ => Deadline::Never,
        }
    }

    /// A time from now on.
    pub(super) fn time(&self, number: u8) -> u64 {
        self.now + u64::from(number % 16)
    }

    pub(super) fn set_time(&mut self, now: u64) -> usize {
        self.now = now;
        self.sched.expire(at(now))
    }

    pub(super) fn forget(&mut self, pid: ProcessId) {
        self.sched.forget(pid);
        self.processes.retain(|&other| other != pid);
    }

    pub(super) fn apply(&mut self, operation: Operation) {
        let Operation { kind, a, b } = operation;
        if let Some(pid) = self.any_process(b) {
            self.change(kind, pid, a);
        }
        self.pass(kind, a, b);
        self.wait(kind, a, b);
        if kind != Kind::Relinquish {
            self.settle();
        }
    }

    /// Something is done with a process.
    fn change(&mut self, kind: Kind, pid: ProcessId, a: u8) {
        let sched = &mut self.sched;
        match kind {
            Kind::Suspend => _ = sched.suspend(pid),
            Kind::Resume => _ = sched.resume(pid),
            Kind::Kill if a % 2 == 1 => _ = sched.kill(pid),
            Kind::HoldKills => sched.set_kill_hold(pid, a % 2 == 1),
            Kind::Interrupt => _ = sched.interrupt(pid),
            Kind::SetPriority => _ = sched.set_priority(pid, level(a)),
            Kind::SetPreemptible => sched.set_preemptible(pid, a % 2 == 1),
            Kind::SetDueTime => _ = sched.set_due_time(pid, Some(at(u64::from(a % 8)))),
            Kind::ForgetDueTimes => {
                for &pid in &self.processes {
                    sched.set_due_time(pid, None);
                }
            }
            Kind::Bind => sched.set_pin(pid, Some(carrier(a))),
            Kind::Unbind => {
                sched.set_pin(pid, None);
                sched.set_pinned(pid, None);
            }
            Kind::SetPinned => sched.set_pinned(pid, Some(carrier(a))),
            Kind::EndForeign => _ = sched.end_foreign(pid),
            Kind::YieldTo => _ = sched.yield_to(pid),
            Kind::Join => _ = sched.join(pid, Deadline::Never),
            _ => {}
        }
    }

    /// The current process goes on or gives way, and wakes others.
    fn pass(&mut self, kind: Kind, a: u8, b: u8) {
        let me = self.sched.current();
        match (kind, me) {
            (Kind::Spawn, _) => _ = self.spawn(World::options(a, b)),
            (Kind::Yield, _) => _ = self.sched.yield_current(),
            (Kind::Preempt, _) => _ = self.sched.preempt_current(Preemption::MoreUrgent),
            (Kind::EndSlice, _) => {
                let _ = self.sched.preempt_current(Preemption::SliceExpired);
                self.sched.skip_while(me, |_| a % 2 == 1);
            }
            (Kind::Exit, Some(me)) => {
                self.sched.exit_current();
                self.forget(me);
            }
            // As a process does that gives way in the middle of a foreign function.
            (Kind::KeepThread, Some(me)) => {
                self.sched.set_pinned(me, Some(carrier(a)));
                self.sched.occupy(carrier(a), me);
            }
            (Kind::FreeThread, _) => self.sched.vacate(carrier(a)),
            (Kind::BeginForeign, Some(me)) => {
                let is_vacant = self.sched.occupant(carrier(a)).is_none();
                if is_vacant && !self.sched.is_critical() {
                    self.sched.begin_foreign(me, carrier(a));
                }
            }
            (Kind::EnterCritical, _) => self.sched.enter_critical(),
            (Kind::LeaveCritical, _) => _ = self.sched.leave_critical(),
            (Kind::Relinquish, _) => self.sched.relinquish_current(),
            (Kind::Signal, _) => _ = self.sched.semaphore_signal(self.semaphore(b), 1),
            (Kind::Unlock, _) => _ = self.sched.mutex_unlock(self.mutex(b)),
            (Kind::ConditionSignal, _) => _ = self.sched.condition_signal(self.condition),
            (Kind::EventSet, _) => _ = self.sched.event_set(self.event),
            (Kind::EventClear, _) => self.sched.event_clear(self.event),
            (Kind::Leave, _) => _ = self.sched.rwlock_unlock(self.rwlock),
            (Kind::QueueWake, _) => _ = self.sched.wake_one(self.queue, WakeReason::Done, 1),
            (Kind::AlarmSet, _) => self.sched.alarm_set(self.alarm, at(self.time(a))),
            (Kind::Ready, _) => {
                let ready = Readiness::from_bits(a);
                self.sched.descriptor_is_ready(u32::from(b % 2), ready);
            }
            (Kind::Expire, _) => _ = self.set_time(self.time(a)),
            _ => {}
        }
    }

    /// The current process waits, perhaps.
    fn wait(&mut self, kind: Kind, a: u8, b: u8) {
        let deadline = self.deadline(a);
        let sched = &mut self.sched;
        let is_read = a % 3 < 2;
        let _ = match kind {
            Kind::Wait => sched.semaphore_wait(self.semaphores[usize::from(b % 3)], deadline),
            Kind::Lock => {
                let locked = sched.mutex_lock(self.mutexes[usize::from(b % 3)], deadline);
                locked.unwrap_or(Attempt::because(WakeReason::Dead))
            }
            Kind::ConditionWait => {
                let mutex = self.mutexes[usize::from(b % 3)];
                let waited = sched.condition_wait(self.condition, mutex, deadline);
                waited.unwrap_or(Attempt::because(WakeReason::Dead))
            }
            Kind::EventWait => sched.event_wait(self.event, deadline),
            Kind::Enter => {
                let entered = match is_read {
                    true => sched.rwlock_read(self.rwlock, deadline),
                    false => sched.rwlock_write(self.rwlock, deadline),
                };
                entered.unwrap_or(Attempt::because(WakeReason::Dead))
            }
            Kind::Meet => sched.barrier_wait(self.barrier, deadline),
            Kind::Send => {
                let channel = self.channels[usize::from(b % 5)];
                sched.channel_send(channel, a.into(), deadline)
            }
            Kind::Receive => sched.channel_receive(self.channels[usize::from(b % 5)], deadline),
            Kind::Sleep => sched.sleep(at(self.now + u64::from(a % 16))),
            Kind::QueueWait => sched.wait(self.queue, deadline),
            Kind::AlarmWait => sched.alarm_wait(self.alarm, deadline),
            Kind::Watch => sched.wait_ready([watch(a, b)], deadline),
            _ => return,
        };
    }
}

/// The default for half of all numbers.
fn level(number: u8) -> Priority {
    match number % 8 {
        0 => priority(39),
        1 | 2 => priority(41),
        3 => priority(42),
        _ => Priority::DEFAULT,
    }
}

fn carrier(number: u8) -> CarrierId {
    CarrierId(u32::from(number % 2))
}

pub(super) fn watch(a: u8, b: u8) -> (Watch, Edition) {
    let watch = Watch {
        descriptor: u32::from(b % 2),
        wants: Readiness::from_bits(a),
    };
    (watch, Edition(u32::from(a % 2)))
}
