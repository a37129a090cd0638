//! Foreign calls: they are retaken if they last, and return in order.

mod mock_guest;

use baton_core::sched::{Deadline, KillOutcome, ProcessId, State, SuspendOutcome, WakeReason};
use baton_core::vm::{ForeignCall, Vm};
use baton_sys::gate;
use mock_guest::{
    Block, Killed, Life, Policy, Process, await_event, native_thread, run, run_unbound, run_with,
    start,
};
use std::cell::Cell;
use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

fn state(process: &Process, other: ProcessId) -> State {
    process.vm.sched(|sched| sched.state(other))
}

#[test]
fn others_run_while_a_foreign_call_lasts() {
    let finished = run_unbound(
        |_| {},
        |main| {
            let (block, call) = Block::new();
            let caller = main.spawn(move |process| process.foreign(call));
            // The call ends only because the VM was retaken from it: nothing else ends it.
            main.yield_until(|| block.has_begun())?;
            assert_eq!(state(main, caller), State::Foreign);
            block.end();
            main.join(caller)
        },
    );
    assert!(finished.vm.counters.retakes.get() >= 1);
    assert!(finished.vm.counters.threads_started.get() >= 1);
}

#[test]
fn a_pipe_between_two_processes_that_block_in_the_system_works() {
    run(|main| {
        let (mut reader, mut writer) = std::io::pipe().expect("a pipe");
        let received = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&received);
        let listener = main.spawn(move |process| {
            let mut byte = [0];
            while process.foreign(|| reader.read(&mut byte).expect("a pipe is read"))? == 1 {
                count.fetch_add(u64::from(byte[0]), Ordering::Relaxed);
            }
            Ok(())
        });
        let speaker = main.spawn(move |process| {
            for number in 1..=100_u8 {
                process.foreign(|| writer.write_all(&[number]).expect("a pipe is written"))?;
                process.yield_now()?;
            }
            process.foreign(|| drop(writer))
        });
        main.join_all([speaker, listener])?;
        assert_eq!(received.load(Ordering::Relaxed), 5050);
        Ok(())
    });
}

#[test]
fn the_call_of_the_first_process_is_retaken_and_the_vm_comes_home() {
    let finished = run(|main| {
        let home = native_thread();
        for _ in 0..20 {
            let (block, call) = Block::new();
            let other = main.spawn(move |process| {
                assert_ne!(native_thread(), home);
                process.yield_until(|| block.has_begun())?;
                block.end();
                Ok(())
            });
            main.foreign(call)?;
            assert_eq!(native_thread(), home, "main is bound to home");
            main.join(other)?;
            assert_eq!(native_thread(), home);
        }
        Ok(())
    });
    let counters = &finished.vm.counters;
    assert_eq!(counters.retakes.get(), 20);
    assert_eq!(counters.homecomings.get(), 20);
}

#[test]
fn an_unbound_process_goes_home_once_home_is_free() {
    run(|main| {
        let home = native_thread();
        let (block, call) = Block::new();
        let busy = main.spawn(move |process| {
            assert_ne!(native_thread(), home);
            process.spin_until(|| block.has_begun())?;
            block.end();
            // Never yields: it is moved at a safepoint.
            process.spin_until(|| native_thread() == home)
        });
        main.foreign(call)?;
        main.join(busy)
    });
}

/// Runs a process whose call is retaken, and which returns while another thread has the VM. Returns
/// whether it is on the same thread before and after.
fn threads_around_a_retaken_call(policy: Policy) -> bool {
    let stayed = Arc::new(AtomicBool::new(false));
    let result = Arc::clone(&stayed);
    run(move |main| {
        let (block, call) = Block::new();
        let caller = main.spawn(move |process| {
            let before = native_thread();
            process.foreign_as(policy, call)?;
            result.store(native_thread() == before, Ordering::Relaxed);
            process.unpin();
            Ok(())
        });
        // Main keeps home busy, so the caller is out on another thread.
        let (main_block, main_call) = Block::new();
        let helper = main.spawn(move |process| {
            process.yield_until(|| main_block.has_begun() && block.has_begun())?;
            main_block.end();
            block.end();
            Ok(())
        });
        main.foreign(main_call)?;
        main.join_all([caller, helper])
    });
    stayed.load(Ordering::Relaxed)
}

