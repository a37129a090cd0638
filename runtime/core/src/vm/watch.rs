//! What the monitor does for one VM: heartbeat and watchdog.
//!
//! A look costs the running process nothing. It reads what the owner published and the owner's gate:
//!
//! | gate | unchanged for | work waits | done |
//! |---|---|---|---|
//! | odd | a window (if that is zero: any time, once a tick), in which its thread has computed or waits | runnable, due or posted | the call is retaken |
//! | any | a slice, or 25 us less (in switches) | an equal one is runnable | a beat: `ATTENTION` |
//! | any | - | something due, posted, or more urgent; a descriptor that is ready | a beat |
//! | even | 50 us before a beat, or after it | the same | a signal to the thread |
//! | any | the parameter `beat`, if it is not zero | - | a beat |

use super::beat::{BEAT_TICK, Beat, Pace, Wanted};
use super::calling::before_deadline;
use super::lock::Retake;
use super::publishing::Standing;
use super::standstill::{Cause, Standstill, Unanswered, note_answers};
use super::{Vm, exception, request};
use crate::monitor::{NextLook, TICK};
use baton_sys::clock::Instant;
use baton_sys::signals::ThreadHandle;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// A beat that was not answered for so long is worth asking the kernel about the thread.
const SLOW_ANSWER: Duration = Duration::from_millis(10);

/// The longest time between two looks at a process that computes while others wait.
const LONGEST_TICK: Duration = Duration::from_millis(8);

/// The longest time between two looks at a call whose thread is not let run.
const LONGEST_PATIENCE: Duration = Duration::from_micros(500);

/// After a retake the monitor looks every window for this long: another one is likely.
const HOT: Duration = Duration::from_millis(10);

/// The monitor's memory about one VM; guarded by its mutex, which only the monitor takes.
#[derive(Debug)]
pub(super) struct Watch {
    /// The owner's thread at the last look. Another thread's gate may show the same values.
    owner: Option<ThreadHandle>,
    /// Last gate value seen, and since when it has stood.
    gate: u64,
    gate_since: Instant,
    /// What its thread had used of a processor by then.
    gate_cpu: Option<Duration>,
    /// How often the owner had asked its poller.
    asked: u64,
    /// Gate value of a call that the guest judged exclusive.
    exclusive: u64,
    /// Since when the others wait for the running process without an answer: an exclusive call, or one that keeps coming back into the VM.
    standstill: Option<Standstill>,
    /// The turn seen, and since when it has been: the running process's slice.
    turn: u64,
    slice_since: Instant,
    /// How often the owner had waited.
    waits: u64,
    /// Since when neither the gate was passed, nor the owner waited, nor a turn ended but at the end of a slice.
    stands_since: Instant,
    /// When a foreign call was last seen, or a turn that had ended otherwise: since then, as far as is known, nobody does anything but compute.
    computes_since: Instant,
    rivals: Rivals,
    /// The unanswered beat.
    beat: Option<Beat>,
    /// The owner has answered the last signal that was the first, and the last flag.
    hears_signals: bool,
    heeds_flags: bool,
    /// A flag is set of which it is not known whether it is heeded.
    flag_is_out: bool,
    /// Nobody has looked for a while.
    has_paused: bool,
    pace: Pace,
    hot_until: Instant,
    retaken_at: Instant,
    /// When the last beat of the fixed period was due.
    last_fixed_beat: Instant,
}

/// What the owner has published, read once.
#[derive(Debug, Clone, Copy)]
struct View {
    standing: Standing,
    posted: bool,
    /// Somebody waits for a descriptor.
    watched: bool,
    due: bool,
    deadline: u64,
}

impl Vm {
    fn view(&self, now: Instant) -> View {
        // Relaxed (all): hints; see the monitor's parking for what orders them.
        let deadline = self.published.deadline.load(Ordering::Relaxed);
        View {
            standing: self.published.standing(),
            posted: !self.inbox.is_empty() || self.signal_is_due(),
            watched: self.descriptors.are_watched(),
            due: deadline <= now.as_nanos(),
            deadline,
        }
    }

