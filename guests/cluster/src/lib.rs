//! `baton/cluster.so`, which `require "baton.cluster"` loads: messages, services, durable queues
//! and tables between programs on several machines.
//!
//! The engine knows no language. A guest gives [`Command`]s to an [`Engine`] and takes [`Event`]s
//! from it. Neither ever waits. A command that has an answer names a *ticket*, and so does its
//! answer.
//!
//! | module | what it is |
//! |---|---|
//! | [`command`], [`event`] | what goes in, and what comes out |
//! | [`nats`] | the engine over NATS, on a native thread that all connections share |
//! | [`memory`] | the engine of simulated runs: a server in memory, with faults by a seed |
//! | `thread` | that native thread |
//! | `host` | what all of them call of the program |
//! | `lua` | the engine for `c/` and `lua/`, the module's halves in C and in Lua |

#![deny(unsafe_code)]

pub mod command;
pub mod event;
pub mod memory;
mod mutex;
pub mod nats;
mod thread;

#[allow(unsafe_code)]
mod host;
// Unit tests have no Lua.
#[cfg(not(test))]
#[allow(unsafe_code)]
mod lua;

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
