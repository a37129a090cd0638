//! Looks: any native thread reads the state of a VM, without being one of its threads.
//!
//! A *look* is a function on a [`View`]. It runs in one of these places, whichever comes first:
//!
//! | where | on which thread | when |
//! |---|---|---|
//! | beside a foreign call that has the VM | the one that looks | at once |
//! | between two stints of a host's loop | the one that looks | at once |
//! | at a safepoint, or in an idle owner's loop | the owner's | soon, unless the guest keeps the VM |
//!
//! In the first case the VM is taken from the call as in a retake, but no other thread gets it.
//! The call's thread then finds itself the owner at its next enter, as after a retake that the
//! guest's policy has undone. So a look needs neither the monitor nor a thread to spare.
//!
//! If a process computes inside the VM and reaches no safepoint, as in a long function of the
//! guest's own library, there is nothing that could be read safely. Then [`Vm::look`] fails.
//!
//! A look reads. It may change three things: it may kill a process, interrupt its wait, and
//! exchange what the guest provides, such as its allocator.
//!
//! **No look is lost**: looks are listed, and `request::LOOK` is set, as [`baton_sys::asked`] says.
//! The thread that looks waits for its own answer, with a timeout. It then withdraws its look, or
//! finds it taken: then the answer is coming, since a look that was taken runs at once. Whoever
//! gives the answer wakes the thread if it sleeps: both are said under the answer's mutex.

use super::thread_times;
use crate::sched::{CarrierId, KillOutcome, ProcessId, Scheduler, State, ThreadNames};
use crate::spin::Tally;
use crate::time_buckets::TimeBuckets;
use crate::vm::lock::state::LockState;
use crate::vm::{Context, Inner, Inside, TimeUsed, Vm, request};
use baton_sys::asked::Number;
use baton_sys::clock::Instant;
use baton_sys::gate::Take;
use baton_sys::parking::Notify;
use baton_sys::signals::ThreadHandle;
use baton_sys::stack::StackStats;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{self, Duration};

/// How long a look waits for a safepoint before it tries again beside a foreign call.
const AT_SAFEPOINT: Duration = Duration::from_millis(5);

/// The state of a VM, to be read. No process runs meanwhile.
pub struct View<'a> {
    pub(super) vm: &'a Vm,
    pub(super) inner: &'a mut Inner,
    /// The thread of the running process, if that is in a foreign call.
    caller: Option<ThreadHandle>,
    /// What the VM's mutex guards, if the thread that looks holds the mutex.
    pub(super) state: Option<&'a LockState>,
}

impl std::fmt::Debug for View<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("View").finish_non_exhaustive()
    }
}

