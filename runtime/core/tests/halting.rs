//! A VM that another thread halts: none of its processes runs again, and no thread waits for it.

mod mock_guest;

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
    assert!(running.vm.halt(PATIENCE, || {}));
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
    assert!(running.vm.halt(PATIENCE, || {}));
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
    assert!(running.vm.halt(PATIENCE, || {}));
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
    assert!(!running.vm.halt(Duration::from_millis(20), || {}));
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
        assert!(running.vm.halt(PATIENCE, || {}));
    }
}
