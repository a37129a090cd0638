//! Chromium's rule, unchanged, from its message pump (change list 6088387, "busy loop" of the
//! message pump).
//!
//! It keeps the last wait and an exponential moving average of all waits, spin and sleep together,
//! however they ended. It spins while the last wait *or* the average is below a limit; Chromium
//! launched it with 2 ms. The limit is far above the cost of a park. So waits just below it keep a
//! whole CPU busy, which is why this is not the default.

use super::{Accuracy, Decision, Outlook, Policy, Wait};
use std::time::Duration;

/// Weight of the old average, in tenths. The new wait has the rest.
const KEPT: u32 = 9;

/// The rule's state: times, counts and the limit. A new one spins.
#[derive(Debug, Default)]
pub struct Ema {
    limit: Duration,
    last: Duration,
    average: Duration,
    accuracy: Accuracy,
}

impl Ema {
    /// Creates a rule that spins for `limit`; zero turns it off.
    pub fn new(limit: Duration) -> Ema {
        Ema {
            limit,
            ..Ema::default()
        }
    }

    /// Sets the limit, and keeps what was learned.
    pub fn set_limit(&mut self, limit: Duration) {
        self.limit = limit;
    }

    /// How often it was right so far.
    pub fn accuracy(&self) -> Accuracy {
        self.accuracy
    }

    fn should_spin(&self) -> bool {
        !self.limit.is_zero() && (self.last < self.limit || self.average < self.limit)
    }
}

impl Policy for Ema {
    fn decide(&mut self, outlook: Outlook) -> Decision {
        if self.should_spin() {
            Decision::Spin(self.limit).until_due(outlook.due_in)
        } else {
            Decision::Park
        }
    }

    fn learn(&mut self, wait: Wait) {
        self.accuracy.count(&wait, self.limit);
        self.last = wait.waited;
        self.average = (self.average * KEPT + wait.waited) / (KEPT + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spin::{Ended, Source, Spun};
    use baton_sys::clock::Instant;

    const fn us(n: u64) -> Duration {
        Duration::from_micros(n)
    }

    fn decide(rule: &mut Ema, due_in: Option<Duration>) -> Decision {
        rule.decide(Outlook {
            now: Instant::from_nanos(0),
            source: Source::Outside,
            due_in,
        })
    }

    fn wait(rule: &mut Ema, waited: Duration, ended: Ended, spun: Spun) {
        rule.learn(Wait {
            source: Source::Outside,
            waited,
            ended,
            spun,
        });
    }

    /// Lets the rule decide, and ends the wait from outside after `waited`.
    fn signal_after(rule: &mut Ema, waited: Duration) {
        let spun = match decide(rule, None) {
            Decision::Park => Spun::Not,
            Decision::Spin(limit) if waited <= limit => Spun::Hit,
            Decision::Spin(limit) => Spun::Failed(limit),
        };
        wait(rule, waited, Ended::Signalled, spun);
    }

    fn spins(rule: &mut Ema) -> bool {
        decide(rule, None) != Decision::Park
    }

    #[test]
    fn without_a_limit_it_never_spins() {
        let mut rule = Ema::default();
        assert!(!spins(&mut rule));
        signal_after(&mut rule, us(1));
        assert!(!spins(&mut rule));
    }

    #[test]
    fn a_new_rule_spins_until_the_limit_or_the_next_deadline() {
        let mut rule = Ema::new(us(1000));
        assert_eq!(decide(&mut rule, None), Decision::Spin(us(1000)));
        assert_eq!(decide(&mut rule, Some(us(3000))), Decision::Spin(us(1000)));
        assert_eq!(decide(&mut rule, Some(us(400))), Decision::Spin(us(400)));
    }

    #[test]
    fn ten_long_waits_stop_it_one_short_wait_starts_it_and_a_longer_one_stops_it_again() {
        let mut rule = Ema::new(us(1000));
        for _ in 0..10 {
            signal_after(&mut rule, us(10_000));
        }
        assert!(!spins(&mut rule));
        signal_after(&mut rule, us(670));
        assert!(spins(&mut rule), "the last wait is short");
        signal_after(&mut rule, us(1500));
        assert!(!spins(&mut rule), "neither the last one nor the average is");
    }

    #[test]
    fn after_a_hundred_short_waits_one_longer_does_not_stop_it() {
        let mut rule = Ema::new(us(1000));
        for _ in 0..100 {
            signal_after(&mut rule, us(100));
        }
        assert!(spins(&mut rule));
        signal_after(&mut rule, us(1500));
        assert!(spins(&mut rule), "the average is short");
    }

    #[test]
    fn a_wait_of_just_the_limit_is_long() {
        let mut rule = Ema::new(us(1000));
        for _ in 0..400 {
            signal_after(&mut rule, us(1000));
        }
        // The average approaches the limit from below, and reaches it only by rounding.
        rule.average = us(1000);
        assert!(!spins(&mut rule));
        wait(&mut rule, us(999), Ended::Signalled, Spun::Not);
        assert!(spins(&mut rule));
    }

    #[test]
    fn waits_that_a_timer_ended_count_as_any_other() {
        let mut rule = Ema::new(us(1000));
        for _ in 0..10 {
            wait(&mut rule, us(10_000), Ended::Due, Spun::Not);
        }
        assert!(!spins(&mut rule));
    }

    #[test]
    fn it_counts_how_often_it_was_right() {
        let mut rule = Ema::new(us(1000));
        wait(&mut rule, us(300), Ended::Signalled, Spun::Hit);
        wait(&mut rule, us(300), Ended::Due, Spun::Hit);
        wait(
            &mut rule,
            us(1700),
            Ended::Signalled,
            Spun::Failed(us(1000)),
        );
        wait(&mut rule, us(1001), Ended::Signalled, Spun::Not);
        wait(&mut rule, us(1000), Ended::Signalled, Spun::Not);
        let expected = Accuracy {
            true_positives: 1,
            false_positives: 2,
            true_negatives: 1,
            false_negatives: 1,
        };
        assert_eq!(rule.accuracy(), expected);
    }

    #[test]
    fn the_limit_can_be_changed_while_it_runs() {
        let mut rule = Ema::new(us(1000));
        rule.set_limit(us(10));
        assert_eq!(decide(&mut rule, None), Decision::Spin(us(10)));
        rule.set_limit(Duration::ZERO);
        assert!(!spins(&mut rule));
    }
}
