//! Memory kept in reserve, so that running out of memory becomes an error of the guest and does not
//! end the program.
//!
//! Rust's collections end the program when an allocation fails. [`ReservingAllocator`] gives its
//! reserve back to the system then, tries again, and notes that memory is short. A guest asks
//! [`is_short`] before each call that may make something, and [`replenish`] then tells whether
//! there is a reserve again. If not, the guest raises its own "not enough memory".
//!
//! ```text
//!          replenish(): a block was had                 an allocation fails: take()
//!  none  --------------------------------->  held  --------------------------------->  none, short
//!   ^                                          |  a larger collection was seen: short
//!   |                                          |  (the block is too small)
//!   +------------------------------------------+  replenish() exchanges it for a larger one
//! ```
//!
//! *How large.* Between two questions each collection may grow once, to twice its size. Hence the
//! reserve has twice the bytes of all large allocations, and [`LEAST`] for the small ones. Nobody
//! touches it, so it costs address space and no memory.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};

/// Bytes of the smallest reserve: many small allocations, and the start of a thread, with what the
/// C library takes at once.
pub const LEAST: usize = 2 << 20;

/// Bytes from which on an allocation counts as large.
const LARGE: usize = 8 * 1024;

/// The block, from `malloc`; null if there is none. Acquire and Release: see [`take`].
static BLOCK: AtomicPtr<libc::c_void> = AtomicPtr::new(ptr::null_mut());

/// Bytes of the block, or of the last one. Held while the block is exchanged.
static SIZE: Mutex<usize> = Mutex::new(0);

/// Bytes of all large allocations.
static TOTAL: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Whether the thread's allocations are made by `try_reserve`.
    static MAY_FAIL: Cell<bool> = const { Cell::new(false) };
}

/// Not 0: the reserve was taken, or is too small. C reads it too, as `baton_memory_is_short`.
// SAFETY: the only definition of this symbol; C declares it as a `uint32_t` and reads it
// atomically.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "the name is C's")]
static baton_memory_is_short: AtomicU32 = AtomicU32::new(0);

/// Whether [`replenish`] is to be asked before anything is made.
#[inline]
#[must_use]
pub fn is_short() -> bool {
    // Relaxed: a hint. The thread that took the reserve sees it at once, and for all others later
    // is soon enough.
    baton_memory_is_short.load(Ordering::Relaxed) != 0
}

/// Sees to it that there is a reserve of the wanted size. False: there is not enough memory for
/// that.
///
/// ```
/// assert!(baton_sys::reserve::replenish());
/// assert!(!baton_sys::reserve::is_short());
/// ```
#[must_use]
pub fn replenish() -> bool {
    // A thread that finds another one here leaves it to that one.
    let Ok(mut size) = SIZE.try_lock() else {
        return true;
    };
    // Relaxed, and before what follows is read: who takes the reserve after that sets it again.
    baton_memory_is_short.store(0, Ordering::Relaxed);
    // Relaxed: a count; to learn late of more is to learn of it at the next question.
    let wanted = LEAST + 2 * TOTAL.load(Ordering::Relaxed);
    // Acquire: pairs with the swap in `take`.
    if !BLOCK.load(Ordering::Acquire).is_null() && *size >= wanted {
        return true;
    }
    // SAFETY: malloc may be called with any size.
    let block = unsafe { libc::malloc(wanted) };
    if block.is_null() {
        // Relaxed: as in `is_short`.
        baton_memory_is_short.store(1, Ordering::Relaxed);
        return false;
    }
    *size = wanted;
    // AcqRel: pairs with the swap in `take`; each block is freed by the one who has swapped it out.
    let old = BLOCK.swap(block, Ordering::AcqRel);
    // SAFETY: it came from malloc, or is null, and nobody else has it any more.
    unsafe { libc::free(old) };
    true
}

/// Sees to it that there is some reserve, if it can. It counts as short all the same.
#[must_use]
pub fn hold_least() -> bool {
    // Acquire: pairs with the swap in `take`.
    if !BLOCK.load(Ordering::Acquire).is_null() {
        return true;
    }
    // A thread that finds another one here leaves it to that one.
    let Ok(mut size) = SIZE.try_lock() else {
        return true;
    };
    // SAFETY: malloc may be called with any size.
    let block = unsafe { libc::malloc(LEAST) };
    if block.is_null() {
        return false;
    }
    *size = LEAST;
    // AcqRel: pairs with the swap in `take`.
    let old = BLOCK.swap(block, Ordering::AcqRel);
    // SAFETY: it came from malloc, or is null, and nobody else has it any more.
    unsafe { libc::free(old) };
    true
}

