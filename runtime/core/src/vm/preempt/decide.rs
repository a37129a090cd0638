//! What a poll decides for one VM: a pure function of what the monitor remembers
//! ([`PollState`]) and of what it sees ([`PollEvent`]). `poll.rs` reads the one and carries out the
//! other.
//!
//! | gate | unchanged for | work waits | decided |
//! |---|---|---|---|
//! | odd | a window (if that is zero: any time, once a tick), in which its thread has computed or waits | runnable, due or posted | the call is retaken |
//! | any | a slice, or 25 us less (in switches) | an equal process is runnable | a preempt request |
//! | any | - | something due, posted, or more urgent; a descriptor that is ready | a preempt request |
//! | any | the parameter `beat`, if it is not zero | - | the attention flag |
//!
//! | any | - | the time is used up that a host gave (`vm/lock/stint.rs`) | a preempt request, and the end of the fast path |
//! | odd | a window, as above | home waits, and another thread has the VM | the call is retaken |
//!
//! A preempt request sets the attention flag. A process that passes the gate, switches or waits
//! notices the flag. One that has done nothing but compute for 50 us gets a signal, too. If it then
//! computes for 0.1 s more, the monitor looks why.

use super::hints::SummaryBits;
use super::next_poll::{NextPoll, TICK};
use super::request::{Pace, PreemptRequest, REQUEST_TICK, Unheard, Wanted};
use super::stall::{Cause, Stall, Unanswered};
use super::wake_up::before_deadline;
use baton_sys::clock::Instant;
use std::time::Duration;

/// The longest time between two polls of a process that computes while others wait.
pub(super) const LONGEST_TICK: Duration = Duration::from_millis(8);

/// The longest time between two polls of a call whose thread does not get a processor.
const LONGEST_PATIENCE: Duration = Duration::from_micros(500);

/// After a retake the monitor polls every window for this long, as another retake is likely.
const HOT: Duration = Duration::from_millis(10);

/// The parameters that a decision reads.
#[derive(Debug, Clone, Copy)]
pub(super) struct PollSettings {
    pub(super) preemptive: bool,
    pub(super) window: Duration,
    pub(super) beat: Duration,
    pub(super) warn_blocked: Duration,
}

/// What the monitor sees of the VM's owner.
pub(super) enum PollEvent<'a> {
    /// It waits.
    Waits,
    /// It was given the VM, and has not come yet.
    Comes,
    /// It runs a process.
    Runs(Seen<'a>),
}

/// The stint of a host's loop, if one runs (`vm/lock/stint.rs`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::vm) enum Host {
    /// There is no host, or home is out in a call, so that the host cannot come back now.
    Absent,
    /// The host's thread has the VM, until this time.
    Runs(Instant),
    /// Another thread has the VM. The host's thread waits for it, at most until this time.
    Waits(Instant),
}

impl Host {
    /// When the stint's time is used up.
    fn until(self) -> Option<Instant> {
        match self {
            Host::Absent => None,
            Host::Runs(until) | Host::Waits(until) => Some(until),
        }
    }

    fn waits(self) -> bool {
        matches!(self, Host::Waits(_))
    }
}

/// The owner, its hints and its gate, read once.
#[derive(Clone, Copy)]
pub(super) struct Seen<'a> {
    /// The number of the owner's thread. Another thread's gate may have the same values.
    pub(super) thread: i32,
    pub(super) gate: u64,
    /// Its processor time; `None` if the system does not report it.
    pub(super) cpu: Option<Duration>,
    /// Whether the thread waits for something. Asked only where it matters, as it takes the kernel
    /// some microseconds.
    pub(super) is_waiting: &'a dyn Fn() -> Option<bool>,
    /// The run, and when it began, if that is known exactly.
    pub(super) run: u64,
    pub(super) run_began: Option<Instant>,
    /// How often the owner has waited.
    pub(super) idle_waits: u64,
    pub(super) slice: Duration,
    /// How much of it the process had used when it was continued, in nanoseconds; negative: credit.
    pub(super) slice_used: i64,
    /// The next slice may be a shorter one.
    pub(super) slices_differ: bool,
    pub(super) summary: SummaryBits,
    /// Something is posted, or a descriptor is ready.
    pub(super) posted: bool,
    /// A process waits for a descriptor.
    pub(super) watched: bool,
    /// The poller itself will wake the monitor.
    pub(super) armed: bool,
    /// The earliest deadline.
    pub(super) deadline: Option<Instant>,
    pub(super) host: Host,
}

