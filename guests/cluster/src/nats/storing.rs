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
//! The answers to ends of jobs come there too (`ends`). Every result counts as an answer.
//!
//! A job that was not stored is tried again with the same id, so a lost acknowledgement does not
//! store it twice.

use super::Weight;
use super::attempts::{JobToSend, Then};
use super::clients::Feed;
use super::failure::{Failure, STORE_FAILED};
use super::queues::RETRIES;
use super::receiving::at;
use super::requests::{ATTEMPT, parse};
use super::sending::headers;
use super::state::Session;
use super::work::{DUE, OpenQueue, due_after};
use crate::command::Command;
use crate::event::{Answer, Event};
use async_nats::{HeaderMap, Message, StatusCode};
use bytes::Bytes;
use futures_util::FutureExt;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// JetStream's code for a server that has only just started.
const NOT_READY: u64 = 10008;

/// How the acknowledgement of a stored message begins.
const STORED: &[u8] = b"{\"stream\":";

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
        let number = self.attempts.new_number();
        self.attempts.begin(number, patience, Then::Tell(tell));
        self.publish_attempt(number, subject, headers, payload);
        told.await.unwrap_or(Err(Failure::Offline))
    }

    fn publish_attempt(&self, number: u64, subject: String, headers: HeaderMap, payload: Bytes) {
        let reply = self.attempts.reply_of(number);
        self.sender.store(subject, reply, headers, payload);
    }

    /// Begins to carry out [`Command::Send`].
    pub(super) fn begin_send(self: &Rc<Self>, command: Command, weight: Weight) {
        let Command::Send {
            ticket,
            queue,
            payload,
            id,
            delay,
            patience,
        } = command
        else {
            return;
        };
        self.send(JobToSend {
            ticket,
            queue,
            payload,
            id: id.unwrap_or_else(|| self.clients.current().new_inbox()),
            due: due_after(delay),
            end: patience.and_then(|patience| Instant::now().checked_add(patience)),
            pause: RETRIES.0,
            _weight: weight,
        });
    }

    /// Stores a job. All attempts have the same id, so it is stored once.
    fn send(self: &Rc<Self>, job: JobToSend) {
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
        self.attempts.begin(number, patience, Then::Send(job));
        self.publish_attempt(number, subject, with, payload);
    }

    /// Takes acknowledgements until the connection ends.
    pub(super) async fn await_stored(self: Rc<Self>, mut replies: Feed) {
        let mut online = self.online.clone();
        loop {
            let deadline = self.attempts.first_deadline();
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
                    for then in self.attempts.take_all() {
                        self.end_attempt(then, Err(Failure::Offline));
                    }
                }
                () = at(deadline) => {
                    for then in self.attempts.take_late(Instant::now()) {
                        self.end_attempt(then, Err(Failure::TimedOut));
                    }
                }
                () = self.attempts.is_sooner() => {}
            }
        }
    }

    /// Takes one acknowledgement. The answer of a job that is stored goes to the list.
    fn take_stored(self: &Rc<Self>, reply: &Message, answers: &mut Vec<Event>) {
        let Some(then) = self.attempts.take_answered(reply) else {
            return;
        };
        if let Then::Handled(queue, number) = then {
            return self.note_handled(&queue, number);
        }
        match (then, result(reply)) {
            (Then::Send(JobToSend { ticket, .. }), Ok(())) => {
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
            (Then::Handled(queue, number), _) => self.note_handled(&queue, number),
            (Then::Send(job), Ok(())) => self.answer(job.ticket, Ok(Answer::default())),
            (Then::Send(job), Err(why)) => self.try_again(job, why),
        }
    }

    /// Tries a job again after a delay, or when the server can be reached. Gives up if there is no
    /// time for that, or if it will not help.
    fn try_again(self: &Rc<Self>, mut job: JobToSend, why: Failure) {
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

fn result(reply: &Message) -> Result<(), Failure> {
    if reply.status == Some(StatusCode::NO_RESPONDERS) {
        return Err(Failure::NoResponders);
    }
    match reply.payload.starts_with(STORED) {
        true => Ok(()),
        false => parse(reply).map(drop),
    }
}
