//! Processes of a VM: start, order, end.

mod mock_guest;

use baton_core::sched::{
    Deadline, KillOutcome, Priority, ProcessId, ResumeOutcome, SpawnOptions, State, SuspendOutcome,
    WakeReason,
};
use baton_core::vm::{SpawnError, Spawned, Vm};
use baton_sys::clock::{self, Instant};
use mock_guest::{Life, Process, run, run_with};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn urgent(level: u8) -> SpawnOptions {
    SpawnOptions {
        priority: Priority::new(level).expect("a level of the scale"),
        ..SpawnOptions::default()
    }
}

/// A list in which processes note that they run.
#[derive(Clone, Default)]
struct Diary(Arc<Mutex<Vec<u64>>>);

impl Diary {
    fn write(&self, entry: u64) {
        self.0.lock().expect("writers do not panic").push(entry);
    }

    fn read(&self) -> Vec<u64> {
        self.0.lock().expect("writers do not panic").clone()
    }
}

#[test]
fn a_vm_with_one_process_ends_with_it() {
    let diary = Diary::default();
    let of_main = diary.clone();
    let finished = run(move |_| {
        of_main.write(1);
        Ok(())
    });
    assert_eq!(diary.read(), [1]);
    assert_eq!(finished.vm.counters.threads_started.get(), 0);
}

#[test]
fn a_thousand_processes_run_in_the_order_of_their_making_and_are_joined() {
    let diary = Diary::default();
    let of_all = diary.clone();
    run(move |main| {
        let all: Vec<_> = (0..1000)
            .map(|number| {
                let diary = of_all.clone();
                main.spawn(move |_| {
                    diary.write(number);
                    Ok(())
                })
            })
            .collect();
        main.join_all(all.iter().copied())?;
        main.vm.sched(|sched| {
            assert_eq!(sched.live_count(), 1);
            assert!(all.iter().all(|&process| !sched.is_alive(process)));
        });
        all.iter().for_each(|&process| main.vm.forget(process));
        Ok(())
    });
    assert_eq!(diary.read(), (0..1000).collect::<Vec<_>>());
}

#[test]
fn stacks_of_ended_processes_are_used_again() {
    run(|main| {
        for _ in 0..2000 {
            let child = main.spawn(|process| process.yield_now());
            main.join(child)?;
            main.vm.forget(child);
        }
        let stats = main.vm.stack_stats();
        assert!(stats.in_use <= 4, "{stats:?}");
        Ok(())
    });
}

#[test]
fn processes_that_yield_take_turns() {
    let diary = Diary::default();
    let of_all = diary.clone();
    run(move |main| {
        let children: Vec<_> = (0..3)
            .map(|number| {
                let diary = of_all.clone();
                let options = SpawnOptions {
                    preemptible: false,
                    ..SpawnOptions::default()
                };
                main.spawn_with(options, move |process| {
                    for _ in 0..3 {
                        diary.write(number);
                        process.yield_now()?;
                    }
                    Ok(())
                })
            })
            .collect();
        main.join_all(children)
    });
    assert_eq!(diary.read(), [0, 1, 2, 0, 1, 2, 0, 1, 2]);
}

#[test]
fn the_more_urgent_process_runs_first() {
    let diary = Diary::default();
    let of_all = diary.clone();
    run(move |main| {
        main.vm
            .sched(|sched| sched.set_priority(main.id, Priority::HIGHEST));
        let children: Vec<_> = [10, 60, 30, 79]
            .into_iter()
            .map(|level| {
                let diary = of_all.clone();
                main.spawn_with(urgent(level), move |_| {
                    diary.write(u64::from(level));
                    Ok(())
                })
            })
            .collect();
        main.join_all(children)
    });
    assert_eq!(diary.read(), [79, 60, 30, 10]);
}

#[test]
fn waking_a_more_urgent_process_gives_way_to_it_at_once() {
    let diary = Diary::default();
    let of_all = diary.clone();
    run(move |main| {
        let semaphore = main.vm.sched(|sched| sched.semaphore_new(0));
        let diary = of_all.clone();
        let listener = main.spawn_with(urgent(50), move |process| {
            process.wait(|sched| sched.semaphore_wait(semaphore, Deadline::Never))?;
            diary.write(1);
            Ok(())
        });
        main.yield_until(|| main.vm.sched(|sched| sched.waiting_count()) == 1)?;
        main.vm
            .with_sched(|sched| sched.semaphore_signal(semaphore, 1));
        of_all.write(2);
        main.join(listener)
    });
    assert_eq!(diary.read(), [1, 2]);
}

