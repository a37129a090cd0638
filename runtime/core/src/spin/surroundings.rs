//! Whether spinning is acceptable on this machine. It is not in these cases:
//!
//! - There is one CPU: the thread that is waited for cannot run during the spin. If calls are out,
//!   that is a thread of this program, and what counts is how many CPUs the program may use.
//!   Otherwise it is any thread of this machine, or of another one.
//! - There is a quota: spinning uses up what the work needs, and the program is throttled.
//! - Threads wait for a CPU: a spin keeps one of them waiting.
//! - The hypervisor takes time away (steal): the spin uses a CPU that another guest needs.

use super::Source;
use baton_sys::clock::Instant;
use baton_sys::processors::Reading;
use std::time::Duration;

/// How long a reading is used. A reading costs some microseconds.
pub const HOLDS: Duration = Duration::from_secs(5);

/// The largest share of steal in the CPU time between two readings.
const STEAL: f64 = 0.02;

/// The largest share of time in which some thread waited for a CPU. A program that passes work to
/// and fro between two threads stays below it.
const PRESSURE: f64 = 0.10;

/// Whether `learned` may spin, and if not, why.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It may.
    MaySpin,
    /// There is only one CPU for this program and what it waits for.
    OneCpu,
    /// CPU time is limited by quota.
    Quota,
    /// More threads are runnable than there are CPUs.
    Overload,
    /// The hypervisor gives the CPU to other guests.
    Steal,
}

/// The last reading, and the verdict.
#[derive(Debug, Default)]
pub struct Surroundings {
    last: Option<(Instant, Reading)>,
    steal_rises: bool,
}

impl Surroundings {
    /// Whether a new reading is due.
    pub fn are_stale(&self, now: Instant) -> bool {
        self.last.is_none_or(|(read, _)| now - read >= HOLDS)
    }

    /// Takes in a reading.
    pub fn note(&mut self, now: Instant, reading: Reading) {
        if let Some((_, before)) = self.last.replace((now, reading)) {
            let stolen = reading.stolen.saturating_sub(before.stolen) as f64;
            let total = reading.total.saturating_sub(before.total) as f64;
            self.steal_rises = stolen > STEAL * total;
        }
    }

    /// How many owners may spin at once: half of the CPUs, as each waits for a thread that needs
    /// one, too. One before the first reading.
    pub fn most_spinners(&self) -> usize {
        self.last.map_or(1, |(_, reading)| reading.cpus / 2).max(1)
    }

    /// The verdict on a wait for events of this source. Before the first reading, no spin is
    /// allowed.
    pub fn verdict(&self, source: Source) -> Verdict {
        let cpus = |reading: Reading| match source {
            Source::Calls => reading.cpus,
            Source::Outside => reading.machine,
        };
        match self.last {
            None => Verdict::OneCpu,
            Some((_, reading)) if cpus(reading) < 2 => Verdict::OneCpu,
            Some((_, reading)) if reading.quota => Verdict::Quota,
            Some((_, reading)) if reading.pressure > PRESSURE => Verdict::Overload,
            Some(_) if self.steal_rises => Verdict::Steal,
            Some(_) => Verdict::MaySpin,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUIET: Reading = Reading {
        cpus: 2,
        machine: 2,
        quota: false,
        pressure: 0.03,
        stolen: 900,
        total: 100_000,
    };

    fn at(seconds: u64) -> Instant {
        Instant::from_nanos(seconds * 1_000_000_000)
    }

    fn judged(readings: &[Reading]) -> Verdict {
        let mut surroundings = Surroundings::default();
        for (second, &reading) in (0..).zip(readings) {
            surroundings.note(at(second), reading);
        }
        surroundings.verdict(Source::Calls)
    }

    #[test]
    fn two_cpus_without_a_quota_may_spin() {
        assert_eq!(judged(&[QUIET]), Verdict::MaySpin);
        assert_eq!(judged(&[QUIET, QUIET]), Verdict::MaySpin);
    }

    #[test]
    fn a_program_on_one_cpu_may_spin_for_what_runs_on_another() {
        let pinned = Reading { cpus: 1, ..QUIET };
        let mut surroundings = Surroundings::default();
        surroundings.note(at(0), pinned);
        assert_eq!(surroundings.verdict(Source::Outside), Verdict::MaySpin);
        assert_eq!(surroundings.verdict(Source::Calls), Verdict::OneCpu);
        let machine = Reading {
            machine: 1,
            ..pinned
        };
        surroundings.note(at(1), machine);
        assert_eq!(surroundings.verdict(Source::Outside), Verdict::OneCpu);
    }

    #[test]
    fn one_cpu_and_a_quota_forbid_it() {
        assert_eq!(judged(&[Reading { cpus: 1, ..QUIET }]), Verdict::OneCpu);
        assert_eq!(
            judged(&[Reading {
                quota: true,
                ..QUIET
            }]),
            Verdict::Quota
        );
        assert_eq!(judged(&[]), Verdict::OneCpu);
    }

    #[test]
    fn an_overloaded_machine_forbids_it_while_it_lasts() {
        let overloaded = Reading {
            pressure: 0.25,
            ..QUIET
        };
        assert_eq!(judged(&[QUIET, overloaded]), Verdict::Overload);
        assert_eq!(judged(&[overloaded, QUIET]), Verdict::MaySpin);
    }

    #[test]
    fn steal_forbids_it_while_it_rises_and_not_for_what_was_before() {
        let stolen = Reading {
            stolen: QUIET.stolen + 30,
            total: QUIET.total + 1000,
            ..QUIET
        };
        assert_eq!(judged(&[QUIET, stolen]), Verdict::Steal);
        let over = Reading {
            stolen: stolen.stolen + 10,
            total: stolen.total + 1000,
            ..QUIET
        };
        assert_eq!(judged(&[QUIET, stolen, over]), Verdict::MaySpin);
    }

    #[test]
    fn a_reading_holds_for_a_while() {
        let mut surroundings = Surroundings::default();
        assert!(surroundings.are_stale(at(0)));
        surroundings.note(at(0), QUIET);
        assert!(!surroundings.are_stale(at(4)));
        assert!(surroundings.are_stale(at(5)));
    }
}
