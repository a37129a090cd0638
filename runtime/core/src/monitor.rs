//! The monitor: the program's one auxiliary thread. It is watchdog and heartbeat of every VM.
//!
//! It decides *when* to look; what a look finds and does is in [`vm/watch.rs`](crate::vm). While no VM has anything to retake,
//! preempt or expire, it sleeps without a deadline.
//!
//! | state | `next_look` | left by |
//! |---|---|---|
//! | looking | the past or the present | the end of the round |
//! | ticking | a time at most a tick ahead | its arrival, an alarm, or `Monitor::alert` |
//! | ticking seldom | that time, some ticks ahead, with `SELDOM` | its arrival, an alarm, or `Monitor::alert` |
//! | parked until a deadline | that time with `PARKED` | its arrival, an alarm, or `Monitor::alert` |
//! | parked | `u64::MAX` | an alarm, or `Monitor::alert` |
//!
//! **No beat is lost.** Before it parks, the monitor stores `next_look` with `PARKED`, runs the heavy half of an asymmetric barrier and
//! reads what every VM published once more. An owner stores what it publishes, runs the light half and reads `next_look`. Either the
//! monitor sees the work and does not park, or the owner sees `PARKED` and calls it: by an alert, or by an alarm that goes off in time
//! (`vm/calling.rs`). What is published while the monitor looks or
//! ticks is seen at the next look, a tick later at most. While it ticks seldom, those call it who begin to wait for a descriptor, as do other threads that post; and the owner reads the clock itself.

use crate::vm::Vm;
use baton_sys::clock::{self, Instant};
use baton_sys::membarrier;
use baton_sys::poller::{Alarm, Events, Interest, Poller};
use baton_sys::promptness;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

/// The kernel's slice for the monitor: short, so that it does not wait for a busy thread on the CPU where it wakes up. The shortest that Linux takes.
const SLICE_OF_THREAD: Duration = Duration::from_micros(100);

/// How long nothing needs watching before the monitor parks: two ticks, as an owner that is busy more often than that is better ticked for than called
/// for. An owner that is busy for moments only does not call (`vm/calling.rs`).
const QUIET: Duration = Duration::from_millis(4);

/// The longest time between two looks while anything may need watching, but for a process that only computes while others wait: `vm/watch.rs`.
pub(crate) const TICK: Duration = Duration::from_millis(2);

/// How long the system is left alone that has refused the monitor's thread.
const BEFORE_TRYING_AGAIN: Duration = Duration::from_secs(1);

/// The bit of `next_look` that says that work must be alerted for. Times do not reach it for 292 years.
const PARKED: u64 = 1 << 63;

/// The bit that says that the next look is more than a tick away, though work waits. Times do not reach it for 146 years.
const SELDOM: u64 = 1 << 62;

/// When a VM wants to be looked at next.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NextLook {
    /// At this time.
    At(Instant),
    /// Nothing needs watching until something changes, or until this time.
    Quiet(Option<Instant>),
}

impl NextLook {
    /// The same, but at `latest` in any case. What was quiet stays so: whoever has work before that calls.
    pub(crate) fn no_later_than(self, latest: Instant) -> NextLook {
        match self {
            NextLook::At(at) => NextLook::At(at.min(latest)),
            NextLook::Quiet(until) => NextLook::Quiet(Some(until.map_or(latest, |until| until.min(latest)))),
        }
    }

    /// What two VMs want together.
    fn and(self, other: NextLook) -> NextLook {
        match (self, other) {
            (NextLook::Quiet(a), NextLook::Quiet(b)) => NextLook::Quiet(a.into_iter().chain(b).min()),
            (NextLook::At(a), NextLook::At(b)) => NextLook::At(a.min(b)),
            (NextLook::At(at), NextLook::Quiet(until)) | (NextLook::Quiet(until), NextLook::At(at)) => {
                NextLook::At(until.map_or(at, |until| at.min(until)))
            }
        }
    }
}

/// Why the monitor has not slept on.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Parked {
    /// There is something to look at: an alert, an alarm, a descriptor.
    WasCalled,
    /// Its time has come.
    ForItsTime,
}

/// The VMs of the program.
pub(crate) type VmList = Vec<Weak<Vm>>;

/// The monitor's face to the VMs.
pub struct Monitor {
    /// The VMs of the program; guarded by its mutex.
    vms: Mutex<VmList>,
    poller: Poller,
    /// When the monitor will look next, in nanoseconds, perhaps with [`PARKED`]; written by the monitor alone.
    next_look: AtomicU64,
    /// Somebody has asked for a look.
    alerted: AtomicBool,
    /// Whether the thread was started.
    started: AtomicBool,
    /// Until when it is not tried again to start it, in nanoseconds, since the system has refused; 0: it has not.
    refused_until: AtomicU64,
    /// Whether it runs; written by itself.
    runs: AtomicBool,
}

impl std::fmt::Debug for Monitor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Monitor")
            .field("next_look", &self.next_look)
            .finish_non_exhaustive()
    }
}

