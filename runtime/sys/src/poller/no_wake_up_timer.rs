//! Wake-up timers where timers are no descriptors: there are none.

use crate::clock::Instant;
use std::convert::Infallible;
use std::io;
use std::os::fd::RawFd;

/// Cannot be made here.
pub struct WakeUpTimer(Infallible);

impl WakeUpTimer {
    /// There is none.
    ///
    /// # Errors
    ///
    /// Always [`io::ErrorKind::Unsupported`].
    pub fn new() -> io::Result<WakeUpTimer> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// The descriptor to be watched.
    #[must_use]
    pub fn fd(&self) -> RawFd {
        match self.0 {}
    }

    /// Goes off at `at`.
    ///
    /// # Errors
    ///
    /// None.
    pub fn set(&self, _at: Instant) -> io::Result<()> {
        match self.0 {}
    }

    /// Does not go off any more.
    pub fn clear(&self) {
        match self.0 {}
    }

    /// In a fork's child: takes a timer of its own.
    ///
    /// # Errors
    ///
    /// None.
    pub fn reopen_after_fork(&self) -> io::Result<()> {
        match self.0 {}
    }
}
