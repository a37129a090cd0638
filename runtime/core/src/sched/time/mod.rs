//! Times.
//!
//! | file | what it does |
//! |---|---|
//! | `deadlines.rs` | the heap of deadlines |
//! | `timer.rs` | processes that are fired by time |
//! | `alarm.rs` | times that processes wait for |
//! | `due_time.rs` | the order of equals by their due times |

pub(super) mod alarm;
pub(super) mod deadlines;
pub(super) mod due_time;
pub(super) mod timer;
