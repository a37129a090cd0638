//! A decayed histogram of waits. It estimates what a spin of each length would have cost lately.

use std::time::Duration;

/// Bins per doubling. More bins choose better lengths and take longer to fill.
const PER_OCTAVE: i32 = 4;
/// Bins from 0.5 us to 256 us, which is more than the longest spin.
const BINS: usize = 9 * PER_OCTAVE as usize + 1;
const FIRST_EDGE_NANOS: f32 = 500.0;

/// How much more a wait weighs than the one before it: about the last 32 count.
const GROWTH: f32 = 32.0 / 31.0;
/// All weights are scaled down when the newest wait has this weight.
const HEAVIEST: f32 = 1e9;

/// The weight of one initial long wait, before anything was seen.
const PRIOR: f32 = 0.25;

/// Weights of waits by their length; recent waits weigh more.
#[derive(Debug)]
pub struct Histogram {
    /// The inclusive upper edge of each bin, in nanoseconds.
    edges: [f32; BINS],
    weights: [f32; BINS],
    /// Total weight of all bins.
    within: f32,
    /// Weight of the waits longer than the last edge.
    beyond: f32,
    /// The weight of the next wait.
    newest: f32,
}

impl Histogram {
    /// Creates an empty histogram.
    pub fn new() -> Histogram {
        let edge = |bin: usize| FIRST_EDGE_NANOS * f32::powf(2.0, bin as f32 / PER_OCTAVE as f32);
        Histogram {
            edges: std::array::from_fn(edge),
            weights: [0.0; BINS],
            within: 0.0,
            beyond: PRIOR,
            newest: 1.0,
        }
    }

    /// Adds a wait.
    pub fn add(&mut self, waited: Duration) {
        let nanos = waited.as_nanos() as f32;
        let bin = self.edges.partition_point(|&edge| edge < nanos);
        match self.weights.get_mut(bin) {
            Some(weight) => {
                *weight += self.newest;
                self.within += self.newest;
            }
            None => self.beyond += self.newest,
        }
        self.newest *= GROWTH;
        if self.newest > HEAVIEST {
            self.scale_down();
        }
    }

    /// Scales the weights so that the next wait weighs one, and drops negligible ones.
    #[cold]
    fn scale_down(&mut self) {
        let scale = 1.0 / self.newest;
        let scaled = |weight: f32| {
            if weight * scale < 1e-6 {
                0.0
            } else {
                weight * scale
            }
        };
        self.weights = self.weights.map(scaled);
        self.within = self.weights.iter().sum();
        self.beyond = scaled(self.beyond);
        self.newest = 1.0;
    }

    /// The length of spin, at most `park_cost`, that would have cost least. Zero: no spin.
    pub fn best_spin(&self, park_cost: Duration) -> Duration {
        let park = park_cost.as_nanos() as f32;
        // The shortest spin costs more for the waits beyond all bins than it could save for the
        // others.
        if self.within * park <= self.beyond * FIRST_EDGE_NANOS {
            return Duration::ZERO;
        }
        let total = self.within + self.beyond;
        let (mut best, mut least) = (0.0, total * park);
        // Weight, and time spun, of the waits that end within the spin.
        let (mut met, mut spun) = (0.0, 0.0);
        for (&edge, &weight) in self.edges.iter().zip(&self.weights) {
            if edge > park {
                break;
            }
            met += weight;
            spun += weight * edge;
            let cost = spun + (total - met) * (edge + park);
            if cost < least {
                (best, least) = (edge, cost);
            }
        }
        Duration::from_nanos(best as u64)
    }
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn us(n: u64) -> Duration {
        Duration::from_micros(n)
    }

    fn of(waits: &[u64]) -> Histogram {
        let mut histogram = Histogram::new();
        waits.iter().for_each(|&wait| histogram.add(us(wait)));
        histogram
    }

    #[test]
    fn an_empty_histogram_suggests_no_spin() {
        assert_eq!(of(&[]).best_spin(us(50)), Duration::ZERO);
    }

    #[test]
    fn one_short_wait_is_reason_enough_and_one_bin_covers_it() {
        let best = of(&[10]).best_spin(us(50));
        assert!(us(10) <= best && best < us(12), "{best:?}");
    }

    #[test]
    fn long_waits_are_not_spun_for() {
        assert_eq!(
            of(&[51, 60, 1900, 100_000]).best_spin(us(50)),
            Duration::ZERO
        );
    }

    #[test]
    fn it_never_spins_longer_than_a_park_costs() {
        let waits: Vec<u64> = (0..200).map(|n| n * 7 % 60).collect();
        let histogram = of(&waits);
        for cost in 1..100 {
            assert!(histogram.best_spin(us(cost)) <= us(cost));
        }
    }

    #[test]
    fn rare_short_waits_among_long_ones_do_not_pay() {
        let waits: Vec<u64> = (0..200)
            .map(|n| if n % 20 == 0 { 30 } else { 5000 })
            .collect();
        assert_eq!(of(&waits).best_spin(us(50)), Duration::ZERO);
    }

    #[test]
    fn of_two_lengths_it_meets_the_shorter_one_when_the_longer_one_does_not_pay() {
        let waits: Vec<u64> = (0..200)
            .map(|n| if n % 2 == 0 { 5 } else { 5000 })
            .collect();
        let best = of(&waits).best_spin(us(50));
        assert!(us(5) <= best && best < us(7), "{best:?}");
    }

    #[test]
    fn old_waits_are_forgotten() {
        let mut waits = vec![10; 1000];
        waits.extend([5000; 120]);
        assert_eq!(of(&waits).best_spin(us(50)), Duration::ZERO);
        waits.extend([10; 8]);
        assert!(of(&waits).best_spin(us(50)) >= us(10));
    }

    #[test]
    fn a_wait_of_no_time_or_of_all_time_is_counted() {
        let mut histogram = of(&[0]);
        assert!(!histogram.best_spin(us(50)).is_zero());
        for _ in 0..200 {
            histogram.add(Duration::MAX);
        }
        assert!(histogram.best_spin(us(50)).is_zero());
    }

    #[test]
    fn scaling_the_weights_changes_no_result() {
        let mut histogram = of(&[]);
        let count = if cfg!(miri) { 1_000 } else { 10_000 };
        for wait in [10, 1000].into_iter().cycle().take(count) {
            histogram.add(us(wait));
            assert!(histogram.newest <= HEAVIEST);
        }
        let expected = of(&[10, 1000].repeat(100));
        assert_eq!(histogram.best_spin(us(50)), expected.best_spin(us(50)));
        let share = |of: &Histogram| of.within / of.beyond;
        assert!((share(&histogram) - share(&expected)).abs() < 0.01);
    }
}
