//! What the owner shows the monitor: plain stores, read without order. Nothing in it is needed for correctness, only for when the monitor looks.

use super::{Inner, Vm};
use crate::kernel;
use baton_sys::clock::Instant;
use baton_sys::membarrier;
use std::sync::atomic::{AtomicI64, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// Written by the owner, and read by the monitor, but for what [the monitor](Asked) writes.
#[derive(Debug)]
pub(super) struct Published {
    /// Who could run instead of the running process, and whether it lets itself be preempted: bits of [`standing`].
    standing: AtomicU8,
    /// The earliest deadline in nanoseconds; `u64::MAX`: none.
    pub(super) deadline: AtomicU64,
    /// Changes with each switch.
    pub(super) switches: AtomicU64,
    /// Slices at whose end nobody else ran: a new one of the same process began.
    pub(super) slices_renewed: AtomicU64,
    /// How much of its slice the running process had used when it was continued, in nanoseconds; less than nothing if it had some to its credit.
    pub(super) slice_used: AtomicI64,
    /// The turn, as [`Published::turn`], that began with the end of another one's slice, and when, in nanoseconds: by an exact clock.
    exact_turn: AtomicU64,
    exact_from: AtomicU64,
    /// The length of its slices in microseconds; 0: the parameter.
    pub(super) slice: AtomicU32,
    /// The monitor's clock reading at its last look, in nanoseconds.
    pub(super) coarse_now: AtomicU64,
    /// From when on the monitor, which wrote it, asks for the next deadline, in nanoseconds: who has many is not asked for each.
    pub(super) deadlines_from: AtomicU64,
    pub(super) asked: Asked,
    /// Threads with names.
    pub(super) named_threads: AtomicUsize,
}

/// What the monitor, which wrote it before it asked for the end of a slice, knew of that. Times are in nanoseconds.
#[derive(Debug, Default)]
pub(super) struct Asked {
    /// The turn that it asked in.
    pub(super) turn: AtomicU64,
    /// When it first saw that the running process had rivals, which had none in this turn before; 0: it had them from the beginning on.
    pub(super) contested_from: AtomicU64,
    /// When the slice was over, by what it had seen: the turn began before.
    pub(super) over_from: AtomicU64,
}

impl Asked {
    /// For how long, at `now`, the running process has run at the cost of others, though its slice was over; at most, if it has a `whole` slice by an exact clock: the time that it
    /// was too long is known then.
    pub(super) fn at_others_cost(&self, turn: u64, is_whole: bool, now: u64) -> i64 {
        // Relaxed (all): the request, which was taken with Acquire, orders them.
        let from = if self.turn.load(Ordering::Relaxed) != turn {
            now
        } else if is_whole {
            self.contested_from.load(Ordering::Relaxed)
        } else {
            self.over_from.load(Ordering::Relaxed)
        };
        i64::try_from(now.saturating_sub(from)).unwrap_or(i64::MAX)
    }
}

/// Bits of one word, so that one store shows all.
mod standing {
    pub(super) const RUNNABLE: u8 = 1;
    pub(super) const RIVALS: u8 = 2;
    pub(super) const OUTRANKED: u8 = 4;
    pub(super) const PREEMPTIBLE: u8 = 8;
}

/// What is shown of who could run; `preemptible` is its bit, or 0.
#[inline]
fn bits_of(standing: kernel::Standing, preemptible: u8) -> u8 {
    (u8::from(standing.runnable) * standing::RUNNABLE)
        | (u8::from(standing.rivals) * standing::RIVALS)
        | (u8::from(standing.outranked) * standing::OUTRANKED)
        | preemptible
}

/// What [`Published`] says of who could run, read once.
#[derive(Debug, Clone, Copy)]
pub(super) struct Standing(u8);

impl Standing {
    /// Somebody could.
    pub(super) fn somebody_is_runnable(self) -> bool {
        self.0 & standing::RUNNABLE != 0
    }

    /// Somebody could who is as urgent as the running process, or more.
    pub(super) fn has_rivals(self) -> bool {
        self.0 & standing::RIVALS != 0
    }

    /// Somebody could who is more urgent.
    pub(super) fn is_outranked(self) -> bool {
        self.0 & standing::OUTRANKED != 0
    }

    /// The running process, or the one that ran last, lets itself be preempted.
    pub(super) fn is_preemptible(self) -> bool {
        self.0 & standing::PREEMPTIBLE != 0
    }
}

impl Published {
    pub(super) fn new() -> Published {
        Published {
            standing: AtomicU8::new(0),
            deadline: AtomicU64::new(u64::MAX),
            switches: AtomicU64::new(0),
            slices_renewed: AtomicU64::new(0),
            slice_used: AtomicI64::new(0),
            exact_turn: AtomicU64::new(u64::MAX),
            exact_from: AtomicU64::new(0),
            slice: AtomicU32::new(0),
            coarse_now: AtomicU64::new(0),
            deadlines_from: AtomicU64::new(0),
            asked: Asked::default(),
            named_threads: AtomicUsize::new(0),
        }
    }

    /// The number of the running process's turn.
    pub(super) fn turn(&self) -> u64 {
        // Relaxed (both): the owner's own, and hints to the monitor.
        let switches = self.switches.load(Ordering::Relaxed);
        switches.wrapping_add(self.slices_renewed.load(Ordering::Relaxed))
    }

    /// The running process has a new slice.
    pub(super) fn renew_slice(&self) {
        // Relaxed (both): as above.
        let renewed = self.slices_renewed.load(Ordering::Relaxed);
        self.slices_renewed.store(renewed.wrapping_add(1), Ordering::Relaxed);
    }

    /// The present turn began now, by an exact clock.
    pub(super) fn note_beginning(&self, now: u64) {
        // Relaxed: ordered by the store below.
        self.exact_from.store(now, Ordering::Relaxed);
        // Release: pairs with the load in `turn_began`.
        self.exact_turn.store(self.turn(), Ordering::Release);
    }

    /// When the turn with this number began, if that is known exactly.
    pub(super) fn turn_began(&self, turn: u64) -> Option<Instant> {
        // Acquire: pairs with the store in `note_beginning`. Relaxed: a later turn's beginning is no harm.
        let is_known = self.exact_turn.load(Ordering::Acquire) == turn;
        is_known.then(|| Instant::from_nanos(self.exact_from.load(Ordering::Relaxed)))
    }

    pub(super) fn standing(&self) -> Standing {
        // Relaxed: a hint; see the monitor's parking for what orders it.
        Standing(self.standing.load(Ordering::Relaxed))
    }
}

impl Vm {
    /// Shows the monitor what it decides by, and calls it when it sleeps too long for that.
    #[inline]
    pub(super) fn publish(&self, inner: &mut Inner) {
        inner.published = inner.kernel.changes();
        let kernel = &inner.kernel;
        let standing = kernel.standing();
        let deadline = self.next_deadline(inner).map_or(u64::MAX, Instant::as_nanos);
        let preemptible = match kernel.current_is_preemptible() {
            Some(true) => standing::PREEMPTIBLE,
            Some(false) => 0,
            // Relaxed: the owner's own.
            None => self.published.standing.load(Ordering::Relaxed) & standing::PREEMPTIBLE,
        };
        // Relaxed (all): hints; the monitor reads them again after its own barrier before it parks.
        let published = &self.published;
        published
            .standing
            .store(bits_of(standing, preemptible), Ordering::Relaxed);
        published.deadline.store(deadline, Ordering::Relaxed);
        // Relaxed: as above.
        let switches = kernel.counters().switches;
        published.switches.store(switches, Ordering::Relaxed);
        // Pairs with `heavy` in the monitor's parking: either it sees these stores, or the load below sees it parked.
        membarrier::light();
        // Relaxed: a hint; the monitor would not ask for it before, and is called unless it looks by then.
        let wanted = deadline.max(published.deadlines_from.load(Ordering::Relaxed));
        let is_watched = kernel.watching() > 0 && !self.descriptors.are_armed();
        let work_waits = standing.runnable || is_watched;
        if self.monitor.looks_too_late(work_waits, is_watched, wanted) && kernel.current().is_some() {
            self.call_monitor(work_waits, wanted);
        }
    }

    /// As [`Vm::publish`], where all was published before, and then one process fewer was runnable, and who runs is preempted as the one before was.
    #[inline]
    pub(super) fn publish_fewer(&self, inner: &mut Inner) {
        inner.published = inner.kernel.changes();
        let published = &self.published;
        // Relaxed (all): hints, the first of which is the owner's own; whatever the monitor would look at later than before was shown before.
        let preemptible = published.standing.load(Ordering::Relaxed) & standing::PREEMPTIBLE;
        let bits = bits_of(inner.kernel.standing(), preemptible);
        published.standing.store(bits, Ordering::Relaxed);
        let switches = inner.kernel.counters().switches;
        published.switches.store(switches, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_asked_in_another_turn_says_nothing() {
        let asked = Asked::default();
        // Relaxed (all): one thread.
        asked.turn.store(5, Ordering::Relaxed);
        asked.contested_from.store(100, Ordering::Relaxed);
        asked.over_from.store(130, Ordering::Relaxed);
        let cost = |turn, is_whole, now| asked.at_others_cost(turn, is_whole, now);
        assert_eq!(
            [cost(5, true, 140), cost(5, false, 140), cost(5, false, 120)],
            [40, 10, 0]
        );
        assert_eq!([cost(4, true, 140), cost(6, false, 140)], [0, 0]);
    }

    #[test]
    fn when_a_turn_began_is_known_of_the_one_that_was_noted() {
        let published = Published::new();
        assert_eq!(published.turn_began(published.turn()), None);
        published.switches.store(7, Ordering::Relaxed);
        published.note_beginning(500);
        assert_eq!(published.turn_began(published.turn()), Some(Instant::from_nanos(500)));
        published.renew_slice();
        assert_eq!(published.turn_began(published.turn()), None);
    }

    #[test]
    fn a_switch_begins_another_turn_and_so_does_a_new_slice() {
        let published = Published::new();
        let first = published.turn();
        published.switches.store(1, Ordering::Relaxed);
        let second = published.turn();
        published.renew_slice();
        let third = published.turn();
        assert!(first != second && second != third && first != third);
    }
}
