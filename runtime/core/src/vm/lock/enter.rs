//! The slow half of the VM lock: retaking the VM from a foreign call, and entering after a retake.
//!
//! The fast half is in [`baton_sys::gate`]. Here everything happens under the VM's mutex:
//!
//! | state of the VM | meaning |
//! |---|---|
//! | owner = C, C has not come | C was granted the VM and is waking up; there is nothing to retake |
//! | owner = C, C's gate even | C is inside |
//! | owner = C, C's gate odd | C is out in a foreign call that was not retaken |
//! | owner = D, C is `out` | the VM was retaken from C's call and runs on D |
//!
//! | edge | made by |
//! |---|---|
//! | C -> D, while C is outside | [`Vm::retake`] (the monitor) |
//! | C -> D, by C itself | [`Inside::hand_over`] |
//! | C `out` -> C free, its process runnable | [`ForeignCall::enter_cold`]; then the loop of C posts it |
//!
//! **No wake-up is lost.** A grant sets `owner` under the mutex and notifies the carrier's
//! condition variable. A carrier checks `owner` under that mutex before it waits. A returning
//! thread posts after it has left the process's stack, and the post kicks the owner by the protocol
//! of [`baton_sys::parking`].

use super::state::{Back, LockState, Outside};
use super::this_thread::sleep_for_ever;
use crate::guest::RetakePolicy;
use crate::sched::CarrierId;
use crate::trace::What;
use crate::vm::{ForeignCall, HOME, Inside, Vm};
use baton_sys::clock::Instant;
use baton_sys::gate::{self, Claim, Take};
use baton_sys::signals::ThreadHandle;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};

/// The result of a retake, for the monitor.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::vm) enum Retake {
    /// The VM runs other processes now.
    Done,
    /// The call had ended.
    Ended,
    /// The function is exclusive: the monitor does not try again for this call.
    Exclusive,
    /// Every thread up to the bound is out in a call.
    NoThread,
}

impl Vm {
    pub(in crate::vm) fn lock_state(&self) -> MutexGuard<'_, LockState> {
        self.lock.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Enters the VM at the end of a foreign call, also when that panics.
pub(super) struct EnterAtEnd<'vm>(pub(super) Option<ForeignCall<'vm>>);

impl Drop for EnterAtEnd<'_> {
    fn drop(&mut self) {
        if let Some(call) = self.0.take() {
            call.enter();
        }
    }
}

impl Inside<'_> {
    /// Runs a foreign call outside the VM, so that the VM can be retaken if the call is long.
    ///
    /// ```
    /// use std::sync::mpsc::channel;
    /// # mod closures { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doctests/closures.rs")); }
    /// closures::run(|main| {
    ///     let (give, take) = channel();
    ///     main.spawn(move |_| give.send("meanwhile").expect("there is a receiver"));
    ///     // This blocks outside the VM, so the other process runs.
    ///     let heard = main.vm.foreign(|| take.recv());
    ///     assert_eq!(heard, Ok("meanwhile"));
    /// });
    /// ```
    pub fn foreign<R>(&mut self, f: impl FnOnce() -> R) -> R {
        let _call = EnterAtEnd(Some(self.reborrow().leave()));
        f()
    }
}

impl<'vm> ForeignCall<'vm> {
    /// Enters the VM after a foreign call.
    #[inline]
    pub fn enter(self) -> Inside<'vm> {
        if gate::here().begin_enter() & (gate::REVOKED | gate::CAS | gate::FORKED) != 0 {
            return self.enter_cold();
        }
        self.entered()
    }

    /// The slow half of an enter, when the gate showed [`gate::REVOKED`], [`gate::CAS`] or
    /// [`gate::FORKED`]. Returns when the calling process is inside. That may be later, and on
    /// another native thread.
    #[cold]
    #[inline(never)]
    pub fn enter_cold(self) -> Inside<'vm> {
        self.enter_again(false);
        self.entered()
    }

    /// As [`ForeignCall::enter_cold`], for a callback in the middle of a foreign call. Its frames
    /// stay on the process's stack, so the process continues on this native thread.
    #[cold]
    #[inline(never)]
    pub fn enter_cold_pinned(self) -> Inside<'vm> {
        self.enter_again(true);
        self.entered()
    }
}

