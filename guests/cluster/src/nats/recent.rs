//! Counts what has happened a short time ago.

use std::time::{Duration, Instant};

/// The time in which is counted.
pub(super) const SPAN: Duration = Duration::from_millis(100);

/// How many jobs, and how many bytes they have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Count {
    pub(super) jobs: usize,
    pub(super) bytes: usize,
}

/// Counts jobs in the last [`SPAN`], in two halves: the present one and the one before.
#[derive(Debug)]
pub(super) struct Recent {
    began: Instant,
    present: Count,
    before: Count,
}

impl Recent {
    pub(super) fn new(now: Instant) -> Recent {
        Recent {
            began: now,
            present: Count::default(),
            before: Count::default(),
        }
    }

    pub(super) fn note(&mut self, jobs: usize, bytes: usize, now: Instant) {
        self.turn(now);
        self.present.jobs += jobs;
        self.present.bytes += bytes;
    }

    pub(super) fn count(&mut self, now: Instant) -> Count {
        self.turn(now);
        Count {
            jobs: self.present.jobs + self.before.jobs,
            bytes: self.present.bytes + self.before.bytes,
        }
    }

    fn turn(&mut self, now: Instant) {
        let elapsed = now.saturating_duration_since(self.began);
        if elapsed >= SPAN {
            (self.before, self.present) = (Count::default(), Count::default());
            self.began = now;
        } else if elapsed >= SPAN / 2 {
            self.before = std::mem::take(&mut self.present);
            self.began += SPAN / 2;
        }
    }
}
