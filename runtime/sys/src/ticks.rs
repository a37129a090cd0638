//! The processor's own counter as a clock for traces: cheaper to read than the system's clock, and
//! converted to its times later.
//!
//! A reading takes about 12 ns where the system's clock takes 30 (x86-64 under KVM). The counter is
//! used only if Linux itself uses it as its clock, so it is constant and the same on all
//! processors. Elsewhere, and with a virtual clock, ticks are nanoseconds of [`Instant`].
//!
//! Two readings of both clocks, an [`Anchor`] before and one after a tick, tell when it was:
//!
//! ```
//! use baton_sys::clock::Instant;
//! use baton_sys::ticks::{Anchor, Ticks, prepare};
//!
//! prepare();
//! let begin = Anchor::now();
//! let (before, ticks) = (Instant::now(), Ticks::now());
//! while Instant::now() - before < std::time::Duration::from_millis(5) {}
//! let at = begin.until(Anchor::now()).time_of(ticks);
//! let error = (at - before).max(before - at);
//! assert!(error < std::time::Duration::from_millis(1), "{error:?}");
//! ```

use crate::clock::{self, Instant};
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the counter is used.
static COUNTS: AtomicBool = AtomicBool::new(false);

/// Finds out whether the counter can be used. Ticks of before and after it may differ.
pub fn prepare() {
    let usable = !clock::is_simulated() && is_clock_of_system();
    // Relaxed: whoever needs ticks of one kind orders this before its readings.
    COUNTS.store(usable, Ordering::Relaxed);
}

fn is_clock_of_system() -> bool {
    const CLOCK: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    cfg!(target_arch = "x86_64")
        && std::fs::read_to_string(CLOCK).is_ok_and(|name| name.trim() == "tsc")
}

/// A reading of the counter. Readings of one processor never decrease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticks(u64);

impl Ticks {
    /// The present reading.
    #[inline]
    #[must_use]
    pub fn now() -> Ticks {
        // Relaxed: see `prepare`.
        match COUNTS.load(Ordering::Relaxed) {
            true => counter(),
            false => Ticks(Instant::now().as_nanos()),
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn counter() -> Ticks {
    // SAFETY: all processors of this architecture have the instruction, and Linux, which uses the
    // counter as its clock, lets programs read it.
    Ticks(unsafe { core::arch::x86_64::_rdtsc() })
}

#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn counter() -> Ticks {
    Ticks(Instant::now().as_nanos())
}

/// Readings of both clocks at the same moment.
#[derive(Clone, Copy, Debug)]
pub struct Anchor {
    ticks: Ticks,
    at: Instant,
}

impl Anchor {
    /// The present moment. The best of some attempts, as others may interrupt one.
    #[must_use]
    pub fn now() -> Anchor {
        const ATTEMPTS: usize = 3;
        let attempts = (0..ATTEMPTS).map(|_| {
            let before = Ticks::now();
            let at = Instant::now();
            let took = Ticks::now().0.saturating_sub(before.0);
            let ticks = Ticks(before.0 + took / 2);
            (took, Anchor { ticks, at })
        });
        let best = attempts.min_by_key(|&(took, _)| took);
        best.map_or_else(|| unreachable!("there are attempts"), |(_, anchor)| anchor)
    }

    /// Its time.
    #[must_use]
    pub fn at(self) -> Instant {
        self.at
    }

    /// What converts ticks between this anchor and a later one.
    #[must_use]
    pub fn until(self, later: Anchor) -> Conversion {
        let ticks = later.ticks.0.saturating_sub(self.ticks.0);
        let nanos = later.at.as_nanos().saturating_sub(self.at.as_nanos());
        Conversion {
            from: self,
            nanos_per_tick: match ticks {
                0 => 0.0,
                ticks => nanos as f64 / ticks as f64,
            },
        }
    }
}

/// Converts ticks to times.
#[derive(Clone, Copy, Debug)]
pub struct Conversion {
    from: Anchor,
    nanos_per_tick: f64,
}

impl Conversion {
    /// The time of a reading. One from before the first anchor, by another processor, has its time.
    #[inline]
    #[must_use]
    pub fn time_of(&self, ticks: Ticks) -> Instant {
        let passed = ticks.0.saturating_sub(self.from.ticks.0);
        let nanos = (passed as f64 * self.nanos_per_tick) as u64;
        Instant::from_nanos(self.from.at.as_nanos().saturating_add(nanos))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn anchor(ticks: u64, nanos: u64) -> Anchor {
        Anchor {
            ticks: Ticks(ticks),
            at: Instant::from_nanos(nanos),
        }
    }

    #[test]
    fn a_tick_between_two_anchors_has_its_place_between_their_times() {
        let conversion = anchor(1000, 50).until(anchor(3000, 1050));
        for (ticks, nanos) in [(1000, 50), (2000, 550), (3000, 1050), (5000, 2050), (7, 50)] {
            assert_eq!(conversion.time_of(Ticks(ticks)), Instant::from_nanos(nanos));
        }
    }

    #[test]
    fn nanoseconds_stay_what_they_are() {
        let conversion = anchor(7, 7).until(anchor(1 << 50, 1 << 50));
        for nanos in [7, 1_000_000_007, (1 << 50) - 1] {
            assert_eq!(conversion.time_of(Ticks(nanos)), Instant::from_nanos(nanos));
        }
    }

    #[test]
    fn anchors_of_the_same_moment_convert_to_it() {
        let conversion = anchor(9, 99).until(anchor(9, 99));
        assert_eq!(conversion.time_of(Ticks(12)), Instant::from_nanos(99));
    }
}
