//! Spinning by time. The processor's pause is measured, as it takes 5 to 50 ns depending on the
//! model.

use crate::clock::Instant;
use std::hint;
use std::sync::OnceLock;

/// How long to pause between two clock readings, in nanoseconds: a few times the cost of a reading.
const BETWEEN_CLOCK_READINGS: u64 = 200;

/// How many pauses are timed together, and how often. The shortest time counts, as others were
/// interrupted.
const TIMED: u32 = 64;
const TRIALS: u32 = 5;

/// Why a spin ended.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spin {
    /// `seen` returned true.
    Seen,
    /// The time is over.
    TimeIsOver,
}

/// Calls `seen` repeatedly, with pauses between, until it returns true or `until` has come.
pub fn spin_until(until: Instant, mut seen: impl FnMut() -> bool) -> Spin {
    let pauses = pauses_between_clock_readings();
    loop {
        for _ in 0..pauses {
            if seen() {
                return Spin::Seen;
            }
            hint::spin_loop();
        }
        if Instant::now() >= until {
            return Spin::TimeIsOver;
        }
    }
}

fn pauses_between_clock_readings() -> u32 {
    static PAUSES: OnceLock<u32> = OnceLock::new();
    *PAUSES.get_or_init(|| {
        let shortest = (0..TRIALS).map(|_| time_pauses()).min().unwrap_or(0).max(1);
        let pauses = BETWEEN_CLOCK_READINGS * u64::from(TIMED) / shortest;
        pauses.clamp(1, u64::from(TIMED)) as u32
    })
}

fn time_pauses() -> u64 {
    let before = Instant::now();
    for _ in 0..TIMED {
        hint::spin_loop();
    }
    (Instant::now() - before).as_nanos() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_true_condition_is_seen_at_once_even_if_the_time_is_over() {
        let mut looks = 0;
        let spin = spin_until(Instant::from_nanos(0), || {
            looks += 1;
            true
        });
        assert_eq!((spin, looks), (Spin::Seen, 1));
    }

    #[test]
    fn a_failed_spin_lasts_until_its_limit_and_checks_often() {
        let until = Instant::now() + Duration::from_millis(2);
        let mut looks = 0_u32;
        let spin = spin_until(until, || {
            looks += 1;
            false
        });
        assert_eq!(spin, Spin::TimeIsOver);
        assert!(Instant::now() >= until);
        assert!(looks > 100, "{looks} looks in 2 ms");
    }

    #[test]
    fn pauses_are_counted_by_their_time() {
        let pauses = pauses_between_clock_readings();
        assert!((1..=TIMED).contains(&pauses));
    }
}
