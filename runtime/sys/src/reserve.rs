//! A memory reserve, so that running out of memory is an error of the guest and does not end the
//! program.
//!
//! Rust's collections end the program when an allocation fails. [`ReservingAllocator`] then returns
//! its reserve to the system, tries again, and notes that memory is short. A guest checks
//! [`is_short`] before each call that may allocate. If memory is short, [`replenish`] says whether
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
//! If the second attempt fails, too, `last_resort` has some bytes. Only without these does the
//! program end.
//!
//! **Size.** Between two calls of [`is_short`], each collection may grow once, to twice its size.
//! So the reserve has twice the bytes of all large allocations, and [`LEAST`] for the small ones.
//! It is never touched, so it uses address space and no memory.

mod last_resort;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};

/// Bytes of the smallest reserve: enough for many small allocations, and for the start of a thread
/// with the C library's own allocations.
pub const LEAST: usize = 2 << 20;

/// Allocations of at least this many bytes count as large.
const LARGE: usize = 8 * 1024;

/// The block, from `malloc`; null if there is none. Acquire and Release: see [`take`].
static BLOCK: AtomicPtr<libc::c_void> = AtomicPtr::new(ptr::null_mut());

/// Bytes of the block, or of the last one. The mutex is held while the block is exchanged.
static SIZE: Mutex<usize> = Mutex::new(0);

/// Bytes of all large allocations.
static TOTAL: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Whether the thread allocates by `try_reserve`, so that allocations may fail.
    static MAY_FAIL: Cell<bool> = const { Cell::new(false) };
}

/// Not 0: the reserve was taken, or is too small. C reads it as `baton_memory_is_short`.
// SAFETY: the only definition of this symbol; C declares it as a `uint32_t` and reads it
// atomically.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "the name is C's")]
static baton_memory_is_short: AtomicU32 = AtomicU32::new(0);

/// Whether [`replenish`] must be called before the next allocation.
#[inline]
#[must_use]
pub fn is_short() -> bool {
    // Relaxed: a hint. The thread that took the reserve sees it at once; other threads may see it
    // later.
    baton_memory_is_short.load(Ordering::Relaxed) != 0
}

/// Notes that the system has refused memory, so that [`replenish`] is called before the next
/// allocation.
pub fn note_shortage() {
    // Relaxed: as in `is_short`.
    baton_memory_is_short.store(1, Ordering::Relaxed);
}

/// Makes sure that there is a reserve of the right size. Returns `false` if there is not enough
/// memory for it.
///
/// ```
/// assert!(baton_sys::reserve::replenish());
/// assert!(!baton_sys::reserve::is_short());
/// ```
#[must_use]
pub fn replenish() -> bool {
    // Another thread is here already, and will do it.
    let Ok(mut size) = SIZE.try_lock() else {
        return true;
    };
    // Relaxed, and before the reads below: a thread that takes the reserve later sets it again.
    baton_memory_is_short.store(0, Ordering::Relaxed);
    // Relaxed: a count; a missed addition is noticed at the next call.
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
    // AcqRel: pairs with the swap in `take`. The thread that swaps a block out frees it.
    let old = BLOCK.swap(block, Ordering::AcqRel);
    // SAFETY: it came from malloc, or is null, and no other thread has it.
    unsafe { libc::free(old) };
    true
}

/// Makes sure that there is some reserve, if possible. It still counts as short.
#[must_use]
pub fn hold_least() -> bool {
    // Acquire: pairs with the swap in `take`.
    if !BLOCK.load(Ordering::Acquire).is_null() {
        return true;
    }
    // Another thread is here already, and will do it.
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
    // SAFETY: it came from malloc, or is null, and no other thread has it.
    unsafe { libc::free(old) };
    true
}

/// Whether a thread may be started: its stack and its first allocations must not use memory that
/// the reserve gave back.
#[must_use]
pub fn has_room_for_a_thread() -> bool {
    const BYTES: usize = 2 << 20;
    hold_least() && (!is_short() || has_room(BYTES))
}

