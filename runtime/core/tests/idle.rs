//! The idle owner waits without waking up, and no wake-up is lost.

mod mock_guest;

use baton_core::sched::{Deadline, WaitQueueId, WakeReason};
use baton_core::vm::Vm;
use baton_sys::clock::Instant;
use mock_guest::{
    Life, Process, Running, await_event, run, run_with, start, this_thread, times_of,
};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

/// Starts a VM whose first process passes its queue to the test and then waits in it `rounds`
/// times. It notifies the test before each wait.
fn listener(rounds: u64) -> (Running, WaitQueueId, Arc<AtomicU64>) {
    let (hand_out, handed_out) = channel();
    let received = Arc::new(AtomicU64::new(0));
    let of_main = Arc::clone(&received);
    let running = start(
        |_| {},
        move |main| {
            let queue = new_queue(main, &hand_out);
            for _ in 0..rounds {
                let value = main.wait(|sched| sched.wait(queue, Deadline::Never))?;
                of_main.fetch_add(value, Ordering::Release);
            }
            Ok(())
        },
    );
    let queue = handed_out.recv().expect("main hands its queue out");
    (running, queue, received)
}

fn new_queue(process: &Process, hand_out: &Sender<WaitQueueId>) -> WaitQueueId {
    let queue = process.vm.sched(|sched| sched.wait_queue_new());
    hand_out.send(queue).expect("the test waits for it");
    queue
}

/// Returns once the owner has slept in the poller once more than `before`.
fn await_sleep(vm: &Vm, before: u64) {
    let waits = &vm.counters.idle_waits;
    await_event("the owner sleeps", || waits.get() > before);
}

#[test]
fn a_vm_with_nothing_due_sleeps_in_one_wait_until_it_is_woken() {
    let (running, queue, _) = listener(1);
    await_sleep(&running.vm, 0);
    // Everything else that could wake it: another VM, busy and then idle, and the monitor that
    // rests afterwards.
    run(|main| main.sleep_until(Instant::now() + Duration::from_millis(60)));
    assert_eq!(running.vm.counters.idle_waits.get(), 1);
    running.vm.wake_from_outside(queue, 1);
    let vm = running.finish().vm;
    assert_eq!(vm.counters.idle_waits.get(), 1);
}

/// The machine can keep the thread from its processor until the deadline has passed. Only then may
/// a sleep be without a wait, and it is not counted. A sleep is long enough for an emulator to get
/// to the wait.
#[test]
fn a_sleep_is_one_wait_in_the_poller() {
    const LENGTH: Duration = Duration::from_millis(100);
    run(|main| {
        let waits = || main.vm.counters.idle_waits.get();
        let waited = || times_of(this_thread()).waited;
        let mut judged = 0;
        while judged < 10 {
            let before = (waits(), waited());
            main.sleep_until(Instant::now() + LENGTH)?;
            let made = waits() - before.0;
            let was_kept = waited() - before.1 >= LENGTH;
            assert!(made == 1 || made == 0 && was_kept, "{made} waits");
            judged += made;
        }
        Ok(())
    });
}

#[test]
fn thousands_of_wakes_from_another_thread_come_through_one_by_one() {
    const ROUNDS: u64 = 5000;
    let (running, queue, received) = listener(ROUNDS);
    for round in 1..=ROUNDS {
        // Between the notification and the wait, main takes no posts in, so that no wake comes too
        // early.
        running.vm.wake_from_outside(queue, 1);
        await_event("the wake has come through", || {
            received.load(Ordering::Acquire) == round
        });
    }
    running.finish();
}

#[test]
fn the_last_of_many_wakes_is_never_lost() {
    const WAKERS: u64 = 4;
    const EACH: u64 = 3000;
    let (hand_out, handed_out) = channel();
    let posted = Arc::new(AtomicU64::new(0));
    let of_main = Arc::clone(&posted);
    let running = start(
        |_| {},
        move |main| {
            let queue = new_queue(main, &hand_out);
            // Between the check and the wait, no posts are taken in, so that no wake comes too
            // early.
            while of_main.load(Ordering::Acquire) < WAKERS * EACH {
                main.wait(|sched| sched.wait(queue, Deadline::Never))?;
            }
            Ok(())
        },
    );
    let queue = handed_out.recv().expect("main hands its queue out");
    let wakers: Vec<_> = (0..WAKERS)
        .map(|_| {
            let (vm, posted) = (Arc::clone(&running.vm), Arc::clone(&posted));
            std::thread::spawn(move || {
                for _ in 0..EACH {
                    posted.fetch_add(1, Ordering::Release);
                    vm.wake_from_outside(queue, 0);
                }
            })
        })
        .collect();
    wakers
        .into_iter()
        .for_each(|waker| waker.join().expect("wakers do not panic"));
    running.finish();
}

