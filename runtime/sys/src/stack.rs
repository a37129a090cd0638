//! Stacks for processes: a million of them, each with its own guard, each costing memory only for what it touched.
//!
//! ```text
//! low                                                                     high
//! | guard, 64 KiB | usable: `size()` bytes              | colour, < 1 KiB |  next slot
//! ^ guard().start ^ bottom()                      top() ^
//! ```
//!
//! Address space is reserved in large chunks and carved into slots of one size, the pool's default; a stack of another size
//! gets a mapping of its own.
//!
//! *Colour*: the same frames of parked processes would lie at the same offset of their pages, and compete for the same few sets of the
//! processor's first cache. Tops are therefore lowered by 0 to 7 times 128 bytes. (Touching eight lines in each of 16 stacks in
//! turn took 15.2 ns per stack without and 3.7 ns with colour; 44 and 18 ns with 1,000 stacks.) Slots lie an odd number of pages
//! apart, so that neighbours differ in colour and use different sets of the address caches too.
//!
//! A guard is made by `MADV_GUARD_INSTALL` (Linux 6.13), which needs no map of its own, else by `mprotect`, which splits the kernel's map
//! twice per stack, so that `vm.max_map_count` (65,530 unless the administrator raised it) limits the number of stacks to about
//! 32,000. A slot is made with one system call; when recycled it keeps its guard and costs none.

use std::fmt;
use std::io;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::memory;

/// Bytes below each stack that fault on access: more than any frame that C compilers lay out without probing it.
pub const GUARD_SIZE: usize = 64 * 1024;
/// The smallest usable size; smaller wishes are raised to it.
pub const MINIMUM_SIZE: usize = 16 * 1024;
/// The largest usable size; larger wishes are an error.
pub const MAXIMUM_SIZE: usize = 16 * GIBIBYTE;

const GIBIBYTE: usize = 1 << 30;
const SMALLEST_FIRST_CHUNK: usize = GIBIBYTE;
const LARGEST_CHUNK: usize = 64 * GIBIBYTE;
const COLOURS: usize = 8;
const COLOUR_STEP: usize = 128;
/// Mappings of other sizes that are kept for the next wish of the same size.
const OWN_MAPPINGS_KEPT: usize = 32;

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
        // SAFETY: the page was mapped just now, is used by nobody, and is forgotten after the calls.
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
    /// The guard could not be made: with [`GuardKind::Mprotect`], most likely `vm.max_map_count` is reached.
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
                    "cannot reserve {size} bytes of address space for a stack: {source} (see 'ulimit -v')"
                )
            }
            StackError::NoGuard { in_use, source } => {
                write!(
                    formatter,
                    "cannot guard a stack beyond {in_use} others: {source} (see 'sysctl vm.max_map_count')"
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

/// A stack that is in use. Give it back with [`StackPool::recycle`]; one that is dropped instead stays reserved until the program ends,
/// so that nothing which still runs on it breaks.
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

// SAFETY: a stack is a range of addresses that this value alone stands for; nothing in it belongs to a thread.
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

    /// All bytes of the slot or mapping: the colour lies in the last page, so the end is the next page boundary.
    fn extent(&self) -> usize {
        (self.guard + self.size).next_multiple_of(memory::page_size())
    }

    /// Bytes from the top down to the lowest page that has memory behind it: what the stack's users have needed, rounded up to
    /// pages, since it was made or last trimmed. Costs system calls.
    #[must_use]
    pub fn high_water(&self) -> usize {
        match NonNull::new(self.bottom()) {
            Some(bottom) => self.size - memory::untouched_prefix(bottom, self.size),
            None => 0,
        }
    }
}

/// What a pool holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackStats {
    /// Bytes of address space, most of them with no memory behind them.
    pub reserved: usize,
    /// Stacks that were handed out and not given back.
    pub in_use: usize,
    /// The most stacks that were in use at the same time.
    pub peak_in_use: usize,
    /// Stacks that wait, guard in place, for the next use.
    pub free: usize,
    /// Free stacks that still hold the memory of their last use.
    pub untrimmed: usize,
    /// Usable bytes of a default stack.
    pub default_size: usize,
    /// How guards are made.
    pub guards: GuardKind,
    /// An upper estimate of the kernel maps that stacks need.
    pub maps: usize,
}

