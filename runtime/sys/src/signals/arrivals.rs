//! Notes of handlers: which signals have arrived, and in which order.
//!
//! A handler notes its signal, and then requests a safepoint. There the owner of the VM takes the
//! notes. A signal is noted at most once. So a storm of one signal fills nothing, and hides no
//! other signal.
//!
//! The note of one signal, 0 at first:
//!
//! | from | to | by |
//! |---|---|---|
//! | 0 | the next number | [`Arrivals::note`], in a handler |
//! | a number | the same | [`Arrivals::note`]: it keeps its place |
//! | a number | 0 | [`Arrivals::take`], [`Arrivals::clear`], [`Arrivals::clear_all`] |
//!
//! **No signal is lost** if the handler requests the safepoint after its note, and the owner clears
//! that request before it takes the notes. Then either the owner finds the note, or the request
//! comes later and the owner takes the notes again.

use std::ffi::c_int;
use std::sync::atomic::{AtomicU64, Ordering};

/// The largest number of a signal. A set of signals fits into 64 bits.
pub const MOST_SIGNALS: usize = 64;

/// Which signals have arrived.
#[derive(Debug)]
pub struct Arrivals {
    /// For each signal its number in the order of arrival; 0: it has not arrived.
    numbers: [AtomicU64; MOST_SIGNALS + 1],
    /// The last number given out.
    last: AtomicU64,
}

/// Signals in the order of their arrival, each at most once.
#[derive(Clone, Debug)]
pub struct Taken {
    /// Number and signal.
    list: [(u64, c_int); MOST_SIGNALS],
    count: usize,
}

impl Arrivals {
    /// No signal has arrived.
    #[allow(clippy::new_without_default, reason = "it is for statics")]
    pub const fn new() -> Arrivals {
        Arrivals {
            numbers: [const { AtomicU64::new(0) }; MOST_SIGNALS + 1],
            last: AtomicU64::new(0),
        }
    }

    /// Notes a signal, from 1 to [`MOST_SIGNALS`]. Async-signal-safe: it changes two atomics.
    ///
    /// ```
    /// use baton_sys::signals::arrivals::Arrivals;
    ///
    /// static ARRIVALS: Arrivals = Arrivals::new();
    /// ARRIVALS.note(10); // handlers do this
    /// ARRIVALS.note(2);
    /// ARRIVALS.note(10);
    /// assert_eq!(ARRIVALS.take().signals().collect::<Vec<_>>(), [10, 2]);
    /// assert_eq!(ARRIVALS.take().signals().count(), 0);
    /// ```
    pub fn note(&self, signal: c_int) {
        let Some(noted) = self.of(signal) else { return };
        // Release: pairs with the load in `take`, which then sees all earlier notes.
        let number = self.last.fetch_add(1, Ordering::Release) + 1;
        // Release: pairs with the swap in `take`. Relaxed: a signal that has arrived before keeps
        // its number.
        let _ = noted.compare_exchange(0, number, Ordering::Release, Ordering::Relaxed);
    }

    /// Clears the notes, and returns the signals. Those that come meanwhile are left for the next
    /// call. Otherwise a signal could overtake an earlier one that this pass has just missed.
    pub fn take(&self) -> Taken {
        // Acquire: pairs with the release in `note`.
        let last = self.last.load(Ordering::Acquire);
        let mut taken = Taken {
            list: [(0, 0); MOST_SIGNALS],
            count: 0,
        };
        for (signal, noted) in self.numbers.iter().enumerate().skip(1) {
            // Relaxed: the swap below orders it.
            if !(1..=last).contains(&noted.load(Ordering::Relaxed)) {
                continue;
            }
            // Acquire: pairs with the release in `note`.
            let number = noted.swap(0, Ordering::Acquire);
            taken.list[taken.count] = (number, signal as c_int);
            taken.count += 1;
        }
        taken.list[..taken.count].sort_unstable();
        taken
    }

    /// Forgets a signal: the note of a late handler.
    pub fn clear(&self, signal: c_int) {
        if let Some(noted) = self.of(signal) {
            // Relaxed: it only removes a note.
            noted.store(0, Ordering::Relaxed);
        }
    }

    /// Forgets all signals: in a fork's child, as they were for its parent. Async-signal-safe.
    pub fn clear_all(&self) {
        for noted in &self.numbers {
            // Relaxed: it only removes a note.
            noted.store(0, Ordering::Relaxed);
        }
    }

    fn of(&self, signal: c_int) -> Option<&AtomicU64> {
        self.numbers.get(usize::try_from(signal).ok()?)
    }
}

impl Taken {
    /// The signals, the earliest first.
    pub fn signals(&self) -> impl Iterator<Item = c_int> + '_ {
        self.list[..self.count].iter().map(|&(_, signal)| signal)
    }
}

#[cfg(test)]
mod tests {
    use super::{Arrivals, MOST_SIGNALS};
    use std::sync::atomic::{AtomicBool, Ordering};

    fn taken(arrivals: &Arrivals) -> Vec<i32> {
        arrivals.take().signals().collect()
    }

    #[test]
    fn signals_come_in_the_order_of_their_first_arrival() {
        let arrivals = Arrivals::new();
        for signal in [15, 1, 64, 15, 1, 2, 64] {
            arrivals.note(signal);
        }
        assert_eq!(taken(&arrivals), [15, 1, 64, 2]);
        arrivals.note(1);
        arrivals.note(15);
        assert_eq!(taken(&arrivals), [1, 15]);
    }

    #[test]
    fn what_is_cleared_has_not_arrived() {
        let arrivals = Arrivals::new();
        (1..=MOST_SIGNALS as i32).for_each(|signal| arrivals.note(signal));
        arrivals.clear(7);
        assert_eq!(taken(&arrivals).len(), MOST_SIGNALS - 1);
        arrivals.note(7);
        arrivals.clear_all();
        assert_eq!(taken(&arrivals), [0; 0]);
    }

    #[test]
    fn numbers_that_are_no_signals_are_ignored() {
        let arrivals = Arrivals::new();
        for number in [-1, MOST_SIGNALS as i32 + 1, i32::MAX] {
            arrivals.note(number);
        }
        assert_eq!(taken(&arrivals), [0; 0]);
    }

    /// A regression test: a pass took a signal that came after one which it had passed already.
    #[test]
    fn the_last_note_of_a_storm_is_taken() {
        for length in 0..2000 {
            let (arrivals, is_over) = (Arrivals::new(), AtomicBool::new(false));
            let mut seen = Vec::new();
            std::thread::scope(|threads| {
                threads.spawn(|| {
                    (0..length % 50).for_each(|_| arrivals.note(12));
                    arrivals.note(13);
                    // Release: pairs with the acquire below.
                    is_over.store(true, Ordering::Release);
                });
                loop {
                    // Acquire: pairs with the release above.
                    let is_last = is_over.load(Ordering::Acquire);
                    seen.extend(taken(&arrivals));
                    if is_last {
                        break;
                    }
                }
            });
            assert_eq!(seen.last(), Some(&13));
            assert_eq!(seen.iter().filter(|&&signal| signal == 13).count(), 1);
        }
    }
}