impl Seen<'_> {
    fn is_in_call(&self) -> bool {
        self.gate & 1 == 1
    }
}

/// What the monitor shall do, in this order. All but `next` is for an owner that runs.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Actions {
    /// Retake the foreign call. If that works, nothing else is to be done.
    pub(super) retake: bool,
    /// Tell the owner from when on the next deadline may be requested.
    pub(super) set_deadlines_from: Option<Instant>,
    /// Say that the slice is over.
    pub(super) end_slice: bool,
    /// Say that the time of the stint is used up.
    pub(super) end_stint: bool,
    pub(super) set_attention: bool,
    pub(super) signal: bool,
    /// Look why the process does not answer signals.
    pub(super) look_why: bool,
    pub(super) warn: Option<Cause>,
    /// Have the poller wake the monitor. If that does not work, poll a tick later.
    pub(super) listen: bool,
    pub(super) next: NextPoll,
}

impl Actions {
    fn only(next: NextPoll) -> Actions {
        Actions {
            next,
            ..Actions::default()
        }
    }
}

/// What to do about a foreign call.
enum Call {
    Retake,
    PollAt(Instant),
}

/// The monitor's memory of one VM. Guarded by its mutex, which only the monitor locks.
#[derive(Debug, Default)]
pub(in crate::vm) struct PollState {
    /// The owner's thread at the last poll.
    thread: i32,
    /// The gate's value, since when it has had that value, and the thread's processor time then.
    gate: u64,
    gate_since: Instant,
    gate_cpu: Option<Duration>,
    /// The thread's processor time when it was last seen waiting.
    waited_at: Option<Duration>,
    /// The gate value of an exclusive call.
    exclusive: u64,
    /// The run, and since when: the running process's slice.
    run: u64,
    slice_since: Instant,
    idle_waits: u64,
    /// The last time that the gate moved, the owner waited, or a run ended other than by the end of
    /// its slice. Since then the processes have only computed.
    computes_since: Instant,
    /// The unanswered request.
    request: Option<PreemptRequest>,
    /// The signals since the gate moved, a run began, or nothing was wanted.
    unheard: Option<Unheard>,
    pace: Pace,
    stall: Option<Stall>,
    retaken_at: Instant,
    /// When the last periodic preempt request was due.
    last_periodic: Instant,
    /// How often the owner had polled its poller. `poll.rs` uses it.
    pub(super) harvests: u64,
}

impl PollState {
    /// Decides what to do at `now`.
    pub(super) fn decide(
        &mut self,
        now: Instant,
        set: PollSettings,
        event: &PollEvent<'_>,
    ) -> Actions {
        let actions = match event {
            PollEvent::Waits => self.be_quiet(NextPoll::Quiet(None)),
            PollEvent::Comes => Actions::only(NextPoll::At(now + REQUEST_TICK)),
            PollEvent::Runs(seen) => self.decide_running(now, set, seen),
        };
        if set.beat.is_zero() {
            return actions;
        }
        let (is_due, next) = self.periodic_request(now, set.beat);
        Actions {
            set_attention: actions.set_attention || is_due,
            next: actions.next.no_later_than(next),
            ..actions
        }
    }

    /// Notes that the call was retaken. Returns when to poll next.
    pub(super) fn note_retaken(&mut self, now: Instant, window: Duration) -> Instant {
        self.retaken_at = now;
        self.after_retake(now, window)
    }

    /// Notes that the call with this gate value is exclusive.
    pub(super) fn note_exclusive(&mut self, gate: u64) {
        self.exclusive = gate;
    }

    /// Notes that the warning of the present stall was given.
    pub(super) fn note_warned(&mut self) {
        if let Some(stall) = &mut self.stall {
            stall.warned = true;
        }
    }

    /// Whether the periodic request is due, and when the next one is. That is a period after this
    /// one was due, unless that was missed by more than a period.
    fn periodic_request(&mut self, now: Instant, period: Duration) -> (bool, Instant) {
        let due = self.last_periodic + period;
        if now < due {
            return (false, due);
        }
        self.last_periodic = if now < due + period { due } else { now };
        (true, self.last_periodic + period)
    }

