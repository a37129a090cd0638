//! Spinning before parking, through the executor: waking a spinning owner needs no system call, and
//! the statistics are right.

mod mock_guest;

use baton_core::sched::{Deadline, WaitQueueId};
use baton_core::spin::{PolicyName, Tally};
use baton_core::vm::Vm;
use baton_sys::clock::Instant;
use mock_guest::{Running, await_event, run_with, start};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

/// Far longer than any test takes: the owner never parks.
const ENDLESS: Duration = Duration::from_secs(3600);

/// Starts a VM whose first process waits `rounds` times in the queue that it passes to the test.
/// The count goes up with each wake.
fn listener(rounds: u64, prepare: fn(&Vm)) -> (Running, WaitQueueId, Arc<AtomicU64>) {
    let (hand_out, handed_out) = channel();
    let received = Arc::new(AtomicU64::new(0));
    let of_main = Arc::clone(&received);
    let running = start(prepare, move |main| {
        let queue = main.vm.sched(|sched| sched.wait_queue_new());
        hand_out.send(queue).expect("the test waits for it");
        for _ in 0..rounds {
            main.wait(|sched| sched.wait(queue, Deadline::Never))?;
            of_main.fetch_add(1, Ordering::Release);
        }
        Ok(())
    });
    let queue = handed_out.recv().expect("main hands its queue out");
    (running, queue, received)
}

fn spin_without_end(vm: &Vm) {
    vm.parameters.set_spin(PolicyName::Ema);
    vm.parameters.busy_loop_for.set(ENDLESS);
}

/// Sleeps `count` times for `length`. Returns the statistics.
fn sleep_often(count: u32, length: Duration, prepare: fn(&Vm)) -> (Tally, u64) {
    let (hand_out, handed_out) = channel();
    let finished = run_with(prepare, move |main| {
        for _ in 0..count {
            main.sleep_until(Instant::now() + length)?;
        }
        hand_out
            .send(main.vm.spin_tally())
            .expect("the test waits for it");
        Ok(())
    });
    let tally = handed_out.recv().expect("main hands it out");
    (tally, finished.vm.counters.idle_waits.get())
}

/// Guards also against a notification that was taken back between the check for a deadlock and the
/// spin.
#[test]
fn an_owner_that_spins_hears_every_wake_without_ever_parking() {
    const ROUNDS: u64 = 500;
    let (running, queue, received) = listener(ROUNDS, spin_without_end);
    for round in 1..=ROUNDS {
        running.vm.wake_from_outside(queue, 0);
        await_event("the wake has come through", || {
            received.load(Ordering::Acquire) == round
        });
    }
    assert_eq!(running.finish().vm.counters.idle_waits.get(), 0);
}

#[test]
fn a_signal_handlers_request_ends_a_spin() {
    let (running, queue, _) = listener(1, spin_without_end);
    for round in 1..=100 {
        running.vm.request_signalled();
        await_event("the guest is told", || {
            running.mock.signals.load(Ordering::Relaxed) >= round
        });
    }
    running.vm.wake_from_outside(queue, 0);
    assert_eq!(running.finish().vm.counters.idle_waits.get(), 0);
}

#[test]
fn no_wake_is_lost_where_spinning_and_parking_alternate() {
    const ROUNDS: u64 = 1000;
    let (running, queue, received) = listener(ROUNDS, |vm| {
        vm.parameters.set_spin(PolicyName::Ema);
        vm.parameters.busy_loop_for.set(Duration::from_micros(20));
    });
    for round in 1..=ROUNDS {
        // Wakes come before, at and after the end of the spin.
        let until = Instant::now() + Duration::from_nanos(round * 7919 % 40_000);
        while Instant::now() < until {
            std::hint::spin_loop();
        }
        running.vm.wake_from_outside(queue, 0);
        await_event("the wake has come through", || {
            received.load(Ordering::Acquire) == round
        });
    }
    running.finish();
}

#[test]
fn a_spin_ends_when_something_is_due() {
    const SLEEPS: u32 = 101;
    const LENGTH: Duration = Duration::from_micros(300);
    let (tally, parks) = sleep_often(SLEEPS, LENGTH, spin_without_end);
    assert_eq!(tally.accuracy.true_positives, 0);
    // On a busy machine a deadline may pass before the wait. Then there is no spin, but a poll of
    // the poller, or not even that.
    let spins = tally.accuracy.false_positives;
    assert!(
        spins > u64::from(SLEEPS / 2) && spins + parks <= u64::from(SLEEPS),
        "{parks} parks, {tally:?}"
    );
    assert!(tally.spun <= LENGTH * SLEEPS, "{tally:?}");
}

#[test]
fn a_spin_for_nothing_is_followed_by_a_park_for_the_rest() {
    // So long that it is not over when the spin ends, even if the machine stalls meanwhile.
    let (tally, parks) = sleep_often(1, Duration::from_secs(3), |vm| {
        vm.parameters.set_spin(PolicyName::Ema);
        vm.parameters.busy_loop_for.set(Duration::from_micros(100));
    });
    assert_eq!((parks, tally.accuracy.false_positives), (1, 1), "{tally:?}");
    assert!(tally.spun >= Duration::from_micros(100), "{tally:?}");
}

#[test]
fn off_never_spins_and_counts_nothing() {
    let (tally, parks) = sleep_often(5, Duration::from_millis(5), |vm| {
        vm.parameters.set_spin(PolicyName::Off)
    });
    assert!(parks >= 1);
    assert_eq!(
        (tally.spun, tally.accuracy),
        (Duration::ZERO, Default::default())
    );
}

#[test]
fn the_policy_can_be_changed_while_it_runs() {
    let (running, queue, received) = listener(2, |vm| vm.parameters.set_spin(PolicyName::Off));
    let parks = &running.vm.counters.idle_waits;
    await_event("the owner sleeps", || parks.get() == 1);
    spin_without_end(&running.vm);
    running.vm.wake_from_outside(queue, 0);
    await_event("the wake has come through", || {
        received.load(Ordering::Acquire) == 1
    });
    running.vm.wake_from_outside(queue, 0);
    assert_eq!(running.finish().vm.counters.idle_waits.get(), 1);
}

#[test]
fn a_learned_spin_for_sleeps_never_comes() {
    let (tally, _) = sleep_often(50, Duration::from_micros(200), |_| {});
    assert_eq!(
        (tally.spun, tally.accuracy.false_positives),
        (Duration::ZERO, 0)
    );
}
