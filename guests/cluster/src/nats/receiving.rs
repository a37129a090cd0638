//! Receiving jobs.
//!
//! A process that waits for a job has a place in the queue's list, and the server has a *pull
//! request* for each place. A process that gives up leaves its request behind, for the next one: a
//! job that was already on its way goes to that one, or becomes ready (`ahead`), or is stored
//! again.
//!
//! Requests for jobs ahead are for many at once. They live for a short time, so that few jobs come
//! after the last process has stopped asking. All replies come to one inbox, so they keep their
//! order. What is counted is how many jobs the server still owes (`Ahead::ask`, `note_answered`),
//! whoever they were for: a job that comes says no request's name.
//!
//! While the server is late with the ends of this program's jobs, nothing is asked for (`ends`).

use super::ahead::Verdict;
use super::clients::Feed;
use super::failure::Failure;
use super::queues::{RETRIES, nanoseconds};
use super::requests::ATTEMPT;
use super::state::Session;
use super::work::{HeldJob, OpenQueue};
use crate::command::Ticket;
use crate::event::Answer;
use async_nats::{Message, StatusCode};
use futures_util::FutureExt;
use serde_json::json;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// How long the server keeps the request of a process that waits.
const PULL: Duration = Duration::from_secs(30);

/// How long it keeps a request for jobs that are fetched ahead.
const PULL_AHEAD: Duration = Duration::from_millis(250);

/// How soon a process that does not wait for jobs looks again whether ends are handled.
const LATE: Duration = Duration::from_millis(1);

/// How many of a request's jobs will not come, in the answer that ends the request.
const NOT_COMING: &str = "Nats-Pending-Messages";

impl Session {
    pub(super) fn receive(self: &Rc<Self>, ticket: Ticket, queue: &str, waits: bool) {
        let Some(queue) = self.queues.borrow().get(queue).cloned() else {
            return self.answer(ticket, Err("the queue is not open".to_owned()));
        };
        // It may have become ready after the process looked.
        let ready = queue.ahead.lock().take(Instant::now());
        if let Some(answer) = ready {
            return self.answer(ticket, Ok(answer));
        }
        if !waits {
            let session = Rc::clone(self);
            return self.spawn_detached(async move { session.receive_now(ticket, queue).await });
        }
        queue.waiting.borrow_mut().push_back(ticket);
        self.pull(&queue);
    }

    /// Asks for a job for each process that waits, and for jobs ahead.
    fn pull(&self, queue: &OpenQueue) {
        if queue.is_closing.get() || !*self.online.borrow() {
            return;
        }
        if queue.ends.borrow_mut().are_late(Instant::now()) {
            return; // `note_handled` comes here again.
        }
        let waiting = queue.waiting.borrow().len();
        let asked = queue.ahead.lock().ask(waiting, Instant::now());
        for (batch, expires) in [(asked.for_waiting, PULL), (asked.ahead, PULL_AHEAD)] {
            if batch > 0 {
                let with = json!({ "batch": batch, "expires": nanoseconds(expires) });
                let (subject, inbox) = (queue.next_subject(), queue.inbox.clone());
                self.sender.ask(subject, inbox, with.to_string().into());
            }
        }
    }

    /// The server has handled ends of a queue's jobs. It may have been too late with them.
    pub(super) fn note_handled(&self, queue: &OpenQueue, number: u64) {
        queue.ends.borrow_mut().note_handled(number, Instant::now());
        self.pull(queue);
    }

    /// Begins to take what comes in reply to pull requests, until the connection ends.
    pub(super) fn spawn_receiver(self: &Rc<Self>, queue: Rc<OpenQueue>, replies: Feed) {
        let session = Rc::clone(self);
        let receiver = async move { session.await_jobs(queue, replies).await };
        self.receivers.borrow_mut().spawn_local(receiver);
    }

    /// A connection that is lost takes all requests with it.
    async fn await_jobs(self: Rc<Self>, queue: Rc<OpenQueue>, mut replies: Feed) {
        let mut online = self.online.clone();
        let changed = queue.ahead.lock().changed();
        let mut is_draining = false;
        loop {
            if queue.is_closing.get() && !is_draining {
                is_draining = true;
                // It gives what is already on its way, and ends.
                if !replies.drain().await {
                    return;
                }
            }
            let stale_at = queue.ahead.lock().stale_at();
            tokio::select! {
                reply = replies.next() => {
                    let Some(reply) = reply else { return };
                    self.take_reply(&queue, reply).await;
                    // More may be here. Jobs are asked for once for all of them.
                    while let Some(Some(reply)) = replies.next().now_or_never() {
                        self.take_reply(&queue, reply).await;
                    }
                }
                _ = online.changed() => queue.ahead.lock().forget_requests(),
                () = changed.notified() => {}
                () = at(stale_at) => self.give_back_stale(&queue),
            }
            self.pull(&queue);
        }
    }

    async fn take_reply(self: &Rc<Self>, queue: &Rc<OpenQueue>, reply: Message) {
        queue.ahead.lock().note_answered(answered(&reply));
        match reply.status {
            None => {
                if let Some(job) = HeldJob::of(queue, reply) {
                    self.deliver(job);
                }
            }
            // The server has only just started, and does not know the queue yet.
            Some(StatusCode::NO_RESPONDERS) => tokio::time::sleep(RETRIES.1).await,
            Some(_) => {}
        }
    }

