//! Preemption: busy processes share the processor, and urgent ones run in time.

mod mock_guest;

use baton_core::sched::{
    Deadline, MutexId, Priority, ResumeOutcome, SpawnOptions, State, SuspendOutcome,
};
use baton_core::vm::Vm;
use baton_sys::clock::Instant;
use mock_guest::{Life, Process, run, run_with};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

fn with_priority(level: u8) -> SpawnOptions {
    SpawnOptions {
        priority: Priority::new(level).expect("a level of the scale"),
        ..SpawnOptions::default()
    }
}

fn short_slices(vm: &Vm) {
    vm.parameters.slice.set(Duration::from_micros(200));
}

#[test]
fn busy_processes_share_the_processor() {
    let finished = run_with(short_slices, |main| {
        let turns: Arc<[AtomicU64; 4]> = Arc::default();
        let children: Vec<_> = (0..4)
            .map(|number| {
                let turns = Arc::clone(&turns);
                main.spawn(move |process| {
                    process.spin_until(|| {
                        turns[number].fetch_add(1, Ordering::Relaxed);
                        // Ends when all have run: none of them yields.
                        turns
                            .iter()
                            .all(|turns| turns.load(Ordering::Relaxed) > 1000)
                    })
                })
            })
            .collect();
        main.join_all(children)?;
        assert!(main.vm.sched(|sched| sched.counters().preemptions_by_slice) >= 3);
        Ok(())
    });
    // A late signal may have the effect of another request.
    assert!(finished.vm.counters.beats.get() >= 1);
}

#[test]
fn a_busy_process_is_preempted_again_and_again() {
    run_with(short_slices, |main| {
        let turn = Arc::new(AtomicU64::new(0));
        let children: Vec<_> = (0..2)
            .map(|number| {
                let turn = Arc::clone(&turn);
                main.spawn(move |process| {
                    for round in 0..100 {
                        process
                            .spin_until(|| turn.load(Ordering::Relaxed) >= 2 * round + number)?;
                        turn.fetch_add(1, Ordering::Relaxed);
                    }
                    Ok(())
                })
            })
            .collect();
        main.join_all(children)
    });
}

#[test]
fn a_timer_fires_its_urgent_process_beside_a_busy_loop() {
    run(|main| {
        let fired = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&fired);
        let urgent = main.prepare(with_priority(70), move |_| {
            flag.store(true, Ordering::Relaxed);
            Ok(())
        });
        let due = Instant::now() + Duration::from_millis(2);
        main.vm.sched(|sched| sched.timer_new(due, None, urgent));
        main.spin_until(|| fired.load(Ordering::Relaxed))?;
        assert!(Instant::now() >= due);
        main.join(urgent)
    });
}

#[test]
fn an_urgent_sleeper_wakes_beside_a_busy_loop_many_times() {
    run(|main| {
        let done = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&done);
        let sleeper = main.spawn_with(with_priority(70), move |process| {
            for _ in 0..50 {
                process.sleep_until(Instant::now() + Duration::from_micros(300))?;
            }
            flag.store(true, Ordering::Relaxed);
            Ok(())
        });
        main.spin_until(|| done.load(Ordering::Relaxed))?;
        main.join(sleeper)?;
        assert!(
            main.vm
                .sched(|sched| sched.counters().preemptions_by_urgency)
                >= 25
        );
        Ok(())
    });
}

/// A process that suspends itself takes a special fast path, which updates few hints.
#[test]
fn processes_that_run_after_a_suspension_are_preempted() {
    run_with(short_slices, |main| {
        for _ in 0..50 {
            let ran = Arc::new(AtomicBool::new(false));
            let flag = Arc::clone(&ran);
            let equal = main.spawn(move |_| {
                flag.store(true, Ordering::Relaxed);
                Ok(())
            });
            let urgent = main.spawn_with(with_priority(70), |process| {
                assert_eq!(
                    process.vm.suspend(process.id),
                    SuspendOutcome::CurrentMustSwitch
                );
                process.checkpoint()
            });
            main.vm.with_sched(|_| ());
            assert_eq!(main.vm.sched(|sched| sched.state(urgent)), State::Suspended);
            main.spin_until(|| ran.load(Ordering::Relaxed))?;
            let resumed = main.vm.with_sched(|sched| sched.resume(urgent));
            assert_eq!(resumed, ResumeOutcome::Resumed);
            main.join_all([equal, urgent])?;
        }
        Ok(())
    });
}