impl View<'_> {
    /// The VM, for what any thread may do.
    pub fn vm(&self) -> &Vm {
        self.vm
    }

    /// Whether the running process is in a foreign call that waits in the system. It is not counted
    /// as [`State::Foreign`](crate::sched::State::Foreign), as no other process has run beside it
    /// yet. If the system does not say, the call counts as waiting. About ten microseconds.
    pub fn running_call_waits(&self) -> bool {
        self.caller
            .is_some_and(|caller| caller.is_waiting() != Some(false))
    }

    /// Whether the running process is in a foreign call.
    pub fn is_beside_a_call(&self) -> bool {
        self.caller.is_some()
    }

    /// The scheduler.
    pub fn sched(&self) -> &Scheduler<Context> {
        &self.inner.sched
    }

    /// How long ago a process ran; `None` if it runs, never ran, or is forgotten.
    pub fn idle_for(&self, process: ProcessId) -> Option<Duration> {
        self.inner.idle_for(process, Instant::now().as_nanos())
    }

    /// How long the present run of the running process has lasted, to a tick.
    pub fn run_so_far(&self) -> Duration {
        let now = Instant::now().as_nanos();
        Duration::from_nanos(now.saturating_sub(self.inner.run_started))
    }

    /// The time that a process has used so far; zero for a forgotten one.
    pub fn time_used(&self, process: ProcessId) -> TimeUsed {
        let mut used = self.time_used_in_vm(process);
        if self.is_in_call(process) {
            used.cpu += thread_times::of(process, &self.calls_so_far());
        }
        used
    }

    /// As [`View::time_used`], without a call beside which others run now.
    fn time_used_in_vm(&self, process: ProcessId) -> TimeUsed {
        let mut used = self
            .inner
            .sched
            .payload(process)
            .map(TimeUsed::of)
            .unwrap_or_default();
        if self.inner.sched.current() == Some(process) {
            used.running += self.run_so_far();
            used.cpu += self.run_so_far();
        }
        used
    }

    /// Whether others run beside a call of this process.
    fn is_in_call(&self, process: ProcessId) -> bool {
        self.inner.sched.state(process) == State::Foreign
    }

    /// The times of all living processes, by their index. Reads the clock at most twice, however
    /// many there are.
    ///
    /// ```
    /// use std::time::Duration;
    /// # mod closures { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doctests/closures.rs")); }
    /// closures::run(|main| {
    ///     let child = main.spawn(|_| {});
    ///     let times = main.vm.view(|view| view.times().collect::<Vec<_>>());
    ///     assert_eq!(times.len(), 2);
    ///     assert_eq!(times[0].process, main.id);
    ///     assert_eq!((times[1].process, times[1].idle), (child, None)); // it never ran
    /// });
    /// ```
    pub fn times(&self) -> impl Iterator<Item = Times> + '_ {
        let now = Instant::now().as_nanos();
        let calls = self.calls_so_far();
        self.inner.sched.iter().map(move |process| {
            let mut used = self.time_used_in_vm(process);
            if !calls.is_empty() && self.is_in_call(process) {
                used.cpu += thread_times::of(process, &calls);
            }
            Times {
                process,
                used,
                idle: self.inner.idle_for(process, now),
            }
        })
    }

    /// Kills a process, as [`Inside::kill`]. With `holds`, the guest wants the first kill to be
    /// held back. The process is not continued before the end of the look.
    ///
    /// ```
    /// use baton_core::sched::{KillOutcome, WakeReason};
    /// use baton_sys::clock::Instant;
    /// use std::time::Duration;
    /// # mod closures { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doctests/closures.rs")); }
    /// closures::run(|main| {
    ///     let child = main.spawn(|process| {
    ///         let wake = process.vm.sleep_until(Instant::FAR_FUTURE);
    ///         assert_eq!(wake.reason, WakeReason::Killed);
    ///     });
    ///     main.vm.yield_now();
    ///     let vm = main.vm.to_arc();
    ///     let thread = std::thread::spawn(move || {
    ///         vm.look(Duration::from_secs(10), move |view| view.kill(child, false))
    ///     });
    ///     let outcome = main.vm.foreign(|| thread.join().expect("it looks, and ends"));
    ///     assert_eq!(outcome, Ok(KillOutcome::Woken));
    ///     main.join(child);
    /// });
    /// ```
    pub fn kill(&mut self, process: ProcessId, holds: bool) -> KillOutcome {
        let (vm, inner) = (self.vm, &mut *self.inner);
        inner.sched.set_kill_hold(process, holds);
        let outcome = inner.sched.kill(process);
        vm.clear_deficit(inner, process);
        // The running process, too: it raises the kill after the look.
        if outcome != KillOutcome::AlreadyDead {
            vm.request_end(inner, process);
        }
        vm.update_hints(inner);
        outcome
    }

    /// Ends the wait of a process, which finds `Interrupted`. `false` if it does not wait. The
    /// process is not continued before the end of the look.
    ///
    /// ```
    /// use baton_core::sched::WakeReason;
    /// use baton_sys::clock::Instant;
    /// use std::time::Duration;
    /// # mod closures { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doctests/closures.rs")); }
    /// closures::run(|main| {
    ///     let child = main.spawn(|process| {
    ///         let wake = process.vm.sleep_until(Instant::FAR_FUTURE);
    ///         assert_eq!(wake.reason, WakeReason::Interrupted);
    ///     });
    ///     main.vm.yield_now();
    ///     assert!(main.vm.view(|view| view.interrupt(child)));
    ///     assert!(!main.vm.view(|view| view.interrupt(child))); // it is runnable
    ///     main.join(child);
    /// });
    /// ```
    pub fn interrupt(&mut self, process: ProcessId) -> bool {
        let is_woken = self.inner.sched.interrupt(process);
        self.vm.update_hints(self.inner);
        is_woken
    }

    /// Statistics of spinning so far.
    pub fn spin_tally(&self) -> Tally {
        self.inner.spin.tally()
    }

    /// By how much slices that ended were too long, those not counted in which no equal was
    /// runnable.
    pub fn slice_overruns(&self) -> &TimeBuckets {
        &self.inner.overruns
    }

    /// How many stacks there are.
    pub fn stack_stats(&self) -> StackStats {
        self.inner.stacks.stats()
    }

    /// The names of native threads.
    pub fn thread_names(&self) -> ThreadNames {
        self.inner.names.by_thread()
    }
}

