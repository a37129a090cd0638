//! The slow half of the VM lock: taking the VM from a foreign call, and entering when it was taken.
//!
//! The fast half is in [`baton_sys::gate`]. Here everything happens under the VM's mutex:
//!
//! | state of the VM | meaning |
//! |---|---|
//! | owner = C, C has not come | C was granted the VM and is waking up; there is nothing to take |
//! | owner = C, C's gate even | C is inside |
//! | owner = C, C's gate odd | C is out in a foreign call that was not taken |
//! | owner = D, C is `out` | the VM was taken from C's call and runs on D |
//!
//! | edge | made by |
//! |---|---|
//! | C -> D, while C is outside | [`Vm::retake`] (the monitor) |
//! | C -> D, by C itself | [`Vm::hand_over`] |
//! | C `out` -> C free, its process runnable | [`Vm::enter_cold`]; then the loop of C posts it |
//!
//! **No wake-up is lost.** A grant sets `owner` under the mutex and notifies the carrier's
//! condition variable; a carrier waits for it while it holds that mutex and checks `owner` first. A
//! returning thread posts after it has left the process's stack, and the post kicks the owner by
//! the protocol of [`baton_sys::parking`].

use super::state::{LockState, Outside};
use super::this_thread::sleep_for_ever;
use crate::guest::RetakePolicy;
use crate::sched::CarrierId;
use crate::vm::{HOME, Vm};
use baton_sys::clock::Instant;
use baton_sys::gate::{self, Claim, Take};
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};

/// What an attempt to retake came to, for the monitor.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::vm) enum Retake {
    /// Others run now.
    Done,
    /// The call had ended.
    Ended,
    /// The function is exclusive: do not ask again for this call.
    Exclusive,
    /// All threads are out, up to the bound.
    NoThread,
}

impl Vm {
    pub(in crate::vm) fn lock_state(&self) -> MutexGuard<'_, LockState> {
        self.lock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves the VM before a foreign call (the guest's own fast path does the same by the gate
    /// alone).
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicBool, Ordering};
    /// # mod closures { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doctests/closures.rs")); }
    /// closures::run(|main| {
    ///     let told = Arc::new(AtomicBool::new(false));
    ///     let teller = Arc::clone(&told);
    ///     main.spawn(move |_| teller.store(true, Ordering::Relaxed));
    ///     main.vm.leave();
    ///     while !told.load(Ordering::Relaxed) {
    ///         std::thread::yield_now(); // nothing of the guest is touched here: others are inside
    ///     }
    ///     main.vm.enter();
    /// });
    /// ```
    #[inline]
    pub fn leave(&self) {
        gate::here().leave();
    }

    /// Enters the VM after a foreign call.
    #[inline]
    pub fn enter(&self) {
        if gate::here().begin_enter() & (gate::REVOKED | gate::CAS | gate::FORKED) != 0 {
            self.enter_cold();
        }
    }

    /// Runs a foreign call: outside the VM, so that it may be taken when the call lasts.
    ///
    /// ```
    /// use std::sync::mpsc::channel;
    /// # mod closures { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doctests/closures.rs")); }
    /// closures::run(|main| {
    ///     let (give, take) = channel();
    ///     main.spawn(move |_| give.send("meanwhile").expect("somebody listens"));
    ///     // It waits in the system, outside of the VM. So the other one runs.
    ///     let heard = main.vm.foreign(|| take.recv());
    ///     assert_eq!(heard, Ok("meanwhile"));
    /// });
    /// ```
    pub fn foreign<R>(&self, f: impl FnOnce() -> R) -> R {
        self.leave();
        let result = f();
        self.enter();
        result
    }

    /// The second half of an enter whose gate showed [`gate::REVOKED`], [`gate::CAS`] or
    /// [`gate::FORKED`]. Returns when the calling process is inside: perhaps later, perhaps on
    /// another native thread.
    #[cold]
    #[inline(never)]
    pub fn enter_cold(&self) {
        self.enter_again(false);
    }

    /// The same in the middle of a foreign call, which calls back: its frames stay on the process's
    /// stack, so the process is continued on this native thread.
    #[cold]
    #[inline(never)]
    pub fn enter_cold_pinned(&self) {
        self.enter_again(true);
    }