/// As [`hold_least`]; then also grows all tables for a call, by `make_room`. The allocations of
/// `make_room` may fail: it uses `try_reserve`, and gets no memory of the reserve.
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

/// Whether `bytes` are available besides the reserve: for a call that may allocate much at once.
#[must_use]
pub fn has_room(bytes: usize) -> bool {
    // SAFETY: malloc may be called with any size, and what it returned or null may be freed.
    unsafe {
        let block = libc::malloc(bytes);
        libc::free(block);
        !block.is_null()
    }
}

/// Returns the reserve to the system. Returns whether to try the allocation again. That is so even
/// if there was no reserve, as another thread may just have returned it.
#[cold]
fn take() -> bool {
    if MAY_FAIL.get() {
        return false;
    }
    // AcqRel: pairs with the swaps here and above: each block is freed once.
    let block = BLOCK.swap(ptr::null_mut(), Ordering::AcqRel);
    // SAFETY: it came from malloc, or is null, and no other thread has it.
    unsafe { libc::free(block) };
    // Relaxed: as in `is_short`.
    baton_memory_is_short.store(1, Ordering::Relaxed);
    true
}

/// The system's allocator, with the reserve as a fallback.
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

/// Counts a change of an allocation from `old` bytes (0: none) to `new` bytes (0: freed).
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

/// Allocates by `allocate`, if necessary with the memory of the reserve. `old` and `new`: the bytes
/// of the block before (0: it is new) and afterwards.
#[inline]
fn insist(old: usize, new: usize, allocate: impl Fn() -> *mut u8) -> *mut u8 {
    let mut made = allocate();
    if made.is_null() && take() {
        made = allocate();
    }
    if !made.is_null() {
        note(old, new);
    }
    made
}

impl ReservingAllocator {
    /// The last attempt for a new block.
    #[cold]
    fn last(layout: Layout) -> *mut u8 {
        match MAY_FAIL.get() {
            true => ptr::null_mut(),
            false => last_resort::allocate(layout),
        }
    }

    /// As `realloc`, by a new block and a copy.
    ///
    /// # Safety
    /// Those of `realloc`. `new` has the alignment of `layout`.
    #[cold]
    unsafe fn exchange(&self, block: *mut u8, layout: Layout, new: Layout) -> *mut u8 {
        // SAFETY: the caller's conditions; both blocks have as many bytes as are copied, and are
        // apart.
        unsafe {
            let made = self.alloc(new);
            if !made.is_null() {
                made.copy_from_nonoverlapping(block, layout.size().min(new.size()));
                self.dealloc(block, layout);
            }
            made
        }
    }
}

// SAFETY: the system's allocator does everything and keeps the contract; a second attempt does not
// change that. A block of the last resort is as large and as aligned as was asked, and nobody else
// has it. No function here unwinds or allocates.
unsafe impl GlobalAlloc for ReservingAllocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's conditions.
        let made = insist(0, layout.size(), || unsafe { System.alloc(layout) });
        match made.is_null() {
            true => ReservingAllocator::last(layout),
            false => made,
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's conditions.
        let made = insist(0, layout.size(), || unsafe { System.alloc_zeroed(layout) });
        if !made.is_null() {
            return made;
        }
        let made = ReservingAllocator::last(layout);
        if !made.is_null() {
            // SAFETY: the block has so many bytes.
            unsafe { made.write_bytes(0, layout.size()) };
        }
        made
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if last_resort::has(block) {
            return last_resort::free();
        }
        note(layout.size(), 0);
        // SAFETY: the caller's conditions.
        unsafe { System.dealloc(block, layout) };
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if !last_resort::has(block) {
            // SAFETY: the caller's conditions; when it fails, the block is as it was.
            let made = insist(layout.size(), size, || unsafe {
                System.realloc(block, layout, size)
            });
            if !made.is_null() || MAY_FAIL.get() {
                return made;
            }
        }
        // SAFETY: the caller's conditions: the size is legal for this alignment.
        unsafe {
            let new = Layout::from_size_align_unchecked(size, layout.align());
            self.exchange(block, layout, new)
        }
    }
}
