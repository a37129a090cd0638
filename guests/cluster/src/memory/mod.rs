//! The engine of simulated runs: a server in memory, between which and its clients there is a
//! network with faults. The same seed gives the same faults, and nothing depends on native threads.
//!
//! | file | what it does |
//! |---|---|
//! | `network` | what chance decides: delays, loss, duplicates, partitions |
//! | `server` | the agenda of what happens when; messages and requests |
//! | `stored` | the state of queues and tables |
//! | `queues`, `tables` | what happens to them |
//!
//! What is published may be lost or come twice, as with NATS. What is stored is not: if the answer
//! of a queue or table is on its way when the network fails, it comes later. But a job comes again
//! if its delivery or its end was lost.

mod network;
mod queues;
mod server;
mod stored;
mod tables;

pub use network::Faults;

use crate::command::{Command, Ticket};
use crate::event::{Answer, Event};
use server::Server;
use std::collections::BTreeMap;
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use stored::ClientId;

/// The size of the largest payload: that of a NATS server which nobody has configured.
const MAX_PAYLOAD: usize = 1 << 20;

/// The servers of this program, by their names.
static SERVERS: Mutex<BTreeMap<String, Weak<Mutex<Server>>>> = Mutex::new(BTreeMap::new());

/// A connection to a server in memory.
#[derive(Debug)]
pub struct Memory {
    server: Arc<Mutex<Server>>,
    client: ClientId,
}

impl Memory {
    /// Connects to the server of a name. It is made with the first connection and dropped with the
    /// last one.
    pub fn connect(name: &str, faults: Faults, seed: u64) -> Memory {
        let mut servers = SERVERS.lock().unwrap_or_else(PoisonError::into_inner);
        let server = servers
            .get(name)
            .and_then(Weak::upgrade)
            .unwrap_or_default();
        servers.insert(name.to_owned(), Arc::downgrade(&server));
        let client = server
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .add_client(faults, seed);
        Memory { server, client }
    }

    fn server(&self) -> MutexGuard<'_, Server> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl crate::Engine for Memory {
    fn submit(&mut self, command: Command, now: u64) -> bool {
        self.server().submit(self.client, command, now);
        true
    }

    fn take(&mut self, now: u64) -> Option<Event> {
        let mut server = self.server();
        server.advance(now);
        server.take(self.client)
    }

    /// Nothing is fetched ahead: an answer takes no time but the network's.
    fn take_job(&mut self, _queue: &str) -> Option<Answer> {
        None
    }

    fn descriptor(&self) -> Option<RawFd> {
        None
    }

    fn due(&self) -> Option<u64> {
        self.server().due(self.client)
    }

    fn is_online(&self, now: u64) -> bool {
        self.server().is_online(self.client, now)
    }

    fn lost(&self, ticket: Ticket) -> u64 {
        self.server().lost(self.client, ticket)
    }

    fn max_payload(&self) -> usize {
        MAX_PAYLOAD
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.server().remove_client(self.client);
    }
}

#[cfg(test)]
mod tests;
