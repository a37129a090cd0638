//! Random operations by random processes, with all checks after each.
//!
//! Besides the scheduler's own invariants, the test checks the *results* of the operations: each
//! value is received at most once, each unit of a semaphore is taken once, and locks exclude.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use super::invariants::check;
use super::random_numbers::Random;
use super::*;
use crate::sched::{
    BarrierId, CarrierId, Case, ChannelId, ConditionId, EventId, MutexId, Preemption, RwLockId,
    SemaphoreId, TimerId,
};

/// The operation in which a process waits.
#[derive(Clone, Debug)]
enum Pending {
    Plain,
    Sleep,
    Semaphore,
    Mutex(MutexId),
    Condition(MutexId),
    RwLock(RwLockId),
    /// The cases of a select; a send or a receive is a select of one.
    Cases(Vec<Case>),
}

struct World {
    sched: Scheduler<()>,
    random: Random,
    now: u64,
    processes: Vec<ProcessId>,
    pending: HashMap<ProcessId, Pending>,
    semaphore: SemaphoreId,
    /// Units given to the semaphore and not known to be taken.
    units: u64,
    mutexes: [MutexId; 3],
    condition: ConditionId,
    event: EventId,
    rwlocks: [RwLockId; 2],
    /// The processes inside each lock, as far as they know it.
    inside: HashSet<(ProcessId, RwLockId)>,
    barrier: BarrierId,
    alarm: TimerId,
    channels: Vec<ChannelId>,
    timers: Vec<TimerId>,
    last_value: u64,
    /// Values that their senders know to be sent.
    sent: HashSet<u64>,
    received: HashSet<u64>,
    /// How many mutexes a select has locked.
    selected_mutexes: u64,
}

impl World {
    fn new(seed: u64) -> World {
        let mut sched = Scheduler::new(40);
        let semaphore = sched.semaphore_new(2);
        let mutexes = [0; 3].map(|_| sched.mutex_new());
        let condition = sched.condition_new();
        let event = sched.event_new();
        let rwlocks = [0; 2].map(|_| sched.rwlock_new());
        let barrier = sched.barrier_new(3);
        let alarm = sched.alarm_new(at(5));
        let channels = [0, 0, 1, 3]
            .map(|capacity| sched.channel_new(capacity))
            .to_vec();
        World {
            sched,
            random: Random::new(seed),
            now: 0,
            processes: Vec::new(),
            pending: HashMap::new(),
            semaphore,
            units: 2,
            mutexes,
            condition,
            event,
            rwlocks,
            inside: HashSet::new(),
            barrier,
            alarm,
            channels,
            timers: Vec::new(),
            last_value: 0,
            sent: HashSet::new(),
            received: HashSet::new(),
            selected_mutexes: 0,
        }
    }

    fn step(&mut self) {
        let before = self.grounds_for_interruption();
        if self.random.one_in(3) {
            self.happen();
        } else {
            self.act();
        }
        check(&self.sched);
        let after = self.grounds_for_interruption();
        assert!(
            before.0 != after.0 || before.1 != after.1 || before.2 == after.2,
            "{before:?} became {after:?} without a word"
        );
    }

    /// The current process, the scheduler's count of changes, and everything that preemption
    /// decisions depend on.
    fn grounds_for_interruption(
        &self,
    ) -> (
        Option<ProcessId>,
        u64,
        impl PartialEq + std::fmt::Debug + use<>,
    ) {
        let sched = &self.sched;
        let current = sched.current();
        let grounds = (
            sched.runnable_count(),
            sched.next_deadline(),
            sched.run_queue_summary().rivals,
            sched.current_should_yield(),
            current.map(|pid| sched.is_preemptible(pid)),
        );
        (current, sched.changes(), grounds)
    }

    fn any_process(&mut self) -> Option<ProcessId> {
        self.random.pick(&self.processes)
    }

    fn any_deadline(&mut self) -> Deadline {
        match self.random.below(4) {
            0 => Deadline::Now,
            1 => Deadline::Never,
            _ => until(self.now + self.random.below(20)),
        }
    }

