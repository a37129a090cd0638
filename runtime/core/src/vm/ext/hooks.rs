//! Scheduler hooks and switch hooks: the guest's users choose the next process, or are notified of
//! switches.
//!
//! Switches go directly from process to process, so no user code can run between two processes.
//! While the guest has hooks, the switches that concern them go through the loop of the owner's
//! thread instead. No process is current there: changes to processes take effect in the scheduler,
//! and nothing can wait or give way by mistake. Programs without hooks pay nothing, as the bit for
//! hooks is one of those that [`Inside::yield_now`] reads anyway.
//!
//! A process is *left* when it yields, waits, is preempted, or its foreign call is retaken.

use crate::sched::{Next, ProcessId};
use crate::vm::{Inner, Inside, Vm, slow_reason};
use std::sync::atomic::Ordering;

/// Which hooks are on, and what is due for them. The owner's.
#[derive(Debug, Default)]
pub(in crate::vm) struct Hooks {
    /// The scheduler hook is on.
    has_scheduler: bool,
    /// How many processes have a switch hook.
    hooked: usize,
    /// A process was left or has ended, and a hook has not been called for that yet.
    is_due: bool,
    left: Option<ProcessId>,
}

impl Inside<'_> {
    /// Sets whether [`Guest::scheduler_hook`](crate::guest::Guest::scheduler_hook) is called at
    /// each scheduling decision. Inside the VM.
    ///
    /// ```
    /// # mod closures { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doctests/closures.rs")); }
    /// closures::run(|main| {
    ///     main.spawn(|process| process.note("first"));
    ///     // This guest's `scheduler_hook` returns it.
    ///     main.prefer(main.spawn(|process| process.note("second")));
    ///     main.vm.set_scheduler_hook(true);
    ///     main.vm.yield_now();
    ///     main.vm.set_scheduler_hook(false);
    ///     assert_eq!(main.noted(), ["second", "first"]);
    /// });
    /// ```
    pub fn set_scheduler_hook(&self, on: bool) {
        self.with_inner(|inner| {
            inner.hooks.has_scheduler = on;
            self.show_hooks(inner);
        });
    }

    /// Sets whether [`Guest::switch_hook`](crate::guest::Guest::switch_hook) is called when
    /// `process` is left and continued. Returns whether the process is alive. Inside the VM.
    ///
    /// ```
    /// # mod closures { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doctests/closures.rs")); }
    /// closures::run(|main| {
    ///     main.spawn(|process| process.note("another one"));
    ///     assert!(main.vm.set_switch_hook(main.id, true));
    ///     main.vm.yield_now();
    ///     // This guest's `switch_hook` notes them.
    ///     assert_eq!(main.noted(), ["a switch", "another one", "a switch"]);
    /// });
    /// ```
    pub fn set_switch_hook(&self, process: ProcessId, on: bool) -> bool {
        self.with_inner(|inner| {
            if !inner.sched.is_alive(process) {
                return false;
            }
            if let Some(context) = inner.sched.payload_mut(process)
                && std::mem::replace(&mut context.is_hooked, on) != on
            {
                self.count_hooked(inner, on);
            }
            true
        })
    }
}

impl Vm {
    /// Forgets the hook of a process that never ran.
    pub(in crate::vm) fn unhook(&self, inner: &mut Inner, process: ProcessId) {
        if let Some(context) = inner.sched.payload_mut(process)
            && std::mem::take(&mut context.is_hooked)
        {
            self.count_hooked(inner, false);
        }
    }

    pub(in crate::vm) fn count_hooked(&self, inner: &mut Inner, more: bool) {
        inner.hooks.hooked = match more {
            true => inner.hooks.hooked + 1,
            false => inner.hooks.hooked.saturating_sub(1),
        };
        self.show_hooks(inner);
    }

    fn show_hooks(&self, inner: &Inner) {
        let hooks = &inner.hooks;
        if hooks.has_scheduler || hooks.hooked > 0 {
            // Relaxed: only the owner writes it, except the bits `ENDED` and
            // `STINT_OVER`.
            self.slow_reasons
                .fetch_or(slow_reason::HOOKED, Ordering::Relaxed);
        } else {
            // Relaxed: as above.
            self.slow_reasons
                .fetch_and(!slow_reason::HOOKED, Ordering::Relaxed);
        }
    }
}

