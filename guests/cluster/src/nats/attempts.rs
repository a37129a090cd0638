//! What is being stored, and the acknowledgements that have not come: `storing` carries it out.

use super::Weight;
use super::clients::{Clients, Feed};
use super::failure::Failure;
use super::work::OpenQueue;
use crate::command::Ticket;
use async_nats::{Client, Message};
use bytes::Bytes;
use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::sync::{Notify, oneshot};

/// The numbers of attempts that are no commands of the guest. Tickets are smaller.
const OWN: u64 = 1 << 63;

/// A job to send.
pub(super) struct JobToSend {
    pub(super) ticket: Ticket,
    pub(super) queue: String,
    pub(super) payload: Bytes,
    pub(super) id: String,
    /// When it is due, in milliseconds since 1970.
    pub(super) due: Option<u64>,
    /// When to give up.
    pub(super) end: Option<Instant>,
    /// The delay before it is tried again.
    pub(super) pause: Duration,
    pub(super) _weight: Weight,
}

/// What becomes of an attempt's result.
pub(super) enum Then {
    /// The guest gets the answer, or the job is tried again.
    Send(JobToSend),
    Tell(oneshot::Sender<Result<(), Failure>>),
    /// The ends of a queue's jobs are handled, up to this number.
    Handled(Rc<OpenQueue>, u64),
}

/// The attempts whose acknowledgements have not come.
pub(super) struct Attempts {
    /// Where acknowledgements come to, up to the number.
    inbox: String,
    pending: RefCell<Pending>,
    /// Wakes the task when an attempt has the first deadline.
    sooner: Notify,
}

#[derive(Default)]
struct Pending {
    attempts: HashMap<u64, (Instant, Then)>,
    deadlines: BTreeSet<(Instant, u64)>,
    last: u64,
}

impl Pending {
    fn take(&mut self, number: u64) -> Option<Then> {
        let (deadline, then) = self.attempts.remove(&number)?;
        self.deadlines.remove(&(deadline, number));
        Some(then)
    }
}

impl Attempts {
    pub(super) fn new(client: &Client) -> Attempts {
        Attempts {
            inbox: format!("{}.", client.new_inbox()),
            pending: RefCell::default(),
            sooner: Notify::new(),
        }
    }

    pub(super) async fn subscribe(&self, clients: &Rc<Clients>) -> Result<Feed, String> {
        let all = format!("{}*", self.inbox);
        let feed = Feed::new(clients, all, None).await;
        feed.map_err(|why| why.to_string())
    }

    /// The number of an attempt that is no command of the guest.
    pub(super) fn new_number(&self) -> u64 {
        let mut pending = self.pending.borrow_mut();
        pending.last += 1;
        OWN | pending.last
    }

    /// Where the acknowledgement of an attempt comes to.
    pub(super) fn reply_of(&self, number: u64) -> String {
        format!("{}{number}", self.inbox)
    }

    /// Waits until an attempt has an earlier deadline than all others.
    pub(super) async fn is_sooner(&self) {
        self.sooner.notified().await;
    }

    /// Nobody waits for a job's answer any more.
    pub(super) fn forget(&self, ticket: Ticket) {
        drop(self.pending.borrow_mut().take(ticket));
    }

    pub(super) fn begin(&self, number: u64, patience: Duration, then: Then) {
        let mut pending = self.pending.borrow_mut();
        let deadline = Instant::now() + patience;
        if pending
            .deadlines
            .first()
            .is_none_or(|first| deadline < first.0)
        {
            self.sooner.notify_one();
        }
        pending.deadlines.insert((deadline, number));
        pending.attempts.insert(number, (deadline, then));
    }

    pub(super) fn first_deadline(&self) -> Option<Instant> {
        let pending = self.pending.borrow();
        pending.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// The attempts with a deadline up to a time.
    pub(super) fn take_late(&self, now: Instant) -> Vec<Then> {
        let mut pending = self.pending.borrow_mut();
        let late = pending.deadlines.range(..=(now, u64::MAX));
        let late: Vec<u64> = late.map(|(_, number)| *number).collect();
        let taken = late.into_iter().map(|number| pending.take(number));
        taken.flatten().collect()
    }

    pub(super) fn take_all(&self) -> Vec<Then> {
        let pending = &mut *self.pending.borrow_mut();
        pending.deadlines.clear();
        pending
            .attempts
            .drain()
            .map(|(_, (_, then))| then)
            .collect()
    }

    pub(super) fn take_answered(&self, reply: &Message) -> Option<Then> {
        let number = reply.subject.get(self.inbox.len()..)?.parse().ok()?;
        self.pending.borrow_mut().take(number)
    }
}

impl JobToSend {
    /// For how long it may still be tried. `None`: until it is stored.
    pub(super) fn rest(&self) -> Option<Duration> {
        let end = self.end?;
        Some(end.saturating_duration_since(Instant::now()))
    }
}