#[test]
fn a_woken_equal_does_not_preempt() {
    let diary = Diary::default();
    let of_all = diary.clone();
    run(move |main| {
        main.vm.parameters.slice.set(Duration::from_secs(3600));
        let semaphore = main.vm.sched(|sched| sched.semaphore_new(0));
        let diary = of_all.clone();
        let listener = main.spawn(move |process| {
            process.wait(|sched| sched.semaphore_wait(semaphore, Deadline::Never))?;
            diary.write(1);
            Ok(())
        });
        main.yield_until(|| main.vm.sched(|sched| sched.waiting_count()) == 1)?;
        main.vm
            .with_sched(|sched| sched.semaphore_signal(semaphore, 1));
        of_all.write(2);
        main.join(listener)
    });
    assert_eq!(diary.read(), [2, 1]);
}

#[test]
fn a_killed_waiter_ends_and_the_others_are_not_affected() {
    run(|main| {
        let queue = main.vm.sched(|sched| sched.wait_queue_new());
        let past_the_wait = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&past_the_wait);
        let waiter = main.spawn(move |process| {
            process.block_on(|sched| sched.wait(queue, Deadline::Never))?;
            flag.store(true, Ordering::Relaxed);
            Ok(())
        });
        main.yield_now()?;
        assert_eq!(main.vm.kill(waiter), KillOutcome::Woken);
        main.join(waiter)?;
        assert_eq!(main.vm.kill(waiter), KillOutcome::AlreadyDead);
        assert!(!past_the_wait.load(Ordering::Relaxed));
        assert!(main.mock.requests.load(Ordering::Relaxed) >= 1);
        Ok(())
    });
}

#[test]
fn a_killed_busy_process_ends_at_its_next_checkpoint() {
    run(|main| {
        let busy = main.spawn(|process| process.spin_until(|| false));
        main.yield_now()?;
        assert_eq!(main.vm.kill(busy), KillOutcome::Pending);
        main.join(busy)
    });
}

#[test]
fn a_kill_is_held_back_until_the_hold_ends() {
    run(|main| {
        let steps = Arc::new(AtomicU64::new(0));
        let of_child = Arc::clone(&steps);
        let child = main.spawn(move |process| {
            process
                .vm
                .sched(|sched| sched.set_kill_hold(process.id, true));
            of_child.store(1, Ordering::Relaxed);
            process.yield_now()?;
            process.yield_now()?;
            of_child.store(2, Ordering::Relaxed);
            process
                .vm
                .sched(|sched| sched.set_kill_hold(process.id, false));
            process.checkpoint()?;
            of_child.store(3, Ordering::Relaxed);
            Ok(())
        });
        main.yield_until(|| steps.load(Ordering::Relaxed) == 1)?;
        assert_eq!(main.vm.kill(child), KillOutcome::Held);
        main.join(child)?;
        assert_eq!(steps.load(Ordering::Relaxed), 2);
        Ok(())
    });
}

#[test]
fn a_process_killed_before_its_first_turn_still_ends() {
    run(|main| {
        let children: Vec<_> = (0..10)
            .map(|_| main.spawn(|process| process.checkpoint()))
            .collect();
        for &child in &children {
            assert_eq!(main.vm.kill(child), KillOutcome::Pending);
        }
        main.join_all(children)
    });
}

#[test]
fn suspended_processes_stand_still_until_they_are_resumed() {
    run(|main| {
        let count = Arc::new(AtomicU64::new(0));
        let of_child = Arc::clone(&count);
        let child = main.spawn(move |process| {
            process.yield_until(|| of_child.fetch_add(1, Ordering::Relaxed) == u64::MAX)
        });
        main.yield_until(|| count.load(Ordering::Relaxed) > 10)?;
        assert_eq!(main.vm.suspend(child), SuspendOutcome::Suspended);
        assert_eq!(main.vm.suspend(child), SuspendOutcome::Already);
        let before = count.load(Ordering::Relaxed);
        for _ in 0..100 {
            main.yield_now()?;
        }
        assert_eq!(count.load(Ordering::Relaxed), before);
        assert_eq!(main.vm.sched(|sched| sched.state(child)), State::Suspended);
        assert_eq!(
            main.vm.with_sched(|sched| sched.resume(child)),
            ResumeOutcome::Resumed
        );
        main.yield_until(|| count.load(Ordering::Relaxed) > before)?;
        let _ = main.vm.kill(child);
        main.join(child)
    });
}