impl ForeignCall<'_> {
    fn enter_again(&self, pinned: bool) {
        let (here, vm) = (gate::here(), self.vm);
        if here.slow() & gate::FORKED != 0 {
            vm.rebuild_after_fork();
            return;
        }
        if here.slow() & gate::CAS != 0 {
            let claim = here.claim_enter();
            if claim == Claim::Kept && here.slow() & gate::REVOKED == 0 {
                return;
            }
        }
        let Some(me) = here.carrier().map(CarrierId) else {
            return;
        };
        let mut state = vm.lock_state();
        if state.owner == Some(me) {
            // The retake was abandoned, or undone by the guest's retake policy.
            let must_warn = std::mem::take(&mut state.owner_must_warn);
            let inside = vm.own_gate(&state);
            if must_warn {
                inside.warn_of_own_call(&state);
            }
            return;
        }
        let Some(entry) = state.entry(me) else { return };
        let (out, base) = (entry.take_call(), entry.base);
        let Some((Outside { process, fiber, .. }, cpu)) = out else {
            // The VM was halted while the guest's hooks were out, on this thread's own loop.
            drop(state);
            vm.guest.departed();
            sleep_for_ever();
        };
        let Some(base) = base else {
            crate::panics::broken("a thread without a loop came back")
        };
        let Some(entry) = state.entry(me) else { return };
        entry.returned = Some(Back {
            process,
            is_pinned: pinned,
            cpu,
        });
        entry.needed |= pinned;
        self.give_up(&mut state);
        drop(state);
        vm.guest.departed();
        // Home goes to its loop, which ends the VM's run when no other thread runs the VM.
        if vm.has_ended() && me != HOME && !vm.abandons_calls() {
            sleep_for_ever();
        }
        // The loop of this thread posts that the process came back. The owner of the VM continues
        // the process.
        self.wait_in_loop(fiber, base);
    }
}

impl Vm {
    /// Makes the owner report its own call as a stall at its next enter: its gate moves too fast
    /// for a retake. To the gate's protocol this is an abandoned retake. The thread stays the
    /// owner, and clears `REVOKED` while it holds the mutex.
    pub(in crate::vm) fn have_owner_warn(&self) {
        let mut state = self.lock_state();
        let owner = state.owner.filter(|_| state.owner_has_come);
        if let Some(gate) = owner
            .and_then(|owner| state.entry(owner))
            .and_then(|entry| entry.gate)
        {
            state.owner_must_warn = true;
            gate.revoke();
        }
    }
}

impl Inside<'_> {
    /// Reports the calling thread's own call, as the monitor would: with the VM's mutex held, and
    /// outside. Does nothing if a safepoint was reached since, as then the call has kept no process
    /// waiting.
    fn warn_of_own_call(self, state: &LockState) {
        let has_delayed = self.guest.has_delayed();
        // Relaxed: a hint.
        let unanswered = self.requests.load(Ordering::Relaxed) & crate::vm::request::SLICE != 0;
        let user_data = self.with_inner(|inner| {
            let due = self
                .next_deadline(inner)
                .is_some_and(|deadline| deadline <= Instant::now());
            let current = inner
                .sched
                .current()
                .filter(|_| unanswered || due || has_delayed);
            if let Some(process) = current {
                inner.trace(|| What::Stalls { process });
            }
            current.and_then(|process| inner.sched.user_data(process))
        });
        if let Some(user_data) = user_data {
            let call = self.leave();
            call.vm.guest.warn_blocked(user_data);
            let _inside = call.vm.own_gate(state);
        }
    }
}

