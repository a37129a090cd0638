//! Wait queues, compared with the simplest possible implementation.

use super::length;
use super::random_numbers::Random;
use crate::sched::slab::NIL;
use crate::sched::wait::waiters::{Kind, Ticket, Waiters};

/// A queue as a list of priorities and nodes, in order.
#[derive(Default)]
struct Plain(Vec<(u8, u32)>);

impl Plain {
    fn enter(&mut self, priority: u8, node: u32) {
        let place = self
            .0
            .iter()
            .position(|entry| entry.0 < priority)
            .unwrap_or(self.0.len());
        self.0.insert(place, (priority, node));
    }

    fn leave(&mut self, node: u32) {
        self.0.retain(|entry| entry.1 != node);
    }
}

fn check(waiters: &Waiters, queue: crate::sched::wait::waiters::WaitQueue, plain: &Plain) {
    assert_eq!(waiters.check(queue), plain.0.len());
    let values: Vec<_> = waiters.iter(queue).map(|node| node.process).collect();
    let expected: Vec<_> = plain
        .0
        .iter()
        .map(|entry| waiters.node(entry.1).process)
        .collect();
    assert_eq!(values, expected);
    assert_eq!(waiters.first(queue), plain.0.first().map(|entry| entry.1));
    assert_eq!(waiters.is_empty(queue), plain.0.is_empty());
}

#[test]
fn random_waiters_stay_in_the_order_of_priority_and_arrival() {
    let mut random = Random::new(5);
    let mut waiters = Waiters::new();
    let queues = [waiters.make_queue(), waiters.make_queue()];
    let mut plain = [Plain::default(), Plain::default()];
    for turn in 0..length(20_000, 100) {
        let which = random.below(2) as usize;
        let priority = 38 + random.below(5) as u8;
        let nodes: Vec<u32> = plain[which].0.iter().map(|entry| entry.1).collect();
        match (random.below(5), random.pick(&nodes)) {
            (0..=1, _) if nodes.len() < 30 => {
                let ticket = Ticket::new(Kind::Queue, 0);
                let node = waiters.enter(queues[which], turn, NIL, priority, ticket);
                plain[which].enter(priority, node);
            }
            (2, Some(node)) => {
                waiters.requeue(node, priority);
                plain[which].leave(node);
                plain[which].enter(priority, node);
            }
            (_, Some(node)) => {
                waiters.leave(node);
                plain[which].leave(node);
            }
            _ => {}
        }
        check(&waiters, queues[which], &plain[which]);
    }
}
