//! Objects outside of all heaps, which several VMs use and wait for.
//!
//! Each object is a state under a mutex of its own. A process that has to wait leaves a *ticket* in
//! the object's queue, in which its VM plays no part. An operation that ends waits only picks
//! tickets under the mutex. It wakes their processes afterwards, by their
//! [`Sleeper`](crate::vm::Sleeper): a post to their VM, or a call of its scheduler if it is the
//! caller's own.
//!
//! | a ticket | edge | made by |
//! |---|---|---|
//! | none -> waits | there is nothing to take | [`Tickets::enter`] |
//! | none -> called | there is something, and no other ticket waits | [`Tickets::enter_called`] |
//! | waits -> called | something has come; it is *reserved* for this ticket | [`Tickets::call_next`] |
//! | called -> none | its process takes what is reserved | [`Tickets::leave`] |
//! | called -> none | its process goes without it (timeout, kill, another case of a select): the next ticket is called | [`Tickets::leave`], then the object's `settle` |
//! | waits -> none | as above, and nothing else changes | [`Tickets::leave`] |
//! | any -> none | its VM has ended, or is the parent of this fork's child | [`Tickets::call_next`], [`Tickets::drop_gone`], `in_child` |
//!
//! The called tickets are the first ones of a queue. A process that comes later takes only what is
//! not reserved. So waits end in their order.
//!
//! **No wake-up is lost.** Let an object have `n` units to take (messages, or places for them).
//! When its mutex is released, this holds: a ticket waits only if `n` or more tickets are called.
//! Each operation that adds a unit, or in which a called ticket leaves, ends with a `settle`, which
//! makes that so again. A process enters its ticket under the same mutex under which it has found
//! nothing to take, so no unit comes in between. A called ticket belongs to a process that will
//! leave it: either it was woken and runs on, or a timeout, a kill or another case came first. Its
//! process leaves the ticket in any case, as that is the next thing it does. That a called process
//! wakes up: its wait in its scheduler exists before its ticket does, and a post to a VM is never
//! lost ([`baton_sys::parking`]). The post names that one wait, so a late one finds nothing. A VM
//! that has ended cannot leave its tickets: these are passed over, and what was reserved for one is
//! free again when the next process looks.
//!
//! **The mutex.** No thread waits, calls a guest, posts or frees a message while it holds the mutex
//! of an object. The thread that forks holds the mutexes of all objects
//! (`baton_sys::shared_mutex`).
//!
//! Explored by `tests/loom_shared.rs`, which needs no VM: the states know the process only as a
//! type with [`Sleep`].

pub mod channel;
#[cfg(not(loom))]
pub mod dict;
pub mod tickets;
pub mod words;

pub use channel::SharedChannel;
pub use tickets::{Sleep, Tickets, Wakes};
pub use words::Words;
