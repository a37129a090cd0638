//! Scheduling, as processes see it: critical sections and directed yields.

mod mock_guest;

use baton_core::sched::{Deadline, Priority, SpawnOptions, State, WakeReason};
use mock_guest::{Life, Process, run, run_with};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Spawns a process that counts whenever it runs, until it is killed. Returns the count.
fn counter(main: &Process) -> (Arc<AtomicU64>, baton_core::sched::ProcessId) {
    let count = Arc::new(AtomicU64::new(0));
    let of_counter = Arc::clone(&count);
    let process = main.spawn(move |process| {
        loop {
            of_counter.fetch_add(1, Ordering::Relaxed);
            process.yield_now()?;
        }
    });
    (count, process)
}

fn kill(main: &Process, other: baton_core::sched::ProcessId) -> Life {
    let _ = main.vm.kill(other);
    main.join(other)
}

#[test]
fn no_other_process_runs_while_one_is_in_a_critical_section() {
    run_with(
        |vm| vm.parameters.slice.set(Duration::from_micros(200)),
        |main| {
            let (count, other) = counter(main);
            main.yield_until(|| count.load(Ordering::Relaxed) > 0)?;
            main.vm.enter_critical();
            let before = count.load(Ordering::Relaxed);
            let beats = main.vm.counters.beats.get();
            let woken = main.spawn_with(
                SpawnOptions {
                    priority: Priority::HIGHEST,
                    ..SpawnOptions::default()
                },
                |_| Ok(()),
            );
            for _ in 0..1000 {
                main.yield_now()?;
                main.vm.safepoint();
            }
            assert_eq!(count.load(Ordering::Relaxed), before);
            assert_eq!(main.vm.sched(|sched| sched.state(woken)), State::Runnable);
            assert!(
                main.vm.counters.beats.get() <= beats + 1,
                "no process got a preempt request"
            );
            main.vm.leave_critical().expect("it is inside");
            assert_eq!(main.vm.sched(|sched| sched.state(woken)), State::Dead);
            kill(main, other)
        },
    );
}

#[test]
fn a_foreign_call_in_a_critical_section_keeps_the_vm() {
    let finished = run(|main| {
        let (count, other) = counter(main);
        main.yield_until(|| count.load(Ordering::Relaxed) > 0)?;
        main.vm.enter_critical();
        let before = count.load(Ordering::Relaxed);
        let vm = main.vm.to_arc();
        // Ends when the watchdog has tried to retake it.
        main.foreign(move || {
            while vm.counters.exclusive_calls.get() == 0 {
                std::thread::yield_now();
            }
        })?;
        assert_eq!(count.load(Ordering::Relaxed), before);
        main.vm.leave_critical().expect("it is inside");
        kill(main, other)
    });
    assert_eq!(finished.vm.counters.retakes.get(), 0);
}

#[test]
fn a_wait_in_a_critical_section_is_refused() {
    run(|main| {
        let queue = main.vm.sched(|sched| sched.wait_queue_new());
        main.vm.enter_critical();
        let wake = main.block_on(|sched| sched.wait(queue, Deadline::Never))?;
        assert_eq!(wake.reason, WakeReason::Forbidden);
        main.vm.leave_critical().expect("it is inside");
        Ok(())
    });
}

#[test]
fn a_process_that_suspends_itself_is_back_in_its_section_when_it_goes_on() {
    run(|main| {
        let me = main.id;
        let resumer = main.spawn(move |process| {
            let is_critical = process.vm.sched(|sched| sched.is_critical());
            assert!(!is_critical);
            process.vm.with_sched(|sched| {
                assert_eq!(sched.resume(me), baton_core::sched::ResumeOutcome::Resumed)
            });
            Ok(())
        });
        main.vm.enter_critical();
        let _ = main.vm.suspend(me);
        assert!(main.vm.sched(|sched| sched.is_critical()));
        main.vm.leave_critical().expect("it is inside");
        main.join(resumer)
    });
}

#[test]
fn a_directed_yield_runs_an_equal_out_of_turn() {
    let order = Arc::new(Mutex::new(Vec::new()));
    let of_all = Arc::clone(&order);
    run(move |main| {
        let all: Vec<_> = (0..3)
            .map(|number| {
                let order = Arc::clone(&of_all);
                main.spawn(move |_| {
                    order.lock().expect("no thread panics").push(number);
                    Ok(())
                })
            })
            .collect();
        main.vm.yield_to(all[2]);
        main.join_all(all)
    });
    assert_eq!(*order.lock().expect("no thread panics"), [2, 0, 1]);
}