/// Interruptions do not keep a slice from ending: a process that often wakes a more urgent one does
/// not keep its equals waiting for longer.
#[test]
fn a_process_that_is_often_interrupted_gives_way_to_equals_at_the_end_of_its_slice() {
    run(|main| {
        let semaphore = main.vm.sched(|sched| sched.semaphore_new(0));
        let is_over = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&is_over);
        let urgent = main.spawn_with(with_priority(70), move |process| {
            while !flag.load(Ordering::Relaxed) {
                process.wait(|sched| sched.semaphore_wait(semaphore, Deadline::Never))?;
            }
            Ok(())
        });
        main.yield_now()?;
        let ran = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&ran);
        let equal = main.spawn(move |_| {
            flag.store(true, Ordering::Relaxed);
            Ok(())
        });
        // A thousand slices.
        let patience = main.vm.running_time(main.id) + Duration::from_secs(10);
        let wake = || {
            main.vm
                .with_sched(|sched| sched.semaphore_signal(semaphore, 1))
        };
        main.spin_until(|| {
            wake();
            assert!(
                main.vm.running_time(main.id) < patience,
                "the equal has not run"
            );
            ran.load(Ordering::Relaxed)
        })?;
        is_over.store(true, Ordering::Relaxed);
        wake();
        main.join_all([urgent, equal])
    });
}

/// The monitor sleeps until a far deadline. Work that comes meanwhile must wake it.
#[test]
fn a_far_deadline_does_not_put_preemption_off() {
    run_with(short_slices, |main| {
        let sleeper =
            main.spawn(|process| process.sleep_until(Instant::now() + Duration::from_secs(3600)));
        main.yield_now()?;
        for _ in 0..40 {
            // Alone for so long that the monitor only waits for the deadline.
            let alone_until = Instant::now() + Duration::from_millis(1);
            main.spin_until(|| Instant::now() >= alone_until)?;
            let ran = Arc::new(AtomicBool::new(false));
            let flag = Arc::clone(&ran);
            let rival = main.spawn(move |_| {
                flag.store(true, Ordering::Relaxed);
                Ok(())
            });
            main.spin_until(|| ran.load(Ordering::Relaxed))?;
            main.join(rival)?;
        }
        let _ = main.vm.kill(sleeper);
        main.join(sleeper)
    });
}

/// As above, after the monitor has begun to rest.
#[test]
fn preemption_begins_again_after_a_long_time_alone() {
    run_with(short_slices, |main| {
        for _ in 0..4 {
            let alone_until = Instant::now() + Duration::from_millis(40);
            main.spin_until(|| Instant::now() >= alone_until)?;
            let ran = Arc::new(AtomicBool::new(false));
            let flag = Arc::clone(&ran);
            let rival = main.spawn(move |_| {
                flag.store(true, Ordering::Relaxed);
                Ok(())
            });
            main.spin_until(|| ran.load(Ordering::Relaxed))?;
            main.join(rival)?;
        }
        Ok(())
    });
}

#[test]
fn a_wake_from_another_thread_interrupts_a_busy_loop() {
    run(|main| {
        let queue = main.vm.sched(|sched| sched.wait_queue_new());
        let count = Arc::new(AtomicU64::new(0));
        let of_child = Arc::clone(&count);
        let urgent = main.spawn_with(with_priority(70), move |process| {
            for _ in 0..50 {
                process.wait(|sched| sched.wait(queue, Deadline::Never))?;
                of_child.fetch_add(1, Ordering::Release);
            }
            Ok(())
        });
        // Alone for so long that the monitor rests.
        let alone_until = Instant::now() + Duration::from_millis(40);
        main.spin_until(|| Instant::now() >= alone_until)?;
        let (vm, seen) = (main.vm.to_arc(), Arc::clone(&count));
        let waker = std::thread::spawn(move || {
            for round in 0..50 {
                // Posted again until it has arrived: the process may not have waited yet.
                while seen.load(Ordering::Acquire) == round {
                    vm.wake_from_outside(queue, 0);
                    std::thread::yield_now();
                }
            }
        });
        main.spin_until(|| count.load(Ordering::Acquire) >= 50)?;
        waker.join().expect("the waker does not panic");
        main.join(urgent)
    });
}