    /// Whether the monitor must not park now until `deadline`, in nanoseconds.
    pub(crate) fn needs_watching(&self, deadline: u64) -> bool {
        let view = self.view(Instant::now());
        !self.has_ended() && !self.park.is_waiting() && self.may_miss_something(view, deadline)
    }

    fn may_miss_something(&self, view: View, deadline: u64) -> bool {
        view.standing.somebody_is_runnable()
            || view.posted
            || view.deadline < deadline
            || (view.watched && !self.descriptors.are_armed())
    }

    /// One look; answers when the next one is wanted.
    pub(crate) fn look(self: &Arc<Vm>, now: Instant) -> NextLook {
        let next = self.look_where_needed(now);
        let period = self.parameters.beat.get();
        if period.is_zero() || self.has_ended() {
            return next;
        }
        next.no_later_than(self.beat_in_any_case(now, period))
    }

    /// The fixed beat that the user has asked for; answers when the next one is due.
    fn beat_in_any_case(&self, now: Instant, period: Duration) -> Instant {
        let mut watch = self.watch.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let due = watch.last_fixed_beat + period;
        if now < due {
            return due;
        }
        // The next one is counted from when this one was due, unless that was missed by far.
        watch.last_fixed_beat = if now < due + period { due } else { now };
        let next = watch.last_fixed_beat + period;
        drop(watch);
        if !self.park.is_waiting() {
            self.counters.beats.increment();
            self.request_attention_of_owner();
        }
        next
    }

    fn look_where_needed(self: &Arc<Vm>, now: Instant) -> NextLook {
        // Relaxed: a coarse clock orders nothing.
        self.published.coarse_now.store(now.as_nanos(), Ordering::Relaxed);
        let mut watch = self.watch.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if self.has_ended() || self.park.is_waiting() {
            watch.beat = None;
            watch.note_pause();
            return NextLook::Quiet(None);
        }
        let owner = {
            let mut state = self.lock_state();
            let owner = state.owner.filter(|_| state.owner_has_come);
            // The gate is read under the mutex: its thread may end as soon as it is no longer listed.
            owner
                .and_then(|owner| state.entry(owner))
                .and_then(|entry| Some((entry.gate?.value(), entry.thread?)))
        };
        let Some((value, thread)) = owner else {
            return NextLook::At(now + BEAT_TICK);
        };
        self.look_at_owner(&mut watch, now, value, thread)
    }

    fn look_at_owner(self: &Arc<Vm>, watch: &mut Watch, now: Instant, value: u64, thread: ThreadHandle) -> NextLook {
        let mut view = self.view(now);
        watch.note_owner(thread, value, now);
        let turn = self.published.turn();
        let is_new = watch.note(value, turn, self.published.turn_began(turn), now);
        watch.note_waits(self.counters.idle_waits.get(), now);
        let was_unseen = watch.end_pause(now);
        watch.rivals.note(view.standing.has_rivals(), is_new, was_unseen, now);
        let window = self.parameters.window.get();
        view.posted |= view.watched && self.owner_misses_news(watch);
        if !(view.standing.somebody_is_runnable() || view.posted || view.due) {
            watch.beat = None;
            watch.note_pause();
            let deadline = Some(view.deadline).filter(|&deadline| deadline != u64::MAX);
            let due = deadline.map(|deadline| watch.look_for_deadline(now, deadline, window));
            return if view.watched && !self.hears_of_news(watch, now) {
                NextLook::At(due.map_or(now + TICK, |due| due.min(now + TICK)))
            } else {
                NextLook::Quiet(due)
            };
        }
        // That a descriptor is ready, a look finds; when a slice ends that no equal waits for, it does not know, and one may come.
        let knows_the_end = view.standing.has_rivals() || !self.parameters.preemptive();
        let looks_for_calls_alone = !view.watched && knows_the_end && !window.is_zero();
        let tick = if looks_for_calls_alone { watch.tick(now) } else { TICK };
        let mut next = now + tick;
        if value & 1 == 1 {
            next = next.min(self.watch_call(watch, now, value, window, thread));
        }
        next = next.min(self.beat(watch, now, value, view, thread));
        self.watch_standstill(watch, now, value, thread);
        if view.deadline > now.as_nanos() && view.deadline != u64::MAX {
            next = next.min(watch.look_for_deadline(now, view.deadline, window));
        }
        NextLook::At(next)
    }

