//! `fork` by a process's foreign code: the child has that process alone.
//!
//! | moment | on the thread that forks |
//! |---|---|
//! | before | [`prepare`]: takes the locks that other threads of this VM use; nobody is inside |
//! | after, parent | [`release_in_parent`]: gives them back, and lets the owner go on |
//! | after, child | [`mark_in_child`]: gives them back and marks the gate; `exec` needs no more |
//! | next enter, child | [`Vm::rebuild_after_fork`]: new poller and monitor, one process |
//!
//! **Nobody is inside.** Mostly the thread that forks is the owner's, out in a call that was not
//! taken. If it was taken, the present owner is stopped where guest state is whole: out in a call
//! of its own (taken, so that it cannot come in without the mutex), on its way in after a grant
//! (the same), or at a safepoint, where it stands aside until the copy has been made.
//!
//! **Lock order.** `watch`, the VM's mutex, the monitor's list; nobody holds the list while it
//! waits for one of the others.

use crate::sched::{CarrierId, ProcessId};
use crate::vm::lock::affinity::Names;
use crate::vm::lock::state::{CarrierEntry, LockState};
use crate::vm::preempt::monitor::VmList;
use crate::vm::preempt::watch::PollState;
use crate::vm::{HOME, Vm, request};
use baton_sys::clock::Instant;
use baton_sys::fiber::Fiber;
use baton_sys::forking::AtFork;
use baton_sys::gate::{self, Gate, Take};
use baton_sys::membarrier;
use baton_sys::parking::Notify;
use baton_sys::signals::ThreadHandle;
use std::cell::RefCell;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

/// What the executors have done around a fork.
pub(in crate::vm) const AT_FORK: AtFork = AtFork {
    prepare,
    parent: release_in_parent,
    child: mark_in_child,
};

/// How often a fork checks whether the owner has come to a safepoint.
const PATIENCE: Duration = Duration::from_micros(50);

/// What the thread that forks holds while the copy is made.
struct ForkLocks {
    vm: &'static Vm,
    _watch: MutexGuard<'static, PollState>,
    _state: MutexGuard<'static, LockState>,
    _vms: MutexGuard<'static, VmList>,
}

thread_local! {
    static HELD: RefCell<Option<ForkLocks>> = const { RefCell::new(None) };
}

fn prepare() {
    // Threads that are no carriers have no process that could go on.
    let Some(me) = gate::here().carrier() else {
        return;
    };
    let vm = crate::vm::lock::this_thread::vm_of_this_thread().for_ever();
    let watch = vm.watch.lock().unwrap_or_else(PoisonError::into_inner);
    let state = vm.await_nobody_inside(CarrierId(me));
    let vms = vm.monitor.vms();
    HELD.set(Some(ForkLocks {
        vm,
        _watch: watch,
        _state: state,
        _vms: vms,
    }));
}

fn release_in_parent() {
    if let Some(held) = HELD.take() {
        // Relaxed: guarded by the VM's mutex, which is held.
        held.vm.fork_waits.store(false, Ordering::Relaxed);
        held.vm.thawed.notify_all();
    }
}

fn mark_in_child() {
    if let Some(held) = HELD.take() {
        // Relaxed: there is no other thread.
        held.vm.fork_waits.store(false, Ordering::Relaxed);
        gate::here().set_slow(gate::FORKED);
    }
}

