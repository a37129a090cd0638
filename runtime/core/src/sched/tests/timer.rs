//! Timers.

use std::time::Duration;

use super::*;
use crate::sched::{State, TimerStats};

const PERIOD: Option<Duration> = Some(Duration::from_nanos(10));

fn prepared(sched: &mut Scheduler<()>) -> ProcessId {
    sched
        .spawn_prepared(SpawnOptions::default(), ())
        .expect("the limit is far")
}

#[test]
fn a_timer_fires_its_process_once() {
    let mut sched = sched();
    let pid = prepared(&mut sched);
    let timer = sched.timer_new(at(5), None, pid);
    assert_eq!((sched.live_count(), sched.pending_timers()), (0, 1));
    assert_eq!(sched.timer_due(timer), Some(at(5)));
    assert_eq!(sched.schedule(), Next::Nothing);
    assert_eq!(sched.expire(at(5)), 1);
    assert_eq!((sched.live_count(), sched.pending_timers()), (1, 0));
    assert_eq!(sched.timer_due(timer), None);
    assert_eq!(sched.schedule(), Next::Other(pid));
    assert_eq!(
        sched.timer_stats(timer),
        Some(TimerStats {
            fired: 1,
            skipped: 0
        })
    );
    let next = prepared(&mut sched);
    assert!(!sched.timer_prepare(timer, next), "it fires once");
}

#[test]
fn a_cancelled_timer_gives_its_process_back() {
    let mut sched = sched();
    let pid = prepared(&mut sched);
    let timer = sched.timer_new(at(5), None, pid);
    assert_eq!(sched.timer_cancel(timer), Some(pid));
    assert_eq!(sched.timer_cancel(timer), None);
    assert_eq!(sched.state(pid), State::Dead);
    assert_eq!((sched.next_deadline(), sched.pending_timers()), (None, 0));
    assert!(sched.forget(pid));
    assert_eq!(sched.expire(at(5)), 0);
}

#[test]
fn a_periodic_timer_does_not_drift() {
    let mut sched = sched();
    let first = prepared(&mut sched);
    let timer = sched.timer_new(at(10), PERIOD, first);
    let mut pid = first;
    for turn in 1..=3 {
        assert_eq!(sched.timer_due(timer), Some(at(turn * 10)));
        sched.expire(at(turn * 10 + 7));
        let next = prepared(&mut sched);
        assert!(sched.timer_prepare(timer, next));
        assert!(!sched.timer_prepare(timer, next), "it is armed");
        end(&mut sched, pid);
        pid = next;
    }
    assert_eq!(
        sched.timer_stats(timer),
        Some(TimerStats {
            fired: 3,
            skipped: 0
        })
    );
    assert_eq!(sched.pending_timers(), 1);
}

#[test]
fn times_that_have_passed_are_skipped_and_counted() {
    let mut sched = sched();
    let first = prepared(&mut sched);
    let timer = sched.timer_new(at(10), PERIOD, first);
    sched.expire(at(45));
    let next = prepared(&mut sched);
    assert!(sched.timer_prepare(timer, next));
    assert_eq!(sched.timer_due(timer), Some(at(50)));
    assert_eq!(
        sched.timer_stats(timer),
        Some(TimerStats {
            fired: 1,
            skipped: 3
        })
    );
}

#[test]
fn a_firing_that_finds_the_last_one_alive_is_skipped_and_counted() {
    let mut sched = sched();
    let first = prepared(&mut sched);
    let timer = sched.timer_new(at(10), PERIOD, first);
    sched.expire(at(10));
    let next = prepared(&mut sched);
    assert!(sched.timer_prepare(timer, next));
    sched.expire(at(20));
    assert_eq!(
        sched.timer_stats(timer),
        Some(TimerStats {
            fired: 1,
            skipped: 1
        })
    );
    assert_eq!(sched.timer_due(timer), Some(at(30)));
    sched.expire(at(55));
    assert_eq!(sched.timer_due(timer), Some(at(60)));
    assert_eq!(
        sched.timer_stats(timer),
        Some(TimerStats {
            fired: 1,
            skipped: 4
        })
    );
    end(&mut sched, first);
    sched.expire(at(60));
    assert_eq!(sched.schedule(), Next::Other(next));
    assert_eq!(sched.counters().timers_skipped, 4);
}

#[test]
fn a_cancelled_periodic_timer_leaves_the_fired_process_alone() {
    let mut sched = sched();
    let first = prepared(&mut sched);
    let timer = sched.timer_new(at(10), PERIOD, first);
    sched.expire(at(10));
    assert_eq!(sched.timer_cancel(timer), None, "none is prepared");
    let next = prepared(&mut sched);
    assert!(!sched.timer_prepare(timer, next));
    assert_eq!(sched.schedule(), Next::Other(first));
    assert_eq!(sched.pending_timers(), 0);
}

#[test]
fn a_timer_without_a_handle_still_fires_and_then_goes() {
    let mut sched = sched();
    let pid = prepared(&mut sched);
    let timer = sched.timer_new(at(5), None, pid);
    sched.timer_free(timer);
    assert!(sched.timer_stats(timer).is_some());
    sched.expire(at(5));
    assert_eq!(sched.schedule(), Next::Other(pid));
    assert_eq!(sched.timer_stats(timer), None);
    assert_eq!(sched.timer_cancel(timer), None);
}

#[test]
fn a_process_prepared_suspended_stays_suspended_when_it_is_fired() {
    let mut sched = sched();
    let options = SpawnOptions {
        suspended: true,
        ..SpawnOptions::default()
    };
    let pid = sched.spawn_prepared(options, ()).unwrap();
    sched.timer_new(at(5), None, pid);
    sched.expire(at(5));
    assert_eq!(
        (sched.state(pid), sched.live_count()),
        (State::Suspended, 1)
    );
    assert_eq!(sched.schedule(), Next::Nothing);
}

#[test]
fn a_period_of_nothing_does_not_fire_for_ever() {
    let mut sched = sched();
    let pid = prepared(&mut sched);
    let timer = sched.timer_new(at(5), Some(Duration::ZERO), pid);
    sched.expire(at(100));
    let next = prepared(&mut sched);
    assert!(sched.timer_prepare(timer, next));
    assert_eq!(sched.timer_due(timer), Some(at(101)));
}

#[test]
fn a_timer_whose_process_was_forgotten_fires_none() {
    let mut sched = sched();
    let pid = prepared(&mut sched);
    let timer = sched.timer_new(at(5), None, pid);
    assert!(sched.forget(pid));
    sched.expire(at(5));
    assert_eq!(sched.schedule(), Next::Nothing);
    assert_eq!(
        sched.timer_stats(timer),
        Some(TimerStats {
            fired: 0,
            skipped: 1
        })
    );
}
