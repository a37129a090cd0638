//! How a running process is made to give way.
//!
//! | file | what it does |
//! |---|---|
//! | `monitor.rs` | the program's one auxiliary thread: when it polls |
//! | `next_poll.rs` | when a VM wants the next poll |
//! | `preempter.rs` | what the monitor does for one VM |
//! | `watch.rs` | what it remembers of a VM between two polls |
//! | `request.rs` | its requests to the running process, and their pace |
//! | `stall.rs` | a process that does not give way, of which the user is told |
//! | `hints.rs` | what the owner shows the monitor |
//! | `wake_up.rs` | how the owner wakes the monitor, and calls that off |

pub(super) mod hints;
pub(super) mod monitor;
pub(super) mod next_poll;
pub(super) mod preempter;
pub(super) mod request;
pub(super) mod stall;
pub(super) mod wake_up;
pub(super) mod watch;
