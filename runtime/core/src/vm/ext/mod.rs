//! What goes beyond running processes.
//!
//! | file | what it does |
//! |---|---|
//! | `hooks.rs` | a scheduler and switch hooks of the guest's users |
//! | `simulation.rs` | runs that a seed gives again |
//! | `fork.rs` | what is left of the VM in a fork's child |
//! | `waker.rs` | what signal handlers may call to wake a process |

pub(super) mod fork;
pub(super) mod hooks;
pub(super) mod simulation;
pub(super) mod waker;
