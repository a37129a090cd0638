//! Slices of a process's own length.
//!
//! A handoff among equals ignores lengths. So while any process has its own slice length, all
//! yields take the slow path, which hints the length of the next process's slice to the monitor.

use crate::sched::ProcessId;
use crate::vm::preempt::next_poll::TICK;
use crate::vm::{Context, Inner, Inside, Vm, slow_reason};
use baton_sys::clock::Instant;
use baton_sys::gate;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How much earlier than `slice` it may end, in nanoseconds, as the monitor's clock and the
/// accounts differ a little. At most half of it.
pub(super) fn tolerance(slice: i64) -> i64 {
    (slice / 2).min(100_000)
}

fn nanos(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}

impl Context {
    /// How much of its slice has been used, in nanoseconds; negative if it has credit.
    #[inline]
    pub(in crate::vm) fn slice_used(&self) -> i64 {
        // Both are below 2^63 for three centuries.
        self.busy.wrapping_sub(self.slice_began) as i64
    }

    /// The length of its slices, in nanoseconds.
    pub(super) fn length_of_slice(&self, usual: Duration) -> i64 {
        match self.slice {
            0 => nanos(usual),
            micros => i64::from(micros) * 1000,
        }
    }
}

impl Vm {
    /// Whether the slice of the running process is over; charges its time so far. The request that
    /// led here may have been meant for another process.
    pub(super) fn slice_is_over(&self, inner: &mut Inner, me: ProcessId, outranked: bool) -> bool {
        if self.is_simulated() {
            return !outranked;
        }
        let (used, slice) = self.slice_so_far(inner, me);
        used.saturating_add(tolerance(slice)) >= slice
    }

    /// Whether the slice overran by more than the clock error, and an equal is runnable. The
    /// monitor has not requested the end of the slice yet, so the equal has just come; this saves
    /// another poll.
    pub(super) fn slice_is_long_over(&self, inner: &mut Inner, me: ProcessId) -> bool {
        if self.is_simulated() || !inner.sched.run_queue_summary().rivals {
            return false;
        }
        let (used, slice) = self.slice_so_far(inner, me);
        used >= slice.saturating_add(nanos(TICK))
    }

    /// Charges the running process. Returns how much of its slice it has used, and the length of
    /// the slice.
    fn slice_so_far(&self, inner: &mut Inner, me: ProcessId) -> (i64, i64) {
        inner.account(me, Instant::now().as_nanos());
        let context = inner.context(me);
        (
            context.slice_used(),
            context.length_of_slice(self.parameters.slice.get()),
        )
    }
}

impl Inside<'_> {
    /// Makes the calling process give way to its equals once, at its next safepoint, so that they
    /// run before a long piece of work that nothing can interrupt. It keeps the rest of its slice.
    /// Inside the VM.
    ///
    /// ```
    /// # mod closures { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doctests/closures.rs")); }
    /// use baton_core::vm::Spawned;
    /// closures::run(|main| {
    /// #   main.vm.parameters.slice.set(std::time::Duration::from_secs(3600));
    ///     let options = main.options(|process| process.note("equal"));
    ///     main.vm.spawn(options, None, Spawned::Now).expect("there is room");
    ///     main.vm.safepoint();
    ///     main.note("main");
    ///     main.vm.step_aside();
    ///     main.vm.safepoint();
    ///     assert_eq!(main.noted(), ["main", "equal"]);
    /// });
    /// ```
    pub fn step_aside(&self) {
        self.with_inner(|inner| inner.steps_aside = inner.sched.current());
        gate::here().set_attention();
    }

    /// Sets the length of a process's slices, from a microsecond to an hour; `None` means the
    /// parameter `slice`. The current slice changes at once. Returns whether the process is alive.
    /// Inside the VM.
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
        self.with_inner(|inner| {
            let lives = inner.sched.is_alive(process);
            if lives {
                self.change_slice(inner, process, micros);
            }
            lives
        })
    }

    /// The length of a process's slices. Inside the VM.
    pub fn slice(&self, process: ProcessId) -> Duration {
        self.with_inner(|inner| self.slice_of(inner, process))
    }
}

impl Vm {
    /// Changes the slice length of a process, or ends its own length when it has ended.
    pub(in crate::vm) fn change_slice(&self, inner: &mut Inner, process: ProcessId, micros: u32) {
        let Some(context) = inner.sched.payload_mut(process) else {
            return;
        };
        let before = std::mem::replace(&mut context.slice, micros);
        self.count_sliced(inner, before, micros);
        if inner.sched.current() == Some(process) {
            // Relaxed: a hint.
            self.hints.slice.store(micros, Ordering::Relaxed);
            inner.account(process, Instant::now().as_nanos());
            self.renew_slice(inner, process);
        }
    }

    pub(super) fn count_sliced(&self, inner: &mut Inner, before: u32, after: u32) {
        inner.sliced = inner.sliced + usize::from(after != 0) - usize::from(before != 0);
        if inner.sliced > 0 {
            // Relaxed (all): only the owner writes it, except the bit `ENDED`.
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

    /// The slice length of the running process, for the monitor.
    pub(in crate::vm) fn hinted_slice(&self) -> Duration {
        // Relaxed: a hint; the safepoint uses the exact accounts.
        match self.hints.slice.load(Ordering::Relaxed) {
            0 => self.parameters.slice.get(),
            micros => Duration::from_micros(micros.into()),
        }
    }
}

impl Inner {
    /// Whether the running process gives way to its equals at this safepoint. While a more urgent
    /// process is runnable, that is left to a later one.
    pub(in crate::vm) fn steps_aside_now(&mut self, me: ProcessId, outranked: bool) -> bool {
        let steps_aside = self.steps_aside == Some(me) && !outranked;
        if steps_aside {
            self.steps_aside = None;
        }
        steps_aside
    }

    /// Begins a whole slice of `pid`, from when it is continued.
    #[inline]
    pub(in crate::vm) fn begin_slice(&mut self, pid: ProcessId) {
        let context = self.context_mut(pid);
        context.slice_began = context.busy;
    }
}
