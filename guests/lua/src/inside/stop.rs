//! Ending a question early, and other news from one thread to another that waits.
//!
//! (A channel of the standard library would register a destructor with the thread, which waits
//! while a library is being loaded.)

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// A request to stop, which ends waits at once. The flag is changed under the mutex, and a wait
/// reads it under the mutex before it sleeps: no request is lost.
#[derive(Debug, Default)]
pub(super) struct Stop {
    stopped: Mutex<bool>,
    changed: Condvar,
}

impl Stop {
    pub(super) fn request(&self) {
        *self.stopped.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }

    /// Waits for so long, or until the request. Returns whether it has come.
    pub(super) fn wait(&self, time: Duration) -> bool {
        let stopped = self.stopped.lock().unwrap_or_else(PoisonError::into_inner);
        let (stopped, _) = self
            .changed
            .wait_timeout_while(stopped, time, |stopped| !*stopped)
            .unwrap_or_else(PoisonError::into_inner);
        *stopped
    }
}