#[test]
fn a_pinned_process_continues_on_its_own_thread() {
    for _ in 0..20 {
        assert!(threads_around_a_retaken_call(Policy::RetakePinned));
    }
}

thread_local! {
    /// The last user of the thread, as a library's error queue would record it.
    static LAST_USER: Cell<u64> = const { Cell::new(0) };
}

#[inline(never)]
fn use_thread(user: u64) {
    LAST_USER.set(user);
}

#[inline(never)]
fn last_user_of_thread() -> u64 {
    LAST_USER.get()
}

#[test]
fn a_thread_goes_on_with_the_call_that_came_back_before_it_runs_another_process() {
    const CALLERS: u64 = 4;
    run(|main| {
        let vm = main.vm.to_arc();
        let done = Arc::new(AtomicU64::new(0));
        let mut processes = Vec::new();
        for user in 1..=CALLERS {
            let (vm, done) = (Arc::clone(&vm), Arc::clone(&done));
            processes.push(main.spawn(move |process| {
                for _ in 0..100 {
                    let before = vm.counters.retakes.get();
                    let call = || {
                        use_thread(user);
                        await_event("a call is taken", || vm.counters.retakes.get() > before);
                    };
                    process.foreign_function(call, |()| assert_eq!(last_user_of_thread(), user))?;
                }
                done.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }));
        }
        // A runnable process, so that calls are retaken until all are done.
        while done.load(Ordering::Relaxed) < CALLERS {
            use_thread(0);
            main.yield_now()?;
        }
        main.join_all(processes)
    });
}

#[test]
fn a_process_without_foreign_frames_may_continue_elsewhere() {
    // Processes that are not pinned gather at home, and the caller was out on another thread.
    assert!(!threads_around_a_retaken_call(Policy::Retake));
}

#[test]
fn a_thread_with_a_pinned_process_is_not_retired() {
    let brief = |vm: &Vm| vm.parameters.thread_idle.set(Duration::from_micros(1));
    run_with(brief, |main| {
        for _ in 0..10 {
            let queue = main.vm.sched(|sched| sched.wait_queue_new());
            let (block, call) = Block::new();
            let (main_block, main_call) = Block::new();
            let pinned = main.spawn(move |process| {
                let before = native_thread();
                process.foreign_as(Policy::RetakePinned, call)?;
                process.wait(|sched| sched.wait(queue, Deadline::Never))?;
                assert_eq!(native_thread(), before);
                process.unpin();
                Ok(())
            });
            let helper = main.spawn(move |process| {
                process.yield_until(|| main_block.has_begun() && block.has_begun())?;
                main_block.end();
                block.end();
                Ok(())
            });
            main.foreign(main_call)?;
            main.join(helper)?;
            main.yield_until(|| main.vm.sched(|sched| sched.wait_queue_len(queue)) == 1)?;
            // Other threads retire meanwhile.
            let others: Vec<_> = (0..3).map(|_| main.spawn(brief_retaken_call)).collect();
            main.join_all(others)?;
            main.vm
                .with_sched(|sched| sched.wake_one(queue, WakeReason::Done, 0));
            main.join(pinned)?;
        }
        let retired = || main.vm.counters.threads_retired.get() > 0;
        main.yield_until(retired)
    });
}

/// A call that ends when it was taken.
fn brief_retaken_call(process: &Process) -> Life {
    let vm = process.vm.to_arc();
    let before = vm.counters.retakes.get();
    let helper = process.spawn(|helper| helper.checkpoint());
    process.foreign(|| await_event("the call is taken", || vm.counters.retakes.get() > before))?;
    process.join(helper)
}

#[test]
fn threads_without_work_end_and_others_are_started_when_needed() {
    let brief = |vm: &Vm| vm.parameters.thread_idle.set(Duration::from_millis(1));
    let finished = run_unbound(brief, |process| {
        for round in 1..=5 {
            let (block, call) = Block::new();
            let caller = process.spawn(move |process| process.foreign(call));
            process.yield_until(|| block.has_begun())?;
            block.end();
            process.join(caller)?;
            process.yield_until(|| process.vm.counters.threads_retired.get() >= round)?;
            process.yield_until(|| process.vm.threads() == 1)?;
        }
        Ok(())
    });
    assert!(finished.vm.counters.threads_started.get() >= 5);
}