/// The number of kernel maps comes near the system's limit: more stacks will soon be refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapLimitNear {
    /// Maps that stacks need, at most.
    pub maps: usize,
    /// `vm.max_map_count`.
    pub limit: usize,
}

/// Makes stacks and keeps those that were given back. Belongs to one owner at a time.
#[derive(Debug)]
pub struct StackPool {
    id: u32,
    guards: GuardKind,
    guard: usize,
    /// The page size's logarithm.
    page_shift: u32,
    default_size: usize,
    /// Bytes from slot to slot: an odd number of pages.
    stride: usize,
    /// All chunks, for the pool's end.
    chunks: Vec<(NonNull<u8>, usize)>,
    /// The rest of the newest chunk: never used, no guards yet.
    fresh: Range<usize>,
    /// Slots that were given back; the last is used first, since its pages are warm.
    free: Vec<NonNull<u8>>,
    /// This many slots at the beginning of `free` hold no memory but their top page.
    trimmed: usize,
    /// Stacks with a mapping of their own that were given back, at most `OWN_MAPPINGS_KEPT`.
    own_free: Vec<Stack>,
    own_reserved: usize,
    own_mappings: usize,
    slots_made: usize,
    in_use: usize,
    peak_in_use: usize,
    map_limit: usize,
    map_limit_warning: Warning,
}

// SAFETY: a pool owns its chunks, which are address ranges that belong to no thread.
unsafe impl Send for StackPool {}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Warning {
    NotDue,
    Due,
    Given,
}

impl StackPool {
    /// A pool whose default stacks have `default_size` usable bytes, rounded up to pages and to [`MINIMUM_SIZE`]. Reserves nothing yet.
    ///
    /// # Errors
    ///
    /// When `default_size` exceeds [`MAXIMUM_SIZE`].
    pub fn new(default_size: usize) -> io::Result<StackPool> {
        /// Tells pools apart; wraps after four billion pools.
        static NEXT_ID: AtomicU32 = AtomicU32::new(0);
        let page = memory::page_size();
        let default_size = usable_size(default_size)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        let guard = GUARD_SIZE.next_multiple_of(page);
        Ok(StackPool {
            // Relaxed: only the numbers' being different matters.
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            guards: GuardKind::detect(),
            guard,
            page_shift: page.trailing_zeros(),
            default_size,
            stride: extent(guard, default_size),
            chunks: Vec::new(),
            fresh: 0..0,
            free: Vec::new(),
            trimmed: 0,
            own_free: Vec::new(),
            own_reserved: 0,
            own_mappings: 0,
            slots_made: 0,
            in_use: 0,
            peak_in_use: 0,
            map_limit: read_map_limit(),
            map_limit_warning: Warning::NotDue,
        })
    }

    /// A stack of at least `size` usable bytes, or of the default size. Its contents are what the last user left, or zeros.
    ///
    /// # Errors
    ///
    /// When `size` is beyond the limit or the system refuses; the pool is as it was.
    pub fn allocate(&mut self, size: Option<usize>) -> Result<Stack, StackError> {
        let stack = match size {
            Some(size) if size != self.default_size => match usable_size(size)? {
                size if size == self.default_size => self.allocate_slot()?,
                size => self.allocate_own(size)?,
            },
            _ => self.allocate_slot()?,
        };
        self.in_use += 1;
        self.peak_in_use = self.peak_in_use.max(self.in_use);
        Ok(stack)
    }

    /// Takes back a stack that nothing runs on any more. It keeps its memory until [`StackPool::trim`]. A stack of another pool stays as
    /// it is, reserved and unused.
    pub fn recycle(&mut self, stack: Stack) {
        if stack.pool != self.id {
            return;
        }
        self.in_use -= 1;
        if stack.is_slot {
            self.free.push(stack.base);
        } else if self.own_free.len() < OWN_MAPPINGS_KEPT {
            self.own_free.push(stack);
        } else {
            self.unmap_own(stack);
        }
    }

