//! Slices of a process's own length.
//!
//! The fast handoff among equals ignores lengths: while any process has one of its own, all
//! yields take the slow path, which shows the monitor how long the slice of the process to run is.

use crate::sched::ProcessId;
use crate::vm::preempt::next_poll::TICK;
use crate::vm::{Context, Inner, Vm, slow_reason};
use baton_sys::clock::Instant;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// In nanoseconds: a slice may end this much early, as the monitor's clock and the accounts differ
/// a little. Half of it, if it is a short one.
pub(super) fn tolerance(slice: i64) -> i64 {
    (slice / 2).min(100_000)
}

fn nanos(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}

impl Context {
    /// How much of its slice has been used, in nanoseconds; less than nothing if it has some to its
    /// credit.
    #[inline]
    pub(in crate::vm) fn slice_used(&self) -> i64 {
        // Both are below 2^63 for three centuries.
        self.busy.wrapping_sub(self.slice_began) as i64
    }

    /// In nanoseconds.
    pub(super) fn length_of_slice(&self, usual: Duration) -> i64 {
        match self.slice {
            0 => nanos(usual),
            micros => i64::from(micros) * 1000,
        }
    }
}

impl Vm {
    /// Whether the running process has had its slice; charges its time so far. A request for it may
    /// have been meant for another one.
    pub(super) fn slice_is_over(&self, inner: &mut Inner, me: ProcessId, outranked: bool) -> bool {
        if self.is_simulated() {
            return !outranked;
        }
        let (used, slice) = self.slice_so_far(inner, me);
        used.saturating_add(tolerance(slice)) >= slice
    }

    /// Whether it has had more than its slice, however little is known of the end of the run
    /// before, and an equal is there. That one has come just now, as nobody has asked for the end
    /// of the slice: the monitor would have to poll once more.
    pub(super) fn slice_is_long_over(&self, inner: &mut Inner, me: ProcessId) -> bool {
        if self.is_simulated() || !inner.sched.run_queue_summary().rivals {
            return false;
        }
        let (used, slice) = self.slice_so_far(inner, me);
        used >= slice.saturating_add(nanos(TICK))
    }

    /// How much of its slice the running process has used, whose time so far is charged, and how
    /// long that is.
    fn slice_so_far(&self, inner: &mut Inner, me: ProcessId) -> (i64, i64) {
        inner.account(me, Instant::now().as_nanos());
        let context = inner.context(me);
        (
            context.slice_used(),
            context.length_of_slice(self.parameters.slice.get()),
        )
    }

    /// Gives a process slices of this length (from a microsecond to an hour), or with `None` those
    /// of the parameter `slice`. The slice that it is in has the new length at once. Says whether
    /// it lives. Inside the VM.
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
            let lives = inner.sched.is_alive(process);
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
    pub(in crate::vm) fn change_slice(&self, inner: &mut Inner, process: ProcessId, micros: u32) {
        let Some(context) = inner.sched.payload_mut(process) else {
            return;
        };
        let before = std::mem::replace(&mut context.slice, micros);
        self.count_sliced(inner, before, micros);
        if inner.sched.current() == Some(process) {
            // Relaxed: a hint.
            self.hints.slice.store(micros, Ordering::Relaxed);
            // What it has had was no deficit by the old length.
            inner.deficits.note_change();
            inner.account(process, Instant::now().as_nanos());
            self.renew_slice(inner, process);
        }
    }

    pub(super) fn count_sliced(&self, inner: &mut Inner, before: u32, after: u32) {
        inner.sliced = inner.sliced + usize::from(after != 0) - usize::from(before != 0);
        if inner.sliced > 0 {
            // Relaxed (all): the owner's alone, but for `ENDED`.
            self.slow_reasons
                .fetch_or(slow_reason::SLICED, Ordering::Relaxed);
        } else {
            self.slow_reasons
                .fetch_and(!slow_reason::SLICED, Ordering::Relaxed);
            self.hints.slice.store(0, Ordering::Relaxed);
        }
    }

    pub(in crate::vm) fn slice_of(&self, inner: &Inner, process: ProcessId) -> Duration {
        match inner
            .sched
            .payload(process)
            .map_or(0, |context| context.slice)
        {
            0 => self.parameters.slice.get(),
            micros => Duration::from_micros(micros.into()),
        }
    }

    /// For the monitor: the slice of the process that runs.
    pub(in crate::vm) fn hinted_slice(&self) -> Duration {
        // Relaxed: a hint; the safepoint asks the accounts.
        match self.hints.slice.load(Ordering::Relaxed) {
            0 => self.parameters.slice.get(),
            micros => Duration::from_micros(micros.into()),
        }
    }
}

impl Inner {
    /// The next slice of `pid`, a whole one, begins when it is continued.
    #[inline]
    pub(in crate::vm) fn begin_slice(&mut self, pid: ProcessId) {
        let context = self.context_mut(pid);
        context.slice_began = context.busy;
    }
}
