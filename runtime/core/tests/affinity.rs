//! Processes that are bound to named native threads. They run only there, and no other process
//! waits for such a thread.

mod mock_guest;

use baton_core::sched::{
    Blocker, CarrierId, Deadline, Priority, ProcessId, SpawnOptions, State, WakeReason,
};
use baton_core::vm::{HOME, SpawnError, Spawned, ThreadRefusal, Vm};
use baton_sys::clock::Instant;
use mock_guest::{
    Block, Life, Process, await_event, native_thread, run, run_unbound, run_with, start,
};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::ThreadId;
use std::time::Duration;

/// Spawns a process bound to the thread `name`.
fn bound(
    parent: &Process,
    name: &str,
    body: impl FnOnce(&Process) -> Life + Send + 'static,
) -> ProcessId {
    let process = parent.spawn_with(suspended(), body);
    let done = parent.vm.bind_to_thread(process, Some(name));
    done.expect("there is a thread for the name");
    let _ = parent.vm.with_sched(|sched| sched.resume(process));
    process
}

fn suspended() -> SpawnOptions {
    SpawnOptions {
        suspended: true,
        ..SpawnOptions::default()
    }
}

fn state(process: &Process, other: ProcessId) -> State {
    process.vm.sched(|sched| sched.state(other))
}

/// The thread that a process is kept aside for.
fn waits_for(process: &Process, other: ProcessId) -> Option<String> {
    match process.vm.sched(|sched| sched.blocker(other)) {
        Some(Blocker::Thread(carrier)) => process.vm.thread_name(carrier),
        _ => None,
    }
}

/// Keeps the thread `name` busy with a foreign call until the block ends.
fn occupy(parent: &Process, name: &str) -> Result<(Block, ProcessId), mock_guest::Killed> {
    let (block, call) = Block::new();
    let caller = bound(parent, name, move |process| process.foreign(call));
    parent.yield_until(|| block.has_begun() && state(parent, caller) == State::Foreign)?;
    Ok((block, caller))
}

#[test]
fn all_that_are_bound_to_a_name_run_on_its_one_thread() {
    run_unbound(
        |_| {},
        |main| {
            let here = native_thread();
            let seen: Arc<Mutex<Vec<(usize, ThreadId)>>> = Arc::default();
            let names = ["left", "right"];
            let processes: Vec<_> = (0..8)
                .map(|number| {
                    let seen = Arc::clone(&seen);
                    bound(main, names[number % 2], move |process| {
                        for _ in 0..20 {
                            let place = (number % 2, native_thread());
                            seen.lock().expect("no thread panics").push(place);
                            process.yield_now()?;
                        }
                        process.foreign(|| {
                            seen.lock()
                                .expect("no thread panics")
                                .push((number % 2, native_thread()))
                        })
                    })
                })
                .collect();
            main.join_all(processes)?;
            let seen = seen.lock().expect("no thread panics");
            let mut threads = [0, 1].map(|name| {
                seen.iter()
                    .filter(move |place| place.0 == name)
                    .map(|place| place.1)
            });
            let [left, right] = threads
                .each_mut()
                .map(|threads| threads.next().expect("they ran"));
            assert!(
                threads[0].all(|thread| thread == left) && threads[1].all(|thread| thread == right)
            );
            assert!(left != right && left != here && right != here);
            Ok(())
        },
    );
}

#[test]
fn the_calling_process_moves_at_once_and_is_free_again() {
    run_unbound(
        |_| {},
        |main| {
            let home = native_thread();
            for _ in 0..10 {
                main.vm
                    .bind_to_thread(main.id, Some("other"))
                    .expect("a thread");
                assert_ne!(native_thread(), home);
                main.vm
                    .bind_to_thread(main.id, Some("main"))
                    .expect("home is there");
                assert_eq!(native_thread(), home);
                main.vm
                    .bind_to_thread(main.id, Some("other"))
                    .expect("a thread");
                main.vm
                    .bind_to_thread(main.id, None)
                    .expect("nothing can refuse");
                // Home may be on its way to wait for the VM.
                while native_thread() != home {
                    main.join(main.spawn(|_| Ok(())))?;
                }
            }
            Ok(())
        },
    );
}