    fn any_case(&mut self) -> Case {
        match self.random.below(20) {
            0 => return Case::Semaphore(self.semaphore),
            1 => return Case::Mutex(self.random.pick(&self.mutexes).expect("there are mutexes")),
            2 => return Case::Event(self.event),
            3 => return Case::Alarm(self.alarm),
            4 => {
                if let Some(target) = self.any_process() {
                    return Case::Join(target);
                }
            }
            _ => {}
        }
        let channel = self
            .random
            .pick(&self.channels)
            .expect("there are channels");
        if self.random.one_in(2) {
            return Case::Receive(channel);
        }
        self.last_value += 1;
        Case::Send(channel, self.last_value)
    }

    /// An event that no process causes.
    fn happen(&mut self) {
        let carrier = CarrierId(self.random.below(3) as u32);
        let Some(pid) = self.any_process() else {
            return self.spawn();
        };
        match self.random.below(16) {
            0 | 1 => self.spawn(),
            2 | 3 => {
                self.now += self.random.below(8);
                self.sched.expire(at(self.now));
            }
            4 if self.random.one_in(3) => {
                let _ = self.sched.kill(pid);
            }
            5 => {
                let is_me = self.sched.current() == Some(pid);
                if !is_me || self.sched.suspend_by_handoff().is_none() {
                    let _ = self.sched.suspend(pid);
                }
            }
            6 | 7 => {
                let _ = self.sched.resume(pid);
            }
            8 => {
                let level = priority(38 + self.random.below(5) as u8);
                self.sched.set_priority(pid, level);
            }
            9 => self
                .sched
                .set_pinned(pid, self.random.one_in(2).then_some(carrier)),
            10 => {
                self.sched.end_foreign(pid);
            }
            12 if self.random.one_in(2) => {
                let due = self
                    .random
                    .one_in(2)
                    .then(|| at(self.now + self.random.below(9)));
                self.sched.set_due_time(pid, due);
            }
            12 => {
                self.sched.interrupt(pid);
            }
            11 => self.change_timers(),
            13 => {
                let pin = self.random.one_in(2).then_some(carrier);
                self.sched.set_pin(pid, pin);
            }
            14 => self.change_names(carrier),
            _ => self.forget(pid),
        }
    }

    /// Gives a name to a carrier, and removes the names of carriers without bound processes.
    fn change_names(&mut self, carrier: CarrierId) {
        if self.sched.is_bound_to(carrier) {
            self.sched.set_named(carrier, true);
        }
        while let Some(unbound) = self.sched.next_unbound() {
            self.sched.set_named(unbound, false);
        }
        let kept = (0..3)
            .map(CarrierId)
            .filter(|&carrier| self.sched.is_named(carrier));
        assert!(
            kept.into_iter()
                .all(|carrier| self.sched.is_bound_to(carrier))
        );
    }

    fn spawn(&mut self) {
        let options = SpawnOptions {
            priority: priority(38 + self.random.below(5) as u8),
            daemon: self.random.one_in(3),
            decay: self.random.one_in(2),
            suspended: self.random.one_in(8),
            pin: self.random.one_in(6).then_some(CarrierId(1)),
            ..SpawnOptions::default()
        };
        if let Ok(pid) = self.sched.spawn(options, ()) {
            self.processes.push(pid);
        }
    }

    fn forget(&mut self, pid: ProcessId) {
        if !self.sched.is_alive(pid) {
            self.sched.forget(pid);
            self.processes.retain(|&other| other != pid);
            self.pending.remove(&pid);
        }
    }

