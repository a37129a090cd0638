//! Waking a process, in all combinations of how, of its priority, of a critical section around it, and of what the waker does then. In the spirit of Zephyr's
//! tests/kernel/sched/preempt; the same in real time and over the whole product is tests/lua/processes/waking.lua of `tools/baton`.

use super::invariants::check;
use super::*;
use crate::kernel::{Preemption, ResumeOutcome};

/// How to wake a process that waits.
type Waking = Box<dyn FnOnce(&mut Kernel<()>, ProcessId)>;

/// Puts the current process to wait; answers how to wake it.
type Way = fn(&mut Kernel<()>) -> Waking;

fn by_signal(kernel: &mut Kernel<()>) -> Waking {
    let semaphore = kernel.semaphore_new(0);
    assert_blocked(kernel.semaphore_wait(semaphore, Deadline::Never));
    Box::new(move |kernel, _| assert_eq!(kernel.semaphore_signal(semaphore, 1), 1))
}

fn by_event(kernel: &mut Kernel<()>) -> Waking {
    let event = kernel.event_new();
    assert_blocked(kernel.event_wait(event, Deadline::Never));
    Box::new(move |kernel, _| assert_eq!(kernel.event_set(event), 1))
}

fn by_send(kernel: &mut Kernel<()>) -> Waking {
    let channel = kernel.channel_new(0);
    assert_blocked(kernel.channel_receive(channel, Deadline::Never));
    Box::new(move |kernel, _| {
        assert_eq!(reason(kernel.channel_send(channel, 7, Deadline::Now)), WakeReason::Done);
    })
}

fn by_closing(kernel: &mut Kernel<()>) -> Waking {
    let channel = kernel.channel_new(0);
    assert_blocked(kernel.channel_receive(channel, Deadline::Never));
    Box::new(move |kernel, _| assert!(kernel.channel_close(channel)))
}

fn by_queue(kernel: &mut Kernel<()>) -> Waking {
    let queue = kernel.wait_queue_new();
    assert_blocked(kernel.wait(queue, Deadline::Never));
    Box::new(move |kernel, target| assert_eq!(kernel.wake_one(queue, WakeReason::Done, 0), Some(target)))
}

fn by_resume(kernel: &mut Kernel<()>) -> Waking {
    let me = kernel.current().expect("somebody runs");
    let _ = kernel.suspend(me);
    Box::new(|kernel, target| assert_eq!(kernel.resume(target), ResumeOutcome::Resumed))
}

fn by_kill(kernel: &mut Kernel<()>) -> Waking {
    assert_blocked(kernel.sleep(at(1_000_000)));
    Box::new(|kernel, target| {
        let _ = kernel.kill(target);
    })
}

fn by_the_clock(kernel: &mut Kernel<()>) -> Waking {
    assert_blocked(kernel.sleep(at(10)));
    Box::new(|kernel, _| assert_eq!(kernel.expire(at(10)), 1))
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

/// A waker that runs, and a target of `level` that has been woken by it. The target is the only other process.
fn woken(way: Way, level: u8, in_section: bool) -> (Kernel<()>, ProcessId, ProcessId) {
    let mut kernel = kernel();
    let target = spawn_at(&mut kernel, level);
    run(&mut kernel, target);
    let wake = way(&mut kernel);
    let waker = spawn_at(&mut kernel, WAKER);
    assert_eq!(kernel.schedule(), Next::Other(waker));
    if in_section {
        kernel.enter_critical();
    }
    wake(&mut kernel, target);
    check(&kernel);
    (kernel, waker, target)
}

/// Calls `f` with every way, level and kind of place.
fn for_all(f: impl Fn(&str, Way, u8, bool)) {
    for &(name, way) in WAYS {
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
fn only_the_more_urgent_asks_for_the_waker_s_place_and_never_in_a_section() {
    for_all(|what, way, level, in_section| {
        let (mut kernel, waker, target) = woken(way, level, in_section);
        let preempts = level > WAKER;
        assert_eq!(kernel.current_should_yield(), preempts && !in_section, "{what}");
        assert_eq!(kernel.standing().rivals, level >= WAKER && !in_section, "{what}");
        let next = if preempts && !in_section {
            Next::Other(target)
        } else {
            Next::Same
        };
        assert_eq!(kernel.preempt_current(Preemption::MoreUrgent), next, "{what}");
        check(&kernel);
        if next == Next::Same {
            assert_eq!(kernel.current(), Some(waker), "{what}");
        }
    });
}

#[test]
fn the_target_has_its_turn_as_soon_as_the_section_is_left_and_its_priority_says_so() {
    for_all(|what, way, level, in_section| {
        for then in [Then::Nothing, Then::Yield, Then::Sleep, Then::End] {
            let (mut kernel, waker, target) = woken(way, level, in_section);
            if in_section {
                assert_eq!(kernel.yield_current(), Next::Same, "{what}: a yield in a section");
                kernel.leave_critical().expect("it is inside");
                assert_eq!(kernel.current_should_yield(), level > WAKER, "{what}");
            }
            let next = match then {
                Then::Nothing => kernel.schedule(),
                Then::Yield => kernel.yield_current(),
                Then::Sleep => {
                    assert_blocked(kernel.sleep(at(1_000_000)));
                    kernel.schedule()
                }
                Then::End => {
                    assert_eq!(kernel.exit_current(), Some(waker));
                    kernel.schedule()
                }
            };
            let has_turn = match then {
                Then::Nothing => level > WAKER,
                Then::Yield => level >= WAKER,
                Then::Sleep | Then::End => true,
            };
            let wanted = if has_turn { Next::Other(target) } else { Next::Same };
            assert_eq!(next, wanted, "{what}, then {then:?}");
            check(&kernel);
        }
    });
}

#[test]
fn a_waker_that_was_preempted_goes_on_before_its_equals() {
    for_all(|what, way, level, in_section| {
        if level <= WAKER || in_section {
            return;
        }
        let (mut kernel, waker, target) = woken(way, level, in_section);
        let equal = spawn_at(&mut kernel, WAKER);
        assert_eq!(
            kernel.preempt_current(Preemption::MoreUrgent),
            Next::Other(target),
            "{what}"
        );
        assert_eq!(order_of_ends(&mut kernel), [target, waker, equal], "{what}");
    });
}
