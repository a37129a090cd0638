//! A VM that another thread halts: none of its processes runs again, and no thread waits for it.

mod mock_guest;

use baton_core::vm::{HaltOutcome, Offloaded};
use mock_guest::{Block, Life, Process, Running, await_event, start};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);

/// A VM that has reached what `main` signals.
fn begun(main: impl FnOnce(&Process, &dyn Fn()) -> Life + Send + 'static) -> Running {
    let begins = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&begins);
    let running = start(
        |_| {},
        move |process| main(process, &|| flag.store(true, Ordering::Release)),
    );
    await_event("the VM is where it is halted", || {
        begins.load(Ordering::Acquire)
    });
    running
}

#[test]
fn a_busy_vm_runs_no_further() {
    let count = Arc::new(AtomicU64::new(0));
    let counts = Arc::clone(&count);
    let running = begun(move |main, begins| {
        begins();
        loop {
            counts.fetch_add(1, Ordering::Relaxed);
            main.checkpoint()?;
        }
    });
    assert_eq!(running.vm.halt(PATIENCE, || {}), HaltOutcome::Halted);
    let last = count.load(Ordering::Relaxed);
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(count.load(Ordering::Relaxed), last);
    assert!(running.vm.is_stopped());
}

#[test]
fn an_idle_vm_ends_and_its_thread_with_it() {
    let running = begun(|main, begins| {
        begins();
        main.sleep_until(baton_sys::clock::Instant::now() + Duration::from_secs(3600))
    });
    assert_eq!(running.vm.halt(PATIENCE, || {}), HaltOutcome::Halted);
    running.finish();
}

#[test]
fn a_call_of_a_halted_vm_returns_to_nobody() {
    let (block, call) = Block::new();
    let has_gone_on = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&has_gone_on);
    let running = begun(move |main, begins| {
        begins();
        main.foreign(call)?;
        flag.store(true, Ordering::Release);
        Ok(())
    });
    await_event("the call has begun", || block.has_begun());
    assert_eq!(running.vm.halt(PATIENCE, || {}), HaltOutcome::Halted);
    block.end();
    std::thread::sleep(Duration::from_millis(20));
    assert!(!has_gone_on.load(Ordering::Acquire));
}

#[test]
fn a_vm_without_safepoints_is_not_halted_and_goes_on() {
    let may_end = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&may_end);
    let running = begun(move |main, begins| {
        begins();
        while !flag.load(Ordering::Acquire) {}
        main.yield_now()
    });
    let outcome = running.vm.halt(Duration::from_millis(20), || {});
    assert_eq!(outcome, HaltOutcome::GoesOn);
    may_end.store(true, Ordering::Release);
    running.finish();
}

#[test]
fn vms_are_halted_in_every_state_many_times() {
    for round in 0..200_u64 {
        let running = start(
            |vm| vm.parameters.slice.set(Duration::from_micros(200)),
            |main| {
                for _ in 0..3 {
                    main.spawn(|process| {
                        loop {
                            process.yield_now()?;
                            process.foreign(std::thread::yield_now)?;
                            process.sleep_until(
                                baton_sys::clock::Instant::now() + Duration::from_micros(30),
                            )?;
                        }
                    });
                }
                main.spin_until(|| false)
            },
        );
        std::thread::sleep(Duration::from_micros(round % 10 * 100));
        assert_eq!(running.vm.halt(PATIENCE, || {}), HaltOutcome::Halted);
    }
}

/// A VM of a program that goes on after it, which frees the VM.
fn abandoning(main: impl FnOnce(&Process, &dyn Fn()) -> Life + Send + 'static) -> Running {
    let begins = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&begins);
    let running = start(
        |vm| vm.abandon_calls_at_end(),
        move |process| main(process, &|| flag.store(true, Ordering::Release)),
    );
    await_event("the VM is where it is halted", || {
        begins.load(Ordering::Acquire)
    });
    running
}

