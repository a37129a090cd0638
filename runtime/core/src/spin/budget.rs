//! A token bucket for failed spins.
//!
//! Tokens are nanoseconds. They come with time, at a configurable share of it. They also come with
//! successful spins: each adds the time that it saved over an immediate park. So a policy may lose
//! at most what it gained, plus the share of time. The bucket holds what the share brings in
//! [`FILL`], and a spin begins only if the bucket could pay for all of it. So over any period
//!
//! ```text
//! failed spins <= share * (time + FILL) + what hits saved
//! ```

use baton_sys::clock::Instant;
use std::time::Duration;

/// How long the share takes to fill the bucket.
pub const FILL: Duration = Duration::from_millis(200);

/// Whether the bucket can pay for a spin.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grant {
    /// It can: spin.
    Granted,
    /// It cannot: park.
    Exhausted,
}

/// The bucket. A new one is full.
#[derive(Debug)]
pub struct Budget {
    /// The share of all time, from 0 to 1.
    share: f64,
    tokens: f64,
    /// When time was last counted.
    counted: Option<Instant>,
}

impl Budget {
    /// Creates a full bucket. A `share` of zero never grants anything.
    pub fn new(share: f64) -> Budget {
        let mut budget = Budget {
            share: 0.0,
            tokens: f64::INFINITY,
            counted: None,
        };
        budget.set_share(share);
        budget
    }

    /// Sets the share. The bucket keeps its tokens, up to its new size.
    pub fn set_share(&mut self, share: f64) {
        self.share = share.clamp(0.0, 1.0);
        self.tokens = self.tokens.min(self.size());
    }

    /// Whether the bucket can pay for a spin of `limit` now.
    pub fn grant(&mut self, limit: Duration, now: Instant) -> Grant {
        if let Some(before) = self.counted.replace(now) {
            self.earn(self.share * (now - before).as_nanos() as f64);
        }
        if self.share > 0.0 && self.tokens >= limit.as_nanos() as f64 {
            Grant::Granted
        } else {
            Grant::Exhausted
        }
    }

    /// Takes tokens for a granted spin that failed.
    pub fn pay(&mut self, spun: Duration) {
        self.tokens = (self.tokens - spun.as_nanos() as f64).max(0.0);
    }

    /// Adds tokens for a successful spin, which saved this much time.
    pub fn save(&mut self, saved: Duration) {
        self.earn(saved.as_nanos() as f64);
    }

    /// The tokens now, as time.
    pub fn left(&self) -> Duration {
        Duration::from_nanos(self.tokens as u64)
    }

    fn earn(&mut self, tokens: f64) {
        self.tokens = (self.tokens + tokens).min(self.size());
    }

    fn size(&self) -> f64 {
        self.share * FILL.as_nanos() as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPIN: Duration = Duration::from_micros(50);

    fn at(micros: u64) -> Instant {
        Instant::from_nanos(micros * 1000)
    }

    /// Fails as often as granted at `now`. Returns how often.
    fn fail_all(budget: &mut Budget, now: Instant) -> u32 {
        let mut failed = 0;
        while budget.grant(SPIN, now) == Grant::Granted {
            budget.pay(SPIN);
            failed += 1;
        }
        failed
    }

    #[test]
    fn a_full_bucket_holds_the_share_of_its_filling_time() {
        let mut budget = Budget::new(0.01);
        assert_eq!(budget.left(), SPIN * 40);
        assert_eq!(fail_all(&mut budget, at(0)), 40);
        assert_eq!(budget.left(), Duration::ZERO);
    }

    #[test]
    fn time_fills_it_at_its_share_and_not_beyond_its_size() {
        let mut budget = Budget::new(0.01);
        fail_all(&mut budget, at(0));
        assert_eq!(fail_all(&mut budget, at(4999)), 0);
        assert_eq!(fail_all(&mut budget, at(5000)), 1);
        assert_eq!(fail_all(&mut budget, at(10_000_000)), 40);
    }

    #[test]
    fn hits_pay_for_failures() {
        let mut budget = Budget::new(0.01);
        fail_all(&mut budget, at(0));
        budget.save(Duration::from_micros(99));
        assert_eq!(fail_all(&mut budget, at(0)), 1);
        budget.save(Duration::from_secs(1));
        assert_eq!(fail_all(&mut budget, at(0)), 40);
    }

    #[test]
    fn without_a_share_nothing_is_granted() {
        let mut budget = Budget::new(0.0);
        budget.save(Duration::from_secs(1));
        assert_eq!(
            budget.grant(Duration::from_nanos(1), at(10_000_000)),
            Grant::Exhausted
        );
    }

    #[test]
    fn a_smaller_share_takes_effect_at_once() {
        let mut budget = Budget::new(1.0);
        budget.set_share(0.001);
        assert_eq!(fail_all(&mut budget, at(0)), 4);
    }
}
