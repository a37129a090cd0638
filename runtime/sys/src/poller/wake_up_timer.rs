//! A time at which the waiter of a poller wakes up, set by another thread than the one that waits:
//! a timer that is a descriptor.
//!
//! To set or clear it is one system call, and wakes nobody before its time. It is registered by
//! [`Poller::watch`](super::Poller::watch) with the poller whose waiter it is to wake.

use super::backend::{DISARMED, create_timer, replace, set_timer};
use crate::clock::Instant;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// A timer that is not set yet.
pub struct WakeUpTimer {
    timer: OwnedFd,
}

impl WakeUpTimer {
    /// Opens the descriptor, closed on exec.
    ///
    /// # Errors
    ///
    /// When the system refuses, usually because the program has too many descriptors open; always
    /// where systems have no such timers.
    pub fn new() -> io::Result<WakeUpTimer> {
        Ok(WakeUpTimer {
            timer: create_timer()?,
        })
    }

    /// The descriptor to be watched.
    #[must_use]
    pub fn fd(&self) -> RawFd {
        self.timer.as_raw_fd()
    }

    /// Goes off at `at`, at once if that is past, and not at the time it was set to before.
    ///
    /// # Errors
    ///
    /// None is known for a timer that was made.
    pub fn set(&self, at: Instant) -> io::Result<()> {
        set_timer(&self.timer, at.as_nanos().max(1))
    }

    /// Does not go off any more. What a wait has already taken from the kernel stays taken.
    pub fn clear(&self) {
        // No error is known, and to go off in vain would harm nobody.
        let _ = set_timer(&self.timer, DISARMED);
    }

    /// In a fork's child: takes a timer of its own in place of the one shared with the parent, at
    /// the same number; it must be watched anew.
    ///
    /// # Errors
    ///
    /// When the system refuses the new timer.
    pub fn reopen_after_fork(&self) -> io::Result<()> {
        replace(&self.timer, create_timer()?)
    }
}
