//! From one process to the next, and how long each may run.
//!
//! | file | what it does |
//! |---|---|
//! | `fast_path.rs` | switches where little is to be decided |
//! | `slow_path.rs` | all others, and safepoints |
//! | `jump.rs` | a switch that has been decided |
//! | `slices.rs` | slices of a process's own length |
//! | `deficit.rs` | the ends of slices, and what overruns cost |
//! | `cpu_time.rs` | how much of the time of its runs a process computed |

pub(super) mod cpu_time;
pub(super) mod deficit;
pub(super) mod fast_path;
pub(super) mod jump;
pub(super) mod slices;
pub(super) mod slow_path;
