//! Which stack an address is in, for the handler of an overflow.
//!
//! | an entry's `start` | `end` | meaning |
//! |---|---|---|
//! | 0 | 0 | free |
//! | a mapping's | 0 | [`note`] or [`forget`] is at work |
//! | a mapping's | its end | stacks are in there, `stride` bytes apart |
//!
//! Handlers only read, and wait for nobody. A handler looks for a stack that its own thread is on,
//! whose entry does not change meanwhile. For other entries it may see anything, and checks that
//! nothing has changed while it read.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many mappings are known. Stacks in further ones are not found, so their overflows are not
/// described. All stacks of the usual size need a few mappings together; others have one each.
const MOST: usize = 1024;

struct Mapping {
    start: AtomicUsize,
    end: AtomicUsize,
    stride: AtomicUsize,
}

static MAPPINGS: [Mapping; MOST] = [const {
    Mapping {
        start: AtomicUsize::new(0),
        end: AtomicUsize::new(0),
        stride: AtomicUsize::new(0),
    }
}; MOST];

/// Where a free entry may be.
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// Notes a mapping of `size` bytes with a stack in each `stride` bytes.
pub(super) fn note(base: NonNull<u8>, size: usize, stride: usize) {
    let start = base.as_ptr() as usize;
    // Relaxed: a hint.
    let first = NEXT.load(Ordering::Relaxed);
    for number in (first..MOST).chain(0..first) {
        let mapping = &MAPPINGS[number];
        // Acquire: pairs with the store in `forget`, whose store of `end` comes first. Relaxed:
        // another entry is tried.
        let claim = mapping
            .start
            .compare_exchange(0, start, Ordering::Acquire, Ordering::Relaxed);
        if claim.is_ok() {
            // Relaxed: as above.
            NEXT.store((number + 1) % MOST, Ordering::Relaxed);
            // Relaxed: published by the next store.
            mapping.stride.store(stride, Ordering::Relaxed);
            // Release: pairs with the load in `Mapping::read`.
            mapping.end.store(start + size, Ordering::Release);
            return;
        }
    }
}

/// Forgets the mappings, if they were noted, of which these bytes are about to be unmapped. What is
/// left of such a mapping is not found any more.
pub(super) fn forget(base: NonNull<u8>, size: usize) {
    let from = base.as_ptr() as usize;
    for (number, mapping) in MAPPINGS.iter().enumerate() {
        let seen = mapping.read();
        let (start, end, _) = seen;
        if start < from + size && from < end && mapping.read() == seen {
            // Relaxed: before the next store.
            mapping.end.store(0, Ordering::Relaxed);
            // Release: pairs with the exchange in `note`.
            mapping.start.store(0, Ordering::Release);
            // Relaxed: a hint.
            NEXT.store(number, Ordering::Relaxed);
        }
    }
}

impl Mapping {
    fn read(&self) -> (usize, usize, usize) {
        // Acquire: pairs with the store in `note`.
        let end = self.end.load(Ordering::Acquire);
        // Relaxed (both): written before `end`.
        let stride = self.stride.load(Ordering::Relaxed);
        (self.start.load(Ordering::Relaxed), end, stride)
    }
}

/// The slot of an address: where it begins, and its bytes. Async-signal-safe.
pub(super) fn slot_at(address: usize) -> Option<(usize, usize)> {
    MAPPINGS.iter().find_map(|mapping| {
        let seen = mapping.read();
        let (start, end, stride) = seen;
        let is_there = start != 0 && stride != 0 && (start..end).contains(&address);
        (is_there && mapping.read() == seen)
            .then(|| (start + (address - start) / stride * stride, stride))
    })
}
