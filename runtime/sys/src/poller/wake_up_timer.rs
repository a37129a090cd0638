//! Wake-up timers: another thread sets the time at which the waiter of a poller wakes up. Such a
//! timer is a descriptor.
//!
//! To set or clear it is one system call, and wakes no thread before its time.
//! [`Poller::watch`](super::Poller::watch) registers it with the poller whose waiter it wakes.

use super::backend::{create_timer, replace, set_timer};
use crate::clock::Instant;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// A timer descriptor.
pub struct WakeUpTimer {
    timer: OwnedFd,
}

impl WakeUpTimer {
    /// Opens a timer, which is not set. The descriptor is closed on exec.
    ///
    /// # Errors
    ///
    /// When the system refuses, usually because the program has too many descriptors open. Always
    /// on systems without such timers.
    pub fn new() -> io::Result<WakeUpTimer> {
        Ok(WakeUpTimer {
            timer: create_timer()?,
        })
    }

    /// The descriptor to watch.
    #[must_use]
    pub fn fd(&self) -> RawFd {
        self.timer.as_raw_fd()
    }

    /// Sets the timer to expire at `at` instead of any earlier setting; at once if that is past.
    ///
    /// # Errors
    ///
    /// None is known for an open timer.
    pub fn set(&self, at: Instant) -> io::Result<()> {
        set_timer(&self.timer, Some(at - Instant::now()))
    }

    /// Clears the timer. An event that a wait has already taken from the kernel stays taken.
    pub fn clear(&self) {
        // No error is known, and a needless wake-up would do no harm.
        let _ = set_timer(&self.timer, None);
    }

    /// Replaces the timer that a fork's child shares with its parent, at the same descriptor
    /// number. It must be registered again.
    ///
    /// # Errors
    ///
    /// When the system refuses the new timer.
    pub fn reopen_after_fork(&self) -> io::Result<()> {
        replace(&self.timer, create_timer()?)
    }
}