/// One call holds the thread "device" while a process waits for that thread. The process runs when
/// the call has returned, and `ends` or not. Then the holder is overdue for a report. Returns the
/// reports, and the user data of the holder and of the process that waited.
fn reports_after_a_hold(ends: bool) -> (Vec<(usize, usize)>, (usize, usize)) {
    let processes = Arc::new(Mutex::new((0, 0)));
    let seen = Arc::clone(&processes);
    let never = |vm: &Vm| vm.parameters.warn_blocked.set(Duration::from_secs(3600));
    let finished = run_with(never, move |main| {
        let (block, call) = Block::new();
        let has_run = Arc::new(AtomicBool::new(false));
        let may_end = Arc::new(AtomicBool::new(ends));
        let (ran, end) = (Arc::clone(&has_run), Arc::clone(&may_end));
        let holder = bound(main, "device", move |process| {
            process.foreign(call)?;
            process.yield_until(|| ran.load(Ordering::Relaxed))?;
            let overdue = Duration::from_nanos(1);
            process.vm.parameters.warn_blocked.set(overdue);
            process.vm.safepoint();
            end.store(true, Ordering::Relaxed);
            Ok(())
        });
        main.yield_until(|| block.has_begun() && state(main, holder) == State::Foreign)?;
        let waiter = bound(main, "device", move |process| {
            has_run.store(true, Ordering::Relaxed);
            process.yield_until(|| may_end.load(Ordering::Relaxed))
        });
        assert_eq!(waits_for(main, waiter).as_deref(), Some("device"));
        let user_data = |process| main.vm.sched(|sched| sched.user_data(process));
        let both = user_data(holder).zip(user_data(waiter));
        *seen.lock().expect("no thread panics") = both.expect("both live");
        block.end();
        main.join_all([holder, waiter])
    });
    let both = *processes.lock().expect("no thread panics");
    (finished.mock.held_threads(), both)
}

#[test]
fn no_report_of_a_held_thread_names_a_process_that_has_ended() {
    for _ in 0..20 {
        let (reports, (holder, waiter)) = reports_after_a_hold(true);
        assert_eq!(
            reports,
            [],
            "{holder} held the thread of {waiter}, which has ended"
        );
    }
}

#[test]
fn a_report_of_a_held_thread_names_a_process_that_waited_and_still_lives() {
    // A machine that is busy for longer than a thread counts as held shows no report.
    let reported = (0..100).any(|_| {
        let (reports, both) = reports_after_a_hold(false);
        assert!(reports.iter().all(|&report| report == both), "{reports:?}");
        !reports.is_empty()
    });
    assert!(reported, "a held thread was never reported");
}

#[test]
fn a_busy_thread_delays_only_processes_bound_to_it() {
    let finished = run_unbound(
        |_| {},
        |main| {
            let (block, caller) = occupy(main, "device")?;
            let has_run = Arc::new(AtomicBool::new(false));
            let ran = Arc::clone(&has_run);
            let urgent = Priority::new(70).expect("from 1 to 80");
            let waiting = bound(main, "device", move |_| {
                ran.store(true, Ordering::Relaxed);
                Ok(())
            });
            main.vm
                .with_sched(|sched| sched.set_priority(waiting, urgent));
            assert_eq!(state(main, waiting), State::Runnable);
            assert_eq!(waits_for(main, waiting).as_deref(), Some("device"));
            // A thousand switches of processes that are not bound, or are bound to another thread.
            let elsewhere = bound(main, "other", |process| {
                (0..1000).try_for_each(|_| process.yield_now())
            });
            let anywhere = main.spawn(|process| (0..1000).try_for_each(|_| process.yield_now()));
            main.join_all([anywhere, elsewhere])?;
            assert!(!has_run.load(Ordering::Relaxed));
            assert_eq!(state(main, caller), State::Foreign);
            block.end();
            main.join_all([waiting, caller])
        },
    );
    assert!(finished.vm.counters.retakes.get() >= 1);
}