impl Inside<'_> {
    /// Calls the hooks that are due, in the loop of the owner's thread. Afterwards the process that
    /// the scheduler hook chose is current.
    #[inline]
    pub(in crate::vm) fn run_hooks(&self) {
        if self.slow_reasons() & slow_reason::HOOKED != 0 {
            self.call_hooks();
        }
    }

    #[cold]
    fn call_hooks(&self) {
        let Some((left, suggested)) = self.with_inner(Inner::question) else {
            return;
        };
        // Relaxed: read under the VM's mutex after a take, which orders it. The VM is not taken
        // from a scheduler hook: there is no current process that could be marked as out.
        let retaking = self.retaking.swap(false, Ordering::Relaxed);
        let mut to =
            self.make_current(suggested.map(|suggested| self.call_scheduler_hook(left, suggested)));
        let mut from = left;
        while from != to && self.with_inner(|inner| inner.is_hooked_switch(from, to)) {
            let [from_data, to_data] = self.with_inner(|inner| {
                inner.sched.relinquish_current();
                [from, to].map(|pid| inner.sched.user_data(pid?))
            });
            self.guest.switch_hook(self, from_data, to_data);
            (from, to) = (to, self.make_current(to));
        }
        // Relaxed: as above.
        self.retaking.store(retaking, Ordering::Relaxed);
    }

    /// The process that the guest chooses. No process is current meanwhile.
    fn call_scheduler_hook(&self, left: Option<ProcessId>, suggested: ProcessId) -> ProcessId {
        let asked = self.with_inner(|inner| {
            let hooks = &inner.hooks;
            let suggested = inner.sched.user_data(suggested)?;
            let left = left.and_then(|left| inner.sched.user_data(left));
            hooks.has_scheduler.then_some((left, suggested))
        });
        let chosen =
            asked.and_then(|(left, suggested)| self.guest.scheduler_hook(self, left, suggested));
        chosen.unwrap_or(suggested)
    }

    /// Makes `chosen` current, or another process if it cannot run. Returns the current process.
    fn make_current(&self, chosen: Option<ProcessId>) -> Option<ProcessId> {
        self.with_inner(|inner| {
            let next = match chosen {
                Some(pid) => inner.sched.switch_to(pid),
                None => inner.sched.schedule(),
            };
            if next == Next::Nothing {
                inner.sched.relinquish_current();
            }
            self.update_hints(inner);
            inner.sched.current()
        })
    }
}

impl Inner {
    /// Whether a switch must go through the loop. If so, it marks the hooks as due.
    pub(in crate::vm) fn must_run_hooks(
        &mut self,
        from: Option<ProcessId>,
        to: Option<ProcessId>,
    ) -> bool {
        let must = self.hooks.has_scheduler || self.is_hooked_switch(from, to);
        if must {
            self.hooks.is_due = true;
            self.hooks.left = from;
        }
        must
    }

    /// Whether the scheduler hook must be called although `me` would continue.
    pub(in crate::vm) fn must_ask_scheduler_hook(&mut self, me: ProcessId) -> bool {
        self.hooks.has_scheduler && self.must_run_hooks(Some(me), None)
    }

    /// Notes that the VM was taken from a call of `process`.
    pub(in crate::vm) fn note_left(&mut self, process: ProcessId) {
        self.must_run_hooks(Some(process), None);
    }

    /// Whether a switch hook is on for one of the two processes.
    fn is_hooked_switch(&self, from: Option<ProcessId>, to: Option<ProcessId>) -> bool {
        let is_hooked = |pid: ProcessId| {
            self.sched
                .payload(pid)
                .is_some_and(|context| context.is_hooked)
        };
        self.hooks.hooked > 0 && [from, to].into_iter().flatten().any(is_hooked)
    }

    /// The process that was left, and the one that would run now, if a hook must be called. No
    /// process is current afterwards.
    fn question(&mut self) -> Option<(Option<ProcessId>, Option<ProcessId>)> {
        let is_due = std::mem::take(&mut self.hooks.is_due);
        let left = self.hooks.left.take();
        let current = self.sched.current();
        if current.is_some() && !is_due {
            return None;
        }
        let suggested = match current {
            Some(current) => Some(current),
            None => match self.sched.schedule() {
                Next::Other(pid) => Some(pid),
                Next::Same | Next::Nothing => None,
            },
        };
        self.sched.relinquish_current();
        (left.is_some() || suggested.is_some()).then_some((left, suggested))
    }
}
