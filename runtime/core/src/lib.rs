//! The Baton runtime: preemptive processes for a single-threaded language VM. Knows no language and contains no unsafe code.
//!
//! | module | what it is |
//! |---|---|
//! | [`kernel`] | the scheduler as a plain state machine |
//! | [`vm`] | the executor: native threads, stacks, the VM lock, idle |
//! | [`monitor`] | watchdog and heartbeat |
//! | [`guest`] | what an interpreter owes to the runtime |
//! | [`spin`] | whether to spin before parking: pure policies |
//! | [`parameters`], [`counters`] | what can be set and seen |
#![forbid(unsafe_code)]

pub mod counters;
pub mod guest;
pub mod kernel;
pub mod monitor;
pub mod parameters;
pub mod spin;
pub mod vm;