#[test]
fn a_wake_that_comes_while_a_deadlock_is_reported_is_not_lost() {
    let finished = run(|main| {
        let queue = main.vm.sched(|sched| sched.wait_queue_new());
        main.mock
            .on_deadlock(move |vm| vm.wake_from_outside(queue, 7));
        for _ in 0..100 {
            assert_eq!(main.wait(|sched| sched.wait(queue, Deadline::Never))?, 7);
        }
        Ok(())
    });
    assert_eq!(finished.mock.deadlocks.load(Ordering::Relaxed), 100);
    assert_eq!(
        finished.vm.counters.idle_waits.get(),
        0,
        "the owner slept although it was woken"
    );
}

#[test]
fn a_deadlock_is_reported_again_after_the_returned_time() {
    let finished = run(|main| {
        let queue = main.vm.sched(|sched| sched.wait_queue_new());
        let mut times = 0;
        main.mock.on_deadlock_for_now(move |vm| {
            times += 1;
            if times == 5 {
                vm.sched(|sched| sched.wake_one(queue, WakeReason::Done, 7));
            }
            Some(Duration::from_millis(1))
        });
        assert_eq!(main.wait(|sched| sched.wait(queue, Deadline::Never))?, 7);
        Ok(())
    });
    assert_eq!(finished.mock.deadlocks.load(Ordering::Relaxed), 5);
    assert_eq!(finished.vm.counters.idle_waits.get(), 4);
}

#[test]
fn the_report_of_a_deadlock_may_end_it() {
    let finished = run(|main| {
        let queue = main.vm.sched(|sched| sched.wait_queue_new());
        main.mock.on_deadlock(move |vm| {
            let woken = vm.sched(|sched| sched.wake_one(queue, WakeReason::Done, 7));
            assert!(woken.is_some());
        });
        assert_eq!(main.wait(|sched| sched.wait(queue, Deadline::Never))?, 7);
        Ok(())
    });
    assert_eq!(finished.vm.counters.idle_waits.get(), 0);
}

#[test]
fn a_pending_deadline_or_foreign_call_is_no_deadlock() {
    let finished = run(|main| {
        let queue = main.vm.sched(|sched| sched.wait_queue_new());
        let retakes = main.vm.to_arc();
        let caller = main.spawn(move |process| {
            process
                .foreign(|| await_event("it is taken", || retakes.counters.retakes.get() > 0))?;
            process
                .vm
                .with_sched(|sched| sched.wake_one(queue, WakeReason::Done, 0));
            Ok(())
        });
        // Repeated, as on a busy machine the time can pass before the sleep. Then the other process
        // has not run.
        while main.vm.counters.retakes.get() == 0 {
            main.sleep_until(Instant::now() + Duration::from_millis(2))?;
        }
        if main.vm.sched(|sched| sched.is_alive(caller)) {
            main.wait(|sched| sched.wait(queue, Vm::deadline(None)))?;
        }
        main.join(caller)
    });
    assert_eq!(finished.mock.deadlocks.load(Ordering::Relaxed), 0);
}

fn is_told_when_busy(main: &Process) -> Life {
    main.spin_until(|| main.mock.signals.load(Ordering::Relaxed) >= 1)
}

#[test]
fn what_a_signal_handler_asks_for_before_the_vm_runs_reaches_the_guest() {
    // Other VMs may make the monitor poll before it knows this VM.
    for _ in 0..20 {
        run_with(Vm::request_signalled, is_told_when_busy);
    }
}

/// Alone in its program, so that no other test has started the monitor.
#[test]
fn requests_of_signal_handlers_need_no_monitor_that_others_have_started() {
    let program = std::env::current_exe().expect("the test program has a path");
    let mut alone = Command::new(program);
    alone.args([
        "--exact",
        "requests_of_signal_handlers_reach_the_guest_when_it_is_busy",
    ]);
    let output = alone.output().expect("it starts again");
    assert!(output.status.success(), "{output:?}");
    assert!(
        String::from_utf8_lossy(&output.stdout).contains("1 passed"),
        "{output:?}"
    );
}

#[test]
fn requests_of_signal_handlers_reach_the_guest_asleep() {
    let (running, queue, _) = listener(1);
    let signals = Arc::clone(&running.mock);
    for round in 1..=500 {
        running.vm.request_signalled();
        await_event("the guest is told", || {
            signals.signals.load(Ordering::Relaxed) >= round
        });
    }
    running.vm.wake_from_outside(queue, 1);
    running.finish();
}

#[test]
fn requests_of_signal_handlers_reach_the_guest_when_it_is_busy() {
    let running = start(
        |_| {},
        |main| main.spin_until(|| main.mock.signals.load(Ordering::Relaxed) >= 100),
    );
    for round in 1..=100 {
        running.vm.request_signalled();
        await_event("the busy guest is told", || {
            running.mock.signals.load(Ordering::Relaxed) >= round
        });
    }
    running.finish();
}