    fn be_quiet(&mut self, next: NextPoll) -> Actions {
        self.request = None;
        self.unheard = None;
        self.stall = None;
        Actions::only(next)
    }

    fn decide_running(&mut self, now: Instant, set: PollSettings, seen: &Seen<'_>) -> Actions {
        self.note(now, seen);
        let due = seen.deadline.filter(|&deadline| deadline <= now);
        let until = seen.host.until();
        let stint_over = until.is_some_and(|until| until <= now);
        let keeps_home = seen.is_in_call() && seen.host.waits();
        let work = seen.summary.has_runnable() || seen.posted || due.is_some() || keeps_home;
        if !(work || stint_over) {
            return self.decide_quiet(now, set, seen);
        }
        let mut actions = Actions::only(NextPoll::At(now + self.tick(now, set, seen)));
        actions.end_stint = stint_over;
        if let Some(until) = until.filter(|_| !stint_over) {
            actions.next = actions.next.no_later_than(until);
        }
        // A call that outlasts the stint keeps nobody waiting but the host, whose thread it is on.
        if seen.is_in_call() && work {
            let at = match self.watch_call(now, set.window, seen) {
                Call::PollAt(at) => at,
                Call::Retake => {
                    actions.retake = true;
                    self.after_retake(now, set.window)
                }
            };
            actions.next = actions.next.no_later_than(at);
        }
        let slice_over = self.request_preemption(now, set, seen, due, &mut actions);
        actions.look_why = self.goes_unheard(now, seen, actions.signal);
        actions.warn = self.watch_stall(now, set, seen, Unanswered { slice_over, due });
        if let Some(deadline) = seen.deadline.filter(|_| due.is_none()) {
            let at = self.poll_for_deadline(now, deadline, set.window, seen);
            actions.next = actions.next.no_later_than(at);
        }
        actions
    }

    /// Nothing waits for the running process. Only deadlines and descriptors may come.
    fn decide_quiet(&mut self, now: Instant, set: PollSettings, seen: &Seen<'_>) -> Actions {
        let due = seen
            .deadline
            .map(|deadline| self.poll_for_deadline(now, deadline, set.window, seen));
        let due = [due, seen.host.until()].into_iter().flatten().min();
        if seen.host.waits() {
            // A call that begins now would keep the host waiting.
            let tick = now + TICK;
            return self.be_quiet(NextPoll::At(due.map_or(tick, |due| due.min(tick))));
        }
        if !seen.watched || seen.armed {
            return self.be_quiet(NextPoll::Quiet(due));
        }
        // While processes switch often, nearly every tick would find an event of the poller.
        let runs_for = now.saturating_duration_since(self.slice_since);
        if runs_for < TICK {
            let tick = now + TICK;
            return self.be_quiet(NextPoll::At(due.map_or(tick, |due| due.min(tick))));
        }
        Actions {
            listen: true,
            ..self.be_quiet(NextPoll::Quiet(due))
        }
    }

    /// Remembers what is seen.
    fn note(&mut self, now: Instant, seen: &Seen<'_>) {
        let is_new_owner = std::mem::replace(&mut self.thread, seen.thread) != seen.thread;
        if is_new_owner {
            self.exclusive = 0;
            self.waited_at = None;
            self.stall = None;
            self.request = None;
        }
        let has_moved = std::mem::replace(&mut self.gate, seen.gate) != seen.gate || is_new_owner;
        if has_moved {
            self.unheard = None;
            self.gate_since = now;
            self.gate_cpu = seen.cpu;
        }
        let has_waited =
            std::mem::replace(&mut self.idle_waits, seen.idle_waits) != seen.idle_waits;
        let before = std::mem::replace(&mut self.run, seen.run);
        let is_new_run = before != seen.run;
        let gave_way =
            is_new_run && (seen.run_began.is_none() || seen.run != before.wrapping_add(1));
        if has_moved || seen.is_in_call() || has_waited || gave_way {
            self.computes_since = now;
        }
        if is_new_run {
            self.slice_since = seen.run_began.unwrap_or(now);
            self.stall = None;
            self.request = None;
            self.unheard = None;
        }
    }

