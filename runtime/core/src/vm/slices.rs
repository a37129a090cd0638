//! The ends of slices, and slices of a process's own length.
//!
//! A slice is seldom ended to the microsecond: the monitor looks a little late, a machine may stand still, a function may not let itself be interrupted. What a process has had
//! too much is taken from its next slice, and from whole ones if it is more: its turn is passed over. So shares are equal over many turns, however the
//! single ones end. (Deficit round robin, M. Shreedhar and G. Varghese 1995, of packets.) Who yields or waits begins anew, with neither debts nor credit.
//!
//! The plain turn among equals looks at no lengths: while any process has one of its own, all yields go the longer way, which shows the
//! monitor how long the slice of the process to run is.

use super::{Context, Inner, Vm, exception};
use crate::kernel::{Next, Preemption, ProcessId};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The most that is taken from later slices: who has had more (in a function that computes for seconds and lets nobody in) is not kept waiting for as long.
const MOST_OWED: Duration = Duration::from_millis(100);

pub(super) fn nanos(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}

impl Context {
    /// How much of its slice has been used, in nanoseconds; less than nothing if it has some to its credit.
    #[inline]
    pub(super) fn slice_used(&self) -> i64 {
        // Both are below 2^63 for three centuries.
        self.busy.wrapping_sub(self.slice_began) as i64
    }

    /// Its slice of `slice` nanoseconds is over. What was too much, or too little, goes into the next one.
    fn settle_slice(&mut self, slice: i64) {
        let carried = (self.slice_used() - slice).clamp(-slice / 2, nanos(MOST_OWED));
        self.slice_began = self.busy.wrapping_add_signed(-carried);
    }

    /// Whether it has had most of its next slice already.
    fn owes(&self, slice: i64) -> bool {
        self.slice_used() > slice / 2
    }
}

impl Vm {
    /// The slice of the running process is over: who is next. If all others have had theirs before, the first of them is, for as long as it takes to ask it. So each has
    /// one slice in a round, by running or by passing; what all have had too much is owed to nobody.
    pub(super) fn end_slice(&self, inner: &mut Inner, me: ProcessId) -> Next {
        if self.is_simulated() {
            inner.begin_slice(me);
            return inner.kernel.preempt_current(Preemption::SliceExpired);
        }
        let usual = self.parameters.slice.get();
        let length_of = |context: &Context| match context.slice {
            0 => nanos(usual),
            micros => i64::from(micros) * 1000,
        };
        let context = inner.context_mut(me);
        context.settle_slice(length_of(context));
        let owes = |context: &Context| context.owes(length_of(context));
        inner
            .kernel
            .end_slice(owes, |context| context.settle_slice(length_of(context)))
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
