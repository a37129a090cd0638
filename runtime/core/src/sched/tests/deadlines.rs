//! The heap of deadlines, compared with the simplest possible implementation.

use super::random_numbers::Random;
use super::{at, length, sched};
use crate::sched::SpawnOptions;
use crate::sched::time::deadlines::{Deadlines, Owner};

/// Deadlines as a list: owner, time and sequence number.
#[derive(Default)]
struct Plain {
    set: Vec<(u64, u64, Owner)>,
    sequence: u64,
}

impl Plain {
    fn set(&mut self, owner: Owner, at: u64) {
        self.cancel(owner);
        self.sequence += 1;
        self.set.push((at, self.sequence, owner));
    }

    fn cancel(&mut self, owner: Owner) -> bool {
        let before = self.set.len();
        self.set.retain(|entry| entry.2 != owner);
        self.set.len() < before
    }

    fn take_due(&mut self, now: u64) -> Option<(Owner, u64)> {
        let (at, sequence, owner) = *self.set.iter().min_by_key(|entry| (entry.0, entry.1))?;
        if at > now {
            return None;
        }
        self.set.retain(|entry| entry.1 != sequence);
        Some((owner, at))
    }
}

fn any_owner(random: &mut Random) -> Owner {
    let index = random.below(40) as u32;
    match random.below(3) {
        0 => Owner::Process(index),
        1 => Owner::Timer(index),
        _ => Owner::Safepoint(index),
    }
}

#[test]
fn random_deadlines_come_in_order_and_can_be_moved_and_cancelled() {
    let mut random = Random::new(11);
    let mut plain = Plain::default();
    let mut heap = Deadlines::new();
    let mut now = 0;
    for _ in 0..length(20_000, 100) {
        let owner = any_owner(&mut random);
        match random.below(4) {
            0 | 1 => {
                let at = now + random.below(50);
                plain.set(owner, at);
                heap.set(owner, at);
            }
            2 => assert_eq!(heap.cancel(owner), plain.cancel(owner)),
            _ => {
                now += random.below(10);
                let (due, expected) = (heap.take_due(now), plain.take_due(now));
                assert_eq!(due, expected);
            }
        }
        heap.check();
        assert_eq!(heap.earliest(), plain.set.iter().map(|entry| entry.0).min());
        assert_eq!(heap.is_empty(), plain.set.is_empty());
    }
}

/// Without memory for larger tables, what was freed must be enough for what comes next.
#[test]
fn room_for_one_more_is_there_once_a_process_or_a_timer_was_freed() {
    let mut sched = sched();
    let mut all = Vec::new();
    while all.len() < 10 || all.len() < sched.deadlines.room() {
        assert!(sched.make_room());
        let prepared = sched.spawn_prepared(SpawnOptions::default(), ());
        let prepared = prepared.expect("the limit is far");
        all.push((prepared, sched.timer_new(at(5), None, prepared)));
    }
    let full = sched.deadlines.room();
    let (process, timer) = all.pop().expect("there are some");
    assert_eq!(sched.timer_cancel(timer), Some(process));
    sched.timer_free(timer);
    sched.forget(process);
    assert!(sched.make_room());
    assert_eq!(sched.deadlines.room(), full);
}
