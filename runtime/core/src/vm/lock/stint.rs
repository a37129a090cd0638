//! A VM in a loop that the program owns: a *host*, such as a toolkit's main loop or a game's frame.
//!
//! The host calls [`Vm::run_until`] again and again, on one thread, which is the VM's home. One
//! such call is a *stint*. Between two stints no process runs, and the thread is no carrier: it may
//! run another VM. The host learns from [`Vm::descriptor`] when the next stint has something to do.
//!
//! `until` says where the host is:
//!
//! | `until` | meaning | left by |
//! |---|---|---|
//! | `NO_HOST` | [`Vm::run`] drives the VM, or nothing yet | the first [`Vm::run_until`] |
//! | a time | in a stint that lasts until then | its end, in `Vm::pause` |
//! | `WITHOUT_LIMIT` | in a stint without a limit | likewise |
//! | `OVER` | the owner has seen that the time is used up | likewise |
//! | `BETWEEN` | between two stints, or the VM has ended | [`Vm::run_until`] |
//!
//! A stint ends in home's loop, with home as the owner:
//!
//! | stint ends | because | then |
//! |---|---|---|
//! | [`StintEnd::Idle`] | nothing is runnable | the timer in the poller is set for the next deadline |
//! | [`StintEnd::TimeIsUp`] | the time is used up | the owner kicks its own poller |
//! | [`StintEnd::Ended`] | the VM has ended | |
//!
//! **The time is kept.** The owner includes `until` in its hints, so that the monitor polls then.
//! It requests a safepoint and sets `STINT_OVER`, with which switches leave the fast path. Both
//! lead to the loop. Another thread that has the VM gives it to home then, unless home is out in a
//! call: as long as that lasts, the host cannot come back anyway, and the others run on.
//!
//! Between two stints home is the owner but *has not come* (`state.rs`). So nobody is granted the
//! VM, nothing is retaken, and a fork or a halt finds nobody inside.
//!
//! **No wake-up is lost.** Before a stint ends, the owner announces its wait
//! ([`baton_sys::parking`], cases 2, 5 and 6). From then on others kick the poller, whose
//! descriptor the host watches. A stint begins with [`Park::finish`](baton_sys::parking::Park) and
//! a poll of the poller, and then takes the inbox. Nothing polls the poller between the
//! announcement and the return. So a kick is either still there for the host, or it was taken by a
//! stint that took the inbox after it. Checked by `a_host_hears_of_two_posts` in `loom_parking.rs`.
//!
//! A deadline that is earlier than the timer's appears only in a stint, and each stint sets the
//! timer at its end. The timer may expire before the host watches the descriptor: it stays readable
//! until the poller is polled.

use super::state::{Driver, LockState};
use crate::sched::{CarrierId, Preemption};
use crate::vm::idle::inbox::AfterReport;
use crate::vm::preempt::decide::Host;
use crate::vm::{HOME, Inner, Inside, Vm, slow_reason};
use baton_sys::clock::Instant;
use baton_sys::gate;
use baton_sys::parking::Prepared;
use baton_sys::poller::{FIRST_RESERVED_TOKEN, WakeUpTimer};
use baton_sys::signals::ThreadHandle;
use std::io;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

const BETWEEN: u64 = 0;
const OVER: u64 = 1;
const WITHOUT_LIMIT: u64 = u64::MAX - 1;
const NO_HOST: u64 = u64::MAX;

/// The timer's events. As a descriptor's token it would have an impossible number.
const TIMER_TOKEN: u64 = FIRST_RESERVED_TOKEN - 1;

/// How a stint ended.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StintEnd {
    /// Nothing is runnable before this time, unless the descriptor says so. `None`: there is no
    /// deadline.
    Idle(Option<Instant>),
    /// The time is used up, and processes are runnable. The descriptor is readable.
    TimeIsUp,
    /// The VM has ended: it was stopped, or no process is left.
    Ended,
}

/// Why there was no stint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StintRefused {
    /// The calling thread runs a VM already.
    InsideVm,
    /// The stints of this VM are on another thread.
    OtherThread,
    /// [`Vm::run`] drives this VM.
    Run,
    /// The run is simulated.
    Simulated,
}

