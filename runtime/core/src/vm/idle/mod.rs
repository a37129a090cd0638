//! What the owner does when nothing is runnable, and what comes in from outside.
//!
//! | file | what it does |
//! |---|---|
//! | `inbox.rs` | posts of other threads; deadlines; when nothing is runnable |
//! | `wait.rs` | the owner's wait: spinning, then parking |
//! | `spin_permits.rs` | how many owners may spin at once |
//! | `descriptors.rs` | waiting for descriptors |

pub(super) mod descriptors;
pub(super) mod inbox;
pub(super) mod spin_permits;
pub(super) mod wait;
