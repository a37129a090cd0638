//! Waits and wake-ups: uncontended operations, a select of one, and several wake-ups in one.

use super::operations::watch;
use super::*;
use crate::sched::Case;
use crate::sched::process::Phase;

const DONE: Wake = Wake::because(WakeReason::Done);

/// What the executor decides by: with no change here it does not decide at all.
fn with_changes<A>(world: &World, answer: A) -> (A, u64) {
    (answer, world.sched.changes())
}

/// The operations that begin with a first look.
#[derive(Clone, Copy)]
enum Begun {
    SemaphoreWait,
    SemaphoreSignal,
    ChannelSend,
    ChannelReceive,
    EventWait,
}

impl Begun {
    fn look(self, world: &mut World, Operation { a, b, .. }: Operation) -> FirstLook {
        let (semaphore, channel) = (world.semaphore(b), world.channel(b));
        let event = [world.event, world.never][usize::from(b % 2)];
        match self {
            Begun::SemaphoreWait => world.sched.semaphore_begin_wait(semaphore),
            Begun::SemaphoreSignal => world.sched.semaphore_begin_signal(semaphore, units(a)),
            Begun::ChannelSend => world.sched.channel_begin_send(channel, a.into()),
            Begun::ChannelReceive => world.sched.channel_begin_receive(channel),
            Begun::EventWait => world.sched.event_begin_wait(event),
        }
    }

    /// The whole operation. That of a signal returns nothing, and always ends at once.
    fn whole(self, world: &mut World, Operation { a, b, .. }: Operation) -> Attempt {
        let (semaphore, channel) = (world.semaphore(b), world.channel(b));
        let event = [world.event, world.never][usize::from(b % 2)];
        let deadline = world.deadline(a);
        match self {
            Begun::SemaphoreWait => world.sched.semaphore_wait(semaphore, deadline),
            Begun::SemaphoreSignal => {
                world.sched.semaphore_signal(semaphore, units(a));
                Attempt::Ready(DONE)
            }
            Begun::ChannelSend => world.sched.channel_send(channel, a.into(), deadline),
            Begun::ChannelReceive => world.sched.channel_receive(channel, deadline),
            Begun::EventWait => world.sched.event_wait(event, deadline),
        }
    }

    /// The value that a waiter is woken with, or that waits to be received.
    fn sent(self, Operation { a, .. }: Operation) -> u64 {
        match self {
            Begun::ChannelSend => a.into(),
            _ => 0,
        }
    }
}

/// Fills and empties the objects, so that every first look is met.
fn stir(world: &mut World, Operation { a, b, .. }: Operation) -> bool {
    if a % 2 == 1 {
        world.sched.semaphore_signal(world.semaphore(b), 1);
        world.sched.channel_post(world.channel(b), a.into());
    }
    let may_wait = a % 4 >= 2;
    if may_wait {
        let _ = match a / 4 % 3 {
            0 => world
                .sched
                .semaphore_wait(world.semaphore(b), Deadline::Never),
            1 => world
                .sched
                .channel_send(world.channel(b), 9, Deadline::Never),
            _ => world
                .sched
                .channel_receive(world.channel(b), Deadline::Never),
        };
        world.settle();
    }
    true
}

/// Compares a first look, and what the executor does after it, with the whole operation. `finish`
/// is `None` for looks that are not compared.
fn looks_agree(
    begun: Begun,
    finish: fn(&mut World, Operation, Begun, FirstLook) -> Option<Attempt>,
) {
    let fast = |world: &mut World, operation: Operation| {
        let look = begun.look(world, operation);
        finish(world, operation, begun, look)
    };
    let slow = |world: &mut World, operation: Operation| begun.whole(world, operation);
    let twins = Twins {
        before: &stir,
        ..Twins::new(&fast, &slow)
    };
    twins.agree();
}

/// Goes on after any look, as the executor does.
fn go_on(
    world: &mut World,
    operation: Operation,
    begun: Begun,
    look: FirstLook,
) -> Option<Attempt> {
    let value = begun.sent(operation);
    let done = |value| Attempt::Ready(Wake { value, ..DONE });
    Some(match look {
        FirstLook::Done(value) => done(value),
        FirstLook::Wakes(waiter) => {
            let sent = world.sched.wake_waiter(waiter, value);
            done(match begun {
                Begun::ChannelReceive => sent,
                _ => 0,
            })
        }
        FirstLook::Waits(place) => {
            let deadline = world.deadline(operation.a);
            world.sched.wait_at(place, value, deadline)
        }
        FirstLook::Unclear => begun.whole(world, operation),
    })
}

