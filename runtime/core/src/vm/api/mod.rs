//! What a guest's running processes may do. All of it inside the VM.
//!
//! | file | what it does |
//! |---|---|
//! | `operations.rs` | yield, wait, suspend, kill; questions about a process |
//! | `uncontended.rs` | semaphores and channels where nothing is to be decided |
//! | `spawn.rs` | new processes, their stacks, and the end of what is kept of them |
//! | `select.rs` | waits for one of several objects, descriptors among them |

pub(super) mod operations;
pub(super) mod select;
pub(super) mod spawn;
pub(super) mod uncontended;
