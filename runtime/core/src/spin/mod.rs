//! Spin policies: whether the owner spins before it parks, and for how long.
//!
//! The policies are pure: they get times as values and return decisions as values. The idle wait of
//! [`vm`](crate::vm) carries them out. It asks a policy before each wait, and afterwards reports
//! how the wait went.
//!
//! | file | what it does |
//! |---|---|
//! | `off.rs` | never spins |
//! | `ema.rs` | Chromium's rule: the last wait and a moving average against a fixed limit |
//! | `learned.rs` | spins as long as it has paid off, at most a park's cost, in a budget |
//! | `accuracy.rs` | how often a policy was right |
//! | `histogram.rs`, `ledger.rs`, `budget.rs`, `park_cost.rs` | the parts of `learned` |
//! | `surroundings.rs` | whether spinning is acceptable on this machine |
//! | `chooser.rs` | the policy that the user has chosen |
//! | `replay.rs` | what a policy costs on a recorded trace, compared with the optimum |
//!
//! **The price of a wait.** Let `w` be the length of a wait, `t` the longest spin for it, and `C`
//! the cost of a park. `C` is the usual upper bound of the time from the kick until the owner runs
//! (`park_cost.rs`). The wait costs `w` if it ends during the spin, and `t + C` otherwise. With `w`
//! known beforehand, the optimum is the smaller of `w` and `C`. Always spinning for `C` never costs
//! more than twice that. No fixed `t` has a better bound (Karlin et al., "Competitive randomized
//! algorithms for nonuniform problems", 1994).

pub mod accuracy;
pub mod budget;
pub mod chooser;
pub mod ema;
pub mod histogram;
pub mod learned;
pub mod ledger;
pub mod off;
pub mod park_cost;
pub mod replay;
pub mod surroundings;

pub use accuracy::Accuracy;
pub use chooser::{Chooser, Settings, Tally};
pub use ema::Ema;
pub use learned::Learned;
pub use off::Off;

use baton_sys::clock::Instant;
use std::time::Duration;

/// The names of the policies, for users.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PolicyName {
    /// [`Off`].
    Off,
    /// [`Ema`].
    Ema,
    /// [`Learned`].
    Learned,
}

impl PolicyName {
    /// All of them, in the order of their numbers.
    pub const ALL: [PolicyName; 3] = [PolicyName::Off, PolicyName::Ema, PolicyName::Learned];
}

/// What to do before a park.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Park at once.
    Park,
    /// Spin for at most this long, which is more than zero.
    Spin(Duration),
}

impl Decision {
    /// [`Decision::Spin`] for `limit`, or [`Decision::Park`] if it is zero.
    pub fn spin(limit: Duration) -> Decision {
        if limit.is_zero() {
            Decision::Park
        } else {
            Decision::Spin(limit)
        }
    }

    /// This decision, limited by the earliest deadline.
    pub fn until_due(self, due_in: Option<Duration>) -> Decision {
        match (self, due_in) {
            (Decision::Spin(limit), Some(due_in)) => Decision::spin(limit.min(due_in)),
            _ => self,
        }
    }

    /// The longest spin that it allows.
    pub fn limit(self) -> Duration {
        match self {
            Decision::Park => Duration::ZERO,
            Decision::Spin(limit) => limit,
        }
    }
}

/// The events that can end a wait. Each source has its own statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Foreign calls are out and may return.
    Calls,
    /// Only other threads, signals and descriptors.
    Outside,
}

impl Source {
    /// The number of sources.
    pub const COUNT: usize = 2;
}

/// What is known when a wait begins.
#[derive(Clone, Copy, Debug)]
pub struct Outlook {
    /// The present time.
    pub now: Instant,
    /// The events that can end the wait.
    pub source: Source,
    /// How long until the earliest deadline.
    pub due_in: Option<Duration>,
}

/// What ended a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// An event from outside.
    Signalled,
    /// A deadline.
    Due,
}

/// The result of the spin before a park.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spun {
    /// There was no spin.
    Not,
    /// The wait ended during the spin: the owner did not park.
    Hit,
    /// The spin failed after this long, and the owner parked.
    Failed(Duration),
}

/// A wait that has ended. Spin and park together are one wait.
#[derive(Clone, Copy, Debug)]
pub struct Wait {
    /// The events that could have ended it.
    pub source: Source,
    /// From its beginning until the event that ended it, without the time to wake up.
    pub waited: Duration,
    /// What ended it.
    pub ended: Ended,
    /// How its spin went.
    pub spun: Spun,
}

/// A policy decides before each wait, and learns from it afterwards.
pub trait Policy {
    /// Decides what to do before the wait that begins now.
    fn decide(&mut self, outlook: Outlook) -> Decision;

    /// Learns from a wait. Called after it, before the next [`Policy::decide`].
    fn learn(&mut self, wait: Wait);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spin_ends_at_the_limit_or_at_the_deadline_whichever_is_first() {
        let (short, long) = (Duration::from_micros(5), Duration::from_micros(50));
        assert_eq!(
            Decision::Spin(long).until_due(Some(short)),
            Decision::Spin(short)
        );
        assert_eq!(
            Decision::Spin(short).until_due(Some(long)),
            Decision::Spin(short)
        );
        assert_eq!(Decision::Spin(short).until_due(None), Decision::Spin(short));
        assert_eq!(Decision::Park.until_due(Some(long)), Decision::Park);
    }

    #[test]
    fn nothing_is_spun_for_when_a_deadline_is_past() {
        let spin = Decision::Spin(Duration::from_micros(5));
        assert_eq!(spin.until_due(Some(Duration::ZERO)), Decision::Park);
        assert_eq!(Decision::spin(Duration::ZERO), Decision::Park);
    }
}