/// Waits until nobody has the VM any more.
fn goes_whole(running: Running) {
    let last = Arc::downgrade(&running.finish().vm);
    await_event("nobody holds the VM", || last.strong_count() == 0);
}

#[test]
fn a_vm_that_abandons_calls_ends_at_a_safepoint_with_its_thread() {
    let running = abandoning(|main, begins| {
        begins();
        main.spin_until(|| false)
    });
    assert_eq!(running.vm.halt(PATIENCE, || {}), HaltOutcome::Halted);
    goes_whole(running);
}

#[test]
fn only_calls_in_progress_are_counted() {
    let (block, call) = Block::new();
    let running = abandoning(move |main, begins| {
        begins();
        main.foreign(call)
    });
    await_event("the call has begun", || block.has_begun());
    assert_eq!(running.vm.halt(PATIENCE, || {}), HaltOutcome::Halted);
    assert_eq!(running.vm.calls_in_progress(), 1);
    block.end();
    await_event("it has returned", || running.vm.calls_in_progress() == 0);
    goes_whole(running);

    let computes = abandoning(|main, begins| {
        begins();
        main.spin_until(|| false)
    });
    assert_eq!(computes.vm.halt(PATIENCE, || {}), HaltOutcome::Halted);
    assert_eq!(computes.vm.calls_in_progress(), 0);
    assert_eq!(computes.vm.halt(PATIENCE, || {}), HaltOutcome::HadEnded);
    goes_whole(computes);
}

#[test]
fn a_call_that_had_the_halted_vm_gives_its_thread_back() {
    let (block, call) = Block::new();
    let has_gone_on = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&has_gone_on);
    let running = abandoning(move |main, begins| {
        begins();
        main.foreign(call)?;
        flag.store(true, Ordering::Release);
        Ok(())
    });
    await_event("the call has begun", || block.has_begun());
    assert_eq!(running.vm.halt(PATIENCE, || {}), HaltOutcome::Halted);
    block.end();
    goes_whole(running);
    assert!(!has_gone_on.load(Ordering::Acquire));
}

#[test]
fn a_call_that_outlasts_its_vm_gives_its_thread_back() {
    let (block, call) = Block::new();
    let block = Arc::new(block);
    let begun = Arc::clone(&block);
    let has_gone_on = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&has_gone_on);
    let running = start(
        |vm| vm.abandon_calls_at_end(),
        move |main| {
            main.spawn(move |process| {
                let ((), offloaded) = process.foreign_elsewhere(call)?;
                assert_eq!(offloaded, Offloaded::Moved);
                flag.store(true, Ordering::Release);
                Ok(())
            });
            main.yield_until(|| begun.has_begun())
        },
    );
    let finished = running.finish();
    let last = Arc::downgrade(&finished.vm);
    drop(finished);
    assert!(last.strong_count() > 0, "the call's thread has it");
    block.end();
    await_event("nobody holds the VM", || last.strong_count() == 0);
    assert!(!has_gone_on.load(Ordering::Acquire));
}

/// Guards against a loop that takes the process that it has chosen for the one that it came from.
/// The process runs on another thread.
#[test]
fn vms_are_halted_while_processes_of_two_threads_take_turns() {
    for round in 0..100_u64 {
        let turns = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&turns);
        let running = abandoning(move |main, begins| {
            for _ in 0..2 {
                let counted = Arc::clone(&counted);
                main.spawn(move |process| {
                    process.vm.set_pinned(process.id, true);
                    loop {
                        counted.fetch_add(1, Ordering::Relaxed);
                        process.yield_now()?;
                    }
                });
            }
            begins();
            main.sleep_until(baton_sys::clock::Instant::now() + Duration::from_secs(3600))
        });
        let some = 4 + round % 10;
        await_event("they take turns", || turns.load(Ordering::Relaxed) > some);
        assert_eq!(running.vm.halt(PATIENCE, || {}), HaltOutcome::Halted);
        goes_whole(running);
    }
}
