//! Stores messages in streams, and takes the acknowledgements.
//!
//! All acknowledgements of a connection come to one inbox, to a subject with the number of the
//! attempt. One task takes them (`Session::await_stored`), and no attempt has a task or a timer of
//! its own. So a message that is stored costs a place in a map.
//!
//! | an attempt ends by | its result |
//! |---|---|
//! | an acknowledgement | stored |
//! | an answer with an error | refused, or nobody listens |
//! | its deadline | timed out |
//! | a change of the connection | offline |
//! | `Session::cancel` | none: nobody waits for it |
//!
//! A job that was not stored is tried again with the same id, so a lost acknowledgement does not
//! store it twice.

use super::Weight;
use super::queues::RETRIES;
use super::receiving::at;
use super::requests::{ATTEMPT, Failure, STORE_FAILED, parse};
use super::sending::headers;
use super::state::Session;
use super::work::{DUE, OpenQueue};
use crate::command::Ticket;
use crate::event::{Answer, Event};
use async_nats::{Client, HeaderMap, Message, StatusCode, Subscriber};
use bytes::Bytes;
use futures_util::{FutureExt, StreamExt};
use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::sync::{Notify, oneshot};

/// JetStream's code for a server that has only just started.
const NOT_READY: u64 = 10008;

/// The numbers of attempts that are no commands of the guest. Tickets are smaller.
const OWN: u64 = 1 << 63;

/// How the acknowledgement of a stored message begins.
const STORED: &[u8] = b"{\"stream\":";

/// A job to send.
pub(super) struct Job {
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
enum Then {
    /// The guest gets the answer, or the job is tried again.
    Send(Job),
    Tell(oneshot::Sender<Result<(), Failure>>),
}

/// The attempts whose acknowledgements have not come.
pub(super) struct Storing {
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

impl Storing {
    pub(super) fn new(client: &Client) -> Storing {
        Storing {
            inbox: format!("{}.", client.new_inbox()),
            pending: RefCell::default(),
            sooner: Notify::new(),
        }
    }

    pub(super) async fn subscribe(&self, client: &Client) -> Result<Subscriber, String> {
        let all = format!("{}*", self.inbox);
        client.subscribe(all).await.map_err(|why| why.to_string())
    }

    /// Nobody waits for a job's answer any more.
    pub(super) fn forget(&self, ticket: Ticket) {
        drop(self.pending.borrow_mut().take(ticket));
    }

