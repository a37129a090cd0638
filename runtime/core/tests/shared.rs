//! Processes of several VMs wait for the same objects.

mod mock_guest;

use baton_core::sched::{Case, Deadline, ProcessId, State, WakeReason};
use baton_core::shared::channel::Message;
use baton_core::shared::{SharedChannel, Words};
use baton_core::vm::{Inside, SharedCase, Sleeper, Vm};
use mock_guest::{Life, Process, Running, await_event, run, start};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// A message with a number. It counts those that live.
#[derive(Debug)]
struct Numbered(u64, Arc<AtomicU64>);

impl Message for Numbered {
    fn size(&self) -> u64 {
        8
    }
}

impl Drop for Numbered {
    fn drop(&mut self) {
        self.1.fetch_sub(1, Ordering::Relaxed);
    }
}

type TestChannel = Arc<SharedChannel<Numbered, Sleeper>>;

fn channel(capacity: usize) -> TestChannel {
    Arc::new(SharedChannel::new(capacity, 1 << 20, "jobs"))
}

fn message(number: u64, living: &Arc<AtomicU64>) -> Numbered {
    living.fetch_add(1, Ordering::Relaxed);
    Numbered(number, Arc::clone(living))
}

fn after(milliseconds: u64) -> Deadline {
    Vm::deadline(Some(Duration::from_millis(milliseconds)))
}

fn state(process: &Process, id: ProcessId) -> State {
    process.vm.sched(|sched| sched.state(id))
}

/// Sends the numbers below `count`.
fn send_all(process: &Process, channel: &TestChannel, living: &Arc<AtomicU64>, count: u64) -> Life {
    for number in 0..count {
        let (reason, _) = process
            .vm
            .send_shared(channel, message(number, living), Deadline::Never);
        assert_eq!(reason, WakeReason::Done);
        process.checkpoint()?;
    }
    Ok(())
}

#[test]
fn two_vms_pass_messages_in_order() {
    const COUNT: u64 = 20_000;
    for capacity in [1, 64] {
        let (channel, living) = (channel(capacity), Arc::new(AtomicU64::new(0)));
        let (of_sender, counted) = (Arc::clone(&channel), Arc::clone(&living));
        let sender = start(
            |_| {},
            move |main| {
                send_all(main, &of_sender, &counted, COUNT)?;
                main.vm.close_shared(&of_sender);
                Ok(())
            },
        );
        let of_receiver = Arc::clone(&channel);
        run(move |main| {
            for expected in 0..COUNT {
                let (reason, got) = main.vm.receive_shared(&of_receiver, Deadline::Never);
                assert_eq!(reason, WakeReason::Done);
                assert_eq!(got.map(|got| got.0), Some(expected));
                main.checkpoint()?;
            }
            let (reason, got) = main.vm.receive_shared(&of_receiver, Deadline::Never);
            assert_eq!(reason, WakeReason::Closed);
            assert!(got.is_none());
            Ok(())
        });
        sender.finish();
        assert_eq!(living.load(Ordering::Relaxed), 0);
    }
}

const SENDERS: u64 = 4;
const COUNT: u64 = 2_000;

/// A deadline that often comes first. It is later after deadlines that did: in an emulator, a
/// message can need longer than any fixed time that is short elsewhere.
fn soon(missed: u32) -> Deadline {
    Vm::deadline(Some(Duration::from_micros(20 << missed.min(10))))
}

/// What was received.
#[derive(Default)]
struct Account {
    sum: AtomicU64,
    count: AtomicU64,
}

fn send_patiently(process: &Process, channel: &TestChannel, living: &Arc<AtomicU64>) -> Life {
    for number in 0..COUNT {
        let (mut waiting, mut missed) = (message(number, living), 0);
        loop {
            match process.vm.send_shared(channel, waiting, soon(missed)) {
                (WakeReason::Done, _) => break,
                (WakeReason::TimedOut, Some(back)) => waiting = back,
                (reason, _) => panic!("{reason:?}"),
            }
            missed += 1;
            process.checkpoint()?;
        }
    }
    Ok(())
}

fn receive_until_closed(process: &Process, channel: &TestChannel, account: &Account) -> Life {
    let mut missed = 0;
    loop {
        match process.vm.receive_shared(channel, soon(missed)) {
            (WakeReason::Done, Some(got)) => {
                account.sum.fetch_add(got.0, Ordering::Relaxed);
                account.count.fetch_add(1, Ordering::Relaxed);
                missed = 0;
            }
            (WakeReason::TimedOut, _) => missed += 1,
            (WakeReason::Closed, _) => return Ok(()),
            (reason, _) => panic!("{reason:?}"),
        }
        process.checkpoint()?;
    }
}

/// Starts two VMs with `processes` processes each.
fn start_two(
    processes: u64,
    body: impl Fn(&Process) -> Life + Clone + Send + 'static,
) -> Vec<Running> {
    let start_one = |_| {
        let body = body.clone();
        start(
            |_| {},
            move |main| {
                let spawn_one = |_| main.spawn(body.clone());
                main.join_all((0..processes).map(spawn_one).collect::<Vec<_>>())
            },
        )
    };
    (0..2).map(start_one).collect()
}

