//! Durable queues: each is a stream of JetStream, from which one consumer gives jobs to all
//! programs.
//!
//! A process that waits for a job has a place in the queue's list, and the server has a pull
//! request for each place. A process that gives up leaves its request behind, for the next one: a
//! job that was already on its way goes to that one, or is stored again if there is none.

use super::requests::{ATTEMPT, Failure, NAME_IN_USE, STORE_FAILED};
use super::sending::headers;
use super::state::Session;
use super::work::{CONSUMER, DUE, HeldJob, OpenQueue, milliseconds_now};
use crate::command::{QueueOptions, Ticket};
use crate::event::Answer;
use async_nats::{StatusCode, Subscriber};
use bytes::Bytes;
use futures_util::StreamExt;
use serde_json::json;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// How long the server keeps a pull request.
const PULL: Duration = Duration::from_secs(30);

/// The first and the longest delay before a full queue is tried again.
const RETRIES: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(250));

/// For how long a stream drops a second job with the same id.
const DUPLICATES: Duration = Duration::from_secs(120);

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Opening.
impl Session {
    pub(super) async fn open_queue(
        self: Rc<Self>,
        name: String,
        options: QueueOptions,
    ) -> Result<Answer, String> {
        self.make_stream(&name, options.most, options.replicas)
            .await?;
        if let Some(dead) = &options.dead {
            self.make_stream(dead, None, options.replicas).await?;
        }
        let stream = OpenQueue::stream_of(&name);
        let consumer = json!({
            "stream_name": stream,
            "config": {
                "durable_name": CONSUMER, "ack_policy": "explicit", "deliver_policy": "all",
                "ack_wait": nanoseconds(options.ack), "max_deliver": -1, "max_ack_pending": -1,
                "max_waiting": 65_536, "num_replicas": 0,
            },
        });
        let what = format!("CONSUMER.DURABLE.CREATE.{stream}.{CONSUMER}");
        self.ask_jetstream(&what, &consumer)
            .await
            .map_err(Failure::text)?;
        let ack = options.ack;
        let queue = Rc::new(OpenQueue {
            name: name.clone(),
            options,
            inbox: self.client.new_inbox(),
            waiting: RefCell::default(),
            pulls: Cell::new(0),
        });
        let replies = self.client.subscribe(queue.inbox.clone()).await;
        let replies = replies.map_err(|why| why.to_string())?;
        let session = Rc::clone(&self);
        self.spawn_detached(session.await_jobs(Rc::clone(&queue), replies));
        let session = Rc::clone(&self);
        let extended = Rc::clone(&queue);
        self.spawn_detached(async move {
            loop {
                tokio::time::sleep(ack / 3).await;
                session.extend(&extended);
            }
        });
        self.queues.borrow_mut().insert(name, queue);
        Ok(Answer::default())
    }

    async fn make_stream(
        &self,
        name: &str,
        most: Option<u64>,
        replicas: usize,
    ) -> Result<(), String> {
        let stream = OpenQueue::stream_of(name);
        let most = most.and_then(|most| i64::try_from(most).ok());
        let config = json!({
            "name": stream, "subjects": [OpenQueue::subject_of(name)], "retention": "workqueue",
            "storage": "file", "discard": "new", "max_msgs": most.unwrap_or(-1),
            "num_replicas": replicas, "duplicate_window": nanoseconds(DUPLICATES),
        });
        match self
            .ask_jetstream(&format!("STREAM.CREATE.{stream}"), &config)
            .await
        {
            Ok(_) => return Ok(()),
            Err(Failure::Refused(NAME_IN_USE, _)) => {}
            Err(why) => return Err(why.text()),
        }
        let info = self
            .ask_jetstream(&format!("STREAM.INFO.{stream}"), &json!({}))
            .await;
        let info = info.map_err(Failure::text)?;
        let there = info["config"]["max_msgs"].as_i64().unwrap_or(-1);
        match most {
            Some(most) if most != there => Err(format!(
                "the queue '{name}' is there with max = {}, not {most}; open it with that, or \
                 without max",
                if there < 0 {
                    "no limit".to_owned()
                } else {
                    there.to_string()
                }
            )),
            _ => Ok(()),
        }
    }
}

