//! Preemption: how a running process is made to give way.
//!
//! | file | what it does |
//! |---|---|
//! | `monitor.rs` | the program's one auxiliary thread: when it polls |
//! | `next_poll.rs` | when a VM wants the next poll |
//! | `preempter.rs` | what a poll does for one VM |
//! | `watch.rs` | what the monitor remembers of a VM between two polls |
//! | `request.rs` | preempt requests to the running process, and their pace |
//! | `stall.rs` | detects a process that does not give way, for a warning |
//! | `hints.rs` | hints that the owner writes for the monitor |
//! | `wake_up.rs` | wake-ups of the monitor by the owner |

pub(super) mod hints;
pub(super) mod monitor;
pub(super) mod next_poll;
pub(super) mod preempter;
pub(super) mod request;
pub(super) mod stall;
pub(super) mod wake_up;
pub(super) mod watch;
