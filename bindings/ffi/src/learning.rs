//! Which functions are known to be long: learned from how long they take.
//!
//! A call may be made where the caller is, or moved to another native thread. Staying costs nothing if the call is short; if it lasts
//! longer than the watchdog's window, others wait for the window and for the hand-over. Moving always costs a hand-over. So a function is
//! *long* when calls beyond the window are frequent enough that moving all costs less than being surprised by some.
//!
//! Pure: the caller measures, and this decides. So that a short call costs no more than a count, the caller may make some calls without asking
//! ([`Policy::calls_to_skip`]), and tells how many before it asks again ([`Policy::skipped`]).
//! While a function is known to be short, hardly any call is measured: 1 of `MOST_APART`.
//! What the watchdog retakes is told besides, so that a change is noticed with the first call that made somebody wait.

use std::time::Duration;

/// What is known of a function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// Its calls stay.
    Short,
    /// Its calls are moved.
    Long,
}

/// What to do with the next call.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Choice {
    /// Make it here, without looking at the clock.
    Stay,
    /// Make it here, and say how long it took.
    StayAndMeasure,
    /// The same, but it may well last: nothing is known yet, or calls have lasted lately. A single one among many does not count: its thread may not
    /// have been let run.
    Try,
    /// Make it elsewhere, and say how long it took.
    Move,
}

/// Shares of calls, in 1/65536.
type Share = u32;
const ONE: Share = 1 << 16;

/// Above this share of long calls a function is long: a hand-over costs about a fifth of a window and hand-over.
const BECOMES_LONG: Share = ONE / 4;
/// Below this share it is short again.
const BECOMES_SHORT: Share = ONE / 8;
/// A sample's weight is 1 / (number of samples), and from this number on 1 / this.
const MEMORY: u32 = 8;
/// The most calls from one measured call of a short function to the next.
const MOST_APART: u32 = 256;

/// What has been learned of one function. Changed by the VM's owner.
#[derive(Clone, Copy, Debug)]
pub struct Estimate {
    long_share: Share,
    samples: u32,
    /// Calls from one measurement to the next, while it is short.
    apart: u32,
    /// Calls since the last measurement.
    unmeasured: u32,
    class: Class,
}

impl Default for Estimate {
    fn default() -> Self {
        Self {
            long_share: 0,
            samples: 0,
            apart: 1,
            unmeasured: 0,
            class: Class::Short,
        }
    }
}

impl Estimate {
    /// What is known now.
    pub fn class(&self) -> Class {
        self.class
    }

    /// What to do with the next call.
    #[inline]
    pub fn choose(&mut self) -> Choice {
        if self.class == Class::Long {
            return Choice::Move;
        }
        self.unmeasured += 1;
        if self.unmeasured < self.apart {
            return Choice::Stay;
        }
        self.unmeasured = 0;
        if self.samples == 0 || self.long_share > BECOMES_SHORT {
            return Choice::Try;
        }
        Choice::StayAndMeasure
    }

    /// How many of the next calls stay: nobody need ask about them.
    pub fn calls_to_skip(&self) -> u32 {
        match self.class {
            Class::Long => 0,
            Class::Short => self.apart.saturating_sub(self.unmeasured + 1),
        }
    }

    /// So many calls were made without asking.
    pub fn skipped(&mut self, calls: u32) {
        self.unmeasured = self.unmeasured.saturating_add(calls);
    }

    /// A measured call took so long, where calls beyond `window` are retaken.
    pub fn measured(&mut self, duration: Duration, window: Duration) {
        let is_long = duration >= window;
        self.sample(is_long);
        self.apart = if is_long { 1 } else { (self.apart * 2).min(MOST_APART) };
    }

    /// A call that was not measured was retaken: it lasted, and others waited. The calls before it that were not measured were not.
    pub fn retaken(&mut self) {
        for _ in 1..self.unmeasured.min(MEMORY * 8) {
            self.long_share -= self.long_share / MEMORY;
        }
        self.unmeasured = 0;
        self.apart = 1;
        self.sample(true);
    }

    fn sample(&mut self, is_long: bool) {
        self.samples = (self.samples + 1).min(MEMORY);
        let sample = if is_long { ONE } else { 0 };
        // A moving average that begins as a plain one.
        self.long_share = self.long_share - self.long_share / self.samples + sample / self.samples;
        self.class = match self.class {
            Class::Short if self.long_share > BECOMES_LONG => Class::Long,
            Class::Long if self.long_share < BECOMES_SHORT => Class::Short,
            same => same,
        };
    }
}

/// How a function's calls are made: as was declared, or as is learned.
#[derive(Clone, Copy, Debug)]
pub enum Policy {
    /// It is said to be short, or long.
    Declared(Class),
    /// `auto`.
    Learned(Estimate),
}

impl Default for Policy {
    fn default() -> Self {
        Policy::Learned(Estimate::default())
    }
}

impl Policy {
    /// What to do with the next call.
    #[inline]
    pub fn choose(&mut self) -> Choice {
        match self {
            Policy::Declared(Class::Short) => Choice::Stay,
            Policy::Declared(Class::Long) => Choice::Move,
            Policy::Learned(estimate) => estimate.choose(),
        }
    }

    /// See [`Estimate::calls_to_skip`].
    pub fn calls_to_skip(&self) -> u32 {
        match self {
            Policy::Declared(Class::Short) => u32::MAX,
            Policy::Declared(Class::Long) => 0,
            Policy::Learned(estimate) => estimate.calls_to_skip(),
        }
    }

    /// See [`Estimate::skipped`].
    pub fn skipped(&mut self, calls: u32) {
        if let Policy::Learned(estimate) = self {
            estimate.skipped(calls);
        }
    }

