//! Tests of what is fetched ahead, in made-up time.

use super::{ALONE, Ahead, MOST_BYTES, STALE, Verdict};
use crate::command::QueueOptions;
use crate::event::Answer;
use crate::nats::recent::SPAN;
use std::time::{Duration, Instant};

fn options(prefetch: usize, tries: u64) -> QueueOptions {
    QueueOptions {
        most: None,
        ack: Duration::from_secs(30),
        tries,
        dead: None,
        replicas: 1,
        prefetch,
    }
}

fn answer(number: u64, size: usize) -> Answer {
    Answer {
        payload: Some(vec![0; size].into()),
        why: String::new(),
        numbers: [1, number],
    }
}

/// A queue from which so many jobs were received just now.
fn received(prefetch: usize, jobs: usize, size: usize, now: Instant) -> Ahead {
    let mut ahead = Ahead::new(&options(prefetch, 5), now);
    for _ in 0..jobs {
        ahead.note_received(&answer(0, size), now);
    }
    ahead
}

impl Ahead {
    fn ask_ahead(&mut self, now: Instant) -> usize {
        self.ask(0, now).ahead
    }
}

fn number_taken(ahead: &mut Ahead, now: Instant) -> Option<u64> {
    ahead.take(now).map(|answer| answer.numbers[1])
}

#[test]
fn as_many_are_fetched_as_were_received_a_short_time_ago() {
    let now = Instant::now();
    assert_eq!(received(100, 0, 1, now).ask_ahead(now), 0);
    assert_eq!(received(100, 7, 1, now).ask_ahead(now), 7);
    assert_eq!(received(100, 1000, 1, now).ask_ahead(now), 100);
    assert_eq!(received(0, 1000, 1, now).ask_ahead(now), 0);
    let mut ahead = received(100, 7, 1, now);
    assert_eq!(ahead.ask_ahead(now + SPAN * 3 / 4), 7);
    ahead.note_answered(7);
    assert_eq!(ahead.ask_ahead(now + SPAN * 2), 0);
}

#[test]
fn no_more_bytes_are_fetched_than_the_limit() {
    let now = Instant::now();
    assert_eq!(received(100, 50, MOST_BYTES / 8, now).ask_ahead(now), 8);
    assert_eq!(received(100, 50, MOST_BYTES * 2, now).ask_ahead(now), 0);
}

#[test]
fn more_are_asked_for_when_half_of_the_place_is_free() {
    let now = Instant::now();
    let mut ahead = received(10, 10, 1, now);
    assert_eq!(ahead.ask_ahead(now), 10);
    assert_eq!(ahead.ask_ahead(now), 0);
    for number in 0..10 {
        ahead.note_answered(1);
        ahead.put(number, false, answer(number, 1), now);
    }
    for number in 0..4 {
        assert_eq!(number_taken(&mut ahead, now), Some(number));
    }
    assert_eq!(ahead.ask_ahead(now), 0);
    assert_eq!(number_taken(&mut ahead, now), Some(4));
    assert_eq!(ahead.ask_ahead(now), 5);
    ahead.forget_requests();
    assert_eq!(ahead.ask_ahead(now), 5);
}

#[test]
fn each_process_that_waits_has_a_job_asked_for_beside_those_ahead() {
    let now = Instant::now();
    let ask = |ahead: &mut Ahead, waiting| {
        let asked = ahead.ask(waiting, now);
        (asked.for_waiting, asked.ahead)
    };
    let mut slow = received(10, 0, 1, now);
    assert_eq!(ask(&mut slow, 2), (2, 0));
    assert_eq!(ask(&mut slow, 3), (1, 0));
    slow.note_answered(1);
    assert_eq!(ask(&mut slow, 2), (0, 0));
    let mut quick = received(10, 10, 1, now);
    assert_eq!(ask(&mut quick, 1), (1, 10));
    // Those that were asked for ahead will do for processes that have come to wait.
    assert_eq!(ask(&mut quick, 9), (0, 8));
    quick.note_answered(usize::MAX);
    assert_eq!(ask(&mut quick, 2), (2, 10));
    assert!(quick.close().is_empty());
    assert_eq!(ask(&mut quick, 20), (0, 0));
}

#[test]
fn a_stale_job_goes_back_and_is_not_taken_much_later() {
    let now = Instant::now();
    let mut ahead = received(10, 10, 1, now);
    ahead.put(1, false, answer(1, 1), now);
    ahead.put(2, false, answer(2, 1), now + STALE / 2);
    assert_eq!(ahead.stale_at(), Some(now + STALE));
    assert_eq!(ahead.take_stale(now + STALE), [1]);
    assert_eq!(number_taken(&mut ahead, now + STALE * 3), None);
    assert_eq!(ahead.take_stale(now + STALE * 3), [2]);
    assert_eq!(ahead.stale_at(), None);
}

#[test]
fn a_job_is_ready_for_a_quarter_of_its_time_at_most() {
    let now = Instant::now();
    let mut with = options(10, 5);
    with.ack = Duration::from_millis(200);
    let mut ahead = Ahead::new(&with, now);
    ahead.put(1, false, answer(1, 1), now);
    assert_eq!(ahead.stale_at(), Some(now + Duration::from_millis(50)));
}

#[test]
fn jobs_become_ready_only_while_the_program_receives() {
    let now = Instant::now();
    assert_eq!(
        received(10, 0, 1, now).accept(false, now),
        Verdict::GiveBack
    );
    let mut ahead = received(10, 1, 1, now);
    assert_eq!(ahead.accept(false, now), Verdict::Keep);
    assert_eq!(ahead.accept(false, now + STALE), Verdict::GiveBack);
    assert_eq!(received(0, 1, 1, now).accept(false, now), Verdict::GiveBack);
    ahead.put(1, false, answer(1, 1), now);
    assert!(ahead.is_in_use(now));
    assert_eq!(ahead.close(), [1]);
    assert_eq!(ahead.accept(false, now), Verdict::GiveBack);
    assert_eq!(ahead.ask_ahead(now), 0);
    assert!(!ahead.is_in_use(now));
}

#[test]
fn a_last_try_is_made_alone() {
    let now = Instant::now();
    let mut ahead = received(10, 10, 1, now);
    ahead.put(1, false, answer(1, 1), now);
    ahead.put(2, false, answer(2, 1), now);
    assert_eq!(ahead.begin_alone(now), [1, 2]);
    assert_eq!(ahead.accept(true, now), Verdict::Keep);
    ahead.put(3, true, answer(3, 1), now);
    assert_eq!(ahead.accept(false, now), Verdict::GiveBack);
    assert!(ahead.begin_alone(now).is_empty());
    assert_eq!(ahead.accept(true, now), Verdict::GiveBack);
    assert_eq!(ahead.ask_ahead(now), 0);
    assert_eq!(number_taken(&mut ahead, now), Some(3));
    assert_eq!(ahead.accept(false, now), Verdict::GiveBack);
    ahead.note_received(&answer(0, 1), now + ALONE);
    assert_eq!(ahead.accept(false, now + ALONE), Verdict::Keep);
    assert_eq!(ahead.ask_ahead(now + ALONE), 1);
}

#[test]
fn what_has_one_try_is_not_fetched_ahead() {
    let now = Instant::now();
    let mut ahead = Ahead::new(&options(10, 1), now);
    ahead.note_received(&answer(0, 1), now);
    assert_eq!(ahead.ask_ahead(now), 0);
    assert_eq!(ahead.accept(true, now), Verdict::GiveBack);
}
