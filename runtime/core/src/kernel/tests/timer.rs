//! Timers.

use std::time::Duration;

use super::*;
use crate::kernel::{State, TimerStats};

const PERIOD: Option<Duration> = Some(Duration::from_nanos(10));

fn prepared(kernel: &mut Kernel<()>) -> ProcessId {
    kernel
        .spawn_prepared(SpawnOptions::default(), ())
        .expect("the limit is far")
}

#[test]
fn a_timer_fires_its_process_once() {
    let mut kernel = kernel();
    let pid = prepared(&mut kernel);
    let timer = kernel.timer_new(at(5), None, pid);
    assert_eq!((kernel.live_count(), kernel.pending_timers()), (0, 1));
    assert_eq!(kernel.timer_due(timer), Some(at(5)));
    assert_eq!(kernel.schedule(), Next::Nothing);
    assert_eq!(kernel.expire(at(5)), 1);
    assert_eq!((kernel.live_count(), kernel.pending_timers()), (1, 0));
    assert_eq!(kernel.timer_due(timer), None);
    assert_eq!(kernel.schedule(), Next::Other(pid));
    assert_eq!(kernel.timer_stats(timer), Some(TimerStats { fired: 1, skipped: 0 }));
    let next = prepared(&mut kernel);
    assert!(!kernel.timer_prepare(timer, next), "it fires once");
}

#[test]
fn a_cancelled_timer_gives_its_process_back() {
    let mut kernel = kernel();
    let pid = prepared(&mut kernel);
    let timer = kernel.timer_new(at(5), None, pid);
    assert_eq!(kernel.timer_cancel(timer), Some(pid));
    assert_eq!(kernel.timer_cancel(timer), None);
    assert_eq!(kernel.state(pid), State::Dead);
    assert_eq!((kernel.next_deadline(), kernel.pending_timers()), (None, 0));
    assert!(kernel.forget(pid));
    assert_eq!(kernel.expire(at(5)), 0);
}

#[test]
fn a_periodic_timer_does_not_drift() {
    let mut kernel = kernel();
    let first = prepared(&mut kernel);
    let timer = kernel.timer_new(at(10), PERIOD, first);
    let mut pid = first;
    for turn in 1..=3 {
        assert_eq!(kernel.timer_due(timer), Some(at(turn * 10)));
        kernel.expire(at(turn * 10 + 7));
        let next = prepared(&mut kernel);
        assert!(kernel.timer_prepare(timer, next));
        assert!(!kernel.timer_prepare(timer, next), "it is armed");
        end(&mut kernel, pid);
        pid = next;
    }
    assert_eq!(kernel.timer_stats(timer), Some(TimerStats { fired: 3, skipped: 0 }));
    assert_eq!(kernel.pending_timers(), 1);
}

#[test]
fn times_that_have_passed_are_skipped_and_counted() {
    let mut kernel = kernel();
    let first = prepared(&mut kernel);
    let timer = kernel.timer_new(at(10), PERIOD, first);
    kernel.expire(at(45));
    let next = prepared(&mut kernel);
    assert!(kernel.timer_prepare(timer, next));
    assert_eq!(kernel.timer_due(timer), Some(at(50)));
    assert_eq!(kernel.timer_stats(timer), Some(TimerStats { fired: 1, skipped: 3 }));
}

#[test]
fn a_firing_that_finds_the_last_one_alive_is_skipped_and_counted() {
    let mut kernel = kernel();
    let first = prepared(&mut kernel);
    let timer = kernel.timer_new(at(10), PERIOD, first);
    kernel.expire(at(10));
    let next = prepared(&mut kernel);
    assert!(kernel.timer_prepare(timer, next));
    kernel.expire(at(20));
    assert_eq!(kernel.timer_stats(timer), Some(TimerStats { fired: 1, skipped: 1 }));
    assert_eq!(kernel.timer_due(timer), Some(at(30)));
    kernel.expire(at(55));
    assert_eq!(kernel.timer_due(timer), Some(at(60)));
    assert_eq!(kernel.timer_stats(timer), Some(TimerStats { fired: 1, skipped: 4 }));
    end(&mut kernel, first);
    kernel.expire(at(60));
    assert_eq!(kernel.schedule(), Next::Other(next));
    assert_eq!(kernel.counters().timers_skipped, 4);
}

#[test]
fn a_cancelled_periodic_timer_leaves_the_fired_process_alone() {
    let mut kernel = kernel();
    let first = prepared(&mut kernel);
    let timer = kernel.timer_new(at(10), PERIOD, first);
    kernel.expire(at(10));
    assert_eq!(kernel.timer_cancel(timer), None, "none is prepared");
    let next = prepared(&mut kernel);
    assert!(!kernel.timer_prepare(timer, next));
    assert_eq!(kernel.schedule(), Next::Other(first));
    assert_eq!(kernel.pending_timers(), 0);
}

#[test]
fn a_timer_without_a_handle_still_fires_and_then_goes() {
    let mut kernel = kernel();
    let pid = prepared(&mut kernel);
    let timer = kernel.timer_new(at(5), None, pid);
    kernel.timer_free(timer);
    assert!(kernel.timer_stats(timer).is_some());
    kernel.expire(at(5));
    assert_eq!(kernel.schedule(), Next::Other(pid));
    assert_eq!(kernel.timer_stats(timer), None);
    assert_eq!(kernel.timer_cancel(timer), None);
}

#[test]
fn a_process_prepared_suspended_stays_suspended_when_it_is_fired() {
    let mut kernel = kernel();
    let options = SpawnOptions {
        suspended: true,
        ..SpawnOptions::default()
    };
    let pid = kernel.spawn_prepared(options, ()).unwrap();
    kernel.timer_new(at(5), None, pid);
    kernel.expire(at(5));
    assert_eq!((kernel.state(pid), kernel.live_count()), (State::Suspended, 1));
    assert_eq!(kernel.schedule(), Next::Nothing);
}

#[test]
fn a_period_of_nothing_does_not_fire_for_ever() {
    let mut kernel = kernel();
    let pid = prepared(&mut kernel);
    let timer = kernel.timer_new(at(5), Some(Duration::ZERO), pid);
    kernel.expire(at(100));
    let next = prepared(&mut kernel);
    assert!(kernel.timer_prepare(timer, next));
    assert_eq!(kernel.timer_due(timer), Some(at(101)));
}

#[test]
fn a_timer_whose_process_was_forgotten_fires_nobody() {
    let mut kernel = kernel();
    let pid = prepared(&mut kernel);
    let timer = kernel.timer_new(at(5), None, pid);
    assert!(kernel.forget(pid));
    kernel.expire(at(5));
    assert_eq!(kernel.schedule(), Next::Nothing);
    assert_eq!(kernel.timer_stats(timer), Some(TimerStats { fired: 0, skipped: 1 }));
}
