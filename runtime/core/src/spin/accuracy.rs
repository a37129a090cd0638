//! How often a policy was right, counted in the same way as by Chromium's message pump.

use super::{Ended, Spun, Wait};
use std::ops::Add;
use std::time::Duration;

/// Counts of the four outcomes of a wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accuracy {
    /// It spun, and the wait ended during the spin.
    pub true_positives: u64,
    /// It spun, and the wait did not end during the spin.
    pub false_positives: u64,
    /// It did not spin, and the wait was longer than the limit.
    pub true_negatives: u64,
    /// It did not spin, and the wait was short.
    pub false_negatives: u64,
}

impl Accuracy {
    /// Counts a wait. `limit` is how long a spin for it could have been.
    pub fn count(&mut self, wait: &Wait, limit: Duration) {
        let count = match wait.spun {
            Spun::Hit if wait.ended == Ended::Signalled => &mut self.true_positives,
            Spun::Hit | Spun::Failed(_) => &mut self.false_positives,
            Spun::Not if wait.waited > limit => &mut self.true_negatives,
            Spun::Not => &mut self.false_negatives,
        };
        *count += 1;
    }
}

impl Add for Accuracy {
    type Output = Accuracy;

    fn add(self, other: Accuracy) -> Accuracy {
        Accuracy {
            true_positives: self.true_positives + other.true_positives,
            false_positives: self.false_positives + other.false_positives,
            true_negatives: self.true_negatives + other.true_negatives,
            false_negatives: self.false_negatives + other.false_negatives,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spin::Source;

    fn counted(waits: &[(u64, Ended, Spun)]) -> Accuracy {
        let mut accuracy = Accuracy::default();
        for &(waited, ended, spun) in waits {
            let wait = Wait {
                source: Source::Outside,
                waited: Duration::from_micros(waited),
                ended,
                spun,
            };
            accuracy.count(&wait, Duration::from_millis(1));
        }
        accuracy
    }

    #[test]
    fn each_way_that_a_wait_can_go_has_its_count() {
        let expected = Accuracy {
            true_positives: 1,
            false_positives: 2,
            true_negatives: 1,
            false_negatives: 1,
        };
        let waits = [
            (300, Ended::Signalled, Spun::Hit),
            (300, Ended::Due, Spun::Hit),
            (
                1700,
                Ended::Signalled,
                Spun::Failed(Duration::from_millis(1)),
            ),
            (1001, Ended::Signalled, Spun::Not),
            (1000, Ended::Signalled, Spun::Not),
        ];
        assert_eq!(counted(&waits), expected);
    }

    #[test]
    fn the_counts_of_two_policies_add_up() {
        let one = counted(&[
            (300, Ended::Signalled, Spun::Hit),
            (1001, Ended::Signalled, Spun::Not),
        ]);
        let sum = one + one;
        assert_eq!((sum.true_positives, sum.true_negatives), (2, 2));
        assert_eq!((sum.false_positives, sum.false_negatives), (0, 0));
    }
}
