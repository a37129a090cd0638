//! Stacks for processes: up to a million, each with its own guard. A stack uses memory only for the
//! pages that were touched.
//!
//! ```text
//! low                                                                     high
//! | guard, 64 KiB | usable: `size()` bytes              | colour, < 1 KiB |  next slot
//! ^ guard().start ^ bottom()                      top() ^
//! ```
//!
//! Address space is reserved in large chunks. Each chunk is carved into slots of one size, the
//! pool's default at that time. A stack of another size gets a mapping of its own.
//!
//! *Colour*: tops are lowered by 0 to 7 times 128 bytes. Without that, the same frames of suspended
//! processes would be at the same offset of their pages. They would compete for few sets of the
//! processor's first-level cache. Touching eight lines in each of 16 stacks took 15.2 ns per stack
//! without colour, and 3.7 ns with it; with 1,000 stacks, 44 and 18 ns.
//!
//! Slots are an odd number of pages apart. So neighbours differ in colour, and use different sets
//! of the address caches.
//!
//! A guard is made by `MADV_GUARD_INSTALL` (Linux 6.13), which needs no mapping of its own, or else
//! by `mprotect`. The latter splits the kernel's mapping twice per stack, so `vm.max_map_count`
//! (65,530 by default) limits the number of stacks to about 32,000. A slot is made with one system
//! call. A recycled slot keeps its guard, and needs no system call.

use std::fmt;
use std::io;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::OnceLock;

use crate::memory;

mod mappings;
mod pool;
mod slots;
mod valgrind;

pub use pool::{MapLimitNear, StackPool, StackStats};
pub(crate) use slots::stack_at;

/// Bytes below each stack that fault on access. A larger frame whose pages C code does not touch in
/// order could skip them, unless it was compiled with `-fstack-clash-protection`, as distributions
/// do.
pub const GUARD_SIZE: usize = 64 * 1024;
/// The smallest usable size; smaller requests are raised to it.
pub const MINIMUM_SIZE: usize = 16 * 1024;
/// The largest usable size; larger requests are an error.
pub const MAXIMUM_SIZE: usize = 16 << 30;

const COLOURS: usize = 8;
const COLOUR_STEP: usize = 128;

/// How guards are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuardKind {
    /// Markers in the page table: only memory limits the number of stacks.
    Madvise,
    /// Separate mappings: `vm.max_map_count` limits the number of stacks.
    Mprotect,
}

impl GuardKind {
    /// The kind of guard that this kernel supports. The kernel is asked once.
    ///
    /// A kernel may accept an advice that it does not know, and do nothing. qemu-user does. So this
    /// makes a guard and checks that its page cannot be read.
    #[must_use]
    pub fn detect() -> GuardKind {
        static SUPPORTED: OnceLock<GuardKind> = OnceLock::new();
        if cfg!(baton_mprotect_guards) {
            return GuardKind::Mprotect;
        }
        *SUPPORTED.get_or_init(GuardKind::ask_kernel)
    }

    fn ask_kernel() -> GuardKind {
        let size = memory::page_size();
        let Ok(page) = memory::map(size) else {
            return GuardKind::Mprotect;
        };
        // SAFETY: the page was mapped just now, is not in use, and is forgotten after the calls.
        let supported = unsafe {
            let is_guarded = memory::install_guard(page, size).is_ok()
                && memory::is_readable(page).is_ok_and(|is_readable| !is_readable);
            memory::unmap(page, size);
            is_guarded
        };
        if supported {
            GuardKind::Madvise
        } else {
            GuardKind::Mprotect
        }
    }
}

/// Why a stack could not be allocated.
#[derive(Debug)]
pub enum StackError {
    /// The requested size exceeds [`MAXIMUM_SIZE`].
    TooLarge {
        /// Usable bytes requested.
        size: usize,
    },
    /// The system refused the address space, even in the smallest chunk.
    NoAddressSpace {
        /// Bytes of the last request to the system.
        size: usize,
        /// The system's error.
        source: io::Error,
    },
    /// The guard could not be made. With [`GuardKind::Mprotect`], `vm.max_map_count` is most likely
    /// reached.
    NoGuard {
        /// Stacks in use.
        in_use: usize,
        /// The system's error.
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

/// A stack in use. Give it back with [`StackPool::recycle`]. If it is dropped instead, it stays
/// reserved until the program ends, as something may still run on it.
#[must_use = "a stack that is dropped stays reserved; give it back to its pool"]
#[derive(Debug)]
pub struct Stack {
    /// The lowest address, where the guard begins.
    base: NonNull<u8>,
    guard: usize,
    /// Usable bytes above the guard.
    size: usize,
    pool: u32,
    /// The number of its size in the pool; 0: it has a mapping of its own.
    slots: u16,
}

// SAFETY: this value alone stands for its range of addresses; nothing in it belongs to a thread.
unsafe impl Send for Stack {}

impl Stack {
    /// The end of the highest byte, aligned to 128: the first frame goes below it.
    #[inline]
    #[must_use]
    pub fn top(&self) -> *mut u8 {
        self.base.as_ptr().wrapping_add(self.guard + self.size)
    }

    /// The lowest usable address, just above the guard.
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

    /// All bytes of the slot or mapping. The colour is in the last page, so the end is the next
    /// page boundary.
    fn extent(&self) -> usize {
        (self.guard + self.size).next_multiple_of(memory::page_size())
    }

    /// The end of the slot or mapping.
    fn extent_end(&self) -> usize {
        self.base.as_ptr() as usize + self.extent()
    }

    /// Bytes from the top down to the lowest page with physical memory. That is the most that was
    /// used since the stack was made or last trimmed, rounded up to pages. Costs system calls.
    #[must_use]
    pub fn high_water(&self) -> usize {
        match NonNull::new(self.bottom()) {
            Some(bottom) => self.size - memory::untouched_prefix(bottom, self.size),
            None => 0,
        }
    }
}
