//! Preemption: how a running process is made to give way.
//!
//! | file | what it does |
//! |---|---|
//! | `monitor.rs` | the program's one auxiliary thread: when it polls |
//! | `next_poll.rs` | when a VM wants the next poll |
//! | `poll.rs` | one poll of one VM: what it reads, and what it carries out |
//! | `decide.rs` | what a poll decides: a pure function, without a clock or a thread |
//! | `request.rs` | of that: preempt requests to the running process, and their pace |
//! | `stall.rs` | of that: detects a process that does not give way, for a warning |
//! | `obstacle.rs` | what keeps signals from preempting a process, and warnings of it |
//! | `hints.rs` | hints that the owner writes for the monitor |
//! | `wake_up.rs` | wake-ups of the monitor by the owner |

pub(super) mod decide;
pub(super) mod hints;
pub(super) mod monitor;
pub(super) mod next_poll;
mod obstacle;
mod poll;
mod request;
mod stall;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_of_calls;
#[cfg(test)]
mod tests_of_stalls;
#[cfg(test)]
mod tests_of_stints;
pub(super) mod wake_up;
