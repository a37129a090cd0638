//! Waits through the executor: a waiting process is switched away, and continues with the result.

mod mock_guest;

use baton_core::sched::{
    Case, ChannelId, Deadline, KillOutcome, MutexId, Priority, SpawnOptions, Wake, WakeReason,
};
use baton_core::vm::Vm;
use mock_guest::{Killed, Life, Process, run, run_with};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

fn soon() -> Deadline {
    Vm::deadline(Some(Duration::from_millis(1)))
}

fn lock(process: &Process, mutex: MutexId, deadline: Deadline) -> Result<Wake, Killed> {
    process.block_on(|sched| {
        let attempt = sched.mutex_lock(mutex, deadline);
        attempt.expect("the process does not hold it")
    })
}

fn unlock(process: &Process, mutex: MutexId) {
    let unlocked = process.vm.with_sched(|sched| sched.mutex_unlock(mutex));
    unlocked.expect("the process holds it");
}

fn send(process: &Process, channel: ChannelId, value: u64) -> Life {
    process.wait(|sched| sched.channel_send(channel, value, Deadline::Never))?;
    Ok(())
}

fn receive(process: &Process, channel: ChannelId) -> Result<Wake, Killed> {
    process.block_on(|sched| sched.channel_receive(channel, Deadline::Never))
}

/// Slices so short that processes are interrupted everywhere.
fn tiny_slices(vm: &Vm) {
    vm.parameters.slice.set(Duration::from_micros(1));
}

#[test]
fn a_semaphore_lets_as_many_pass_as_were_signalled() {
    run(|main| {
        let semaphore = main.vm.sched(|sched| sched.semaphore_new(2));
        let passed = Arc::new(AtomicU64::new(0));
        let children: Vec<_> = (0..5)
            .map(|_| {
                let passed = Arc::clone(&passed);
                main.spawn(move |process| {
                    process.wait(|sched| sched.semaphore_wait(semaphore, Deadline::Never))?;
                    passed.fetch_add(1, Ordering::Relaxed);
                    Ok(())
                })
            })
            .collect();
        let blocked = || main.vm.sched(|sched| sched.waiting_count());
        main.yield_until(|| blocked() == 3)?;
        assert_eq!(passed.load(Ordering::Relaxed), 2);
        main.vm
            .with_sched(|sched| sched.semaphore_signal(semaphore, 1));
        main.yield_until(|| passed.load(Ordering::Relaxed) == 3)?;
        assert_eq!(blocked(), 2);
        main.vm
            .with_sched(|sched| sched.semaphore_signal(semaphore, 2));
        main.join_all(children)
    });
}

#[test]
fn every_wait_times_out() {
    run(|main| {
        let (semaphore, event, channel, queue) = main.vm.sched(|sched| {
            let (semaphore, event) = (sched.semaphore_new(0), sched.event_new());
            (
                semaphore,
                event,
                sched.channel_new(0),
                sched.wait_queue_new(),
            )
        });
        let cases = [Case::Receive(channel), Case::Send(channel, 1)];
        let wakes = [
            main.block_on(|sched| sched.semaphore_wait(semaphore, soon()))?,
            main.block_on(|sched| sched.event_wait(event, soon()))?,
            main.block_on(|sched| sched.channel_receive(channel, soon()))?,
            main.block_on(|sched| sched.channel_send(channel, 1, soon()))?,
            main.block_on(|sched| sched.wait(queue, soon()))?,
            main.block_on(|sched| sched.select(&cases, soon(), 0))?,
            main.block_on(|sched| sched.select(&cases, Deadline::Now, 0))?,
        ];
        assert!(
            wakes.iter().all(|wake| wake.reason == WakeReason::TimedOut),
            "{wakes:?}"
        );
        Ok(())
    });
}

#[test]
fn a_mutex_keeps_the_others_out_however_often_its_holder_is_preempted() {
    run_with(tiny_slices, |main| {
        let mutex = main.vm.sched(|sched| sched.mutex_new());
        let inside = Arc::new(AtomicU64::new(0));
        let children: Vec<_> = (0..4)
            .map(|_| {
                let inside = Arc::clone(&inside);
                main.spawn(move |process| {
                    for _ in 0..200 {
                        lock(process, mutex, Deadline::Never)?;
                        assert_eq!(inside.fetch_add(1, Ordering::Relaxed), 0);
                        process.yield_now()?;
                        process.foreign(|| std::hint::black_box(()))?;
                        assert_eq!(inside.fetch_sub(1, Ordering::Relaxed), 1);
                        unlock(process, mutex);
                    }
                    Ok(())
                })
            })
            .collect();
        main.join_all(children)
    });
}