    /// See [`Estimate::measured`].
    pub fn measured(&mut self, duration: Duration, window: Duration) {
        if let Policy::Learned(estimate) = self {
            estimate.measured(duration, window);
        }
    }

    /// See [`Estimate::retaken`].
    pub fn retaken(&mut self) {
        if let Policy::Learned(estimate) = self {
            estimate.retaken();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Duration = Duration::from_micros(100);
    const SHORT: Duration = Duration::from_micros(1);
    const LONG: Duration = Duration::from_millis(10);

    /// Makes calls of these lengths, as a caller would; answers how many were measured and how many moved.
    fn run(estimate: &mut Estimate, lengths: impl IntoIterator<Item = Duration>, others_wait: bool) -> (u32, u32) {
        let (mut measured, mut moved) = (0, 0);
        for length in lengths {
            match estimate.choose() {
                Choice::Stay => {
                    if others_wait && length >= WINDOW {
                        estimate.retaken();
                    }
                    continue;
                }
                Choice::StayAndMeasure | Choice::Try => measured += 1,
                Choice::Move => moved += 1,
            }
            estimate.measured(length, WINDOW);
        }
        (measured, moved)
    }

    fn times(length: Duration, count: usize) -> impl Iterator<Item = Duration> {
        std::iter::repeat_n(length, count)
    }

    #[test]
    fn short_calls_are_hardly_ever_measured() {
        let mut estimate = Estimate::default();
        let (measured, moved) = run(&mut estimate, times(SHORT, 100_000), true);
        assert!(measured < 410 && moved == 0, "{measured} {moved}");
    }

    #[test]
    fn calls_made_without_asking_come_to_the_same() {
        let (mut asked, mut skipping) = (Policy::default(), Policy::default());
        let mut ahead = 0;
        for call in 0..10_000 {
            let length = if call % 5000 > 4500 { LONG } else { SHORT };
            let choice = asked.choose();
            let other = if ahead > 0 {
                ahead -= 1;
                Choice::Stay
            } else {
                skipping.choose()
            };
            assert_eq!(choice, other, "call {call}");
            if choice == Choice::Stay {
                continue;
            }
            asked.measured(length, WINDOW);
            skipping.measured(length, WINDOW);
            ahead = skipping.calls_to_skip();
            skipping.skipped(ahead);
        }
    }

    #[test]
    fn one_call_that_lasted_among_many_makes_none_wait() {
        let mut estimate = Estimate::default();
        let _ = run(&mut estimate, times(SHORT, 5_000), true);
        estimate.measured(LONG, WINDOW);
        assert_eq!(estimate.choose(), Choice::StayAndMeasure);
        estimate.measured(LONG, WINDOW);
        assert_eq!(estimate.choose(), Choice::Try);
    }

    #[test]
    fn a_long_function_is_known_after_its_first_call() {
        let mut estimate = Estimate::default();
        assert_eq!(run(&mut estimate, times(LONG, 100), true), (1, 99));
    }

    #[test]
    fn a_function_that_becomes_long_is_noticed_within_three_retaken_calls() {
        let mut estimate = Estimate::default();
        run(&mut estimate, times(SHORT, 10_000), true);
        let (_, moved) = run(&mut estimate, times(LONG, 100), true);
        assert!(moved >= 97, "{moved}");
    }

    #[test]
    fn a_function_that_becomes_long_while_nobody_waits_is_noticed_by_measuring() {
        let mut estimate = Estimate::default();
        run(&mut estimate, times(SHORT, 10_000), false);
        let (_, moved) = run(&mut estimate, times(LONG, 600), false);
        assert!(moved > 300, "{moved}");
    }

    #[test]
    fn a_function_that_becomes_short_is_noticed_within_20_calls() {
        let mut estimate = Estimate::default();
        run(&mut estimate, times(LONG, 100), true);
        run(&mut estimate, times(SHORT, 20), true);
        assert_eq!(estimate.class(), Class::Short);
    }

    #[test]
    fn one_long_call_among_a_thousand_changes_nothing() {
        let mut estimate = Estimate::default();
        let mixed = (0..200_000).map(|index| if index % 1000 == 999 { LONG } else { SHORT });
        let (_, moved) = run(&mut estimate, mixed, true);
        assert_eq!(moved, 0);
    }

    #[test]
    fn every_second_call_long_is_long() {
        let mut estimate = Estimate::default();
        let mixed = (0..1000).map(|index| if index % 2 == 0 { LONG } else { SHORT });
        let (_, moved) = run(&mut estimate, mixed, true);
        assert!(moved > 900, "{moved}");
    }

    #[test]
    fn what_is_declared_is_not_learned() {
        let mut policy = Policy::Declared(Class::Short);
        policy.retaken();
        policy.measured(LONG, WINDOW);
        assert_eq!(policy.choose(), Choice::Stay);
        assert_eq!(Policy::Declared(Class::Long).choose(), Choice::Move);
        assert_eq!(Policy::default().choose(), Choice::Try);
    }

    #[test]
    fn a_call_is_trusted_to_be_short_once_one_was() {
        let mut estimate = Estimate::default();
        let _ = estimate.choose();
        estimate.measured(SHORT, WINDOW);
        let trusted = std::iter::repeat_with(|| estimate.choose()).take(4);
        assert!(trusted.into_iter().all(|choice| choice != Choice::Try));
        estimate.retaken();
        assert_eq!(estimate.class(), Class::Long);
        run(&mut estimate, times(SHORT, 20), true);
        assert_ne!(estimate.choose(), Choice::Try);
    }
}