/// The times of a process in a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// The process.
    pub process: ProcessId,
    /// What it has used so far.
    pub used: TimeUsed,
    /// How long ago it ran; `None` if it runs, or never ran.
    pub idle: Option<Duration>,
}

/// A look that waits.
pub(in crate::vm) type Look = Box<dyn FnOnce(&mut View<'_>) + Send>;

/// Where the thread that looks waits for the result. (A channel of the standard library would
/// register a destructor with the thread, which waits while a library is being loaded.)
struct Answer<R> {
    slot: Mutex<Slot<R>>,
    given: Condvar,
}

struct Slot<R> {
    result: Option<R>,
    /// A thread sleeps until the result is there.
    is_awaited: bool,
}

impl<R> Answer<R> {
    fn new() -> Answer<R> {
        Answer {
            slot: Mutex::new(Slot {
                result: None,
                is_awaited: false,
            }),
            given: Condvar::new(),
        }
    }

    fn slot(&self) -> MutexGuard<'_, Slot<R>> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn give(&self, result: R) {
        let mut slot = self.slot();
        slot.result = Some(result);
        let is_awaited = slot.is_awaited;
        drop(slot);
        if is_awaited {
            self.given.notify_one();
        }
    }

    /// The result, if it is there.
    fn take(&self) -> Option<R> {
        self.slot().result.take()
    }

    /// The result, if it comes within `patience`.
    fn wait(&self, patience: Duration) -> Option<R> {
        let mut slot = self.slot();
        slot.is_awaited = true;
        let (mut slot, _) = self
            .given
            .wait_timeout_while(slot, patience, |slot| slot.result.is_none())
            .unwrap_or_else(PoisonError::into_inner);
        slot.is_awaited = false;
        slot.result.take()
    }
}

/// A look that was begun; see [`Vm::begin_look`].
#[must_use = "a look that was begun must be ended"]
pub struct BegunLook<R> {
    answer: Arc<Answer<R>>,
    number: Number,
}

impl<R> std::fmt::Debug for BegunLook<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BegunLook").finish_non_exhaustive()
    }
}

/// Why a look failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoLook {
    /// A process has kept the VM inside, without a safepoint.
    KeptInside,
    /// The VM has ended.
    Ended,
}

impl Vm {
    /// Has `look` called once on the state of this VM, and returns its result. Blocks the calling
    /// thread for at most about `patience`. To be called on a thread that is not one of this VM's,
    /// nor the monitor.
    ///
    /// `look` must be brief: all processes wait meanwhile. It must not use the VM but by the view.
    ///
    /// # Errors
    /// [`NoLook::KeptInside`] if there was no moment for the look, and [`NoLook::Ended`].
    ///
    /// ```
    /// use std::time::Duration;
    /// # mod closures { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doctests/closures.rs")); }
    /// closures::run(|main| {
    ///     let vm = main.vm.to_arc();
    ///     let thread = std::thread::spawn(move || {
    ///         vm.look(Duration::from_secs(10), |view| view.sched().iter().count())
    ///     });
    ///     // Beside this call there is a moment for the look.
    ///     let processes = main.vm.foreign(|| thread.join().expect("it looks, and ends"));
    ///     assert_eq!(processes, Ok(1));
    /// });
    /// ```
    pub fn look<R: Send + 'static>(
        &self,
        patience: Duration,
        look: impl FnOnce(&mut View<'_>) -> R + Send + 'static,
    ) -> Result<R, NoLook> {
        let begun = self.begin_look(look);
        self.end_look(begun, patience)
    }