impl Vm {
    /// Takes the VM from the foreign call with the odd gate value `seen`, and has another thread
    /// run it. Called by the monitor.
    pub(in crate::vm) fn retake(self: &Arc<Vm>, seen: u64, warn: bool) -> Retake {
        let mut state = self.lock_state();
        // Relaxed: written by the owner; the guest's retake policy corrects a stale value.
        if self.has_ended() || !self.retaking.load(Ordering::Relaxed) {
            return Retake::Ended;
        }
        let Some(owner) = state.owner.filter(|_| state.owner_has_come) else {
            return Retake::Ended;
        };
        let Some(gate) = state.entry(owner).and_then(|entry| entry.gate) else {
            return Retake::Ended;
        };
        if gate.value() != seen || seen & 1 == 0 {
            return Retake::Ended;
        }
        let Some(heir) = self.carrier_to_spare(&mut state) else {
            self.counters.thread_bound_hits.increment();
            return Retake::NoThread;
        };
        let take = self.take_from(gate, seen);
        if take == Take::GaveUp {
            self.counters.false_retakes.increment();
            return Retake::Ended;
        }
        // The VM is taken: its thread needs this mutex before it can enter.
        if !self.apply_retake_policy(&mut state, owner, warn) {
            return Retake::Exclusive;
        }
        self.counters.retakes.increment();
        state.grant(heir);
        Retake::Done
    }

    /// Asks the guest about the call that was just retaken. `false`: the VM stays with the call.
    /// The calling thread notices at its next enter.
    fn apply_retake_policy(&self, state: &mut LockState, owner: CarrierId, warn: bool) -> bool {
        self.with_mutex_held(state, |inner, state| {
            let Some(process) = inner.process_on_stack() else {
                return false;
            };
            let Some(user_data) = inner.sched.user_data(process) else {
                return false;
            };
            let policy = if inner.sched.is_critical() {
                RetakePolicy::Stay
            } else {
                self.guest.retake_policy(user_data)
            };
            let RetakePolicy::Retake { pinned } = policy else {
                self.counters.exclusive_calls.increment();
                if warn {
                    inner.trace(|| What::Stalls { process });
                    self.guest.warn_blocked(user_data);
                }
                return false;
            };
            let Some(fiber) = inner.context(process).fiber else {
                return false;
            };
            inner.charge(process, Instant::now().as_nanos());
            self.pin(inner, process, pinned.then_some(owner));
            inner.sched.begin_foreign(process, owner);
            if inner.tracer.is_some() {
                inner.trace_call(process, owner, self.guest.wording());
            }
            inner.note_left(process);
            inner.settle_homebody();
            if let Some(entry) = state.entry(owner) {
                entry.out = Some(Outside {
                    process,
                    fiber,
                    began: entry.thread.and_then(ThreadHandle::cpu_time),
                });
                entry.needed = inner.sched.is_pinned_to(owner);
                entry.is_kept = self.is_kept(inner, owner);
            }
            true
        })
    }
}

impl Inside<'_> {
    /// Gives the VM from the calling thread's loop to the carrier `to`.
    pub(super) fn hand_over(self, to: CarrierId) {
        let me = self.owner_for_hand_over();
        let vm = self.vm;
        self.hand_over_locked(&mut vm.lock_state(), me, to);
    }

    /// Gives the VM from the calling thread's loop to a thread that is reserved for no process.
    ///
    /// # Errors
    /// The token: all of those threads are out.
    pub(super) fn make_room(self) -> Result<(), Self> {
        let me = self.owner_for_hand_over();
        let vm = self.vm;
        let mut state = vm.lock_state();
        match self.to_arc().nameless_carrier(&mut state) {
            Some(heir) => {
                self.hand_over_locked(&mut state, me, heir);
                Ok(())
            }
            None => {
                vm.counters.thread_bound_hits.increment();
                Err(self)
            }
        }
    }

    fn owner_for_hand_over(&self) -> (CarrierId, bool, bool) {
        self.with_inner(|inner| {
            let me = inner.carrier;
            (me, inner.sched.is_pinned_to(me), self.is_kept(inner, me))
        })
    }

    fn hand_over_locked(
        self,
        state: &mut LockState,
        (me, needed, is_kept): (CarrierId, bool, bool),
        to: CarrierId,
    ) {
        if let Some(entry) = state.entry(me) {
            entry.needed = needed;
            entry.is_kept = is_kept;
        }
        if state.entry(to).is_none() {
            crate::panics::broken("a process is bound to a thread that is gone");
        }
        let vm = self.give_up(state);
        state.grant(to);
        vm.counters.handovers.increment();
        if to == HOME {
            vm.counters.homecomings.increment();
        }
    }
}
