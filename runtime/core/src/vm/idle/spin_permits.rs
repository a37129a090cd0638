//! Permits to spin: they limit how many owners of one program spin at once. Several spinning VMs
//! would take processors from each other, and from the threads that they wait for.
//!
//! | `taken` | left by |
//! |---|---|
//! | n, below the limit | `SpinPermits::take` -> n + 1 |
//! | n | the end of a `SpinPermit` -> n - 1; `SpinPermits::clear` -> 0 |
//!
//! The count orders nothing: an owner without a permit parks, which is always right.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The program's permits.
pub(in crate::vm) static SPIN_PERMITS: SpinPermits = SpinPermits::new();

/// Counts the spinning owners.
#[derive(Debug)]
pub(in crate::vm) struct SpinPermits {
    taken: AtomicUsize,
}

/// The right to spin; dropping it gives it back.
#[must_use]
#[derive(Debug)]
pub(in crate::vm) struct SpinPermit<'a>(&'a SpinPermits);

impl SpinPermits {
    const fn new() -> SpinPermits {
        SpinPermits {
            taken: AtomicUsize::new(0),
        }
    }

    /// A permit, if fewer than `limit` are taken.
    #[inline]
    pub(in crate::vm) fn take(&self, limit: usize) -> Option<SpinPermit<'_>> {
        // Relaxed (both): nothing is ordered by it.
        let one_more = |taken| (taken < limit).then_some(taken + 1);
        let taken = self
            .taken
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more);
        taken.ok().map(|_| SpinPermit(self))
    }

    /// Clears the count in a fork's child: the spinning threads do not exist there.
    pub(in crate::vm) fn clear(&self) {
        // Relaxed: there is no other thread.
        self.taken.store(0, Ordering::Relaxed);
    }
}

impl Drop for SpinPermit<'_> {
    fn drop(&mut self) {
        // Relaxed: as in `take`.
        self.0.taken.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_permits_are_taken_than_there_are_and_each_can_be_taken_again() {
        let permits = SpinPermits::new();
        let first = permits.take(2);
        let second = permits.take(2);
        assert!(first.is_some() && second.is_some() && permits.take(2).is_none());
        assert!(permits.take(3).is_some(), "the limit may change");
        drop(first);
        assert!(permits.take(2).is_some());
        assert!(permits.take(1).is_none(), "the second one is still taken");
    }

    #[test]
    fn threads_never_hold_more_permits_than_the_limit() {
        let (permits, held) = (SpinPermits::new(), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..10_000 {
                        let Some(_permit) = permits.take(2) else {
                            continue;
                        };
                        // Relaxed (both): the count alone matters.
                        assert!(held.fetch_add(1, Ordering::Relaxed) < 2);
                        held.fetch_sub(1, Ordering::Relaxed);
                    }
                });
            }
        });
        assert!(permits.take(1).is_some(), "all were given back");
    }
}