#[test]
fn a_process_that_suspends_itself_continues_when_resumed() {
    let diary = Diary::default();
    let of_all = diary.clone();
    run(move |main| {
        let diary = of_all.clone();
        let child = main.spawn(move |process| {
            diary.write(1);
            let _ = process.vm.suspend(process.id);
            diary.write(3);
            Ok(())
        });
        main.yield_until(|| main.vm.sched(|sched| sched.is_suspended(child)))?;
        of_all.write(2);
        let _ = main.vm.with_sched(|sched| sched.resume(child));
        main.join(child)
    });
    assert_eq!(diary.read(), [1, 2, 3]);
}

#[test]
fn sleepers_wake_in_the_order_of_their_deadlines_and_never_early() {
    run(|main| {
        // A busy machine may need longer to put all to sleep than until the first deadline: then
        // again, with more time.
        let mut lead = Duration::from_millis(5);
        loop {
            let begin = Instant::now() + lead;
            let diary = Diary::default();
            let sleepers = [30_u64, 10, 20, 0].map(|milliseconds| {
                let diary = diary.clone();
                main.spawn(move |process| {
                    let until = begin + Duration::from_millis(milliseconds);
                    process.sleep_until(until)?;
                    assert!(Instant::now() >= until);
                    diary.write(milliseconds);
                    Ok(())
                })
            });
            let sleeps =
                |pid: &ProcessId| main.vm.sched(|sched| sched.state(*pid)) != State::Runnable;
            main.yield_until(|| sleepers.iter().all(sleeps))?;
            let in_time = Instant::now() < begin;
            main.join_all(sleepers)?;
            if in_time {
                assert_eq!(diary.read(), [0, 10, 20, 30]);
                return Ok(());
            }
            lead *= 2;
        }
    });
}

#[test]
fn a_join_with_a_deadline_times_out_and_the_process_lives_on() {
    run(|main| {
        let child = main.spawn(|process| process.yield_until(|| false));
        let deadline = Vm::deadline(Some(Duration::from_millis(1)));
        let wake = main.block_on(|sched| sched.join(child, deadline))?;
        assert_eq!(wake.reason, WakeReason::TimedOut);
        assert!(main.vm.sched(|sched| sched.is_alive(child)));
        let _ = main.vm.kill(child);
        main.join(child)
    });
}

#[test]
fn a_process_made_for_a_timer_begins_when_it_fires() {
    run(|main| {
        let fired = Arc::new(AtomicBool::new(false));
        let of_child = Arc::clone(&fired);
        let due = Instant::now() + Duration::from_millis(2);
        let child = main.prepare(SpawnOptions::default(), move |_| {
            assert!(Instant::now() >= due);
            of_child.store(true, Ordering::Relaxed);
            Ok(())
        });
        main.vm.sched(|sched| sched.timer_new(due, None, child));
        main.wait(|sched| sched.wait_for_rest(Deadline::Never))?;
        assert!(fired.load(Ordering::Relaxed));
        Ok(())
    });
}

#[test]
fn the_time_of_a_busy_process_is_charged_to_it() {
    run_with(
        |vm| vm.parameters.slice.set(Duration::from_millis(1)),
        |main| {
            let enough = Duration::from_millis(5);
            let busy = main.spawn(move |process| {
                process.spin_until(|| process.vm.running_time(process.id) >= enough)
            });
            main.join(busy)?;
            assert!(main.vm.running_time(busy) >= enough);
            Ok(())
        },
    );
}

/// The accounts follow the monitor's clock, which stands still while the monitor rests. It also
/// stands still while the monitor gets no processor, so the median counts. Without a reading of the
/// clock when a process gives way, all rounds would be charged too little.
#[test]
fn the_time_of_a_process_alone_is_charged_when_it_gives_way() {
    const BUSY: Duration = Duration::from_millis(50);
    const ROUNDS: usize = 21;
    run(|main| {
        let mut charged = Vec::new();
        for _ in 0..ROUNDS {
            let semaphore = main.vm.sched(|sched| sched.semaphore_new(0));
            let alone = main.spawn_with(urgent(20), move |process| {
                process.spin_until(|| process.vm.running_time(process.id) >= BUSY)?;
                process
                    .vm
                    .with_sched(|sched| sched.semaphore_signal(semaphore, 1));
                Ok(())
            });
            // More urgent, so that it runs as soon as it is woken.
            main.wait(|sched| sched.semaphore_wait(semaphore, Deadline::Never))?;
            charged.push(main.vm.running_time(alone));
            main.join(alone)?;
        }
        charged.sort();
        assert!(
            charged[ROUNDS / 2] >= BUSY / 2,
            "{BUSY:?} expected: {charged:?}"
        );
        Ok(())
    });
}

