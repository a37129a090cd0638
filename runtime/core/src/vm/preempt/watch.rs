//! What the monitor remembers of one VM between two polls.

use super::next_poll::TICK;
use super::request::{Pace, PreemptRequest, REQUEST_TICK, Wanted};
use super::stall::Stall;
use super::wake_up::before_deadline;
use baton_sys::clock::Instant;
use baton_sys::signals::ThreadHandle;
use std::time::Duration;

/// The longest time between two polls at a process that computes while others wait.
pub(super) const LONGEST_TICK: Duration = Duration::from_millis(8);

/// The monitor's memory about one VM; guarded by its mutex, which only the monitor takes.
#[derive(Debug)]
pub(in crate::vm) struct PollState {
    /// The owner's thread at the last poll. Another thread's gate may show the same values.
    pub(super) owner: Option<ThreadHandle>,
    /// Last gate value seen, and since when it has stood.
    pub(super) gate: u64,
    pub(super) gate_since: Instant,
    /// What its thread had used of a processor by then.
    pub(super) gate_cpu: Option<Duration>,
    /// How often the owner had asked its poller.
    pub(super) asked: u64,
    /// Gate value of a call that the guest calls exclusive.
    pub(super) exclusive: u64,
    /// Since when the others wait for the running process without an answer: an exclusive call, or
    /// one that keeps coming back into the VM.
    pub(super) stall: Option<Stall>,
    /// The run seen, and since when it has been: the running process's slice.
    pub(super) run: u64,
    pub(super) slice_since: Instant,
    /// How often the owner had waited.
    pub(super) waits: u64,
    /// Since when neither the gate was passed, nor the owner waited, nor a run ended but at the
    /// end of a slice.
    pub(super) stands_since: Instant,
    /// When a foreign call was last seen, or a run that had ended otherwise: since then, as far as
    /// is known, nobody does anything but compute.
    pub(super) computes_since: Instant,
    pub(super) rivals: Rivals,
    /// The unanswered request.
    pub(super) request: Option<PreemptRequest>,
    /// The owner has answered the last signal that was the first, and the last flag.
    pub(super) hears_signals: bool,
    pub(super) heeds_flags: bool,
    /// A flag is set of which it is not known whether it is heeded.
    pub(super) flag_is_out: bool,
    /// there was no poll for a while.
    pub(super) has_paused: bool,
    pub(super) pace: Pace,
    pub(super) hot_until: Instant,
    pub(super) retaken_at: Instant,
    /// When the last preempt request of the fixed period was due.
    pub(super) last_periodic_request: Instant,
}

impl Default for PollState {
    fn default() -> Self {
        let start = Instant::from_nanos(0);
        PollState {
            owner: None,
            gate: 0,
            gate_since: start,
            gate_cpu: None,
            asked: 0,
            exclusive: 0,
            stall: None,
            run: 0,
            slice_since: start,
            waits: 0,
            stands_since: start,
            computes_since: start,
            rivals: Rivals::default(),
            request: None,
            hears_signals: false,
            heeds_flags: false,
            flag_is_out: false,
            has_paused: false,
            pace: Pace::default(),
            hot_until: start,
            retaken_at: start,
            last_periodic_request: start,
        }
    }
}

impl PollState {
    /// The VM has moved: what is known of a gate value says nothing any more.
    pub(super) fn note_owner(&mut self, thread: ThreadHandle, gate: u64, now: Instant) {
        if self.owner != Some(thread) {
            self.owner = Some(thread);
            self.gate = gate;
            self.gate_since = now;
            self.stands_since = now;
            self.computes_since = now;
            self.exclusive = 0;
            self.stall = None;
            self.request = None;
            self.hears_signals = false;
            self.heeds_flags = false;
            self.flag_is_out = false;
        }
    }

    /// Who has just waited sees for itself what is due, before it runs a process.
    pub(super) fn note_waits(&mut self, waits: u64, now: Instant) {
        if std::mem::replace(&mut self.waits, waits) != waits {
            self.stands_since = now;
            self.computes_since = now;
        }
    }

    /// No poll is made until there is something to do.
    pub(super) fn note_pause(&mut self) {
        self.has_paused = true;
    }

    /// Whether no poll was made for a while: what was done meanwhile is not known.
    pub(super) fn end_pause(&mut self, now: Instant) -> bool {
        let has_paused = std::mem::take(&mut self.has_paused);
        if has_paused {
            self.computes_since = now;
        }
        has_paused
    }

    /// A flag that is no longer waited for was heeded.
    pub(super) fn note_flag(&mut self, is_unanswered: bool) {
        if self.flag_is_out && !is_unanswered {
            (self.flag_is_out, self.heeds_flags) = (false, true);
        }
    }

    /// It has not been where it would notice a flag lately: it takes a signal.
    pub(super) fn takes_a_signal(&self, now: Instant) -> bool {
        now >= self.stands_since + REQUEST_TICK
    }