    fn change_timers(&mut self) {
        if self.random.one_in(3) {
            self.sched
                .alarm_set(self.alarm, at(self.now + self.random.below(10)));
            if self.random.one_in(4) {
                self.sched.alarm_cancel(self.alarm);
            }
        }
        let timer = self.random.pick(&self.timers);
        if self.random.one_in(3)
            && let Some(timer) = timer
        {
            if let Some(prepared) = self.sched.timer_cancel(timer) {
                assert!(self.sched.forget(prepared));
            }
            self.sched.timer_free(timer);
            self.timers.retain(|&other| other != timer);
            return;
        }
        let Ok(prepared) = self.sched.spawn_prepared(SpawnOptions::default(), ()) else {
            return;
        };
        if let Some(timer) = timer
            && self.sched.timer_prepare(timer, prepared)
        {
            self.processes.push(prepared);
            return;
        }
        let period = Duration::from_nanos(1 + self.random.below(9));
        let period = self.random.one_in(2).then_some(period);
        let first = at(self.now + self.random.below(10));
        self.timers
            .push(self.sched.timer_new(first, period, prepared));
        self.processes.push(prepared);
    }

    /// The current process reads how its wait ended, and then does something.
    fn act(&mut self) {
        let gives_way = self.sched.current();
        let _ = match self.random.below(5) {
            0 => self.sched.yield_current(),
            1 => self.sched.preempt_current(Preemption::MoreUrgent),
            2 => match self.any_process() {
                Some(pid) => self.sched.yield_to(pid),
                None => Next::Nothing,
            },
            3 => {
                let now = at(self.now);
                self.sched.sink_current(|| now);
                self.sched.preempt_current(Preemption::SliceExpired)
            }
            _ => self.sched.schedule(),
        };
        let random = &mut self.random;
        self.sched.skip_while(gives_way, |()| random.one_in(2));
        let Some(me) = self.sched.current() else {
            return;
        };
        if let Some(pending) = self.pending.remove(&me) {
            let wake = self.sched.take_wake(me);
            self.learn(me, &pending, wake);
        }
        if self.sched.kill_is_due(me) && !self.random.one_in(4) {
            self.end(me);
            return;
        }
        match self.random.below(4) {
            0 => self.act_briefly(me),
            _ => self.act_and_wait(me),
        }
    }

    fn act_briefly(&mut self, me: ProcessId) {
        if self.random.one_in(4) {
            return self.act_in_section(me);
        }
        let mutex = self.random.pick(&self.mutexes).expect("there are mutexes");
        let rwlock = self.random.pick(&self.rwlocks).expect("there are locks");
        match self.random.below(13) {
            0 => self.replace_channel(),
            1 => {
                let units = self.random.below(3);
                self.units += units;
                self.sched.semaphore_signal(self.semaphore, units);
            }
            2..=4 => {
                let was_mine = self.sched.mutex_owner(mutex) == Some(me);
                assert_eq!(self.sched.mutex_unlock(mutex).is_ok(), was_mine);
            }
            5 => {
                self.sched.condition_signal(self.condition);
            }
            6 => {
                self.sched.condition_broadcast(self.condition);
            }
            7 => {
                self.sched.event_set(self.event);
                self.sched.event_clear(self.event);
            }
            8 => self.sched.set_kill_hold(me, self.random.one_in(2)),
            9..=11 => {
                let was_inside = self.inside.remove(&(me, rwlock));
                assert_eq!(self.sched.rwlock_unlock(rwlock).is_ok(), was_inside);
            }
            _ => self.end(me),
        }
    }

    fn end(&mut self, me: ProcessId) {
        self.sched.exit_current();
        self.inside.retain(|&(process, _)| process != me);
    }

    /// Some steps in a critical section: no other process runs, and nothing waits.
    fn act_in_section(&mut self, me: ProcessId) {
        self.sched.enter_critical();
        for _ in 0..self.random.below(4) {
            self.act_and_wait(me);
            check(&self.sched);
            assert_eq!(self.sched.yield_current(), Next::Same);
            assert_eq!(self.sched.current(), Some(me));
        }
        let inside = self.sched.is_critical();
        assert_eq!(self.sched.leave_critical().is_ok(), inside);
    }

