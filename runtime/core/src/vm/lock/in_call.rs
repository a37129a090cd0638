//! Giving way in the middle of a foreign function.
//!
//! A function that uses the guest's API all the time is never outside for as long as a retake
//! takes. So the guest calls this module at an enter. If the slice is over, or a more urgent
//! process is runnable, the process gives way there. It is then like a process whose call was
//! retaken and has just come back. Its frames are on its native thread, and it continues there when
//! it is chosen. No other process runs on that thread meanwhile.
//!
//! | step | by |
//! |---|---|
//! | the process is runnable, processes that need its thread are kept aside, and the thread is reserved for it (`is_kept`) | the process, in [`Inside::safepoint_in_call`] |
//! | the process's stack is left | the same, by a switch to the loop of its thread |
//! | the VM goes to another thread | that loop, by [`BaseStep::MakeRoom`](crate::vm::switch::slow_path::BaseStep) |
//! | the process is chosen, and the VM comes back | the loop of the other thread, by [`BaseStep::HandOver`](crate::vm::switch::slow_path::BaseStep) |
//! | the thread is no longer reserved | the process, in [`Inside::safepoint_in_call`] |
//!
//! **No wake-up is lost.** The process stays in the run queue all the time. Its thread is reserved
//! under the VM's mutex before its stack is left. A hand-over sets the owner under that mutex, and
//! the thread checks the owner before it waits.

use crate::sched::{CarrierId, Preemption, ProcessId};
use crate::vm::inside::Jump;
use crate::vm::{HOME, Inner, Inside, Vm, slow_reason};
use baton_sys::clock::Instant;
use std::sync::Arc;
use std::sync::atomic::Ordering;

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
        let requests = self.take_in();
        let vm = super::this_thread::vm_of_this_thread();
        let jump = self.with_inner(|inner| vm.plan_in_call(inner, requests));
        // The process may never continue, and then nothing on its stack is dropped.
        drop(vm);
        if jump.is_some() {
            self.counters.gave_way_in_calls.increment();
            self.take(jump);
            self.with_inner(|inner| self.take_thread_back(inner));
        }
    }
}

impl Vm {
    fn plan_in_call(self: &Arc<Vm>, inner: &mut Inner, requests: u32) -> Option<Jump> {
        let me = self.preemptible_process(inner, requests)?;
        let carrier = inner.carrier;
        let outranked = inner.sched.current_should_yield();
        let steps_aside = inner.steps_aside_now(me, outranked);
        let is_over = self.must_end_slice(inner, me, requests, outranked);
        let stays = self.is_simulated() || self.has_ended() || inner.sched.is_critical();
        if stays || !(is_over || outranked || steps_aside) {
            self.update_hints(inner);
            return None;
        }
        self.keep_thread(inner, me, carrier);
        let jump = if inner.sched.run_queue_summary().rivals && self.another_thread_is_there() {
            let cause = if outranked {
                Preemption::MoreUrgent
            } else {
                Preemption::SliceExpired
            };
            self.decide_in_call(inner, me, is_over, cause)
        } else {
            None
        };
        if jump.is_none() {
            if inner.sched.kept_aside_count() > 0 {
                inner.note_held_threads();
            }
            self.release_thread(inner, me, carrier);
            if is_over {
                inner.begin_slice(me);
                self.renew_slice(inner, me);
            }
            self.update_hints(inner);
            return None;
        }
        let mut state = self.lock_state();
        if let Some(entry) = state.entry(carrier) {
            entry.is_kept = true;
        }
        // An abandoned retake leaves its mark in the gate. The loop would conclude that the VM is
        // gone.
        let _inside = self.own_gate(&state);
        inner.in_calls += 1;
        jump
    }

    /// Decides which process runs next, from the loop of this thread.
    fn decide_in_call(
        &self,
        inner: &mut Inner,
        me: ProcessId,
        is_over: bool,
        cause: Preemption,
    ) -> Option<Jump> {
        // Relaxed (both): only the owner writes it, except the bit `ENDED`.
        self.slow_reasons
            .fetch_or(slow_reason::IN_CALL, Ordering::Relaxed);
        let jump = if is_over {
            self.end_slice(inner, me)
        } else {
            inner.account(me, Instant::now().as_nanos());
            let next = inner.sched.preempt_current(cause);
            self.plan(inner, me, next)
        };
        // Relaxed: as above.
        self.slow_reasons
            .fetch_and(!slow_reason::IN_CALL, Ordering::Relaxed);
        jump
    }

    fn another_thread_is_there(self: &Arc<Vm>) -> bool {
        let heir = self.nameless_carrier(&mut self.lock_state());
        if heir.is_none() {
            self.counters.thread_bound_hits.increment();
        }
        heir.is_some()
    }

    fn keep_thread(&self, inner: &mut Inner, me: ProcessId, carrier: CarrierId) {
        inner.sched.set_pinned(me, Some(carrier));
        if carrier == HOME {
            inner.home_is_out(me, true);
        }
        inner.sched.occupy(carrier, me);
    }

    fn release_thread(&self, inner: &mut Inner, me: ProcessId, carrier: CarrierId) {
        inner.sched.release(carrier, me);
        if carrier == HOME {
            inner.home_is_out(me, false);
        }
    }

    /// Ends the reservation of the thread: its process continues.
    fn take_thread_back(&self, inner: &mut Inner) {
        let carrier = inner.carrier;
        if let Some(me) = inner.sched.current() {
            self.release_thread(inner, me, carrier);
        }
        if let Some(entry) = self.lock_state().entry(carrier) {
            entry.is_kept = false;
        }
        inner.in_calls = inner.in_calls.saturating_sub(1);
        // A process may wait for a thread.
        inner.wake_next_in_queue();
        self.update_hints(inner);
    }
}

impl Inner {
    /// Whether the owner's thread is reserved for another process, which has given way in the
    /// middle of a foreign function.
    pub(in crate::vm) fn is_kept_for_another(&self, pid: ProcessId) -> bool {
        self.sched
            .occupant(self.carrier)
            .is_some_and(|occupant| occupant != pid)
    }
}
