//! The cost of a park on this machine, learned from the time between a kick and the owner running.
//!
//! Parks differ. A processor that has just gone idle is back in 10 us. One in a deep sleep, or one
//! that its host has given away, takes 100 us. The decision to spin needs the usual upper bound:
//! the mean plus four times the mean deviation, as in TCP's retransmission timeout (RFC 6298). A
//! spin for the mean alone would miss events that come only a little later, and then pay for one of
//! the longer parks.

use std::time::Duration;

/// The assumption before the first park: the wake-up of a halted virtual CPU.
const ASSUMED: ParkCost = ParkCost {
    mean: Duration::from_micros(50),
    deviation: Duration::from_micros(8),
};
/// The least bound. A machine that wakes up faster needs no spinning.
const LEAST: Duration = Duration::from_micros(2);
/// The largest bound. Beyond it, the time was not the park's: another thread had the CPU.
const MOST: Duration = Duration::from_micros(200);

/// A sample counts as at most this many times the bound.
const OUTLIER: u32 = 2;
/// The newest sample has the weight 1 / `WEIGHT`.
const WEIGHT: u32 = 16;
/// How many mean deviations the bound is above the mean.
const DEVIATIONS: u32 = 4;

/// Moving averages, with outliers limited.
#[derive(Debug)]
pub struct ParkCost {
    mean: Duration,
    /// The mean difference from the mean.
    deviation: Duration,
}

impl ParkCost {
    /// The cost of parks that have always taken `cost`.
    pub fn steady(cost: Duration) -> ParkCost {
        ParkCost {
            mean: cost,
            deviation: Duration::ZERO,
        }
    }

    /// The usual upper bound of a park's cost.
    pub fn bound(&self) -> Duration {
        (self.mean + self.deviation * DEVIATIONS).clamp(LEAST, MOST)
    }

    /// The mean cost of a park.
    pub fn mean(&self) -> Duration {
        self.mean
    }

    /// Learns from a park that took `took` from the kick until the owner ran.
    pub fn learn(&mut self, took: Duration) {
        let sample = took.min(self.bound() * OUTLIER).clamp(LEAST, MOST);
        let moved =
            |average: Duration, sample: Duration| (average * (WEIGHT - 1) + sample) / WEIGHT;
        self.deviation = moved(self.deviation, sample.abs_diff(self.mean));
        self.mean = moved(self.mean, sample);
    }
}

impl Default for ParkCost {
    fn default() -> ParkCost {
        ASSUMED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(times: usize, samples: &[u64]) -> ParkCost {
        let mut cost = ParkCost::default();
        for &micros in samples.iter().cycle().take(times) {
            cost.learn(Duration::from_micros(micros));
        }
        cost
    }

    fn near(measured: Duration, micros: f64) -> bool {
        (measured.as_secs_f64() * 1e6 - micros).abs() < 2.0
    }

    #[test]
    fn the_estimate_approaches_the_samples() {
        for micros in [5, 20, 120] {
            let cost = after(300, &[micros]);
            assert!(near(cost.mean(), micros as f64), "{cost:?} for {micros} us");
            assert!(
                near(cost.bound(), micros as f64),
                "{cost:?} for {micros} us"
            );
        }
    }

    #[test]
    fn where_parks_differ_the_bound_lies_four_mean_deviations_above_the_mean() {
        let cost = after(1000, &[20, 40]);
        assert!(near(cost.mean(), 30.0), "{cost:?}");
        assert!(near(cost.bound(), 70.0), "{cost:?}");
    }

    #[test]
    fn one_park_that_took_a_second_changes_little() {
        let before = ParkCost::default().bound();
        let mut cost = ParkCost::default();
        cost.learn(Duration::from_secs(1));
        assert!(cost.bound() < before * 3 / 2, "{cost:?}");
    }

    #[test]
    fn it_stays_within_its_bounds() {
        let mut cost = ParkCost::default();
        for _ in 0..1000 {
            cost.learn(Duration::ZERO);
        }
        assert_eq!(cost.bound(), LEAST);
        for _ in 0..1000 {
            cost.learn(Duration::MAX);
        }
        assert_eq!(cost.bound(), MOST);
    }
}
