//! `fork` by the foreign code of a process: only that process exists in the child.
//!
//! | moment | on the thread that forks |
//! |---|---|
//! | before | [`prepare`]: takes this VM's locks, while no thread is inside |
//! | after, parent | [`release_in_parent`]: releases them, and lets the owner continue |
//! | after, child | [`mark_in_child`]: releases them and marks the gate; `exec` needs no more |
//! | next enter, child | [`Vm::rebuild_after_fork`]: new poller and monitor, one process |
//!
//! **No thread is inside.** Usually the forking thread is the owner's, out in a call that was not
//! retaken. Otherwise the present owner is stopped where guest state is consistent:
//!
//! - out in a call of its own: the VM is taken from it, so that it needs the mutex to enter;
//! - on its way in after a grant: likewise;
//! - at a safepoint, where it waits until the fork is done.
//!
//! **Lock order.** `watch`, the VM's mutex, the monitor's list, the mutexes of objects that VMs
//! share. A thread that holds one of the last two waits for none of the others.

use crate::sched::{CarrierId, ProcessId};
use crate::vm::lock::affinity::Names;
use crate::vm::lock::state::{CarrierEntry, Driver, LockState};
use crate::vm::lock::this_thread::sleep_for_ever;
use crate::vm::preempt::decide::PollState;
use crate::vm::preempt::monitor::VmList;
use crate::vm::{HOME, Inside, Vm, request};
use baton_sys::clock::Instant;
use baton_sys::fiber::Fiber;
use baton_sys::forking::{AtFork, Child};
use baton_sys::gate::{self, Gate, Take};
use baton_sys::membarrier;
use baton_sys::parking::Notify;
use baton_sys::shared_mutex::{AllHeld, hold_all};
use baton_sys::signals::ThreadHandle;
use std::cell::RefCell;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

/// The executor's handlers around a fork.
pub(in crate::vm) const AT_FORK: AtFork = AtFork {
    prepare,
    parent: release_in_parent,
    child: mark_in_child,
};

/// How often a forking thread checks whether the owner has reached a safepoint.
pub(in crate::vm) const PATIENCE: Duration = Duration::from_micros(50);

/// What an owner was asked so far.
#[derive(Debug, Default)]
pub(in crate::vm) struct Asks {
    /// By its attention flag. After that it is interrupted.
    by_flag: bool,
}

/// What the forking thread holds during the fork.
struct ForkLocks {
    vm: &'static Vm,
    _watch: MutexGuard<'static, PollState>,
    _state: MutexGuard<'static, LockState>,
    _vms: MutexGuard<'static, VmList>,
    /// The objects that VMs share. Taken last: a thread that holds one takes no other lock.
    shared: AllHeld,
}

thread_local! {
    static HELD: RefCell<Option<ForkLocks>> = const { RefCell::new(None) };
}

fn prepare() {
    // A thread that is no carrier has no process to keep.
    let Some(me) = gate::here().carrier() else {
        return;
    };
    let vm = crate::vm::lock::this_thread::vm_of_this_thread().for_ever();
    let watch = vm.watch.lock().unwrap_or_else(PoisonError::into_inner);
    let mut asks = Asks::default();
    let state = loop {
        if let Some(state) = vm.try_with_nobody_inside(Some(CarrierId(me)), &mut asks) {
            break state;
        }
        std::thread::sleep(PATIENCE);
    };
    let vms = vm.monitor.vms();
    HELD.set(Some(ForkLocks {
        vm,
        _watch: watch,
        _state: state,
        _vms: vms,
        shared: hold_all(),
    }));
}

fn release_in_parent() {
    if let Some(held) = HELD.take() {
        // Relaxed: guarded by the VM's mutex, which is held.
        held.vm.fork_waits.store(false, Ordering::Relaxed);
        held.vm.thawed.notify_all();
    }
}

fn mark_in_child(child: &Child) {
    if let Some(mut held) = HELD.take() {
        held.shared.in_child();
        if let Some(vm) = held.vm.kept.get() {
            crate::vm::idle::others::renew_in_child(child, vm);
        }
        // Relaxed: there is no other thread.
        held.vm.fork_waits.store(false, Ordering::Relaxed);
        held.vm.looks.renew_in_child(child);
        if let (Some(seat), Some(vm)) = (held.vm.seat.get(), held.vm.kept.get()) {
            seat.renew_in_child(child, vm);
        }
        gate::here().mark_forked(child);
    }
}