/// An operation that is done at the first look leaves nothing to decide.
#[test]
fn what_is_done_at_the_first_look_changes_no_decision() {
    let all = [
        Begun::SemaphoreWait,
        Begun::SemaphoreSignal,
        Begun::ChannelSend,
        Begun::ChannelReceive,
    ];
    for begun in all {
        let fast = |world: &mut World, operation: Operation| {
            let before = world.sched.changes();
            match begun.look(world, operation) {
                FirstLook::Done(value) => Some((Attempt::Ready(Wake { value, ..DONE }), before)),
                _ => None,
            }
        };
        let slow = |world: &mut World, operation: Operation| {
            let attempt = begun.whole(world, operation);
            with_changes(world, attempt)
        };
        let twins = Twins {
            before: &stir,
            ..Twins::new(&fast, &slow)
        };
        twins.agree();
    }
}

#[test]
fn a_semaphores_wait_after_a_first_look_is_the_whole_wait() {
    looks_agree(Begun::SemaphoreWait, go_on);
}

#[test]
fn a_semaphores_signal_after_a_first_look_is_the_whole_signal() {
    looks_agree(Begun::SemaphoreSignal, go_on);
}

#[test]
fn a_send_after_a_first_look_is_the_whole_send() {
    looks_agree(Begun::ChannelSend, go_on);
}

#[test]
fn a_receive_after_a_first_look_is_the_whole_receive() {
    looks_agree(Begun::ChannelReceive, go_on);
}

#[test]
fn a_wait_for_an_event_after_a_first_look_is_the_whole_wait() {
    looks_agree(Begun::EventWait, go_on);
}

fn units(number: u8) -> u64 {
    [0, 1, 2, u64::MAX][usize::from(number % 4)]
}

#[test]
fn a_post_that_needs_no_place_beyond_the_capacity_is_a_send() {
    let fast = |world: &mut World, Operation { a, b, .. }: Operation| {
        let channel = world.channel(b);
        let found = world.sched.channels.get(channel.0)?;
        let has_room =
            found.buffer.len() < found.capacity || !world.sched.waiters.is_empty(found.receivers);
        let may_send = world.sched.current_may_wait() && has_room;
        let is_posted = may_send && world.sched.channel_post(channel, a.into());
        is_posted.then_some(Attempt::Ready(DONE))
    };
    let slow = |world: &mut World, Operation { a, b, .. }: Operation| {
        let channel = world.channel(b);
        world.sched.channel_send(channel, a.into(), Deadline::Never)
    };
    Twins::new(&fast, &slow).agree();
}

fn case(world: &World, Operation { a, b, .. }: Operation) -> Option<Case> {
    Some(match a / 4 % 8 {
        0 => Case::Receive(world.channel(b)),
        1 => Case::Send(world.channel(b), a.into()),
        2 => Case::Event(world.event),
        3 => Case::Semaphore(world.semaphore(b)),
        4 => Case::Mutex(world.mutex(b)),
        5 => Case::Alarm(world.alarm),
        6 => Case::Join(world.any_process(b)?),
        _ => {
            let (watch, edition) = watch(a, b);
            Case::Descriptor(watch, edition)
        }
    })
}

#[test]
fn a_select_of_one_case_is_the_operation_itself() {
    let fast = |world: &mut World, operation: Operation| {
        let case = case(world, operation)?;
        let deadline = world.deadline(operation.a);
        Some(world.sched.select(&[case], deadline, operation.b.into()))
    };
    let slow = |world: &mut World, operation: Operation| {
        let deadline = world.deadline(operation.a);
        match case(world, operation).expect("the same as there") {
            Case::Receive(channel) => world.sched.channel_receive(channel, deadline),
            Case::Send(channel, value) => world.sched.channel_send(channel, value, deadline),
            Case::Event(event) => world.sched.event_wait(event, deadline),
            Case::Semaphore(semaphore) => world.sched.semaphore_wait(semaphore, deadline),
            Case::Mutex(mutex) => {
                let locked = world.sched.mutex_lock(mutex, deadline);
                locked.unwrap_or(Attempt::because(WakeReason::Dead))
            }
            Case::Alarm(alarm) => world.sched.alarm_wait(alarm, deadline),
            Case::Join(target) => world.sched.join(target, deadline),
            Case::Descriptor(watch, edition) => {
                world.sched.wait_ready([(watch, edition)], deadline)
            }
            Case::Shared(_) | Case::Ready(..) => unreachable!("not made here"),
        }
    };
    Twins::new(&fast, &slow).agree();
}

