//! Decisions of polls during foreign calls, in virtual time: when a call is retaken.

use super::decide::{PollEvent, Seen};
use super::next_poll::NextPoll;
use super::tests::{ALONE, BESIDE_LESS_URGENT, BESIDE_MORE_URGENT, at, computing, micros, next};
use std::time::Duration;

#[test]
fn a_call_gets_a_flag_and_no_signal() {
    let mut subject = computing(BESIDE_MORE_URGENT);
    subject.seen.gate = 5;
    assert!(subject.poll(1_000).set_attention);
    // Again only after the call, if the flag was lost to what ran before.
    assert_eq!(subject.signals(1_050, 1_090), []);
    subject.seen.gate = 6;
    let actions = subject.poll(1_095);
    assert!(actions.set_attention && !actions.signal);
}

#[test]
fn a_call_is_retaken_when_it_has_lasted_for_a_window() {
    let mut subject = computing(BESIDE_LESS_URGENT);
    subject.seen.gate = 5;
    let first = subject.poll(21_000);
    assert_eq!((first.retake, next(first)), (false, 21_100));
    // Another call.
    subject.seen.gate = 7;
    let second = subject.poll(21_100);
    assert_eq!((second.retake, next(second)), (false, 21_200));
    let old = subject.poll(21_200);
    assert_eq!((old.retake, next(old)), (true, 23_200));
    // After a retake, calls are noticed within a window for a while.
    assert_eq!(
        subject.state.note_retaken(at(21_200), micros(100)),
        at(21_300)
    );
    subject.seen.thread = 2;
    assert_eq!(next(subject.poll(21_300)), 21_400);
    assert_eq!(next(subject.poll(21_400)), 21_500);
    assert_eq!(next(subject.poll(31_300)), 33_300);
}

#[test]
fn an_exclusive_call_is_not_retaken_again() {
    let mut subject = computing(BESIDE_LESS_URGENT);
    subject.seen.gate = 5;
    assert!(!subject.poll(1_000).retake && subject.poll(1_100).retake);
    subject.state.note_exclusive(5);
    let actions = subject.poll(3_000);
    assert_eq!((actions.retake, next(actions)), (false, 5_000));
    // The same value of another thread's gate says nothing.
    subject.seen.thread = 2;
    assert!(!subject.poll(5_000).retake && subject.poll(5_100).retake);
}

#[test]
fn a_call_whose_thread_gets_no_processor_is_polled_more_and_more_rarely() {
    let mut subject = computing(BESIDE_LESS_URGENT);
    (subject.seen.gate, subject.seen.cpu) = (5, Some(micros(0)));
    subject.seen.is_waiting = &|| Some(false);
    let mut polls = vec![1_000];
    for _ in 0..6 {
        let actions = subject.poll(polls[polls.len() - 1]);
        assert!(!actions.retake);
        polls.push(next(actions));
    }
    assert_eq!(polls, [1_000, 1_100, 1_200, 1_400, 1_800, 2_300, 2_800]);
    // It waits for something, or has computed, or the system does not say.
    for (cpu, is_waiting) in [
        (
            Some(micros(0)),
            (&|| Some(true)) as &dyn Fn() -> Option<bool>,
        ),
        (Some(micros(0)), &|| None),
        (Some(micros(100)), &|| Some(false)),
        (None, &|| Some(false)),
    ] {
        let seen = Seen {
            cpu,
            is_waiting,
            ..subject.seen
        };
        let actions = subject
            .state
            .decide(at(2_300), subject.set, &PollEvent::Runs(seen));
        assert!(actions.retake);
    }
}

#[test]
fn whether_a_call_waits_is_asked_before_the_deadline_and_not_again() {
    let waits = || Some(true);
    let must_not_ask = || -> Option<bool> { panic!("it was asked again") };
    let mut subject = computing(ALONE);
    let mut poll = |now, is_waiting, cpu| {
        let seen = Seen {
            gate: 5,
            cpu: Some(micros(cpu)),
            deadline: Some(at(2_000)),
            is_waiting,
            ..subject.seen
        };
        let event = PollEvent::Runs(seen);
        subject.state.decide(at(now), subject.set, &event)
    };
    assert_eq!(
        poll(1_000, &must_not_ask, 0).next,
        NextPoll::Quiet(Some(at(1_895)))
    );
    assert_eq!(
        poll(1_895, &waits, 0).next,
        NextPoll::Quiet(Some(at(2_000)))
    );
    assert!(poll(2_000, &must_not_ask, 0).retake);
    // It has run since.
    assert!(!poll(2_100, &|| Some(false), 1).retake);
}

#[test]
fn without_a_window_calls_are_retaken_once_a_tick() {
    let mut subject = computing(BESIDE_LESS_URGENT);
    subject.set.window = Duration::ZERO;
    subject.seen.gate = 5;
    assert!(subject.poll(10_000).retake);
    assert_eq!(
        subject.state.note_retaken(at(10_000), Duration::ZERO),
        at(12_000)
    );
    subject.seen.gate = 7;
    let early = subject.poll(10_500);
    assert_eq!((early.retake, next(early)), (false, 12_000));
    assert!(subject.poll(12_000).retake);
}
