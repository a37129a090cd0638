//! Decisions of polls, in virtual time: tables of what is seen, and what is decided.

use super::decide::{
    Actions, Host, LONGEST_TICK, PollEvent, PollSettings, PollState, Seen, early, left_of,
};
use super::hints::SummaryBits;
use super::next_poll::{NextPoll, TICK};
use super::request::{Pace, REQUEST_TICK, Wanted};

use baton_sys::clock::Instant;
use std::time::Duration;

/// Times and lengths of time are in microseconds.
pub(super) fn at(micros: u64) -> Instant {
    Instant::from_nanos(micros * 1000)
}

pub(super) fn micros(count: u64) -> Duration {
    Duration::from_micros(count)
}

/// A VM as the monitor sees it. The fields are changed between polls.
pub(super) struct Subject {
    pub(super) state: PollState,
    pub(super) set: PollSettings,
    pub(super) seen: Seen<'static>,
}

pub(super) const ALONE: SummaryBits = SummaryBits::of(false, false, false);
pub(super) const BESIDE_LESS_URGENT: SummaryBits = SummaryBits::of(true, false, false);
pub(super) const BESIDE_EQUALS: SummaryBits = SummaryBits::of(true, true, false);
pub(super) const BESIDE_MORE_URGENT: SummaryBits = SummaryBits::of(true, true, true);

/// A process that has computed since its run 1 began at 0, with slices of 10 ms and a window of
/// 100 us.
pub(super) fn computing(summary: SummaryBits) -> Subject {
    let mut subject = Subject {
        state: PollState::default(),
        set: PollSettings {
            preemptive: true,
            window: micros(100),
            beat: Duration::ZERO,
            warn_blocked: micros(100_000),
        },
        seen: Seen {
            thread: 1,
            gate: 4,
            cpu: None,
            is_waiting: &|| None,
            run: 1,
            run_began: Some(at(0)),
            idle_waits: 0,
            slice: micros(10_000),
            slice_used: 0,
            slices_differ: false,
            summary,
            posted: false,
            watched: false,
            armed: false,
            deadline: None,
            host: Host::Absent,
        },
    };
    let _ = subject.poll(0);
    subject
}

impl Subject {
    pub(super) fn poll(&mut self, now: u64) -> Actions {
        self.state
            .decide(at(now), self.set, &PollEvent::Runs(self.seen))
    }

    /// Polls as often as it is wanted from `from` to `until`. Returns when a signal was sent.
    pub(super) fn signals(&mut self, from: u64, until: u64) -> Vec<u64> {
        let mut signals = Vec::new();
        let mut now = from;
        while now <= until {
            let actions = self.poll(now);
            if actions.signal {
                signals.push(now);
            }
            now = next(actions);
        }
        signals
    }
}

/// When the next poll is due, in microseconds.
pub(super) fn next(actions: Actions) -> u64 {
    match actions.next {
        NextPoll::At(at) => at.as_nanos() / 1000,
        NextPoll::Quiet(until) => panic!("quiet until {until:?}"),
    }
}

#[test]
fn a_process_alone_needs_no_polls() {
    let mut subject = computing(ALONE);
    assert_eq!(subject.poll(10).next, NextPoll::Quiet(None));
    // With a deadline, the gate's age must be known when it is due.
    subject.seen.deadline = Some(at(5_000));
    assert_eq!(subject.poll(20).next, NextPoll::Quiet(Some(at(4_895))));
    assert_eq!(subject.poll(4_895).next, NextPoll::Quiet(Some(at(5_000))));
}

#[test]
fn an_owner_that_waits_needs_no_polls_and_one_that_comes_is_polled_soon() {
    let mut subject = computing(BESIDE_EQUALS);
    let set = subject.set;
    let waits = subject.state.decide(at(5), set, &PollEvent::Waits);
    assert_eq!(waits.next, NextPoll::Quiet(None));
    let comes = subject.state.decide(at(5), set, &PollEvent::Comes);
    assert_eq!(next(comes), 55);
}

#[test]
fn the_end_of_a_slice_takes_one_signal_and_one_more_poll() {
    let mut subject = computing(BESIDE_EQUALS);
    let before = subject.poll(9_000);
    assert_eq!((before.set_attention, next(before)), (false, 10_000));
    let end = subject.poll(10_000);
    assert!(end.set_attention && end.signal && end.end_slice);
    assert_eq!(next(end), 12_000);
    // It was answered.
    (subject.seen.run, subject.seen.run_began) = (2, Some(at(10_010)));
    let after = subject.poll(12_000);
    assert!(!after.set_attention && !after.end_slice);
    // It was not.
    (subject.seen.run, subject.seen.run_began) = (3, Some(at(20_010)));
    assert_eq!(
        subject.signals(20_010, 32_700),
        [30_010, 32_010, 32_210, 32_410, 32_610]
    );
}

