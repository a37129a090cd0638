//! A VM whose processes wait for other VMs is deadlocked only if all VMs wait for each other.
//!
//! The tests run one after the other: each is about all VMs of the program.

mod mock_guest;

use baton_core::sched::{Deadline, WakeReason};
use baton_core::shared::SharedChannel;
use baton_core::shared::channel::Message;
use baton_core::vm::{HaltOutcome, Sleeper, Vm, wake_from_outside};
use baton_sys::clock::Instant;
use mock_guest::{Block, Life, Process, Running, await_event, start};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

struct Note;

impl Message for Note {
    fn size(&self) -> u64 {
        1
    }
}

type Notes = Arc<SharedChannel<Note, Sleeper>>;

fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn channel() -> Notes {
    Arc::new(SharedChannel::new(1, 100, ""))
}

fn receive(process: &Process, channel: &Notes) -> WakeReason {
    process.vm.receive_shared(channel, Deadline::Never).0
}

fn send(process: &Process, channel: &Notes) {
    let (reason, _) = process.vm.send_shared(channel, Note, Deadline::Never);
    assert_eq!(reason, WakeReason::Done);
}

/// Starts a VM. A deadlock of it is counted, and closes both channels.
fn start_closing(
    deadlocks: &Arc<AtomicU64>,
    channels: [&Notes; 2],
    body: impl FnOnce(&Process) -> Life + Send + 'static,
) -> Running {
    let deadlocks = Arc::clone(deadlocks);
    let channels = channels.map(Arc::clone);
    start(
        |_| {},
        move |main| {
            main.mock.on_deadlock(move |inside| {
                deadlocks.fetch_add(1, Ordering::Relaxed);
                for channel in &channels {
                    inside.close_shared(channel);
                }
            });
            body(main)
        },
    )
}

/// A VM that does not run. While it is there, no other one is deadlocked, so that all VMs of a test
/// can be started.
fn not_yet() -> Arc<Vm> {
    let mock = mock_guest::Mock::new();
    Vm::new(Arc::new(mock_guest::MockGuest(mock))).expect("a VM can be made")
}

fn sleep(process: &Process, milliseconds: u64) -> Life {
    process.sleep_until(Instant::now() + Duration::from_millis(milliseconds))
}

#[test]
fn two_vms_that_wait_for_each_other_are_deadlocked() {
    let _alone = alone();
    for _ in 0..50 {
        let deadlocks = Arc::new(AtomicU64::new(0));
        let (one, other) = (channel(), channel());
        let not_yet = not_yet();
        let running = [(&one, &other), (&other, &one)].map(|(mine, its)| {
            let (of_vm, to) = (Arc::clone(mine), Arc::clone(its));
            start_closing(&deadlocks, [mine, its], move |main| {
                send(main, &to);
                assert_eq!(receive(main, &of_vm), WakeReason::Done);
                assert_eq!(receive(main, &of_vm), WakeReason::Closed);
                Ok(())
            })
        });
        drop(not_yet);
        for vm in running {
            vm.finish();
        }
        assert!(deadlocks.load(Ordering::Relaxed) > 0);
    }
}

#[test]
fn the_end_of_the_last_other_vm_leaves_a_deadlock() {
    let _alone = alone();
    let deadlocks = Arc::new(AtomicU64::new(0));
    let never = channel();
    let not_yet = not_yet();
    let of_vm = Arc::clone(&never);
    let waits = start_closing(&deadlocks, [&never, &never], move |main| {
        assert_eq!(receive(main, &of_vm), WakeReason::Closed);
        Ok(())
    });
    let other = start(|_| {}, |main| sleep(main, 20));
    drop(not_yet);
    other.finish();
    waits.finish();
    assert_eq!(deadlocks.load(Ordering::Relaxed), 1);
}

/// One VM always has something to do: a time to wait for, a foreign call, or work.
#[test]
fn while_one_vm_may_act_there_is_no_deadlock() {
    let _alone = alone();
    const ROUNDS: u64 = 300;
    let deadlocks = Arc::new(AtomicU64::new(0));
    let (there, back) = (channel(), channel());
    let not_yet = not_yet();
    // It waits for the others in a foreign call, so it always may act.
    let (told, tell) = std::sync::mpsc::channel::<()>();
    let watcher = start(
        |_| {},
        move |main| {
            let _ = main.foreign(|| tell.recv());
            Ok(())
        },
    );
    let running = [(&there, &back, true), (&back, &there, false)].map(|(from, to, begins)| {
        let (of_vm, its) = (Arc::clone(from), Arc::clone(to));
        start_closing(&deadlocks, [from, to], move |main| {
            for round in 0..ROUNDS {
                if begins || round > 0 {
                    send(main, &its);
                }
                if round % 10 == 0 {
                    let pause = Duration::from_micros(300);
                    main.sleep_until(Instant::now() + pause)?;
                }
                if begins || round + 1 < ROUNDS {
                    assert_eq!(receive(main, &of_vm), WakeReason::Done);
                }
            }
            if !begins {
                assert_eq!(receive(main, &of_vm), WakeReason::Done);
                send(main, &its);
            }
            Ok(())
        })
    });
    drop(not_yet);
    for vm in running {
        vm.finish();
    }
    drop(told);
    watcher.finish();
    assert_eq!(deadlocks.load(Ordering::Relaxed), 0);
}