/// Sending.
impl Session {
    /// Stores a job. All attempts have the same id, so it is stored once.
    pub(super) async fn send(
        self: Rc<Self>,
        queue: String,
        payload: Bytes,
        id: Option<String>,
        delay: Duration,
        patience: Option<Duration>,
    ) -> Result<Answer, String> {
        let id = id.unwrap_or_else(|| self.client.new_inbox());
        let due =
            milliseconds_now().saturating_add(u64::try_from(delay.as_millis()).unwrap_or(u64::MAX));
        let mut with = headers(&[("Nats-Msg-Id", &id)]);
        if delay > Duration::ZERO {
            with.insert(DUE, due.to_string());
        }
        let subject = OpenQueue::subject_of(&queue);
        let end = patience.and_then(|patience| Instant::now().checked_add(patience));
        let mut pause = RETRIES.0;
        loop {
            let rest = end.map(|end| end.saturating_duration_since(Instant::now()));
            // Without patience there is one attempt, which waits for its answer.
            let attempt = super::requests::ATTEMPT
                .min(rest.filter(|rest| !rest.is_zero()).unwrap_or(Duration::MAX));
            let why = match self
                .store(subject.clone(), with.clone(), payload.clone(), attempt)
                .await
            {
                Ok(_) => return Ok(Answer::default()),
                Err(Failure::Refused(STORE_FAILED, why)) if why.contains("maximum") => "full",
                Err(Failure::Offline | Failure::NoResponders) => "offline",
                Err(Failure::TimedOut) => "timeout",
                Err(Failure::Refused(code, _)) if code == NOT_READY => "offline",
                Err(why) => return Err(why.text()),
            };
            let rest = end.map(|end| end.saturating_duration_since(Instant::now()));
            if rest.is_some_and(|rest| rest.is_zero()) {
                return Err(why.to_owned());
            }
            let pause_now = pause.min(rest.unwrap_or(Duration::MAX));
            pause = (pause * 2).min(RETRIES.1);
            if why == "offline" && !*self.online.borrow() {
                let online = self.await_online();
                match rest {
                    Some(rest) => drop(tokio::time::timeout(rest, online).await),
                    None => online.await,
                }
            } else {
                tokio::time::sleep(pause_now).await;
            }
        }
    }
}

/// JetStream's code for a server that has only just started.
const NOT_READY: u64 = 10008;

/// Receiving.
impl Session {
    pub(super) fn receive(self: &Rc<Self>, ticket: Ticket, queue: &str, waits: bool) {
        let Some(queue) = self.queues.borrow().get(queue).cloned() else {
            return self.answer(ticket, Err("the queue is not open".to_owned()));
        };
        if !waits {
            let session = Rc::clone(self);
            return self.spawn_detached(async move { session.receive_now(ticket, queue).await });
        }
        queue.waiting.borrow_mut().push_back(ticket);
        self.pull(&queue);
    }

    /// Sends a pull request for each place that has none.
    fn pull(&self, queue: &OpenQueue) {
        let with = json!({ "batch": 1, "expires": nanoseconds(PULL) }).to_string();
        while queue.pulls.get() < queue.waiting.borrow().len() && *self.online.borrow() {
            queue.pulls.set(queue.pulls.get() + 1);
            let (subject, reply) = (queue.next_subject(), queue.inbox.clone());
            self.sender.ask(subject, reply, with.clone().into());
        }
    }

    /// Takes what comes in reply to pull requests. A connection that is lost takes all requests
    /// with it.
    async fn await_jobs(self: Rc<Self>, queue: Rc<OpenQueue>, mut replies: Subscriber) {
        let mut online = self.online.clone();
        loop {
            tokio::select! {
                reply = replies.next() => {
                    let Some(reply) = reply else { return };
                    queue.pulls.set(queue.pulls.get().saturating_sub(1));
                    match reply.status {
                        None => {
                            if let Some(job) = HeldJob::of(&queue, reply) {
                                self.deliver(job);
                            }
                        }
                        // The server has only just started, and does not know the queue yet.
                        Some(StatusCode::NO_RESPONDERS) => tokio::time::sleep(RETRIES.1).await,
                        Some(_) => {}
                    }
                }
                _ = online.changed() => queue.pulls.set(0),
            }
            self.pull(&queue);
        }
    }

    /// Gives a job to the process that has waited for the longest time.
    fn deliver(self: &Rc<Self>, job: HeldJob) {
        let job = Rc::new(job);
        if let Some(rest) = job.rest {
            return self.put_back(&job, rest);
        }
        if job.tries > job.queue.options.tries {
            return self.bury(job, "it was tried too often".to_owned());
        }
        let ticket = job.queue.waiting.borrow_mut().pop_front();
        match ticket {
            Some(ticket) => self.answer_with(ticket, job),
            None => self.put_aside(job),
        }
    }

    fn answer_with(&self, ticket: Ticket, job: Rc<HeldJob>) {
        let mut answer = Answer {
            payload: Some(job.payload.clone()),
            why: job.why.clone(),
            numbers: [job.tries, 0],
        };
        answer.numbers[1] = self.hold(job);
        self.answer(ticket, Ok(answer));
    }

    async fn receive_now(self: Rc<Self>, ticket: Ticket, queue: Rc<OpenQueue>) {
        loop {
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
