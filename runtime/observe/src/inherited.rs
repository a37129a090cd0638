//! Connections that a fork's child inherits, although the threads that serve them are not there.
//!
//! A client would wait for the child's end, too. So each connection is noted while it is served,
//! and the child closes what is noted. One that is forked right before a note is made, or right
//! after it was taken back, stays open in the child; that is harmless.
//!
//! The child may have closed descriptors and opened its own before it gets to that. So a note says
//! which socket it means, and the child closes nothing else.
//!
//! | slot's number | its socket | left by |
//! |---|---|---|
//! | `NONE` | of no meaning | `Noted::new`, which claims it |
//! | `CLAIMED` | is being written by the claimer | its store of the number |
//! | a descriptor | what was open then | `Noted`'s end; `connections`, in a child |

use rustix::fs::fstat;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

/// No descriptor.
const NONE: RawFd = -1;

/// The slot is being written.
const CLAIMED: RawFd = -2;

/// The most descriptors that are noted: three for each client of an observer, and those of the
/// exporter and the listeners. What is more is not noted.
const ROOM: usize = 64;

struct Slot {
    number: AtomicI32,
    device: AtomicU64,
    inode: AtomicU64,
}

static OPEN: [Slot; ROOM] = [const {
    Slot {
        number: AtomicI32::new(NONE),
        device: AtomicU64::new(0),
        inode: AtomicU64::new(0),
    }
}; ROOM];

/// What identifies an open file: its device and inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity(u64, u64);

impl Identity {
    /// `None`: it is not open.
    fn of(descriptor: impl AsFd) -> Option<Identity> {
        let found = fstat(descriptor).ok()?;
        #[allow(
            clippy::unnecessary_cast,
            clippy::cast_sign_loss,
            reason = "the types differ between systems"
        )]
        Some(Identity(found.st_dev as u64, found.st_ino as u64))
    }
}

/// A note that a descriptor is open. It is taken back when this is dropped, before the descriptor
/// is closed.
#[derive(Debug)]
pub(crate) struct Noted(Option<&'static AtomicI32>);

impl Noted {
    pub(crate) fn new(descriptor: &impl AsFd) -> Noted {
        let descriptor = descriptor.as_fd();
        let Some(Identity(device, inode)) = Identity::of(descriptor) else {
            return Noted(None);
        };
        // Relaxed: a slot is one thread's, from its exchange to its last store.
        let claim = |slot: &&'static Slot| {
            slot.number
                .compare_exchange(NONE, CLAIMED, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
        };
        let slot = OPEN.iter().find(claim);
        if let Some(slot) = slot {
            slot.device.store(device, Ordering::Relaxed);
            slot.inode.store(inode, Ordering::Relaxed);
            // Release: pairs with the Acquire of `connections`.
            slot.number.store(descriptor.as_raw_fd(), Ordering::Release);
        }
        Noted(slot.map(|slot| &slot.number))
    }
}

impl Drop for Noted {
    fn drop(&mut self) {
        if let Some(number) = self.0 {
            // Relaxed: as in `new`.
            number.store(NONE, Ordering::Relaxed);
        }
    }
}

/// A connection of the first program, or a socket on which it listens.
#[derive(Clone, Copy, Debug)]
pub struct Inherited {
    number: RawFd,
    identity: Identity,
}

impl Inherited {
    /// Its descriptor, which may be closed or another file's by now.
    pub fn number(&self) -> RawFd {
        self.number
    }

    /// Whether this descriptor is still that connection.
    pub fn is(&self, descriptor: impl AsFd) -> bool {
        Identity::of(descriptor) == Some(self.identity)
    }
}

/// What a fork's child has inherited. Each is returned once, for the child to close.
pub fn connections() -> impl Iterator<Item = Inherited> {
    OPEN.iter().filter_map(|slot| {
        // Acquire: pairs with the Release of `Noted::new`. Relaxed: the child's only thread.
        let number = slot.number.swap(NONE, Ordering::Acquire);
        let identity = Identity(
            slot.device.load(Ordering::Relaxed),
            slot.inode.load(Ordering::Relaxed),
        );
        (number >= 0).then_some(Inherited { number, identity })
    })
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
                .any(|slot| slot.number.load(Ordering::Relaxed) == number)
        };
        assert!(is_noted(&one) && is_noted(&other));
        drop(noted);
        assert!(!is_noted(&one) && !is_noted(&other));
    }

    #[test]
    fn a_connection_is_told_from_another_with_its_number() {
        let (one, other) = UnixStream::pair().expect("a pair");
        let connection = Inherited {
            number: one.as_raw_fd(),
            identity: Identity::of(&one).expect("it is open"),
        };
        let file = std::fs::File::open("/dev/null").expect("it is there");
        assert!(connection.is(&one) && connection.is(one.try_clone().expect("a handle")));
        assert!(!connection.is(&other) && !connection.is(&file));
    }
}
