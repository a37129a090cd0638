//! Threads that are left to one process.
//!
//! A process that waits, or gives way, with foreign frames on its stack (a callback of a C module,
//! say) is *pinned*: it continues only on its native thread. Meanwhile that thread is *kept* for
//! it: no other process runs there, and so nobody else's call is made there. A call could last,
//! could need a lock that is held beneath the callback, or could change what is local to the
//! thread.
//!
//! | step | by |
//! |---|---|
//! | the process is left, and the guest says that it has foreign frames | `Inside::take`, [`Inside::set_pinned`] |
//! | the loop of its thread is continued, in place of the process that was chosen | `Inside::around_foreign_frames` |
//! | the VM goes to another thread, and this one is marked (`is_kept`) | that loop, by [`BaseStep::MakeRoom`](crate::vm::switch::slow_path::BaseStep) |
//! | the process is chosen, and the VM comes back | the loop of the other thread, by [`BaseStep::HandOver`](crate::vm::switch::slow_path::BaseStep) |
//! | its frames are gone: the thread is like any other | the process's next switch, or its end |
//! | a call on the thread is retaken: it is marked anew, or not any more | `Vm::retake` |
//!
//! If nothing else is runnable, the VM waits on the kept thread. Processes that the user has bound
//! to the thread run there, as they can run nowhere else. So do all processes
//!
//! - on home of a VM whose loop a host calls: the host's own frames are there all the time;
//! - if there may be one thread only, or if as many threads as the parameter `max_threads` are kept
//!   already: waiting for such a thread could be for ever. For the same reason a retake takes a
//!   kept thread if no other is left.
//!
//! **No wake-up is lost.** The process is in the scheduler all the time, waiting or runnable. A
//! thread is marked under the VM's mutex, in the step that gives the VM up. A hand-over sets the
//! owner under that mutex, and the thread checks the owner before it waits.
//!
//! **In the middle of a foreign function.** A function that uses the guest's API all the time is
//! never outside for as long as a retake takes. So the guest calls [`Inside::safepoint_in_call`] at
//! an enter. The process gives way there, as in a callback. Processes that need its thread are kept
//! aside meanwhile, bound ones too: the function may be using what is local to the thread.

use crate::sched::{CarrierId, ProcessId};
use crate::trace::{Left, What};
use crate::vm::{HOME, Inner, Inside, Vm};
use baton_sys::fiber::Fiber;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Vm {
    /// How many threads may be kept beside those for calls.
    pub(super) fn most_kept_threads(&self) -> usize {
        match self.parameters.max_threads() {
            1 => 0,
            most => most,
        }
    }

    /// Whether a carrier is kept for a process when the VM goes to another thread.
    pub(super) fn is_kept(&self, inner: &Inner, carrier: CarrierId) -> bool {
        inner.sched.is_pinned_to(carrier) && self.may_be_kept(carrier)
    }

    fn may_be_kept(&self, carrier: CarrierId) -> bool {
        self.most_kept_threads() > 0 && !(carrier == HOME && self.host.exists())
    }

    /// Whether the owner's thread is kept for another process than `pid`.
    #[inline(always)]
    pub(in crate::vm) fn is_kept_from(&self, inner: &Inner, pid: ProcessId) -> bool {
        inner.sched.has_pinned() && self.has_frames_of_others(inner, pid)
    }

    #[cold]
    fn has_frames_of_others(&self, inner: &Inner, pid: ProcessId) -> bool {
        inner.sched.is_used_by_others(inner.carrier, pid) && self.may_be_kept(inner.carrier)
    }

    /// Notes on which carrier a process has foreign frames; `None`: it has none.
    pub(in crate::vm) fn pin(&self, inner: &mut Inner, pid: ProcessId, to: Option<CarrierId>) {
        inner.sched.set_pinned(pid, to);
        // Relaxed: only the owner reads it, and becomes that under the VM's mutex.
        self.may_be_pinned
            .store(inner.sched.has_pinned(), Ordering::Relaxed);
    }

    /// The loop of the owner's thread, if the process that was chosen may not run here.
    pub(in crate::vm) fn loop_if_kept(&self, inner: &mut Inner) -> Option<Fiber> {
        if !inner.sched.has_pinned() {
            // The last one has ended. Relaxed: as in `pin`.
            self.may_be_pinned.store(false, Ordering::Relaxed);
            return None;
        }
        let chosen = inner.sched.current()?;
        let runs_here = match inner.sched.effective_carrier(chosen) {
            Some(carrier) => carrier == inner.carrier,
            None => !self.is_kept_from(inner, chosen),
        };
        if runs_here {
            return None;
        }
        inner.trace(|| What::Left {
            process: chosen,
            cause: Left::Moves,
            blocker: None,
        });
        Some(inner.base_fiber())
    }
}