    /// Descriptors that are waited for are ready, and the owner, which has not been idle since the last look, has not asked.
    fn owner_misses_news(&self, watch: &mut Watch) -> bool {
        let asked = self.descriptors.times_asked();
        let has_asked = std::mem::replace(&mut watch.asked, asked) != asked;
        (self.descriptors.take_told() || !has_asked) && self.poller.has_news()
    }

    /// A process runs and others wait for descriptors: whether the monitor will be told when one is ready. While processes come and go it rather looks
    /// once a tick, as nearly every tick would find something.
    fn hears_of_news(&self, watch: &Watch, now: Instant) -> bool {
        if self.descriptors.are_armed() {
            return true;
        }
        let stands = now.saturating_duration_since(watch.slice_since) >= TICK;
        if stands && self.monitor.listen_to(&self.poller) {
            self.descriptors.note_armed(true);
        }
        self.descriptors.are_armed()
    }

    /// The monitor, which was to be told, has been. Says whether this is the poller's descriptor.
    pub(crate) fn note_news(&self, poller: u64) -> bool {
        let is_ours = u64::try_from(self.poller.fd()) == Ok(poller);
        if is_ours {
            self.descriptors.note_told();
        }
        is_ours
    }

    /// The watchdog: a foreign call stands, and others could run.
    fn watch_call(
        self: &Arc<Vm>,
        watch: &mut Watch,
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
        // Without a window there is no age to look for, and looks that are for something else would take calls as well.
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
                    watch.standstill,
                    Some(Standstill {
                        cause: Cause::Call(_),
                        ..
                    })
                ) {
                    watch.standstill = Some(Standstill::new(now, Cause::Call(value), thread));
                }
            }
            Retake::Ended | Retake::NoThread => {}
        }
        if now < watch.hot_until && !window.is_zero() {
            now + window.max(BEAT_TICK)
        } else {
            now + TICK
        }
    }

    /// Tells the user, once, of a function that keeps all others waiting. If the gate moves all the while, as the function uses the guest's API,
    /// the owner itself does at its next enter.
    fn watch_standstill(self: &Arc<Vm>, watch: &mut Watch, now: Instant, value: u64, thread: ThreadHandle) {
        if matches!(watch.standstill, Some(Standstill { cause: Cause::Call(call), .. }) if call != value) {
            watch.standstill = None;
        }
        let patience = self.parameters.warn_blocked.get();
        let Some(standstill) = &mut watch.standstill else {
            return;
        };
        standstill.note(now, value);
        if !standstill.is_due(now, thread, patience) {
            return;
        }
        standstill.warned = match standstill.cause {
            Cause::Deaf(_) => {
                self.have_owner_warn();
                true
            }
            Cause::Call(_) => self.retake(value, true) == Retake::Exclusive,
        };
    }

    /// The heartbeat: asks the running process to give way, by a flag, and by a signal if it does not notice that.
    fn beat(&self, watch: &mut Watch, now: Instant, value: u64, view: View, thread: ThreadHandle) -> Instant {
        let slice = self.published_slice();
        // Relaxed: a hint; the safepoint asks the accounts.
        let used = self.published.slice_used.load(Ordering::Relaxed);
        let slice_ends = watch.slice_since + left_of(slice, used);
        // Relaxed: a hint; the safepoint asks the kernel itself.
        let preemptive = self.parameters.preemptive() && view.standing.is_preemptible();
        let slice_over = preemptive && view.standing.has_rivals() && now + early(slice) >= slice_ends;
        let deadline = Instant::from_nanos(view.deadline);
        let unanswered = Unanswered {
            slice: Some(slice_ends).filter(|&ends| slice_over && now >= ends + SLOW_ANSWER),
            deadline: Some(deadline).filter(|&deadline| view.due && now >= deadline + SLOW_ANSWER),
        };
        note_answers(&mut watch.standstill, now, unanswered, thread);
        let may_ask = watch.pace.may_ask(view.deadline);
        let due = view.due && now >= may_ask;
        let wanted = Wanted {
            slice_over,
            posted: view.posted,
            outranked: preemptive && view.standing.is_outranked(),
            deadline: if due { view.deadline } else { 0 },
        };
        let will_end = preemptive && view.standing.has_rivals() && !slice_over;
        let mut next = if will_end { slice_ends } else { now + LONGEST_TICK };
        if view.due && !due {
            next = next.min(may_ask);
        }
        let is_unanswered = !wanted.is_nothing() && watch.beat.as_ref().is_some_and(|beat| beat.gate == value);
        watch.note_flag(is_unanswered);
        if wanted.is_nothing() {
            watch.beat = None;
            return next;
        }
        if due {
            watch.pace.note_asked(view.deadline, now);
            let asks_from = watch.pace.asks_from().map_or(0, Instant::as_nanos);
            // Relaxed: a hint; who reads an old value calls the monitor in vain, or is looked at a pace later.
            self.published.deadlines_from.store(asks_from, Ordering::Relaxed);
        }
        if slice_over {
            self.request_end_of_slice(watch, slice_ends);
        }
        match &mut watch.beat {
            Some(beat) if beat.gate == value && value & 1 == 1 => next,
            Some(beat) if beat.asks_for(value, wanted) => {
                beat.wanted = wanted;
                if now >= beat.signal_at {
                    self.signal(thread);
                    watch.hears_signals = beat.signals() == 0;
                    (watch.flag_is_out, watch.heeds_flags) = (false, false);
                    beat.note_signal(now, thread.cpu_time());
                }
                next.min(beat.signal_at)
            }
            _ => {
                let mut beat = Beat::new(value, wanted, now + watch.time_for_flag(wanted));
                self.ask_anew(watch, &mut beat, now, slice, thread);
                next.min(watch.beat.insert(beat).signal_at)
            }
        }
    }

    /// Asks the running process for the end of its slice, and tells what is known of that.
    fn request_end_of_slice(&self, watch: &Watch, slice_ends: Instant) {
        let contested_from = watch.rivals.since.map_or(0, Instant::as_nanos);
        let asked = &self.published.asked;
        // Relaxed (all): the request orders them; who answers in another turn looks at none of them.
        asked.turn.store(watch.turn, Ordering::Relaxed);
        asked.contested_from.store(contested_from, Ordering::Relaxed);
        let over_from = slice_ends.as_nanos().max(contested_from);
        asked.over_from.store(over_from, Ordering::Relaxed);
        // Release: pairs with the swap in `safepoint`.
        self.requests.fetch_or(request::SLICE, Ordering::Release);
    }

    /// By a flag, or also by a signal, if it would not notice that.
    fn ask_anew(&self, watch: &mut Watch, beat: &mut Beat, now: Instant, slice: Duration, thread: ThreadHandle) {
        self.counters.beats.increment();
        self.request_attention_of_owner();
        if beat.gate & 1 == 1 || !watch.takes_a_signal(now) {
            beat.note_flag(thread.cpu_time());
            watch.flag_is_out = true;
            return;
        }
        self.signal(thread);
        // The next slice may be a shorter one. And who is woken by a deadline, or is more urgent, waits for this look if one signal in a hundred is not heard.
        let slices_differ = self.exceptions() & (exception::SLICED | exception::OWING) != 0;
        let can_wait = beat.wanted.is_a_slice_alone() && !slices_differ;
        if std::mem::replace(&mut watch.hears_signals, true) && can_wait {
            beat.note_signal_to_who_hears(now, slice.clamp(BEAT_TICK, TICK));
        } else {
            beat.note_signal(now, thread.cpu_time());
        }
    }

    fn signal(&self, thread: ThreadHandle) {
        self.counters.signals.increment();
        let _ = thread.interrupt();
    }

    fn request_attention_of_owner(&self) {
        let mut state = self.lock_state();
        let owner = state.owner;
        if let Some(gate) = owner.and_then(|owner| state.entry(owner)).and_then(|entry| entry.gate) {
            gate.request_attention();
        }
    }
}

