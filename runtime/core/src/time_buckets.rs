//! Histograms of times, with the same buckets for all.

/// The inclusive upper bounds of the buckets, in nanoseconds: three for each ten, from a
/// microsecond to a minute and a half. One more bucket has what is longer.
pub const BOUNDS: [u64; 24] = [
    1_000,
    2_000,
    5_000,
    10_000,
    20_000,
    50_000,
    100_000,
    200_000,
    500_000,
    1_000_000,
    2_000_000,
    5_000_000,
    10_000_000,
    20_000_000,
    50_000_000,
    100_000_000,
    200_000_000,
    500_000_000,
    1_000_000_000,
    2_000_000_000,
    5_000_000_000,
    10_000_000_000,
    30_000_000_000,
    90_000_000_000,
];

/// How many times were in each bucket, and their sum.
///
/// ```
/// use baton_core::time_buckets::{BOUNDS, TimeBuckets};
///
/// let mut times = TimeBuckets::default();
/// times.add(2_000);
/// times.add(u64::MAX);
/// assert_eq!(times.counts()[1], 1);
/// assert_eq!(times.counts()[BOUNDS.len()], 1);
/// assert_eq!(times.sum(), u64::MAX); // it stays at the greatest number
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeBuckets {
    counts: [u64; BOUNDS.len() + 1],
    sum: u64,
}

impl TimeBuckets {
    /// Buckets without times.
    pub const fn new() -> TimeBuckets {
        TimeBuckets {
            counts: [0; BOUNDS.len() + 1],
            sum: 0,
        }
    }

    /// Adds a time, in nanoseconds.
    pub fn add(&mut self, nanos: u64) {
        let bucket = BOUNDS.partition_point(|&bound| bound < nanos);
        if let Some(count) = self.counts.get_mut(bucket) {
            *count += 1;
        }
        self.sum = self.sum.saturating_add(nanos);
    }

    /// How many times were in each bucket, the ones before it not counted.
    pub fn counts(&self) -> &[u64; BOUNDS.len() + 1] {
        &self.counts
    }

    /// The sum of all times, in nanoseconds.
    pub fn sum(&self) -> u64 {
        self.sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_in_the_first_bucket_whose_bound_it_does_not_exceed() {
        assert!(BOUNDS.is_sorted());
        for (index, &bound) in BOUNDS.iter().enumerate() {
            for (nanos, bucket) in [(bound, index), (bound + 1, index + 1)] {
                let mut times = TimeBuckets::new();
                times.add(nanos);
                assert_eq!(times.counts()[bucket], 1, "{nanos} ns");
                assert_eq!(times.sum(), nanos);
            }
        }
    }
}