#[test]
fn a_process_that_is_not_preemptible_runs_until_it_gives_way() {
    run_with(short_slices, |main| {
        let options = SpawnOptions {
            preemptible: false,
            ..SpawnOptions::default()
        };
        let others_ran = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&others_ran);
        let cooperative = main.spawn_with(options, move |process| {
            spin_without_signals(process, Duration::from_millis(5))?;
            assert!(
                !flag.load(Ordering::Relaxed),
                "another process ran meanwhile"
            );
            Ok(())
        });
        let rival = main.spawn(move |_| {
            others_ran.store(true, Ordering::Relaxed);
            Ok(())
        });
        main.join_all([cooperative, rival])
    });
}

#[test]
fn a_cooperative_program_is_not_preempted() {
    run(|main| {
        main.vm.parameters.set_preemptive(false);
        let children: Vec<_> = (0..3)
            .map(|_| main.spawn(|process| spin_without_signals(process, Duration::from_millis(5))))
            .collect();
        main.join_all(children)?;
        let counters = main.vm.sched(|sched| *sched.counters());
        assert_eq!(
            counters.preemptions_by_slice + counters.preemptions_by_urgency,
            0
        );
        Ok(())
    });
}

/// Equals would not show it. A deadline of a more urgent process expires, and still no process is
/// interrupted.
#[test]
fn a_more_urgent_process_that_becomes_due_does_not_interrupt_a_cooperative_program() {
    run(|main| {
        main.vm.parameters.set_preemptive(false);
        let ran = Arc::new(AtomicBool::new(false));
        let urgent = loop {
            let flag = Arc::clone(&ran);
            let urgent = main.spawn_with(with_priority(60), move |process| {
                process.sleep_until(Instant::now() + Duration::from_millis(1))?;
                flag.store(true, Ordering::Relaxed);
                Ok(())
            });
            main.yield_now()?;
            if main.vm.sched(|sched| sched.is_alive(urgent)) {
                break urgent;
            }
            // On a busy machine the time can pass before the sleep.
            ran.store(false, Ordering::Relaxed);
        };
        let state = || main.vm.sched(|sched| sched.state(urgent));
        main.spin_until(|| state() != State::Sleeping)?;
        // It is runnable now, and each further check leaves it so.
        for _ in 0..1000 {
            main.vm.safepoint();
        }
        assert!(!ran.load(Ordering::Relaxed), "it interrupted the loop");
        assert_eq!(state(), State::Runnable);
        main.yield_now()?;
        assert!(ran.load(Ordering::Relaxed));
        main.join(urgent)
    });
}

#[test]
fn a_process_that_a_cooperative_program_wakes_waits_until_it_gives_way() {
    run(|main| {
        main.vm.parameters.set_preemptive(false);
        let semaphore = main.vm.sched(|sched| sched.semaphore_new(0));
        let ran = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&ran);
        let urgent = main.spawn_with(with_priority(60), move |process| {
            process.wait(|sched| sched.semaphore_wait(semaphore, Deadline::Never))?;
            flag.store(true, Ordering::Relaxed);
            Ok(())
        });
        main.yield_now()?;
        main.vm
            .with_sched(|sched| sched.semaphore_signal(semaphore, 1));
        assert!(!ran.load(Ordering::Relaxed), "it interrupted its waker");
        main.yield_now()?;
        assert!(ran.load(Ordering::Relaxed));
        main.join(urgent)
    });
}

/// Runs for several slices. One signal may still have been meant for the process that ran before.
fn spin_without_signals(process: &Process, busy: Duration) -> Life {
    let signals = &process.vm.counters.signals;
    let before = signals.get();
    process.spin_until(|| process.vm.running_time(process.id) >= busy)?;
    assert!(
        signals.get() <= before + 1,
        "a signal was sent to a process that continues"
    );
    Ok(())
}

