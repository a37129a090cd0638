//! The jobs that this program holds. While it holds one, it tells the server so, again and again.

use super::queues::Queue;
use super::requests::ATTEMPT;
use super::sending::headers;
use super::session::Session;
use crate::command::End;
use async_nats::Message;
use bytes::Bytes;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Headers of jobs: when a delayed job is due, in milliseconds since 1970; and why a job is dead.
pub(super) const DUE: &str = "Baton-Due";
pub(super) const WHY: &str = "Baton-Why";

/// The delay before a job comes again whose end could not be stored.
const AGAIN: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(super) struct Jobs {
    held: HashMap<u64, Rc<Job>>,
    /// The number of the last job.
    last: u64,
}

/// A job as it was delivered.
pub(super) struct Job {
    pub(super) queue: Rc<Queue>,
    /// Where its acknowledgement goes.
    reply: String,
    pub(super) payload: Bytes,
    pub(super) tries: u64,
    /// Of a dead one: why.
    pub(super) why: String,
    /// Its number in the stream.
    sequence: String,
    /// For how long it must still be kept back.
    pub(super) rest: Option<Duration>,
}

impl Job {
    /// Reads a message of a stream. `None`: it is none.
    pub(super) fn of(queue: &Rc<Queue>, message: Message) -> Option<Job> {
        let reply = message.reply?.to_string();
        let (tries, sequence) = counts(&reply)?;
        let header = |name| {
            let headers = message.headers.as_ref()?;
            Some(headers.get(name)?.as_str().to_owned())
        };
        let due: Option<u64> = header(DUE).and_then(|due| due.parse().ok());
        let rest = due.and_then(|due| due.checked_sub(milliseconds_now()));
        Some(Job {
            queue: Rc::clone(queue),
            reply,
            payload: message.payload,
            // A job that came too early was given back once.
            tries: if due.is_some() {
                tries.saturating_sub(1).max(1)
            } else {
                tries
            },
            why: header(WHY).unwrap_or_default(),
            sequence,
            rest: rest.filter(|rest| *rest > 0).map(Duration::from_millis),
        })
    }
}

/// How often the message was delivered, and its number in the stream, from where its
/// acknowledgement goes. `$JS.ACK` is followed by a domain and an account in newer servers.
fn counts(reply: &str) -> Option<(u64, String)> {
    let words: Vec<&str> = reply.split('.').collect();
    let first = match (words.get(..2)?, words.len()) {
        (["$JS", "ACK"], 9) => 4,
        (["$JS", "ACK"], 11..) => 6,
        _ => return None,
    };
    Some((words[first].parse().ok()?, words[first + 1].to_owned()))
}

pub(super) fn milliseconds_now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| u64::try_from(now.as_millis()).unwrap_or(u64::MAX))
}

impl Session {
    /// Holds a job. Returns its number for the guest.
    pub(super) fn hold(&self, job: Rc<Job>) -> u64 {
        let mut jobs = self.jobs.borrow_mut();
        jobs.last += 1;
        let number = jobs.last;
        jobs.held.insert(number, job);
        number
    }

    /// Tells the server of a queue which jobs are still held.
    pub(super) fn extend(&self, queue: &Rc<Queue>) {
        for job in self.jobs.borrow().held.values() {
            if Rc::ptr_eq(&job.queue, queue) {
                self.acknowledge(job, "+WPI");
            }
        }
    }

    fn acknowledge(&self, job: &Job, with: impl Into<String>) {
        let payload = Bytes::from(with.into());
        self.sender.publish(job.reply.clone(), payload, None);
    }

    pub(super) fn put_back(&self, job: &Job, delay: Duration) {
        let delay = delay.as_nanos();
        self.acknowledge(job, format!("-NAK {{\"delay\": {delay}}}"));
    }

    pub(super) fn end_job(self: &Rc<Self>, number: u64, end: End) {
        let Some(job) = self.jobs.borrow_mut().held.remove(&number) else {
            return;
        };
        match end {
            End::Done => self.acknowledge(&job, "+ACK"),
            End::Retry(_) if job.tries >= job.queue.options.tries => {
                self.bury(job, "it was tried too often".to_owned());
            }
            End::Retry(delay) => self.put_back(&job, delay),
            End::Reject(why) => self.bury(job, why),
        }
    }

    /// Moves a job to the queue of dead ones. It is removed once it is stored there.
    pub(super) fn bury(self: &Rc<Self>, job: Rc<Job>, why: String) {
        let Some(dead) = job.queue.options.dead.clone() else {
            return self.acknowledge(&job, "+TERM");
        };
        let session = Rc::clone(self);
        self.spawn_detached(async move {
            // One line: a header has no more.
            let why: String = why
                .chars()
                .map(|c| if c.is_control() { ' ' } else { c })
                .collect();
            let id = format!("dead {} {}", job.queue.name, job.sequence);
            let with = headers(&[(WHY, &why), ("Nats-Msg-Id", &id)]);
            let subject = Queue::subject_of(&dead);
            let stored = session
                .store(subject, with, job.payload.clone(), ATTEMPT)
                .await;
            match stored {
                Ok(_) => session.acknowledge(&job, "+TERM"),
                Err(_) => session.put_back(&job, AGAIN),
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::counts;

    #[test]
    fn counts_are_found_in_the_replies_of_old_and_new_servers() {
        let found = Some((3, "17".to_owned()));
        assert_eq!(counts("$JS.ACK.s.c.3.17.5.1.0"), found);
        assert_eq!(counts("$JS.ACK._.hash.s.c.3.17.5.1.0.x"), found);
        assert_eq!(counts("_INBOX.a.b"), None);
        assert_eq!(counts(""), None);
    }
}