impl Vm {
    /// The guards of a fork are kept from one function to another, so their VM must not go: one
    /// that forked stays.
    fn for_ever(self: Arc<Vm>) -> &'static Vm {
        let leaked = Arc::clone(&self);
        self.kept.get_or_init(|| Box::leak(Box::new(leaked)))
    }

    /// The VM's mutex, at a moment when no other thread than `me` is inside.
    fn await_nobody_inside(&self, me: CarrierId) -> MutexGuard<'_, LockState> {
        let mut asked = false;
        loop {
            let mut state = self.lock_state();
            // A child that forks again before it has entered is alone; the owner's gate may be gone
            // with its thread.
            let alone = gate::here().slow() & gate::FORKED != 0;
            let Some(owner) = state.owner.filter(|&owner| owner != me && !alone) else {
                return state;
            };
            if state.stands_aside || !state.owner_has_come {
                return state;
            }
            let known = state
                .entry(owner)
                .and_then(|entry| Some((entry.gate?, entry.thread?)));
            let Some((gate, thread)) = known else {
                return state;
            };
            let seen = gate.value();
            if seen & 1 == 1 && self.take_from(gate, seen) == Take::Taken {
                return state;
            }
            // Relaxed: guarded by the mutex; `harvest` reads it as a hint and asks again under the
            // mutex.
            self.fork_waits.store(true, Ordering::Relaxed);
            gate.set_attention();
            if self.park.notify() == Notify::MustKick {
                self.poller.kick();
            }
            if std::mem::replace(&mut asked, true) {
                let _ = thread.interrupt();
            }
            drop(state);
            std::thread::sleep(PATIENCE);
        }
    }

    pub(in crate::vm) fn take_from(&self, gate: Gate, seen: u64) -> Take {
        if gate.slow() & gate::CAS != 0 {
            gate.take_by_claim(seen)
        } else {
            gate.take_fence_free(seen, membarrier::heavy)
        }
    }

    /// The owner, at a safepoint: another thread is about to fork. Waits until it has.
    #[cold]
    pub(in crate::vm) fn stand_aside(&self) {
        let mut state = self.lock_state();
        state.stands_aside = true;
        // Relaxed: guarded by the mutex.
        while self.fork_waits.load(Ordering::Relaxed) {
            state = self
                .thawed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        state.stands_aside = false;
    }

    /// The first enter in a fork's child: the calling thread is home, and its process the only one.
    #[cold]
    pub(in crate::vm) fn rebuild_after_fork(&self) {
        let here = gate::here();
        here.clear_slow(gate::FORKED | gate::ATTENTION);
        membarrier::register_after_fork();
        let (base, out) = self.keep_this_thread_only();
        drop(self.inbox.take_all());
        crate::vm::idle::spin_permits::SPIN_PERMITS.clear();
        self.descriptors.forget_all();
        self.inner.with(|inner| inner.registrations.forget_all());
        self.park.acknowledge();
        // AcqRel: pairs with `request_signalled`.
        let signalled = self
            .requests
            .fetch_and(request::SIGNALLED, Ordering::AcqRel)
            & request::SIGNALLED
            != 0;
        // Relaxed (both): there is no other thread.
        self.home_waits.store(false, Ordering::Relaxed);
        self.retaking.store(true, Ordering::Relaxed);
        *self.watch.lock().unwrap_or_else(PoisonError::into_inner) = PollState::default();
        if let Err(error) = self
            .poller
            .reopen_after_fork()
            .and_then(|()| self.monitor.restart_after_fork(self))
            .and_then(|()| self.reopen_wake_up_timer_after_fork())
        {
            eprintln!("baton: a fork's child cannot go on: {error}");
            std::process::abort();
        }
        if let Some(survivor) = self.keep_one_process(base, out) {
            self.guest.forked(survivor);
        }
        if signalled {
            here.set_attention();
        }
        // For periodic preempt requests, the monitor's thread must be there.
        self.beat_changed();
        if self.inner.with(|inner| inner.has_wakers()) {
            self.monitor.alert();
        }
    }

    /// Makes the calling thread home and owner. Returns its loop, and the process whose call was
    /// retaken on it.
    fn keep_this_thread_only(&self) -> (Option<Fiber>, Option<ProcessId>) {
        let here = gate::here();
        let mut state = self.lock_state();
        let before = here.carrier().and_then(|me| state.entry(CarrierId(me)));
        let (base, out) = before.map_or((None, None), |entry| (entry.base, entry.out));
        let entry = CarrierEntry {
            gate: Some(Gate::of_this_thread()),
            thread: Some(ThreadHandle::current()),
            base,
            ..CarrierEntry::new()
        };
        *state = LockState {
            owner: Some(HOME),
            owner_has_come: true,
            carriers: vec![Some(entry)],
            stands_aside: false,
            owner_must_warn: false,
        };
        here.set_carrier(Some(HOME.0));
        here.own();
        (base, out.map(|out| out.process))
    }

    /// Ends all processes but the calling one; answers the guest's data of that one.
    fn keep_one_process(&self, base: Option<Fiber>, out: Option<ProcessId>) -> Option<usize> {
        self.inner.with(|inner| {
            inner.carrier = HOME;
            inner.base = base;
            inner.names = Names::default();
            inner.thread_queue.forget();
            inner.in_calls = 0;
            inner.held_threads = crate::vm::lock::held_threads::HeldThreads::default();
            inner.run_started = Instant::now().as_nanos();
            inner.cpu.forget();
            let survivor = out.or_else(|| inner.sched.current())?;
            inner.prefers_home = inner.prefers_home.filter(|&homebody| homebody == survivor);
            for dead in inner.sched.end_all_but(survivor, HOME) {
                let Some(context) = inner.sched.payload_mut(dead) else {
                    continue;
                };
                context.fiber = None;
                if let Some(stack) = context.stack.take() {
                    inner.stacks.recycle(stack);
                }
            }
            if inner.prefers_home.is_some() {
                inner.sched.set_pin(survivor, Some(HOME));
            }
            self.update_hints(inner);
            self.hint_named_threads(inner);
            Some(inner.sched.user_data(survivor))
        })
    }
}