    /// As [`Vm::look`], but does not wait for the result. For a thread that looks again and again,
    /// and that the owner need not wake each time. [`Vm::end_look`] must follow, unless
    /// [`Vm::poll_look`] has returned the result.
    ///
    /// ```
    /// use std::time::Duration;
    /// # mod closures { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doctests/closures.rs")); }
    /// closures::run(|main| {
    ///     let vm = main.vm.to_arc();
    ///     let thread = std::thread::spawn(move || {
    ///         let begun = vm.begin_look(|view| view.sched().iter().count());
    ///         match vm.poll_look(&begun) {
    ///             Ok(Some(processes)) => Ok(processes),
    ///             _ => vm.end_look(begun, Duration::from_secs(10)),
    ///         }
    ///     });
    ///     let processes = main.vm.foreign(|| thread.join().expect("it looks, and ends"));
    ///     assert_eq!(processes, Ok(1));
    /// });
    /// ```
    pub fn begin_look<R: Send + 'static>(
        &self,
        look: impl FnOnce(&mut View<'_>) -> R + Send + 'static,
    ) -> BegunLook<R> {
        let answer = Arc::new(Answer::new());
        let to_give = Arc::clone(&answer);
        let number = self
            .looks
            .list(Box::new(move |view| to_give.give(look(view))));
        if !self.look_beside_a_call() {
            match self.request(request::LOOK) {
                // An owner that waited serves looks as soon as it is awake. A signal would wake it
                // a second time.
                Notify::MustKick | Notify::OwnerSpins if !self.is_simulated() => {}
                _ => self.ask_owner(),
            }
        }
        BegunLook { answer, number }
    }

    /// The result of a look, if it is there. Otherwise asks for the look again.
    ///
    /// # Errors
    /// [`NoLook::Ended`].
    pub fn poll_look<R>(&self, begun: &BegunLook<R>) -> Result<Option<R>, NoLook> {
        if let Some(result) = begun.answer.take() {
            return Ok(Some(result));
        }
        if self.has_ended() {
            return Err(NoLook::Ended);
        }
        self.ask_again();
        Ok(begun.answer.take())
    }

    /// Waits for the result of a look for at most about `patience`.
    ///
    /// # Errors
    /// As of [`Vm::look`].
    pub fn end_look<R>(&self, begun: BegunLook<R>, patience: Duration) -> Result<R, NoLook> {
        let BegunLook { answer, number } = begun;
        let until = time::Instant::now() + patience; // real time, in a simulated run, too
        loop {
            if let Some(result) = answer.wait(AT_SAFEPOINT) {
                return Ok(result);
            }
            self.ask_again();
            let why = match self.has_ended() {
                true => NoLook::Ended,
                false if time::Instant::now() >= until => NoLook::KeptInside,
                false => continue,
            };
            let withdrawn = self.looks.withdraw(number, &self.requests, request::LOOK);
            if withdrawn.is_some() {
                return Err(why);
            }
            // It was taken, and runs at the moment if it has not ended.
            return answer.wait(Duration::MAX).ok_or(why);
        }
    }

    /// Asks again for the looks that wait: the owner may have passed over the first request.
    fn ask_again(&self) {
        if !self.look_beside_a_call() {
            self.ask_owner();
            self.look_why_kept();
        }
    }

    /// As [`Inside::parameters_changed`], on a thread that is not one of this VM's. Blocks it for
    /// at most about `patience`.
    ///
    /// # Errors
    /// As of [`Vm::look`]. Then some processes may go by the old values until their next wait.
    pub fn parameters_changed_outside(&self, patience: Duration) -> Result<(), NoLook> {
        let seen = self.look(patience, |view| view.vm.apply_parameters(view.inner));
        self.tell_of_parameters();
        seen
    }

