//! Reports on the scheduler's state.
//!
//! | file | what it does |
//! |---|---|
//! | `listing.rs` | states, and what each process waits for |
//! | `census.rs` | all processes at one instant: what each waits for, and who may end that |
//! | `objects.rs`, `labels.rs` | waits by object, and texts for them |
//! | `rings.rs` | processes that wait for each other, as far as that can be known |
//! | `cycles.rs` | processes that wait for each other's locks |
//! | `naming.rs` | names of objects |
//! | `waits.rs` | texts for what processes wait for |
//! | `counters.rs` | counts |

pub(super) mod census;
pub(super) mod counters;
pub(super) mod cycles;
pub(super) mod labels;
pub(super) mod listing;
pub(super) mod naming;
pub(super) mod objects;
pub(super) mod rings;
pub(super) mod waits;