/// What the VM knows of its host.
pub(in crate::vm) struct HostLoop {
    /// See the module's text. Written by home's thread, in its loop or under the VM's mutex; by
    /// another owner as `OVER`. Read by the monitor.
    until: AtomicU64,
    /// When the next stint has something to do, in nanoseconds; `u64::MAX`: never. Written by home.
    due: AtomicU64,
    /// Makes the descriptor readable at a deadline. `None` on systems without such timers.
    timer: OnceLock<Option<WakeUpTimer>>,
    /// What the timer is set to, in nanoseconds; `u64::MAX`: nothing. Home's.
    set_to: AtomicU64,
}

/// What the owner remembers of stints.
#[derive(Debug, Default)]
pub(in crate::vm) struct Stints {
    /// One has ended, and the next one has not begun.
    is_between: bool,
    /// The scheduler's count of changes at the last report of a deadlock.
    reported_at: Option<u64>,
}

impl HostLoop {
    pub(in crate::vm) fn new() -> HostLoop {
        HostLoop {
            until: AtomicU64::new(NO_HOST),
            due: AtomicU64::new(0),
            timer: OnceLock::new(),
            set_to: AtomicU64::new(u64::MAX),
        }
    }

    #[inline(always)]
    fn until(&self) -> u64 {
        // Relaxed: home's own; other owners are ordered by the VM's mutex. For the monitor it is a
        // hint.
        self.until.load(Ordering::Relaxed)
    }

    fn set_until(&self, until: u64) {
        // Relaxed: as above.
        self.until.store(until, Ordering::Relaxed);
    }

    /// Whether the VM has a host.
    pub(super) fn exists(&self) -> bool {
        self.until() != NO_HOST
    }

    /// Whether no stint runs, although there is a host.
    #[inline]
    pub(in crate::vm) fn is_between(&self) -> bool {
        self.until() == BETWEEN
    }

    /// The stint has ended. Under the VM's mutex.
    pub(super) fn note_between(&self) {
        self.set_until(BETWEEN);
    }

    /// In a fork's child on another thread than the host's: there is no host.
    pub(in crate::vm) fn lose(&self) {
        self.set_until(NO_HOST);
    }

    fn timer(&self) -> Option<&WakeUpTimer> {
        self.timer.get()?.as_ref()
    }

    /// Makes the descriptor readable at `deadline`, if the system can.
    fn set_timer(&self, deadline: Option<Instant>) {
        let Some(timer) = self.timer() else { return };
        let wanted = deadline.map_or(u64::MAX, Instant::as_nanos);
        // Relaxed (both): only home uses it.
        let before = self.set_to.swap(wanted, Ordering::Relaxed);
        match deadline {
            // It has not expired yet, so its event is still to come.
            Some(deadline) if before == wanted && deadline > Instant::now() => {}
            // No error is known for an open timer.
            Some(deadline) => drop(timer.set(deadline)),
            None if before == u64::MAX => {}
            None => timer.clear(),
        }
    }
}

/// How a call of [`Vm::run_until`] begins.
enum Begun {
    /// It is the first one.
    First,
    Again,
    /// The VM has ended.
    AtTheEnd,
}

impl Vm {
    /// Runs processes on the calling thread: what is runnable, at most until `until`
    /// ([`Instant::FAR_FUTURE`]: without a limit). For a program that has a loop of its own, in
    /// place of [`Vm::run`]. All calls are made by one thread, which is the VM's home.
    ///
    /// A process that computes is interrupted at `until`, and continues in the next stint. One that
    /// is in a foreign call on this thread keeps the thread until the call ends, while others run
    /// on other threads. Calls that last should be offloaded ([`Inside::offload`]).
    ///
    /// If `until` is past, takes in what has happened, and runs nothing.
    ///
    /// # Errors
    /// Nothing has happened then.
    ///
    /// ```
    /// use baton_core::vm::StintEnd;
    /// use baton_sys::clock::Instant;
    /// use std::time::Duration;
    /// # mod closures { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doctests/closures.rs")); }
    /// let vm = closures::hosted(|main| {
    ///     let until = Instant::now() + Duration::from_millis(100);
    ///     main.vm.sleep_until(until);
    /// });
    /// let mut idle = 0;
    /// loop {
    ///     match vm.run_until(Instant::FAR_FUTURE).expect("this thread runs no other VM") {
    ///         StintEnd::Idle(deadline) => {
    ///             // A real loop watches `vm.descriptor()` among its other descriptors.
    ///             let left = deadline.expect("it sleeps") - Instant::now();
    ///             std::thread::sleep(left);
    ///             idle += 1;
    ///         }
    ///         StintEnd::TimeIsUp => unreachable!("there is no limit"),
    ///         StintEnd::Ended => break,
    ///     }
    /// }
    /// assert!(idle > 0);
    /// ```
    pub fn run_until(self: &Arc<Vm>, until: Instant) -> Result<StintEnd, StintRefused> {
        match self.prepare_stint(until)? {
            Begun::First => self.begin_at_home(),
            Begun::Again => {}
            Begun::AtTheEnd => return Ok(StintEnd::Ended),
        }
        let (_, stint) = self.carry(HOME);
        let Some(end) = stint else {
            self.end_host();
            return Ok(StintEnd::Ended);
        };
        let due = match end {
            StintEnd::Idle(deadline) => deadline.map_or(u64::MAX, Instant::as_nanos),
            StintEnd::TimeIsUp | StintEnd::Ended => 0,
        };
        // Relaxed: told to whoever asks, and ordered by nothing.
        self.host.due.store(due, Ordering::Relaxed);
        Ok(end)
    }