#[test]
fn an_exclusive_call_keeps_the_vm_and_is_warned_about_once() {
    let running = start(
        |vm| {
            vm.parameters.warn_blocked.set(Duration::from_millis(1));
            // No slice ends. Otherwise a caller that the machine stops before its call would be
            // warned about that.
            vm.parameters.slice.set(Duration::from_secs(3600));
        },
        |main| {
            let ended = Arc::new(AtomicBool::new(false));
            let flag = Arc::clone(&ended);
            let mock = Arc::clone(&main.mock);
            let caller = main.spawn(move |process| {
                let warned = || mock.warnings.load(Ordering::Relaxed) > 0;
                process.foreign_as(Policy::Stay, || {
                    await_event("the call is warned about", warned);
                    flag.store(true, Ordering::Relaxed);
                })
            });
            main.yield_now()?;
            assert!(
                ended.load(Ordering::Relaxed),
                "main ran during an exclusive call"
            );
            main.join(caller)
        },
    );
    let finished = running.finish();
    assert_eq!(finished.vm.counters.retakes.get(), 0);
    assert_eq!(finished.mock.warnings.load(Ordering::Relaxed), 1);
}

/// Such a call is hardly ever seen outside, so its own thread warns.
#[test]
fn a_call_that_keeps_entering_is_also_warned_about_once() {
    const PATIENCE: Duration = Duration::from_millis(1);
    let mut all = Vec::new();
    while all.len() < 50 {
        let noticed_after = Arc::new(Mutex::new(Duration::MAX));
        let note = Arc::clone(&noticed_after);
        let running = start(
            |vm| vm.parameters.warn_blocked.set(PATIENCE),
            move |main| {
                let caller = main.spawn(move |process| {
                    let warned = || process.mock.warnings.load(Ordering::Relaxed) > 0;
                    // The last check before the warning.
                    let mut looked = Instant::now();
                    process.foreign_as(Policy::Stay, || {
                        loop {
                            for _ in 0..200 {
                                // SAFETY: the process is in a foreign call.
                                let call = unsafe { ForeignCall::assume(&process.vm) };
                                let inside = call.enter();
                                process.mock.touch();
                                let _ = inside.leave();
                            }
                            let now = Instant::now();
                            if warned() {
                                break;
                            }
                            looked = now;
                        }
                    })?;
                    *note.lock().expect("no thread panics") = looked.elapsed();
                    Ok(())
                });
                main.yield_now()?;
                main.join(caller)
            },
        );
        let finished = running.finish();
        assert_eq!(finished.vm.counters.retakes.get(), 0);
        // If the machine stops it before it has noticed the warning, there may be another one: then
        // try again.
        let noticed_after = *noticed_after.lock().expect("no thread panics");
        if noticed_after < PATIENCE {
            assert_eq!(finished.mock.warnings.load(Ordering::Relaxed), 1);
            return;
        }
        all.push(noticed_after);
    }
    panic!("it never noticed within {PATIENCE:?}: {all:?}");
}

/// Each thread's gate counts that thread's own calls, so two threads may show the same value.
#[test]
fn an_exclusive_call_on_one_thread_says_nothing_about_calls_on_another() {
    let never = |vm: &Vm| vm.parameters.warn_blocked.set(Duration::from_secs(3600));
    run_with(never, |main| {
        let (main_block, main_call) = Block::new();
        let (first, first_call) = Block::new();
        let (second, second_call) = Block::new();
        let judged = main.vm.to_arc();
        let callers = main.spawn(move |process| {
            // On the second thread, its first call is exclusive.
            process.foreign_as(Policy::Stay, || {
                await_event("the retake policy was called", || {
                    judged.counters.exclusive_calls.get() > 0
                });
            })?;
            process.foreign(first_call)
        });
        // On the third thread, its first call may be retaken.
        let other = main.spawn(move |process| process.foreign(second_call));
        let helper = main.spawn(move |process| {
            process.yield_until(|| {
                main_block.has_begun() && first.has_begun() && second.has_begun()
            })?;
            first.end();
            second.end();
            main_block.end();
            Ok(())
        });
        main.foreign(main_call)?;
        main.join_all([callers, other, helper])
    });
}

