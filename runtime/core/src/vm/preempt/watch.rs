//! What the monitor remembers of one VM between two polls.

use super::next_poll::TICK;
use super::request::{Pace, PreemptRequest, REQUEST_TICK, Wanted};
use super::stall::Stall;
use super::wake_up::before_deadline;
use baton_sys::clock::Instant;
use baton_sys::signals::ThreadHandle;
use std::time::Duration;

/// The longest time between two polls of a process that computes while others wait.
pub(super) const LONGEST_TICK: Duration = Duration::from_millis(8);

/// The monitor's state for one VM. Guarded by its mutex, which only the monitor locks.
#[derive(Debug)]
pub(in crate::vm) struct PollState {
    /// The owner's thread at the last poll. Another thread's gate may have the same values.
    pub(super) owner: Option<ThreadHandle>,
    /// The gate's value at the last poll, and since when it has had that value.
    pub(super) gate: u64,
    pub(super) gate_since: Instant,
    /// The processor time of its thread when it got that value.
    pub(super) gate_cpu: Option<Duration>,
    /// How often the owner had polled its poller.
    pub(super) asked: u64,
    /// The gate value of an exclusive call.
    pub(super) exclusive: u64,
    /// A stall of the running process: an exclusive call, or one that keeps entering the VM.
    pub(super) stall: Option<Stall>,
    /// The run at the last poll, and since when: the running process's slice.
    pub(super) run: u64,
    pub(super) slice_since: Instant,
    /// How often the owner had waited.
    pub(super) waits: u64,
    /// The last time that the gate changed, the owner waited, or a run ended other than by the end
    /// of its slice.
    pub(super) stands_since: Instant,
    /// The last time that a foreign call was seen, or a run ended other than by the end of its
    /// slice. Since then processes have only computed, as far as is known.
    pub(super) computes_since: Instant,
    /// The unanswered request.
    pub(super) request: Option<PreemptRequest>,
    /// The owner has answered the last first signal of a request, and the last flag.
    pub(super) hears_signals: bool,
    pub(super) heeds_flags: bool,
    /// A flag is set, and it is not known yet whether the owner has answered it.
    pub(super) flag_is_out: bool,
    /// There was no poll for a while.
    pub(super) has_paused: bool,
    pub(super) pace: Pace,
    pub(super) hot_until: Instant,
    pub(super) retaken_at: Instant,
    /// When the last periodic preempt request was due.
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
    /// Forgets what is known of the gate, if the VM is on another thread now.
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

    /// Notes waits of the owner. After a wait the owner takes in what is due before it runs a
    /// process.
    pub(super) fn note_waits(&mut self, waits: u64, now: Instant) {
        if std::mem::replace(&mut self.waits, waits) != waits {
            self.stands_since = now;
            self.computes_since = now;
        }
    }

    /// Notes that there will be no poll until an alert.
    pub(super) fn note_pause(&mut self) {
        self.has_paused = true;
    }

    /// Notes that there is a poll again. What happened in a pause is not known.
    pub(super) fn end_pause(&mut self, now: Instant) {
        if std::mem::take(&mut self.has_paused) {
            self.computes_since = now;
        }
    }

    /// Notes whether a flag is still unanswered.
    pub(super) fn note_flag(&mut self, is_unanswered: bool) {
        if self.flag_is_out && !is_unanswered {
            (self.flag_is_out, self.heeds_flags) = (false, true);
        }
    }

    /// Whether a request needs a signal: the process has not passed a point lately where it would
    /// notice a flag.
    pub(super) fn takes_a_signal(&self, now: Instant) -> bool {
        now >= self.stands_since + REQUEST_TICK
    }

    /// How long to wait for the answer to a flag before a signal is sent. If the owner has many
    /// deadlines and answered the last flag, it is not polled until the next deadline may be
    /// requested.
    pub(super) fn time_for_flag(&self, wanted: Wanted) -> Duration {
        if self.heeds_flags && wanted.is_a_deadline_alone() {
            self.pace.gap()
        } else {
            REQUEST_TICK
        }
    }

    /// How long a poll that is only for foreign calls may wait: a quarter of the time for which no
    /// call has been seen, within bounds. So a long call is noticed that much later.
    pub(super) fn tick(&self, now: Instant) -> Duration {
        let computes_for = now.saturating_duration_since(self.computes_since);
        (computes_for / 4).clamp(TICK, LONGEST_TICK)
    }

    /// Whether the call is only old because its thread did not get a processor. Another thread
    /// would have to wait for one, too. See docs/adr/0016.
    pub(super) fn is_kept_from_running(&self, thread: ThreadHandle, window: Duration) -> bool {
        let (Some(before), Some(cpu)) = (self.gate_cpu, thread.cpu_time()) else {
            return false;
        };
        cpu.saturating_sub(before) < window && thread.is_waiting() == Some(false)
    }

    /// When to poll for a future deadline. In a foreign call the pace does not apply, as the call
    /// was not asked for anything.
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

    /// Notes the gate and the run. `began`: when the run began, if that is known.
    pub(super) fn note(&mut self, gate: u64, run: u64, began: Option<Instant>, now: Instant) {
        if gate != self.gate {
            self.gate = gate;
            self.gate_since = now;
            self.stands_since = now;
        }
        if gate & 1 == 1 {
            self.computes_since = now;
        }
        if run != self.run {
            if began.is_none() || run != self.run.wrapping_add(1) {
                self.stands_since = now;
                self.computes_since = now;
            }
            self.run = run;
            self.slice_since = began.unwrap_or(now);
            self.stall = None;
            self.request = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Instant {
        Instant::from_nanos(micros * 1000)
    }

    #[test]
    fn a_process_with_a_still_gate_and_no_switch_needs_a_signal() {
        let mut watch = PollState::default();
        watch.note(4, 1, None, at(1_000));
        for (gate, run, began, now, takes) in [
            (4, 1, None, 1_010, false),
            (4, 1, None, 1_050, true),
            (6, 1, None, 1_100, false),
            (6, 1, None, 1_160, true),
            (6, 2, None, 1_170, false),
            (6, 2, None, 1_230, true),
            // The end of a slice, and another switch before it.
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
    fn the_longer_a_process_computes_the_more_rarely_it_is_polled() {
        let mut watch = PollState::default();
        watch.note(4, 1, None, at(0));
        let ticks =
            [0, 8_000, 20_000, 32_000, 1_000_000].map(|now| watch.tick(at(now)).as_micros());
        assert_eq!(ticks, [2_000, 2_000, 5_000, 8_000, 8_000]);
        // Short calls are not seen. Then one is seen, and then a yield, and what happened while
        // there was no poll.
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
        watch.end_pause(at(4_000_000));
        assert_eq!(watch.tick(at(4_000_000)), TICK);
        watch.end_pause(at(5_000_000));
        assert!(watch.tick(at(5_000_000)) > TICK);
    }

    #[test]
    fn an_owner_that_answers_flags_gets_the_pace_of_its_deadlines() {
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
}