#[test]
fn a_mutex_whose_owner_was_killed_is_handed_on_as_abandoned() {
    run(|main| {
        let mutex = main.vm.sched(|sched| sched.mutex_new());
        let holder = main.spawn(move |process| {
            lock(process, mutex, Deadline::Never)?;
            process.yield_until(|| false)
        });
        let is_held = || main.vm.sched(|sched| sched.mutex_owner(mutex)) == Some(holder);
        main.yield_until(is_held)?;
        assert_eq!(lock(main, mutex, soon())?.reason, WakeReason::TimedOut);
        assert_eq!(main.vm.kill(holder), KillOutcome::Pending);
        assert_eq!(
            lock(main, mutex, Deadline::Never)?.reason,
            WakeReason::Abandoned
        );
        unlock(main, mutex);
        Ok(())
    });
}

#[test]
fn producers_and_consumers_meet_at_a_condition() {
    const ITEMS: u64 = 300;
    run_with(tiny_slices, |main| {
        let (mutex, filled) = main
            .vm
            .sched(|sched| (sched.mutex_new(), sched.condition_new()));
        let stock = Arc::new(AtomicU64::new(0));
        let of_consumer = Arc::clone(&stock);
        let consumer = main.spawn(move |process| {
            for _ in 0..ITEMS {
                lock(process, mutex, Deadline::Never)?;
                while of_consumer.load(Ordering::Relaxed) == 0 {
                    process.wait(|sched| {
                        let attempt = sched.condition_wait(filled, mutex, Deadline::Never);
                        attempt.expect("the process holds the mutex")
                    })?;
                }
                of_consumer.fetch_sub(1, Ordering::Relaxed);
                unlock(process, mutex);
            }
            Ok(())
        });
        for _ in 0..ITEMS {
            lock(main, mutex, Deadline::Never)?;
            stock.fetch_add(1, Ordering::Relaxed);
            main.vm.with_sched(|sched| sched.condition_signal(filled));
            unlock(main, mutex);
        }
        main.join(consumer)?;
        assert_eq!(stock.load(Ordering::Relaxed), 0);
        Ok(())
    });
}

#[test]
fn a_set_event_lets_every_waiter_pass() {
    run(|main| {
        let event = main.vm.sched(|sched| sched.event_new());
        let children: Vec<_> = (0..50)
            .map(|_| {
                main.spawn(move |process| {
                    process.wait(|sched| sched.event_wait(event, Deadline::Never))?;
                    Ok(())
                })
            })
            .collect();
        main.yield_until(|| main.vm.sched(|sched| sched.waiting_count()) == 50)?;
        assert_eq!(main.vm.with_sched(|sched| sched.event_set(event)), 50);
        main.wait(|sched| sched.event_wait(event, Deadline::Never))?;
        main.join_all(children)
    });
}

#[test]
fn values_go_through_channels_of_any_size_in_order_and_none_is_lost() {
    const VALUES: u64 = 500;
    for capacity in [0, 1, 7] {
        run_with(tiny_slices, move |main| {
            let channel = main.vm.sched(|sched| sched.channel_new(capacity));
            let sender = main.spawn(move |process| {
                (0..VALUES).try_for_each(|value| send(process, channel, value))?;
                process.vm.with_sched(|sched| sched.channel_close(channel));
                Ok(())
            });
            for value in 0..VALUES {
                assert_eq!(receive(main, channel)?.value, value);
            }
            assert_eq!(receive(main, channel)?.reason, WakeReason::Closed);
            main.join(sender)
        });
    }
}

#[test]
fn a_send_gives_way_at_once_to_a_more_urgent_receiver() {
    run(|main| {
        let channel = main.vm.sched(|sched| sched.channel_new(0));
        let heard = Arc::new(AtomicU64::new(0));
        let of_receiver = Arc::clone(&heard);
        let options = SpawnOptions {
            priority: Priority::HIGHEST,
            ..SpawnOptions::default()
        };
        let receiver = main.spawn_with(options, move |process| {
            for _ in 0..3 {
                of_receiver.store(receive(process, channel)?.value, Ordering::Relaxed);
            }
            Ok(())
        });
        main.yield_until(|| main.vm.sched(|sched| sched.waiting_count()) == 1)?;
        for value in 1..=3 {
            send(main, channel, value)?;
            assert_eq!(heard.load(Ordering::Relaxed), value);
        }
        main.join(receiver)
    });
}