    /// How long the next poll may wait, if nothing else needs an earlier one. It may be long if it
    /// serves to find foreign calls alone: a quarter of the time for which there was none.
    fn tick(&self, now: Instant, set: PollSettings, seen: &Seen<'_>) -> Duration {
        // Ready descriptors are found by polls. With no equal runnable, one may come, and then the
        // end of the slice must be known.
        let knows_the_end = seen.summary.has_rivals() || !set.preemptive;
        if seen.watched || !knows_the_end || set.window.is_zero() {
            return TICK;
        }
        (now.saturating_duration_since(self.computes_since) / 4).clamp(TICK, LONGEST_TICK)
    }

    /// The watchdog: whether to retake a foreign call that lasts while others could run.
    fn watch_call(&mut self, now: Instant, window: Duration, seen: &Seen<'_>) -> Call {
        if self.exclusive == seen.gate {
            return Call::PollAt(now + TICK);
        }
        let age = now.saturating_duration_since(self.gate_since);
        if age < window {
            return Call::PollAt(self.gate_since + window);
        }
        // Without a window there is no age to wait for. Polls for other reasons would retake calls
        // as well.
        if window.is_zero() && now < self.retaken_at + TICK {
            return Call::PollAt(self.retaken_at + TICK);
        }
        if !window.is_zero() && self.is_kept_from_running(window, seen) {
            return Call::PollAt(now + age.min(LONGEST_PATIENCE).max(window));
        }
        Call::Retake
    }

    /// Whether the call is only old because its thread did not get a processor. Another thread
    /// would have to wait for one, too. See docs/adr/0016.
    fn is_kept_from_running(&mut self, window: Duration, seen: &Seen<'_>) -> bool {
        let (Some(before), Some(cpu)) = (self.gate_cpu, seen.cpu) else {
            return false;
        };
        cpu.saturating_sub(before) < window && !self.waits(seen)
    }

    /// Whether the thread waits, or the system does not say. A thread that was seen waiting and has
    /// not run since still waits.
    fn waits(&mut self, seen: &Seen<'_>) -> bool {
        if seen.cpu.is_some() && seen.cpu == self.waited_at {
            return true;
        }
        let waits = (seen.is_waiting)() != Some(false);
        self.waited_at = seen.cpu.filter(|_| waits);
        waits
    }

    fn after_retake(&self, now: Instant, window: Duration) -> Instant {
        if now < self.retaken_at + HOT && !window.is_zero() {
            now + window.max(REQUEST_TICK)
        } else {
            now + TICK
        }
    }

    /// The heartbeat: requests that the running process gives way. Returns whether its slice is
    /// over.
    fn request_preemption(
        &mut self,
        now: Instant,
        set: PollSettings,
        seen: &Seen<'_>,
        due: Option<Instant>,
        actions: &mut Actions,
    ) -> bool {
        let preemptive = set.preemptive && seen.summary.is_preemptible();
        let has_rivals = preemptive && seen.summary.has_rivals();
        let slice_ends = self.slice_since + left_of(seen.slice, seen.slice_used);
        let slice_over = has_rivals && now + early(seen.slice) >= slice_ends;
        if has_rivals && !slice_over {
            actions.next = actions.next.no_later_than(slice_ends);
        }
        actions.end_slice = slice_over;
        let may_ask = due.map(|deadline| self.pace.may_ask(deadline));
        let deadline = due.filter(|_| may_ask.is_some_and(|at| now >= at));
        match (deadline, may_ask) {
            (Some(deadline), _) => {
                self.pace.note_asked(deadline, now);
                actions.set_deadlines_from = Some(self.pace.asks_from());
            }
            (None, Some(at)) => actions.next = actions.next.no_later_than(at),
            (None, None) => {}
        }
        let wanted = Wanted {
            slice_over,
            posted: seen.posted,
            outranked: preemptive && seen.summary.is_outranked(),
            stint_over: preemptive && actions.end_stint,
            deadline,
        };
        if let Some(check) = self.request(now, seen, wanted, actions) {
            actions.next = actions.next.no_later_than(check);
        }
        slice_over
    }

