//! What was paid for waits beside twice what hindsight would have paid.
//!
//! It keeps the debt `D`, the sum of `paid - 2 * optimum`. A spin of `t < C` can add at most `C -
//! t` to it, namely when the wait ends just after the spin: it pays `t + C` where `2 t` was
//! allowed. A spin of `C` cannot add anything: it pays `w` if it hits and `2 C` if not. So as long
//! as each spin shorter than `C` fits under the allowance, and all others last for `C`, `D` stays
//! under the allowance whatever comes.

use super::{Ended, Spun, Wait};
use std::time::Duration;

/// The debt that is never exceeded by choice. Far below 1 ms, the bound for a minute.
const ALLOWANCE_NANOS: i64 = 400_000;

/// Credit is kept up to here: a quiet hour is no licence to be wrong for as long.
const CREDIT_NANOS: i64 = 10_000_000;

/// The account.
#[derive(Debug, Default)]
pub struct Ledger {
    /// Nanoseconds.
    debt: i64,
}

/// Whether a length of spin keeps the promise.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freedom {
    /// Any length may be tried.
    Free,
    /// Only spinning for what a park costs is safe.
    BreakEven,
}

impl Ledger {
    /// Whether a spin of `limit` may be tried where a park costs `park_cost`.
    pub fn freedom(&self, limit: Duration, park_cost: Duration) -> Freedom {
        if self.debt + nanos(park_cost.saturating_sub(limit)) <= ALLOWANCE_NANOS {
            Freedom::Free
        } else {
            Freedom::BreakEven
        }
    }

    /// Books a wait. One that a timer ended says nothing of what was to come, so only what was spun
    /// in vain is booked.
    pub fn book(&mut self, wait: &Wait, park_cost: Duration) {
        let optimum = nanos(wait.waited.min(park_cost));
        let change = match (wait.spun, wait.ended) {
            (Spun::Hit, _) => -optimum,
            (Spun::Failed(spun), Ended::Due) => nanos(spun),
            (Spun::Not, Ended::Due) => 0,
            (Spun::Failed(spun), Ended::Signalled) => nanos(spun) + nanos(park_cost) - 2 * optimum,
            (Spun::Not, Ended::Signalled) => nanos(park_cost) - 2 * optimum,
        };
        self.debt = self.debt.saturating_add(change).max(-CREDIT_NANOS);
    }
}

fn nanos(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX / 4)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spin::Source;

    const COST: Duration = Duration::from_micros(50);

    fn wait(waited: u64, spun: Spun, ended: Ended) -> Wait {
        Wait {
            source: Source::Outside,
            waited: Duration::from_micros(waited),
            ended,
            spun,
        }
    }

    #[test]
    fn parking_for_short_waits_ends_the_freedom_and_long_waits_restore_it() {
        let mut ledger = Ledger::default();
        let mut parked = 0;
        while ledger.freedom(Duration::ZERO, COST) == Freedom::Free {
            ledger.book(&wait(1, Spun::Not, Ended::Signalled), COST);
            parked += 1;
            assert!(parked < 20, "the allowance is a few parks");
        }
        assert_eq!(
            ledger.freedom(COST, COST),
            Freedom::Free,
            "break-even is always safe"
        );
        ledger.book(&wait(1000, Spun::Not, Ended::Signalled), COST);
        assert_eq!(ledger.freedom(Duration::ZERO, COST), Freedom::Free);
    }

    #[test]
    fn a_spin_for_what_a_park_costs_never_adds_to_the_debt() {
        for waited in [1, 49, 50, 51, 10_000] {
            let mut ledger = Ledger::default();
            let spun = if waited <= 50 {
                Spun::Hit
            } else {
                Spun::Failed(COST)
            };
            ledger.book(&wait(waited, spun, Ended::Signalled), COST);
            assert!(ledger.debt <= 0, "a wait of {waited} us");
        }
    }

    #[test]
    fn credit_is_limited() {
        let mut ledger = Ledger::default();
        for _ in 0..1_000_000 {
            ledger.book(&wait(1000, Spun::Not, Ended::Signalled), COST);
        }
        assert_eq!(ledger.debt, -CREDIT_NANOS);
    }

    #[test]
    fn a_timer_costs_no_more_than_what_was_spun_for_it() {
        let mut ledger = Ledger::default();
        ledger.book(&wait(1, Spun::Not, Ended::Due), COST);
        assert_eq!(ledger.debt, 0);
        ledger.book(&wait(100, Spun::Failed(COST), Ended::Due), COST);
        assert_eq!(ledger.debt, 50_000);
    }
}