/// Two VMs alone, of which one is always about to act: neither count nor inbox is mistaken.
#[test]
fn a_message_on_its_way_is_no_deadlock() {
    let _alone = alone();
    let deadlocks = Arc::new(AtomicU64::new(0));
    let (there, back) = (channel(), channel());
    let count = 5_000;
    let not_yet = not_yet();
    let (of_first, to_second) = (Arc::clone(&back), Arc::clone(&there));
    let first = start_closing(&deadlocks, [&there, &back], move |main| {
        for _ in 0..count {
            send(main, &to_second);
            assert_eq!(receive(main, &of_first), WakeReason::Done);
        }
        Ok(())
    });
    let (of_second, to_first) = (Arc::clone(&there), Arc::clone(&back));
    let second = start_closing(&deadlocks, [&there, &back], move |main| {
        for _ in 0..count {
            assert_eq!(receive(main, &of_second), WakeReason::Done);
            send(main, &to_first);
        }
        Ok(())
    });
    drop(not_yet);
    first.finish();
    second.finish();
    assert_eq!(deadlocks.load(Ordering::Relaxed), 0);
}

#[test]
fn a_vm_that_has_not_started_yet_may_act_until_it_is_dropped() {
    let _alone = alone();
    let deadlocks = Arc::new(AtomicU64::new(0));
    let notes = channel();
    let of_vm = Arc::clone(&notes);
    let later = not_yet();
    let waits = start_closing(&deadlocks, [&notes, &notes], move |main| {
        assert_eq!(receive(main, &of_vm), WakeReason::Closed);
        Ok(())
    });
    start(|_| {}, |main| sleep(main, 20)).finish();
    assert_eq!(deadlocks.load(Ordering::Relaxed), 0);
    drop(later); // it never will
    waits.finish();
    assert_eq!(deadlocks.load(Ordering::Relaxed), 1);
}

/// Two threads halt a VM, and the second one is done before the first. The VM's own thread is in a
/// call, or it could tell of the end before both.
#[test]
fn a_vm_may_act_until_its_end_has_been_told() {
    let _alone = alone();
    let patience = Duration::from_secs(60);
    let deadlocks = Arc::new(AtomicU64::new(0));
    let notes = channel();
    let not_yet = not_yet();
    let of_vm = Arc::clone(&notes);
    let waits = start_closing(&deadlocks, [&notes, &notes], move |main| {
        assert_eq!(receive(main, &of_vm), WakeReason::Closed);
        Ok(())
    });
    let (block, call) = Block::new();
    let ends = start(Vm::abandon_calls_at_end, |main| main.foreign(call));
    await_event("the call has begun", || block.has_begun());
    drop(not_yet);
    let (begun, tells) = std::sync::mpsc::channel::<()>();
    let (go_on, may_go_on) = std::sync::mpsc::channel::<()>();
    let vm = Arc::clone(&ends.vm);
    let first = std::thread::spawn(move || {
        vm.halt(patience, || {
            begun.send(()).expect("the test waits");
            may_go_on.recv().expect("the test goes on");
            wake_from_outside(notes.close(), || notes.pass_on());
        })
    });
    tells.recv().expect("the first one tells of the end");
    let second = ends.vm.halt(patience, || panic!("the end is told twice"));
    assert_eq!(second, HaltOutcome::HadEnded);
    for _ in 0..2 {
        // Between two looks, it has checked for a deadlock.
        waits.vm.look(patience, |_| ()).expect("it waits");
    }
    assert_eq!(deadlocks.load(Ordering::Relaxed), 0);
    go_on.send(()).expect("the first one waits");
    assert_eq!(first.join().expect("it has told"), HaltOutcome::Halted);
    block.end();
    ends.finish();
    waits.finish();
    assert_eq!(deadlocks.load(Ordering::Relaxed), 0);
}

#[test]
fn a_vm_makes_no_wake_up_while_it_waits_for_another() {
    let _alone = alone();
    let notes = channel();
    let not_yet = not_yet();
    let of_receiver = Arc::clone(&notes);
    let receiver = start(
        |_| {},
        move |main| {
            assert_eq!(receive(main, &of_receiver), WakeReason::Done);
            Ok(())
        },
    );
    let sender = start(
        |_| {},
        move |main| {
            sleep(main, 50)?;
            send(main, &notes);
            Ok(())
        },
    );
    drop(not_yet);
    sender.finish();
    // One more: the VM that never ran was dropped.
    assert!(receiver.finish().vm.counters.idle_waits.get() <= 2);
}