/// Several processes of several VMs send and receive, with timeouts that often come first.
#[test]
fn many_senders_and_receivers_lose_and_double_nothing() {
    let (channel, living) = (channel(3), Arc::new(AtomicU64::new(0)));
    let account = Arc::new(Account::default());
    let senders = start_two(SENDERS / 2, {
        let (channel, living) = (Arc::clone(&channel), Arc::clone(&living));
        move |process| send_patiently(process, &channel, &living)
    });
    let receivers = start_two(3, {
        let (channel, account) = (Arc::clone(&channel), Arc::clone(&account));
        move |process| receive_until_closed(process, &channel, &account)
    });
    for sender in senders {
        sender.finish();
    }
    run(move |main| {
        main.vm.close_shared(&channel);
        Ok(())
    });
    for receiver in receivers {
        receiver.finish();
    }
    assert_eq!(account.count.load(Ordering::Relaxed), SENDERS * COUNT);
    assert_eq!(
        account.sum.load(Ordering::Relaxed),
        SENDERS * (COUNT * (COUNT - 1) / 2)
    );
    assert_eq!(living.load(Ordering::Relaxed), 0);
}

#[test]
fn a_killed_receiver_loses_no_message() {
    run(|main| {
        let (channel, living) = (channel(4), Arc::new(AtomicU64::new(0)));
        let received = Arc::new(AtomicU64::new(0));
        let receivers = [0; 2].map(|_| {
            let channel = Arc::clone(&channel);
            let received = Arc::clone(&received);
            main.spawn(move |process| {
                let (reason, got) = process.vm.receive_shared(&channel, Deadline::Never);
                if reason == WakeReason::Done {
                    received.fetch_add(got.expect("there is one").0, Ordering::Relaxed);
                }
                process.checkpoint()
            })
        });
        main.yield_until(|| {
            receivers
                .iter()
                .all(|&id| state(main, id) == State::Waiting)
        })?;
        // The message is reserved for the first one, which is runnable and dies.
        let (reason, _) = main
            .vm
            .send_shared(&channel, message(7, &living), Deadline::Now);
        assert_eq!(reason, WakeReason::Done);
        let _ = main.vm.kill(receivers[0]);
        main.join_all(receivers)?;
        assert_eq!(received.load(Ordering::Relaxed), 7);
        assert_eq!(living.load(Ordering::Relaxed), 0);
        Ok(())
    });
}

#[test]
fn a_wait_times_out_and_leaves_no_ticket() {
    run(|main| {
        let (channel, living) = (channel(1), Arc::new(AtomicU64::new(0)));
        let (reason, got) = main.vm.receive_shared(&channel, after(1));
        assert_eq!((reason, got.is_none()), (WakeReason::TimedOut, true));
        for _ in 0..2 {
            // Nothing is reserved for the one before.
            let (reason, _) = main
                .vm
                .send_shared(&channel, message(1, &living), Deadline::Now);
            assert_eq!(reason, WakeReason::Done);
            let (reason, back) = main.vm.send_shared(&channel, message(2, &living), after(1));
            assert_eq!(reason, WakeReason::TimedOut);
            assert_eq!(back.map(|back| back.0), Some(2));
            let (reason, got) = main.vm.receive_shared(&channel, Deadline::Now);
            assert_eq!(reason, WakeReason::Done);
            assert_eq!(got.map(|got| got.0), Some(1));
        }
        Ok(())
    });
}

/// What was reserved for a VM that has ended goes to another one.
#[test]
fn a_vm_that_ends_while_it_waits_holds_nothing_up() {
    let (channel, living) = (channel(1), Arc::new(AtomicU64::new(0)));
    for _ in 0..100 {
        let of_vm = Arc::clone(&channel);
        run(move |main| {
            let waiter = main.spawn(move |process| {
                let _ = process.vm.receive_shared(&of_vm, Deadline::Never);
                panic!("its VM ends before");
            });
            main.yield_until(|| state(main, waiter) == State::Waiting)
        });
    }
    run(move |main| {
        let (reason, _) = main
            .vm
            .send_shared(&channel, message(1, &living), Deadline::Now);
        assert_eq!(reason, WakeReason::Done);
        let (reason, _) = main.vm.receive_shared(&channel, Deadline::Now);
        assert_eq!(reason, WakeReason::Done);
        Ok(())
    });
}

fn select(
    inside: &Inside<'_>,
    cases: Vec<SharedCase<'_, Numbered>>,
    deadline: Deadline,
) -> (WakeReason, usize, Option<u64>) {
    let mut places = vec![Case::Ready(WakeReason::Closed, 0); cases.len()];
    let shared = cases.into_iter().enumerate().collect();
    let (wake, got) = inside
        .select_shared(&mut places, &[], shared, deadline)
        .expect("there is no descriptor");
    (wake.reason, wake.case as usize, got.map(|got| got.0))
}

