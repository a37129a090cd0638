//! One poll of the monitor for one VM: heartbeat and watchdog.
//!
//! A poll costs the running process nothing. It reads the hints and the owner's gate:
//!
//! | gate | unchanged for | work waits | done |
//! |---|---|---|---|
//! | odd | a window (if that is zero: any time, once a tick), in which its thread has computed or waits | runnable, due or posted | the call is retaken |
//! | any | a slice, or 25 us less (in switches) | an equal process is runnable | a preempt request: `ATTENTION` |
//! | any | - | something due, posted, or more urgent; a descriptor that is ready | a preempt request |
//! | even | 50 us before a preempt request, or after it | the same | a signal to the thread |
//! | any | the parameter `beat`, if it is not zero | - | a preempt request |

use super::hints::SummaryBits;
use super::next_poll::{NextPoll, TICK};
use super::request::{PreemptRequest, REQUEST_TICK, Wanted};
use super::stall::{Cause, Stall, Unanswered, note_answers};
use super::watch::{LONGEST_TICK, PollState};
use crate::vm::lock::enter::Retake;
use crate::vm::{Vm, request, slow_reason};
use baton_sys::clock::Instant;
use baton_sys::signals::ThreadHandle;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// After a preempt request is unanswered for this long, the monitor asks the kernel about the
/// thread.
const SLOW_ANSWER: Duration = Duration::from_millis(10);

/// The longest time between two polls of a call whose thread does not get a processor.
const LONGEST_PATIENCE: Duration = Duration::from_micros(500);

/// After a retake the monitor polls every window for this long, as another retake is likely.
const HOT: Duration = Duration::from_millis(10);

/// The hints, read once.
#[derive(Debug, Clone, Copy)]
struct View {
    summary: SummaryBits,
    posted: bool,
    /// A process waits for a descriptor.
    watched: bool,
    due: bool,
    deadline: u64,
}

impl Vm {
    fn view(&self, now: Instant) -> View {
        // Relaxed (all): hints; see the monitor's rest for what orders them.
        let deadline = self.hints.deadline.load(Ordering::Relaxed);
        View {
            summary: self.hints.summary(),
            posted: !self.inbox.is_empty() || self.signal_is_due(),
            watched: self.descriptors.are_watched(),
            due: deadline <= now.as_nanos(),
            deadline,
        }
    }

    /// Whether the monitor must not rest now until `deadline`, in nanoseconds.
    pub(crate) fn needs_watching(&self, deadline: u64) -> bool {
        let view = self.view(Instant::now());
        !self.has_ended() && !self.park.is_waiting() && self.may_miss_something(view, deadline)
    }

    fn may_miss_something(&self, view: View, deadline: u64) -> bool {
        view.summary.has_runnable()
            || view.posted
            || view.deadline < deadline
            || (view.watched && !self.descriptors.are_armed())
    }

    /// Polls once. Returns when the next poll is due.
    pub(crate) fn poll(self: &Arc<Vm>, now: Instant) -> NextPoll {
        let next = self.poll_where_needed(now);
        let period = self.parameters.beat.get();
        if period.is_zero() || self.has_ended() {
            return next;
        }
        next.no_later_than(self.periodic_request(now, period))
    }

    /// Sends the periodic preempt request of the parameter `beat`. Returns when the next one is
    /// due.
    fn periodic_request(&self, now: Instant, period: Duration) -> Instant {
        let mut watch = self
            .watch
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let due = watch.last_periodic_request + period;
        if now < due {
            return due;
        }
        // The next one is a period after this one was due, unless that was missed by more than a
        // period.
        watch.last_periodic_request = if now < due + period { due } else { now };
        let next = watch.last_periodic_request + period;
        drop(watch);
        if !self.park.is_waiting() {
            self.counters.beats.increment();
            self.set_attention_of_owner();
        }
        next
    }

