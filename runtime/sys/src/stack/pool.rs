//! The pool that stacks come from and return to.

use std::io;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use super::{
    COLOUR_STEP, COLOURS, GUARD_SIZE, GuardKind, MAXIMUM_SIZE, MINIMUM_SIZE, Stack, StackError,
};
use crate::memory;

const GIBIBYTE: usize = 1 << 30;
const SMALLEST_FIRST_CHUNK: usize = GIBIBYTE;
const LARGEST_CHUNK: usize = 64 * GIBIBYTE;
/// The least number of free slots that keep their memory.
const FREE_KEPT: usize = 256;

/// A reservation leaves this fraction of the kernel's mappings to the rest of the program: to
/// malloc, threads and libraries.
const MAPS_LEFT: usize = 16;

/// How many mappings of other sizes are kept for the next request of the same size.
const OWN_MAPPINGS_KEPT: usize = 32;

/// Statistics of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackStats {
    /// Bytes of reserved address space, most of them without physical memory.
    pub reserved: usize,
    /// Stacks that were handed out and not given back.
    pub in_use: usize,
    /// The most stacks that were in use at the same time.
    pub peak_in_use: usize,
    /// Stacks ready for the next use, with their guards.
    pub free: usize,
    /// Free stacks that still hold the memory of their last use.
    pub untrimmed: usize,
    /// Usable bytes of a default stack.
    pub default_size: usize,
    /// How guards are made.
    pub guards: GuardKind,
    /// An upper estimate of the kernel mappings that stacks need.
    pub maps: usize,
}

/// A warning: the number of kernel mappings is near the system's limit, and more stacks will soon
/// be refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapLimitNear {
    /// Mappings that stacks need, at most.
    pub maps: usize,
    /// `vm.max_map_count`.
    pub limit: usize,
}

