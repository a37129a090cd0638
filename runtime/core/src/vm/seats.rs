//! How many owners of one program may spin at once. Several VMs would otherwise take processors from each other, and from those they wait for.
//!
//! | `taken` | left by |
//! |---|---|
//! | n, below the limit | `Seats::take` -> n + 1 |
//! | n | the end of a `Seat` -> n - 1; `Seats::clear` -> 0 |
//!
//! Nothing is ordered by it: whoever finds no seat parks, which is always right.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The program's seats.
pub(super) static SEATS: Seats = Seats::new();

/// Counts those who spin.
#[derive(Debug)]
pub(super) struct Seats {
    taken: AtomicUsize,
}

/// The right to spin, given back when it is dropped.
#[must_use]
#[derive(Debug)]
pub(super) struct Seat<'a>(&'a Seats);

impl Seats {
    const fn new() -> Seats {
        Seats {
            taken: AtomicUsize::new(0),
        }
    }

    /// A seat, if fewer than `limit` are taken.
    #[inline]
    pub(super) fn take(&self, limit: usize) -> Option<Seat<'_>> {
        // Relaxed (both): nothing is ordered by it.
        let one_more = |taken| (taken < limit).then_some(taken + 1);
        let taken = self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more);
        taken.ok().map(|_| Seat(self))
    }

    /// In a fork's child: those who spun were other threads, and are gone.
    pub(super) fn clear(&self) {
        // Relaxed: there is no other thread.
        self.taken.store(0, Ordering::Relaxed);
    }
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        // Relaxed: as in `take`.
        self.0.taken.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_seats_are_taken_than_there_are_and_each_can_be_taken_again() {
        let seats = Seats::new();
        let first = seats.take(2);
        let second = seats.take(2);
        assert!(first.is_some() && second.is_some() && seats.take(2).is_none());
        assert!(seats.take(3).is_some(), "the limit may change");
        drop(first);
        assert!(seats.take(2).is_some());
        assert!(seats.take(1).is_none(), "the second one is still taken");
    }

    #[test]
    fn threads_never_hold_more_seats_than_the_limit() {
        let (seats, held) = (Seats::new(), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..10_000 {
                        let Some(_seat) = seats.take(2) else { continue };
                        // Relaxed (both): the count alone matters.
                        assert!(held.fetch_add(1, Ordering::Relaxed) < 2);
                        held.fetch_sub(1, Ordering::Relaxed);
                    }
                });
            }
        });
        assert!(seats.take(1).is_some(), "all were given back");
    }
}
