//! Wake-up timers on systems without timer descriptors: not supported.

use crate::clock::Instant;
use std::convert::Infallible;
use std::io;
use std::os::fd::RawFd;

/// A type without values.
pub struct WakeUpTimer(Infallible);

impl WakeUpTimer {
    /// Always fails.
    ///
    /// # Errors
    ///
    /// Always [`io::ErrorKind::Unsupported`].
    pub fn new() -> io::Result<WakeUpTimer> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// The descriptor to watch.
    #[must_use]
    pub fn fd(&self) -> RawFd {
        match self.0 {}
    }

    /// Sets the timer to expire at `at`.
    ///
    /// # Errors
    ///
    /// None.
    pub fn set(&self, _at: Instant) -> io::Result<()> {
        match self.0 {}
    }

    /// Clears the timer.
    pub fn clear(&self) {
        match self.0 {}
    }

    /// Replaces the timer in a fork's child.
    ///
    /// # Errors
    ///
    /// None.
    pub fn reopen_after_fork(&self) -> io::Result<()> {
        match self.0 {}
    }
}