/// When to look again at a call of this age whose thread is not let run.
fn while_kept_from_running(age: Duration, window: Duration) -> Duration {
    age.min(LONGEST_PATIENCE).max(window)
}

/// By how much a slice may be ended before its time, rather than to look once more. What it is too short is added to the next one.
fn early(slice: Duration) -> Duration {
    (slice / 40).min(Duration::from_micros(25))
}

/// Of a slice of which so many nanoseconds have been used, or are to its credit.
fn left_of(slice: Duration, used: i64) -> Duration {
    let amount = Duration::from_nanos(used.unsigned_abs());
    if used < 0 {
        slice + amount
    } else {
        slice.saturating_sub(amount)
    }
}

impl Default for Watch {
    fn default() -> Self {
        let start = Instant::from_nanos(0);
        Watch {
            owner: None,
            gate: 0,
            gate_since: start,
            gate_cpu: None,
            asked: 0,
            exclusive: 0,
            standstill: None,
            turn: 0,
            slice_since: start,
            waits: 0,
            stands_since: start,
            computes_since: start,
            rivals: Rivals::default(),
            beat: None,
            hears_signals: false,
            heeds_flags: false,
            flag_is_out: false,
            has_paused: false,
            pace: Pace::default(),
            hot_until: start,
            retaken_at: start,
            last_fixed_beat: start,
        }
    }
}

