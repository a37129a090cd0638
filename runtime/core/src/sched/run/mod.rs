//! The run queue, and the choice of the next process.
//!
//! | file | what it does |
//! |---|---|
//! | `run_queue.rs` | the runnable processes: a ring for each priority |
//! | `choose.rs` | chooses: schedule, yield, preempt |
//! | `handoff.rs` | direct switches in the common case |
//! | `priority.rs` | priorities, and their inheritance from waiting processes |
//! | `decay.rs` | processes that sink a level while they compute |
//! | `carriers.rs` | native threads: which process may run on which |

pub(super) mod carriers;
pub(super) mod choose;
pub(super) mod decay;
pub(super) mod handoff;
pub(super) mod priority;
pub(super) mod run_queue;
