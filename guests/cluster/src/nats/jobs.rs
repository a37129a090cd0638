//! The jobs that this program holds. While it holds one, it tells the server so, again and again.

use super::attempts::Then;
use super::requests::ATTEMPT;
use super::sending::headers;
use super::state::Session;
use super::work::{HeldJob, OpenQueue, TRIES, WHY};
use crate::command::End;
use bytes::Bytes;
use std::rc::Rc;
use std::time::Duration;

/// The delay before a job comes again whose end could not be stored.
const AGAIN: Duration = Duration::from_secs(1);

impl Session {
    /// Holds a job. Returns its number for the guest.
    pub(super) fn hold(&self, job: Rc<HeldJob>) -> u64 {
        let mut jobs = self.jobs.borrow_mut();
        jobs.last += 1;
        let number = jobs.last;
        jobs.held.insert(number, job);
        number
    }

    /// Holds a job no longer.
    pub(super) fn forget(&self, number: u64) -> Option<Rc<HeldJob>> {
        self.jobs.borrow_mut().held.remove(&number)
    }

    /// Tells the server of a queue which jobs are still held.
    pub(super) fn extend(&self, queue: &Rc<OpenQueue>) {
        for job in self.jobs.borrow().held.values() {
            if Rc::ptr_eq(&job.queue, queue) {
                self.acknowledge(job, "+WPI");
            }
        }
    }

    fn acknowledge(&self, job: &HeldJob, with: impl Into<String>) {
        let payload = Bytes::from(with.into());
        self.sender.publish(job.reply.clone(), payload, None);
    }

    /// Lets the server remove a job. It receives no more jobs while too many of these wait.
    fn remove(&self, job: &HeldJob, with: &'static str) {
        let asking = job.queue.ends.borrow_mut().note_sent();
        let Some(number) = asking else {
            return self.acknowledge(job, with);
        };
        let attempt = self.attempts.new_number();
        let handled = Then::Handled(Rc::clone(&job.queue), number);
        self.attempts.begin(attempt, ATTEMPT, handled);
        let reply = self.attempts.reply_of(attempt);
        self.sender.ask(
            job.reply.clone(),
            reply,
            Bytes::from_static(with.as_bytes()),
        );
    }

    pub(super) fn put_back(&self, job: &HeldJob, delay: Duration) {
        let delay = delay.as_nanos();
        self.acknowledge(job, format!("-NAK {{\"delay\": {delay}}}"));
    }

    pub(super) fn end_job(self: &Rc<Self>, number: u64, end: End) {
        let Some(job) = self.forget(number) else {
            return;
        };
        match end {
            End::Done => self.remove(&job, "+ACK"),
            End::Retry(_) if job.tries >= job.queue.options.tries => {
                self.bury(job, "it was tried too often".to_owned());
            }
            End::Retry(delay) => self.put_back(&job, delay),
            End::Untried => self.put_aside(job),
            End::Reject(why) => self.bury(job, why),
        }
    }

    /// Stores a job again, and removes it when that is done: the server counts each delivery, and
    /// nobody has seen this one. If that is not possible, it counts.
    pub(super) fn put_aside(self: &Rc<Self>, job: Rc<HeldJob>) {
        let session = Rc::clone(self);
        self.asides.borrow_mut().spawn_local(async move {
            let before = (job.tries - 1).to_string();
            let id = format!("aside {} {} {before}", job.queue.name, job.sequence());
            let with = headers(&[(TRIES, &before), (WHY, &job.why), ("Nats-Msg-Id", &id)]);
            let subject = OpenQueue::subject_of(&job.queue.name);
            let payload = job.payload.clone();
            match session.store(subject, with, payload, ATTEMPT).await {
                Ok(()) => session.remove(&job, "+TERM"),
                Err(_) => session.put_back(&job, Duration::ZERO),
            }
        });
    }

    /// Waits until jobs are stored again, for some time.
    pub(super) async fn await_put_aside(&self) {
        let mut asides = std::mem::take(&mut *self.asides.borrow_mut());
        let are_stored = async { while asides.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(ATTEMPT, are_stored).await;
    }

    /// Moves a job to the queue of dead ones. It is removed once it is stored there.
    pub(super) fn bury(self: &Rc<Self>, job: Rc<HeldJob>, why: String) {
        let Some(dead) = job.queue.options.dead.clone() else {
            return self.remove(&job, "+TERM");
        };
        let session = Rc::clone(self);
        self.spawn_detached(async move {
            // One line: a header has no more.
            let why: String = why
                .chars()
                .map(|c| if c.is_control() { ' ' } else { c })
                .collect();
            let id = format!("dead {} {}", job.queue.name, job.sequence());
            let with = headers(&[(WHY, &why), ("Nats-Msg-Id", &id)]);
            let subject = OpenQueue::subject_of(&dead);
            let stored = session
                .store(subject, with, job.payload.clone(), ATTEMPT)
                .await;
            match stored {
                Ok(()) => session.remove(&job, "+TERM"),
                Err(_) => session.put_back(&job, AGAIN),
            }
        });
    }
}