#[test]
fn a_process_that_binds_itself_to_a_busy_thread_waits_for_it_alone() {
    run_unbound(
        |_| {},
        |main| {
            let (block, caller) = occupy(main, "device")?;
            let mover = main.spawn(|process| {
                process
                    .vm
                    .bind_to_thread(process.id, Some("device"))
                    .expect("it is there");
                process.mock.touch();
                assert_eq!(
                    process
                        .vm
                        .thread_name(process.vm.current_carrier())
                        .as_deref(),
                    Some("device")
                );
                Ok(())
            });
            main.yield_until(|| waits_for(main, mover).is_some())?;
            for _ in 0..100 {
                main.yield_now()?;
            }
            assert_eq!(state(main, mover), State::Runnable);
            block.end();
            main.join_all([mover, caller])
        },
    );
}

#[test]
fn processes_bound_to_one_thread_make_their_calls_in_turn() {
    let turns: Arc<Mutex<Vec<usize>>> = Arc::default();
    let taken = Arc::clone(&turns);
    run_unbound(
        // So that a process notes its run before the next one runs.
        |vm| vm.parameters.slice.set(Duration::from_secs(3600)),
        move |main| {
            let processes: Vec<_> = (0..4)
                .map(|number| {
                    let taken = Arc::clone(&taken);
                    bound(main, "shared", move |process| {
                        for _ in 0..10 {
                            // Retaken while it lasts, so that the others wait for the thread.
                            let vm = process.vm.to_arc();
                            let retakes = vm.counters.retakes.get();
                            process.foreign(|| {
                                await_event("the call is retaken", || {
                                    vm.counters.retakes.get() > retakes
                                })
                            })?;
                            taken.lock().expect("no thread panics").push(number);
                        }
                        Ok(())
                    })
                })
                .collect();
            // A process that is always runnable, so that each call is retaken.
            let over = Arc::new(AtomicBool::new(false));
            let end = Arc::clone(&over);
            let busy =
                main.spawn(move |process| process.yield_until(|| end.load(Ordering::Relaxed)));
            main.join_all(processes)?;
            over.store(true, Ordering::Relaxed);
            main.join(busy)
        },
    );
    let turns = turns.lock().expect("no thread panics");
    for taken in 0..turns.len() {
        let of = |number| {
            turns[..taken]
                .iter()
                .filter(|&&turn| turn == number)
                .count()
        };
        let counts = [0, 1, 2, 3].map(of);
        let (most, least) = (counts.iter().max(), counts.iter().min());
        assert!(most <= least.map(|least| least + 2).as_ref(), "{turns:?}");
    }
}