#[test]
fn a_signal_for_more_than_the_end_of_a_slice_is_repeated_soon() {
    for change in [
        (|seen| seen.posted = true) as fn(&mut Seen<'_>),
        |seen| seen.summary = BESIDE_MORE_URGENT,
        |seen| seen.deadline = Some(at(1_000)),
    ] {
        let mut subject = computing(BESIDE_EQUALS);
        change(&mut subject.seen);
        assert_eq!(subject.signals(1_000, 1_500), [1_000, 1_200, 1_400]);
    }
    // The next slice may be a shorter one.
    let mut subject = computing(BESIDE_EQUALS);
    subject.seen.slices_differ = true;
    assert_eq!(subject.signals(10_000, 10_300), [10_000, 10_200]);
}

#[test]
fn a_process_that_is_not_preemptible_is_polled_once_a_tick() {
    for part in 0..3 {
        let mut subject = computing(BESIDE_MORE_URGENT);
        match part {
            0 => subject.set.preemptive = false,
            1 => subject.seen.summary = BESIDE_MORE_URGENT.not_preemptible(),
            _ => subject.seen.summary = BESIDE_LESS_URGENT,
        }
        let actions = subject.poll(1_000_000);
        assert!(!actions.set_attention && !actions.end_slice);
        assert!(next(actions) >= 1_002_000, "{actions:?}");
    }
}

/// What it did lately: it passed the gate, waited, or gave way.
#[test]
fn a_process_that_would_notice_a_flag_gets_a_signal_only_after_it() {
    for (change, signal_at) in [
        ((|_| ()) as fn(&mut Seen<'_>), 1_000),
        (|seen| seen.gate = 6, 1_050),
        (|seen| seen.idle_waits = 1, 1_050),
        (|seen| seen.thread = 2, 1_050),
        (|seen| (seen.run, seen.run_began) = (2, None), 1_050),
        // A switch other than by the end of a slice, and then that.
        (
            |seen| (seen.run, seen.run_began) = (3, Some(at(990))),
            1_050,
        ),
        // The end of a slice.
        (
            |seen| (seen.run, seen.run_began) = (2, Some(at(990))),
            1_000,
        ),
    ] {
        let mut subject = computing(BESIDE_EQUALS);
        change(&mut subject.seen);
        subject.seen.posted = true;
        assert_eq!(subject.signals(1_000, 1_100), [signal_at]);
    }
}

#[test]
fn a_thread_that_does_not_run_is_signalled_once_a_tick() {
    let mut subject = computing(BESIDE_MORE_URGENT);
    subject.seen.cpu = Some(micros(1));
    assert_eq!(subject.signals(1_000, 6_000), [1_000, 1_200, 3_200, 5_200]);
    subject.seen.cpu = Some(micros(2));
    assert_eq!(subject.signals(7_200, 7_500), [7_200, 7_400]);
}

#[test]
fn only_new_reasons_need_a_new_request() {
    let nothing = Wanted::default();
    let posted = Wanted {
        posted: true,
        ..nothing
    };
    let due = Wanted {
        deadline: Some(at(7)),
        ..nothing
    };
    let later = Wanted {
        deadline: Some(at(8)),
        ..nothing
    };
    let both = Wanted {
        deadline: Some(at(7)),
        ..posted
    };
    let slice = Wanted {
        slice_over: true,
        ..nothing
    };
    let outranked = Wanted {
        outranked: true,
        ..nothing
    };
    let stint = Wanted {
        stint_over: true,
        ..nothing
    };
    for new in [posted, due, later, both, slice, outranked, stint] {
        assert!(new.adds_to(nothing) && !new.adds_to(new) && !nothing.adds_to(new));
        assert!(!new.is_nothing());
        assert_eq!(new.is_a_slice_alone(), new == slice);
        assert_eq!(new.is_a_deadline_alone(), new == due || new == later);
    }
    for (new, before, adds) in [
        (later, due, true),
        (both, due, true),
        (both, posted, true),
        (due, both, false),
        (slice, both, true),
        (outranked, both, true),
    ] {
        assert_eq!(new.adds_to(before), adds, "{new:?} after {before:?}");
    }
    let mut subject = computing(BESIDE_EQUALS);
    subject.seen.posted = true;
    assert!(subject.poll(1_000).set_attention);
    assert!(!subject.poll(1_001).set_attention);
    subject.seen.summary = BESIDE_MORE_URGENT;
    assert!(subject.poll(1_002).set_attention);
}

#[test]
fn the_longer_a_process_only_computes_the_more_rarely_it_is_polled() {
    let ticks = |change: fn(&mut Subject)| {
        [8_000, 20_000, 32_000, 1_000_000].map(|now| {
            let mut subject = computing(BESIDE_EQUALS);
            subject.seen.slice = Duration::from_secs(3600);
            change(&mut subject);
            next(subject.poll(now)) - now
        })
    };
    assert_eq!(ticks(|_| ()), [2_000, 5_000, 8_000, 8_000]);
    let seldom = [LONGEST_TICK.as_micros() as u64; 2];
    assert_eq!(ticks(|_| ())[2..], seldom);
    // Nothing is known of an equal that may come, of descriptors, or of calls just made.
    for change in [
        (|subject| subject.seen.summary = BESIDE_LESS_URGENT) as fn(&mut Subject),
        |subject| subject.seen.watched = true,
        |subject| subject.set.window = Duration::ZERO,
        |subject| subject.seen.gate = 6,
        |subject| subject.seen.idle_waits = 1,
        |subject| subject.seen.run = 7,
    ] {
        assert_eq!(ticks(change), [TICK.as_micros() as u64; 4]);
    }
    // In a cooperative program no equal matters.
    let cooperative = ticks(|subject| {
        subject.seen.summary = BESIDE_LESS_URGENT;
        subject.set.preemptive = false;
    });
    assert_eq!(cooperative, [2_000, 5_000, 8_000, 8_000]);
}

#[test]
fn the_poller_wakes_the_monitor_beside_a_process_that_runs_on() {
    let mut subject = computing(ALONE);
    subject.seen.watched = true;
    // It began to run just now: perhaps it switches often.
    let actions = subject.poll(1_000);
    assert_eq!((actions.listen, next(actions)), (false, 3_000));
    let actions = subject.poll(3_000);
    assert_eq!(
        (actions.listen, actions.next),
        (true, NextPoll::Quiet(None))
    );
    subject.seen.armed = true;
    let actions = subject.poll(4_000);
    assert_eq!(
        (actions.listen, actions.next),
        (false, NextPoll::Quiet(None))
    );
}

/// When these deadlines are requested, each as soon as allowed.
fn asked(dues: impl IntoIterator<Item = u64>) -> Vec<u64> {
    let mut pace = Pace::default();
    let mut asked = Vec::new();
    for due in dues {
        let due = at(due);
        let now = pace.may_ask(due).max(due);
        pace.note_asked(due, now);
        asked.push(now.as_nanos() / 1000);
        // Again at once, if it is unanswered.
        assert!(pace.may_ask(due) <= now && pace.may_ask(at(1 << 40)) == now + pace.gap());
        assert_eq!(pace.asks_from() > now, pace.gap() > REQUEST_TICK);
    }
    asked
}

#[test]
fn requests_back_off_while_deadlines_arrive_late() {
    let many = asked(10_000..10_008);
    let gaps: Vec<u64> = many.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(gaps, [50, 100, 200, 400, 800, 1000, 1000]);
    // Deadlines that do not have to wait end the back-off.
    let rare = [20_000, 30_000, 40_000, 50_000, 60_000, 60_060];
    assert_eq!(asked((10_000..10_008).chain(rare))[8..], rare);
}

#[test]
fn the_pace_of_deadlines_delays_no_other_request() {
    let mut subject = computing(BESIDE_LESS_URGENT);
    let mut now = 10_000;
    for due in 10_000..10_008 {
        subject.seen.deadline = Some(at(due));
        while !subject.poll(now).set_attention {
            now += 50;
        }
    }
    subject.seen.deadline = Some(at(10_009));
    let actions = subject.poll(now + 50);
    assert_eq!((actions.set_attention, next(actions)), (false, now + 1_000));
    subject.seen.posted = true;
    assert!(subject.poll(now + 60).set_attention);
}

#[test]
fn a_periodic_request_comes_on_time_and_is_not_made_up_for() {
    let mut subject = computing(ALONE);
    subject.set.beat = micros(1_000);
    let mut flags = Vec::new();
    for now in [1_000, 1_300, 2_000, 3_100, 4_000, 9_700, 10_000, 10_700] {
        let actions = subject.poll(now);
        if actions.set_attention {
            flags.push(now);
        }
        assert!(!actions.signal);
    }
    assert_eq!(flags, [1_000, 2_000, 3_100, 4_000, 9_700, 10_700]);
    let set = subject.set;
    let waits = subject.state.decide(at(10_800), set, &PollEvent::Waits);
    assert_eq!(waits.next, NextPoll::Quiet(Some(at(11_700))));
}

#[test]
fn used_time_shortens_a_slice_and_credit_lengthens_it() {
    for (used, left) in [
        (0, 10_000),
        (3_000_000, 7_000),
        (-50_000, 10_050),
        (20_000_000, 0),
    ] {
        assert_eq!(left_of(micros(10_000), used), micros(left));
    }
}

#[test]
fn a_slice_is_ended_a_little_early_at_most() {
    let early = [1, 1_000, 10_000, 100_000].map(|slice| early(micros(slice)).as_nanos());
    assert_eq!(early, [25, 25_000, 25_000, 25_000]);
}