    /// Gives back the memory of all free stacks, except each slot's top page, which its next user touches anyway.
    pub fn trim(&mut self) {
        while let Some(stack) = self.own_free.pop() {
            self.unmap_own(stack);
        }
        self.trim_at_most(usize::MAX);
    }

    /// As [`StackPool::trim`], but for at most `count` slots, those that were free for the longest first, so that a pause stays short
    /// (about a microsecond for each). Returns how many are left to trim.
    pub fn trim_at_most(&mut self, count: usize) -> usize {
        let end = self.free.len().min(self.trimmed.saturating_add(count));
        for &base in &self.free[self.trimmed..end] {
            // SAFETY: the slot is free, so nobody needs its contents; the range lies inside its usable pages.
            unsafe {
                memory::discard(
                    base.add(self.guard),
                    self.default_size - memory::page_size(),
                )
            };
        }
        self.trimmed = end;
        self.free.len() - end
    }

    /// What the pool holds now.
    #[must_use]
    pub fn stats(&self) -> StackStats {
        StackStats {
            reserved: self.chunks.iter().map(|chunk| chunk.1).sum::<usize>() + self.own_reserved,
            in_use: self.in_use,
            peak_in_use: self.peak_in_use,
            free: self.free.len() + self.own_free.len(),
            untrimmed: self.free.len() - self.trimmed + self.own_free.len(),
            default_size: self.default_size,
            guards: self.guards,
            maps: self.maps(),
        }
    }

    /// Tells once, after the allocation that came near it, that the limit on kernel maps will soon refuse further stacks.
    #[must_use = "the warning is told only once"]
    pub fn take_map_limit_warning(&mut self) -> Option<MapLimitNear> {
        if self.map_limit_warning != Warning::Due {
            return None;
        }
        self.map_limit_warning = Warning::Given;
        Some(MapLimitNear {
            maps: self.maps(),
            limit: self.map_limit,
        })
    }

    #[inline]
    fn allocate_slot(&mut self) -> Result<Stack, StackError> {
        let base = match self.free.pop() {
            Some(base) => {
                self.trimmed = self.trimmed.min(self.free.len());
                base
            }
            None => self.make_slot()?,
        };
        Ok(self.stack_at(base, self.stride, true))
    }

    /// The stack in `extent` bytes from `base`, its top lowered by the colour of the base's page.
    #[inline]
    fn stack_at(&self, base: NonNull<u8>, extent: usize, is_slot: bool) -> Stack {
        let colour = (base.as_ptr() as usize >> self.page_shift) % COLOURS * COLOUR_STEP;
        Stack {
            base,
            guard: self.guard,
            size: extent - self.guard - colour,
            pool: self.id,
            is_slot,
        }
    }

    #[cold]
    fn make_slot(&mut self) -> Result<NonNull<u8>, StackError> {
        if self.fresh.len() < self.stride {
            self.reserve_chunk()?;
        }
        let (chunk, size) = *self
            .chunks
            .last()
            .ok_or_else(|| no_address_space(self.stride))?;
        // SAFETY: `fresh` lies inside the newest chunk, of `size` bytes.
        let base = unsafe { chunk.add(size - self.fresh.len()) };
        self.make_guard(base)?;
        self.fresh.start += self.stride;
        self.slots_made += 1;
        self.look_at_map_limit();
        Ok(base)
    }