    /// Makes an owner that runs reach a safepoint, as the monitor would; but the monitor may not
    /// have been started. If the owner is leaving another safepoint at this moment, it clears what
    /// the signal has armed. So this is repeated until there is an answer.
    fn ask_owner(&self) {
        if self.is_simulated() {
            // Its counted safepoints come soon, and none may be added.
            self.lend_turn();
            return;
        }
        let mut state = self.lock_state();
        let owner = state.owner.filter(|_| state.owner_has_come);
        let entry = owner.and_then(|owner| state.entry(owner));
        if let Some((gate, thread)) = entry.and_then(|entry| entry.gate.zip(entry.thread)) {
            gate.set_attention();
            if gate.value() & 1 == 0 {
                let _ = thread.interrupt();
            }
        }
    }

    /// Whether the owner waits in the system, as no process can run. A hint, on any thread.
    pub fn is_idle(&self) -> bool {
        self.park.is_waiting()
    }

    /// The native threads of this VM that have started, with their numbers in the system. On any
    /// thread, but not in a look.
    pub fn native_threads(&self) -> Vec<(CarrierId, i32)> {
        let state = self.lock_state();
        let numbered = state.carriers.iter().zip(0..);
        let started = numbered.filter_map(|(entry, carrier)| {
            Some((CarrierId(carrier), entry.as_ref()?.thread?.id()))
        });
        started.collect()
    }

    /// Carries out the looks that wait, if a foreign call has the VM. Returns whether one has.
    fn look_beside_a_call(&self) -> bool {
        let mut state = self.lock_state();
        // Relaxed: written by the owner. An old value is harmless: what is read here does not
        // change while the VM is taken, whether or not a retake is welcome.
        if self.has_ended() || !self.retaking.load(Ordering::Relaxed) {
            return false;
        }
        if self.host.is_between() {
            // Nobody is inside, and a stint begins under this mutex.
            self.look_with_nobody_inside(&mut state, None);
            return true;
        }
        let Some(owner) = state.owner.filter(|_| state.owner_has_come) else {
            return false;
        };
        let Some(entry) = state.entry(owner) else {
            return false;
        };
        let (Some(gate), caller) = (entry.gate, entry.thread) else {
            return false;
        };
        let seen = gate.value();
        if seen & 1 == 0 || self.take_from(gate, seen) == Take::GaveUp {
            return false;
        }
        self.look_with_nobody_inside(&mut state, caller);
        true
    }

    fn look_with_nobody_inside(&self, state: &mut LockState, caller: Option<ThreadHandle>) {
        // AcqRel: pairs with the release in `request`; before the list is taken, as the owner does.
        // Left set, it would look like work for which a call should be retaken.
        self.requests.fetch_and(!request::LOOK, Ordering::AcqRel);
        self.with_mutex_held(state, |inner, state| {
            self.serve_looks(inner, caller, Some(state))
        });
    }

    fn serve_looks(
        &self,
        inner: &mut Inner,
        caller: Option<ThreadHandle>,
        state: Option<&LockState>,
    ) {
        for look in self.looks.take() {
            look(&mut View {
                vm: self,
                inner,
                caller,
                state,
            });
        }
    }
}

impl Inside<'_> {
    /// Runs `look` on the state of the VM. Inside the VM.
    pub fn view<R>(&self, look: impl FnOnce(&mut View<'_>) -> R) -> R {
        let vm: &Vm = self;
        self.with_inner(|inner| {
            look(&mut View {
                vm,
                inner,
                caller: None,
                state: None,
            })
        })
    }

    /// Carries out the looks that wait, if the requests say so.
    #[inline]
    pub(in crate::vm) fn serve_looks_if_asked(&self, requests: u32) {
        if requests & request::LOOK != 0 {
            self.serve_looks_now();
        }
    }

    #[cold]
    #[inline(never)]
    fn serve_looks_now(&self) {
        self.with_inner(|inner| self.vm.serve_looks(inner, None, None));
    }
}

impl Inner {
    /// How long ago a process ran; `None` if it runs, never ran, or is forgotten.
    pub(in crate::vm) fn idle_for(&self, process: ProcessId, now: u64) -> Option<Duration> {
        let left_at = self.sched.payload(process)?.left_at;
        let has_left = left_at != 0 && self.sched.current() != Some(process);
        has_left.then(|| Duration::from_nanos(now.saturating_sub(left_at)))
    }
}
