//! Slices of a process's own length.
//!
//! The plain turn among equals looks at no lengths: while any process has one of its own, all yields go the longer way, which shows the
//! monitor how long the slice of the process to run is.

use super::{Inner, Vm, exception};
use crate::kernel::ProcessId;
use std::sync::atomic::Ordering;
use std::time::Duration;

impl Vm {
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