#[test]
fn a_less_urgent_busy_process_waits_until_the_urgent_one_is_done() {
    run_with(short_slices, |main| {
        let done = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&done);
        let humble = main.spawn_with(with_priority(10), move |_| {
            assert!(
                flag.load(Ordering::Relaxed),
                "a less urgent process ran before"
            );
            Ok(())
        });
        let busy = Duration::from_millis(3);
        main.spin_until(|| main.vm.running_time(main.id) >= busy)?;
        done.store(true, Ordering::Relaxed);
        main.join(humble)
    });
}

#[test]
fn the_owner_of_a_mutex_inherits_the_urgency_of_its_waiters() {
    run_with(short_slices, |main| {
        let mutex = main.vm.sched(|sched| sched.mutex_new());
        let is_held = main.vm.sched(|sched| sched.semaphore_new(0));
        let humble = main.spawn_with(with_priority(10), move |process| {
            lock(process, mutex)?;
            process
                .vm
                .with_sched(|sched| sched.semaphore_signal(is_held, 1));
            let priority = || {
                process
                    .vm
                    .sched(|sched| sched.effective_priority(process.id))
            };
            process.spin_until(|| priority().get() == 70)?;
            unlock(process, mutex);
            assert_eq!(priority().get(), 10);
            Ok(())
        });
        main.wait(|sched| sched.semaphore_wait(is_held, Deadline::Never))?;
        // Keeps the owner of the mutex from running until a waiter lends it a priority.
        let is_over = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&is_over);
        let busy = main.spawn(move |process| process.spin_until(|| flag.load(Ordering::Relaxed)));
        let urgent = main.spawn_with(with_priority(70), move |process| {
            lock(process, mutex)?;
            unlock(process, mutex);
            Ok(())
        });
        main.join(urgent)?;
        is_over.store(true, Ordering::Relaxed);
        main.join_all([humble, busy])
    });
}

fn lock(process: &Process, mutex: MutexId) -> Life {
    process.wait(|sched| {
        sched
            .mutex_lock(mutex, Deadline::Never)
            .expect("the process does not hold it")
    })?;
    Ok(())
}

fn unlock(process: &Process, mutex: MutexId) {
    let unlocked = process.vm.with_sched(|sched| sched.mutex_unlock(mutex));
    unlocked.expect("the process holds it");
}

/// A process that computes alone has no slices, and nothing else asks it for a safepoint.
#[test]
fn a_process_that_runs_alone_is_asked_for_a_safepoint_at_the_time_it_was_requested_for() {
    run(|main| {
        let due = Instant::now() + Duration::from_millis(5);
        main.vm.request_safepoint_at(main.id, Some(due));
        let asked = || main.mock.requests.load(Ordering::Relaxed) > 0;
        main.spin_until(asked)?;
        assert!(Instant::now() >= due);
        Ok(())
    });
}

#[test]
fn a_process_that_decays_sinks_while_it_computes_and_comes_back_when_it_waits() {
    run_with(short_slices, |main| {
        let may_wait = Arc::new(AtomicBool::new(false));
        let has_come_back = Arc::new(AtomicBool::new(false));
        let (flag, back) = (Arc::clone(&may_wait), Arc::clone(&has_come_back));
        let options = SpawnOptions {
            decay: true,
            ..SpawnOptions::default()
        };
        let computing = main.spawn_with(options, move |process| {
            process.spin_until(|| flag.load(Ordering::Relaxed))?;
            process.sleep_until(Instant::now() + Duration::from_micros(100))?;
            let has_sunk = process.vm.sched(|sched| sched.has_sunk(process.id));
            back.store(!has_sunk, Ordering::Relaxed);
            Ok(())
        });
        // It is an equal until it has used up a slice; then it runs no more beside this process.
        main.spin_until(|| main.vm.sched(|sched| sched.has_sunk(computing)))?;
        let before = main.vm.sched(|sched| sched.counters().switches);
        let until = Instant::now() + Duration::from_millis(2);
        main.spin_until(|| Instant::now() >= until)?;
        let after = main.vm.sched(|sched| sched.counters().switches);
        assert_eq!(after, before);
        may_wait.store(true, Ordering::Relaxed);
        main.join(computing)?;
        assert!(has_come_back.load(Ordering::Relaxed));
        Ok(())
    });
}
