//! Several VMs in one program: one monitor serves them all, and none disturbs another.

mod mock_guest;

use baton_core::vm::Vm;
use baton_sys::clock::Instant;
use mock_guest::{Finished, Life, Mock, MockGuest, Process, Running, await_event, run, start};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const VMS: usize = 4;

fn short_slices(vm: &Vm) {
    vm.parameters.slice.set(Duration::from_micros(200));
}

fn start_all(body: impl Fn(&Process) -> Life + Clone + Send + 'static) -> Vec<Running> {
    let start_one = |_| {
        let body = body.clone();
        start(short_slices, move |main| body(main))
    };
    (0..VMS).map(start_one).collect()
}

fn finish_all(running: Vec<Running>) -> Vec<Finished> {
    running.into_iter().map(Running::finish).collect()
}

/// Busy processes that alternate only because they are preempted.
fn preempt_each_other(main: &Process) -> Life {
    let turn = Arc::new(AtomicU64::new(0));
    let children: Vec<_> = (0..2)
        .map(|number| {
            let turn = Arc::clone(&turn);
            main.spawn(move |process| {
                for round in 0..20 {
                    process.spin_until(|| turn.load(Ordering::Relaxed) >= 2 * round + number)?;
                    turn.fetch_add(1, Ordering::Relaxed);
                }
                Ok(())
            })
        })
        .collect();
    main.join_all(children)
}

/// Calls of the first process that end only after another process has run.
fn retake_from_each_other(main: &Process) -> Life {
    for _ in 0..20 {
        let has_run = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&has_run);
        let other = main.spawn(move |_| {
            flag.store(true, Ordering::Relaxed);
            Ok(())
        });
        main.foreign(|| await_event("the other runs", || has_run.load(Ordering::Relaxed)))?;
        main.join(other)?;
    }
    Ok(())
}

#[test]
fn each_vm_preempts_its_own_processes() {
    for finished in finish_all(start_all(preempt_each_other)) {
        assert!(finished.vm.counters.beats.get() >= 20);
    }
}

#[test]
fn each_vm_takes_its_own_calls() {
    for finished in finish_all(start_all(retake_from_each_other)) {
        assert_eq!(finished.vm.counters.retakes.get(), 20);
        assert_eq!(finished.vm.counters.homecomings.get(), 20);
    }
}

#[test]
fn busy_vms_and_vms_with_calls_go_on_beside_a_sleeping_one() {
    let asleep = start(
        |_| {},
        |main| main.sleep_until(Instant::now() + Duration::from_millis(100)),
    );
    let mut running = start_all(preempt_each_other);
    running.extend(start_all(retake_from_each_other));
    finish_all(running);
    let finished = asleep.finish();
    assert!(finished.vm.counters.idle_waits.get() <= 1);
    assert_eq!(finished.vm.counters.retakes.get(), 0);
}

#[test]
fn a_second_vm_is_served_after_the_first_has_come_and_gone() {
    for _ in 0..20 {
        run(|main| {
            short_slices(&main.vm);
            preempt_each_other(main)
        });
    }
}

#[test]
fn vms_come_and_go_while_another_one_is_busy() {
    let is_over = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&is_over);
    let busy = start(short_slices, move |main| {
        let rival = main.spawn({
            let flag = Arc::clone(&flag);
            move |process| process.spin_until(|| flag.load(Ordering::Relaxed))
        });
        main.spin_until(|| flag.load(Ordering::Relaxed))?;
        main.join(rival)
    });
    for _ in 0..200 {
        run(|main| main.checkpoint());
    }
    is_over.store(true, Ordering::Relaxed);
    busy.finish();
}

#[test]
fn one_vm_wakes_another() {
    const ROUNDS: u64 = 1000;
    let (hand_out, handed_out) = std::sync::mpsc::channel();
    let heard = Arc::new(AtomicU64::new(0));
    let of_listener = Arc::clone(&heard);
    let listener = start(
        |_| {},
        move |main| {
            let queue = main.vm.sched(|sched| sched.wait_queue_new());
            hand_out.send(queue).expect("the test waits for it");
            for _ in 0..ROUNDS {
                main.wait(|sched| sched.wait(queue, Vm::deadline(None)))?;
                of_listener.fetch_add(1, Ordering::Release);
            }
            Ok(())
        },
    );
    let queue = handed_out.recv().expect("the listener hands its queue out");
    let vm = Arc::clone(&listener.vm);
    run(move |main| {
        for round in 1..=ROUNDS {
            vm.wake_from_outside(queue, 0);
            main.yield_until(|| heard.load(Ordering::Acquire) == round)?;
        }
        Ok(())
    });
    listener.finish();
}

#[test]
fn a_native_thread_runs_one_vm_at_a_time() {
    run(|main| {
        let another =
            Vm::new(Arc::new(MockGuest(Mock::new()))).expect("the system gives it a poller");
        let refused = main.foreign(|| catch_unwind(AssertUnwindSafe(|| another.run())))?;
        assert!(refused.is_err());
        Ok(())
    });
}
