//! The monitor: the program's one auxiliary thread. It is watchdog and heartbeat of every VM.
//!
//! This module decides *when* to poll; `vm/preempt/poll.rs` is the poll itself.
//! While no VM has anything to retake, preempt or expire, the monitor sleeps without a deadline.
//!
//! | state | `next_poll` | left by |
//! |---|---|---|
//! | polling | the past or the present | the end of the round |
//! | ticking | a time at most a tick ahead | its arrival, a wake-up, or `Monitor::alert` |
//! | ticking slowly | that time, some ticks ahead, with `SELDOM` | its arrival, a wake-up, or `Monitor::alert` |
//! | resting until a deadline | that time with `RESTING` | its arrival, a wake-up, or `Monitor::alert` |
//! | resting | `u64::MAX` | a wake-up, or `Monitor::alert` |
//!
//! **No preempt request is lost.** Before it rests, the monitor stores `next_poll` with `RESTING`,
//! runs the heavy half of an asymmetric barrier and reads the hints of every VM once more. An owner
//! stores its hints, runs the light half and reads `next_poll`. There are two cases: the monitor
//! sees the work and does not rest, or the owner sees `RESTING` and wakes it. The owner wakes it by
//! an alert, or by a wake-up that expires in time (`vm/preempt/wake_up.rs`).
//!
//! A hint that comes while the monitor polls or ticks is seen at the next poll, a tick later at
//! most. While it ticks slowly, starting a descriptor wait wakes the monitor, and so does a post of
//! another thread. The owner then reads the clock itself.

use super::next_poll::{NextPoll, TICK};
use crate::panics::{self, EndOfProgram};
use crate::vm::Vm;
use baton_sys::clock::{self, Instant};
use baton_sys::membarrier;
use baton_sys::poller::{Events, Interest, Poller, WakeUpTimer};
use baton_sys::promptness;
use baton_sys::reserve;
use baton_sys::signals::mask::SignalMask;
use baton_sys::thread;
use std::ffi::c_int;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

/// The kernel's time slice for the monitor: short, so that it does not wait for a busy thread on
/// the CPU where it wakes up. The shortest that Linux accepts.
const SLICE_OF_THREAD: Duration = Duration::from_micros(100);

/// How long nothing needs watching before the monitor rests: two ticks. If an owner is busy more
/// often than that, ticking costs less than waking the monitor each time. An owner that is busy
/// only for moments does not wake it (`vm/preempt/wake_up.rs`).
const QUIET: Duration = Duration::from_millis(4);

/// How long the monitor waits after the system has refused its thread, before it tries again.
const BEFORE_TRYING_AGAIN: Duration = Duration::from_secs(1);

/// How much later than wanted the monitor may wake up before it suspects that threads of a higher
/// priority keep it from a CPU.
const LATE: Duration = Duration::from_millis(100);

/// The bit of `next_poll` that says that new work needs an alert. Times do not reach it for 292
/// years.
const RESTING: u64 = 1 << 63;

/// The bit that says that the next poll is more than a tick away, although processes wait. Times do
/// not reach it for 146 years.
const SELDOM: u64 = 1 << 62;

/// Why the monitor's sleep ended.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RestEnded {
    /// An alert, a wake-up or a descriptor.
    ByAlert,
    /// Its time has come.
    ByTime,
}

/// The VMs of the program.
pub(crate) type VmList = Vec<Weak<Vm>>;

/// The monitor, as the VMs see it.
pub(crate) struct Monitor {
    /// The VMs of the program; guarded by its mutex.
    vms: Mutex<VmList>,
    poller: Poller,
    /// When the monitor will poll next, in nanoseconds, perhaps with [`RESTING`] or [`SELDOM`].
    /// Written only by the monitor.
    next_poll: AtomicU64,
    /// An alert was sent and not served yet.
    alerted: AtomicBool,
    /// Whether the thread was started.
    started: AtomicBool,
    /// Until when its thread is not started, in nanoseconds, because the system has refused it; 0:
    /// it has not.
    refused_until: AtomicU64,
    /// Whether its thread runs; written by that thread.
    runs: AtomicBool,
    /// The signal that its thread receives; 0: none.
    receives: AtomicI32,
}

