//! Messages, services, durable queues and tables between programs on several machines.
//!
//! A guest gives [`Command`]s to an [`Engine`] and takes [`Event`]s from it. Neither ever waits. A
//! command that has an answer names a *ticket*, and so does its answer.
//!
//! | module | what it is |
//! |---|---|
//! | [`command`], [`event`] | what goes in, and what comes out |
//! | [`nats`] | the engine over NATS, on a native thread that all connections share |
//! | [`memory`] | the engine of simulated runs: a server in memory, with faults by a seed |
//! | `thread` | that native thread |
//!
//! ```
//! use baton_cluster::memory::{Faults, Memory};
//! use baton_cluster::{Command, Engine, Event};
//!
//! let mut one = Memory::connect("example", Faults::none(), 7);
//! one.submit(Command::Subscribe { ticket: 1, subject: "news".into(), group: None, most: 8 }, 0);
//! one.submit(Command::Publish { subject: "news".into(), payload: "hello".into() }, 0);
//! let message = std::iter::from_fn(|| one.due().map(|now| one.take(now)))
//!     .find_map(|event| match event {
//!         Some(Event::Message { payload, .. }) => Some(payload),
//!         _ => None,
//!     });
//! assert_eq!(message.as_deref(), Some(&b"hello"[..]));
//! ```

#![forbid(unsafe_code)]

pub mod command;
pub mod event;
pub mod memory;
pub mod nats;
mod thread;

pub use command::{Command, End, QueueOptions};
pub use event::{Answer, Event};

use std::os::fd::RawFd;

/// A connection. Times are in nanoseconds of the guest's monotonic clock.
pub trait Engine {
    /// Begins what the command says. Returns whether there was room for it: a caller of whom too
    /// much is in progress tries again later.
    fn submit(&mut self, command: Command, now: u64) -> bool;

    /// What has happened next, up to now.
    fn take(&mut self, now: u64) -> Option<Event>;

    /// Takes a job of an open queue that is already here, without asking the server. The answer is
    /// that of [`Command::Receive`]. `None`: there is none, and the command must ask.
    fn take_job(&mut self, queue: &str) -> Option<Answer>;

    /// A descriptor that is readable when there may be something to take. `None`: see
    /// [`Engine::due`].
    fn descriptor(&self) -> Option<RawFd>;

    /// For an engine without a descriptor: when there is something to take next.
    fn due(&self) -> Option<u64>;

    /// Whether the server can be reached now, as far as is known.
    fn is_online(&self, now: u64) -> bool;

    /// How many messages of a subscription were lost, as too many waited to be taken.
    fn lost(&self, ticket: command::Ticket) -> u64;

    /// The largest payload in bytes.
    fn max_payload(&self) -> usize;
}
