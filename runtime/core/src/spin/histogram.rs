//! A decayed histogram of waits: what a spin of each length would have cost lately.

use std::time::Duration;

/// Bins per doubling. Finer ones choose better lengths and take longer to fill.
const PER_OCTAVE: i32 = 4;
/// From half a microsecond to 512 of them.
const BINS: usize = 10 * PER_OCTAVE as usize + 1;
const FIRST_EDGE_NANOS: f32 = 500.0;

/// What a wait's weight is multiplied with at each later one: about the last 32 count.
const DECAY: f32 = 1.0 - 1.0 / 32.0;

/// Before anything was seen, waits are long; this much of a wait says so.
const PRIOR: f32 = 0.25;

/// Weights of waits by their length, the newest heaviest.
#[derive(Debug)]
pub struct Histogram {
    /// Upper edge of each bin, in nanoseconds, its own included.
    edges: [f32; BINS],
    weights: [f32; BINS],
    /// Weight of the waits longer than the last edge.
    beyond: f32,
}

impl Histogram {
    /// An empty one.
    pub fn new() -> Histogram {
        let edge = |bin: usize| FIRST_EDGE_NANOS * f32::powf(2.0, bin as f32 / PER_OCTAVE as f32);
        Histogram {
            edges: std::array::from_fn(edge),
            weights: [0.0; BINS],
            beyond: PRIOR,
        }
    }

    /// Adds a wait.
    pub fn add(&mut self, waited: Duration) {
        self.weights.iter_mut().for_each(|weight| *weight *= DECAY);
        self.beyond *= DECAY;
        let nanos = waited.as_nanos() as f32;
        match self.edges.iter().position(|&edge| nanos <= edge) {
            Some(bin) => self.weights[bin] += 1.0,
            None => self.beyond += 1.0,
        }
    }

    /// The length of spin, at most `park_cost`, that would have cost least; zero: not to spin at all.
    pub fn best_spin(&self, park_cost: Duration) -> Duration {
        let park = park_cost.as_nanos() as f32;
        let total = self.weights.iter().sum::<f32>() + self.beyond;
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
    fn nothing_seen_is_nothing_to_spin_for() {
        assert_eq!(of(&[]).best_spin(us(50)), Duration::ZERO);
    }

    #[test]
    fn one_short_wait_is_reason_enough_and_one_bin_covers_it() {
        let best = of(&[10]).best_spin(us(50));
        assert!(us(10) <= best && best < us(12), "{best:?}");
    }

    #[test]
    fn long_waits_are_not_spun_for() {
        assert_eq!(of(&[51, 60, 1900, 100_000]).best_spin(us(50)), Duration::ZERO);
    }

    #[test]
    fn it_never_spins_longer_than_a_park_costs() {
        let waits: Vec<u64> = (0..200).map(|n| n * 7 % 60).collect();
        for cost in 1..100 {
            assert!(of(&waits).best_spin(us(cost)) <= us(cost));
        }
    }

    #[test]
    fn rare_short_waits_among_long_ones_do_not_pay() {
        let waits: Vec<u64> = (0..200).map(|n| if n % 20 == 0 { 30 } else { 5000 }).collect();
        assert_eq!(of(&waits).best_spin(us(50)), Duration::ZERO);
    }

    #[test]
    fn of_two_lengths_it_meets_the_shorter_one_when_the_longer_one_does_not_pay() {
        let waits: Vec<u64> = (0..200).map(|n| if n % 2 == 0 { 5 } else { 5000 }).collect();
        let best = of(&waits).best_spin(us(50));
        assert!(us(5) <= best && best < us(7), "{best:?}");
    }

    #[test]
    fn what_was_is_forgotten() {
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
}
