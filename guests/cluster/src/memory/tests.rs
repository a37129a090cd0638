//! Tests of the server in memory.

use super::{Faults, Memory};
use crate::{Answer, Command, End, Engine, Event, QueueOptions};
use std::time::Duration;

/// Takes what comes from the connections until nothing more happens, or a time.
fn run(all: &mut [&mut Memory], until: u64) -> Vec<(usize, Event)> {
    let mut events = Vec::new();
    while let Some(now) = all.iter().filter_map(|one| one.due()).min()
        && now <= until
    {
        for (number, one) in all.iter_mut().enumerate() {
            while let Some(event) = one.take(now) {
                events.push((number, event));
            }
        }
    }
    events
}

const SECOND: u64 = 1_000_000_000;

fn options(tries: u64, dead: Option<&str>) -> QueueOptions {
    QueueOptions {
        most: None,
        ack: Duration::from_secs(10),
        tries,
        dead: dead.map(str::to_owned),
        replicas: 1,
        prefetch: 0,
    }
}

fn send(one: &mut Memory, ticket: u64, id: Option<&str>) {
    let command = Command::Send {
        ticket,
        queue: "jobs".to_owned(),
        payload: ticket.to_string().into(),
        id: id.map(str::to_owned),
        delay: Duration::ZERO,
        patience: None,
    };
    one.submit(command, 0);
}

fn receive(one: &mut Memory, ticket: u64, queue: &str, now: u64) {
    let queue = queue.to_owned();
    let waits = true;
    one.submit(
        Command::Receive {
            ticket,
            queue,
            waits,
        },
        now,
    );
}

fn open(one: &mut Memory, ticket: u64, options: QueueOptions) {
    let name = "jobs".to_owned();
    one.submit(
        Command::OpenQueue {
            ticket,
            name,
            options,
        },
        0,
    );
}

fn job_of(events: &[(usize, Event)], wanted: u64) -> &Answer {
    let found = events.iter().find_map(|(_, event)| match event {
        Event::Answer { ticket, answer } if *ticket == wanted => answer.as_ref().ok(),
        _ => None,
    });
    found.unwrap_or_else(|| panic!("no answer to {wanted} in {events:?}"))
}

#[test]
fn a_second_job_with_the_same_id_is_dropped() {
    let mut one = Memory::connect("ids", Faults::none(), 1);
    open(&mut one, 1, options(5, None));
    send(&mut one, 2, Some("a"));
    send(&mut one, 3, Some("a"));
    receive(&mut one, 4, "jobs", 0);
    receive(&mut one, 5, "jobs", 0);
    let events = run(&mut [&mut one], SECOND);
    assert_eq!(job_of(&events, 4).payload.as_deref(), Some(&b"2"[..]));
    assert!(
        !events
            .iter()
            .any(|(_, event)| matches!(event, Event::Answer { ticket: 5, .. }))
    );
}

#[test]
fn a_job_that_is_tried_too_often_goes_to_the_dead() {
    let mut one = Memory::connect("dead", Faults::none(), 1);
    open(&mut one, 1, options(2, Some("dead")));
    send(&mut one, 2, None);
    for (ticket, tries) in [(3, 1), (4, 2)] {
        let now = ticket * SECOND;
        receive(&mut one, ticket, "jobs", now);
        let events = run(&mut [&mut one], now + SECOND / 2);
        let job = job_of(&events, ticket);
        assert_eq!(job.numbers[0], tries);
        let end = End::Retry(Duration::ZERO);
        let job = job.numbers[1];
        one.submit(Command::EndJob { job, end }, now + SECOND / 2);
    }
    receive(&mut one, 5, "dead", 5 * SECOND);
    let events = run(&mut [&mut one], 6 * SECOND);
    assert_eq!(job_of(&events, 5).why, "it was tried too often");
}

#[test]
fn a_job_of_a_connection_that_has_ended_comes_again() {
    let mut one = Memory::connect("gone", Faults::none(), 1);
    let mut other = Memory::connect("gone", Faults::none(), 2);
    open(&mut one, 1, options(5, None));
    send(&mut one, 2, None);
    receive(&mut other, 3, "jobs", SECOND);
    let events = run(&mut [&mut one, &mut other], 2 * SECOND);
    assert_eq!(job_of(&events, 3).numbers[0], 1);
    drop(other);
    receive(&mut one, 4, "jobs", 3 * SECOND);
    let events = run(&mut [&mut one], 20 * SECOND);
    assert_eq!(job_of(&events, 4).numbers[0], 2);
}

/// How many of a hundred messages come, and how often in all.
fn heard(faults: Faults, seed: u64) -> (usize, usize) {
    let name = format!("heard {seed} {faults:?} {:?}", std::thread::current().id());
    let mut one = Memory::connect(&name, faults, seed);
    let (subject, group) = ("news".to_owned(), None);
    one.submit(
        Command::Subscribe {
            ticket: 1,
            subject,
            group,
            most: 1000,
        },
        0,
    );
    run(&mut [&mut one], SECOND);
    for number in 0..100u8 {
        let (subject, payload) = ("news".to_owned(), vec![number].into());
        let now = SECOND + u64::from(number) * SECOND / 10;
        one.submit(Command::Publish { subject, payload }, now);
    }
    let mut payloads: Vec<u8> = run(&mut [&mut one], 100 * SECOND)
        .into_iter()
        .filter_map(|(_, event)| match event {
            Event::Message { payload, .. } => Some(payload[0]),
            _ => None,
        })
        .collect();
    let all = payloads.len();
    payloads.dedup();
    (payloads.len(), all)
}

#[test]
fn messages_are_lost_and_come_twice_by_the_seed() {
    assert_eq!(heard(Faults::none(), 3), (100, 100));
    let lossy = Faults {
        loss: 0.2,
        ..Faults::none()
    };
    let (some, all) = heard(lossy, 3);
    assert!(some < 90 && all == some, "{some} {all}");
    assert_eq!(heard(lossy, 3), (some, all));
    let double = Faults {
        duplication: 0.3,
        ..Faults::none()
    };
    let (some, all) = heard(double, 3);
    assert!(some == 100 && all > 110, "{some} {all}");
    let cut = Faults {
        every: 2 * SECOND,
        lasts: SECOND,
        ..Faults::none()
    };
    let (some, _) = heard(cut, 3);
    assert!((25..75).contains(&some), "{some}");
}
