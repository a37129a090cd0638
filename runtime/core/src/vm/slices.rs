//! The ends of slices, and slices of a process's own length.
//!
//! A slice is seldom ended to the microsecond: the monitor looks a little late, a machine may stand still, a function may not let itself be interrupted. What a process
//! has had too much is taken from its next slice, and from whole ones if it is more: it passes. So shares are equal over many turns, however the single ones end. (Deficit
//! round robin, M. Shreedhar and G. Varghese 1995, of packets.)
//!
//! | a slice ends because | the next one |
//! |---|---|
//! | it is over: it is *settled* | is shorter by what this one was too long since there were rivals, 100 ms at most; or longer by what it was too short, 0.1 ms at most |
//! | its process yields, or waits | is a whole one |
//!
//! A slice that is interrupted (by a more urgent process, a call that others run beside, a suspension) has not ended, and nothing is owed for what was used of it.
//!
//! The plain turn among equals looks at no lengths: while any process has one of its own, all yields go the longer way, which shows the
//! monitor how long the slice of the process to run is.

use super::switching::Jump;
use super::{Context, Inner, Vm, exception};
use crate::kernel::{Next, Preemption, ProcessId};
use baton_sys::clock::Instant;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// In nanoseconds, as all lengths of slices here: the most that is taken from later slices. Who has had more (in a function that computes for seconds and lets nobody in) is
/// not kept waiting for as long.
const MOST_OWED: i64 = 100_000_000;

/// Who passes pays at least this: a monitor's look takes as long, so that slices are no shorter, whatever the user has asked for.
const LEAST_PAID: i64 = 100_000;

/// A slice may end this much early: the monitor's clock and the accounts differ a little. Half of it, if it is a short one.
fn tolerance(slice: i64) -> i64 {
    (slice / 2).min(100_000)
}

fn nanos(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}

impl Context {
    /// How much of its slice has been used; less than nothing if it has some to its credit.
    #[inline]
    pub(super) fn slice_used(&self) -> i64 {
        // Both are below 2^63 for three centuries.
        self.busy.wrapping_sub(self.slice_began) as i64
    }

    /// How much of the slice that it has not begun it has had before.
    fn owed(&self) -> i64 {
        if self.settled == self.busy {
            self.slice_used()
        } else {
            0
        }
    }

    fn set_owed(&mut self, owed: i64, slice: i64) {
        let owed = owed.clamp(-tolerance(slice), MOST_OWED);
        self.slice_began = self.busy.wrapping_add_signed(-owed);
        self.settled = self.busy;
    }

    /// Its slice is over. It has had rivals for the time `contested`; what it had before that was nobody else's.
    fn settle(&mut self, slice: i64, contested: i64) {
        self.set_owed((self.slice_used() - slice).min(contested), slice);
    }

    /// Whether it has had its next slice before.
    fn owes(&self, slice: i64) -> bool {
        self.owed() > slice - tolerance(slice)
    }

    /// It gives its turn to the next one.
    fn pass(&mut self, slice: i64) {
        self.set_owed(self.owed() - slice.max(LEAST_PAID), slice);
    }
}

impl Vm {
    /// Whether the running process has had its slice; charges its time so far. A request for it may have been meant for another one.
    pub(super) fn slice_is_over(&self, inner: &mut Inner, me: ProcessId, outranked: bool) -> bool {
        if self.is_simulated() {
            return !outranked;
        }
        let slice = nanos(self.slice_of(inner, me));
        inner.account(me, Instant::now().as_nanos());
        inner.context(me).slice_used().saturating_add(tolerance(slice)) >= slice
    }

    /// The slice of the running process, whose time has been charged, is over: who is next.
    pub(super) fn end_slice(&self, inner: &mut Inner, me: ProcessId) -> Option<Jump> {
        if self.is_simulated() {
            inner.begin_slice(me);
            let next = inner.kernel.preempt_current(Preemption::SliceExpired);
            return self.plan(inner, me, next);
        }
        let usual = self.parameters.slice.get();
        let length_of = |context: &Context| match context.slice {
            0 => nanos(usual),
            micros => i64::from(micros) * 1000,
        };
        // Relaxed: an old value is from some microseconds ago.
        let alone_until = self.published.alone_until.load(Ordering::Relaxed);
        let contested = inner.run_started.saturating_sub(alone_until);
        let context = inner.context_mut(me);
        context.settle(length_of(context), i64::try_from(contested).unwrap_or(i64::MAX));
        let next = inner.kernel.end_slice(
            |context| context.owes(length_of(context)),
            |context| context.pass(length_of(context)),
        );
        if next == Next::Same {
            self.renew_slice(inner, me);
        }
        let jump = self.plan(inner, me, next);
        // What the decision took was charged to it, and is of the next slice.
        let context = inner.context_mut(me);
        context.settled = context.busy;
        jump
    }