impl Vm {
    /// A reference to this VM that lives for ever. The guards around a fork outlive one function,
    /// so a VM that has forked is never dropped.
    fn for_ever(self: Arc<Vm>) -> &'static Vm {
        let leaked = Arc::clone(&self);
        self.kept.get_or_init(|| Box::leak(Box::new(leaked)))
    }

    /// The VM's mutex, locked, if no other thread than `me` is inside. Otherwise asks the owner to
    /// stop at a safepoint; then it is time to try again after [`PATIENCE`].
    pub(in crate::vm) fn try_with_nobody_inside(
        &self,
        me: Option<CarrierId>,
        asks: &mut Asks,
    ) -> Option<MutexGuard<'_, LockState>> {
        let mut state = self.lock_state();
        // A child that forks again before its first enter has no other thread. The owner's gate may
        // have gone with its thread.
        let alone = me.is_some() && gate::here().slow() & gate::FORKED != 0;
        let Some(owner) = state.owner.filter(|&owner| Some(owner) != me && !alone) else {
            return Some(state);
        };
        if state.stands_aside || !state.owner_has_come {
            return Some(state);
        }
        let known = state
            .entry(owner)
            .and_then(|entry| Some((entry.gate?, entry.thread?)));
        let Some((gate, thread)) = known else {
            return Some(state);
        };
        let seen = gate.value();
        if seen & 1 == 1 && self.take_from(gate, seen) == Take::Taken {
            return Some(state);
        }
        // Relaxed: guarded by the mutex. `harvest` reads it as a hint and checks again under the
        // mutex.
        self.fork_waits.store(true, Ordering::Relaxed);
        gate.set_attention();
        if self.park.notify() == Notify::MustKick {
            self.poller.kick();
        }
        if std::mem::replace(&mut asks.by_flag, true) {
            let _ = thread.interrupt();
        }
        None
    }

    pub(in crate::vm) fn take_from(&self, gate: Gate, seen: u64) -> Take {
        if gate.slow() & gate::CAS != 0 {
            gate.take_by_claim(seen)
        } else {
            gate.take_fence_free(seen, membarrier::heavy)
        }
    }

    /// The first enter in a fork's child. The calling thread becomes home, and its process is the
    /// only one.
    #[cold]
    pub(in crate::vm) fn rebuild_after_fork(&self) {
        let here = gate::here();
        here.clear_forked();
        membarrier::register_after_fork();
        let (inside, base, out) = self.keep_this_thread_only();
        drop(self.inbox.take_all());
        crate::vm::idle::spin_permits::SPIN_PERMITS.clear();
        self.descriptors.forget_all();
        inside.with_inner(|inner| inner.registrations.forget_all());
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
            .and_then(|()| self.reopen_host_timer_after_fork())
        {
            eprintln!("baton: a fork's child cannot go on: {error}");
            std::process::abort();
        }
        if let Some(survivor) = inside.keep_one_process(base, out) {
            self.guest.forked(&inside, survivor);
        }
        if signalled {
            here.set_attention();
        }
        // Periodic preempt requests need the monitor's thread.
        self.beat_changed();
        if inside.with_inner(|inner| inner.has_wakers()) {
            self.monitor.alert();
        }
    }

    /// Makes the calling thread home and owner. Returns its loop, and the process whose call was
    /// retaken on it.
    fn keep_this_thread_only(&self) -> (Inside<'_>, Option<Fiber>, Option<ProcessId>) {
        let here = gate::here();
        let mut state = self.lock_state();
        let was_home = here.carrier() == Some(HOME.0);
        let before = here.carrier().and_then(|me| state.entry(CarrierId(me)));
        let (base, out) = before.map_or((None, None), |entry| (entry.base, entry.out));
        let entry = CarrierEntry {
            gate: Some(self.become_carrier(HOME)),
            thread: Some(ThreadHandle::current()),
            base,
            ..CarrierEntry::new()
        };
        // Another thread than the host's has no host to return to.
        let driver = match state.driver {
            Driver::Host(_) if was_home => Driver::Host(ThreadHandle::current().id()),
            _ => {
                self.host.lose();
                Driver::Run
            }
        };
        *state = LockState {
            inheritance: state.inheritance,
            driver,
            owner: Some(HOME),
            owner_has_come: true,
            carriers: vec![Some(entry)],
            stands_aside: false,
            owner_must_warn: false,
        };
        let inside = self.own_gate(&state);
        (inside, base, out.map(|out| out.process))
    }
}

impl Inside<'_> {
    /// Makes the owner wait at a safepoint until another thread has forked. If the VM was halted
    /// meanwhile, returns only in the thread's own loop, which ends.
    #[cold]
    pub(in crate::vm) fn stand_aside(&self) {
        let mut state = self.lock_state();
        state.stands_aside = true;
        // Relaxed: guarded by the mutex.
        while self.fork_waits.load(Ordering::Relaxed) && state.owner.is_some() {
            state = self
                .thawed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        state.stands_aside = false;
        if state.owner.is_none() {
            drop(state);
            let process = self.with_inner(|inner| inner.process_on_stack());
            if let Some(process) = process {
                if self.abandons_calls() {
                    let jump = self.with_inner(|inner| self.plan_jump(inner, process, None));
                    self.take(Some(jump));
                }
                sleep_for_ever();
            }
        }
    }

    /// Ends all processes except the calling one. Returns its user data.
    fn keep_one_process(&self, base: Option<Fiber>, out: Option<ProcessId>) -> Option<usize> {
        self.with_inner(|inner| {
            inner.carrier = HOME;
            inner.base = base;
            inner.names = Names::default();
            inner.thread_queue.forget();
            inner.in_calls = 0;
            inner.held_threads = crate::vm::lock::held_threads::HeldThreads::default();
            inner.run_started = Instant::now().as_nanos();
            inner.cpu.forget();
            // The words are those of the first program's run.
            inner.recorder = None;
            self.begin_trace_anew(inner);
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
            inner.sched.user_data(survivor)
        })
    }
}
