//! Stacks for processes: a million of them, each with its own guard, each costing memory only for
//! what it touched.
//!
//! ```text
//! low                                                                     high
//! | guard, 64 KiB | usable: `size()` bytes              | colour, < 1 KiB |  next slot
//! ^ guard().start ^ bottom()                      top() ^
//! ```
//!
//! Address space is reserved in large chunks and carved into slots of one size, the pool's default;
//! a stack of another size gets a mapping of its own.
//!
//! *Colour*: the same frames of parked processes would lie at the same offset of their pages, and
//! compete for the same few sets of the processor's first cache. Tops are therefore lowered by 0 to
//! 7 times 128 bytes. (Touching eight lines in each of 16 stacks in turn took 15.2 ns per stack
//! without and 3.7 ns with colour; 44 and 18 ns with 1,000 stacks.) Slots lie an odd number of
//! pages apart, so that neighbours differ in colour and use different sets of the address caches
//! too.
//!
//! A guard is made by `MADV_GUARD_INSTALL` (Linux 6.13), which needs no map of its own, else by
//! `mprotect`, which splits the kernel's map twice per stack, so that `vm.max_map_count` (65,530
//! unless the administrator raised it) limits the number of stacks to about 32,000. A slot is made
//! with one system call; when recycled it keeps its guard and costs none.

use std::fmt;
use std::io;
use std::ops::Range;
use std::ptr::NonNull;

use crate::memory;

mod pool;

pub use pool::{MapLimitNear, StackPool, StackStats};

/// Bytes below each stack that fault on access. A frame of more than this that C code does not
/// touch in order could step over them, unless it was compiled with `-fstack-clash-protection`, as
/// distributions do.
pub const GUARD_SIZE: usize = 64 * 1024;
/// The smallest usable size; smaller wishes are raised to it.
pub const MINIMUM_SIZE: usize = 16 * 1024;
/// The largest usable size; larger wishes are an error.
pub const MAXIMUM_SIZE: usize = 16 << 30;

const COLOURS: usize = 8;
const COLOUR_STEP: usize = 128;

/// How guards are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuardKind {
    /// Markers in the page table: the number of stacks is limited by memory alone.
    Madvise,
    /// Separate maps: the number of stacks is limited by `vm.max_map_count`.
    Mprotect,
}

impl GuardKind {
    /// What this kernel supports.
    #[must_use]
    pub fn detect() -> GuardKind {
        if cfg!(baton_mprotect_guards) {
            return GuardKind::Mprotect;
        }
        let size = memory::page_size();
        let Ok(page) = memory::map(size) else {
            return GuardKind::Mprotect;
        };
        // SAFETY: the page was mapped just now, is used by nobody, and is forgotten after the
        // calls.
        let supported = unsafe {
            let result = memory::install_guard(page, size);
            memory::unmap(page, size);
            result.is_ok()
        };
        if supported {
            GuardKind::Madvise
        } else {
            GuardKind::Mprotect
        }
    }
}

/// Why there is no stack.
#[derive(Debug)]
pub enum StackError {
    /// The wish exceeds [`MAXIMUM_SIZE`].
    TooLarge {
        /// Usable bytes that were asked for.
        size: usize,
    },
    /// The system refused the address space, even in the smallest chunk.
    NoAddressSpace {
        /// Bytes that were asked of the system last.
        size: usize,
        /// What it answered.
        source: io::Error,
    },
    /// The guard could not be made: with [`GuardKind::Mprotect`], most likely `vm.max_map_count` is
    /// reached.
    NoGuard {
        /// Stacks in use.
        in_use: usize,
        /// What the system answered.
        source: io::Error,
    },
}

impl fmt::Display for StackError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StackError::TooLarge { size } => {
                write!(
                    formatter,
                    "stack size {size} exceeds the limit of {MAXIMUM_SIZE} bytes"
                )
            }
            StackError::NoAddressSpace { size, source } => {
                write!(
                    formatter,
                    "cannot reserve {size} bytes of address space for a stack: {source} (see \
                     'ulimit -v')"
                )
            }
            StackError::NoGuard { in_use, source } => {
                write!(
                    formatter,
                    "cannot guard a stack beyond {in_use} others: {source} (see 'sysctl \
                     vm.max_map_count')"
                )
            }
        }
    }
}

impl std::error::Error for StackError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            StackError::TooLarge { .. } => None,
            StackError::NoAddressSpace { source, .. } | StackError::NoGuard { source, .. } => {
                Some(source)
            }
        }
    }
}

/// A stack that is in use. Give it back with [`StackPool::recycle`]; one that is dropped instead
/// stays reserved until the program ends, so that nothing which still runs on it breaks.
#[must_use = "a stack that is dropped stays reserved; give it back to its pool"]
#[derive(Debug)]
pub struct Stack {
    /// The lowest address, where the guard begins.
    base: NonNull<u8>,
    guard: usize,
    /// Usable bytes above the guard.
    size: usize,
    pool: u32,
    is_slot: bool,
}

// SAFETY: a stack is a range of addresses that this value alone stands for; nothing in it belongs
// to a thread.
unsafe impl Send for Stack {}

impl Stack {
    /// The end of the highest byte, aligned to 128: where the first frame goes.
    #[inline]
    #[must_use]
    pub fn top(&self) -> *mut u8 {
        self.base.as_ptr().wrapping_add(self.guard + self.size)
    }

    /// The lowest usable byte, just above the guard.
    #[inline]
    #[must_use]
    pub fn bottom(&self) -> *mut u8 {
        self.base.as_ptr().wrapping_add(self.guard)
    }

    /// The addresses below the stack that fault on access.
    #[inline]
    #[must_use]
    pub fn guard(&self) -> Range<usize> {
        let start = self.base.as_ptr() as usize;
        start..start + self.guard
    }

    /// Usable bytes.
    #[inline]
    #[must_use]
    pub fn size(&self) -> usize {
        self.size
    }

    /// All bytes of the slot or mapping: the colour lies in the last page, so the end is the next
    /// page boundary.
    fn extent(&self) -> usize {
        (self.guard + self.size).next_multiple_of(memory::page_size())
    }

    /// Bytes from the top down to the lowest page that has memory behind it: what the stack's users
    /// have needed, rounded up to pages, since it was made or last trimmed. Costs system calls.
    #[must_use]
    pub fn high_water(&self) -> usize {
        match NonNull::new(self.bottom()) {
            Some(bottom) => self.size - memory::untouched_prefix(bottom, self.size),
            None => 0,
        }
    }
}
