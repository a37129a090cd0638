//! What a guest asks an engine to do.

use bytes::Bytes;
use std::time::Duration;

/// Names the answer to a command. The guest chooses it, and never twice.
pub type Ticket = u64;

/// Something to do. A name of a queue, table or service is checked by the guest.
#[derive(Clone, Debug)]
pub enum Command {
    /// Publishes to whoever listens now. There is no answer.
    Publish {
        /// Where to.
        subject: String,
        /// The value.
        payload: Bytes,
    },
    /// Has messages of a subject come as [`Event::Message`](crate::Event::Message) with this
    /// ticket.
    Subscribe {
        /// Names the subscription.
        ticket: Ticket,
        /// Which messages. `*` and `>` stand for any words.
        subject: String,
        /// Each message goes to one member of a group.
        group: Option<String>,
        /// How many may wait to be taken. Messages beyond are counted as lost.
        most: usize,
    },
    /// Sends a request. The answer's payload is the reply.
    Request {
        /// Names the answer.
        ticket: Ticket,
        /// Where to.
        subject: String,
        /// The value.
        payload: Bytes,
    },
    /// Nobody waits for the answer any more. Also ends a subscription or a watch.
    Cancel {
        /// What it was named.
        ticket: Ticket,
    },
    /// Opens a durable queue, which is made if it is not there.
    OpenQueue {
        /// Names the answer.
        ticket: Ticket,
        /// The queue.
        name: String,
        /// How it works.
        options: QueueOptions,
    },
    /// Stores a job. The answer comes once it is stored.
    Send {
        /// Names the answer.
        ticket: Ticket,
        /// The queue.
        queue: String,
        /// The job.
        payload: Bytes,
        /// A second job with the same id is dropped.
        id: Option<String>,
        /// For how long it is kept back.
        delay: Duration,
        /// For how long to try. `None`: until it is stored.
        patience: Option<Duration>,
    },
    /// Takes a job. The answer's first number is the number of tries, and the second one names the
    /// job.
    Receive {
        /// Names the answer.
        ticket: Ticket,
        /// The queue.
        queue: String,
        /// Whether to wait for a job.
        waits: bool,
    },
    /// Ends a job that was received.
    EndJob {
        /// The number that the answer gave.
        job: u64,
        /// How it ends.
        end: End,
    },
    /// Opens a table, which is made if it is not there.
    OpenTable {
        /// Names the answer.
        ticket: Ticket,
        /// The table.
        name: String,
        /// On how many servers it is stored.
        replicas: usize,
    },
    /// Reads an entry. The answer's first number is its revision, 0 if there is none.
    Get {
        /// Names the answer.
        ticket: Ticket,
        /// The table.
        table: String,
        /// The entry.
        key: String,
    },
    /// Writes an entry. The answer's first number is its new revision.
    Put {
        /// Names the answer.
        ticket: Ticket,
        /// The table.
        table: String,
        /// The entry.
        key: String,
        /// The value. `None` deletes the entry.
        payload: Option<Bytes>,
        /// The revision that it must have now, 0 if it must not be there. `None`: any.
        expected: Option<u64>,
    },
    /// Has all entries, and then each change, come as [`Event::Entry`](crate::Event::Entry) with
    /// this ticket.
    Watch {
        /// Names the watch.
        ticket: Ticket,
        /// The table.
        table: String,
        /// The beginning of the keys.
        prefix: String,
    },
    /// Sends what was published, and ends the connection. The answer comes before
    /// [`Event::Closed`](crate::Event::Closed).
    Close {
        /// Names the answer.
        ticket: Ticket,
    },
}

/// How a durable queue works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueOptions {
    /// How many jobs it holds at most. `None`: as it is, or without a limit.
    pub most: Option<u64>,
    /// A job that its holder does not extend for so long is given to another one.
    pub ack: Duration,
    /// How often a job is tried.
    pub tries: u64,
    /// The queue for jobs that were tried too often or rejected. `None`: they are dropped.
    pub dead: Option<String>,
    /// On how many servers it is stored.
    pub replicas: usize,
    /// How many jobs are fetched before a process asks for them, at most.
    pub prefetch: usize,
}

/// How a job ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// It is done, and is removed.
    Done,
    /// It is tried again after this time, unless it was tried too often.
    Retry(Duration),
    /// Nobody has seen it, so this was no try.
    Untried,
    /// It is given up, for a reason.
    Reject(String),
}