    fn act_and_wait(&mut self, me: ProcessId) {
        let deadline = self.any_deadline();
        let mutex = self.random.pick(&self.mutexes).expect("there are mutexes");
        let rwlock = self.random.pick(&self.rwlocks).expect("there are locks");
        let (pending, attempt) = match self.random.below(16) {
            0 => (
                Pending::Semaphore,
                self.sched.semaphore_wait(self.semaphore, deadline),
            ),
            1 | 2 => match self.sched.mutex_lock(mutex, deadline) {
                Ok(attempt) => (Pending::Mutex(mutex), attempt),
                Err(_) => return assert_eq!(self.sched.mutex_owner(mutex), Some(me)),
            },
            3 => match self.sched.condition_wait(self.condition, mutex, deadline) {
                Ok(attempt) => (Pending::Condition(mutex), attempt),
                Err(_) => return assert_ne!(self.sched.mutex_owner(mutex), Some(me)),
            },
            4 => (Pending::Plain, self.sched.event_wait(self.event, deadline)),
            5 => (
                Pending::Sleep,
                self.sched.sleep(at(self.now + self.random.below(9))),
            ),
            6 => match self.any_process() {
                Some(target) => (Pending::Plain, self.sched.join(target, deadline)),
                None => return,
            },
            7 => (Pending::Plain, self.sched.wait_for_rest(deadline)),
            8 => {
                let carrier = CarrierId(self.random.below(3) as u32);
                if self.sched.occupant(carrier).is_none() && !self.sched.is_critical() {
                    assert!(self.sched.begin_foreign(me, carrier));
                }
                return;
            }
            9 => (
                Pending::Plain,
                self.sched.barrier_wait(self.barrier, deadline),
            ),
            10..=12 => {
                let entered = match self.random.one_in(3) {
                    true => self.sched.rwlock_write(rwlock, deadline),
                    false => self.sched.rwlock_read(rwlock, deadline),
                };
                match entered {
                    Ok(attempt) => (Pending::RwLock(rwlock), attempt),
                    Err(_) => return assert!(self.inside.contains(&(me, rwlock))),
                }
            }
            _ => self.communicate(deadline),
        };
        match attempt {
            Attempt::Ready(wake) if wake.reason == WakeReason::Killed => {
                assert!(self.sched.kill_is_due(me));
            }
            Attempt::Ready(wake) => self.learn(me, &pending, wake),
            Attempt::Blocked => {
                let is_sleep = matches!(pending, Pending::Sleep);
                assert!(is_sleep || deadline != Deadline::Now);
                self.pending.insert(me, pending);
            }
        }
    }

    fn communicate(&mut self, deadline: Deadline) -> (Pending, Attempt) {
        let cases: Vec<_> = (0..=self.random.below(4))
            .map(|_| self.any_case())
            .collect();
        let attempt = match cases[..] {
            [Case::Receive(channel)] => self.sched.channel_receive(channel, deadline),
            [Case::Send(channel, value)] => self.sched.channel_send(channel, value, deadline),
            _ => self.sched.select(&cases, deadline, self.random.word()),
        };
        (Pending::Cases(cases), attempt)
    }

    /// Closes a channel, sometimes, and opens another.
    fn replace_channel(&mut self) {
        if !self.random.one_in(4) {
            return;
        }
        let place = self.random.below(self.channels.len() as u64) as usize;
        let capacity = self.random.below(3) as usize;
        self.drain(self.channels[place]);
        self.channels[place] = self.sched.channel_new(capacity);
    }

    fn drain(&mut self, channel: ChannelId) {
        for value in self.sched.channel_free(channel) {
            assert!(self.received.insert(value), "received and still there");
        }
    }