/// Whether a thread may be started: its stack and what it allocates first are not to come out of
/// what the reserve gave back.
#[must_use]
pub fn has_room_for_a_thread() -> bool {
    const BYTES: usize = 2 << 20;
    hold_least() && (!is_short() || has_room(BYTES))
}

/// [`hold_least`] for a call that `make_room` has all tables grown for. What that allocates may
/// fail: it uses `try_reserve`, and gets nothing of the reserve.
#[must_use]
pub fn replenish_for(make_room: impl FnOnce() -> bool) -> bool {
    if !hold_least() {
        return false;
    }
    MAY_FAIL.set(true);
    let has_room = make_room();
    MAY_FAIL.set(false);
    has_room
}

/// Whether so many bytes could be had in addition to the reserve: for a call that may make much at
/// once.
#[must_use]
pub fn has_room(bytes: usize) -> bool {
    // SAFETY: malloc may be called with any size, and what it returned or null may be freed.
    unsafe {
        let block = libc::malloc(bytes);
        libc::free(block);
        !block.is_null()
    }
}

/// Gives the reserve back to the system. Says whether to try again, which is worth it even if there
/// was none: another thread may just have done so.
#[cold]
fn take() -> bool {
    if MAY_FAIL.get() {
        return false;
    }
    // AcqRel: pairs with the swaps here and above: each block is freed once.
    let block = BLOCK.swap(ptr::null_mut(), Ordering::AcqRel);
    // SAFETY: it came from malloc, or is null, and nobody else has it any more.
    unsafe { libc::free(block) };
    // Relaxed: as in `is_short`.
    baton_memory_is_short.store(1, Ordering::Relaxed);
    true
}

/// The system's allocator with the reserve behind it.
///
/// ```
/// use baton_sys::reserve::ReservingAllocator;
///
/// #[global_allocator]
/// static ALLOCATOR: ReservingAllocator = ReservingAllocator;
/// assert_eq!(vec![1_u8; 100].len(), 100);
/// ```
#[derive(Debug)]
pub struct ReservingAllocator;

/// Takes into account that an allocation of `old` bytes (0: none) has become one of `new` bytes (0:
/// it is freed).
#[inline]
fn note(old: usize, new: usize) {
    if old >= LARGE || new >= LARGE {
        note_large(old, new);
    }
}

#[cold]
fn note_large(old: usize, new: usize) {
    let counted = |size: usize| if size >= LARGE { size } else { 0 };
    // Relaxed: a count.
    TOTAL.fetch_add(counted(new), Ordering::Relaxed);
    TOTAL.fetch_sub(counted(old), Ordering::Relaxed);
    if new > old {
        // Relaxed: as in `is_short`.
        baton_memory_is_short.store(1, Ordering::Relaxed);
    }
}

/// Allocates by `allocate`, if need be at the cost of the reserve.
#[inline]
fn at_any_cost(old: usize, new: usize, allocate: impl Fn() -> *mut u8) -> *mut u8 {
    let mut made = allocate();
    if made.is_null() && take() {
        made = allocate();
    }
    if !made.is_null() {
        note(old, new);
    }
    made
}

// SAFETY: all is done by the system's allocator, which keeps the contract; asking it a second time
// changes nothing in that. No function here unwinds or allocates.
unsafe impl GlobalAlloc for ReservingAllocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's conditions.
        at_any_cost(0, layout.size(), || unsafe { System.alloc(layout) })
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's conditions.
        at_any_cost(0, layout.size(), || unsafe { System.alloc_zeroed(layout) })
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        note(layout.size(), 0);
        // SAFETY: the caller's conditions.
        unsafe { System.dealloc(block, layout) };
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's conditions; when it fails, the block is as it was.
        at_any_cost(layout.size(), size, || unsafe {
            System.realloc(block, layout, size)
        })
    }
}