impl Watch {
    /// The VM has moved: what is known of a gate value says nothing any more.
    fn note_owner(&mut self, thread: ThreadHandle, gate: u64, now: Instant) {
        if self.owner != Some(thread) {
            self.owner = Some(thread);
            self.gate = gate;
            self.gate_since = now;
            self.stands_since = now;
            self.computes_since = now;
            self.exclusive = 0;
            self.standstill = None;
            self.beat = None;
            self.hears_signals = false;
            self.heeds_flags = false;
            self.flag_is_out = false;
        }
    }

    /// Who has just waited sees for itself what is due, before it runs a process.
    fn note_waits(&mut self, waits: u64, now: Instant) {
        if std::mem::replace(&mut self.waits, waits) != waits {
            self.stands_since = now;
            self.computes_since = now;
        }
    }

    /// No look is made until there is something to do.
    fn note_pause(&mut self) {
        self.has_paused = true;
    }

    /// Whether no look was made for a while: what was done meanwhile is not known.
    fn end_pause(&mut self, now: Instant) -> bool {
        let has_paused = std::mem::take(&mut self.has_paused);
        if has_paused {
            self.computes_since = now;
        }
        has_paused
    }

    /// A flag that is no longer waited for was heeded.
    fn note_flag(&mut self, is_unanswered: bool) {
        if self.flag_is_out && !is_unanswered {
            (self.flag_is_out, self.heeds_flags) = (false, true);
        }
    }

    /// It has not been where it would notice a flag lately: it takes a signal.
    fn takes_a_signal(&self, now: Instant) -> bool {
        now >= self.stands_since + BEAT_TICK
    }

    /// How long a flag is waited for before a signal is sent. Who has many deadlines and has heeded the last flag is not looked at before the next one is asked for.
    fn time_for_flag(&self, wanted: Wanted) -> Duration {
        if self.heeds_flags && wanted.is_a_deadline_alone() {
            self.pace.gap()
        } else {
            BEAT_TICK
        }
    }

