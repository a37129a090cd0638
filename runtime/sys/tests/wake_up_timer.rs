//! Wake-up timers and the waiter of a poller.
#![cfg(not(loom))]

use std::time::Duration;

use baton_sys::clock::Instant;
use baton_sys::poller::{Events, Poller, WakeUpTimer};

/// A poller with a registered timer, on systems that have timers.
fn poller_and_timer() -> Option<(Poller, WakeUpTimer)> {
    let poller = Poller::new().expect("a poller opens");
    let timer = WakeUpTimer::new();
    if cfg!(any(baton_portable, not(target_os = "linux"))) {
        assert!(timer.is_err_and(|error| error.kind() == std::io::ErrorKind::Unsupported));
        return None;
    }
    let timer = timer.expect("a timer opens");
    poller.watch(timer.fd(), 7).expect("a timer can be watched");
    Some((poller, timer))
}

fn soon() -> Instant {
    Instant::now() + Duration::from_millis(5)
}

/// Waits until `deadline`. Returns whether the timer ended the wait.
fn goes_off(poller: &Poller, deadline: Instant) -> bool {
    let mut events = Events::new();
    while Instant::now() < deadline {
        let wait = poller
            .wait(&mut events, Some(deadline))
            .expect("a wait succeeds");
        if wait.ready > 0 {
            assert!(
                events
                    .drain()
                    .all(|event| event.token == 7 && event.readable)
            );
            return true;
        }
    }
    false
}

#[test]
fn a_timer_goes_off_at_its_time_and_as_often_as_it_is_set() {
    let Some((poller, timer)) = poller_and_timer() else {
        return;
    };
    for _ in 0..3 {
        let at = soon();
        timer.set(at).expect("a timer can be set");
        assert!(goes_off(&poller, Instant::FAR_FUTURE));
        assert!(Instant::now() >= at);
        assert!(!goes_off(&poller, soon()), "it goes off once");
    }
}

#[test]
fn a_timer_for_a_time_in_the_past_goes_off_at_once() {
    let Some((poller, timer)) = poller_and_timer() else {
        return;
    };
    for past in [Instant::from_nanos(0), Instant::now()] {
        timer.set(past).expect("a timer can be set");
        assert!(goes_off(&poller, Instant::FAR_FUTURE));
    }
}

#[test]
fn a_timer_that_was_cleared_or_set_to_a_later_time_does_not_go_off_before() {
    let Some((poller, timer)) = poller_and_timer() else {
        return;
    };
    timer.set(Instant::now()).expect("a timer can be set");
    timer.clear();
    assert!(!goes_off(&poller, soon()));
    timer.set(Instant::now()).expect("a timer can be set");
    let later = Instant::now() + Duration::from_millis(20);
    timer.set(later).expect("a timer can be set");
    assert!(goes_off(&poller, Instant::FAR_FUTURE));
    assert!(Instant::now() >= later);
}

#[test]
fn another_thread_sets_the_timer_of_one_that_waits() {
    let Some((poller, timer)) = poller_and_timer() else {
        return;
    };
    std::thread::scope(|scope| {
        scope.spawn(|| timer.set(soon()));
        assert!(goes_off(&poller, Instant::FAR_FUTURE));
    });
}

/// As in a fork's child, which until then shares the timer with its parent.
#[test]
fn a_reopened_timer_forgets_what_the_shared_one_was_set_to_and_is_watched_anew() {
    let Some((poller, timer)) = poller_and_timer() else {
        return;
    };
    timer.set(soon()).expect("a timer can be set");
    timer.reopen_after_fork().expect("another timer opens");
    assert!(!goes_off(&poller, soon() + Duration::from_millis(5)));
    poller.watch(timer.fd(), 7).expect("a timer can be watched");
    timer.set(soon()).expect("a timer can be set");
    assert!(goes_off(&poller, Instant::FAR_FUTURE));
}