#[test]
fn a_named_thread_is_kept_while_a_process_is_bound_to_it() {
    run_unbound(
        |vm| vm.parameters.thread_idle.set(Duration::from_millis(1)),
        |main| {
            // By sleeping: the process may be on the thread that is to be retired.
            let retired = |count| {
                move |main: &Process| {
                    while main.vm.counters.threads_retired.get() < count {
                        main.sleep_until(Instant::now() + Duration::from_millis(1))?;
                    }
                    Ok(())
                }
            };
            let semaphore = main.vm.sched(|sched| sched.semaphore_new(0));
            let keeper = bound(main, "kept", move |process| {
                let before = native_thread();
                process.wait(|sched| sched.semaphore_wait(semaphore, Deadline::Never))?;
                assert_eq!(native_thread(), before);
                Ok(())
            });
            let passing = bound(main, "passing", |_| Ok(()));
            main.join(passing)?;
            retired(1)(main)?;
            let names = main.vm.thread_names();
            assert!(names.values().any(|name| name == "kept"), "{names:?}");
            assert!(names.values().all(|name| name != "passing"), "{names:?}");
            main.vm
                .with_sched(|sched| sched.semaphore_signal(semaphore, 1));
            main.join(keeper)?;
            // A process that never ran, and one that was bound elsewhere while it waited, are freed
            // as well.
            let unstarted = main.spawn_with(suspended(), |_| Ok(()));
            main.vm
                .bind_to_thread(unstarted, Some("unused"))
                .expect("a thread");
            assert!(main.vm.with_sched(|sched| sched.end_unstarted(unstarted)));
            let moved = main.spawn_with(suspended(), |_| Ok(()));
            main.vm
                .bind_to_thread(moved, Some("first"))
                .expect("a thread");
            main.vm
                .bind_to_thread(moved, Some("main"))
                .expect("home is there");
            assert_eq!(main.vm.thread_names().len(), 1);
            let _ = main.vm.with_sched(|sched| sched.resume(moved));
            main.join(moved)?;
            retired(2)(main)
        },
    );
}

#[test]
fn the_dead_are_bound_to_nothing() {
    run(|main| {
        let dead = main.spawn(|_| Ok(()));
        main.join(dead)?;
        main.vm
            .bind_to_thread(dead, Some("grave"))
            .expect("a thread could be had");
        assert_eq!(
            main.vm.thread_names().into_keys().collect::<Vec<_>>(),
            [HOME]
        );
        Ok(())
    });
}

#[test]
fn the_bound_on_threads_limits_how_many_have_names() {
    let refused = ThreadRefusal::Bound { named: 2, bound: 4 };
    run_unbound(
        |vm| vm.parameters.set_max_threads(4),
        move |main| {
            let end = main.vm.sched(|sched| sched.event_new());
            let wait = move |process: &Process| {
                process.wait(|sched| sched.event_wait(end, Deadline::Never))?;
                Ok(())
            };
            let first = [
                bound(main, "one", wait),
                bound(main, "two", wait),
                bound(main, "one", wait),
            ];
            assert_eq!(main.vm.bind_to_thread(main.id, Some("three")), Err(refused));
            let spawned =
                main.vm
                    .spawn_on_thread("three", SpawnOptions::default(), None, Spawned::Now);
            assert!(matches!(spawned, Err(SpawnError::Thread(refusal)) if refusal == refused));
            main.vm.with_sched(|sched| sched.event_set(end));
            main.join_all(first)?;
            main.vm
                .bind_to_thread(main.id, Some("three"))
                .expect("the others have been let go");
            main.vm
                .bind_to_thread(main.id, None)
                .expect("nothing can refuse");
            Ok(())
        },
    );
}

#[test]
fn with_every_thread_out_or_named_calls_still_come_to_their_turn() {
    let finished = run_unbound(
        |vm| vm.parameters.set_max_threads(4),
        |main| {
            let (one, first) = occupy(main, "one")?;
            let end = main.vm.sched(|sched| sched.event_new());
            let idle = bound(main, "two", move |process| {
                process.wait(|sched| sched.event_wait(end, Deadline::Never))?;
                Ok(())
            });
            let calls = Arc::new(AtomicU64::new(0));
            let callers: Vec<_> = (0..12)
                .map(|_| {
                    let calls = Arc::clone(&calls);
                    main.spawn(move |process| {
                        assert_eq!(process.vm.wait_for_thread().reason, WakeReason::Done);
                        let vm = process.vm.to_arc();
                        process.foreign(|| {
                            await_event("another process waits in the queue", || {
                                vm.counters.thread_bound_hits.get() > 0
                            });
                            calls.fetch_add(1, Ordering::Relaxed);
                        })
                    })
                })
                .collect();
            main.join_all(callers)?;
            assert_eq!(calls.load(Ordering::Relaxed), 12);
            one.end();
            main.vm.with_sched(|sched| sched.event_set(end));
            main.join_all([first, idle])
        },
    );
    assert!(finished.vm.counters.thread_bound_hits.get() > 0);
}

