//! Reports on the scheduler's state.
//!
//! | file | what it does |
//! |---|---|
//! | `listing.rs` | states, and what each process waits for |
//! | `cycles.rs` | processes that wait for each other's locks |
//! | `naming.rs` | names of objects |
//! | `waits.rs` | texts for what processes wait for |
//! | `counters.rs` | counts |

pub(super) mod counters;
pub(super) mod cycles;
pub(super) mod listing;
pub(super) mod naming;
pub(super) mod waits;
