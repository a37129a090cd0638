//! Switches from one process to the next, and slices.
//!
//! | file | what it does |
//! |---|---|
//! | `fast_path.rs` | switches between two processes on home, without a slow reason |
//! | `slow_path.rs` | all other switches, and safepoints |
//! | `slices.rs` | slices of a process's own length |
//! | `deficit.rs` | the ends of slices, and slice deficits |
//! | `cpu_time.rs` | how much of its running time a process computed |

pub(super) mod cpu_time;
pub(super) mod deficit;
pub(super) mod fast_path;
pub(super) mod slices;
pub(super) mod slow_path;
#[cfg(test)]
mod twins;