    fn prepare_stint(self: &Arc<Vm>, until: Instant) -> Result<Begun, StintRefused> {
        if gate::here().carrier().is_some() {
            return Err(StintRefused::InsideVm);
        }
        if self.is_simulated() {
            return Err(StintRefused::Simulated);
        }
        let me = ThreadHandle::current().id();
        let mut state = self.lock_state();
        let begun = match state.driver {
            Driver::Unknown => {
                state.driver = Driver::Host(me);
                state.settle_home();
                let timer = || {
                    let timer = WakeUpTimer::new().ok()?;
                    let watched = self.poller.watch(timer.fd(), TIMER_TOKEN);
                    watched.is_ok().then_some(timer)
                };
                self.host.timer.get_or_init(timer);
                Begun::First
            }
            Driver::Run => return Err(StintRefused::Run),
            Driver::Host(host) if host != me => return Err(StintRefused::OtherThread),
            Driver::Host(_) if self.has_ended() => {
                drop(state);
                self.end_host(); // another thread has ended it
                return Ok(Begun::AtTheEnd);
            }
            Driver::Host(_) => Begun::Again,
            Driver::Over => return Ok(Begun::AtTheEnd),
        };
        let until = until.as_nanos().clamp(OVER, WITHOUT_LIMIT);
        self.host.set_until(until);
        // Relaxed: only a reason to read the clock.
        self.slow_reasons
            .fetch_and(!slow_reason::STINT_OVER, Ordering::Relaxed);
        Ok(begun)
    }

    /// The VM has ended; its host does not call any more.
    fn end_host(self: &Arc<Vm>) {
        let mut state = self.lock_state();
        let before = std::mem::replace(&mut state.driver, Driver::Over);
        if let Some(home) = state.carriers.first_mut() {
            *home = None;
        }
        self.host.note_between();
        drop(state);
        if before != Driver::Over {
            // Relaxed: as in `run_until`.
            self.host.due.store(u64::MAX, Ordering::Relaxed);
            self.monitor.remove(self);
            self.tell_of_end(|| {});
        }
    }

    /// Ends a VM that its host does not need any more, between two stints. No process of it runs
    /// again, and none unwinds. On any thread. Returns whether it has: otherwise a stint runs, the
    /// VM has no host, or it has ended already.
    pub fn end_between_stints(self: &Arc<Vm>) -> bool {
        let mut state = self.lock_state();
        let is_between = matches!(state.driver, Driver::Host(_)) && self.host.is_between();
        if !is_between || self.has_ended() {
            return false;
        }
        self.note_end();
        state.owner = None;
        state.wake_all();
        drop(state);
        self.end_host();
        true
    }

    /// The descriptor that a host's loop watches. It is readable (for poll, select, epoll) when
    /// [`Vm::run_until`] has something to do: after a kick, when a process's descriptor is ready,
    /// and on Linux at the next deadline. It may be readable without a reason. It is the VM's: do
    /// not read it, change it or close it. On any thread.
    pub fn descriptor(&self) -> RawFd {
        self.poller.fd()
    }

    /// Whether [`Vm::descriptor`] is readable at deadlines, too. Otherwise the host takes
    /// [`Vm::next_stint`] as a timeout. Known after the first stint.
    pub fn descriptor_has_deadlines(&self) -> bool {
        self.host.timer().is_some()
    }

    /// When [`Vm::run_until`] has something to do next: a past time for at once, `None` if only the
    /// descriptor can tell. As known at the end of the last stint, and of posts and requests since
    /// then. On any thread.
    pub fn next_stint(&self) -> Option<Instant> {
        if !self.inbox.is_empty() || self.signal_is_due() {
            return Some(Instant::from_nanos(0));
        }
        // Relaxed: as in `run_until`.
        let due = self.host.due.load(Ordering::Relaxed);
        (due != u64::MAX).then(|| Instant::from_nanos(due))
    }

