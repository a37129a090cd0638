//! What the server stores: the jobs of queues, and the entries of tables.

use crate::command::{QueueOptions, Ticket};
use bytes::Bytes;
use std::collections::{BTreeMap, HashMap, VecDeque};

/// Names a connection.
pub(super) type ClientId = u64;

#[derive(Debug)]
pub(super) struct Queue {
    pub(super) options: QueueOptions,
    pub(super) jobs: BTreeMap<u64, Job>,
    /// The last job's number.
    pub(super) last: u64,
    /// When each id was stored.
    pub(super) ids: HashMap<String, u64>,
    pub(super) waiting: VecDeque<(ClientId, Ticket)>,
}

#[derive(Debug)]
pub(super) struct Job {
    pub(super) payload: Bytes,
    pub(super) why: String,
    pub(super) due: u64,
    pub(super) tries: u64,
    /// How often it was delivered, and its number there.
    pub(super) delivery: u64,
    pub(super) holder: Option<Holder>,
}

#[derive(Debug)]
pub(super) struct Holder {
    pub(super) client: ClientId,
    /// The job's number for this client.
    pub(super) number: u64,
    /// Whether the client has never got it.
    pub(super) is_lost: bool,
}

impl Queue {
    pub(super) fn new(options: QueueOptions) -> Queue {
        Queue {
            options,
            jobs: BTreeMap::new(),
            last: 0,
            ids: HashMap::new(),
            waiting: VecDeque::new(),
        }
    }

    pub(super) fn forget_client(&mut self, client: ClientId) {
        self.waiting.retain(|(other, _)| *other != client);
    }

    pub(super) fn stop_waiting(&mut self, client: ClientId, ticket: Ticket) {
        self.waiting.retain(|other| *other != (client, ticket));
    }

    pub(super) fn add(&mut self, payload: Bytes, why: String, due: u64) {
        self.last += 1;
        let job = Job {
            payload,
            why,
            due,
            tries: 0,
            delivery: 0,
            holder: None,
        };
        self.jobs.insert(self.last, job);
    }

    pub(super) fn first_ready(&self, now: u64) -> Option<u64> {
        let mut ready = self
            .jobs
            .iter()
            .filter(|(_, job)| job.holder.is_none() && job.due <= now);
        ready.next().map(|(number, _)| *number)
    }
}

#[derive(Debug, Default)]
pub(super) struct Table {
    /// Values and revisions. A deleted entry has no value.
    pub(super) entries: BTreeMap<String, (Option<Bytes>, u64)>,
    pub(super) revision: u64,
    pub(super) watchers: Vec<(ClientId, Ticket, String)>,
}

impl Table {
    pub(super) fn forget(&mut self, is_meant: impl Fn(ClientId, Ticket) -> bool) {
        self.watchers
            .retain(|(client, ticket, _)| !is_meant(*client, *ticket));
    }

    /// The revision of an entry that is there, or 0.
    pub(super) fn revision_of(&self, key: &str) -> u64 {
        match self.entries.get(key) {
            Some((Some(_), revision)) => *revision,
            _ => 0,
        }
    }
}