#[test]
fn many_senders_and_receivers_share_a_channel() {
    run_with(tiny_slices, |main| {
        let channel = main.vm.sched(|sched| sched.channel_new(3));
        let sum = Arc::new(AtomicU64::new(0));
        let senders: Vec<_> = (0..4)
            .map(|_| {
                main.spawn(move |process| {
                    (1..=100).try_for_each(|value| send(process, channel, value))
                })
            })
            .collect();
        let receivers: Vec<_> = (0..4)
            .map(|_| {
                let sum = Arc::clone(&sum);
                main.spawn(move |process| {
                    loop {
                        let wake = receive(process, channel)?;
                        if wake.reason == WakeReason::Closed {
                            return Ok(());
                        }
                        sum.fetch_add(wake.value, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        main.join_all(senders)?;
        main.vm.with_sched(|sched| sched.channel_close(channel));
        main.join_all(receivers)?;
        assert_eq!(sum.load(Ordering::Relaxed), 4 * 5050);
        Ok(())
    });
}

#[test]
fn a_select_takes_what_comes_first_and_leaves_the_other_alone() {
    run(|main| {
        let (one, other) = main
            .vm
            .sched(|sched| (sched.channel_new(0), sched.channel_new(0)));
        let child = main.spawn(move |process| {
            for (turn, channel) in [(0, one), (1, other), (2, one)] {
                send(process, channel, turn)?;
            }
            Ok(())
        });
        for (turn, case) in [(0, 0), (1, 1), (2, 0)] {
            let cases = [Case::Receive(one), Case::Receive(other)];
            let wake = main
                .vm
                .block_on_random(|sched, random| sched.select(&cases, Deadline::Never, random));
            assert_eq!(
                (wake.reason, wake.case, wake.value),
                (WakeReason::Done, case, turn)
            );
        }
        main.join(child)
    });
}

#[test]
fn a_select_among_ready_cases_takes_each_of_them_sometimes() {
    run(|main| {
        let channels = main
            .vm
            .sched(|sched| [sched.channel_new(1), sched.channel_new(1)]);
        let mut taken = [0; 2];
        while taken.contains(&0) {
            for channel in channels {
                main.vm.with_sched(|sched| {
                    let _ = sched.channel_send(channel, 1, Deadline::Now);
                });
            }
            let cases = channels.map(Case::Receive);
            let wake = main
                .vm
                .block_on_random(|sched, random| sched.select(&cases, Deadline::Never, random));
            taken[wake.case as usize] += 1;
        }
        Ok(())
    });
}

#[test]
fn a_killed_waiter_takes_nothing_with_it() {
    run(|main| {
        let channel = main.vm.sched(|sched| sched.channel_new(0));
        let killed = main.spawn(move |process| receive(process, channel).map(drop));
        main.yield_until(|| main.vm.sched(|sched| sched.waiting_count()) == 1)?;
        assert_eq!(main.vm.kill(killed), KillOutcome::Woken);
        let receiver = main.spawn(move |process| {
            assert_eq!(receive(process, channel)?.value, 9);
            Ok(())
        });
        send(main, channel, 9)?;
        main.join_all([killed, receiver])
    });
}

#[test]
fn freed_objects_wake_their_waiters_with_closed() {
    run(|main| {
        let (semaphore, event) = main
            .vm
            .sched(|sched| (sched.semaphore_new(0), sched.event_new()));
        let expect_closed = |wake: Wake| assert_eq!(wake.reason, WakeReason::Closed);
        let children = [
            main.spawn(move |process| {
                process
                    .block_on(|sched| sched.semaphore_wait(semaphore, Deadline::Never))
                    .map(expect_closed)
            }),
            main.spawn(move |process| {
                process
                    .block_on(|sched| sched.event_wait(event, Deadline::Never))
                    .map(expect_closed)
            }),
        ];
        main.yield_until(|| main.vm.sched(|sched| sched.waiting_count()) == 2)?;
        main.vm.with_sched(|sched| {
            assert!(sched.semaphore_free(semaphore));
            assert!(sched.event_free(event));
        });
        main.join_all(children)
    });
}

#[test]
fn a_process_that_waits_for_the_rest_goes_on_when_all_others_have_ended() {
    run(|main| {
        let ended = Arc::new(AtomicU64::new(0));
        for number in 0..20 {
            let ended = Arc::clone(&ended);
            main.spawn(move |process| {
                (0..number).try_for_each(|_| process.yield_now())?;
                ended.fetch_add(1, Ordering::Relaxed);
                Ok(())
            });
        }
        main.wait(|sched| sched.wait_for_rest(Deadline::Never))?;
        assert_eq!(ended.load(Ordering::Relaxed), 20);
        Ok(())
    });
}