    /// Reopens the timer in a fork's child, in the child's own poller.
    pub(in crate::vm) fn reopen_host_timer_after_fork(&self) -> io::Result<()> {
        let Some(timer) = self.host.timer() else {
            return Ok(());
        };
        // Relaxed: there is no other thread.
        self.host.set_to.store(u64::MAX, Ordering::Relaxed);
        timer.reopen_after_fork()?;
        self.poller.watch(timer.fd(), TIMER_TOKEN)
    }
}

impl Inner {
    /// Whether home's thread is not out in a call: it has the VM, or waits for it in its loop.
    fn home_is_free(&self) -> bool {
        self.carrier == HOME || self.sched.occupant(HOME).is_none()
    }
}

impl Vm {
    /// Whether the time that the host gave is used up, and the VM can go to home. The owner.
    #[inline]
    pub(in crate::vm) fn stint_is_over(&self, inner: &Inner) -> bool {
        let until = self.host.until();
        until < WITHOUT_LIMIT && self.has_used_up(inner, until)
    }

    #[cold]
    fn has_used_up(&self, inner: &Inner, until: u64) -> bool {
        let is_over = Instant::now().as_nanos() >= until && inner.home_is_free();
        if is_over && until > OVER {
            self.host.set_until(OVER);
        }
        is_over
    }

    /// As [`Vm::stint_is_over`], if the monitor has found that. For the slow path of a switch.
    #[inline]
    pub(in crate::vm) fn must_end_stint(&self, inner: &Inner) -> bool {
        self.slow_reasons() & slow_reason::STINT_OVER != 0 && self.ends_stint(inner)
    }

    #[cold]
    fn ends_stint(&self, inner: &Inner) -> bool {
        let is_over = self.stint_is_over(inner);
        if !is_over {
            // Relaxed: the monitor meant an earlier stint, or home is out in a call; then its
            // return is a reason by itself.
            self.slow_reasons
                .fetch_and(!slow_reason::STINT_OVER, Ordering::Relaxed);
        }
        is_over
    }

    /// Whether the host's thread waits for a VM with nothing to do, which another thread has.
    pub(in crate::vm) fn host_waits(&self, inner: &Inner) -> bool {
        inner.carrier != HOME && self.host.exists() && inner.home_is_free()
    }

    /// Adds what the stint needs to the hints: whether work waits, and the time of the next poll.
    #[inline(always)]
    pub(in crate::vm) fn hints_in_stint(
        &self,
        inner: &Inner,
        work_waits: bool,
        wanted: u64,
    ) -> (bool, u64) {
        match self.host.until() {
            NO_HOST => (work_waits, wanted),
            until => hints_with_host(inner, until, work_waits, wanted),
        }
    }

    /// Whether the monitor must not rest now until `deadline`, in nanoseconds, for the host's sake.
    pub(in crate::vm) fn stint_needs_watching(&self, deadline: u64) -> bool {
        match self.host.until() {
            NO_HOST | BETWEEN | OVER => false,
            // Relaxed: a hint.
            until => until < deadline || self.home_waits.load(Ordering::Relaxed),
        }
    }

    /// What the monitor sees of the host.
    pub(in crate::vm) fn see_host(&self, state: &mut LockState, owner: CarrierId) -> Host {
        let until = self.host.until();
        if matches!(until, NO_HOST | BETWEEN | OVER) {
            return Host::Absent;
        }
        let until = match until {
            WITHOUT_LIMIT => Instant::FAR_FUTURE,
            until => Instant::from_nanos(until),
        };
        let is_out = |state: &mut LockState| {
            let home = state.entry(HOME);
            home.is_none_or(|home| home.out.is_some())
        };
        match owner {
            HOME => Host::Runs(until),
            _ if is_out(state) => Host::Absent,
            _ => Host::Waits(until),
        }
    }
}

#[cold]
fn hints_with_host(inner: &Inner, until: u64, work_waits: bool, wanted: u64) -> (bool, u64) {
    if until <= OVER || !inner.home_is_free() {
        return (work_waits, wanted);
    }
    let until = if until == WITHOUT_LIMIT {
        u64::MAX
    } else {
        until
    };
    (work_waits || inner.carrier != HOME, wanted.min(until))
}

