//! The owner's wait when no process is runnable, and events from outside.
//!
//! | file | what it does |
//! |---|---|
//! | `inbox.rs` | posts of other threads; deadlines; the idle owner |
//! | `wait.rs` | the owner's wait: spinning, then parking |
//! | `others.rs` | whether the VMs of a program can only wait for each other |
//! | `spin_permits.rs` | limits how many owners spin at once |
//! | `descriptors.rs` | waiting for descriptors |

pub(super) mod descriptors;
pub(super) mod inbox;
pub(super) mod others;
pub(super) mod spin_permits;
pub(super) mod wait;
