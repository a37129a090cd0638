//! The life of processes, and what is done to them from outside.
//!
//! | file | what it does |
//! |---|---|
//! | `spawn.rs` | spawn, exit, forget |
//! | `join.rs` | waits for the end of others |
//! | `suspend.rs`, `kill.rs`, `interrupt.rs` | stop a process, end it, end its wait |
//! | `critical.rs` | sections in which no other process runs |
//! | `fork.rs` | what is left of all in a fork's child |

pub(super) mod critical;
pub(super) mod fork;
pub(super) mod interrupt;
pub(super) mod join;
pub(super) mod kill;
pub(super) mod spawn;
pub(super) mod suspend;
