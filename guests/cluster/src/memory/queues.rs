//! Durable queues.

use super::server::{Server, Step, nanoseconds};
use super::stored::{ClientId, Holder, Queue};
use crate::command::{End, QueueOptions, Ticket};
use crate::event::Answer;
use bytes::Bytes;
use std::time::Duration;

/// For how long a second job with the same id is dropped, in nanoseconds.
const DUPLICATES: u64 = 120_000_000_000;

/// The delay before a job is stored again that found the queue full, in nanoseconds.
const RETRY: u64 = 10_000_000;

impl Server {
    pub(super) fn open_queue(
        &mut self,
        client: ClientId,
        ticket: Ticket,
        name: String,
        options: QueueOptions,
    ) {
        let dead = options.dead.clone();
        let there = self.queues.get(&name).and_then(|queue| queue.options.most);
        let is_there = self.queues.contains_key(&name);
        if is_there && options.most.is_some() && options.most != there {
            let there = there.map_or("no limit".to_owned(), |most| most.to_string());
            let why = format!("the queue '{name}' is there with max = {there}; open it with that");
            return self.answer(client, ticket, Err(why));
        }
        let queue = self
            .queues
            .entry(name)
            .or_insert_with(|| Queue::new(options.clone()));
        queue.options = QueueOptions {
            most: queue.options.most,
            ..options.clone()
        };
        if let Some(dead) = dead {
            let options = QueueOptions {
                most: None,
                dead: None,
                ..options
            };
            self.queues
                .entry(dead)
                .or_insert_with(|| Queue::new(options));
        }
        self.answer(client, ticket, Ok(Answer::default()));
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of one command")]
    pub(super) fn store(
        &mut self,
        client: ClientId,
        ticket: Ticket,
        name: &str,
        payload: Bytes,
        id: Option<String>,
        due: u64,
        until: Option<u64>,
    ) {
        let now = self.now;
        let Some(queue) = self.queues.get_mut(name) else {
            return self.answer(client, ticket, Err("the queue is not open".to_owned()));
        };
        let is_known = |at: &u64| at.saturating_add(DUPLICATES) > now;
        if id
            .as_ref()
            .is_some_and(|id| queue.ids.get(id).is_some_and(is_known))
        {
            return self.answer(client, ticket, Ok(Answer::default()));
        }
        let is_full = |most: u64| u64::try_from(queue.jobs.len()).unwrap_or(u64::MAX) >= most;
        if queue.options.most.is_some_and(is_full) {
            if until.is_some_and(|until| until <= now) {
                return self.answer(client, ticket, Err("full".to_owned()));
            }
            let again = crate::Command::Send {
                ticket,
                queue: name.to_owned(),
                payload,
                id,
                delay: Duration::from_nanos(due.saturating_sub(now + RETRY)),
                patience: until
                    .map(|until| Duration::from_nanos(until.saturating_sub(now + RETRY))),
            };
            return self.plan(now + RETRY, Step::Arrive(client, again));
        }
        if let Some(id) = id {
            queue.ids.insert(id, now);
        }
        queue.add(payload, String::new(), due);
        self.answer(client, ticket, Ok(Answer::default()));
        self.plan(due.max(now), Step::Due(name.to_owned()));
    }

    pub(super) fn receive(&mut self, client: ClientId, ticket: Ticket, name: &str, waits: bool) {
        let now = self.now;
        let Some(queue) = self.queues.get_mut(name) else {
            return self.answer(client, ticket, Err("the queue is not open".to_owned()));
        };
        if !waits && queue.first_ready(now).is_none() {
            return self.answer(client, ticket, Err("timeout".to_owned()));
        }
        queue.waiting.push_back((client, ticket));
        self.dispatch(name);
    }

    /// Gives jobs to those that wait.
    pub(super) fn dispatch(&mut self, name: &str) {
        let now = self.now;
        while let Some(queue) = self.queues.get_mut(name)
            && let Some(number) = queue.first_ready(now)
        {
            let Some(job) = queue.jobs.get_mut(&number) else {
                return;
            };
            if job.tries >= queue.options.tries {
                self.bury(name, number, "it was tried too often");
                continue;
            }
            let Some((client, ticket)) = queue.waiting.pop_front() else {
                return;
            };
            job.tries += 1;
            job.delivery += 1;
            let delivery = job.delivery;
            let until = now.saturating_add(nanoseconds(queue.options.ack));
            self.give(name, number, client, ticket);
            self.plan(
                until,
                Step::Expire {
                    queue: name.to_owned(),
                    job: number,
                    delivery,
                },
            );
        }
    }

    fn give(&mut self, name: &str, number: u64, client: ClientId, ticket: Ticket) {
        let is_lost = !self.reaches(client) || self.loses(client);
        let given = self.next_number();
        let Some(job) = self
            .queues
            .get_mut(name)
            .and_then(|queue| queue.jobs.get_mut(&number))
        else {
            return;
        };
        job.holder = Some(Holder {
            client,
            number: given,
            is_lost,
        });
        let answer = Answer {
            payload: Some(job.payload.clone()),
            why: job.why.clone(),
            numbers: [job.tries, given],
        };
        if is_lost {
            // The client still waits.
            if let Some(queue) = self.queues.get_mut(name) {
                queue.waiting.push_front((client, ticket));
            }
        } else {
            self.answer(client, ticket, Ok(answer));
        }
    }

    pub(super) fn expire(&mut self, name: &str, number: u64, delivery: u64) {
        let Some(queue) = self.queues.get(name) else {
            return;
        };
        let Some(job) = queue
            .jobs
            .get(&number)
            .filter(|job| job.delivery == delivery)
        else {
            return;
        };
        let Some(holder) = &job.holder else { return };
        if !holder.is_lost && self.reaches(holder.client) {
            let until = self.now.saturating_add(nanoseconds(queue.options.ack));
            let queue = name.to_owned();
            let job = number;
            return self.plan(
                until,
                Step::Expire {
                    queue,
                    job,
                    delivery,
                },
            );
        }
        self.put_back(name, number, 0);
    }

    fn put_back(&mut self, name: &str, number: u64, delay: u64) {
        let due = self.now.saturating_add(delay);
        if let Some(queue) = self.queues.get_mut(name)
            && let Some(job) = queue.jobs.get_mut(&number)
        {
            job.holder = None;
            job.due = due;
            self.plan(due, Step::Due(name.to_owned()));
        }
    }

    pub(super) fn end_job(&mut self, client: ClientId, given: u64, end: End) {
        let held = self.queues.iter().find_map(|(name, queue)| {
            let mut jobs = queue.jobs.iter();
            let (number, job) = jobs.find(|(_, job)| {
                let holder = job.holder.as_ref();
                holder.is_some_and(|holder| (holder.client, holder.number) == (client, given))
            })?;
            Some((name.clone(), *number, job.tries >= queue.options.tries))
        });
        let Some((name, number, is_last)) = held else {
            return;
        };
        match end {
            End::Done => {
                if let Some(queue) = self.queues.get_mut(&name) {
                    queue.jobs.remove(&number);
                }
            }
            End::Retry(_) if is_last => self.bury(&name, number, "it was tried too often"),
            End::Retry(delay) => self.put_back(&name, number, nanoseconds(delay)),
            End::Untried => {
                let queue = self.queues.get_mut(&name);
                if let Some(job) = queue.and_then(|queue| queue.jobs.get_mut(&number)) {
                    job.tries -= 1;
                }
                self.put_back(&name, number, 0);
            }
            End::Reject(why) => self.bury(&name, number, &why),
        }
    }

    fn bury(&mut self, name: &str, number: u64, why: &str) {
        let now = self.now;
        let Some(queue) = self.queues.get_mut(name) else {
            return;
        };
        let Some(job) = queue.jobs.remove(&number) else {
            return;
        };
        let Some(dead) = queue.options.dead.clone() else {
            return;
        };
        if let Some(queue) = self.queues.get_mut(&dead) {
            queue.add(job.payload, why.to_owned(), now);
            self.plan(now, Step::Due(dead));
        }
    }
}
