//! The guest is asked who runs next, and told who does: for schedulers and switch hooks that its users write.
//!
//! Switches go straight from process to process, and there is no moment at which code of a user's could run between two of them.
//! So while the guest wants to be consulted, the switches that matter go to the loop of the owner's thread. There nobody is current:
//! whatever the guest does to processes then takes effect in the kernel, and nothing can wait or give way by mistake.
//! Who does not use this pays nothing: that it is in use is one of the bits that [`Vm::yield_now`] looks at anyway.
//!
//! A process is *left* when it has yielded, waits, was preempted, or is out in a call that was retaken.

use super::{Inner, Vm, exception};
use crate::kernel::{Next, ProcessId};
use std::sync::atomic::Ordering;

/// What the guest wants to hear, and what it has to be told. The owner's.
#[derive(Debug, Default)]
pub(super) struct Consulting {
    /// It chooses who runs.
    chooses: bool,
    /// Processes whose switches it is told of.
    hooked: usize,
    /// A process was left, or has ended, and the guest is to hear of it.
    is_due: bool,
    left: Option<ProcessId>,
}

impl Vm {
    /// Whether [`Guest::choose`](crate::guest::Guest::choose) is asked at each decision. Inside the VM.
    ///
    /// ```
    /// # mod closures { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doctests/closures.rs")); }
    /// closures::run(|main| {
    ///     main.spawn(|process| process.note("first"));
    ///     main.prefer(main.spawn(|process| process.note("second"))); // this guest's `choose` answers it
    ///     main.vm.set_choosing(true);
    ///     main.vm.yield_now();
    ///     main.vm.set_choosing(false);
    ///     assert_eq!(main.noted(), ["second", "first"]);
    /// });
    /// ```
    pub fn set_choosing(&self, on: bool) {
        self.inner.with(|inner| {
            inner.consulting.chooses = on;
            self.show_consulting(inner);
        });
    }

    /// Whether [`Guest::switching`](crate::guest::Guest::switching) is told when `process` is left and continued. Says whether that lives. Inside the VM.
    ///
    /// ```
    /// # mod closures { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doctests/closures.rs")); }
    /// closures::run(|main| {
    ///     main.spawn(|process| process.note("another one"));
    ///     assert!(main.vm.set_hooked(main.id, true));
    ///     main.vm.yield_now();
    ///     assert_eq!(main.noted(), ["a switch", "another one", "a switch"]); // this guest's `switching` notes them
    /// });
    /// ```
    pub fn set_hooked(&self, process: ProcessId, on: bool) -> bool {
        self.inner.with(|inner| {
            if !inner.kernel.is_alive(process) {
                return false;
            }
            if let Some(context) = inner.kernel.payload_mut(process)
                && std::mem::replace(&mut context.is_hooked, on) != on
            {
                self.count_hooked(inner, on);
            }
            true
        })
    }

    /// A process that has not run is forgotten.
    pub(super) fn unhook(&self, inner: &mut Inner, process: ProcessId) {
        if let Some(context) = inner.kernel.payload_mut(process)
            && std::mem::take(&mut context.is_hooked)
        {
            self.count_hooked(inner, false);
        }
    }

    pub(super) fn count_hooked(&self, inner: &mut Inner, more: bool) {
        inner.consulting.hooked = match more {
            true => inner.consulting.hooked + 1,
            false => inner.consulting.hooked.saturating_sub(1),
        };
        self.show_consulting(inner);
    }

    fn show_consulting(&self, inner: &Inner) {
        let consulting = &inner.consulting;
        if consulting.chooses || consulting.hooked > 0 {
            // Relaxed: the owner's alone, but for `ENDED`.
            self.exceptions.fetch_or(exception::CONSULTED, Ordering::Relaxed);
        } else {
            // Relaxed: as above.
            self.exceptions.fetch_and(!exception::CONSULTED, Ordering::Relaxed);
        }
    }

