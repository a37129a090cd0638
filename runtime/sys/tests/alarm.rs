//! Alarms: what they promise to the waiter of a poller.
#![cfg(not(loom))]

use std::time::Duration;

use baton_sys::clock::Instant;
use baton_sys::poller::{Alarm, Events, Poller};

/// A poller that an alarm is watched by, where systems have alarms.
fn alarmed_poller() -> Option<(Poller, Alarm)> {
    let poller = Poller::new().expect("a poller opens");
    let alarm = Alarm::new();
    if cfg!(any(baton_portable, not(target_os = "linux"))) {
        assert!(alarm.is_err_and(|error| error.kind() == std::io::ErrorKind::Unsupported));
        return None;
    }
    let alarm = alarm.expect("an alarm opens");
    poller.watch(alarm.fd(), 7).expect("an alarm can be watched");
    Some((poller, alarm))
}

fn soon() -> Instant {
    Instant::now() + Duration::from_millis(5)
}

/// Waits until `deadline`; whether the alarm ended that.
fn goes_off(poller: &Poller, deadline: Instant) -> bool {
    let mut events = Events::new();
    while Instant::now() < deadline {
        let wait = poller.wait(&mut events, Some(deadline)).expect("a wait succeeds");
        if wait.ready > 0 {
            assert!(events.drain().all(|event| event.token == 7 && event.readable));
            return true;
        }
    }
    false
}

#[test]
fn an_alarm_goes_off_at_its_time_and_as_often_as_it_is_set() {
    let Some((poller, alarm)) = alarmed_poller() else {
        return;
    };
    for _ in 0..3 {
        let at = soon();
        alarm.set(at).expect("an alarm can be set");
        assert!(goes_off(&poller, Instant::FAR_FUTURE));
        assert!(Instant::now() >= at);
        assert!(!goes_off(&poller, soon()), "it goes off once");
    }
}

#[test]
fn an_alarm_for_a_time_in_the_past_goes_off_at_once() {
    let Some((poller, alarm)) = alarmed_poller() else {
        return;
    };
    for past in [Instant::from_nanos(0), Instant::now()] {
        alarm.set(past).expect("an alarm can be set");
        assert!(goes_off(&poller, Instant::FAR_FUTURE));
    }
}

#[test]
fn an_alarm_that_was_cleared_or_set_to_a_later_time_does_not_go_off_before() {
    let Some((poller, alarm)) = alarmed_poller() else {
        return;
    };
    alarm.set(Instant::now()).expect("an alarm can be set");
    alarm.clear();
    assert!(!goes_off(&poller, soon()));
    alarm.set(Instant::now()).expect("an alarm can be set");
    let later = Instant::now() + Duration::from_millis(20);
    alarm.set(later).expect("an alarm can be set");
    assert!(goes_off(&poller, Instant::FAR_FUTURE));
    assert!(Instant::now() >= later);
}

#[test]
fn another_thread_sets_the_alarm_of_one_that_waits() {
    let Some((poller, alarm)) = alarmed_poller() else {
        return;
    };
    std::thread::scope(|scope| {
        scope.spawn(|| alarm.set(soon()));
        assert!(goes_off(&poller, Instant::FAR_FUTURE));
    });
}

/// As in a fork's child, which shares the timer with its parent until then.
#[test]
fn an_alarm_with_a_timer_of_its_own_forgets_what_the_shared_one_was_set_to_and_is_watched_anew() {
    let Some((poller, alarm)) = alarmed_poller() else {
        return;
    };
    alarm.set(soon()).expect("an alarm can be set");
    alarm.reopen_after_fork().expect("another timer opens");
    assert!(!goes_off(&poller, soon() + Duration::from_millis(5)));
    poller.watch(alarm.fd(), 7).expect("an alarm can be watched");
    alarm.set(soon()).expect("an alarm can be set");
    assert!(goes_off(&poller, Instant::FAR_FUTURE));
}