    /// Gives a job to the process that has waited for the longest time. If there is none, it
    /// becomes ready or goes back.
    fn deliver(self: &Rc<Self>, job: HeldJob) {
        let job = Rc::new(job);
        if let Some(rest) = job.rest {
            return self.put_back(&job, rest);
        }
        if job.tries > job.queue.options.tries {
            return self.bury(job, "it was tried too often".to_owned());
        }
        let (queue, now) = (Rc::clone(&job.queue), Instant::now());
        let is_last_try = job.tries == queue.options.tries;
        if is_last_try {
            let others = queue.ahead.lock().begin_alone(now);
            self.give_back_ready(&others);
        }
        // Nobody could end it after the connection.
        let ticket = match queue.is_closing.get() {
            true => None,
            false => queue.waiting.borrow_mut().pop_front(),
        };
        if let Some(ticket) = ticket {
            return self.answer_with(ticket, job);
        }
        let verdict = queue.ahead.lock().accept(is_last_try, now);
        match verdict {
            Verdict::Keep => {
                let (number, answer) = self.held_answer(job);
                queue.ahead.lock().put(number, is_last_try, answer, now);
            }
            Verdict::GiveBack => self.put_aside(job),
        }
    }

    /// Holds a job, and makes the answer that gives it to a process.
    fn held_answer(&self, job: Rc<HeldJob>) -> (u64, Answer) {
        let mut answer = Answer {
            payload: Some(job.payload.clone()),
            why: job.why.clone(),
            numbers: [job.tries, 0],
        };
        let number = self.hold(job);
        answer.numbers[1] = number;
        (number, answer)
    }

    fn answer_with(&self, ticket: Ticket, job: Rc<HeldJob>) {
        let queue = Rc::clone(&job.queue);
        let (_, answer) = self.held_answer(job);
        queue.ahead.lock().note_received(&answer, Instant::now());
        self.answer(ticket, Ok(answer));
    }

    async fn receive_now(self: Rc<Self>, ticket: Ticket, queue: Rc<OpenQueue>) {
        loop {
            while queue.ends.borrow_mut().are_late(Instant::now()) {
                tokio::time::sleep(LATE).await;
            }
            match self.ask_for_job(&queue).await {
                Ok(Some(job)) if job.rest.is_none() && job.tries <= queue.options.tries => {
                    return self.answer_with(ticket, Rc::new(job));
                }
                Ok(Some(job)) => self.deliver(job),
                Ok(None) => return self.answer(ticket, Err("timeout".to_owned())),
                Err(why) => return self.answer(ticket, Err(why.text())),
            }
        }
    }

    /// Asks for a job that is there now.
    async fn ask_for_job(&self, queue: &Rc<OpenQueue>) -> Result<Option<HeldJob>, Failure> {
        let with = json!({ "batch": 1, "no_wait": true }).to_string();
        let reply = self
            .request_alone(queue.next_subject(), with.into(), ATTEMPT)
            .await?;
        match reply.status {
            None => Ok(HeldJob::of(queue, reply)),
            Some(_) => Ok(None),
        }
    }
}

/// Giving back what was fetched ahead.
impl Session {
    fn give_back_ready(self: &Rc<Self>, numbers: &[u64]) {
        for number in numbers {
            if let Some(job) = self.forget(*number) {
                self.put_aside(job);
            }
        }
    }

    /// While the server cannot be reached, a job is only forgotten: the server delivers it again.
    fn give_back_stale(self: &Rc<Self>, queue: &OpenQueue) {
        let stale = queue.ahead.lock().take_stale(Instant::now());
        if *self.online.borrow() {
            return self.give_back_ready(&stale);
        }
        for number in stale {
            drop(self.forget(number));
        }
    }

    pub(super) fn give_back_ahead(self: &Rc<Self>, queue: &OpenQueue) {
        let ready = queue.ahead.lock().close();
        self.give_back_ready(&ready);
    }

    /// Receives no more, and waits until what was fetched ahead is stored again.
    pub(super) async fn end_receiving(self: &Rc<Self>) {
        let queues = self.all_queues();
        self.queues.borrow_mut().clear();
        for queue in &queues {
            queue.is_closing.set(true);
            self.give_back_ahead(queue);
            queue.ahead.lock().changed().notify_one();
        }
        let mut receivers = std::mem::take(&mut *self.receivers.borrow_mut());
        if *self.online.borrow() {
            let has_ended = async { while receivers.join_next().await.is_some() {} };
            // What takes longer is delivered again.
            let _ = tokio::time::timeout(ATTEMPT, has_ended).await;
            self.await_put_aside().await;
        }
    }
}

/// How many jobs of a request an answer stands for.
fn answered(reply: &Message) -> usize {
    if reply.status.is_none() {
        return 1;
    }
    let count = reply.headers.as_ref().and_then(|headers| {
        let count = headers.get(NOT_COMING)?;
        count.as_str().parse().ok()
    });
    // A server that does not know the queue says no number, and has no other request either.
    count.unwrap_or(usize::MAX)
}

/// Waits until a time; for ever if there is none.
pub(super) async fn at(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time.into()).await,
        None => std::future::pending().await,
    }
}