    /// Makes a request for what is wanted, or repeats it. Returns when to see whether it was
    /// answered.
    fn request(
        &mut self,
        now: Instant,
        seen: &Seen<'_>,
        wanted: Wanted,
        actions: &mut Actions,
    ) -> Option<Instant> {
        if wanted.is_nothing() {
            self.request = None;
            return None;
        }
        let before = self.request.as_mut().filter(|it| it.gate == seen.gate);
        if before.is_some() && seen.is_in_call() {
            return None; // its end notices the flag
        }
        if let Some(request) = before.filter(|it| !wanted.adds_to(it.wanted)) {
            request.wanted = wanted;
            if now >= request.check_at {
                actions.signal = true;
                request.check_again(now, seen.cpu);
            }
            return Some(request.check_at);
        }
        actions.set_attention = true;
        let only_computes = now >= self.computes_since + REQUEST_TICK;
        actions.signal = only_computes && !seen.is_in_call();
        let time = if !actions.signal {
            // With many deadlines, the next one may be requested that much later.
            let is_deadline_alone = wanted.is_a_deadline_alone();
            if is_deadline_alone {
                self.pace.gap()
            } else {
                REQUEST_TICK
            }
        } else if wanted.is_a_slice_alone() && !seen.slices_differ {
            // About one signal in a hundred is not answered. That slice is then a little longer.
            seen.slice.clamp(REQUEST_TICK, TICK)
        } else {
            PreemptRequest::GAP
        };
        self.request = Some(PreemptRequest {
            gate: seen.gate,
            wanted,
            check_at: now + time,
            cpu: seen.cpu,
        });
        (!seen.is_in_call()).then_some(now + time)
    }

    /// Whether it is time to look why the process does not answer. `signals`: it gets a signal now.
    fn goes_unheard(&mut self, now: Instant, seen: &Seen<'_>, signals: bool) -> bool {
        if self.request.is_none() {
            self.unheard = None;
        } else if signals && self.unheard.is_none() {
            self.unheard = Some(Unheard::begin(now, seen.cpu));
        }
        let unheard = self.unheard.as_mut();
        unheard.is_some_and(|unheard| unheard.must_look(now, seen.cpu))
    }

    /// Warns, once, of a function that keeps all other processes waiting.
    fn watch_stall(
        &mut self,
        now: Instant,
        set: PollSettings,
        seen: &Seen<'_>,
        unanswered: Unanswered,
    ) -> Option<Cause> {
        let cause = if !seen.is_in_call() || now < self.gate_since + TICK {
            unanswered.cause()
        } else {
            None // a call that will be retaken as soon as a thread is free
        };
        let is_exclusive = seen.is_in_call() && self.exclusive == seen.gate;
        let cause = if is_exclusive {
            Some(Cause::Call(seen.gate))
        } else {
            cause
        };
        Stall::update(&mut self.stall, cause, now, seen.cpu);
        let stall = self.stall.as_ref()?;
        let is_due = stall.is_due(now, set.warn_blocked, seen.cpu, seen.is_waiting);
        is_due.then_some(stall.cause)
    }

    /// When to poll for a future deadline. In a foreign call the pace does not apply, as the call
    /// was not asked for anything. Right before the deadline it asks whether the call waits, so
    /// that the poll at the deadline need not.
    fn poll_for_deadline(
        &mut self,
        now: Instant,
        deadline: Instant,
        window: Duration,
        seen: &Seen<'_>,
    ) -> Instant {
        let at = before_deadline(now, deadline.as_nanos(), window);
        if !seen.is_in_call() {
            return at.max(self.pace.may_ask(deadline));
        }
        if at == deadline && !window.is_zero() && self.exclusive != seen.gate {
            let _ = self.waits(seen);
        }
        at
    }
}

/// How much earlier a slice may end, to save one more poll. That time is added to the next slice.
pub(super) fn early(slice: Duration) -> Duration {
    (slice / 40).min(Duration::from_micros(25))
}

/// What is left of a slice of which `used` nanoseconds are used (negative: credit).
pub(super) fn left_of(slice: Duration, used: i64) -> Duration {
    let amount = Duration::from_nanos(used.unsigned_abs());
    if used < 0 {
        slice + amount
    } else {
        slice.saturating_sub(amount)
    }
}
