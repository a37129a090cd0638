//! A pile: any thread puts records on it, and a thread that takes gets all of them at once.
//!
//! The records are the caller's, and begin with a [`Link`]. A pile allocates nothing. It is a list,
//! newest first, behind one atomic pointer. A record is put on it by compare-and-swap. A take swaps
//! the whole list out.
//!
//! | `newest` | edge | made by |
//! |---|---|---|
//! | null -> record | [`Put::First`] | [`Pile::put`] |
//! | record -> newer record | [`Put::OnTop`] | [`Pile::put`] |
//! | any -> null | the taker has the list | [`Pile::take_all`] |
//!
//! Records are never taken one by one. So there is no ABA problem: if `newest` is a record that
//! was taken and put back in between, a put links its record to that one, which is the newest.
//! Several threads may take: each record goes to one of them.
//!
//! A put wakes no thread. The inbox and its owner have a protocol for that (`parking`); spare
//! blocks of messages are looked for when they are needed, and nobody waits for one. A look by a
//! thread that knows of a put, because it was told of it or made it, finds the record: `newest` is
//! one atomic, and later accesses to it see no older value.
//!
//! Checked by the loom tests `tests/loom_pile.rs` and `tests/loom_inbox.rs`.

#[cfg(loom)]
use loom::sync::atomic::AtomicPtr;
use std::ptr::{self, NonNull};
#[cfg(not(loom))]
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering;

/// The state of the pile before a put.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// It was empty.
    First,
    /// There were earlier records, which nobody has taken yet.
    OnTop,
}

/// The first field of a record.
#[repr(C)]
#[derive(Debug)]
pub struct Link {
    /// The link of the record that was put before this one, or null. Belongs to the thread that
    /// puts the record, and to its taker afterwards.
    pub below: *mut Link,
}

impl Link {
    /// A link of a record that is on no pile.
    #[must_use]
    pub const fn new() -> Link {
        Link {
            below: ptr::null_mut(),
        }
    }
}

impl Default for Link {
    fn default() -> Link {
        Link::new()
    }
}

/// Records from any thread.
#[derive(Debug)]
pub struct Pile {
    /// The link of the newest record, or null. A thread that swaps it out owns it and all records
    /// below.
    newest: AtomicPtr<Link>,
}

impl Pile {
    /// An empty pile.
    #[cfg(not(loom))]
    #[must_use]
    pub const fn new() -> Pile {
        Pile {
            newest: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// An empty pile. Loom's atomics are not constants.
    #[cfg(loom)]
    #[must_use]
    pub fn new() -> Pile {
        Pile {
            newest: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// Puts a record on the pile. Never blocks.
    ///
    /// # Safety
    /// 1. The record is the caller's alone.
    /// 2. Until it is taken, it stays valid, and nobody uses it.
    pub unsafe fn put(&self, record: NonNull<Link>) -> Put {
        let record = record.as_ptr();
        // Relaxed: the value is only compared and stored, not followed.
        let mut newest = self.newest.load(Ordering::Relaxed);
        loop {
            // SAFETY: the record is the caller's alone (1), as it is not on the pile yet.
            unsafe { (*record).below = newest };
            // Release: publishes what was done with the record; pairs with the Acquire swap in
            // `take_all`. The records below were published by exchanges that this one continues (a
            // release sequence), so that one swap acquires them all.
            match self.newest.compare_exchange_weak(
                newest,
                record,
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(previous) if previous.is_null() => return Put::First,
                Ok(_) => return Put::OnTop,
                Err(actual) => newest = actual,
            }
        }
    }

    /// Takes all records. Returns the link of the newest one, which leads to the others, or null.
    /// They are the caller's.
    #[must_use = "the records were taken"]
    pub fn take_all(&self) -> *mut Link {
        if self.is_empty() {
            return ptr::null_mut();
        }
        // Acquire: pairs with the Release exchanges in `put`.
        self.newest.swap(ptr::null_mut(), Ordering::Acquire)
    }

    /// Whether nothing is there.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        // Relaxed: a look. Nothing is read through the pointer.
        self.newest.load(Ordering::Relaxed).is_null()
    }
}

impl Default for Pile {
    fn default() -> Pile {
        Pile::new()
    }
}