#[test]
fn others_do_not_run_on_a_named_thread_while_home_is_out() {
    let strangers = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&strangers);
    run(move |main| {
        let named: Arc<Mutex<Option<ThreadId>>> = Arc::default();
        let over = Arc::new(AtomicBool::new(false));
        let (mine, end) = (Arc::clone(&named), Arc::clone(&over));
        let bound = bound(main, "own", move |process| {
            *mine.lock().expect("no thread panics") = Some(native_thread());
            process.yield_until(|| end.load(Ordering::Relaxed))
        });
        let (block, call) = Block::new();
        let stranger = main.spawn(move |process| {
            process.yield_until(|| block.has_begun())?;
            for _ in 0..200 {
                process.yield_now()?;
                let here = Some(native_thread()) == *named.lock().expect("no thread panics");
                count.fetch_add(u64::from(here), Ordering::Relaxed);
            }
            block.end();
            Ok(())
        });
        main.foreign(call)?;
        over.store(true, Ordering::Relaxed);
        main.join_all([bound, stranger])
    });
    assert_eq!(strangers.load(Ordering::Relaxed), 0);
}

#[test]
fn a_kill_a_suspension_and_a_priority_reach_a_process_that_waits_for_a_thread() {
    run_unbound(
        |_| {},
        |main| {
            let (block, caller) = occupy(main, "device")?;
            let order: Arc<Mutex<Vec<&str>>> = Arc::default();
            let [killed, suspended, late, urgent] =
                ["killed", "suspended", "late", "urgent"].map(|name| {
                    let order = Arc::clone(&order);
                    bound(main, "device", move |process| {
                        process.checkpoint()?;
                        order.lock().expect("no thread panics").push(name);
                        Ok(())
                    })
                });
            let _ = main.vm.kill(killed);
            let _ = main.vm.suspend(suspended);
            assert_eq!(state(main, suspended), State::Suspended);
            let high = Priority::new(60).expect("from 1 to 80");
            main.vm.with_sched(|sched| sched.set_priority(urgent, high));
            block.end();
            main.join_all([killed, urgent, late, caller])?;
            let _ = main.vm.with_sched(|sched| sched.resume(suspended));
            main.join(suspended)?;
            assert_eq!(
                *order.lock().expect("no thread panics"),
                ["urgent", "late", "suspended"]
            );
            Ok(())
        },
    );
}

#[test]
fn the_vm_ends_while_named_threads_are_out_or_wait() {
    let (block, call) = Block::new();
    let running = start(
        |_: &Vm| {},
        move |main| {
            let caller = bound(main, "out", move |process| process.foreign(call));
            let forever = main.vm.sched(|sched| sched.event_new());
            let idle = bound(main, "waiting", move |process| {
                process.wait(|sched| sched.event_wait(forever, Deadline::Never))?;
                Ok(())
            });
            main.yield_until(|| {
                state(main, caller) == State::Foreign && state(main, idle) == State::Waiting
            })
        },
    );
    let finished = running.finish();
    await_event("the waiting thread has ended", || {
        finished.vm.threads() <= 1
    });
    // Its thread notices that the VM has ended, and sleeps for ever.
    block.end();
}

#[test]
fn a_process_spawned_for_a_thread_begins_there() {
    run_with(
        |_| {},
        |main| {
            let home = native_thread();
            let user_data = main.mock.add(move |process| {
                assert_ne!(native_thread(), home);
                assert_ne!(process.vm.current_carrier(), HOME);
                Ok(())
            });
            let options = SpawnOptions {
                user_data,
                ..SpawnOptions::default()
            };
            let spawned = main.vm.spawn_on_thread("own", options, None, Spawned::Now);
            main.join(spawned.expect("a thread can be had"))?;
            assert_eq!(main.vm.thread_name(CarrierId(1)), None);
            Ok(())
        },
    );
}