    /// Records the result of a process's operation.
    fn learn(&mut self, me: ProcessId, pending: &Pending, wake: Wake) {
        let is_done = wake.reason == WakeReason::Done;
        match pending {
            Pending::Plain | Pending::Sleep => {}
            Pending::Semaphore => {
                if is_done {
                    self.units = self.units.checked_sub(1).expect("a unit was taken twice");
                }
            }
            Pending::Mutex(mutex) => {
                let is_locked = is_done || wake.reason == WakeReason::Abandoned;
                assert_eq!(self.sched.mutex_owner(*mutex) == Some(me), is_locked);
            }
            Pending::Condition(mutex) => {
                let is_owner = self.sched.mutex_owner(*mutex) == Some(me);
                assert!(is_owner || self.sched.kill_count(me) > 1);
            }
            Pending::RwLock(lock) => {
                if is_done || wake.reason == WakeReason::Abandoned {
                    assert!(self.inside.insert((me, *lock)));
                }
            }
            Pending::Cases(cases) => {
                let is_mine = |mutex| self.sched.mutex_owner(mutex) == Some(me);
                match cases.get(wake.case as usize) {
                    Some(Case::Semaphore(_)) if is_done => {
                        self.units = self.units.checked_sub(1).expect("a unit was taken twice");
                    }
                    Some(&Case::Mutex(mutex))
                        if is_done || wake.reason == WakeReason::Abandoned =>
                    {
                        assert!(is_mine(mutex));
                        self.selected_mutexes += 1;
                    }
                    Some(&Case::Mutex(mutex)) if wake.reason == WakeReason::Dead => {
                        assert!(is_mine(mutex))
                    }
                    Some(&Case::Join(target)) if is_done => assert!(!self.sched.is_alive(target)),
                    _ => {}
                }
                for (number, case) in cases.iter().enumerate() {
                    let is_done = is_done && wake.case == number as u32;
                    match *case {
                        Case::Send(_, value) if is_done => {
                            self.sent.insert(value);
                        }
                        Case::Send(_, value) => {
                            assert!(!self.received.contains(&value), "received and not sent");
                        }
                        Case::Receive(_) if is_done => {
                            assert!(self.received.insert(wake.value), "received twice");
                        }
                        _ => {}
                    }
                }
            }
        }
    }

    /// Kills all processes, twice to cancel holds, and lets each read how its wait ended.
    fn finish(&mut self) {
        for timer in std::mem::take(&mut self.timers) {
            self.sched.timer_cancel(timer);
        }
        for pid in self.processes.clone() {
            self.sched.end_foreign(pid);
            let _ = self.sched.kill(pid);
            let _ = self.sched.kill(pid);
            check(&self.sched);
        }
        while self.sched.schedule() != Next::Nothing {
            let me = self.sched.current().expect("a process was chosen");
            if let Some(pending) = self.pending.remove(&me) {
                let wake = self.sched.take_wake(me);
                self.learn(me, &pending, wake);
            }
            self.end(me);
            check(&self.sched);
        }
        assert_eq!(self.sched.live_count(), 0, "the killed have all ended");
        for channel in self.channels.clone() {
            self.drain(channel);
        }
    }

    /// Checks that no value was lost or invented. A process that died before it read how its send
    /// ended may have sent. None dies so here, as each reads its result first.
    fn balance(&self) {
        assert_eq!(self.sent, self.received);
        assert_eq!(self.units, self.sched.semaphore_count(self.semaphore));
        let counters = self.sched.counters();
        assert_eq!(counters.spawned, counters.ended);
    }
}

#[test]
fn random_operations_keep_every_invariant_and_lose_nothing() {
    let mut selected_mutexes = 0;
    for seed in 1..=u64::from(length(60, 1)) {
        let mut world = World::new(seed);
        for _ in 0..length(2_000, 25) {
            world.step();
        }
        world.finish();
        world.balance();
        selected_mutexes += world.selected_mutexes;
    }
    // Miri's few steps need not reach it.
    assert!(cfg!(miri) || selected_mutexes > 20, "{selected_mutexes}");
}

#[test]
#[cfg_attr(miri, ignore = "needs too many operations")]
fn random_operations_reach_every_kind_of_event() {
    let mut world = World::new(9);
    for _ in 0..40_000 {
        world.step();
    }
    let counters = *world.sched.counters();
    let counts = [
        counters.switches,
        counters.yields,
        counters.preemptions_by_urgency,
        counters.preemptions_by_slice,
        counters.wakes,
        counters.timeouts,
        counters.sleeps,
        counters.kills,
        counters.ended,
        counters.timers_fired,
        counters.timers_skipped,
        counters.foreign_calls,
        counters.kept_aside,
        counters.priorities_inherited,
    ];
    assert!(counts.iter().all(|&count| count > 20), "{counters:?}");
    let received = world.received.len();
    assert!(received > 100, "{received}");
}