    /// How long a look can wait that is for foreign calls alone: for the longer, the longer none has been seen. One that lasts is noticed a quarter of the time later
    /// for which the process has computed before.
    fn tick(&self, now: Instant) -> Duration {
        let computes_for = now.saturating_duration_since(self.computes_since);
        (computes_for / 4).clamp(TICK, LONGEST_TICK)
    }

    /// The call has not lasted yet, only its thread has not been let run: another thread would have to wait just so. See docs/adr/0016.
    fn is_kept_from_running(&self, thread: ThreadHandle, window: Duration) -> bool {
        let (Some(before), Some(cpu)) = (self.gate_cpu, thread.cpu_time()) else {
            return false;
        };
        cpu.saturating_sub(before) < window && thread.is_waiting() == Some(false)
    }

    /// When to look for a deadline that is to come. A call that has been seen is not paced: it has not been asked for anything.
    fn look_for_deadline(&self, now: Instant, deadline: u64, window: Duration) -> Instant {
        let at = before_deadline(now, deadline, window);
        if self.gate & 1 == 1 {
            at
        } else {
            at.max(self.pace.may_ask(deadline))
        }
    }

    /// Says whether the turn is another one than at the last look; `began`: when, if that is known.
    fn note(&mut self, gate: u64, turn: u64, began: Option<Instant>, now: Instant) -> bool {
        if gate != self.gate {
            self.gate = gate;
            self.gate_since = now;
            self.stands_since = now;
        }
        if gate & 1 == 1 {
            self.computes_since = now;
        }
        let is_new = turn != self.turn;
        if is_new {
            if began.is_none() || turn != self.turn.wrapping_add(1) {
                self.stands_since = now;
                self.computes_since = now;
            }
            self.turn = turn;
            self.slice_since = began.unwrap_or(now);
            self.standstill = None;
            self.beat = None;
        }
        is_new
    }
}

/// Since when the running process has had others beside it that want to run.
#[derive(Debug, Default)]
struct Rivals {
    /// When they were first seen, if there were none in this turn before.
    since: Option<Instant>,
    were_there: bool,
}