    fn poll_where_needed(self: &Arc<Vm>, now: Instant) -> NextPoll {
        // Relaxed: a coarse clock orders nothing.
        self.hints
            .coarse_now
            .store(now.as_nanos(), Ordering::Relaxed);
        let mut watch = self
            .watch
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if self.has_ended() || self.park.is_waiting() {
            watch.request = None;
            watch.note_pause();
            return NextPoll::Quiet(None);
        }
        let owner = {
            let mut state = self.lock_state();
            let owner = state.owner.filter(|_| state.owner_has_come);
            // The gate is read under the mutex: its thread may end as soon as it is no longer
            // listed.
            owner
                .and_then(|owner| state.entry(owner))
                .and_then(|entry| Some((entry.gate?.value(), entry.thread?)))
        };
        let Some((value, thread)) = owner else {
            return NextPoll::At(now + REQUEST_TICK);
        };
        self.poll_owner(&mut watch, now, value, thread)
    }

    fn poll_owner(
        self: &Arc<Vm>,
        watch: &mut PollState,
        now: Instant,
        value: u64,
        thread: ThreadHandle,
    ) -> NextPoll {
        let mut view = self.view(now);
        watch.note_owner(thread, value, now);
        let run = self.hints.run_number();
        watch.note(value, run, self.hints.run_began(run), now);
        watch.note_waits(self.counters.idle_waits.get(), now);
        watch.end_pause(now);
        let window = self.parameters.window.get();
        view.posted |= view.watched && self.owner_misses_news(watch);
        if !(view.summary.has_runnable() || view.posted || view.due) {
            watch.request = None;
            watch.note_pause();
            let deadline = Some(view.deadline).filter(|&deadline| deadline != u64::MAX);
            let due = deadline.map(|deadline| watch.poll_for_deadline(now, deadline, window));
            return if view.watched && !self.hears_of_news(watch, now) {
                NextPoll::At(due.map_or(now + TICK, |due| due.min(now + TICK)))
            } else {
                NextPoll::Quiet(due)
            };
        }
        // The tick may be longer only if nothing else needs it. Ready descriptors are found by
        // polls. With no equal runnable, the end of the slice is not known, and an equal may come.
        let knows_the_end = view.summary.has_rivals() || !self.parameters.preemptive();
        let polls_for_calls_alone = !view.watched && knows_the_end && !window.is_zero();
        let tick = if polls_for_calls_alone {
            watch.tick(now)
        } else {
            TICK
        };
        let mut next = now + tick;
        if value & 1 == 1 {
            next = next.min(self.watch_call(watch, now, value, window, thread));
        }
        next = next.min(self.request_preemption(watch, now, value, view, thread));
        self.watch_stall(watch, now, value, thread);
        if view.deadline > now.as_nanos() && view.deadline != u64::MAX {
            next = next.min(watch.poll_for_deadline(now, view.deadline, window));
        }
        NextPoll::At(next)
    }

    /// Whether descriptors with waiting processes are ready, and the owner has neither been idle
    /// nor polled since the last poll of the monitor.
    fn owner_misses_news(&self, watch: &mut PollState) -> bool {
        let asked = self.descriptors.harvests();
        let has_asked = std::mem::replace(&mut watch.asked, asked) != asked;
        (self.descriptors.take_notified() || !has_asked) && self.poller.has_news()
    }

    /// Whether the poller itself will wake the monitor when a descriptor is ready, while a process
    /// runs and others wait for descriptors. While processes switch often, the monitor polls once a
    /// tick instead, as nearly every tick would find something.
    fn hears_of_news(&self, watch: &PollState, now: Instant) -> bool {
        if self.descriptors.are_armed() {
            return true;
        }
        let stands = now.saturating_duration_since(watch.slice_since) >= TICK;
        if stands && self.monitor.listen_to(&self.poller) {
            self.descriptors.note_armed(true);
        }
        self.descriptors.are_armed()
    }

    /// Notes that a poller has events. Returns whether it is this VM's.
    pub(crate) fn note_news(&self, poller: u64) -> bool {
        let is_ours = u64::try_from(self.poller.fd()) == Ok(poller);
        if is_ours {
            self.descriptors.note_notified();
        }
        is_ours
    }