impl std::fmt::Debug for Monitor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Monitor")
            .field("next_poll", &self.next_poll)
            .finish_non_exhaustive()
    }
}

impl Monitor {
    /// The program's monitor. Its thread starts with the first alert.
    ///
    /// # Errors
    /// When the system has no descriptor left for it.
    pub(crate) fn of_this_program() -> io::Result<Arc<Monitor>> {
        static MONITOR: Mutex<Option<Arc<Monitor>>> = Mutex::new(None);
        let mut known = MONITOR.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(monitor) = &*known {
            return Ok(Arc::clone(monitor));
        }
        let monitor = Arc::new(Monitor::new(u64::MAX)?);
        Ok(Arc::clone(known.insert(monitor)))
    }

    fn new(next_poll: u64) -> io::Result<Monitor> {
        Ok(Monitor {
            vms: Mutex::new(Vec::new()),
            poller: Poller::new()?,
            next_poll: AtomicU64::new(next_poll),
            alerted: AtomicBool::new(false),
            started: AtomicBool::new(false),
            refused_until: AtomicU64::new(0),
            runs: AtomicBool::new(false),
            receives: AtomicI32::new(0),
        })
    }

    /// A monitor without a thread that seems to poll once a tick, and soon enough for everything.
    #[cfg(test)]
    pub(crate) fn that_ticks() -> Arc<Monitor> {
        const SOON: u64 = 1;
        Arc::new(Monitor::new(SOON).expect("there is room"))
    }

    pub(crate) fn add(&self, vm: &Arc<Vm>) {
        self.vms().push(Arc::downgrade(vm));
    }

    pub(crate) fn remove(&self, vm: &Arc<Vm>) {
        self.vms()
            .retain(|listed| !std::ptr::eq(listed.as_ptr(), Arc::as_ptr(vm)));
    }

    /// Rebuilds the monitor in a fork's child, where only `vm` is left and the thread is gone. It
    /// starts again with the first alert.
    ///
    /// # Errors
    ///
    /// When the system refuses new descriptors.
    pub(crate) fn restart_after_fork(&self, vm: &Vm) -> io::Result<()> {
        self.vms()
            .retain(|listed| std::ptr::eq(listed.as_ptr(), vm));
        self.poller.reopen_after_fork()?;
        // Relaxed (all): there is no other thread.
        self.next_poll.store(u64::MAX, Ordering::Relaxed);
        self.alerted.store(false, Ordering::Relaxed);
        self.started.store(false, Ordering::Relaxed);
        // Relaxed (both): as above.
        self.refused_until.store(0, Ordering::Relaxed);
        self.runs.store(false, Ordering::Relaxed);
        Ok(())
    }

    pub(crate) fn vms(&self) -> MutexGuard<'_, VmList> {
        self.vms.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the next poll is too late for this work, so that the owner must wake the monitor.
    #[inline]
    pub(crate) fn polls_too_late(&self, work_waits: bool, is_watched: bool, deadline: u64) -> bool {
        // Relaxed: ordered by the asymmetric barrier (see the module's text).
        let next = self.next_poll.load(Ordering::Relaxed);
        (work_waits && next & RESTING != 0)
            || (is_watched && next & SELDOM != 0)
            || deadline < next & !(RESTING | SELDOM)
    }

    /// Whether the monitor rests: until an alert, or until a deadline.
    #[inline]
    pub(crate) fn is_resting(&self) -> bool {
        // Relaxed: a hint.
        self.next_poll.load(Ordering::Relaxed) & RESTING != 0
    }

    /// Whether the monitor polls once a tick, so that the time of its last poll is about the
    /// present.
    #[inline]
    pub(crate) fn ticks(&self) -> bool {
        // Relaxed: a hint.
        self.next_poll.load(Ordering::Relaxed) & (RESTING | SELDOM) == 0
    }

    /// Whether its next poll may be more than a tick away, or this is just being decided.
    pub(crate) fn may_poll_late(&self) -> bool {
        // Relaxed: ordered by the asymmetric barrier (see the module's text).
        let next = self.next_poll.load(Ordering::Relaxed);
        next == 0 || next & (RESTING | SELDOM) != 0
    }

