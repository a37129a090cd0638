//! A guest's scheduler hooks and switch hooks.

mod mock_guest;

use baton_core::sched::{Deadline, Priority, ProcessId, SpawnOptions, State, Wake, WakeReason};
use baton_core::vm::{Inside, Vm};
use baton_sys::clock::Instant;
use mock_guest::{Life, Process, run, run_unbound, run_with};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

type Log = Arc<Mutex<Vec<String>>>;

fn log_of() -> Log {
    Arc::new(Mutex::new(Vec::new()))
}

fn note(log: &Log, what: impl Into<String>) {
    log.lock().expect("no thread panics").push(what.into());
}

fn noted(log: &Log) -> String {
    log.lock().expect("no thread panics").join(" ")
}

fn user_data(vm: &Inside<'_>, process: ProcessId) -> usize {
    let user_data = vm.sched(|sched| sched.user_data(process));
    user_data.expect("the process was not forgotten")
}

/// Spawns a suspended process that notes its name `times` times, with a yield after each.
fn noting(main: &Process, log: &Log, name: &'static str, times: usize) -> ProcessId {
    let log = Arc::clone(log);
    let options = SpawnOptions {
        suspended: true,
        ..SpawnOptions::default()
    };
    main.spawn_with(options, move |process| {
        for _ in 0..times {
            note(&log, name);
            process.yield_now()?;
        }
        Ok(())
    })
}

/// Processes switch only where they yield. Otherwise a process that the machine has stopped for a
/// slice would give way once more.
fn without_slices(vm: &Vm) {
    vm.parameters.slice.set(Duration::from_secs(3600));
}

fn resume_all(main: &Process, processes: &[ProcessId]) {
    for &process in processes {
        let _ = main.vm.with_sched(|sched| sched.resume(process));
    }
}

#[test]
fn a_scheduler_chooses_among_those_that_can_run() {
    run(|main| {
        let log = log_of();
        let all = ["a", "b", "c"].map(|name| noting(main, &log, name, 2));
        resume_all(main, &all);
        // The last one first, as long as it can run.
        main.mock.on_scheduler_hook(move |vm, _, _| {
            let is_runnable =
                |pid: &ProcessId| vm.sched(|sched| sched.state(*pid)) == State::Runnable;
            all.into_iter().rev().find(is_runnable)
        });
        main.vm.set_scheduler_hook(true);
        main.join_all(all)?;
        main.vm.set_scheduler_hook(false);
        assert_eq!(noted(&log), "c c b b a a");
        Ok(())
    });
}

#[test]
fn a_scheduler_that_declines_or_names_one_that_cannot_run_leaves_the_order_as_it_is() {
    run_with(without_slices, |main| {
        let dead = main.spawn(|_| Ok(()));
        main.join(dead)?;
        for answer in [None, Some(dead), Some(main.id)] {
            let log = log_of();
            let all = ["a", "b"].map(|name| noting(main, &log, name, 2));
            resume_all(main, &all);
            main.mock.on_scheduler_hook(move |_, _, _| answer);
            main.vm.set_scheduler_hook(true);
            main.join_all(all)?;
            main.vm.set_scheduler_hook(false);
            assert_eq!(noted(&log), "a b a b");
        }
        Ok(())
    });
}

#[test]
fn a_scheduler_hook_gets_the_left_process_and_the_suggested_one() {
    run_with(without_slices, |main| {
        let log = log_of();
        let [a, b] = ["a", "b"].map(|name| noting(main, &log, name, 1));
        resume_all(main, &[a, b]);
        let names = [
            (user_data(&main.vm, a), "a"),
            (user_data(&main.vm, b), "b"),
            (user_data(&main.vm, main.id), "main"),
        ];
        let name = move |user_data: usize| {
            names
                .iter()
                .find(|(other, _)| *other == user_data)
                .map_or("?", |(_, name)| name)
        };
        let seen = Arc::clone(&log);
        main.mock.on_scheduler_hook(move |_, current, suggested| {
            note(
                &seen,
                format!("({}, {})", current.map_or("nil", name), name(suggested)),
            );
            None
        });
        main.vm.set_scheduler_hook(true);
        main.join_all([a, b])?;
        main.vm.set_scheduler_hook(false);
        let expected = "(main, a) a (a, b) b (b, a) (nil, b) (nil, main)";
        assert_eq!(noted(&log), expected);
        Ok(())
    });
}

