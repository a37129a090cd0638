//! The last resort: bytes of the program itself, for allocations that find neither memory nor a
//! reserve.
//!
//! The reserve goes back to the C library, which may give it to another thread, or may not find it
//! from this one, as each thread has an arena of its own. These bytes are always there. They are
//! given out one after the other, and begin again when all blocks were freed:
//!
//! | blocks | bytes used | by | then |
//! |---|---|---|---|
//! | n | u | [`allocate`], if there is room | n + 1, u + the size |
//! | n > 1 | u | [`free`] | n - 1, u |
//! | 1 | u | [`free`] | 0, 0 |
//!
//! Memory is short then, so nothing new is made that could stay, until there is a reserve again.

use std::alloc::Layout;
use std::cell::UnsafeCell;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many bytes there are. The system gives them memory when they are used first.
const SIZE: usize = 256 * 1024;

#[repr(align(64))]
struct Bytes(UnsafeCell<[u8; SIZE]>);

// SAFETY: only pointers are made of it, to ranges that have one user each.
unsafe impl Sync for Bytes {}

static BYTES: Bytes = Bytes(UnsafeCell::new([0; SIZE]));

/// The number of blocks in the high half, the bytes used in the low half.
static STATE: AtomicU64 = AtomicU64::new(0);

const ONE_BLOCK: u64 = 1 << 32;

fn used(state: u64) -> usize {
    (state & (ONE_BLOCK - 1)) as usize
}

/// Allocates a block. Null: there is no room.
pub(super) fn allocate(layout: Layout) -> *mut u8 {
    let start = BYTES.0.get().cast::<u8>();
    let place = |state| {
        let end = (start as usize).checked_add(used(state))?;
        let begin = end.checked_next_multiple_of(layout.align())? - start as usize;
        let end = begin.checked_add(layout.size())?;
        (end <= SIZE).then_some((begin, end))
    };
    let taken = STATE.fetch_update(
        // AcqRel: pairs with itself in `free`: what the bytes were used for before is over.
        Ordering::AcqRel,
        Ordering::Relaxed, // the state alone is read again
        |state| place(state).map(|(_, end)| (state & !(ONE_BLOCK - 1)) + ONE_BLOCK + end as u64),
    );
    match taken.ok().and_then(place) {
        Some((begin, _)) => start.wrapping_add(begin),
        None => ptr::null_mut(),
    }
}

/// Whether a block is one of these.
#[inline]
pub(super) fn has(block: *const u8) -> bool {
    (block as usize).wrapping_sub(BYTES.0.get() as usize) < SIZE
}

/// Frees a block of these.
#[cold]
pub(super) fn free() {
    let without_one = |state: u64| match state - ONE_BLOCK {
        rest if rest < ONE_BLOCK => 0,
        rest => rest,
    };
    // AcqRel: pairs with itself in `allocate`, as above. Relaxed: as above. It always succeeds.
    let _ = STATE.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |state| {
        Some(without_one(state))
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One test, as the bytes are the program's.
    #[test]
    fn blocks_are_apart_and_the_bytes_begin_again_after_the_last_one() {
        let layout = Layout::from_size_align(100, 64).expect("it is legal");
        assert_eq!(used(STATE.load(Ordering::Relaxed)), 0);
        let first = allocate(layout);
        let second = allocate(layout);
        assert!(has(first) && has(second) && !has(ptr::from_ref(&layout).cast()));
        assert_eq!(
            (first as usize % 64, second as usize - first as usize),
            (0, 128)
        );
        let rest = Layout::from_size_align(SIZE - 200, 1).expect("it is legal");
        assert!(allocate(rest).is_null(), "there is no room");
        free();
        assert_eq!(used(STATE.load(Ordering::Relaxed)), 228);
        free();
        let all = Layout::from_size_align(SIZE, 1).expect("it is legal");
        assert_eq!(allocate(all), first);
        free();
        let threads: Vec<_> = (0..4_u8)
            .map(|number| {
                std::thread::spawn(move || {
                    for _ in 0..10_000 {
                        let block = allocate(layout);
                        if block.is_null() {
                            continue; // not all blocks were free for a while
                        }
                        // SAFETY: the block has 100 bytes, and is this thread's alone.
                        unsafe {
                            block.write_bytes(number, 100);
                            assert_eq!(block.add(99).read(), number);
                        }
                        free();
                    }
                })
            })
            .collect();
        threads
            .into_iter()
            .for_each(|thread| thread.join().expect("all blocks were apart"));
        assert_eq!(STATE.load(Ordering::Relaxed), 0);
    }
}
