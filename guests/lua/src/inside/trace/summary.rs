//! What a trace comes to, in a few numbers.

use serde::Serialize;
use std::cmp::Reverse;
use std::time::Duration;

/// The maximal number of processes that are kept of those that have ended.
const MOST_ENDED: usize = 10_000;

/// How many are left when there are too many.
const LEFT: usize = 1000;

/// How many are told.
const MOST_TOLD: usize = 10;

/// The numbers of a trace.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Summary {
    /// How many events there are, and how many were overwritten before they could be read.
    pub(crate) events: u64,
    pub(crate) lost: u64,
    /// The time from the first event to the last one.
    pub(crate) seconds: f64,
    /// The time in which no process was runnable, in seconds.
    pub(crate) idle: f64,
    /// How many processes have run.
    pub(crate) processes: u64,
    /// How often a process was switched to.
    pub(crate) runs: u64,
    /// How many calls others ran beside.
    pub(crate) calls: u64,
    /// How late the latest deadline was, in seconds.
    pub(crate) latest: f64,
    /// The processes that ran for longest.
    pub(crate) busiest: Vec<Busy>,
}

/// A process that ran.
#[derive(Debug, Serialize)]
pub(crate) struct Busy {
    pub(crate) process: String,
    pub(crate) seconds: f64,
    pub(crate) runs: u64,
}

impl Summary {
    /// Adds a process that does not run any more.
    pub(super) fn add(&mut self, title: String, ran: Duration, runs: u64) {
        if runs == 0 {
            return;
        }
        self.processes += 1;
        self.busiest.push(Busy {
            process: title,
            seconds: ran.as_secs_f64(),
            runs,
        });
        if self.busiest.len() > MOST_ENDED {
            self.keep(LEFT);
        }
    }

    /// Leaves only the processes that are told.
    pub(super) fn finish(&mut self) {
        self.keep(MOST_TOLD);
    }

    fn keep(&mut self, count: usize) {
        // Nanoseconds, as numbers with a fraction have no order.
        let nanos = |busy: &Busy| Duration::from_secs_f64(busy.seconds).as_nanos();
        self.busiest.sort_by_key(|busy| Reverse(nanos(busy)));
        self.busiest.truncate(count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busiest_are_told_however_many_there_were() {
        let mut summary = Summary::default();
        for number in 0..25_000_u64 {
            let ran = Duration::from_micros(number % 1000);
            summary.add(format!("process {number}"), ran, 1);
        }
        summary.add("never".to_owned(), Duration::ZERO, 0);
        summary.finish();
        assert_eq!(
            (summary.processes, summary.busiest.len()),
            (25_000, MOST_TOLD)
        );
        assert!(summary.busiest.iter().all(|busy| busy.seconds >= 0.000_998));
    }
}