impl Monitor {
    /// The program's monitor; its thread starts with the first alert.
    ///
    /// # Errors
    /// When the system has no descriptor left for it.
    pub(crate) fn of_this_program() -> io::Result<Arc<Monitor>> {
        static MONITOR: Mutex<Option<Arc<Monitor>>> = Mutex::new(None);
        let mut known = MONITOR.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(monitor) = &*known {
            return Ok(Arc::clone(monitor));
        }
        let monitor = Arc::new(Monitor {
            vms: Mutex::new(Vec::new()),
            poller: Poller::new()?,
            next_look: AtomicU64::new(u64::MAX),
            alerted: AtomicBool::new(false),
            started: AtomicBool::new(false),
            refused_until: AtomicU64::new(0),
            runs: AtomicBool::new(false),
        });
        Ok(Arc::clone(known.insert(monitor)))
    }

    pub(crate) fn add(&self, vm: &Arc<Vm>) {
        self.vms().push(Arc::downgrade(vm));
    }

    pub(crate) fn remove(&self, vm: &Arc<Vm>) {
        self.vms()
            .retain(|listed| !std::ptr::eq(listed.as_ptr(), Arc::as_ptr(vm)));
    }

    /// In a fork's child: only `vm` is left, and the thread is gone. It starts again with the first alert.
    ///
    /// # Errors
    ///
    /// When the system refuses new descriptors.
    pub(crate) fn restart_after_fork(&self, vm: &Vm) -> io::Result<()> {
        self.vms().retain(|listed| std::ptr::eq(listed.as_ptr(), vm));
        self.poller.reopen_after_fork()?;
        // Relaxed (all): there is no other thread.
        self.next_look.store(u64::MAX, Ordering::Relaxed);
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

    /// Whether an owner with this much work must alert the monitor.
    #[inline]
    pub(crate) fn looks_too_late(&self, work_waits: bool, is_watched: bool, deadline: u64) -> bool {
        // Relaxed: ordered by the asymmetric barrier (see the module's text).
        let next = self.next_look.load(Ordering::Relaxed);
        (work_waits && next & PARKED != 0) || (is_watched && next & SELDOM != 0) || deadline < next & !(PARKED | SELDOM)
    }

    /// Whether it waits until it is called, or until a deadline.
    #[inline]
    pub(crate) fn is_parked(&self) -> bool {
        // Relaxed: a hint.
        self.next_look.load(Ordering::Relaxed) & PARKED != 0
    }

    /// Whether the monitor looks once a tick, so that the time of its last look is about the present.
    #[inline]
    pub(crate) fn ticks(&self) -> bool {
        // Relaxed: a hint.
        self.next_look.load(Ordering::Relaxed) & (PARKED | SELDOM) == 0
    }

    /// Whether its next look may be more than a tick away: it is, or that is just being decided.
    pub(crate) fn may_look_late(&self) -> bool {
        // Relaxed: ordered by the asymmetric barrier (see the module's text).
        let next = self.next_look.load(Ordering::Relaxed);
        next == 0 || next & (PARKED | SELDOM) != 0
    }

    /// Whether there is a thread that hears alarms.
    pub(crate) fn has_started(&self) -> bool {
        // Acquire: pairs with the swap in `start`.
        self.started.load(Ordering::Acquire)
    }

    /// Has the monitor look now.
    pub(crate) fn alert(self: &Arc<Self>) {
        if clock::is_simulated() {
            return; // there are no looks by time
        }
        if !self.has_started() && self.may_start() {
            self.start();
        }
        self.alert_if_started();
    }

    /// Whether the system has not refused lately: it would be asked at every switch.
    fn may_start(&self) -> bool {
        // Relaxed: who reads an old value asks the system once more.
        let refused_until = self.refused_until.load(Ordering::Relaxed);
        refused_until == 0 || Instant::now().as_nanos() >= refused_until
    }

    /// The same for signal handlers: async-signal-safe. While the thread has not been started, no bell hangs, and the VM is on the program's first thread: a
    /// signal interrupts that one, whose guest's handler asks for a safepoint.
    pub(crate) fn alert_from_signal_handler(&self) {
        self.alert_if_started();
    }

    /// Has the monitor look now, or as soon as its thread starts.
    pub(crate) fn alert_if_started(&self) {
        // AcqRel: pairs with the swap in `wait`; the first one kicks.
        if !self.alerted.swap(true, Ordering::AcqRel) {
            self.poller.kick();
        }
    }

    fn start(self: &Arc<Self>) {
        // AcqRel: pairs with itself, one thread starts the monitor; and with the load in `has_started`.
        if self.started.swap(true, Ordering::AcqRel) {
            return;
        }
        let monitor = Arc::clone(self);
        let thread = std::thread::Builder::new()
            .name("baton-monitor".into())
            .stack_size(128 * 1024);
        if let Err(error) = thread.spawn(move || monitor.watch()) {
            let again = Instant::now() + BEFORE_TRYING_AGAIN;
            // Relaxed: as in `may_start`.
            let before = self.refused_until.swap(again.as_nanos(), Ordering::Relaxed);
            // Release: pairs with the swap above, which tries again.
            self.started.store(false, Ordering::Release);
            if before == 0 {
                eprintln!("baton: cannot start the monitor ({error}): until it can, processes are not preempted");
            }
        }
    }

    /// Whether its thread is there, as far as is known.
    pub(crate) fn runs(&self) -> bool {
        // Relaxed: the thread never ends, and to learn late that it is there does no harm.
        self.runs.load(Ordering::Relaxed)
    }

    fn watch(&self) {
        // Relaxed: as above.
        self.runs.store(true, Ordering::Relaxed);
        // A refusal of either costs nothing but exactness.
        let _ = promptness::set_timer_slack(Duration::from_nanos(1));
        let _ = promptness::set_slice(SLICE_OF_THREAD);
        let mut events = Events::new();
        let mut quiet_since = None;
        loop {
            match self.look_at_all() {
                NextLook::At(next) => {
                    quiet_since = None;
                    self.wait(&mut events, next);
                }
                NextLook::Quiet(until) => {
                    let now = Instant::now();
                    let since = *quiet_since.get_or_insert(now);
                    if now.saturating_duration_since(since) < QUIET {
                        let tick = now + TICK;
                        self.wait(&mut events, until.map_or(tick, |until| tick.min(until)));
                    } else if self.park(&mut events, until) == Parked::WasCalled {
                        quiet_since = None;
                    }
                }
            }
        }
    }

    fn look_at_all(&self) -> NextLook {
        let now = Instant::now();
        let vms: Vec<Arc<Vm>> = self.vms().iter().filter_map(Weak::upgrade).collect();
        let looks = vms.iter().map(|vm| vm.look(now));
        looks.fold(NextLook::Quiet(None), NextLook::and)
    }

    fn wait(&self, events: &mut Events, until: Instant) {
        let is_seldom = until.saturating_duration_since(Instant::now()) > TICK;
        let flag = if is_seldom { SELDOM } else { 0 };
        // Relaxed: a late reader alerts needlessly, an early one waits for the next tick.
        self.next_look.store(until.as_nanos() | flag, Ordering::Relaxed);
        let _ = self.sleep(events, Some(until));
    }

    fn park(&self, events: &mut Events, until: Option<Instant>) -> Parked {
        let deadline = until.map_or(u64::MAX, Instant::as_nanos);
        // Relaxed: ordered by the barrier below.
        self.next_look.store(deadline | PARKED, Ordering::Relaxed);
        // Pairs with `light` in `Vm::publish`.
        membarrier::heavy();
        let needed = self
            .vms()
            .iter()
            .filter_map(Weak::upgrade)
            .any(|vm| vm.needs_watching(deadline));
        if needed {
            // Relaxed: as above.
            self.next_look.store(0, Ordering::Relaxed);
            return Parked::WasCalled;
        }
        self.sleep(events, until)
    }

    /// Has the monitor look when there is news in a VM's poller: once, at once if there is some. Says whether it can.
    pub(crate) fn listen_to(&self, poller: &Poller) -> bool {
        let fd = poller.fd();
        let Ok(token) = u64::try_from(fd) else { return false };
        let armed = self.poller.modify(fd, Interest::READABLE, token);
        armed
            .or_else(|_| self.poller.add(fd, Interest::READABLE, token))
            .is_ok()
    }

    /// Has the monitor look whenever `alarm` goes off.
    ///
    /// # Errors
    ///
    /// When the system refuses.
    pub(crate) fn listen_for(&self, alarm: &Alarm) -> io::Result<()> {
        // The number stands for itself: it is none of a VM's poller.
        self.poller.watch(alarm.fd(), u64::try_from(alarm.fd()).unwrap_or(0))
    }

    /// Says whether there was any.
    fn note_news(&self, events: &mut Events) -> bool {
        let mut came = false;
        for event in events.drain() {
            came = true;
            let vms: Vec<Arc<Vm>> = self.vms().iter().filter_map(Weak::upgrade).collect();
            vms.iter().any(|vm| vm.note_news(event.token));
        }
        came
    }

    fn sleep(&self, events: &mut Events, until: Option<Instant>) -> Parked {
        // AcqRel: pairs with the swap in `alert`; an alert before the wait leaves a kick in the poller.
        let mut called = self.alerted.swap(false, Ordering::AcqRel);
        if !called {
            if let Err(error) = self.poller.wait(events, until) {
                eprintln!("baton: the monitor's poller failed: {error}");
                std::process::abort();
            }
            called = self.note_news(events);
            // AcqRel: pairs with the swap in `alert`. Alerts that came during the wait are served by the look that follows.
            called |= self.alerted.swap(false, Ordering::AcqRel);
        }
        // Relaxed: a look follows at once.
        self.next_look.store(0, Ordering::Relaxed);
        if called { Parked::WasCalled } else { Parked::ForItsTime }
    }
}
