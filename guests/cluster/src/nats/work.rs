//! Queues that this program has opened, and jobs that it holds.

use super::ahead::Ahead;
use super::ends::Ends;
use crate::command::{QueueOptions, Ticket};
use crate::mutex::Mutex;
use async_nats::{Client, Message};
use bytes::Bytes;
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Headers of jobs: when a delayed job is due, in milliseconds since 1970; and why a job is dead.
pub(super) const DUE: &str = "Baton-Due";
pub(super) const WHY: &str = "Baton-Why";

/// A header of jobs that were stored again: how often they were tried before.
pub(super) const TRIES: &str = "Baton-Tries";

/// The consumer of each queue.
pub(super) const CONSUMER: &str = "workers";

/// A queue that this program has opened.
pub(super) struct OpenQueue {
    pub(super) name: String,
    pub(super) options: QueueOptions,
    /// Where the replies to pull requests go.
    pub(super) inbox: String,
    pub(super) waiting: RefCell<VecDeque<Ticket>>,
    /// The jobs that are fetched ahead.
    pub(super) ahead: Arc<Mutex<Ahead>>,
    pub(super) ends: RefCell<Ends>,
    pub(super) is_closing: Cell<bool>,
}

impl OpenQueue {
    pub(super) fn new(name: String, options: QueueOptions, client: &Client) -> OpenQueue {
        let now = Instant::now();
        let ahead = Ahead::new(&options, now);
        OpenQueue {
            name,
            options,
            inbox: client.new_inbox(),
            waiting: RefCell::default(),
            ahead: Arc::new(Mutex::new(ahead)),
            ends: RefCell::new(Ends::new(now)),
            is_closing: Cell::new(false),
        }
    }

    pub(super) fn subject_of(name: &str) -> String {
        format!("baton.queue.{name}")
    }

    pub(super) fn stream_of(name: &str) -> String {
        format!("BATON_QUEUE_{name}")
    }

    pub(super) fn next_subject(&self) -> String {
        let stream = OpenQueue::stream_of(&self.name);
        format!("$JS.API.CONSUMER.MSG.NEXT.{stream}.{CONSUMER}")
    }

    pub(super) fn stop_waiting(&self, ticket: Ticket) {
        self.waiting.borrow_mut().retain(|other| *other != ticket);
    }
}

#[derive(Default)]
pub(super) struct Jobs {
    pub(super) held: HashMap<u64, Rc<HeldJob>>,
    /// The number of the last job.
    pub(super) last: u64,
}

/// A job as it was delivered.
pub(super) struct HeldJob {
    pub(super) queue: Rc<OpenQueue>,
    /// Where its acknowledgement goes.
    pub(super) reply: String,
    pub(super) payload: Bytes,
    pub(super) tries: u64,
    /// Of a dead one: why.
    pub(super) why: String,
    /// For how long it must still be kept back.
    pub(super) rest: Option<Duration>,
}

impl HeldJob {
    /// Reads a message of a stream. `None`: it is none.
    pub(super) fn of(queue: &Rc<OpenQueue>, message: Message) -> Option<HeldJob> {
        let reply = message.reply?.to_string();
        let (tries, _) = counts(&reply)?;
        let header = |name| {
            let headers = message.headers.as_ref()?;
            Some(headers.get(name)?.as_str().to_owned())
        };
        let due: Option<u64> = header(DUE).and_then(|due| due.parse().ok());
        let before: u64 = header(TRIES)
            .and_then(|tries| tries.parse().ok())
            .unwrap_or(0);
        let rest = due.and_then(|due| due.checked_sub(milliseconds_now()));
        Some(HeldJob {
            queue: Rc::clone(queue),
            reply,
            payload: message.payload,
            // A job that came too early was given back once.
            tries: before + tries.saturating_sub(u64::from(due.is_some())).max(1),
            why: header(WHY).unwrap_or_default(),
            rest: rest.filter(|rest| *rest > 0).map(Duration::from_millis),
        })
    }
}

impl HeldJob {
    /// Its number in the stream.
    pub(super) fn sequence(&self) -> &str {
        counts(&self.reply).map_or("", |(_, sequence)| sequence)
    }
}

/// How often the message was delivered, and its number in the stream, from where its
/// acknowledgement goes. `$JS.ACK` is followed by a domain and an account in newer servers.
fn counts(reply: &str) -> Option<(u64, &str)> {
    let reply = reply.strip_prefix("$JS.ACK.")?;
    let before = match reply.split('.').count() {
        7 => 2,
        9.. => 4,
        _ => return None,
    };
    let mut words = reply.split('.').skip(before);
    Some((words.next()?.parse().ok()?, words.next()?))
}

/// When a job is due that is kept back for a time, in milliseconds since 1970.
pub(super) fn due_after(delay: Duration) -> Option<u64> {
    let delay = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
    (delay > 0).then(|| milliseconds_now().saturating_add(delay))
}

pub(super) fn milliseconds_now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| u64::try_from(now.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::counts;

    #[test]
    fn counts_are_found_in_the_replies_of_old_and_new_servers() {
        let found = Some((3, "17"));
        assert_eq!(counts("$JS.ACK.s.c.3.17.5.1.0"), found);
        assert_eq!(counts("$JS.ACK._.hash.s.c.3.17.5.1.0.x"), found);
        assert_eq!(counts("_INBOX.a.b"), None);
        assert_eq!(counts(""), None);
    }
}
