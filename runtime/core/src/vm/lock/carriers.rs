//! Native threads: the loop that each runs on its own stack; their start and end.

use super::state::{CarrierEntry, Driver, LockState, Offloading};
use super::stint::StintEnd;
use super::this_thread;
use crate::panics::{self, EndOfProgram};
use crate::sched::CarrierId;
use crate::vm::inside::NO_PROCESS;
use crate::vm::switch::slow_path::BaseStep;
use crate::vm::{HOME, Inside, Post, Vm};
use baton_sys::fiber::{Fiber, ThreadFiber};
use baton_sys::gate;
use baton_sys::promptness;
use baton_sys::reserve::has_room_for_a_thread;
use baton_sys::signals::mask::PreemptUnblocked;
use baton_sys::signals::{AltStack, ThreadHandle};
use baton_sys::thread::{self, Inheritance};
use baton_sys::ticks::Ticks;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// The carrier id of the calling thread, which is in a carrier's loop.
fn number_of_this_thread(first: CarrierId) -> CarrierId {
    gate::here().carrier().map_or(first, CarrierId)
}

/// Why a loop stopped waiting for the VM.
#[must_use]
#[derive(Debug)]
enum Waited<'vm> {
    Granted(Inside<'vm>),
    /// A process was offloaded to this thread, and continues here outside the VM.
    Sent(Fiber),
    Retired,
    Ended,
}

/// How far the number of threads may exceed the parameter.
///
/// At most as many calls that may block begin as there may be threads
/// ([`Inside::wait_for_thread`]). If all of them are out and a process is runnable, the VM needs
/// one more thread. Otherwise it would wait for one of the calls: for ever, if that call waits for
/// something that a process of the VM must do. A few more are possible:
///
/// - A call that was let in may be retaken and begin to block only after the next one.
/// - Calls of bound processes are always let in.
///
/// Threads that are left to processes that wait (`lock/kept.rs`) do not count, up to as many again.
const MOST_ABOVE_THE_BOUND: usize = 5;

/// Stack of a native thread, in bytes. It runs the loop and the guest's hooks, never a process.
const LOOP_STACK: usize = 1 << 20;

impl CarrierEntry {
    /// Whether no process was offloaded to the thread and none will need it.
    fn is_spare(&self) -> bool {
        self.offloading == Offloading::None && !self.is_named && !self.is_kept
    }

    /// Takes the process that was offloaded to this thread.
    fn take_offloaded(&mut self) -> Option<Fiber> {
        if self.offloading != Offloading::Sent {
            return None;
        }
        self.offloading = Offloading::None;
        self.waiting = false;
        let out = self.out.as_mut()?;
        out.began = self.thread.and_then(ThreadHandle::cpu_time);
        Some(out.fiber)
    }
}

impl Vm {
    /// Makes the calling thread the VM's home and runs processes on it. Returns when a process has
    /// called [`Inside::stop`] and has ended. If this thread is out in a foreign call then, it
    /// returns after that call.
    ///
    /// # Panics
    /// On a native thread that a VM runs on already, this one or another: in a foreign call of a
    /// process, say. Start a thread for it.
    pub fn run(self: &Arc<Vm>) {
        self.run_and_then(|| {});
    }

    /// As [`Vm::run`], and then calls `then`, unless the VM was halted ([`Vm::halt`]). Until that
    /// has returned, the VM counts as one that may wake others: they are not deadlocked.
    ///
    /// # Panics
    /// As [`Vm::run`].
    pub fn run_and_then(self: &Arc<Vm>, then: impl FnOnce()) {
        assert!(
            gate::here().carrier().is_none(),
            "a VM is run on a native thread that runs a VM already; start a thread for it"
        );
        {
            let mut state = self.lock_state();
            assert!(
                matches!(state.driver, Driver::Unknown | Driver::Run),
                "a VM is run by a host's loop or as a whole, not by both"
            );
            state.driver = Driver::Run;
            state.settle_home();
        }
        self.begin_at_home();
        let seat = self.seat.get().filter(|seat| seat.take(self));
        let (_, stint) = self.carry(HOME);
        debug_assert_eq!(stint, None, "there is no host");
        self.monitor.remove(self);
        self.tell_of_end(then);
        if let Some(seat) = seat {
            seat.leave();
        }
    }

    /// Tells others that the VM runs, on the calling thread.
    pub(super) fn begin_at_home(self: &Arc<Vm>) {
        self.begins_to_run();
        self.lock_state().inheritance = Some(Inheritance::of_this_thread());
        self.monitor.add(self);
        // Signal handlers usually run on another thread then. They cannot start the monitor, which
        // brings their requests to this thread. Requests from before now have not been brought
        // either.
        if !ThreadHandle::current().is_first() || self.signal_is_due() {
            self.monitor.alert();
        }
    }

