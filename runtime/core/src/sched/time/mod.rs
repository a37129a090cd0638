//! Deadlines, timers, alarms, due times.
//!
//! | file | what it does |
//! |---|---|
//! | `deadlines.rs` | the heap of deadlines |
//! | `timer.rs` | timers: they start processes at given times |
//! | `alarm.rs` | alarms: times that processes wait for |
//! | `due_time.rs` | due times: the order of equals |

pub(super) mod alarm;
pub(super) mod deadlines;
pub(super) mod due_time;
pub(super) mod timer;
