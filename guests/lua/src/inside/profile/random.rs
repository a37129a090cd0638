//! Random numbers for samples (xorshift).

use std::time::{Duration, SystemTime};

/// A generator. Two of them hardly ever give the same numbers.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new() -> Random {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        Random(now.unwrap_or_default().as_nanos() as u64 | 1)
    }

    /// A generator for a static. It gives the same numbers in each program.
    pub(super) const fn fixed() -> Random {
        Random(0x9e37_79b9_7f4a_7c15)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// From a half to three halves of a period. A program that does the same every 10 ms would else
    /// be found at the same place each time.
    pub(super) fn around(&mut self, period: Duration) -> Duration {
        period / 2 + period.mul_f64((self.next() >> 11) as f64 / (1_u64 << 53) as f64)
    }

    /// From a half to three halves of a mean, which is at least 2.
    pub(super) fn around_number(&mut self, mean: u32) -> u64 {
        u64::from(mean / 2) + u64::from(self.below(mean))
    }

    /// A number below `bound`, which is not 0.
    pub(super) fn below(&mut self, bound: u32) -> u32 {
        // The high half is the better one. The result is below the bound, so it fits.
        (((self.next() >> 32) * u64::from(bound)) >> 32) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_within_their_bounds_and_reach_them() {
        let mut random = Random::new();
        let mut seen = [false; 10];
        for _ in 0..10_000 {
            seen[random.below(10) as usize] = true;
            let period = random.around(Duration::from_millis(10));
            assert!(period >= Duration::from_millis(5) && period < Duration::from_millis(15));
            assert!((50..150).contains(&random.around_number(100)));
        }
        assert_eq!(seen, [true; 10]);
    }
}
