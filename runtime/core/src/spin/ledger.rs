//! The account of costs against twice the offline optimum.
//!
//! It keeps the debt `D`, the sum of `paid - 2 * optimum`. A spin of `t < C` adds most when the
//! wait ends just after it: then it pays `t + C`, `2 t` was allowed, and `D` grows by `C - t`. A
//! spin of `C` can add nothing: it pays `w` if it succeeds and `2 C` if not. So `D` stays below the
//! allowance in every case if each spin shorter than `C` fits below the allowance, and all others
//! last for `C`.

use super::{Ended, Spun, Wait};
use std::time::Duration;

/// The largest debt that decisions may cause. Far below the promised 1 ms per minute.
const ALLOWANCE_NANOS: i64 = 400_000;

/// The largest credit that is kept, so that a long quiet time does not allow as much loss.
const CREDIT_NANOS: i64 = 10_000_000;

/// The account.
#[derive(Debug, Default)]
pub struct Ledger {
    /// In nanoseconds; negative: credit.
    debt: i64,
}

/// Which lengths of spin keep the promise.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freedom {
    /// Any length.
    Free,
    /// Only spinning for as long as a park costs.
    BreakEven,
}

impl Ledger {
    /// Whether a spin of `limit` keeps the promise, if a park costs `park_cost`.
    pub fn freedom(&self, limit: Duration, park_cost: Duration) -> Freedom {
        if self.debt + nanos(park_cost.saturating_sub(limit)) <= ALLOWANCE_NANOS {
            Freedom::Free
        } else {
            Freedom::BreakEven
        }
    }

    /// Books a wait. If a timer ended it, only the failed spin is booked, as the wait predicts
    /// nothing.
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
        for _ in 0..if cfg!(miri) { 1_000 } else { 1_000_000 } {
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