    /// The watchdog: retakes a foreign call that lasts while others are runnable. Returns the next
    /// poll.
    fn watch_call(
        self: &Arc<Vm>,
        watch: &mut PollState,
        now: Instant,
        value: u64,
        window: Duration,
        thread: ThreadHandle,
    ) -> Instant {
        let age = now.saturating_duration_since(watch.gate_since);
        if watch.exclusive == value {
            return now + TICK;
        }
        if age < window {
            if age.is_zero() {
                watch.gate_cpu = thread.cpu_time();
            }
            return watch.gate_since + window;
        }
        if !window.is_zero() && watch.is_kept_from_running(thread, window) {
            return now + while_kept_from_running(age, window);
        }
        // Without a window there is no age to wait for. Polls for other reasons would retake calls
        // as well.
        if window.is_zero() && now < watch.retaken_at + TICK {
            return watch.retaken_at + TICK;
        }
        match self.retake(value, false) {
            Retake::Done => {
                watch.retaken_at = now;
                watch.hot_until = now + HOT;
            }
            Retake::Exclusive => {
                watch.exclusive = value;
                if !matches!(
                    watch.stall,
                    Some(Stall {
                        cause: Cause::Call(_),
                        ..
                    })
                ) {
                    watch.stall = Some(Stall::new(now, Cause::Call(value), thread));
                }
            }
            Retake::Ended | Retake::NoThread => {}
        }
        if now < watch.hot_until && !window.is_zero() {
            now + window.max(REQUEST_TICK)
        } else {
            now + TICK
        }
    }

    /// Warns, once, of a function that keeps all other processes waiting. If the gate moves all the
    /// time, as the function uses the guest's API, the owner itself warns at its next enter.
    fn watch_stall(
        self: &Arc<Vm>,
        watch: &mut PollState,
        now: Instant,
        value: u64,
        thread: ThreadHandle,
    ) {
        if matches!(watch.stall, Some(Stall { cause: Cause::Call(call), .. }) if call != value) {
            watch.stall = None;
        }
        let patience = self.parameters.warn_blocked.get();
        let Some(stall) = &mut watch.stall else {
            return;
        };
        stall.note(now, value);
        if !stall.is_due(now, thread, patience) {
            return;
        }
        stall.warned = match stall.cause {
            Cause::Unresponsive(_) => {
                self.have_owner_warn();
                true
            }
            Cause::Call(_) => self.retake(value, true) == Retake::Exclusive,
        };
    }

    /// The heartbeat: requests that the running process gives way, by a flag, and by a signal if it
    /// does not notice the flag.
    fn request_preemption(
        &self,
        watch: &mut PollState,
        now: Instant,
        value: u64,
        view: View,
        thread: ThreadHandle,
    ) -> Instant {
        let slice = self.hinted_slice();
        // Relaxed: a hint; the safepoint uses the exact accounts.
        let used = self.hints.slice_used.load(Ordering::Relaxed);
        let slice_ends = watch.slice_since + left_of(slice, used);
        // Relaxed: a hint; the safepoint asks the scheduler itself.
        let preemptive = self.parameters.preemptive() && view.summary.is_preemptible();
        let has_rivals = preemptive && view.summary.has_rivals();
        let slice_over = has_rivals && now + early(slice) >= slice_ends;
        let deadline = Instant::from_nanos(view.deadline);
        let unanswered = Unanswered {
            slice: Some(slice_ends).filter(|&ends| slice_over && now >= ends + SLOW_ANSWER),
            deadline: Some(deadline).filter(|&deadline| view.due && now >= deadline + SLOW_ANSWER),
        };
        note_answers(&mut watch.stall, now, unanswered, thread);
        let may_ask = watch.pace.may_ask(view.deadline);
        let due = view.due && now >= may_ask;
        let wanted = Wanted {
            slice_over,
            posted: view.posted,
            outranked: preemptive && view.summary.is_outranked(),
            deadline: if due { view.deadline } else { 0 },
        };
        let mut next = now + LONGEST_TICK;
        if has_rivals && !slice_over {
            next = slice_ends;
        }
        if view.due && !due {
            next = next.min(may_ask);
        }
        let is_unanswered = !wanted.is_nothing()
            && watch
                .request
                .as_ref()
                .is_some_and(|request| request.gate == value);
        watch.note_flag(is_unanswered);
        if wanted.is_nothing() {
            watch.request = None;
            return next;
        }
        if due {
            watch.pace.note_asked(view.deadline, now);
            let asks_from = watch.pace.asks_from().map_or(0, Instant::as_nanos);
            // Relaxed: a hint. An owner that reads an old value wakes the monitor needlessly, or is
            // polled a little later.
            self.hints
                .deadlines_from
                .store(asks_from, Ordering::Relaxed);
        }
        if slice_over {
            // Release: pairs with the swap in `safepoint`.
            self.requests.fetch_or(request::SLICE, Ordering::Release);
        }
        match &mut watch.request {
            Some(request) if request.gate == value && value & 1 == 1 => next,
            Some(request) if request.asks_for(value, wanted) => {
                request.wanted = wanted;
                if now >= request.signal_at {
                    self.signal(thread);
                    watch.hears_signals = request.signals() == 0;
                    (watch.flag_is_out, watch.heeds_flags) = (false, false);
                    request.note_signal(now, thread.cpu_time());
                }
                next.min(request.signal_at)
            }
            _ => {
                let mut request =
                    PreemptRequest::new(value, wanted, now + watch.time_for_flag(wanted));
                self.make_request(watch, &mut request, now, slice, thread);
                next.min(watch.request.insert(request).signal_at)
            }
        }
    }

