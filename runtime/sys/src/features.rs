//! The mechanisms in use on this machine and in this build, where there are fallbacks.

use std::fmt;

use crate::clock;
use crate::membarrier;
use crate::platform;
use crate::poller::Poller;
use crate::stack::GuardKind;

/// The mechanisms in use, for `baton --version --verbose`, error reports and statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    /// Whether the VM lock's fast path uses `membarrier`; otherwise it uses compare-and-swap.
    pub membarrier: bool,
    /// How stack guards are made: `"madvise"` or `"mprotect"`.
    pub guard_pages: &'static str,
    /// How deadlines reach the kernel: `"epoll_pwait2"`, `"timerfd"` or `"polling"`; `"none"` when
    /// no poller can be opened.
    pub poller: &'static str,
    /// The clock of all deadlines: `"CLOCK_MONOTONIC"`, or `"simulated"`.
    pub clock: &'static str,
    /// The processor architecture.
    pub architecture: &'static str,
}

/// Reads the system's features. Opens and closes a poller, so keep the result.
#[must_use]
pub fn features() -> Features {
    Features {
        membarrier: membarrier::available(),
        guard_pages: match GuardKind::detect() {
            GuardKind::Madvise => "madvise",
            GuardKind::Mprotect => "mprotect",
        },
        poller: Poller::new().map_or("none", |poller| poller.timer_name()),
        clock: if clock::is_simulated() {
            "simulated"
        } else {
            "CLOCK_MONOTONIC"
        },
        architecture: std::env::consts::ARCH,
    }
}

impl fmt::Display for Features {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lock = if self.membarrier {
            "membarrier"
        } else {
            "compare-and-swap"
        };
        let Features {
            guard_pages,
            poller,
            clock,
            architecture,
            ..
        } = self;
        write!(
            formatter,
            "lock: {lock}, guards: {guard_pages}, poller: {poller}, clock: {clock}, architecture: \
             {architecture}"
        )
    }
}

/// Whether the program has more rights than the user who has started it, as a setuid program has
/// (`AT_SECURE` on Linux). Then it should not trust its environment.
pub fn has_more_rights_than_its_user() -> bool {
    platform::has_more_rights_than_its_user()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forced_fallbacks_show_in_the_summary() {
        let features = features();
        if cfg!(baton_cas) {
            assert!(!features.membarrier);
        }
        if cfg!(baton_portable) {
            assert_eq!(features.poller, "polling");
        } else if cfg!(baton_timerfd) {
            assert_eq!(features.poller, "timerfd");
        }
        if cfg!(baton_mprotect_guards) {
            assert_eq!(features.guard_pages, "mprotect");
        }
        assert!(features.to_string().contains(features.poller));
        assert!(["epoll_pwait2", "timerfd", "polling"].contains(&features.poller));
    }
}