    /// Runs a carrier's loop; a panic in it ends the program. Returns the thread's carrier id at
    /// the end. If only a host's stint has ended, returns how.
    pub(super) fn carry(self: &Arc<Vm>, me: CarrierId) -> (CarrierId, Option<StintEnd>) {
        let end = EndOfProgram::at_panic_in("a carrier", "its VM would stand still");
        let base = ThreadFiber::new(NO_PROCESS);
        let _signal_stack = AltStack::install();
        let _unblocked = PreemptUnblocked::begin();
        if me != HOME || !self.host.exists() {
            // Timer slack only affects precision, so a refusal is harmless. A host's thread keeps
            // its own.
            let _ = promptness::set_timer_slack(Duration::from_nanos(1));
        }
        let before = self.start(me, base.fiber());
        let stint = self.serve(me, &base);
        let me = number_of_this_thread(me);
        match stint {
            None => self.finish(me, before),
            Some(_) => self.pause(before),
        }
        end.avert();
        (me, stint)
    }

    /// The loop itself.
    fn serve(self: &Arc<Vm>, me: CarrierId, base: &ThreadFiber) -> Option<StintEnd> {
        let mut stint_begins = me == HOME && self.host.exists();
        // In a fork's child the thread has another carrier id.
        loop {
            panics::fault("carrier");
            match self.await_grant(number_of_this_thread(me)) {
                Waited::Granted(inside) => {
                    if std::mem::take(&mut stint_begins) {
                        inside.begin_stint();
                    }
                    let stint = inside.run_as_owner();
                    if stint.is_some() {
                        return stint;
                    }
                }
                Waited::Sent(fiber) => {
                    self.run_outside(base, fiber);
                    self.post_returned();
                }
                Waited::Retired | Waited::Ended => break,
            }
            if self.has_ended() && self.is_owner() {
                break;
            }
        }
        None
    }

    /// Runs a native thread that was started for the VM.
    fn carry_elsewhere(self: &Arc<Vm>, me: CarrierId) {
        if self.carry(me).0 == HOME {
            // A fork's child, whose first thread this is: there is no `run` to return from.
            std::process::exit(0);
        }
    }

    fn start(self: &Arc<Vm>, me: CarrierId, base: Fiber) -> Option<Arc<Vm>> {
        let gate = self.become_carrier(me);
        gate::here().choose_variant();
        let before = this_thread::exchange(Some(Arc::clone(self)));
        if let Some(entry) = self.lock_state().entry(me) {
            entry.gate = Some(gate);
            entry.thread = Some(ThreadHandle::current());
            entry.base = Some(base);
        }
        before
    }

    fn finish(&self, me: CarrierId, before: Option<Arc<Vm>>) {
        let mut state = self.lock_state();
        self.cease_to_be_carrier(&mut state, me);
        if state.owner == Some(me) {
            state.owner = None;
            state.wake_all();
        }
        drop(state);
        this_thread::exchange(before);
    }

    /// After a host's stint: the thread is no carrier until the next one. Home is still the owner
    /// but has not come, so nobody else is granted the VM.
    fn pause(&self, before: Option<Arc<Vm>>) {
        let mut state = self.lock_state();
        self.rest_from_carrying(&mut state);
        state.owner_has_come = false;
        self.host.note_between();
        drop(state);
        this_thread::exchange(before);
    }

    fn is_owner(&self) -> bool {
        gate::here().slow() & gate::REVOKED == 0
    }

    /// Waits until this thread owns the VM.
    fn await_grant(&self, me: CarrierId) -> Waited<'_> {
        let mut state = self.lock_state();
        loop {
            if state.owner == Some(me) {
                let inside = self.own_gate(&state);
                state.owner_has_come = true;
                let entry = state.entry(me);
                let base = entry.and_then(|entry| {
                    entry.waiting = false;
                    entry.base
                });
                self.note_waiting(me, false);
                inside.with_inner(|inner| {
                    inner.carrier = me;
                    inner.base = base;
                });
                return Waited::Granted(inside);
            }
            if let Some(fiber) = state.entry(me).and_then(CarrierEntry::take_offloaded) {
                self.note_waiting(me, false);
                return Waited::Sent(fiber);
            }
            // Home ends last: the process that stopped the VM may still run on another thread.
            if self.has_ended() && (me != HOME || state.owner.is_none()) {
                return Waited::Ended;
            }
            let Some(entry) = state.entry(me) else {
                return Waited::Ended;
            };
            entry.waiting = true;
            let granted = Arc::clone(&entry.granted);
            let stays = entry.needed || !entry.is_spare();
            self.note_waiting(me, !entry.is_kept);
            if me == HOME || stays {
                state = granted.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let patience = self.parameters.thread_idle.get();
            let (next, timeout) = granted
                .wait_timeout(state, patience)
                .unwrap_or_else(PoisonError::into_inner);
            state = next;
            if timeout.timed_out()
                && state.owner != Some(me)
                && let Some(entry) = state.entry(me).filter(|entry| entry.is_spare())
            {
                entry.waiting = false;
                self.counters.threads_retired.increment();
                return Waited::Retired;
            }
        }
    }