    /// Makes a new request: sets the attention flag, and sends a signal if the process would not
    /// notice the flag.
    fn make_request(
        &self,
        watch: &mut PollState,
        request: &mut PreemptRequest,
        now: Instant,
        slice: Duration,
        thread: ThreadHandle,
    ) {
        self.counters.beats.increment();
        self.set_attention_of_owner();
        if request.gate & 1 == 1 || !watch.takes_a_signal(now) {
            request.note_flag(thread.cpu_time());
            watch.flag_is_out = true;
            return;
        }
        self.signal(thread);
        // The next slice may be a shorter one. And about one signal in a hundred is not answered:
        // then a process that a deadline wakes, or a more urgent one, waits for this poll.
        let slices_differ = self.slow_reasons() & (slow_reason::SLICED | slow_reason::DEFICIT) != 0;
        let can_wait = request.wanted.is_a_slice_alone() && !slices_differ;
        if std::mem::replace(&mut watch.hears_signals, true) && can_wait {
            request.note_first_signal(now, slice.clamp(REQUEST_TICK, TICK));
        } else {
            request.note_signal(now, thread.cpu_time());
        }
    }

    fn signal(&self, thread: ThreadHandle) {
        self.counters.signals.increment();
        let _ = thread.interrupt();
    }

    fn set_attention_of_owner(&self) {
        let mut state = self.lock_state();
        let owner = state.owner;
        if let Some(gate) = owner
            .and_then(|owner| state.entry(owner))
            .and_then(|entry| entry.gate)
        {
            gate.set_attention();
        }
    }
}

/// When to poll again a call of this age whose thread does not get a processor.
fn while_kept_from_running(age: Duration, window: Duration) -> Duration {
    age.min(LONGEST_PATIENCE).max(window)
}

/// How much earlier a slice may end, to save one more poll. That time is added to the next slice.
fn early(slice: Duration) -> Duration {
    (slice / 40).min(Duration::from_micros(25))
}

/// What is left of a slice of which `used` nanoseconds are used (negative: credit).
fn left_of(slice: Duration, used: i64) -> Duration {
    let amount = Duration::from_nanos(used.unsigned_abs());
    if used < 0 {
        slice + amount
    } else {
        slice.saturating_sub(amount)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn used_time_shortens_a_slice_and_credit_lengthens_it() {
        let slice = Duration::from_millis(10);
        for (used, left) in [
            (0, 10_000),
            (3_000_000, 7_000),
            (-50_000, 10_050),
            (20_000_000, 0),
        ] {
            assert_eq!(left_of(slice, used), Duration::from_micros(left));
        }
    }

    #[test]
    fn a_call_without_a_processor_is_polled_more_and_more_rarely() {
        for (age, window, next) in [
            (100, 100, 100),
            (300, 100, 300),
            (50_000, 100, 500),
            (5_000, 5_000, 5_000),
        ] {
            let [age, window, next] = [age, window, next].map(Duration::from_micros);
            assert_eq!(while_kept_from_running(age, window), next);
        }
    }

    #[test]
    fn a_slice_is_ended_a_little_early_at_most() {
        let [micro, milli, ten, hundred] = [1, 1_000, 10_000, 100_000].map(Duration::from_micros);
        assert_eq!(
            [micro, milli, ten, hundred]
                .map(early)
                .map(|time| time.as_nanos()),
            [25, 25_000, 25_000, 25_000]
        );
    }
}
