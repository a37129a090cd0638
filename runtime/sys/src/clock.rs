//! Monotonic time, in nanoseconds, as one machine word.
//!
//! `std::time::Instant` is two words and hides its value. The scheduler sorts deadlines and passes
//! them to the kernel as absolute nanoseconds, so this type exposes them. All arithmetic saturates:
//! a deadline that cannot be represented is in the far future, never in the past.
//!
//! A program may use a virtual clock instead of the system's. [`simulate`] starts it; then only
//! [`advance`] moves it. It cannot be turned off.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const NANOSECONDS_PER_SECOND: u64 = 1_000_000_000;

/// The virtual clock's time, in nanoseconds; 0: the system's clock is used.
static SIMULATED: AtomicU64 = AtomicU64::new(0);

/// Starts the virtual clock of the whole program, at `start`, or a nanosecond after the origin if
/// that is earlier. To be called before other threads read the clock.
pub fn simulate(start: Instant) {
    // Relaxed: no other thread reads it yet.
    SIMULATED.store(start.0.max(1), Ordering::Relaxed);
}

/// Whether the program has a virtual clock.
#[inline]
#[must_use]
pub fn is_simulated() -> bool {
    // Relaxed: set once, before there are other threads.
    SIMULATED.load(Ordering::Relaxed) != 0
}

/// Advances the virtual clock; does nothing without one.
pub fn advance(by: Duration) {
    if is_simulated() {
        // Relaxed: a clock orders nothing; only one thread at a time advances it.
        SIMULATED.store((Instant::now() + by).0, Ordering::Relaxed);
    }
}

/// A point in monotonic time: nanoseconds of `CLOCK_MONOTONIC`.
///
/// Comparable between all threads of the machine since its start; not between machines or boots.
/// The value fits until 584 years after the start of the machine.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// The latest instant: a deadline that never comes.
    pub const FAR_FUTURE: Instant = Instant(u64::MAX);

    /// The present time. Calls the vDSO, without a system call where the vDSO has the clock. With a
    /// virtual clock, its time.
    #[inline]
    #[must_use]
    pub fn now() -> Instant {
        // Relaxed: a clock orders nothing.
        match SIMULATED.load(Ordering::Relaxed) {
            0 => Instant(read_clock(libc::CLOCK_MONOTONIC)),
            shown => Instant(shown),
        }
    }

    /// The instant `nanoseconds` after the clock's origin.
    #[inline]
    #[must_use]
    pub const fn from_nanos(nanoseconds: u64) -> Instant {
        Instant(nanoseconds)
    }

    /// Nanoseconds since the clock's origin.
    #[inline]
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The time from `earlier` to `self`, or zero when `earlier` is later.
    #[inline]
    #[must_use]
    pub const fn saturating_duration_since(self, earlier: Instant) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;

    /// Saturates at [`Instant::FAR_FUTURE`].
    #[inline]
    fn add(self, duration: Duration) -> Instant {
        let nanoseconds = duration
            .as_secs()
            .saturating_mul(NANOSECONDS_PER_SECOND)
            .saturating_add(u64::from(duration.subsec_nanos()));
        Instant(self.0.saturating_add(nanoseconds))
    }
}

impl AddAssign<Duration> for Instant {
    #[inline]
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}

impl Sub<Instant> for Instant {
    type Output = Duration;

    /// Saturates at zero; the same as [`Instant::saturating_duration_since`].
    #[inline]
    fn sub(self, earlier: Instant) -> Duration {
        self.saturating_duration_since(earlier)
    }
}

impl Sub<Duration> for Instant {
    type Output = Instant;

    /// Saturates at the clock's origin.
    #[inline]
    fn sub(self, duration: Duration) -> Instant {
        let nanoseconds = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Instant(self.0.saturating_sub(nanoseconds))
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Instant::FAR_FUTURE {
            return formatter.write_str("Instant(far future)");
        }
        let (seconds, rest) = (
            self.0 / NANOSECONDS_PER_SECOND,
            self.0 % NANOSECONDS_PER_SECOND,
        );
        write!(formatter, "Instant({seconds}.{rest:09} s)")
    }
}

/// Processor time that the calling native thread has used so far.
///
/// Costs a system call on most kernels (a few hundred nanoseconds).
#[must_use]
pub fn thread_cpu_time() -> Duration {
    Duration::from_nanos(read_clock(libc::CLOCK_THREAD_CPUTIME_ID))
}

/// Processor time that all native threads of the program have used so far, those that have ended
/// included.
#[must_use]
pub fn program_cpu_time() -> Duration {
    Duration::from_nanos(read_clock(libc::CLOCK_PROCESS_CPUTIME_ID))
}

#[inline]
fn read_clock(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is valid for writes. All clocks that are read here always exist on Linux (man
    // clock_gettime), so the call cannot fail; if it did, `time` would still be initialised.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    // They count up from zero, so neither field is negative.
    (time.tv_sec as u64)
        .wrapping_mul(NANOSECONDS_PER_SECOND)
        .wrapping_add(time.tv_nsec as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_does_not_run_backwards() {
        let mut previous = Instant::now();
        for _ in 0..1000 {
            let now = Instant::now();
            assert!(now >= previous);
            previous = now;
        }
    }

    #[test]
    fn instants_agree_with_the_kernels_other_view_of_the_clock() {
        let before = Instant::now();
        let uptime = std::fs::read_to_string("/proc/uptime").expect("/proc/uptime is readable");
        let seconds: f64 = uptime
            .split(' ')
            .next()
            .and_then(|text| text.parse().ok())
            .expect("seconds first");
        // Uptime counts suspended time too, so it may be ahead; it has a resolution of 10 ms.
        assert!((before.as_nanos() as f64) < (seconds + 5.0) * 1e9);
    }

    #[test]
    fn adding_too_much_saturates_in_the_far_future() {
        assert_eq!(Instant::now() + Duration::MAX, Instant::FAR_FUTURE);
        assert_eq!(
            Instant::FAR_FUTURE + Duration::from_nanos(1),
            Instant::FAR_FUTURE
        );
        let mut deadline = Instant::from_nanos(u64::MAX - 1);
        deadline += Duration::from_secs(1);
        assert_eq!(deadline, Instant::FAR_FUTURE);
    }

    #[test]
    fn differences_are_exact_and_never_negative() {
        let (early, late) = (Instant::from_nanos(5), Instant::from_nanos(3_000_000_007));
        assert_eq!(late - early, Duration::new(3, 2));
        assert_eq!(early - late, Duration::ZERO);
        assert_eq!(late - Duration::new(3, 2), early);
        assert_eq!(early - Duration::MAX, Instant::from_nanos(0));
    }

    #[test]
    fn work_uses_processor_time_of_the_thread_that_does_it() {
        let before = thread_cpu_time();
        let mut sum = 0_u64;
        while thread_cpu_time() == before {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        assert!(thread_cpu_time() > before);
    }

    #[test]
    fn the_time_of_the_program_is_that_of_all_its_threads() {
        let worker = || {
            while thread_cpu_time() < Duration::from_millis(2) {
                std::hint::black_box(());
            }
        };
        let before = program_cpu_time();
        for _ in 0..2 {
            std::thread::spawn(worker).join().unwrap();
        }
        assert!(program_cpu_time() - before >= Duration::from_millis(4));
    }

    #[test]
    fn debug_output_shows_seconds() {
        assert_eq!(
            format!("{:?}", Instant::from_nanos(1_000_000_001)),
            "Instant(1.000000001 s)"
        );
        assert_eq!(format!("{:?}", Instant::FAR_FUTURE), "Instant(far future)");
    }
}