#[test]
fn a_scheduler_can_prefer_the_less_urgent_even_when_the_running_one_only_yields() {
    run(|main| {
        let log = log_of();
        let options = SpawnOptions {
            priority: Priority::LOWEST,
            ..SpawnOptions::default()
        };
        let of_low = Arc::clone(&log);
        let low = main.spawn_with(options, move |_| {
            note(&of_low, "low");
            Ok(())
        });
        main.yield_now()?;
        note(&log, "main");
        main.mock.on_scheduler_hook(move |_, _, _| Some(low));
        main.vm.set_scheduler_hook(true);
        main.yield_now()?;
        main.vm.set_scheduler_hook(false);
        assert_eq!(noted(&log), "main low");
        main.join(low)
    });
}

#[test]
fn nothing_can_wait_in_a_scheduler_and_what_it_does_to_processes_counts() {
    run(|main| {
        let log = log_of();
        let [victim, other] = ["victim", "other"].map(|name| noting(main, &log, name, 1));
        resume_all(main, &[victim, other]);
        let semaphore = main.vm.sched(|sched| sched.semaphore_new(0));
        let asked = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&asked);
        main.mock.on_scheduler_hook(move |vm, _, _| {
            if count.fetch_add(1, Ordering::Relaxed) == 0 {
                let wake = vm.block_on(|sched| sched.semaphore_wait(semaphore, Deadline::Never));
                assert_eq!(wake, Wake::because(WakeReason::Dead));
                vm.yield_now();
                vm.safepoint();
                vm.with_sched(|sched| assert!(sched.end_unstarted(victim)));
                return Some(victim);
            }
            None
        });
        main.vm.set_scheduler_hook(true);
        main.join_all([victim, other])?;
        main.vm.set_scheduler_hook(false);
        assert!(asked.load(Ordering::Relaxed) > 1);
        assert_eq!(noted(&log), "other");
        Ok(())
    });
}

#[test]
fn a_scheduler_is_asked_after_an_idle_wait_and_at_preemptions() {
    run_with(
        |vm| vm.parameters.slice.set(Duration::from_millis(1)),
        |main| {
            let (idle, preempted) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
            let counts = (Arc::clone(&idle), Arc::clone(&preempted));
            main.mock.on_scheduler_hook(move |_, current, _| {
                let count = if current.is_none() {
                    &counts.0
                } else {
                    &counts.1
                };
                count.fetch_add(1, Ordering::Relaxed);
                None
            });
            main.vm.set_scheduler_hook(true);
            // Repeated, as on a busy machine a moment can pass before the wait.
            while idle.load(Ordering::Relaxed) == 0 {
                main.sleep_until(Instant::now() + Duration::from_millis(1))?;
            }
            let before = preempted.load(Ordering::Relaxed);
            let seen = Arc::clone(&preempted);
            let spinner = main.spawn(move |process| {
                process.spin_until(|| seen.load(Ordering::Relaxed) > before + 4)
            });
            let seen = Arc::clone(&preempted);
            main.spin_until(|| seen.load(Ordering::Relaxed) > before + 4)?;
            main.join(spinner)?;
            main.vm.set_scheduler_hook(false);
            Ok(())
        },
    );
}

