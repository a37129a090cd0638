//! The life of processes: start, end, and operations on other processes.
//!
//! | file | what it does |
//! |---|---|
//! | `spawn.rs` | spawn, exit, forget |
//! | `join.rs` | waiting for the end of others; sleeping |
//! | `suspend.rs`, `kill.rs`, `interrupt.rs` | stop a process, end it, end its wait |
//! | `critical.rs` | sections in which no other process runs |
//! | `fork.rs` | the processes in a fork's child |

pub(super) mod critical;
pub(super) mod fork;
pub(super) mod interrupt;
pub(super) mod join;
pub(super) mod kill;
pub(super) mod spawn;
pub(super) mod suspend;
