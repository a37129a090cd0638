//! Waking a process, in all combinations of how, of its priority, of a critical section around it,
//! and of what the waker does next. Modelled on Zephyr's tests/kernel/sched/preempt. The same test
//! in real time with the whole product is tests/lua/processes/waking.lua of `tools/baton`.

use super::invariants::check;
use super::*;
use crate::sched::{Preemption, ResumeOutcome};

/// How to wake a waiting process.
type Waking = Box<dyn FnOnce(&mut Scheduler<()>, ProcessId)>;

/// Makes the current process wait. Returns how to wake it.
type Way = fn(&mut Scheduler<()>) -> Waking;

fn by_signal(sched: &mut Scheduler<()>) -> Waking {
    let semaphore = sched.semaphore_new(0);
    assert_blocked(sched.semaphore_wait(semaphore, Deadline::Never));
    Box::new(move |sched, _| assert_eq!(sched.semaphore_signal(semaphore, 1), 1))
}

fn by_event(sched: &mut Scheduler<()>) -> Waking {
    let event = sched.event_new();
    assert_blocked(sched.event_wait(event, Deadline::Never));
    Box::new(move |sched, _| assert_eq!(sched.event_set(event), 1))
}

fn by_send(sched: &mut Scheduler<()>) -> Waking {
    let channel = sched.channel_new(0);
    assert_blocked(sched.channel_receive(channel, Deadline::Never));
    Box::new(move |sched, _| {
        assert_eq!(
            reason(sched.channel_send(channel, 7, Deadline::Now)),
            WakeReason::Done
        );
    })
}

fn by_closing(sched: &mut Scheduler<()>) -> Waking {
    let channel = sched.channel_new(0);
    assert_blocked(sched.channel_receive(channel, Deadline::Never));
    Box::new(move |sched, _| assert!(sched.channel_close(channel)))
}

fn by_queue(sched: &mut Scheduler<()>) -> Waking {
    let queue = sched.wait_queue_new();
    assert_blocked(sched.wait(queue, Deadline::Never));
    Box::new(move |sched, target| {
        assert_eq!(sched.wake_one(queue, WakeReason::Done, 0), Some(target))
    })
}

fn by_resume(sched: &mut Scheduler<()>) -> Waking {
    let me = sched.current().expect("a process runs");
    let _ = sched.suspend(me);
    Box::new(|sched, target| assert_eq!(sched.resume(target), ResumeOutcome::Resumed))
}

fn by_kill(sched: &mut Scheduler<()>) -> Waking {
    assert_blocked(sched.sleep(at(1_000_000)));
    Box::new(|sched, target| {
        let _ = sched.kill(target);
    })
}

fn by_the_clock(sched: &mut Scheduler<()>) -> Waking {
    assert_blocked(sched.sleep(at(10)));
    Box::new(|sched, _| assert_eq!(sched.expire(at(10)), 1))
}

const WAYS: &[(&str, Way)] = &[
    ("a signal", by_signal),
    ("an event", by_event),
    ("a value", by_send),
    ("closing", by_closing),
    ("a queue", by_queue),
    ("resuming", by_resume),
    ("a kill", by_kill),
    ("the clock", by_the_clock),
];

/// What the waker does once the target is awake, outside of its critical section.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Then {
    Nothing,
    Yield,
    Sleep,
    End,
}

const WAKER: u8 = 40;

/// A running waker, and a target of `level` that it has woken. There are no other processes.
fn woken(way: Way, level: u8, in_section: bool) -> (Scheduler<()>, ProcessId, ProcessId) {
    let mut sched = sched();
    let target = spawn_at(&mut sched, level);
    run(&mut sched, target);
    let wake = way(&mut sched);
    let waker = spawn_at(&mut sched, WAKER);
    assert_eq!(sched.schedule(), Next::Other(waker));
    if in_section {
        sched.enter_critical();
    }
    wake(&mut sched, target);
    check(&sched);
    (sched, waker, target)
}

/// Calls `f` with every way, level and place. Miri takes one way.
fn for_all(f: impl Fn(&str, Way, u8, bool)) {
    let ways = if cfg!(miri) { &WAYS[..1] } else { WAYS };
    for &(name, way) in ways {
        for level in [1, WAKER - 1, WAKER, WAKER + 1, 80] {
            for in_section in [false, true] {
                f(
                    &format!("{name}, level {level}, section {in_section}"),
                    way,
                    level,
                    in_section,
                );
            }
        }
    }
}

#[test]
fn only_a_more_urgent_target_preempts_the_waker_and_never_in_a_section() {
    for_all(|what, way, level, in_section| {
        let (mut sched, waker, target) = woken(way, level, in_section);
        let preempts = level > WAKER;
        assert_eq!(
            sched.current_should_yield(),
            preempts && !in_section,
            "{what}"
        );
        assert_eq!(
            sched.run_queue_summary().rivals,
            level >= WAKER && !in_section,
            "{what}"
        );
        let next = if preempts && !in_section {
            Next::Other(target)
        } else {
            Next::Same
        };
        assert_eq!(
            sched.preempt_current(Preemption::MoreUrgent),
            next,
            "{what}"
        );
        check(&sched);
        if next == Next::Same {
            assert_eq!(sched.current(), Some(waker), "{what}");
        }
    });
}

#[test]
fn a_more_urgent_target_runs_as_soon_as_the_section_is_left() {
    for_all(|what, way, level, in_section| {
        for then in [Then::Nothing, Then::Yield, Then::Sleep, Then::End] {
            let (mut sched, waker, target) = woken(way, level, in_section);
            if in_section {
                assert_eq!(
                    sched.yield_current(),
                    Next::Same,
                    "{what}: a yield in a section"
                );
                sched.leave_critical().expect("it is inside");
                assert_eq!(sched.current_should_yield(), level > WAKER, "{what}");
            }
            let next = match then {
                Then::Nothing => sched.schedule(),
                Then::Yield => sched.yield_current(),
                Then::Sleep => {
                    assert_blocked(sched.sleep(at(1_000_000)));
                    sched.schedule()
                }
                Then::End => {
                    assert_eq!(sched.exit_current(), Some(waker));
                    sched.schedule()
                }
            };
            let has_turn = match then {
                Then::Nothing => level > WAKER,
                Then::Yield => level >= WAKER,
                Then::Sleep | Then::End => true,
            };
            let wanted = if has_turn {
                Next::Other(target)
            } else {
                Next::Same
            };
            assert_eq!(next, wanted, "{what}, then {then:?}");
            check(&sched);
        }
    });
}

#[test]
fn a_waker_that_was_preempted_goes_on_before_its_equals() {
    for_all(|what, way, level, in_section| {
        if level <= WAKER || in_section {
            return;
        }
        let (mut sched, waker, target) = woken(way, level, in_section);
        let equal = spawn_at(&mut sched, WAKER);
        assert_eq!(
            sched.preempt_current(Preemption::MoreUrgent),
            Next::Other(target),
            "{what}"
        );
        assert_eq!(order_of_ends(&mut sched), [target, waker, equal], "{what}");
    });
}