    /// How long a flag is waited for before a signal is sent. Who has many deadlines and has heeded
    /// the last flag is not polled at before the next one is asked for.
    pub(super) fn time_for_flag(&self, wanted: Wanted) -> Duration {
        if self.heeds_flags && wanted.is_a_deadline_alone() {
            self.pace.gap()
        } else {
            REQUEST_TICK
        }
    }

    /// How long a poll can wait that is for foreign calls alone: for the longer, the longer none
    /// has been seen. One that lasts is noticed a quarter of the time later for which the process
    /// has computed before.
    pub(super) fn tick(&self, now: Instant) -> Duration {
        let computes_for = now.saturating_duration_since(self.computes_since);
        (computes_for / 4).clamp(TICK, LONGEST_TICK)
    }

    /// The call has not lasted yet, only its thread has not been let run: another thread would have
    /// to wait just so. See docs/adr/0016.
    pub(super) fn is_kept_from_running(&self, thread: ThreadHandle, window: Duration) -> bool {
        let (Some(before), Some(cpu)) = (self.gate_cpu, thread.cpu_time()) else {
            return false;
        };
        cpu.saturating_sub(before) < window && thread.is_waiting() == Some(false)
    }

    /// When to poll for a deadline that is to come. A call that has been seen is not paced: it has
    /// not been asked for anything.
    pub(super) fn poll_for_deadline(
        &self,
        now: Instant,
        deadline: u64,
        window: Duration,
    ) -> Instant {
        let at = before_deadline(now, deadline, window);
        if self.gate & 1 == 1 {
            at
        } else {
            at.max(self.pace.may_ask(deadline))
        }
    }

    /// Says whether the run is another one than at the last poll; `began`: when, if that is known.
    pub(super) fn note(
        &mut self,
        gate: u64,
        run: u64,
        began: Option<Instant>,
        now: Instant,
    ) -> bool {
        if gate != self.gate {
            self.gate = gate;
            self.gate_since = now;
            self.stands_since = now;
        }
        if gate & 1 == 1 {
            self.computes_since = now;
        }
        let is_new = run != self.run;
        if is_new {
            if began.is_none() || run != self.run.wrapping_add(1) {
                self.stands_since = now;
                self.computes_since = now;
            }
            self.run = run;
            self.slice_since = began.unwrap_or(now);
            self.stall = None;
            self.request = None;
        }
        is_new
    }
}

/// Since when the running process has had others beside it that want to run.
#[derive(Debug, Default)]
pub(super) struct Rivals {
    /// When they were first seen, if there were none in this run before.
    pub(super) since: Option<Instant>,
    were_there: bool,
}

impl Rivals {
    /// `was_unseen`: there was no poll for a while; whatever was there then may have come and gone.
    pub(super) fn note(
        &mut self,
        are_there: bool,
        is_new_run: bool,
        was_unseen: bool,
        now: Instant,
    ) {
        if is_new_run && !was_unseen {
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
    fn who_neither_passes_the_gate_nor_switches_takes_a_signal() {
        let mut watch = PollState::default();
        watch.note(4, 1, None, at(1_000));
        for (gate, run, began, now, takes) in [
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
            watch.note(gate, run, began, at(now));
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
        let mut watch = PollState::default();
        watch.note(4, 1, None, at(0));
        let ticks =
            [0, 8_000, 20_000, 32_000, 1_000_000].map(|now| watch.tick(at(now)).as_micros());
        assert_eq!(ticks, [2_000, 2_000, 5_000, 8_000, 8_000]);
        // Short calls are not seen. One is, and then a yield, and what was done while nobody
        // polled.
        for (now, gate, run, tick) in [
            (2_000_000, 6, 1, LONGEST_TICK),
            (2_000_010, 7, 1, TICK),
            (3_000_000, 8, 1, LONGEST_TICK),
            (3_000_010, 8, 2, TICK),
        ] {
            watch.note(gate, run, None, at(now));
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
        let mut watch = PollState::default();
        for due in 10..14 {
            watch.pace.note_asked(due, watch.pace.may_ask(due));
        }
        assert!(watch.pace.gap() > REQUEST_TICK);
        assert_eq!(watch.time_for_flag(deadline), REQUEST_TICK);
        watch.flag_is_out = true;
        watch.note_flag(true);
        assert_eq!(watch.time_for_flag(deadline), REQUEST_TICK);
        watch.note_flag(false);
        assert_eq!(watch.time_for_flag(deadline), watch.pace.gap());
        let urgent = Wanted {
            outranked: true,
            ..deadline
        };
        assert_eq!(watch.time_for_flag(urgent), REQUEST_TICK);
    }

    /// Since when there are rivals after polls which find these, in microseconds: when the poll is,
    /// whether there are some, whether the run is another one.
    fn rivals_after(polls: &[(u64, bool, bool)]) -> Option<u64> {
        let mut rivals = Rivals::default();
        for &(now, are_there, is_new_run) in polls {
            rivals.note(are_there, is_new_run, false, at(now));
        }
        rivals.since.map(|since| since.as_nanos() / 1000)
    }

    #[test]
    fn rivals_are_there_from_the_beginning_of_a_run_or_since_they_were_first_seen_in_it() {
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