    fn begin(&self, number: u64, patience: Duration, then: Then) {
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

    fn first_deadline(&self) -> Option<Instant> {
        let pending = self.pending.borrow();
        pending.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// The attempts with a deadline up to a time.
    fn take_late(&self, now: Instant) -> Vec<Then> {
        let mut pending = self.pending.borrow_mut();
        let late = pending.deadlines.range(..=(now, u64::MAX));
        let late: Vec<u64> = late.map(|(_, number)| *number).collect();
        let taken = late.into_iter().map(|number| pending.take(number));
        taken.flatten().collect()
    }

    fn take_all(&self) -> Vec<Then> {
        let pending = &mut *self.pending.borrow_mut();
        pending.deadlines.clear();
        pending
            .attempts
            .drain()
            .map(|(_, (_, then))| then)
            .collect()
    }

    fn take_answered(&self, reply: &Message) -> Option<Then> {
        let number = reply.subject.get(self.inbox.len()..)?.parse().ok()?;
        self.pending.borrow_mut().take(number)
    }
}

impl Session {
    /// Stores a message in a stream.
    pub(super) async fn store(
        &self,
        subject: String,
        headers: HeaderMap,
        payload: Bytes,
        patience: Duration,
    ) -> Result<(), Failure> {
        if !*self.online.borrow() {
            return Err(Failure::Offline);
        }
        let (tell, told) = oneshot::channel();
        let number = {
            let mut pending = self.storing.pending.borrow_mut();
            pending.last += 1;
            OWN | pending.last
        };
        self.storing.begin(number, patience, Then::Tell(tell));
        self.publish_attempt(number, subject, headers, payload);
        told.await.unwrap_or(Err(Failure::Offline))
    }

    fn publish_attempt(&self, number: u64, subject: String, headers: HeaderMap, payload: Bytes) {
        let reply = format!("{}{number}", self.storing.inbox);
        self.sender.store(subject, reply, headers, payload);
    }

    /// Stores a job. All attempts have the same id, so it is stored once.
    pub(super) fn send(self: &Rc<Self>, job: Job) {
        if !*self.online.borrow() {
            return self.try_again(job, Failure::Offline);
        }
        let rest = job.rest();
        // Without patience there is one attempt, which waits for its answer.
        let patience = ATTEMPT.min(rest.filter(|rest| !rest.is_zero()).unwrap_or(Duration::MAX));
        let mut with = headers(&[("Nats-Msg-Id", &job.id)]);
        if let Some(due) = job.due {
            with.insert(DUE, due.to_string());
        }
        let (number, payload) = (job.ticket, job.payload.clone());
        let subject = OpenQueue::subject_of(&job.queue);
        self.storing.begin(number, patience, Then::Send(job));
        self.publish_attempt(number, subject, with, payload);
    }

    /// Takes acknowledgements until the connection ends.
    pub(super) async fn await_stored(self: Rc<Self>, mut replies: Subscriber) {
        let mut online = self.online.clone();
        loop {
            let deadline = self.storing.first_deadline();
            tokio::select! {
                reply = replies.next() => {
                    let Some(reply) = reply else { return };
                    let mut answers = Vec::new();
                    self.take_stored(&reply, &mut answers);
                    while let Some(Some(reply)) = replies.next().now_or_never() {
                        self.take_stored(&reply, &mut answers);
                    }
                    self.shared.events.put_all(answers);
                }
                _ = online.changed() => {
                    for then in self.storing.take_all() {
                        self.end_attempt(then, Err(Failure::Offline));
                    }
                }
                () = at(deadline) => {
                    for then in self.storing.take_late(Instant::now()) {
                        self.end_attempt(then, Err(Failure::TimedOut));
                    }
                }
                () = self.storing.sooner.notified() => {}
            }
        }
    }

    /// Takes one acknowledgement. The answer of a job that is stored goes to the list.
    fn take_stored(self: &Rc<Self>, reply: &Message, answers: &mut Vec<Event>) {
        let Some(then) = self.storing.take_answered(reply) else {
            return;
        };
        match (then, result(reply)) {
            (Then::Send(Job { ticket, .. }), Ok(())) => {
                let answer = Ok(Answer::default());
                answers.push(Event::Answer { ticket, answer });
            }
            (then, result) => self.end_attempt(then, result),
        }
    }

    fn end_attempt(self: &Rc<Self>, then: Then, result: Result<(), Failure>) {
        match (then, result) {
            // Nobody may wait for it.
            (Then::Tell(tell), result) => drop(tell.send(result)),
            (Then::Send(job), Ok(())) => self.answer(job.ticket, Ok(Answer::default())),
            (Then::Send(job), Err(why)) => self.try_again(job, why),
        }
    }

    /// Tries a job again after a delay, or when the server can be reached. Gives up if there is no
    /// time for that, or if it will not help.
    fn try_again(self: &Rc<Self>, mut job: Job, why: Failure) {
        let why = match why {
            Failure::Refused(STORE_FAILED, why) if why.contains("maximum") => "full",
            Failure::Offline | Failure::NoResponders | Failure::Refused(NOT_READY, _) => "offline",
            Failure::TimedOut => "timeout",
            why => return self.answer(job.ticket, Err(why.text())),
        };
        let rest = job.rest();
        if rest.is_some_and(|rest| rest.is_zero()) {
            return self.answer(job.ticket, Err(why.to_owned()));
        }
        let pause = job.pause.min(rest.unwrap_or(Duration::MAX));
        job.pause = (job.pause * 2).min(RETRIES.1);
        let session = Rc::clone(self);
        self.spawn(job.ticket, async move {
            if why == "offline" && !*session.online.borrow() {
                let online = session.await_online();
                match rest {
                    Some(rest) => drop(tokio::time::timeout(rest, online).await),
                    None => online.await,
                }
            } else {
                tokio::time::sleep(pause).await;
            }
            session.send(job);
        });
    }
}

impl Job {
    /// For how long it may still be tried. `None`: until it is stored.
    fn rest(&self) -> Option<Duration> {
        let end = self.end?;
        Some(end.saturating_duration_since(Instant::now()))
    }
}

fn result(reply: &Message) -> Result<(), Failure> {
    if reply.status == Some(StatusCode::NO_RESPONDERS) {
        return Err(Failure::NoResponders);
    }
    match reply.payload.starts_with(STORED) {
        true => Ok(()),
        false => parse(reply).map(drop),
    }
}
