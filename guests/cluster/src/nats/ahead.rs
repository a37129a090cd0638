//! Jobs that are fetched ahead: before a process asks for them.
//!
//! A process that asks finds such a job at once, in memory that the native thread and the guest
//! share. So one process receives many jobs in the time of one answer of the server.
//!
//! | state of a job | it leaves the state by | and is then |
//! |---|---|---|
//! | stored | a request for jobs (`receiving`) | fetched |
//! | fetched | `Ahead::accept`, if nobody waits for a job | ready |
//! | fetched | a process that waits | held |
//! | fetched | a refusal of `Ahead::accept` | stored again |
//! | ready | `Ahead::take`, when a process asks | held |
//! | ready | `Ahead::take_stale`, after [`STALE`] | stored again; forgotten while offline |
//! | ready | `Ahead::close`, when the connection ends | stored again |
//! | ready | `Ahead::begin_alone`, when a job has its last try | stored again |
//! | held | its end (`jobs`) | removed, or stored again |
//!
//! *Stored again* is a new copy behind the others, which keeps the number of tries: the server
//! counts deliveries, and nobody has seen this one. *Forgotten* jobs, and those of a program that
//! is killed, are delivered again by the server when their time to acknowledge is over. The
//! delivery counts as a try then.
//!
//! **The order stays.** Jobs become ready in the order in which the server delivers them, and are
//! taken in that order. While a process waits, no job is ready: one that arrives goes to the
//! process that has waited for the longest time, and one that asks looks at the ready ones first.
//! Both happen on the native thread, so nothing comes between.
//!
//! **No job expires in silence.** A ready job is not extended. It is ready for at most [`STALE`],
//! and for at most a quarter of its time to acknowledge. Then it goes back. `take` refuses one that
//! is twice as old, as it is when the whole program stood still.
//!
//! **How many** (`Pace`): at most as many as this program has received in the last `SPAN`, at
//! most `prefetch`, and at most [`MOST_BYTES`] together. So a program whose jobs are long fetches
//! none, and the others get them.
//!
//! **A last try is made alone.** A job that ends its program takes the ready jobs with it, and
//! their tries count. So a job with its last try makes the others go back, and for [`ALONE`] each
//! job is fetched by itself. So no job goes to the dead for its neighbours' faults.
//!
//! **No wake-up is lost.** `take` and the native thread change the state under one mutex. When half
//! of the place is free, `take` wakes the thread by a `Notify`, which keeps a wake-up that finds
//! nobody. The thread counts the free places after it was woken.

use super::recent::{Count, Recent};
use crate::command::QueueOptions;
use crate::event::Answer;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// For how long a job is ready at most.
const STALE: Duration = Duration::from_millis(500);

/// For how long jobs are fetched one by one after one that had its last try.
const ALONE: Duration = Duration::from_secs(1);

/// How many bytes of jobs are fetched ahead.
const MOST_BYTES: usize = 4 << 20;

/// The ready jobs of a queue.
#[derive(Debug)]
pub(crate) struct Ahead {
    ready: VecDeque<Ready>,
    pace: Pace,
    /// How many jobs the server has been asked for that have not come.
    asked: usize,
    alone_until: Option<Instant>,
    is_closed: bool,
    stale: Duration,
    /// Wakes the native thread.
    changed: Arc<Notify>,
}

#[derive(Debug)]
struct Ready {
    since: Instant,
    number: u64,
    is_last_try: bool,
    answer: Answer,
}

/// Numbers of jobs to ask for.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) for_waiting: usize,
    pub(super) ahead: usize,
}

/// What becomes of a job that comes while nobody waits.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It may become ready.
    Keep,
    /// It must go back.
    GiveBack,
}

impl Ahead {
    pub(super) fn new(options: &QueueOptions, now: Instant) -> Ahead {
        Ahead {
            ready: VecDeque::new(),
            // Each try of a job that has only one is its last one.
            pace: Pace::new(
                if options.tries > 1 {
                    options.prefetch
                } else {
                    0
                },
                now,
            ),
            asked: 0,
            alone_until: None,
            is_closed: false,
            stale: STALE.min(options.ack / 4),
            changed: Arc::default(),
        }
    }

    /// What wakes the native thread.
    pub(super) fn changed(&self) -> Arc<Notify> {
        Arc::clone(&self.changed)
    }

    /// Takes the first ready job for a process.
    pub(crate) fn take(&mut self, now: Instant) -> Option<Answer> {
        let first = self.ready.front()?;
        if now.saturating_duration_since(first.since) >= self.stale * 2 {
            return None;
        }
        let job = self.ready.pop_front()?;
        self.note_received(&job.answer, now);
        if self.ready.len() * 2 < self.window(now) {
            self.changed.notify_one();
        }
        Some(job.answer)
    }