#[test]
fn a_select_of_channels_completes_one_case_and_leaves_the_others() {
    let (left, right) = (channel(1), channel(1));
    let living = Arc::new(AtomicU64::new(0));
    let has_chosen = Arc::new(AtomicBool::new(false));
    let (of_left, of_right) = (Arc::clone(&left), Arc::clone(&right));
    let (counted, told) = (Arc::clone(&living), Arc::clone(&has_chosen));
    let selecting = start(
        |_| {},
        move |main| {
            let cases = vec![
                SharedCase::Receive(&*of_left),
                SharedCase::Receive(&*of_right),
            ];
            let chosen = select(&main.vm, cases, Deadline::Never);
            assert_eq!(chosen, (WakeReason::Done, 1, Some(5)));
            told.store(true, Ordering::Release);
            let cases = vec![
                SharedCase::Receive(&*of_left),
                SharedCase::Send(&*of_right, message(6, &counted)),
            ];
            let chosen = select(&main.vm, cases, Deadline::Never);
            assert_eq!(chosen, (WakeReason::Done, 1, None));
            Ok(())
        },
    );
    run(move |main| {
        let (reason, _) = main
            .vm
            .send_shared(&right, message(5, &living), Deadline::Never);
        assert_eq!(reason, WakeReason::Done);
        await_event("the first select is over", || {
            has_chosen.load(Ordering::Acquire)
        });
        let (_, got) = main.vm.receive_shared(&right, Deadline::Never);
        assert_eq!(got.map(|got| got.0), Some(6));
        // Nothing in this channel is reserved for the select.
        let (reason, _) = main
            .vm
            .send_shared(&left, message(7, &living), Deadline::Never);
        assert_eq!(reason, WakeReason::Done);
        let (_, got) = main.vm.receive_shared(&left, Deadline::Now);
        assert_eq!(got.map(|got| got.0), Some(7));
        Ok(())
    });
    selecting.finish();
}

/// A lock made of a word, as a futex: 0 is free, 1 is held, 2 is held and somebody waits.
fn lock(process: &Process, words: &Words<Sleeper>) -> Life {
    if words.compare(0, 0, 1).is_ok() {
        return Ok(());
    }
    while words.exchange(0, 2) != 0 {
        let reason = process.vm.wait_at_word(words, 0, 2, Deadline::Never);
        assert_eq!(reason, WakeReason::Done);
        process.checkpoint()?;
    }
    Ok(())
}

fn unlock(process: &Process, words: &Words<Sleeper>) {
    if words.exchange(0, 0) == 2 {
        process.vm.wake_word(words, 0, 1);
    }
}

#[test]
fn a_lock_made_of_a_word_keeps_vms_apart() {
    const ROUNDS: i64 = 2_000;
    const VMS: i64 = 3;
    let words = Arc::new(Words::new(2).expect("there is memory"));
    let running: Vec<_> = (0..VMS)
        .map(|_| {
            let words = Arc::clone(&words);
            start(
                |_| {},
                move |main| {
                    for _ in 0..ROUNDS {
                        lock(main, &words)?;
                        let seen = words.load(1);
                        main.checkpoint()?;
                        words.store(1, seen + 1);
                        unlock(main, &words);
                    }
                    Ok(())
                },
            )
        })
        .collect();
    for vm in running {
        vm.finish();
    }
    assert_eq!(words.load(1), VMS * ROUNDS);
}

#[test]
fn waits_at_a_word_end_in_their_order_and_one_for_each_wake_up() {
    run(|main| {
        let words = Arc::new(Words::new(2).expect("there is memory"));
        let order = Arc::new(AtomicU64::new(0));
        let waiters = [0, 1, 2].map(|number| {
            let (words, order) = (Arc::clone(&words), Arc::clone(&order));
            main.spawn(move |process| {
                let reason = process.vm.wait_at_word(&words, 1, 0, Deadline::Never);
                assert_eq!(reason, WakeReason::Done);
                assert_eq!(order.fetch_add(1, Ordering::Relaxed), number);
                Ok(())
            })
        });
        main.yield_until(|| waiters.iter().all(|&id| state(main, id) == State::Waiting))?;
        assert_eq!(main.vm.sched(|sched| sched.shared_waits()), 3);
        assert_eq!(main.vm.wake_word(&words, 0, 9), 0);
        assert_eq!(main.vm.wake_word(&words, 1, 1), 1);
        main.join(waiters[0])?;
        assert_eq!(state(main, waiters[1]), State::Waiting);
        assert_eq!(main.vm.wake_word(&words, 1, 9), 2);
        main.join_all(waiters)?;
        let reason = main.vm.wait_at_word(&words, 1, 5, Deadline::Never);
        assert_eq!(reason, WakeReason::Done); // the word differs
        assert_eq!(
            main.vm.wait_at_word(&words, 1, 0, after(1)),
            WakeReason::TimedOut
        );
        Ok(())
    });
}