    /// Whether there is a thread that receives wake-ups.
    pub(crate) fn has_started(&self) -> bool {
        // Acquire: pairs with the swap in `start`.
        self.started.load(Ordering::Acquire)
    }

    /// Makes the monitor poll now; starts its thread if necessary.
    pub(crate) fn alert(self: &Arc<Self>) {
        if clock::is_simulated() {
            return; // time is virtual: there are no polls
        }
        if !self.has_started() && self.may_start() {
            self.start();
        }
        self.alert_if_started();
    }

    /// Whether the thread may be started: the system has not refused it lately. Otherwise each
    /// switch would make a system call.
    fn may_start(&self) -> bool {
        // Relaxed: an old value only causes one more system call.
        let refused_until = self.refused_until.load(Ordering::Relaxed);
        refused_until == 0 || Instant::now().as_nanos() >= refused_until
    }

    /// As [`Monitor::alert`], for signal handlers: async-signal-safe. While the thread has not been
    /// started, there is no waker, and the VM runs on the program's first thread. A signal then
    /// interrupts that thread, and the guest's handler requests a safepoint.
    pub(crate) fn alert_from_signal_handler(&self) {
        self.alert_if_started();
    }

    /// Makes the monitor poll now, or as soon as its thread starts.
    pub(crate) fn alert_if_started(&self) {
        // AcqRel: pairs with the swap in `wait`; only the first alert kicks.
        if !self.alerted.swap(true, Ordering::AcqRel) {
            self.poller.kick();
        }
    }

    fn start(self: &Arc<Self>) {
        // AcqRel: pairs with itself, one thread starts the monitor; and with the load in
        // `has_started`.
        if self.started.swap(true, Ordering::AcqRel) {
            return;
        }
        let monitor = Arc::clone(self);
        let spawned = if reserve::has_room_for_a_thread() {
            thread::start_above("baton-monitor", 128 * 1024, move || monitor.watch())
        } else {
            Err(std::io::ErrorKind::OutOfMemory.into())
        };
        // With several CPUs it may have its turn nevertheless. If not, it says so itself.
        if let Ok(Some(obstacle)) = spawned
            && std::thread::available_parallelism().is_ok_and(|count| count.get() == 1)
        {
            eprintln!("baton: warning: processes that compute are not preempted: {obstacle}");
        }
        if let Err(error) = spawned {
            let again = Instant::now() + BEFORE_TRYING_AGAIN;
            // Relaxed: as in `may_start`.
            let before = self.refused_until.swap(again.as_nanos(), Ordering::Relaxed);
            // Release: pairs with the swap above, which tries again.
            self.started.store(false, Ordering::Release);
            if before == 0 {
                eprintln!(
                    "baton: cannot start the monitor ({error}): until it can, processes are not \
                     preempted"
                );
            }
        }
    }

    /// Has its thread receive a signal, and no other one. To be called before that starts.
    pub(crate) fn receive(&self, signal: c_int) {
        // Relaxed: the start of the thread orders it.
        self.receives.store(signal, Ordering::Relaxed);
    }

    /// Whether its thread runs, as far as is known.
    pub(crate) fn runs(&self) -> bool {
        // Relaxed: the thread never ends, and a late answer does no harm.
        self.runs.load(Ordering::Relaxed)
    }

    fn watch(&self) {
        // Relaxed (both): as above; the signal is chosen before the thread starts.
        self.runs.store(true, Ordering::Relaxed);
        let received = self.receives.load(Ordering::Relaxed);
        SignalMask::empty().with(received).unblock();
        // Refusals only affect precision.
        let _ = promptness::set_timer_slack(Duration::from_nanos(1));
        let _ = promptness::set_slice(SLICE_OF_THREAD);
        // Never averted: the loop has no end.
        let _end =
            EndOfProgram::at_panic_in("the monitor", "no process would be preempted any more");
        let mut events = Events::new();
        let mut quiet_since = None;
        loop {
            panics::fault("monitor");
            match self.poll_all() {
                NextPoll::At(next) => {
                    quiet_since = None;
                    self.wait(&mut events, next);
                }
                NextPoll::Quiet(until) => {
                    let now = Instant::now();
                    let since = *quiet_since.get_or_insert(now);
                    if now.saturating_duration_since(since) < QUIET {
                        let tick = now + TICK;
                        self.wait(&mut events, until.map_or(tick, |until| tick.min(until)));
                    } else if self.rest(&mut events, until) == RestEnded::ByAlert {
                        quiet_since = None;
                    }
                }
            }
        }
    }