/// Keeps processes busy until the VM is stopped. None may run after that.
fn run_until_stopped(stopped: &AtomicBool, process: &Process) -> Life {
    process.yield_until(|| {
        assert!(
            !stopped.load(Ordering::Relaxed),
            "a process ran in a stopped VM"
        );
        false
    })
}

#[test]
fn no_process_runs_once_the_vm_was_stopped() {
    run(|main| {
        let stopped = Arc::new(AtomicBool::new(false));
        for _ in 0..3 {
            let stopped = Arc::clone(&stopped);
            main.spawn(move |process| run_until_stopped(&stopped, process));
        }
        for _ in 0..10 {
            main.yield_now()?;
        }
        main.vm.stop();
        stopped.store(true, Ordering::Relaxed);
        for _ in 0..10 {
            main.yield_now()?;
        }
        Ok(())
    });
}

#[test]
fn a_spawn_beyond_the_limit_keeps_no_stack() {
    run(|main| {
        let limit = main.vm.sched(|sched| sched.process_limit());
        main.vm.sched(|sched| sched.set_process_limit(1));
        let before = main.vm.stack_stats().in_use;
        for _ in 0..10 {
            let refused = main.vm.spawn(SpawnOptions::default(), None, Spawned::Now);
            assert!(matches!(refused, Err(SpawnError::Limit(_))), "{refused:?}");
        }
        assert_eq!(main.vm.stack_stats().in_use, before);
        main.vm.sched(|sched| sched.set_process_limit(limit));
        Ok(())
    });
}

/// Threads that only compute; they end on drop.
struct BusyThreads {
    end: Arc<AtomicBool>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl BusyThreads {
    /// Starts three for each processor, so that another thread gets a quarter of one.
    fn start() -> BusyThreads {
        let end = Arc::new(AtomicBool::new(false));
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let spin = |end: Arc<AtomicBool>| move || while !end.load(Ordering::Relaxed) {};
        let threads = (0..3 * processors)
            .map(|_| std::thread::spawn(spin(Arc::clone(&end))))
            .collect();
        BusyThreads { end, threads }
    }

    fn end(self) {
        self.end.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.join().expect("it only computes");
        }
    }
}

#[test]
fn beside_busy_threads_processor_time_is_what_the_thread_has_computed() {
    const BUSY: Duration = Duration::from_millis(50);
    run(|main| {
        let others = BusyThreads::start();
        // Both are on this thread: their processor times add up to at most that of the thread.
        let begin = clock::thread_cpu_time();
        let all = [(); 2].map(|()| {
            main.spawn(move |process| {
                process.spin_until(|| process.vm.time_used(process.id).cpu >= BUSY)
            })
        });
        for pid in all {
            main.join(pid)?;
        }
        let computed = clock::thread_cpu_time() - begin;
        others.end();
        let used = all.map(|pid| main.vm.time_used(pid));
        for one in used {
            assert!(one.cpu >= BUSY && one.cpu <= one.running, "{used:?}");
        }
        let (cpu, running) = (used[0].cpu + used[1].cpu, used[0].running + used[1].running);
        assert!(
            cpu >= computed / 2 && cpu <= computed * 3 / 2,
            "{computed:?}: {used:?}"
        );
        assert!(cpu <= running * 4 / 5, "the machine was busy: {used:?}");
        Ok(())
    });
}

#[test]
fn a_process_never_has_used_less_time_than_before() {
    run(|main| {
        let look = |process: &Process| process.vm.time_used(process.id);
        let all = [(); 2].map(|()| {
            main.spawn(move |process| {
                for _ in 0..50 {
                    let before = look(process);
                    std::thread::sleep(Duration::from_micros(100));
                    let inside = look(process);
                    process.vm.yield_now();
                    let after = look(process);
                    let [cpu, running] = [
                        [before, inside, after].map(|used| used.cpu),
                        [before, inside, after].map(|used| used.running),
                    ];
                    assert!(
                        cpu.is_sorted() && running.is_sorted(),
                        "{cpu:?} {running:?}"
                    );
                }
                Ok(())
            })
        });
        for pid in all {
            main.join(pid)?;
        }
        Ok(())
    });
}