/// Makes stacks, and keeps those that were given back. Has one owner at a time.
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
    /// All chunks, to be unmapped with the pool.
    chunks: Vec<(NonNull<u8>, usize)>,
    /// The rest of the newest chunk: never used. Only the first `guarded` slots have guards.
    fresh: Range<usize>,
    guarded: usize,
    /// Slots that were given back. The last one is used first, as its pages are warm.
    free: Vec<NonNull<u8>>,
    /// How many slots at the beginning of `free` have no physical memory.
    trimmed: usize,
    /// Slots that were made and then not needed: with guards, and without physical memory.
    set_aside: Vec<NonNull<u8>>,
    /// Stacks with a mapping of their own that were given back.
    own_free: Vec<Stack>,
    /// How many of them are kept.
    own_kept: usize,
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
    /// Creates a pool. Its default stacks have `default_size` usable bytes, rounded up to pages and
    /// to [`MINIMUM_SIZE`]. Reserves nothing yet.
    ///
    /// # Errors
    ///
    /// When `default_size` exceeds [`MAXIMUM_SIZE`].
    pub fn new(default_size: usize) -> io::Result<StackPool> {
        /// A number for each pool; wraps after four billion pools.
        static NEXT_ID: AtomicU32 = AtomicU32::new(0);
        let page = memory::page_size();
        let default_size = usable_size(default_size)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        let guard = GUARD_SIZE.next_multiple_of(page);
        Ok(StackPool {
            // Relaxed: the numbers must only differ.
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            guards: GuardKind::detect(),
            guard,
            page_shift: page.trailing_zeros(),
            default_size,
            stride: extent(guard, default_size),
            chunks: Vec::new(),
            fresh: 0..0,
            guarded: 0,
            free: Vec::new(),
            trimmed: 0,
            set_aside: Vec::new(),
            own_free: Vec::new(),
            own_kept: OWN_MAPPINGS_KEPT,
            own_reserved: 0,
            own_mappings: 0,
            slots_made: 0,
            in_use: 0,
            peak_in_use: 0,
            map_limit: read_map_limit(),
            map_limit_warning: Warning::NotDue,
        })
    }

    /// A stack of at least `size` usable bytes, or of the default size. Its contents are those of
    /// the last use, or zeros.
    ///
    /// # Errors
    ///
    /// When `size` is beyond the limit or the system refuses; the pool is unchanged.
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

    /// Makes `count` stacks of a size ready: with guards, but without physical memory. Allocating
    /// them later makes no system call. All of them are made, or none; free stacks of that size
    /// count.
    ///
    /// # Errors
    ///
    /// As for [`StackPool::allocate`], and if the guards would take nearly all of the kernel's
    /// mappings. Then as many stacks are ready as before: those made so far are given back. Address
    /// space of slots may stay reserved, without physical memory.
    pub fn reserve(&mut self, count: usize, size: Option<usize>) -> Result<(), StackError> {
        let missing = count.saturating_sub(self.premade(size)?);
        if self.guards == GuardKind::Mprotect
            && self.maps() + 2 * missing > self.map_limit - self.map_limit / MAPS_LEFT
        {
            return Err(StackError::NoGuard {
                in_use: self.in_use,
                source: io::Error::from_raw_os_error(libc::ENOMEM),
            });
        }
        let mut made = Vec::new();
        for _ in 0..missing {
            match self.make(size) {
                Ok(stack) => made.push(stack),
                Err(error) => {
                    made.into_iter().rev().for_each(|stack| self.unmake(stack));
                    return Err(error);
                }
            }
        }
        if made.first().is_some_and(|stack| !stack.is_slot) {
            self.own_kept = self.own_kept.max(self.own_free.len() + made.len());
        }
        let peak = self.peak_in_use;
        self.in_use += made.len();
        // In reverse, so that they are used in the order of their addresses.
        made.into_iter().rev().for_each(|stack| self.recycle(stack));
        self.peak_in_use = peak;
        Ok(())
    }

    /// How many stacks of a size are ready.
    ///
    /// # Errors
    ///
    /// When `size` is beyond the limit.
    pub fn premade(&self, size: Option<usize>) -> Result<usize, StackError> {
        let size = size.map_or(Ok(self.default_size), usable_size)?;
        if size == self.default_size {
            return Ok(self.free.len());
        }
        let whole = extent(self.guard, size);
        Ok(self
            .own_free
            .iter()
            .filter(|stack| stack.extent() == whole)
            .count())
    }

    /// Makes a stack, even if others are free. It does not count as in use.
    fn make(&mut self, size: Option<usize>) -> Result<Stack, StackError> {
        let size = size.map_or(Ok(self.default_size), usable_size)?;
        if size == self.default_size {
            let base = self.make_slot()?;
            return Ok(self.stack_at(base, self.stride, true));
        }
        self.make_own(extent(self.guard, size))
    }

    /// Undoes [`StackPool::make`] for a stack that is not needed. A slot is set aside with its
    /// guard, for the next stack that is made.
    fn unmake(&mut self, stack: Stack) {
        if stack.is_slot {
            self.set_aside.push(stack.base);
        } else {
            self.unmap_own(stack);
        }
    }

    /// Takes back a stack that is no longer in use. It keeps its memory until [`StackPool::trim`].
    /// A stack of another pool stays reserved and unused.
    pub fn recycle(&mut self, stack: Stack) {
        if stack.pool != self.id {
            return;
        }
        self.in_use -= 1;
        if stack.is_slot {
            self.free.push(stack.base);
        } else if self.own_free.len() < self.own_kept {
            self.own_free.push(stack);
        } else {
            self.unmap_own(stack);
        }
    }

    /// Gives back the memory of all free stacks.
    pub fn trim(&mut self) {
        while let Some(stack) = self.own_free.pop() {
            self.unmap_own(stack);
        }
        self.trim_at_most(usize::MAX);
    }

    /// Shrinks the pool a little. To be called after a stack was recycled. If far more are free
    /// than in use, it gives back the memory of two. So the pool shrinks as fast as stacks are
    /// recycled.
    pub fn shrink_gradually(&mut self) {
        if self.free.len() - self.trimmed.min(self.free.len()) > FREE_KEPT + self.in_use {
            self.trim_at_most(2);
        }
    }

    /// As [`StackPool::trim`], but for at most `count` slots, the longest free ones first, so that
    /// a pause stays short (about a microsecond for each). Returns how many are left to trim.
    pub fn trim_at_most(&mut self, count: usize) -> usize {
        let end = self.free.len().min(self.trimmed.saturating_add(count));
        for &base in &self.free[self.trimmed..end] {
            // SAFETY: the slot is free, so its contents are not needed; the range is inside its
            // usable pages.
            unsafe { memory::discard(base.add(self.guard), self.stride - self.guard) };
        }
        self.trimmed = end;
        self.free.len() - end
    }

    /// The statistics of the pool.
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

    /// A warning, once, after the allocation that came near the limit on kernel mappings.
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
        if let Some(base) = self.set_aside.pop() {
            return Ok(base);
        }
        if self.fresh.len() < self.stride {
            self.reserve_chunk()?;
        }
        let (chunk, size) = *self
            .chunks
            .last()
            .ok_or_else(|| no_address_space(self.stride))?;
        // SAFETY: `fresh` lies inside the newest chunk, of `size` bytes.
        let base = unsafe { chunk.add(size - self.fresh.len()) };
        if self.guarded == 0 {
            self.guard_fresh_slots(base)?;
        }
        self.guarded -= 1;
        self.fresh.start += self.stride;
        self.slots_made += 1;
        self.look_at_map_limit();
        Ok(base)
    }

    /// Makes the guard of the fresh slot at `base`, and of several more slots if there have been
    /// many already.
    fn guard_fresh_slots(&mut self, base: NonNull<u8>) -> Result<(), StackError> {
        let slots = self.fresh.len() / self.stride;
        let count = slots.min(self.slots_made);
        if self.guards == GuardKind::Madvise && count > 1 {
            // SAFETY: the guards are the lowest pages of slots that have not been used yet.
            self.guarded = unsafe { memory::install_guards(base, self.guard, self.stride, count) };
        }
        if self.guarded == 0 {
            self.make_guard(base)?;
            self.guarded = 1;
        }
        Ok(())
    }

    /// Doubles the reservation, within bounds. If the system refuses, it asks for half as much,
    /// repeatedly. Of what it then gets it keeps only half, as the heap needs some, too, under a
    /// limit on address space (`ulimit -v`).
    fn reserve_chunk(&mut self) -> Result<(), StackError> {
        let reserved: usize = self.chunks.iter().map(|chunk| chunk.1).sum();
        let wish = reserved.clamp(SMALLEST_FIRST_CHUNK, LARGEST_CHUNK);
        let mut slots = (wish / self.stride).max(1);
        let mut was_refused = false;
        loop {
            let size = slots * self.stride;
            match memory::map(size) {
                Ok(chunk) if was_refused && slots > 1 => {
                    // SAFETY: the mapping was made above and is not in use.
                    unsafe { memory::unmap(chunk, size) };
                    was_refused = false;
                    slots /= 2;
                }
                Ok(chunk) => {
                    self.chunks.push((chunk, size));
                    self.fresh = 0..size;
                    self.guarded = 0;
                    return Ok(());
                }
                Err(source) if slots == 1 => {
                    return Err(StackError::NoAddressSpace { size, source });
                }
                Err(_) => {
                    was_refused = true;
                    slots /= 2;
                }
            }
        }
    }

    fn make_guard(&mut self, base: NonNull<u8>) -> Result<(), StackError> {
        let result = match self.guards {
            // SAFETY: the guard's pages are the lowest of a slot or mapping that is not in use yet.
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
        self.make_own(whole)
    }

    fn make_own(&mut self, whole: usize) -> Result<Stack, StackError> {
        let base = memory::map(whole).map_err(|source| StackError::NoAddressSpace {
            size: whole,
            source,
        })?;
        if let Err(error) = self.make_guard(base) {
            // SAFETY: the mapping was made above and is not in use.
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
        // SAFETY: the stack has a mapping of its own, of exactly these bytes, and its user gave it
        // back.
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
    /// Unmaps everything, unless stacks are still in use: then all slots stay mapped.
    fn drop(&mut self) {
        while let Some(stack) = self.own_free.pop() {
            self.unmap_own(stack);
        }
        if self.in_use > 0 {
            return;
        }
        for &(chunk, size) in &self.chunks {
            // SAFETY: all stacks were given back, so the chunk is not in use.
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

/// The size of a slot or mapping with `size` usable bytes, with room for the colour: an odd number
/// of pages.
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
