//! What a park costs on this machine: learned from the time between a kick and the owner running again.

use std::time::Duration;

/// What it is taken for before it was seen: a wake-up of a halted virtual CPU.
const ASSUMED: Duration = Duration::from_micros(50);
/// A machine that wakes faster than this needs no spinning.
const LEAST: Duration = Duration::from_micros(2);
/// Beyond this it was not the park that took so long, but whoever else had the CPU.
const MOST: Duration = Duration::from_micros(200);

/// One sample counts as at most this many times the estimate.
const OUTLIER: u32 = 4;
/// The newest sample's weight is one in so many.
const WEIGHT: u32 = 16;

/// A moving average that outliers cannot carry away.
#[derive(Debug)]
pub struct ParkCost {
    estimate: Duration,
}

impl ParkCost {
    /// What a park costs, as far as is known.
    pub fn estimate(&self) -> Duration {
        self.estimate
    }

    /// A park took `took` from the kick to the owner running.
    pub fn learn(&mut self, took: Duration) {
        let sample = took.min(self.estimate * OUTLIER);
        let mean = (self.estimate * (WEIGHT - 1) + sample) / WEIGHT;
        self.estimate = mean.clamp(LEAST, MOST);
    }
}

impl Default for ParkCost {
    fn default() -> ParkCost {
        ParkCost { estimate: ASSUMED }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_comes_near_what_is_seen() {
        for micros in [5, 20, 120] {
            let mut cost = ParkCost::default();
            for _ in 0..200 {
                cost.learn(Duration::from_micros(micros));
            }
            let estimate = cost.estimate().as_secs_f64() * 1e6;
            assert!((estimate - micros as f64).abs() < 0.5, "{estimate} for {micros} us");
        }
    }

    #[test]
    fn one_park_that_took_a_second_changes_little() {
        let mut cost = ParkCost::default();
        cost.learn(Duration::from_secs(1));
        assert!(cost.estimate() < ASSUMED * 5 / 4);
    }

    #[test]
    fn it_stays_within_its_bounds() {
        let mut cost = ParkCost::default();
        for _ in 0..1000 {
            cost.learn(Duration::ZERO);
        }
        assert_eq!(cost.estimate(), LEAST);
        for _ in 0..1000 {
            cost.learn(Duration::MAX);
        }
        assert_eq!(cost.estimate(), MOST);
    }
}
