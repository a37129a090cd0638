//! Whether the owner spins before it parks, and for how long.
//!
//! Everything here is pure: times come in as values, and answers go out as values;
//! [`vm`](crate::vm)'s idle carries them out. A policy is asked before each wait and told
//! afterwards how the wait went.
//!
//! | file | what it does |
//! |---|---|
//! | `off.rs` | never spins |
//! | `ema.rs` | Chromium's rule: the last wait and a moving average against a fixed limit |
//! | `learned.rs` | spins as long as it paid off so far, at most what a park costs, in a budget |
//! | `accuracy.rs` | how often a policy was right |
//! | `histogram.rs`, `ledger.rs`, `budget.rs`, `park_cost.rs` | what `learned` consists of |
//! | `surroundings.rs` | whether this machine is one to spin on at all |
//! | `chooser.rs` | the policy that the user has chosen |
//! | `replay.rs` | what a policy pays for a recorded trace, beside what hindsight would pay |
//!
//! **The price of a wait.** A wait of length `w` met by a spin of at most `t` costs `w` if it ends
//! in time, and `t + C` if not, where `C` is what parking costs: the time from the kick to the
//! owner running again, at most as a rule (`park_cost.rs`). Who knew `w` beforehand would pay the
//! smaller of `w` and `C`. Always spinning for `C` never pays more than twice that, and no fixed
//! choice is safer (Karlin et al., "Competitive randomized algorithms for nonuniform problems",
//! 1994).

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

/// The policies, as users choose among them.
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

/// What to do before parking.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Nothing.
    Park,
    /// Spin at most this long, which is more than zero.
    Spin(Duration),
}

impl Decision {
    /// Spinning for `limit`, if that is any time at all.
    pub fn spin(limit: Duration) -> Decision {
        if limit.is_zero() {
            Decision::Park
        } else {
            Decision::Spin(limit)
        }
    }

    /// Not beyond the time at which something is due.
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

/// Who can end a wait; each source has habits of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Foreign calls are out: they return.
    Calls,
    /// Other threads, signals and descriptors alone.
    Outside,
}

impl Source {
    /// How many there are.
    pub const COUNT: usize = 2;
}

/// What is known when a wait begins.
#[derive(Clone, Copy, Debug)]
pub struct Outlook {
    /// The present time.
    pub now: Instant,
    /// Who can end the wait.
    pub source: Source,
    /// How long until the earliest deadline.
    pub due_in: Option<Duration>,
}

/// What ended a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Somebody from outside.
    Signalled,
    /// A deadline.
    Due,
}

/// How the spin before a park went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spun {
    /// There was none.
    Not,
    /// The wait ended while the owner spun: it did not park.
    Hit,
    /// It lasted this long for nothing, and the owner parked.
    Failed(Duration),
}

/// A wait that is over. Spin and park together are one wait.
#[derive(Clone, Copy, Debug)]
pub struct Wait {
    /// Who could have ended it.
    pub source: Source,
    /// From its beginning until what ended it came, without the time that it took to wake up.
    pub waited: Duration,
    /// What ended it.
    pub ended: Ended,
    /// How its spin went.
    pub spun: Spun,
}

/// Decides before each wait, and learns from it afterwards.
pub trait Policy {
    /// What to do before the wait that begins now.
    fn decide(&mut self, outlook: Outlook) -> Decision;

    /// A wait is over; the next [`Policy::decide`] comes after it.
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