#[test]
fn a_signal_of_several_units_is_as_many_signals() {
    let fast = |world: &mut World, Operation { a, b, .. }: Operation| {
        let semaphore = world.semaphore(b);
        Some(world.sched.semaphore_signal(semaphore, u64::from(a % 5)))
    };
    let slow = |world: &mut World, Operation { a, b, .. }: Operation| {
        let semaphore = world.semaphore(b);
        let signals = (0..a % 5).map(|_| world.sched.semaphore_signal(semaphore, 1));
        signals.sum()
    };
    let wait = |world: &mut World, operation: Operation| {
        let semaphore = world.semaphore(operation.b);
        let _ = world.sched.semaphore_wait(semaphore, Deadline::Never);
        true
    };
    let twins = Twins {
        before: &wait,
        ..Twins::new(&fast, &slow)
    };
    twins.agree();
}

#[test]
fn a_broadcast_is_a_signal_for_each_that_waits() {
    let fast = |world: &mut World, _| Some(world.sched.condition_broadcast(world.condition));
    let slow = |world: &mut World, _| {
        let signals = std::iter::repeat_with(|| world.sched.condition_signal(world.condition));
        signals.take_while(|&has_woken| has_woken).count()
    };
    let wait = |world: &mut World, operation: Operation| {
        for _ in 0..operation.a % 4 {
            let mutex = world.mutex(0);
            let _ = world.sched.mutex_lock(mutex, Deadline::Now);
            let condition = world.condition;
            let _ = world
                .sched
                .condition_wait(condition, mutex, Deadline::Never);
            world.settle();
        }
        true
    };
    let twins = Twins {
        before: &wait,
        ..Twins::new(&fast, &slow)
    };
    twins.agree();
}

#[test]
fn to_wake_all_in_a_queue_is_to_wake_one_after_another() {
    let fast = |world: &mut World, _| {
        let woken = world.sched.wake_all(world.queue, WakeReason::Done, 7);
        Some(woken)
    };
    let slow = |world: &mut World, _| {
        let one = || world.sched.wake_one(world.queue, WakeReason::Done, 7);
        std::iter::from_fn(one).count()
    };
    Twins::new(&fast, &slow).agree();
}

#[test]
fn to_wake_the_process_that_waits_first_is_to_wake_one() {
    let fast = |world: &mut World, _| {
        let pid = world
            .sched
            .wake_one(world.queue, WakeReason::Interrupted, 3)?;
        Some(Some(pid))
    };
    let slow = |world: &mut World, _| {
        let sched = &mut world.sched;
        let queue = *sched.queues.get(world.queue.0)?;
        let first = sched.waiters.node(sched.waiters.first(queue)?).process;
        let pid = sched.processes.id(first);
        let is_woken = sched.wake_this(world.queue, pid, WakeReason::Interrupted, 3);
        is_woken.then_some(pid)
    };
    let wait = |world: &mut World, operation: Operation| {
        if operation.a % 2 == 1 {
            let _ = world.sched.wait(world.queue, Deadline::Never);
        }
        true
    };
    let twins = Twins {
        before: &wait,
        ..Twins::new(&fast, &slow)
    };
    twins.agree();
}

#[test]
fn the_end_of_time_is_no_deadline() {
    let fast = |world: &mut World, _| Some(world.sched.event_wait(world.never, Deadline::Never));
    let slow = |world: &mut World, _| world.sched.event_wait(world.never, until(u64::MAX));
    Twins::new(&fast, &slow).agree();
}

#[test]
fn a_process_spawned_suspended_and_resumed_is_one_spawned_at_once() {
    let fast = |world: &mut World, Operation { a, b, .. }: Operation| {
        let options = SpawnOptions {
            suspended: false,
            ..World::options(a, b)
        };
        Some(world.spawn(options))
    };
    let slow = |world: &mut World, Operation { a, b, .. }: Operation| {
        let options = SpawnOptions {
            suspended: true,
            ..World::options(a, b)
        };
        let pid = world.spawn(options)?;
        let _ = world.sched.resume(pid);
        Some(pid)
    };
    Twins::new(&fast, &slow).agree();
}

