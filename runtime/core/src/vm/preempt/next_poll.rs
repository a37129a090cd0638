//! When the monitor polls a VM next.

use baton_sys::clock::Instant;
use std::time::Duration;

/// The longest time between two polls while anything may need watching. Only a process that
/// computes while others wait may be polled less often: `vm/preempt/decide.rs`.
pub(crate) const TICK: Duration = Duration::from_millis(2);

/// When a VM wants to be polled next. By default, not before an alert.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NextPoll {
    /// At this time.
    At(Instant),
    /// Nothing needs watching until an alert, or until this time.
    Quiet(Option<Instant>),
}

impl Default for NextPoll {
    fn default() -> Self {
        NextPoll::Quiet(None)
    }
}

impl NextPoll {
    /// As `self`, but at `latest` if it is later. A quiet VM stays quiet: earlier work alerts the
    /// monitor.
    pub(crate) fn no_later_than(self, latest: Instant) -> NextPoll {
        match self {
            NextPoll::At(at) => NextPoll::At(at.min(latest)),
            NextPoll::Quiet(until) => {
                NextPoll::Quiet(Some(until.map_or(latest, |until| until.min(latest))))
            }
        }
    }

    /// The earlier of the polls that two VMs want.
    pub(super) fn and(self, other: NextPoll) -> NextPoll {
        match (self, other) {
            (NextPoll::Quiet(a), NextPoll::Quiet(b)) => {
                NextPoll::Quiet(a.into_iter().chain(b).min())
            }
            (NextPoll::At(a), NextPoll::At(b)) => NextPoll::At(a.min(b)),
            (NextPoll::At(at), NextPoll::Quiet(until))
            | (NextPoll::Quiet(until), NextPoll::At(at)) => {
                NextPoll::At(until.map_or(at, |until| at.min(until)))
            }
        }
    }
}