    /// Notes that a process has received a job.
    pub(super) fn note_received(&mut self, answer: &Answer, now: Instant) {
        let size = answer.payload.as_ref().map_or(0, bytes::Bytes::len);
        self.pace.note(size, now);
    }

    /// Whether a job becomes ready that comes while nobody waits. The caller puts or returns it.
    pub(super) fn accept(&self, is_last_try: bool, now: Instant) -> Verdict {
        let is_alone = is_last_try || self.is_alone(now);
        if self.is_closed || !self.pace.is_in_use(now) || is_alone && !self.ready.is_empty() {
            return Verdict::GiveBack;
        }
        if is_alone && !is_last_try {
            return Verdict::GiveBack;
        }
        Verdict::Keep
    }

    /// Makes a job ready.
    pub(super) fn put(&mut self, number: u64, is_last_try: bool, answer: Answer, now: Instant) {
        if self.ready.is_empty() {
            self.changed.notify_one(); // It must know when the job gets stale.
        }
        self.ready.push_back(Ready {
            since: now,
            number,
            is_last_try,
            answer,
        });
    }

    /// A job has come that has its last try. Returns the ready ones, which must go back.
    pub(super) fn begin_alone(&mut self, now: Instant) -> Vec<u64> {
        self.alone_until = Some(now + ALONE);
        let all = std::mem::take(&mut self.ready);
        let (stay, go): (VecDeque<_>, VecDeque<_>) =
            all.into_iter().partition(|job| job.is_last_try);
        self.ready = stay;
        go.into_iter().map(|job| job.number).collect()
    }

    /// When the first ready job gets stale.
    pub(super) fn stale_at(&self) -> Option<Instant> {
        self.ready.front().map(|first| first.since + self.stale)
    }

    /// The ready jobs that are stale, which must go back.
    pub(super) fn take_stale(&mut self, now: Instant) -> Vec<u64> {
        let mut stale = Vec::new();
        while let Some(first) = self.ready.front()
            && first.since + self.stale <= now
        {
            stale.extend(self.ready.pop_front().map(|job| job.number));
        }
        stale
    }

    /// Accepts no more jobs. Returns the ready ones, which must go back.
    pub(super) fn close(&mut self) -> Vec<u64> {
        self.is_closed = true;
        self.ready.drain(..).map(|job| job.number).collect()
    }

    /// Whether there may be jobs that must go back before the connection ends.
    pub(super) fn is_in_use(&self, now: Instant) -> bool {
        !self.ready.is_empty() || self.asked > 0 && self.pace.is_in_use(now)
    }

    /// How many jobs to ask for now, if so many processes wait: for these, and ahead. All count as
    /// asked for. Ahead it is none, or at least half of what may be there.
    pub(super) fn ask(&mut self, waiting: usize, now: Instant) -> Asked {
        let window = self.window(now);
        let for_waiting = match self.is_closed {
            true => 0,
            false => waiting.saturating_sub(self.asked),
        };
        self.asked += for_waiting;
        let there = self.ready.len() + self.asked.saturating_sub(waiting);
        let free = window.saturating_sub(there);
        let ahead = if free * 2 < window { 0 } else { free };
        self.asked += ahead;
        Asked { for_waiting, ahead }
    }

    /// So many jobs have come that were asked for, or will not come.
    pub(super) fn note_answered(&mut self, count: usize) {
        self.asked = self.asked.saturating_sub(count);
    }

    /// The requests are gone.
    pub(super) fn forget_requests(&mut self) {
        self.asked = 0;
    }

    fn window(&mut self, now: Instant) -> usize {
        match self.is_closed || self.is_alone(now) {
            true => 0,
            false => self.pace.window(now),
        }
    }

    fn is_alone(&self, now: Instant) -> bool {
        self.alone_until.is_some_and(|until| now < until)
    }
}

/// How fast a program receives jobs.
#[derive(Debug)]
struct Pace {
    most: usize,
    recent: Recent,
    last: Option<Instant>,
}

impl Pace {
    fn new(most: usize, now: Instant) -> Pace {
        Pace {
            most,
            recent: Recent::new(now),
            last: None,
        }
    }

    fn note(&mut self, bytes: usize, now: Instant) {
        self.recent.note(1, bytes, now);
        self.last = Some(now);
    }

    /// How many jobs are fetched ahead.
    fn window(&mut self, now: Instant) -> usize {
        let Count { jobs, bytes } = self.recent.count(now);
        let each = bytes.checked_div(jobs).unwrap_or(0).max(1);
        jobs.min(self.most).min(MOST_BYTES / each)
    }

    /// Whether jobs may be ready at all: some were received a short time ago.
    fn is_in_use(&self, now: Instant) -> bool {
        let is_recent = |last| now.saturating_duration_since(last) < STALE;
        self.most > 0 && self.last.is_some_and(is_recent)
    }
}

#[cfg(test)]
mod tests;