/// Notes how these processes are left and continued.
fn hook(main: &Process, log: &Log, named: &[(ProcessId, &'static str)]) {
    let names: Vec<_> = named
        .iter()
        .map(|&(pid, name)| (user_data(&main.vm, pid), name))
        .collect();
    let log = Arc::clone(log);
    main.mock.on_switch_hook(move |_, from, to| {
        let name = |user_data: usize| {
            names
                .iter()
                .find(|(other, _)| *other == user_data)
                .map(|(_, name)| name)
        };
        if let Some(name) = from.and_then(name) {
            note(&log, format!("-{name}"));
        }
        if let Some(name) = to.and_then(name) {
            note(&log, format!("+{name}"));
        }
    });
    named
        .iter()
        .for_each(|&(pid, _)| assert!(main.vm.set_switch_hook(pid, true)));
}

#[test]
fn hooks_hear_of_each_switch_of_their_process_and_of_no_other() {
    run_with(without_slices, |main| {
        let log = log_of();
        let all = ["a", "b", "c"].map(|name| noting(main, &log, name, 2));
        hook(main, &log, &[(all[0], "a")]);
        resume_all(main, &all);
        main.join_all(all)?;
        assert_eq!(noted(&log), "+a a -a b c +a a -a b c +a");
        Ok(())
    });
}

#[test]
fn hooks_hear_of_waits_and_suspensions_and_can_be_taken_away() {
    run(|main| {
        let log = log_of();
        let of_a = Arc::clone(&log);
        let queue = main.vm.sched(|sched| sched.wait_queue_new());
        let a = main.spawn(move |process| {
            note(&of_a, "waits");
            process.wait(|sched| sched.wait(queue, Deadline::Never))?;
            note(&of_a, "suspends");
            let _ = process.vm.suspend(process.id);
            process.vm.set_switch_hook(process.id, false);
            process.yield_now()?;
            note(&of_a, "ends");
            Ok(())
        });
        hook(main, &log, &[(a, "a")]);
        let state = || main.vm.sched(|sched| sched.state(a));
        main.yield_until(|| state() == State::Waiting)?;
        let _ = main
            .vm
            .with_sched(|sched| sched.wake_one(queue, WakeReason::Done, 0));
        main.yield_until(|| state() == State::Suspended)?;
        let _ = main.vm.with_sched(|sched| sched.resume(a));
        main.join(a)?;
        assert_eq!(noted(&log), "+a waits -a +a suspends -a +a ends");
        Ok(())
    });
}

#[test]
fn hooks_hear_that_a_process_is_left_in_a_foreign_call() {
    run_unbound(
        |_| {},
        |main| {
            let log = log_of();
            hook(main, &log, &[(main.id, "caller")]);
            let seen = Arc::clone(&log);
            let other = main.spawn(move |_| {
                note(&seen, "other");
                Ok(())
            });
            let seen = Arc::clone(&log);
            main.foreign(move || {
                mock_guest::await_event("the other has run", || noted(&seen).ends_with("other"));
            })?;
            main.vm.set_switch_hook(main.id, false);
            assert_eq!(noted(&log), "-caller other +caller");
            main.join(other)
        },
    );
}

#[test]
fn a_hook_that_stops_the_process_to_come_lets_another_one_run() {
    run(|main| {
        let log = log_of();
        let [a, b] = ["a", "b"].map(|name| noting(main, &log, name, 1));
        let of_a = user_data(&main.vm, a);
        let mut stopped = false;
        main.mock.on_switch_hook(move |vm, _, to| {
            if to == Some(of_a) && !std::mem::replace(&mut stopped, true) {
                let _ = vm.suspend(a);
            }
        });
        main.vm.set_switch_hook(a, true);
        resume_all(main, &[a, b]);
        main.join(b)?;
        assert_eq!(noted(&log), "b");
        let _ = main.vm.with_sched(|sched| sched.resume(a));
        main.join(a)?;
        assert_eq!(noted(&log), "b a");
        Ok(())
    });
}

/// A process with a hook that is killed and forgotten leaves nothing behind: switches take the fast
/// path again.
#[test]
fn a_hook_goes_with_its_process() {
    run(|main: &Process| -> Life {
        main.mock.on_switch_hook(|_, _, _| {});
        let lives = main.spawn(|process| process.yield_now());
        let options = SpawnOptions {
            suspended: true,
            ..SpawnOptions::default()
        };
        let never_ran = main.spawn_with(options, |_| Ok(()));
        main.vm.set_switch_hook(lives, true);
        main.vm.set_switch_hook(lives, true);
        main.vm.set_switch_hook(never_ran, true);
        main.join(lives)?;
        main.vm
            .with_sched(|sched| assert!(sched.end_unstarted(never_ran)));
        main.vm.forget(never_ran);
        main.vm.set_switch_hook(lives, true);
        let told = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&told);
        main.mock.on_switch_hook(move |_, _, _| {
            count.fetch_add(1, Ordering::Relaxed);
        });
        let other = main.spawn(|process| process.yield_now());
        main.join(other)?;
        assert_eq!(told.load(Ordering::Relaxed), 0);
        Ok(())
    });
}