    /// In the loop of the owner's thread: asks and tells the guest, if it is to be. Whoever it chose is current then.
    #[inline]
    pub(super) fn consult(&self) {
        if self.exceptions() & exception::CONSULTED != 0 {
            self.consult_guest();
        }
    }

    #[cold]
    fn consult_guest(&self) {
        let Some((left, suggested)) = self.inner.with(Inner::question) else {
            return;
        };
        // Relaxed: read under the VM's mutex after a take, which orders it. Nobody takes the VM from a scheduler: no process could be put outside.
        let retaking = self.retaking.swap(false, Ordering::Relaxed);
        let mut to = self.settle(suggested.map(|suggested| self.choose(left, suggested)));
        let mut from = left;
        while from != to && self.inner.with(|inner| inner.hears_of(from, to)) {
            let words = self.inner.with(|inner| {
                inner.kernel.relinquish_current();
                [from, to].map(|pid| pid.map(|pid| inner.kernel.guest(pid)))
            });
            self.guest.switching(words[0], words[1]);
            (from, to) = (to, self.settle(to));
        }
        // Relaxed: as above.
        self.retaking.store(retaking, Ordering::Relaxed);
    }

    /// Whom the guest wants to run. Nobody is current.
    fn choose(&self, left: Option<ProcessId>, suggested: ProcessId) -> ProcessId {
        let asked = self.inner.with(|inner| {
            let consulting = &inner.consulting;
            let words = (left.map(|left| inner.kernel.guest(left)), inner.kernel.guest(suggested));
            consulting.chooses.then_some(words)
        });
        let chosen = asked.and_then(|(left, suggested)| self.guest.choose(left, suggested));
        chosen.unwrap_or(suggested)
    }

    /// Makes `chosen` current, or another one if it cannot run; says whom.
    fn settle(&self, chosen: Option<ProcessId>) -> Option<ProcessId> {
        self.inner.with(|inner| {
            let next = match chosen {
                Some(pid) => inner.kernel.switch_to(pid),
                None => inner.kernel.schedule(),
            };
            if next == Next::Nothing {
                inner.kernel.relinquish_current();
            }
            self.publish(inner);
            inner.kernel.current()
        })
    }
}

impl Inner {
    /// Whether a switch has to go through the loop; if so, the loop knows.
    pub(super) fn must_consult(&mut self, from: Option<ProcessId>, to: Option<ProcessId>) -> bool {
        let must = self.consulting.chooses || self.hears_of(from, to);
        if must {
            self.consulting.is_due = true;
            self.consulting.left = from;
        }
        must
    }

    /// Whether the guest is asked although `me` would go on.
    pub(super) fn must_ask(&mut self, me: ProcessId) -> bool {
        self.consulting.chooses && self.must_consult(Some(me), None)
    }

    /// The VM was taken from a call of `process`.
    pub(super) fn note_left(&mut self, process: ProcessId) {
        self.must_consult(Some(process), None);
    }

    /// Whether the guest is told of a switch.
    fn hears_of(&self, from: Option<ProcessId>, to: Option<ProcessId>) -> bool {
        let is_hooked = |pid: ProcessId| self.kernel.payload(pid).is_some_and(|context| context.is_hooked);
        self.consulting.hooked > 0 && [from, to].into_iter().flatten().any(is_hooked)
    }

    /// Who was left and who would run now, if the guest is to hear of it. Nobody is current then.
    fn question(&mut self) -> Option<(Option<ProcessId>, Option<ProcessId>)> {
        let is_due = std::mem::take(&mut self.consulting.is_due);
        let left = self.consulting.left.take();
        let current = self.kernel.current();
        if current.is_some() && !is_due {
            return None;
        }
        let suggested = match current {
            Some(current) => Some(current),
            None => match self.kernel.schedule() {
                Next::Other(pid) => Some(pid),
                Next::Same | Next::Nothing => None,
            },
        };
        self.kernel.relinquish_current();
        (left.is_some() || suggested.is_some()).then_some((left, suggested))
    }
}