impl Inside<'_> {
    /// As [`Inside::safepoint`], in the middle of a foreign function whose frames are on the
    /// calling process's stack. Other processes run on other native threads, and the calling
    /// process continues on its own. It does not give way in a critical section, in a simulated
    /// run, or when no other thread is available.
    ///
    /// ```
    /// # mod closures { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doctests/closures.rs")); }
    /// use baton_core::sched::{Priority, SpawnOptions};
    /// use baton_core::vm::Spawned;
    /// closures::run(|main| {
    ///     let home = std::thread::current().id();
    ///     let options = main.options(move |process| {
    ///         assert_ne!(std::thread::current().id(), home);
    ///         process.note("urgent");
    ///     });
    ///     let urgent = SpawnOptions { priority: Priority::HIGHEST, ..options };
    ///     main.vm.spawn(urgent, None, Spawned::Now).expect("there is room");
    ///     main.vm.safepoint_in_call();
    ///     assert_eq!(main.noted(), ["urgent"]);
    ///     assert_eq!(std::thread::current().id(), home);
    /// });
    /// ```
    pub fn safepoint_in_call(&self) {
        let vm = super::this_thread::vm_of_this_thread();
        let me = self.with_inner(|inner| vm.process_in_call(inner));
        // The process may never continue, and then nothing on its stack is dropped.
        drop(vm);
        let Some(me) = me else {
            self.take_in();
            return self.with_inner(|inner| self.update_hints(inner));
        };
        let switches = self.with_inner(|inner| {
            self.keep_thread(inner, me);
            inner.sched.counters().switches
        });
        self.safepoint();
        self.with_inner(|inner| {
            if inner.sched.counters().switches != switches {
                self.counters.gave_way_in_calls.increment();
            }
            inner.take_thread_back(me);
            self.update_hints(inner);
        });
    }
}

impl Vm {
    /// The running process, if it can give way in the middle of a foreign function.
    fn process_in_call(self: &Arc<Vm>, inner: &Inner) -> Option<ProcessId> {
        let me = inner.sched.current()?;
        let stays = self.is_simulated() || self.has_ended() || inner.sched.is_critical();
        (!stays && self.another_thread_is_there()).then_some(me)
    }

    fn another_thread_is_there(self: &Arc<Vm>) -> bool {
        let heir = self.nameless_carrier(&mut self.lock_state());
        if heir.is_none() {
            self.counters.thread_bound_hits.increment();
        }
        heir.is_some()
    }
}

impl Vm {
    fn keep_thread(&self, inner: &mut Inner, me: ProcessId) {
        let carrier = inner.carrier;
        self.pin(inner, me, Some(carrier));
        inner.sched.occupy(carrier, me);
        inner.settle_homebody();
        inner.in_calls += 1;
    }
}

impl Inner {
    fn take_thread_back(&mut self, me: ProcessId) {
        if self.sched.kept_aside_count() > 0 {
            self.note_held_threads();
        }
        self.sched.release(self.carrier, me);
        self.settle_homebody();
        self.in_calls = self.in_calls.saturating_sub(1);
        // A process may wait for a thread.
        self.wake_next_in_queue();
    }
}
