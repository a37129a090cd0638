//! A run that has ended.

use std::time::Duration;

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// With this exit status.
    Exited(i32),
    /// By this signal.
    Signalled(i32),
    /// It was killed at its time limit.
    TookTooLong,
    /// It was killed, as its result does not matter any more.
    NotNeeded,
}

/// A run that has ended.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) ending: Ending,
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: Vec<u8>,
    pub(super) took: Duration,
}
