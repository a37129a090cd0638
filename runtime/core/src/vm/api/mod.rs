//! Operations that a guest calls for its running processes. All are called inside the VM.
//!
//! | file | what it does |
//! |---|---|
//! | `operations.rs` | yield, wait, suspend, kill; queries about a process |
//! | `first_look.rs` | semaphores, channels and events, by one look at the object |
//! | `conditions.rs` | signals of conditions |
//! | `spawn.rs` | new processes, their stacks, and forgetting dead processes |
//! | `parameters.rs` | changed parameters |
//! | `select.rs` | waits for one of several objects, descriptors among them |
//! | `shared.rs` | waits for objects that several VMs share |

mod conditions;
pub(super) mod first_look;
pub(super) mod operations;
pub(super) mod parameters;
pub(super) mod select;
pub(in crate::vm) mod shared;
pub(super) mod spawn;