    /// The running process goes on with a new slice.
    fn renew_slice(&self, inner: &Inner, me: ProcessId) {
        self.publish_slice(inner, me);
        let renewed = &self.published.slices_renewed;
        // Relaxed (both): the owner's own, and a hint to the monitor.
        renewed.store(renewed.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    /// Gives a process slices of this length (from a microsecond to an hour), or with `None` those of the parameter `slice`. The slice
    /// that it is in has the new length at once. Says whether it lives. Inside the VM.
    ///
    /// ```
    /// use std::time::Duration;
    /// # mod closures { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doctests/closures.rs")); }
    /// closures::run(|main| {
    ///     assert!(main.vm.set_slice(main.id, Some(Duration::from_millis(2))));
    ///     assert_eq!(main.vm.slice(main.id), Duration::from_millis(2));
    ///     main.vm.set_slice(main.id, None);
    ///     assert_eq!(main.vm.slice(main.id), main.vm.parameters.slice.get());
    /// });
    /// ```
    pub fn set_slice(&self, process: ProcessId, slice: Option<Duration>) -> bool {
        const LONGEST: u128 = 3_600_000_000;
        let micros = slice.map_or(0, |slice| slice.as_micros().clamp(1, LONGEST) as u32);
        self.inner.with(|inner| {
            let lives = inner.kernel.is_alive(process);
            if lives {
                self.change_slice(inner, process, micros);
            }
            lives
        })
    }

    /// The length of a process's slices. Inside the VM.
    pub fn slice(&self, process: ProcessId) -> Duration {
        self.inner.with(|inner| self.slice_of(inner, process))
    }

    /// A process has ended, or gets slices of another length.
    pub(super) fn change_slice(&self, inner: &mut Inner, process: ProcessId, micros: u32) {
        let Some(context) = inner.kernel.payload_mut(process) else {
            return;
        };
        let before = std::mem::replace(&mut context.slice, micros);
        self.count_sliced(inner, before, micros);
        if inner.kernel.current() == Some(process) {
            // Relaxed: a hint.
            self.published.slice.store(micros, Ordering::Relaxed);
        }
    }

    pub(super) fn count_sliced(&self, inner: &mut Inner, before: u32, after: u32) {
        inner.sliced = inner.sliced + usize::from(after != 0) - usize::from(before != 0);
        if inner.sliced > 0 {
            // Relaxed (all): the owner's alone, but for `ENDED`.
            self.exceptions.fetch_or(exception::SLICED, Ordering::Relaxed);
        } else {
            self.exceptions.fetch_and(!exception::SLICED, Ordering::Relaxed);
            self.published.slice.store(0, Ordering::Relaxed);
        }
    }

    pub(super) fn slice_of(&self, inner: &Inner, process: ProcessId) -> Duration {
        match inner.kernel.payload(process).map_or(0, |context| context.slice) {
            0 => self.parameters.slice.get(),
            micros => Duration::from_micros(micros.into()),
        }
    }

    /// For the monitor: the slice of the process that runs.
    pub(super) fn published_slice(&self) -> Duration {
        // Relaxed: a hint; the safepoint asks the accounts.
        match self.published.slice.load(Ordering::Relaxed) {
            0 => self.parameters.slice.get(),
            micros => Duration::from_micros(micros.into()),
        }
    }
}

impl Inner {
    /// The next slice of `pid`, a whole one, begins when it is continued.
    #[inline]
    pub(super) fn begin_slice(&mut self, pid: ProcessId) {
        let context = self.context_mut(pid);
        context.slice_began = context.busy;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLICE: i64 = 10_000_000;
    const EVER: i64 = i64::MAX;

    /// Has computed for so long since its slice began, which is settled then.
    fn settled(used: u64, contested: i64) -> Context {
        let mut context = Context {
            busy: 77 + used,
            slice_began: 77,
            ..Context::default()
        };
        context.settle(SLICE, contested);
        context
    }

    #[test]
    fn what_a_slice_was_too_long_or_too_short_is_owed() {
        for (used, owed) in [
            (10_000_000, 0),
            (13_000_000, 3_000_000),
            (9_950_000, -50_000),
            (9_000_000, -100_000),
            (95_000_000, 85_000_000),
            (500_000_000, MOST_OWED),
        ] {
            assert_eq!(settled(used, EVER).owed(), owed, "{used}");
        }
        let mut short = Context::default();
        short.settle(1_000, EVER);
        assert_eq!(short.owed(), -500);
    }

    #[test]
    fn what_it_had_without_rivals_is_not_owed() {
        assert_eq!(settled(90_000_000, 2_000_000).owed(), 2_000_000);
        assert_eq!(settled(90_000_000, 0).owed(), 0);
        assert_eq!(settled(10_500_000, 2_000_000).owed(), 500_000);
    }

    #[test]
    fn what_was_used_of_an_unfinished_slice_is_not_owed_and_a_debt_shortens_it() {
        let mut context = settled(13_000_000, EVER);
        context.busy += 6_000_000;
        assert_eq!((context.slice_used(), context.owed()), (9_000_000, 0));
        assert!(!context.owes(SLICE));
        context.settle(SLICE, EVER);
        assert_eq!(context.owed(), -100_000);
        context.slice_began = context.busy;
        assert_eq!(context.owed(), 0);
    }

    #[test]
    fn who_has_had_its_slice_before_passes_and_pays_a_slice() {
        let mut context = settled(35_000_000, EVER);
        for left in [15_000_000, 5_000_000] {
            assert!(context.owes(SLICE));
            context.pass(SLICE);
            assert_eq!(context.owed(), left);
        }
        assert!(!context.owes(SLICE));
        let nearly = settled(19_950_000, EVER);
        assert!(nearly.owes(SLICE));
        assert!(!settled(19_900_000, EVER).owes(SLICE));
    }

    #[test]
    fn slices_shorter_than_a_look_are_paid_for_as_long_as_one() {
        let mut context = settled(10_250_000, EVER);
        for (slice, left) in [(0, 150_000), (1_000, 50_000), (1_000, -500)] {
            assert!(context.owes(slice));
            context.pass(slice);
            assert_eq!(context.owed(), left);
        }
        assert!(!context.owes(1_000));
    }
}