    fn note_waiting(&self, me: CarrierId, waiting: bool) {
        if me == HOME {
            // Relaxed: a hint for `should_go_home`; the hand-over itself is under the mutex.
            self.home_waits.store(waiting, Ordering::Relaxed);
        }
    }
}

impl Inside<'_> {
    /// Runs processes until another thread owns the VM, the VM has ended, or a host's stint has
    /// ended: then returns how.
    fn run_as_owner(mut self) -> Option<StintEnd> {
        // A process may have been offloaded from above another loop than this one: the loop beneath
        // its last call. In a fork's child, too.
        self.complete_offload();
        while !self.has_ended() {
            self.harvest();
            if self.has_ended() {
                break; // it was halted
            }
            self.run_hooks();
            let step = self.with_inner(|inner| self.plan_base(inner));
            let jump = match step {
                BaseStep::Run(jump) => jump,
                BaseStep::MakeRoom(pid) => match self.make_room() {
                    Ok(()) => return None,
                    Err(inside) => {
                        self = inside;
                        self.with_inner(|inner| self.plan_run(inner, pid))
                    }
                },
                BaseStep::HandOver(to) => {
                    self.hand_over(to);
                    return None;
                }
                BaseStep::Pause => return Some(self.end_stint_by_time()),
                BaseStep::Idle if self.is_in_stint() => match self.idle_in_stint() {
                    None => continue,
                    idle => return idle,
                },
                BaseStep::Idle => {
                    self.idle();
                    continue;
                }
            };
            self.run_from_base(jump);
            if !self.is_owner() {
                self.post_returned();
                return None;
            }
            self.complete_offload();
        }
        None
    }
}

impl Vm {
    /// Posts the process that came back on this thread. Its stack has been left, so another thread
    /// may continue it now.
    fn post_returned(&self) {
        let Some(me) = gate::here().carrier().map(CarrierId) else {
            return;
        };
        let returned = self
            .lock_state()
            .entry(me)
            .and_then(|entry| entry.returned.take());
        if let Some(back) = returned {
            // First, so that home is free at the safepoint that the post requests.
            self.note_waiting(me, true);
            self.post(Post::Returned {
                process: back.process,
                pinned: back.is_pinned.then_some(me),
                at: Ticks::now(),
                cpu: back.cpu,
            });
        }
    }

    /// A thread that can get the VM when it is taken from a call: a waiting one, or a new one. If
    /// there is neither, one that is kept for another process: the call may last until some process
    /// runs. The VM's mutex is held.
    pub(super) fn carrier_to_spare(self: &Arc<Vm>, state: &mut LockState) -> Option<CarrierId> {
        self.nameless_carrier(state)
            .or_else(|| state.waiting_named_carrier())
            .or_else(|| state.waiting_kept_carrier())
    }

    /// As [`Vm::carrier_to_spare`], without the named threads.
    pub(super) fn nameless_carrier(self: &Arc<Vm>, state: &mut LockState) -> Option<CarrierId> {
        let bound = self.parameters.max_threads();
        let above = if bound > 1 { MOST_ABOVE_THE_BOUND } else { 0 };
        state
            .waiting_carrier()
            .or_else(|| self.start_carrier(state, bound + above))
    }

    /// Starts a thread, below the bound. The VM's mutex is held.
    pub(super) fn start_carrier(
        self: &Arc<Vm>,
        state: &mut LockState,
        bound: usize,
    ) -> Option<CarrierId> {
        let kept = state.kept_threads().min(self.most_kept_threads());
        if state.live_threads() - kept >= bound || !has_room_for_a_thread() {
            return None;
        }
        let number = state
            .carriers
            .iter()
            .position(Option::is_none)
            .unwrap_or(state.carriers.len());
        if number == state.carriers.len() {
            state.carriers.push(None);
        }
        state.carriers[number] = Some(CarrierEntry::new());
        let me = CarrierId(number as u32);
        let vm = Arc::clone(self);
        let name = format!("baton-{number}");
        // Home's, as often the monitor starts them.
        let inheritance = state
            .inheritance
            .unwrap_or_else(Inheritance::of_this_thread);
        let body = move || vm.carry_elsewhere(me);
        let started = thread::start_with_inheritance(&name, LOOP_STACK, &inheritance, body);
        if let Err(error) = started {
            state.carriers[number] = None;
            if self.counters.thread_failures.get() == 0 {
                eprintln!(
                    "baton: cannot start a native thread ({error}); others wait for foreign calls \
                     to end"
                );
            }
            self.counters.thread_failures.increment();
            return None;
        }
        self.counters.threads_started.increment();
        Some(me)
    }
}