impl Inside<'_> {
    /// Whether the calling thread is home, in a stint.
    pub(in crate::vm) fn is_in_stint(&self) -> bool {
        self.host.exists() && self.with_inner(|inner| inner.carrier == HOME)
    }

    /// Changes when the present stint ends, and takes in what has happened. For a guest whose host
    /// is a process itself: it does this, and suspends itself, when the host gives a time to the
    /// others. Does nothing if there is no host.
    pub fn limit_stint(&self, until: Instant) {
        if !self.host.exists() {
            return;
        }
        let is_past = until <= Instant::now();
        let until = until.as_nanos().clamp(OVER, WITHOUT_LIMIT);
        self.host.set_until(until);
        // Relaxed (both): only a reason to read the clock.
        if is_past {
            self.slow_reasons
                .fetch_or(slow_reason::STINT_OVER, Ordering::Relaxed);
        } else {
            self.slow_reasons
                .fetch_and(!slow_reason::STINT_OVER, Ordering::Relaxed);
        }
        // Takes the kick of `announce_stint`, too.
        let _ = self.wait_in_poller(Some(Instant::from_nanos(0)));
        self.serve_requests();
        self.harvest();
        self.with_inner(|inner| self.update_hints(inner));
    }

    /// Makes the descriptor readable, and the next stint due at once, although a stint runs. For a
    /// host that is a process itself, and waits for the descriptor in the middle of the stint.
    pub fn announce_stint(&self) {
        self.kick_poller();
        // Relaxed: as in `run_until`.
        self.host.due.store(0, Ordering::Relaxed);
    }

    /// Takes in what has happened since the last stint.
    pub(super) fn begin_stint(&self) {
        if self.with_inner(|inner| std::mem::take(&mut inner.stints.is_between)) {
            self.trace_idle(false);
        }
        self.park.finish();
        let _ = self.wait_in_poller(Some(Instant::from_nanos(0)));
        self.serve_requests();
        self.harvest();
        // The process that was interrupted is still the current one.
        self.with_inner(|inner| {
            let Some(me) = inner.sched.current() else {
                return;
            };
            let gives_way = inner.sched.current_should_yield()
                && self.parameters.preemptive()
                && inner.sched.is_preemptible(me)
                && inner.sched.pinned(me).is_none();
            if gives_way {
                let _ = inner.sched.preempt_current(Preemption::MoreUrgent);
            }
        });
    }

    /// Nothing is runnable. Returns how the stint ends, or `None` if something has happened.
    pub(super) fn idle_in_stint(&self) -> Option<StintEnd> {
        let (deadline, dead, nobody_left) = self.with_inner(|inner| {
            self.update_hints(inner);
            let may_be_woken = inner.sched.foreign_count() > 0 || inner.has_wakers();
            let dead = inner.sched.all_blocked() && !may_be_woken;
            let nobody_left = inner.sched.live_count() == 0;
            (self.next_deadline(inner), dead, nobody_left)
        });
        if nobody_left {
            self.stop();
            return None;
        }
        let deadline = match dead.then(|| self.report_deadlock()) {
            None => deadline,
            Some(AfterReport::WaitUntil(later)) => later,
            Some(AfterReport::HasEnded) => return self.go_on(),
        };
        if !self.may_park() {
            return self.go_on();
        }
        self.counters.idle_waits.increment();
        self.cancel_wake_up(deadline);
        self.host.set_timer(deadline);
        self.note_pause();
        Some(StintEnd::Idle(deadline))
    }

    /// The stint goes on.
    fn go_on(&self) -> Option<StintEnd> {
        self.park.finish();
        self.serve_requests();
        None
    }

    /// The time is used up. A process is runnable.
    pub(super) fn end_stint_by_time(&self) -> StintEnd {
        let (Prepared::MaySleep | Prepared::AlreadyNotified) = self.park.hand_to_host();
        self.cancel_wake_up(None);
        // For the process, and for a message that is not taken yet.
        self.kick_poller();
        self.note_pause();
        StintEnd::TimeIsUp
    }

    fn note_pause(&self) {
        self.trace_idle(true);
        self.with_inner(|inner| inner.stints.is_between = true);
    }

    /// Whether a host's VM has reported its deadlock already, and nothing has happened since. Each
    /// stint would report it.
    pub(in crate::vm) fn has_reported_deadlock(&self) -> bool {
        self.is_in_stint()
            && self.with_inner(|inner| {
                let now = inner.sched.changes();
                inner.stints.reported_at.replace(now) == Some(now)
            })
    }
}