impl Rivals {
    /// `was_unseen`: nobody has looked for a while; whatever was there then may have come and gone.
    fn note(&mut self, are_there: bool, is_new_turn: bool, was_unseen: bool, now: Instant) {
        if is_new_turn && !was_unseen {
            self.since = None;
        } else if was_unseen || !self.were_there {
            self.since = Some(now);
        }
        self.were_there = are_there;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Instant {
        Instant::from_nanos(micros * 1000)
    }

    #[test]
    fn what_was_used_shortens_a_slice_and_credit_lengthens_it() {
        let slice = Duration::from_millis(10);
        for (used, left) in [(0, 10_000), (3_000_000, 7_000), (-50_000, 10_050), (20_000_000, 0)] {
            assert_eq!(left_of(slice, used), Duration::from_micros(left));
        }
    }

    #[test]
    fn who_neither_passes_the_gate_nor_switches_takes_a_signal() {
        let mut watch = Watch::default();
        watch.note(4, 1, None, at(1_000));
        for (gate, turn, began, now, takes) in [
            (4, 1, None, 1_010, false),
            (4, 1, None, 1_050, true),
            (6, 1, None, 1_100, false),
            (6, 1, None, 1_160, true),
            (6, 2, None, 1_170, false),
            (6, 2, None, 1_230, true),
            // At the end of a slice; then there was another switch before.
            (6, 3, Some(at(1_235)), 1_240, true),
            (6, 5, Some(at(1_255)), 1_260, false),
        ] {
            watch.note(gate, turn, began, at(now));
            assert_eq!(watch.takes_a_signal(at(now)), takes, "{now}");
        }
        assert_eq!(watch.slice_since, at(1_255));
        assert!(watch.takes_a_signal(at(1_310)));
        watch.note_waits(1, at(1_310));
        assert!(!watch.takes_a_signal(at(1_310)));
        watch.note_waits(1, at(1_360));
        assert!(watch.takes_a_signal(at(1_360)));
    }

    #[test]
    fn the_longer_a_process_computes_the_more_rarely_it_is_looked_at() {
        let mut watch = Watch::default();
        watch.note(4, 1, None, at(0));
        let ticks = [0, 8_000, 20_000, 32_000, 1_000_000].map(|now| watch.tick(at(now)).as_micros());
        assert_eq!(ticks, [2_000, 2_000, 5_000, 8_000, 8_000]);
        // Short calls are not seen. One is, and then a yield, and what was done while nobody looked.
        for (now, gate, turn, tick) in [
            (2_000_000, 6, 1, LONGEST_TICK),
            (2_000_010, 7, 1, TICK),
            (3_000_000, 8, 1, LONGEST_TICK),
            (3_000_010, 8, 2, TICK),
        ] {
            watch.note(gate, turn, None, at(now));
            assert_eq!(watch.tick(at(now)), tick, "{now}");
        }
        assert_eq!(watch.tick(at(4_000_000)), LONGEST_TICK);
        watch.note_pause();
        watch.note(8, 2, None, at(4_000_000));
        assert!(watch.end_pause(at(4_000_000)) && !watch.end_pause(at(4_000_000)));
        assert_eq!(watch.tick(at(4_000_000)), TICK);
    }

    #[test]
    fn who_heeds_flags_is_given_the_pace_of_its_deadlines_for_the_next() {
        let deadline = Wanted {
            slice_over: false,
            posted: false,
            outranked: false,
            deadline: 77,
        };
        let mut watch = Watch::default();
        for due in 10..14 {
            watch.pace.note_asked(due, watch.pace.may_ask(due));
        }
        assert!(watch.pace.gap() > BEAT_TICK);
        assert_eq!(watch.time_for_flag(deadline), BEAT_TICK);
        watch.flag_is_out = true;
        watch.note_flag(true);
        assert_eq!(watch.time_for_flag(deadline), BEAT_TICK);
        watch.note_flag(false);
        assert_eq!(watch.time_for_flag(deadline), watch.pace.gap());
        let urgent = Wanted {
            outranked: true,
            ..deadline
        };
        assert_eq!(watch.time_for_flag(urgent), BEAT_TICK);
    }

    #[test]
    fn a_call_whose_thread_is_not_let_run_is_looked_at_more_and_more_rarely() {
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
            [micro, milli, ten, hundred].map(early).map(|time| time.as_nanos()),
            [25, 25_000, 25_000, 25_000]
        );
    }

    /// Since when there are rivals after looks which find these, in microseconds: when the look is, whether there are some, whether the turn is another one.
    fn rivals_after(looks: &[(u64, bool, bool)]) -> Option<u64> {
        let mut rivals = Rivals::default();
        for &(now, are_there, is_new_turn) in looks {
            rivals.note(are_there, is_new_turn, false, at(now));
        }
        rivals.since.map(|since| since.as_nanos() / 1000)
    }

    #[test]
    fn rivals_are_there_from_the_beginning_of_a_turn_or_since_they_were_first_seen_in_it() {
        assert_eq!(rivals_after(&[(1, true, true), (2, true, false)]), None);
        assert_eq!(
            rivals_after(&[(1, false, true), (2, true, false), (3, true, false)]),
            Some(2)
        );
        // An urgent process had none, which says nothing of the one that it interrupted.
        assert_eq!(
            rivals_after(&[(1, true, true), (2, false, true), (3, true, true)]),
            None
        );
        let mut rivals = Rivals::default();
        rivals.note(false, true, false, at(1));
        rivals.note(true, true, true, at(9));
        rivals.note(true, false, false, at(10));
        assert_eq!(rivals.since, Some(at(9)));
    }
}
