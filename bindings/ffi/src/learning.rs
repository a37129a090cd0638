//! Learns which functions are slow, from how long their calls take.
//!
//! A call may run on its caller's native thread, or be offloaded to another one. Staying costs
//! nothing if the call is short. If it outlasts the watchdog's window, other processes wait for the
//! window and for the VM to be handed over. Offloading always costs a handover. So a function is
//! *long* when calls beyond the window are so frequent that offloading all of them costs less.
//!
//! This file only decides; the caller measures. Short calls must cost no more than a counter. So
//! the caller may make several calls without asking ([`Policy::calls_to_skip`]), and then reports
//! their number ([`Policy::skipped`]). Of a short function's calls, only one in `MOST_APART` is
//! measured. The caller also reports each call that the watchdog retakes. So a change is noticed at
//! the first call that made other processes wait.

use std::time::Duration;

/// The class of a function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// Its calls stay on the caller's thread.
    Short,
    /// Its calls are offloaded to another thread.
    Long,
}

/// How to make the next call.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Choice {
    /// Make it here, and do not measure it.
    Stay,
    /// Make it here, and report how long it took.
    StayAndMeasure,
    /// Make it here and report how long it took, but expect that it may be long. Either nothing is
    /// known yet, or recent calls were long. One long call among many does not count, because the
    /// kernel may simply not have run its thread.
    Try,
    /// Make it on another thread, and report how long it took.
    Move,
}

/// A share of the calls, in units of 1/65536.
type Share = u32;
const ONE: Share = 1 << 16;

/// Above this share of long calls, a function becomes long. The value fits a handover that costs
/// about a fifth of the window and handover together.
const BECOMES_LONG: Share = ONE / 4;
/// Below this share of long calls, a long function becomes short again.
const BECOMES_SHORT: Share = ONE / 8;
/// The number of samples after which the weight of a sample stops shrinking. A sample's weight is 1
/// / (number of samples) before, and 1 / `MEMORY` from then on.
const MEMORY: u32 = 8;
/// The largest distance, in calls, between two measured calls of a short function.
const MOST_APART: u32 = 256;

/// The estimate for one function. Only the VM's owner changes it.
#[derive(Clone, Copy, Debug)]
pub struct Estimate {
    long_share: Share,
    samples: u32,
    /// The distance between two measured calls, while the function is short.
    apart: u32,
    /// The number of calls since the last measured one.
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
    /// The function's class, as known now.
    pub fn class(&self) -> Class {
        self.class
    }

    /// How to make the next call.
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

    /// How many of the next calls may stay on the thread without asking.
    pub fn calls_to_skip(&self) -> u32 {
        match self.class {
            Class::Long => 0,
            Class::Short => self.apart.saturating_sub(self.unmeasured + 1),
        }
    }

    /// Reports that `calls` calls were made without asking.
    pub fn skipped(&mut self, calls: u32) {
        self.unmeasured = self.unmeasured.saturating_add(calls);
    }

    /// Reports that a measured call took `duration`. `window` is the time after which calls are
    /// retaken.
    pub fn measured(&mut self, duration: Duration, window: Duration) {
        let is_long = duration >= window;
        self.sample(is_long);
        self.apart = if is_long {
            1
        } else {
            (self.apart * 2).min(MOST_APART)
        };
    }

    /// Reports that an unmeasured call was retaken: it was long, and other processes waited. The
    /// unmeasured calls before it were not retaken.
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
        // A moving average. It begins as a plain average of the samples so far.
        self.long_share = self.long_share - self.long_share / self.samples + sample / self.samples;
        self.class = match self.class {
            Class::Short if self.long_share > BECOMES_LONG => Class::Long,
            Class::Long if self.long_share < BECOMES_SHORT => Class::Short,
            same => same,
        };
    }
}

/// How a function's calls are made: as declared, or as learned.
#[derive(Clone, Copy, Debug)]
pub enum Policy {
    /// The program declared the function short or long.
    Declared(Class),
    /// The program declared `auto`, so the class is learned.
    Learned(Estimate),
}

impl Default for Policy {
    fn default() -> Self {
        Policy::Learned(Estimate::default())
    }
}

impl Policy {
    /// How to make the next call.
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

    /// Makes calls of these lengths, as a caller would. Returns how many were measured and how many
    /// were offloaded.
    fn run(
        estimate: &mut Estimate,
        lengths: impl IntoIterator<Item = Duration>,
        others_wait: bool,
    ) -> (u32, u32) {
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
    fn calls_made_without_asking_give_the_same_estimate() {
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
    fn one_long_call_among_many_offloads_none() {
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
    fn a_function_that_becomes_long_is_noticed_by_measuring_if_no_process_waits() {
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
    fn a_declared_class_is_not_learned() {
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