    /// Doubles the reservation, within bounds; asks for half as much again and again when the system refuses.
    fn reserve_chunk(&mut self) -> Result<(), StackError> {
        let reserved: usize = self.chunks.iter().map(|chunk| chunk.1).sum();
        let wish = reserved.clamp(SMALLEST_FIRST_CHUNK, LARGEST_CHUNK);
        let mut slots = (wish / self.stride).max(1);
        loop {
            let size = slots * self.stride;
            match memory::map(size) {
                Ok(chunk) => {
                    self.chunks.push((chunk, size));
                    self.fresh = 0..size;
                    return Ok(());
                }
                Err(source) if slots == 1 => {
                    return Err(StackError::NoAddressSpace { size, source });
                }
                Err(_) => slots /= 2,
            }
        }
    }

    fn make_guard(&mut self, base: NonNull<u8>) -> Result<(), StackError> {
        let result = match self.guards {
            // SAFETY: the guard's pages are the lowest of a slot or mapping that nobody uses yet.
            GuardKind::Madvise => unsafe { memory::install_guard(base, self.guard) },
            // SAFETY: as above.
            GuardKind::Mprotect => unsafe { memory::forbid_access(base, self.guard) },
        };
        result.map_err(|source| StackError::NoGuard {
            in_use: self.in_use,
            source,
        })
    }

    fn allocate_own(&mut self, size: usize) -> Result<Stack, StackError> {
        let whole = extent(self.guard, size);
        if let Some(index) = self
            .own_free
            .iter()
            .rposition(|stack| stack.extent() == whole)
        {
            return Ok(self.own_free.swap_remove(index));
        }
        let base = memory::map(whole).map_err(|source| StackError::NoAddressSpace {
            size: whole,
            source,
        })?;
        if let Err(error) = self.make_guard(base) {
            // SAFETY: the mapping was made above and nothing refers to it.
            unsafe { memory::unmap(base, whole) };
            return Err(error);
        }
        self.own_mappings += 1;
        self.own_reserved += whole;
        self.look_at_map_limit();
        Ok(self.stack_at(base, whole, false))
    }

    fn unmap_own(&mut self, stack: Stack) {
        self.own_mappings -= 1;
        self.own_reserved -= stack.extent();
        // SAFETY: the stack has a mapping of its own, of exactly these bytes, and its user gave it back.
        unsafe { memory::unmap(stack.base, stack.extent()) };
    }

    fn maps(&self) -> usize {
        match self.guards {
            GuardKind::Madvise => self.chunks.len() + self.own_mappings,
            GuardKind::Mprotect => self.chunks.len() + 2 * (self.slots_made + self.own_mappings),
        }
    }

    fn look_at_map_limit(&mut self) {
        if self.map_limit_warning == Warning::NotDue && self.maps() > self.map_limit / 5 * 4 {
            self.map_limit_warning = Warning::Due;
        }
    }
}

impl Drop for StackPool {
    /// Unmaps everything, unless stacks are still in use: then all slots stay, for their users' sake.
    fn drop(&mut self) {
        while let Some(stack) = self.own_free.pop() {
            self.unmap_own(stack);
        }
        if self.in_use > 0 {
            return;
        }
        for &(chunk, size) in &self.chunks {
            // SAFETY: all stacks were given back, so nothing uses the chunk.
            unsafe { memory::unmap(chunk, size) };
        }
    }
}

fn usable_size(wish: usize) -> Result<usize, StackError> {
    if wish > MAXIMUM_SIZE {
        return Err(StackError::TooLarge { size: wish });
    }
    Ok(wish.max(MINIMUM_SIZE).next_multiple_of(memory::page_size()))
}

/// Bytes that a slot or mapping of `size` usable bytes needs, with room for the colour: an odd number of pages.
fn extent(guard: usize, size: usize) -> usize {
    let page = memory::page_size();
    let pages = (guard + size + (COLOURS - 1) * COLOUR_STEP).div_ceil(page);
    (pages | 1) * page
}

fn no_address_space(size: usize) -> StackError {
    StackError::NoAddressSpace {
        size,
        source: io::Error::from_raw_os_error(libc::ENOMEM),
    }
}

fn read_map_limit() -> usize {
    const KERNEL_DEFAULT: usize = 65_530;
    std::fs::read_to_string("/proc/sys/vm/max_map_count")
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(KERNEL_DEFAULT)
}
