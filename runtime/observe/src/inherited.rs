//! Connections that a fork's child inherits, although the threads that serve them are not there.
//!
//! A client would wait for the child's end, too. So each connection is noted while it is served,
//! and the child closes what is noted. One that is forked right before a note is made, or right
//! after it was taken back, stays open in the child; that is harmless.

use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicI32, Ordering};

/// No descriptor.
const NONE: RawFd = -1;

/// The most descriptors that are noted: more than there are clients and listeners.
const ROOM: usize = 24;

static OPEN: [AtomicI32; ROOM] = [const { AtomicI32::new(NONE) }; ROOM];

/// A note that a descriptor is open. It is taken back when this is dropped, before the descriptor
/// is closed.
pub(crate) struct Noted(Option<&'static AtomicI32>);

impl Noted {
    pub(crate) fn new(descriptor: &impl AsRawFd) -> Noted {
        let number = descriptor.as_raw_fd();
        // Relaxed: a slot is one thread's, from its exchange to its store.
        let take = |slot: &&'static AtomicI32| {
            slot.compare_exchange(NONE, number, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
        };
        Noted(OPEN.iter().find(take))
    }
}

impl Drop for Noted {
    fn drop(&mut self) {
        if let Some(slot) = self.0 {
            // Relaxed: as above.
            slot.store(NONE, Ordering::Relaxed);
        }
    }
}

/// The connections of the first program that a fork's child has inherited. Each is returned once,
/// for the child to close.
pub fn descriptors() -> impl Iterator<Item = RawFd> {
    // Relaxed: the child's only thread.
    let taken = OPEN.iter().map(|slot| slot.swap(NONE, Ordering::Relaxed));
    taken.filter(|&descriptor| descriptor != NONE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn what_is_served_is_noted_until_it_is_not() {
        let (one, other) = UnixStream::pair().expect("a pair");
        let noted = [Noted::new(&one), Noted::new(&other)];
        let is_noted = |stream: &UnixStream| {
            let number = stream.as_raw_fd();
            OPEN.iter()
                .any(|slot| slot.load(Ordering::Relaxed) == number)
        };
        assert!(is_noted(&one) && is_noted(&other));
        drop(noted);
        assert!(!is_noted(&one) && !is_noted(&other));
    }
}