    fn poll_all(&self) -> NextPoll {
        let now = Instant::now();
        let polls = self.each_vm().map(|vm| vm.poll(now));
        polls.fold(NextPoll::Quiet(None), NextPoll::and)
    }

    /// The VMs, one after the other. Allocates nothing, as memory may be short, and holds no lock
    /// between two VMs. If a VM is added or removed meanwhile, the iteration may miss another one.
    fn each_vm(&self) -> impl Iterator<Item = Arc<Vm>> {
        let places = (0..).map_while(|place| self.vms().get(place).map(Weak::upgrade));
        places.flatten()
    }

    fn wait(&self, events: &mut Events, until: Instant) {
        let is_seldom = until.saturating_duration_since(Instant::now()) > TICK;
        let flag = if is_seldom { SELDOM } else { 0 };
        // Relaxed: an owner that reads it late alerts needlessly; one that reads it early waits for
        // the next tick.
        self.next_poll
            .store(until.as_nanos() | flag, Ordering::Relaxed);
        let _ = self.sleep(events, Some(until));
    }

    fn rest(&self, events: &mut Events, until: Option<Instant>) -> RestEnded {
        let deadline = until.map_or(u64::MAX, Instant::as_nanos);
        // Relaxed: ordered by the barrier below.
        self.next_poll.store(deadline | RESTING, Ordering::Relaxed);
        // Pairs with `light` in `Vm::update_hints`.
        membarrier::heavy();
        let needed = self
            .vms()
            .iter()
            .filter_map(Weak::upgrade)
            .any(|vm| vm.needs_watching(deadline));
        if needed {
            // Relaxed: as above.
            self.next_poll.store(0, Ordering::Relaxed);
            return RestEnded::ByAlert;
        }
        self.sleep(events, until)
    }

    /// Makes the monitor poll once when a VM's poller has events: at once, if it has some now.
    /// Returns whether that works.
    pub(crate) fn listen_to(&self, poller: &Poller) -> bool {
        let fd = poller.fd();
        let Ok(token) = u64::try_from(fd) else {
            return false;
        };
        let armed = self.poller.modify(fd, Interest::READABLE, token);
        armed
            .or_else(|_| self.poller.add(fd, Interest::READABLE, token))
            .is_ok()
    }

    /// Makes the monitor poll whenever `timer` expires.
    ///
    /// # Errors
    ///
    /// When the system refuses.
    pub(crate) fn listen_for(&self, timer: &WakeUpTimer) -> io::Result<()> {
        // The timer's own descriptor is its token, which differs from that of every VM's poller.
        self.poller
            .watch(timer.fd(), u64::try_from(timer.fd()).unwrap_or(0))
    }

    /// Notes which pollers have events. Returns whether any has.
    fn note_news(&self, events: &mut Events) -> bool {
        let mut came = false;
        for event in events.drain() {
            came = true;
            self.each_vm().any(|vm| vm.note_news(event.token));
        }
        came
    }

    fn sleep(&self, events: &mut Events, until: Option<Instant>) -> RestEnded {
        // AcqRel: pairs with the swap in `alert`. An alert before the wait leaves a kick in the
        // poller.
        let mut called = self.alerted.swap(false, Ordering::AcqRel);
        if !called {
            if let Err(error) = self.poller.wait(events, until) {
                eprintln!("baton: the monitor's poller failed: {error}");
                std::process::abort();
            }
            called = self.note_news(events);
            if until.is_some_and(|until| Instant::now() > until + LATE) {
                self.each_vm().for_each(|vm| vm.outrank_owner());
            }
            // AcqRel: pairs with the swap in `alert`. Alerts that came during the wait are served
            // by the poll that follows.
            called |= self.alerted.swap(false, Ordering::AcqRel);
        }
        // Relaxed: a poll follows at once.
        self.next_poll.store(0, Ordering::Relaxed);
        if called {
            RestEnded::ByAlert
        } else {
            RestEnded::ByTime
        }
    }
}
