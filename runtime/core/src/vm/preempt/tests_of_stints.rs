//! Decisions of polls while a host's stint runs, in virtual time.

use super::decide::{Actions, Host, PollEvent, PollSettings, PollState, Seen};
use super::hints::SummaryBits;
use super::next_poll::{NextPoll, TICK};
use baton_sys::clock::Instant;
use std::time::Duration;

const SETTINGS: PollSettings = PollSettings {
    preemptive: true,
    window: Duration::from_micros(100),
    beat: Duration::ZERO,
    warn_blocked: Duration::from_millis(100),
};

/// Microseconds.
fn at(micros: u64) -> Instant {
    Instant::from_nanos(micros * 1000)
}

/// A process that runs alone, in the midst of a slice.
fn seen(gate: u64, host: Host) -> Seen<'static> {
    Seen {
        thread: 1,
        gate,
        cpu: None,
        is_waiting: &|| Some(true),
        run: 1,
        run_began: Some(at(0)),
        idle_waits: 0,
        slice: Duration::from_millis(10),
        slice_used: 0,
        slices_differ: false,
        summary: SummaryBits::of(false, false, false),
        posted: false,
        watched: false,
        armed: false,
        deadline: None,
        host,
    }
}

const INSIDE: u64 = 4;
const IN_CALL: u64 = 5;

fn poll(state: &mut PollState, now: u64, seen: Seen<'_>) -> Actions {
    state.decide(at(now), SETTINGS, &PollEvent::Runs(seen))
}

#[test]
fn the_end_of_a_stint_is_polled_for_and_requested() {
    let mut state = PollState::default();
    let runs = seen(INSIDE, Host::Runs(at(2_000)));
    assert_eq!(
        poll(&mut state, 10, runs).next,
        NextPoll::Quiet(Some(at(2_000)))
    );
    let actions = poll(&mut state, 2_000, runs);
    assert!(actions.end_stint && actions.set_attention && actions.signal);
    assert!(!actions.retake && !actions.end_slice);
    // The same request is only repeated by signals.
    let again = poll(&mut state, 2_050, runs);
    assert!(again.end_stint && !again.set_attention);
}

#[test]
fn a_call_of_the_hosts_thread_is_not_retaken_for_the_end_of_its_stint() {
    let mut state = PollState::default();
    let calls = seen(IN_CALL, Host::Runs(at(2_000)));
    for now in [10, 2_000, 4_000, 6_000] {
        assert!(!poll(&mut state, now, calls).retake, "at {now}");
    }
}

#[test]
fn a_call_that_keeps_the_vm_from_the_waiting_host_is_retaken() {
    let mut state = PollState::default();
    let calls = seen(IN_CALL, Host::Waits(Instant::FAR_FUTURE));
    assert!(!poll(&mut state, 10, calls).retake);
    assert!(poll(&mut state, 2_000, calls).retake);
}

#[test]
fn while_the_host_waits_the_monitor_does_not_rest() {
    let mut state = PollState::default();
    let runs = seen(INSIDE, Host::Waits(Instant::FAR_FUTURE));
    assert_eq!(poll(&mut state, 10, runs).next, NextPoll::At(at(10) + TICK));
}