/// Which processes there are, and who may run: a timer leaves its traces elsewhere.
fn processes(world: &World) -> String {
    let sched = &world.sched;
    let lives = (sched.live, sched.live_non_daemons, sched.counters.spawned);
    let places = (&sched.processes, &sched.run_queue, &sched.carriers);
    format!(
        "{places:?} {:?} {:?} {lives:?}",
        sched.census, sched.payloads
    )
}

#[test]
fn a_process_that_a_timer_fires_at_once_is_one_spawned_at_once() {
    let expire = |world: &mut World, _| {
        let _ = world.set_time(world.time(0));
        true
    };
    let fast = |world: &mut World, Operation { a, b, .. }: Operation| {
        Some(world.spawn(World::options(a, b)))
    };
    let slow = |world: &mut World, Operation { a, b, .. }: Operation| {
        let pid = world.spawn_prepared(World::options(a, b))?;
        let due = world.time(0);
        let timer = world.sched.timer_new(at(due), None, pid);
        assert_eq!(world.set_time(due), 1);
        world.sched.timer_free(timer);
        Some(pid)
    };
    let twins = Twins {
        before: &expire,
        view: processes,
        ..Twins::new(&fast, &slow)
    };
    twins.agree();
}

/// The heap of deadlines counts what comes and goes. Its deadlines count with their lateness; one
/// that has come before it is set is not late.
fn but_for_deadlines_set(world: &World) -> String {
    without(world, &["sequence", "updates", "counts"])
}

#[test]
fn an_alarm_whose_time_has_come_goes_off_as_one_that_is_due_later() {
    let before = |world: &mut World, _| {
        let _ = world.set_time(world.time(0));
        world.sched.alarm_set(world.alarm, at(u64::MAX));
        let due = world.sched.next_deadline();
        due.is_none_or(|due| due > at(world.time(1)))
    };
    let fast = |world: &mut World, _| {
        let due = world.time(1);
        assert_eq!(world.set_time(due), 0);
        world.sched.alarm_set(world.alarm, at(due));
        Some(())
    };
    let slow = |world: &mut World, _| {
        let due = world.time(1);
        world.sched.alarm_set(world.alarm, at(due));
        assert_eq!(world.set_time(due), 1);
    };
    let twins = Twins {
        before: &before,
        view: but_for_deadlines_set,
        ..Twins::new(&fast, &slow)
    };
    twins.agree();
}

/// The process ran for a moment in one of the two.
fn but_for_switches(world: &World) -> String {
    without(world, &["changes", "switches"])
}

#[test]
fn the_end_of_a_process_that_never_ran_is_the_end_of_one_that_does_nothing() {
    let fast = |world: &mut World, operation: Operation| {
        let pid = world.any_process(operation.b)?;
        let sched = &world.sched;
        let process = &sched.processes[pid.index];
        let is_free = matches!(process.phase, Phase::Ready | Phase::Halted);
        let runs_on = sched.processes.slots.get(sched.current as usize)?.phase == Phase::Ready;
        if !is_free || sched.must_stay_aside(pid.index) || !runs_on {
            return None;
        }
        let has_ended = world.sched.end_unstarted(pid);
        has_ended.then(|| world.forget(pid))
    };
    let slow = |world: &mut World, operation: Operation| {
        let me = world.sched.current().expect("it runs on");
        let pid = world.any_process(operation.b).expect("the same as there");
        let _ = world.sched.resume(pid);
        run_any(&mut world.sched, pid);
        assert_eq!(world.sched.exit_current(), Some(pid));
        run_any(&mut world.sched, me);
        world.forget(pid);
    };
    let join = |world: &mut World, operation: Operation| {
        world.spawn(World::options(operation.a, operation.b));
        if let Some(pid) = world.any_process(operation.b) {
            let _ = world.sched.join(pid, Deadline::Never);
            world.settle();
        }
        true
    };
    let twins = Twins {
        before: &join,
        view: but_for_switches,
        ..Twins::new(&fast, &slow)
    };
    twins.agree();
}

fn run_any(sched: &mut Scheduler<u32>, pid: ProcessId) {
    let _ = sched.switch_to(pid);
    assert_eq!(sched.current(), Some(pid), "it can run");
}