#[test]
fn a_process_killed_in_a_foreign_call_ends_when_the_call_does() {
    run_unbound(
        |_| {},
        |main| {
            let (block, call) = Block::new();
            let returned = Arc::new(AtomicBool::new(false));
            let flag = Arc::clone(&returned);
            let caller = main.spawn(move |process| {
                process.foreign(call)?;
                flag.store(true, Ordering::Relaxed);
                Ok(())
            });
            main.yield_until(|| block.has_begun())?;
            assert_eq!(main.vm.kill(caller), KillOutcome::Pending);
            assert_eq!(state(main, caller), State::Foreign);
            block.end();
            main.join(caller)?;
            assert!(!returned.load(Ordering::Relaxed));
            Ok(())
        },
    );
}

#[test]
fn a_process_suspended_in_a_foreign_call_stands_still_when_the_call_has_ended() {
    run_unbound(
        |_| {},
        |process| {
            let (block, call) = Block::new();
            let returned = Arc::new(AtomicBool::new(false));
            let flag = Arc::clone(&returned);
            let caller = process.spawn(move |process| {
                process.foreign(call)?;
                flag.store(true, Ordering::Relaxed);
                Ok(())
            });
            process.yield_until(|| block.has_begun())?;
            assert_eq!(process.vm.suspend(caller), SuspendOutcome::Suspended);
            block.end();
            process.yield_until(|| !process.vm.sched(|sched| sched.is_foreign(caller)))?;
            (0..20).try_for_each(|_| process.yield_now())?;
            assert!(!returned.load(Ordering::Relaxed));
            let _ = process.vm.with_sched(|sched| sched.resume(caller));
            process.join(caller)?;
            assert!(returned.load(Ordering::Relaxed));
            Ok(())
        },
    );
}

#[test]
fn with_one_thread_calls_are_made_one_after_the_other() {
    let finished = run_with(
        |vm| vm.parameters.set_max_threads(1),
        |main| {
            let begun = Arc::new(AtomicU64::new(0));
            let children: Vec<_> = (1..=3)
                .map(|number| {
                    let begun = Arc::clone(&begun);
                    main.spawn(move |process| {
                        process.foreign(|| {
                            assert_eq!(begun.fetch_add(1, Ordering::Relaxed) + 1, number);
                        })
                    })
                })
                .collect();
            let vm = main.vm.to_arc();
            main.foreign(|| {
                let hits = || vm.counters.thread_bound_hits.get() > 0;
                await_event("the bound is hit", hits);
                assert_eq!(begun.load(Ordering::Relaxed), 0);
            })?;
            main.join_all(children)
        },
    );
    assert_eq!(finished.vm.counters.retakes.get(), 0);
    assert_eq!(finished.vm.counters.threads_started.get(), 0);
}

#[test]
fn calls_switched_to_stay_are_taken_once_retaking_is_on_again() {
    run_unbound(
        |_| {},
        |main| {
            main.vm.set_retaking(false);
            let (block, call) = Block::new();
            let caller = main.spawn(move |process| {
                process.foreign(|| {})?;
                process.vm.set_retaking(true);
                process.foreign(call)
            });
            main.yield_until(|| block.has_begun())?;
            assert_eq!(state(main, caller), State::Foreign);
            block.end();
            main.join(caller)
        },
    );
}

#[test]
fn short_calls_are_seldom_taken_and_never_lost() {
    let finished = run(|main| {
        let callers: Vec<_> = (0..4)
            .map(|_| {
                main.spawn(|process| {
                    for _ in 0..20_000 {
                        process.foreign(|| std::hint::black_box(()))?;
                    }
                    Ok(())
                })
            })
            .collect();
        main.join_all(callers)
    });
    assert!(finished.vm.counters.retakes.get() < 8000);
}

