//! Decisions of polls beside a process that does not answer, in virtual time: when the monitor
//! looks why, and when it warns.

use super::decide::Seen;
use super::stall::Cause;
use super::tests::{
    ALONE, BESIDE_EQUALS, BESIDE_LESS_URGENT, Subject, at, computing, micros, next,
};
use std::time::Duration;

/// The polls at which the monitor looks why there is no answer, from 10 ms on.
fn looks(subject: &mut Subject, until: u64, cpu_of: fn(u64) -> Option<Duration>) -> Vec<u64> {
    let mut looks = Vec::new();
    let mut now = 10_000;
    while now <= until {
        subject.seen.cpu = cpu_of(now);
        let actions = subject.poll(now);
        if actions.look_why {
            looks.push(now / 1000);
        }
        now = next(actions);
    }
    looks
}

#[test]
fn signals_that_are_not_answered_for_a_tenth_of_a_second_make_the_monitor_look_why() {
    let mut subject = computing(BESIDE_EQUALS);
    assert_eq!(looks(&mut subject, 500_000, |_| None), [110, 210, 410]);
    let mut subject = computing(BESIDE_EQUALS);
    let half = |now| Some(micros(now / 2));
    assert_eq!(looks(&mut subject, 500_000, half), [210, 410]);
    let mut waits_for_a_processor = computing(BESIDE_EQUALS);
    let none = |_| Some(micros(7));
    assert_eq!(looks(&mut waits_for_a_processor, 500_000, none), [0; 0]);
}

#[test]
fn an_answer_ends_the_patience_of_the_monitor() {
    for change in [
        (|seen: &mut Seen<'_>| (seen.run, seen.run_began) = (2, Some(at(60_000))))
            as fn(&mut Seen<'_>),
        |seen| seen.gate += 2,
    ] {
        let mut subject = computing(BESIDE_EQUALS);
        assert_eq!(looks(&mut subject, 60_000, |_| None), [0; 0]);
        change(&mut subject.seen);
        let _ = subject.poll(60_100);
        assert!(!subject.poll(112_000).look_why);
    }
    let mut subject = computing(BESIDE_EQUALS);
    assert_eq!(looks(&mut subject, 60_000, |_| None), [0; 0]);
    subject.seen.summary = ALONE;
    let _ = subject.poll(60_100);
    subject.seen.summary = BESIDE_EQUALS;
    assert!(!subject.poll(112_000).look_why);
}

/// When a stall is warned about: polls each tick, with these changes before each poll.
fn warned(subject: &mut Subject, polls: u64, change: impl Fn(&mut Subject, u64)) -> Vec<u64> {
    let mut warned = Vec::new();
    for now in (1..=polls).map(|poll| 10_000 + 2_000 * poll) {
        change(subject, now);
        if subject.poll(now).warn.is_some() {
            warned.push(now);
            subject.state.note_warned();
        }
    }
    warned
}

#[test]
fn a_process_that_leaves_a_request_unanswered_is_warned_about_once() {
    let mut subject = computing(BESIDE_EQUALS);
    assert_eq!(warned(&mut subject, 100, |_, _| ()), [112_000]);
    // It passes the gate all the time.
    let mut subject = computing(BESIDE_LESS_URGENT);
    subject.seen.deadline = Some(at(10_000));
    assert_eq!(
        warned(&mut subject, 100, |subject, _| subject.seen.gate += 1),
        [112_000]
    );
    // A new run has answered the request.
    let mut subject = computing(BESIDE_EQUALS);
    let runs = warned(&mut subject, 100, |subject, now| {
        (subject.seen.run, subject.seen.run_began) = (now / 90_000, None);
    });
    assert_eq!(runs, []);
}

#[test]
fn another_unanswered_deadline_at_each_poll_is_no_stall() {
    let mut subject = computing(BESIDE_LESS_URGENT);
    let overloaded = warned(&mut subject, 100, |subject, now| {
        subject.seen.deadline = Some(at(now - 1_000));
    });
    assert_eq!(overloaded, []);
}

#[test]
fn a_thread_without_a_processor_is_not_warned_about() {
    let mut subject = computing(BESIDE_EQUALS);
    subject.seen.is_waiting = &|| Some(false);
    let starved = |subject: &mut Subject, now| subject.seen.cpu = Some(micros(now / 10));
    assert_eq!(warned(&mut subject, 100, starved), []);
    let computes = |subject: &mut Subject, now| subject.seen.cpu = Some(micros(now));
    let mut subject = computing(BESIDE_EQUALS);
    subject.seen.is_waiting = &|| Some(false);
    assert_eq!(warned(&mut subject, 100, computes), [112_000]);
}

#[test]
fn an_exclusive_call_is_warned_about_and_one_that_waits_for_a_thread_is_not() {
    let mut subject = computing(BESIDE_EQUALS);
    subject.seen.gate = 5;
    assert_eq!(warned(&mut subject, 100, |_, _| ()), []);
    subject.state.note_exclusive(5);
    assert_eq!(warned(&mut subject, 100, |_, _| ()), [112_000]);
    assert_eq!(subject.poll(300_000).warn, None);
    subject.seen.gate = 7;
    subject.state.note_exclusive(7);
    assert_eq!(subject.poll(310_000).warn, None);
    assert_eq!(subject.poll(410_000).warn, Some(Cause::Call(7)));
}