    fn enter_again(&self, pinned: bool) {
        let here = gate::here();
        if here.slow() & gate::FORKED != 0 {
            self.rebuild_after_fork();
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
        let mut state = self.lock_state();
        if state.owner == Some(me) {
            // The take was given up, or undone by the guest's retake policy.
            here.own();
            if std::mem::take(&mut state.owner_must_warn) {
                self.warn_of_own_call();
            }
            return;
        }
        let Some(entry) = state.entry(me) else { return };
        let Some(Outside { process, fiber }) = entry.out.take() else {
            drop(state);
            sleep_for_ever();
        };
        let Some(base) = entry.base else {
            crate::vm::switch::jump::broken("a thread without a loop came back")
        };
        entry.returned = Some((process, pinned));
        entry.needed |= pinned;
        here.disown();
        drop(state);
        // Home goes to its loop, which ends the run of the VM as soon as nobody runs it any more.
        if self.has_ended() && me != HOME {
            sleep_for_ever();
        }
        // From here on the loop of this thread posts that the process came back; whoever owns the
        // VM continues it.
        fiber.switch_to(base);
    }

    /// Has the owner warn of the call that it makes when it next comes in: its gate moves too fast
    /// to take the VM at a moment outside. For the gate's protocol this is a take that was given
    /// up: the thread stays the owner, and clears `REVOKED` with the mutex in its hands.
    pub(in crate::vm) fn have_owner_warn(&self) {
        let mut state = self.lock_state();
        let owner = state.owner.filter(|_| state.owner_has_come);
        if let Some(gate) = owner
            .and_then(|owner| state.entry(owner))
            .and_then(|entry| entry.gate)
        {
            state.owner_must_warn = true;
            gate.set_slow(gate::REVOKED);
        }
    }

    /// The guest is asked as the monitor asks it: with the VM's mutex held, and from outside. But
    /// not if a safepoint was reached since: then the call that this is has kept nobody waiting.
    fn warn_of_own_call(&self) {
        let has_delayed = self.guest.has_delayed();
        // Relaxed: a hint.
        let unanswered = self.requests.load(Ordering::Relaxed) & crate::vm::request::SLICE != 0;
        let user_data = self.inner.with(|inner| {
            let due = self
                .next_deadline(inner)
                .is_some_and(|deadline| deadline <= Instant::now());
            let current = inner
                .sched
                .current()
                .filter(|_| unanswered || due || has_delayed);
            current.map(|process| inner.sched.user_data(process))
        });
        if let Some(user_data) = user_data {
            let here = gate::here();
            here.leave();
            self.guest.warn_blocked(user_data);
            here.own();
        }
    }

    /// Takes the VM from the foreign call that shows the odd gate value `seen`, and has another
    /// thread run it. The monitor's.
    pub(in crate::vm) fn retake(self: &Arc<Vm>, seen: u64, warn: bool) -> Retake {
        let mut state = self.lock_state();
        // Relaxed: switched by the owner; a stale answer is corrected by the guest's retake policy.
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
        // The VM is ours: its thread cannot go on inside before it had this mutex.
        if !self.apply_retake_policy(&mut state, owner, warn) {
            return Retake::Exclusive;
        }
        self.counters.retakes.increment();
        state.grant(heir);
        Retake::Done
    }

    /// Asks the guest about the call just taken. `false`: the VM stays with it (its thread finds
    /// out at its next enter).
    fn apply_retake_policy(&self, state: &mut LockState, owner: CarrierId, warn: bool) -> bool {
        self.inner.with_mutex_held(|inner| {
            let Some(process) = inner.sched.current() else {
                return false;
            };
            let user_data = inner.sched.user_data(process);
            let policy = if inner.sched.is_critical() {
                RetakePolicy::Stay
            } else {
                self.guest.retake_policy(user_data)
            };
            let RetakePolicy::Retake { pinned } = policy else {
                self.counters.exclusive_calls.increment();
                if warn {
                    self.guest.warn_blocked(user_data);
                }
                return false;
            };
            let Some(fiber) = inner.context(process).fiber else {
                return false;
            };
            inner.charge(process, Instant::now().as_nanos());
            inner.sched.set_pinned(process, pinned.then_some(owner));
            inner.sched.begin_foreign(process, owner);
            inner.note_left(process);
            if owner == HOME {
                inner.home_is_out(process, true);
            }
            if let Some(entry) = state.entry(owner) {
                entry.out = Some(Outside { process, fiber });
                entry.needed = inner.sched.is_pinned_to(owner);
            }
            true
        })
    }

    /// Gives the VM from the calling thread's loop to the carrier `to`.
    pub(super) fn hand_over(&self, to: CarrierId) {
        let (me, needed) = self.owner_for_hand_over();
        self.hand_over_locked(&mut self.lock_state(), me, needed, to);
    }

    /// Gives the VM from the calling thread's loop to one that is kept for nobody; `false`: all of
    /// those are out.
    pub(super) fn make_room(self: &Arc<Vm>) -> bool {
        let (me, needed) = self.owner_for_hand_over();
        let mut state = self.lock_state();
        let heir = self.nameless_carrier(&mut state);
        if let Some(heir) = heir {
            self.hand_over_locked(&mut state, me, needed, heir);
        }
        heir.is_some()
    }

    fn owner_for_hand_over(&self) -> (CarrierId, bool) {
        self.inner
            .with(|inner| (inner.carrier, inner.sched.is_pinned_to(inner.carrier)))
    }

    fn hand_over_locked(&self, state: &mut LockState, me: CarrierId, needed: bool, to: CarrierId) {
        if let Some(entry) = state.entry(me) {
            entry.needed = needed;
        }
        if state.entry(to).is_none() {
            crate::vm::switch::jump::broken("a process is bound to a thread that is gone");
        }
        gate::here().disown();
        state.grant(to);
        self.counters.handovers.increment();
        if to == HOME {
            self.counters.homecomings.increment();
        }
    }
}