#[test]
fn calls_about_as_long_as_the_window_race_with_the_watchdog_unharmed() {
    let eager = |vm: &Vm| vm.parameters.window.set(Duration::from_micros(1));
    run_with(eager, |main| {
        let callers: Vec<_> = (0..4)
            .map(|number| main.spawn(move |p| racing_calls(p, number)))
            .collect();
        main.join_all(callers)
    });
}

#[test]
fn without_a_window_the_vm_is_taken_even_from_short_calls() {
    let ageless = |vm: &Vm| vm.parameters.window.set(Duration::ZERO);
    run_with(ageless, |main| {
        let short_calls = |process: &Process| {
            while process.vm.counters.retakes.get() < 10 {
                process.foreign(|| {
                    assert_eq!((0..20_000).map(std::hint::black_box).count(), 20_000)
                })?;
            }
            Ok(())
        };
        let callers: Vec<_> = (0..2).map(|_| main.spawn(short_calls)).collect();
        main.join_all(callers)
    });
}

fn racing_calls(process: &Process, number: u64) -> Result<(), Killed> {
    let mut random = 0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(number + 1);
    for _ in 0..300 {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let turns = (random >> 33) % 40_000;
        let policy = match random >> 62 {
            0 => Policy::RetakePinned,
            1 => Policy::Stay,
            _ => Policy::Retake,
        };
        process.foreign_as(policy, || {
            assert_eq!((0..turns).map(std::hint::black_box).count() as u64, turns)
        })?;
        process.unpin();
    }
    Ok(())
}

#[test]
fn a_vm_stops_while_calls_are_out_and_they_never_come_back() {
    let came_back = Arc::new(AtomicU64::new(0));
    let ended = Arc::new(AtomicU64::new(0));
    let (releases, released): (Vec<_>, Vec<_>) = (0..5).map(|_| channel()).unzip();
    let released = Mutex::new(released);
    let (of_calls, of_system) = (Arc::clone(&came_back), Arc::clone(&ended));
    let finished = run(move |main| {
        let out = Arc::new(AtomicU64::new(0));
        for released in released.into_inner().expect("no thread panics") {
            let (out, ended) = (Arc::clone(&out), Arc::clone(&of_system));
            let came_back = Arc::clone(&of_calls);
            main.spawn(move |process| {
                process.foreign(|| {
                    out.fetch_add(1, Ordering::Relaxed);
                    let _ = released.recv();
                    ended.fetch_add(1, Ordering::Relaxed);
                })?;
                came_back.fetch_add(1, Ordering::Relaxed);
                Ok(())
            });
        }
        // Main's own call keeps the others from home.
        main.foreign(|| await_event("all are out", || out.load(Ordering::Relaxed) == 5))
    });
    assert!(finished.vm.counters.retakes.get() >= 5);
    for release in &releases {
        release.send(()).expect("the calls wait");
    }
    await_event("all calls have ended", || {
        ended.load(Ordering::Relaxed) == 5
    });
    // Another VM comes and goes; the threads of the first one sleep for ever.
    run(|main| main.yield_now());
    assert_eq!(came_back.load(Ordering::Relaxed), 0);
}

/// A process that has moved to another thread while home was out stops the VM just when home is
/// back. The function that runs the VM must wait for it.
#[test]
fn a_vm_that_is_stopped_on_another_thread_runs_until_that_process_has_ended() {
    let has_ended = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&has_ended);
    run(move |main| {
        let (block, call) = Block::new();
        main.spawn(move |process| {
            process.yield_until(|| block.has_begun())?;
            block.end();
            // Home sets the attention flag when it is back. This process reaches no safepoint, so
            // that it stays where it is.
            await_event("home is back", || {
                gate::here().slow() & gate::ATTENTION != 0
            });
            process.vm.stop();
            let busy = process.vm.running_time(process.id) + Duration::from_millis(20);
            while process.vm.running_time(process.id) < busy {}
            flag.store(true, Ordering::Release);
            Ok(())
        });
        main.foreign(call)
    });
    assert!(has_ended.load(Ordering::Acquire));
}
