//! Shelves for spare blocks of small messages, which `c/copying/block.c` describes: blocks that
//! their readers return to the VM that has made them.
//!
//! A shelf is a [`Pile`], which has the orderings, the argument and the model check. Beside it is
//! the number of its blocks, so that they do not become more and more:
//!
//! | a block | `blocks` | by |
//! |---|---|---|
//! | is made and will return, if there are fewer than [`MOST`] | one more | [`baton_shelf_claim`] |
//! | is freed with its VM, or has become too large | one less | [`baton_shelf_leave`] |
//!
//! The blocks on the shelf, those of its VMs and those on their way are counted alike, and no
//! other blocks come back. So a shelf never has more than [`MOST`]. Its VMs share them.

use baton_sys::pile::{Link, Pile};
use std::ffi::{c_int, c_uint};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// The number of shelves. As in `c/copying/block.h`.
const SHELVES: usize = 64;

/// How many blocks return to a shelf: so many fit into a channel by default.
const MOST: u32 = 64;

/// In a cache line of its own.
#[repr(align(64))]
struct Shelf {
    pile: Pile,
    /// How many blocks are there or will come back. Any thread counts. Relaxed throughout: only
    /// the number matters.
    blocks: AtomicU32,
}

static SHELF: [Shelf; SHELVES] = [const {
    Shelf {
        pile: Pile::new(),
        blocks: AtomicU32::new(0),
    }
}; SHELVES];

/// Whether one more block may return to the shelf. It is counted then.
// SAFETY: the only definition of this symbol, with the signature in `copying/block.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_shelf_claim(shelf: c_uint) -> c_int {
    let blocks = &SHELF[shelf as usize].blocks;
    let one_more = |count| (count < MOST).then_some(count + 1);
    let claimed = blocks.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more);
    claimed.is_ok().into()
}

/// So many blocks of the shelf will not return.
// SAFETY: the only definition of this symbol, with the signature in `copying/block.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_shelf_leave(shelf: c_uint, count: u32) {
    let before = SHELF[shelf as usize]
        .blocks
        .fetch_sub(count, Ordering::Relaxed);
    debug_assert!(before >= count, "more blocks have left than were counted");
}

/// Returns a block.
///
/// # Safety
/// The block begins with a [`Link`], and is the caller's alone. It stays valid, and is not used,
/// until it is taken.
// SAFETY: the only definition of this symbol, with the signature in `copying/block.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_shelf_put(shelf: c_uint, block: NonNull<Link>) {
    // SAFETY: the caller's conditions are those of the pile.
    let _ = unsafe { SHELF[shelf as usize].pile.put(block) };
}

/// Takes all blocks that are there: the first one, or null. Their links lead from one to the next.
// SAFETY: the only definition of this symbol, with the signature in `copying/block.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_shelf_take(shelf: c_uint) -> *mut Link {
    SHELF[shelf as usize].pile.take_all()
}

#[cfg(test)]
mod checks {
    use super::*;

    #[test]
    fn a_shelf_has_no_more_blocks_than_its_limit() {
        let shelf = SHELVES as c_uint - 1;
        let claimed = (0..2 * MOST).filter(|_| baton_shelf_claim(shelf) != 0);
        assert_eq!(claimed.count(), MOST as usize);
        baton_shelf_leave(shelf, 2);
        let claimed = (0..MOST).filter(|_| baton_shelf_claim(shelf) != 0);
        assert_eq!(claimed.count(), 2);
        baton_shelf_leave(shelf, MOST);
    }
}
