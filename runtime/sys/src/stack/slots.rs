//! The slots of one size: address space that is carved into stacks.

use std::io;
use std::ptr::NonNull;

use super::{
    COLOUR_STEP, COLOURS, GUARD_SIZE, GuardKind, MAXIMUM_SIZE, MINIMUM_SIZE, Stack, StackError,
    mappings, valgrind,
};
use crate::memory;

const GIBIBYTE: usize = 1 << 30;
const SMALLEST_FIRST_CHUNK: usize = GIBIBYTE;
const LARGEST_CHUNK: usize = 64 * GIBIBYTE;

/// How many free slots keep their memory at least, and at most.
const LEAST_KEPT: usize = 256;
const MOST_KEPT: usize = 16_384;

/// How many free slots stay mapped at least when the others are unmapped, for the next processes.
const LEAST_MAPPED: usize = 4;

/// What is kept is reviewed after this many slots were given back for each that is kept.
const REVIEW_PERIOD: usize = 8;

/// What all stacks of a pool have in common.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    /// The pool's number.
    pub(super) pool: u32,
    pub(super) guards: GuardKind,
    /// Bytes of a guard.
    pub(super) guard: usize,
    /// The page size's logarithm.
    pub(super) page_shift: u32,
}

impl Layout {
    /// The layout on a system with pages of `page` bytes, a power of two.
    pub(super) fn new(pool: u32, guards: GuardKind, page: usize) -> Layout {
        Layout {
            pool,
            guards,
            guard: GUARD_SIZE.next_multiple_of(page),
            page_shift: page.trailing_zeros(),
        }
    }

    /// The usable bytes of a stack for which `wish` bytes were asked: whole pages.
    ///
    /// # Errors
    ///
    /// When `wish` is beyond [`MAXIMUM_SIZE`].
    pub(super) fn usable_size(&self, wish: usize) -> Result<usize, StackError> {
        if wish > MAXIMUM_SIZE {
            return Err(StackError::TooLarge { size: wish });
        }
        Ok(wish
            .max(MINIMUM_SIZE)
            .next_multiple_of(1 << self.page_shift))
    }

    /// The bytes of a slot or mapping with `size` usable bytes, with room for the colour: an odd
    /// number of pages.
    pub(super) fn extent(&self, size: usize) -> usize {
        let page = 1 << self.page_shift;
        let pages = (self.guard + size + (COLOURS - 1) * COLOUR_STEP).div_ceil(page);
        (pages | 1) * page
    }

    /// The stack in `extent` bytes from `base`, its top lowered by the colour of the base's page.
    #[inline]
    pub(super) fn stack_at(&self, base: NonNull<u8>, extent: usize, slots: u16) -> Stack {
        let colour = (base.as_ptr() as usize >> self.page_shift) % COLOURS * COLOUR_STEP;
        Stack {
            base,
            guard: self.guard,
            size: extent - self.guard - colour,
            pool: self.pool,
            slots,
        }
    }

    /// Makes the guard of a slot or mapping at `base`. `in_use` is for the error.
    ///
    /// # Safety
    ///
    /// The slot or mapping is not in use yet.
    pub(super) unsafe fn make_guard(
        &self,
        base: NonNull<u8>,
        in_use: usize,
    ) -> Result<(), StackError> {
        let result = match self.guards {
            // SAFETY: the guard's pages are the lowest of a slot or mapping that is not in use yet.
            GuardKind::Madvise => unsafe { memory::install_guard(base, self.guard) },
            // SAFETY: as above.
            GuardKind::Mprotect => unsafe { memory::forbid_access(base, self.guard) },
        };
        result.map_err(|source| StackError::NoGuard { in_use, source })
    }

    /// Undoes [`Layout::make_guard`].
    ///
    /// # Safety
    ///
    /// The guard at `base` was made so, and the stack above is not in use.
    pub(super) unsafe fn remove_guard(&self, base: NonNull<u8>) -> io::Result<()> {
        match self.guards {
            // SAFETY: the caller's condition.
            GuardKind::Madvise => unsafe { memory::remove_guard(base, self.guard) },
            // SAFETY: as above.
            GuardKind::Mprotect => unsafe { memory::permit_access(base, self.guard) },
        }
    }
}

/// The stack that an address is in, its guard included. Async-signal-safe.
pub(crate) fn stack_at(address: usize) -> Option<Stack> {
    let (base, extent) = mappings::slot_at(address)?;
    // The numbers of the pool and of the slots, and the kind of the guards, do not matter here.
    let layout = Layout::new(0, GuardKind::Mprotect, memory::page_size());
    Some(layout.stack_at(NonNull::new(base as *mut u8)?, extent, 0))
}

/// Slots of one size, in use and free. Only their pool uses them.
#[derive(Debug)]
pub(super) struct Slots {
    /// The number of this size in its pool, from 1.
    number: u16,
    layout: Layout,
    /// Bytes from slot to slot: an odd number of pages.
    stride: usize,
    /// How many mappings the slots lie in, at most.
    chunks: usize,
    /// Bytes of all slots that are mapped.
    reserved: usize,
    /// The rest of the newest chunk: its start and its bytes, which were never used. Only the first
    /// `guarded` slots have guards.
    fresh: (NonNull<u8>, usize),
    guarded: usize,
    /// Slots that were given back. The last one is used first, as its pages are warm.
    free: Vec<NonNull<u8>>,
    /// How many slots at the beginning of `free` have no physical memory.
    trimmed: usize,
    /// How many free slots keep their memory, beside as many as are in use. Grows when a slot
    /// without memory is used again. So waves of processes that come again find memory.
    kept: usize,
    /// The fewest free slots with memory since the last review: those were not needed.
    spare: usize,
    /// How many slots were given back since then.
    given_back: usize,
    /// Slots that were made and then not needed: with guards, and without physical memory.
    set_aside: Vec<NonNull<u8>>,
    made: usize,
    /// How many free slots stay mapped when the others are unmapped.
    least_mapped: usize,
}

// SAFETY: slots own their chunks, which are address ranges that belong to no thread.
unsafe impl Send for Slots {}

impl Slots {
    /// No slots yet, of `stride` bytes each. Reserves nothing.
    pub(super) fn new(number: u16, layout: Layout, stride: usize) -> Slots {
        Slots {
            number,
            layout,
            stride,
            chunks: 0,
            reserved: 0,
            fresh: (NonNull::dangling(), 0),
            guarded: 0,
            free: Vec::new(),
            trimmed: 0,
            kept: LEAST_KEPT,
            spare: 0,
            given_back: 0,
            set_aside: Vec::new(),
            made: 0,
            least_mapped: LEAST_MAPPED,
        }
    }

    #[inline]
    pub(super) fn number(&self) -> u16 {
        self.number
    }

    pub(super) fn stride(&self) -> usize {
        self.stride
    }

    /// How many slots are free.
    #[inline]
    pub(super) fn free(&self) -> usize {
        self.free.len()
    }

    /// How many free slots may have physical memory.
    #[inline]
    pub(super) fn untrimmed(&self) -> usize {
        self.free.len() - self.trimmed
    }

    /// How many slots were made.
    pub(super) fn made(&self) -> usize {
        self.made
    }

    /// How many mappings they lie in.
    pub(super) fn chunks(&self) -> usize {
        self.chunks
    }

    /// Bytes of address space.
    pub(super) fn reserved(&self) -> usize {
        self.reserved
    }

    /// Takes the slot that was given back last.
    #[inline]
    pub(super) fn take_free(&mut self) -> Option<Stack> {
        let base = self.free.pop()?;
        if self.trimmed > self.free.len() {
            self.trimmed = self.free.len();
            self.kept = (self.kept + 1).min(MOST_KEPT);
        }
        self.spare = self.spare.min(self.free.len() - self.trimmed);
        Some(self.stack_at(base))
    }

    /// Takes back a slot, with its memory.
    #[inline]
    pub(super) fn give_back(&mut self, stack: &Stack) {
        self.free.push(stack.base);
    }

    /// Gives back the memory of two slots if more have some than are kept. To be called after each
    /// [`Slots::give_back`].
    #[inline]
    pub(super) fn shrink_gradually(&mut self, in_use: usize) {
        self.given_back += 1;
        if self.given_back > REVIEW_PERIOD * self.kept {
            self.review();
        }
        if self.free.len() - self.trimmed > self.kept + in_use {
            self.trim_at_most(2);
        }
    }

    /// Gives back the memory of all free slots but a few, and keeps no more from now on.
    pub(super) fn trim_spare(&mut self) {
        self.kept = LEAST_KEPT;
        let with_memory = self.free.len() - self.trimmed;
        if with_memory > LEAST_KEPT {
            self.trim_at_most(with_memory - LEAST_KEPT);
        }
    }

    /// Keeps less if there was memory that no process needed.
    #[cold]
    fn review(&mut self) {
        self.kept = (self.kept - self.spare.min(self.kept) / 2).max(LEAST_KEPT);
        self.spare = self.free.len() - self.trimmed;
        self.given_back = 0;
    }

    /// At least so many free slots stay mapped from now on.
    pub(super) fn keep_mapped(&mut self, count: usize) {
        self.least_mapped = self.least_mapped.max(count);
    }

    /// Sets a slot that was made and not used aside, for [`Slots::make`].
    pub(super) fn set_aside(&mut self, stack: &Stack) {
        self.set_aside.push(stack.base);
    }

    /// Gives back the memory of at most `count` free slots, the longest free ones first. Returns
    /// how many are left.
    pub(super) fn trim_at_most(&mut self, count: usize) -> usize {
        let end = self.free.len().min(self.trimmed.saturating_add(count));
        for &base in &self.free[self.trimmed..end] {
            // SAFETY: the slot is free, so its contents are not needed; the range is inside its
            // usable pages.
            unsafe {
                memory::discard(base.add(self.layout.guard), self.stride - self.layout.guard)
            };
        }
        self.trimmed = end;
        self.free.len() - end
    }

    /// Unmaps all free slots but a few. Returns how many bytes that are. Allocates nothing.
    pub(super) fn unmap_free(&mut self) -> usize {
        let before = self.reserved;
        // The last ones are the warmest.
        let unmapped = self.free.len().saturating_sub(self.least_mapped);
        let (slots, stride) = (&mut self.free[..unmapped], self.stride);
        // SAFETY: the slots are free, and are forgotten here.
        let pieces =
            unsafe { unmap_slots(slots, stride) + unmap_slots(&mut self.set_aside, stride) };
        self.free.drain(..unmapped);
        self.trimmed = self.trimmed.saturating_sub(unmapped);
        let count = unmapped + self.set_aside.len();
        self.set_aside.clear();
        self.made -= count;
        self.reserved -= count * stride + self.fresh.1;
        self.spare = self.spare.min(self.untrimmed());
        // Each piece may divide a mapping in two.
        self.chunks = if self.reserved == 0 {
            0
        } else {
            self.chunks + pieces
        };
        // SAFETY: this part of a chunk was never used, and is forgotten.
        unsafe { unmap_all(self.fresh.0, self.fresh.1) };
        (self.fresh.1, self.guarded) = (0, 0);
        before - self.reserved
    }

    /// Unmaps everything. All slots must be free.
    pub(super) fn unmap(&mut self) {
        // SAFETY: all stacks were given back, and the slots are not used any more.
        unsafe {
            unmap_slots(&mut self.free, self.stride);
            unmap_slots(&mut self.set_aside, self.stride);
            unmap_all(self.fresh.0, self.fresh.1);
        }
    }

    #[inline]
    fn stack_at(&self, base: NonNull<u8>) -> Stack {
        self.layout.stack_at(base, self.stride, self.number)
    }

    /// Makes a slot with its guard. `in_use` is for the error.
    #[cold]
    pub(super) fn make(&mut self, in_use: usize) -> Result<Stack, StackError> {
        if let Some(base) = self.set_aside.pop() {
            return Ok(self.stack_at(base));
        }
        if self.fresh.1 == 0 {
            self.reserve_chunk()?;
        }
        let base = self.fresh.0;
        if self.guarded == 0 {
            self.guard_fresh_slots(base, in_use)?;
        }
        self.guarded -= 1;
        // SAFETY: a chunk is a number of whole slots, so one more lies inside of it.
        self.fresh = (unsafe { base.add(self.stride) }, self.fresh.1 - self.stride);
        self.made += 1;
        let stack = self.stack_at(base);
        valgrind::register(&stack);
        Ok(stack)
    }

    /// Makes the guard of the fresh slot at `base`, and of several more slots if there have been
    /// many already.
    fn guard_fresh_slots(&mut self, base: NonNull<u8>, in_use: usize) -> Result<(), StackError> {
        let slots = self.fresh.1 / self.stride;
        let count = slots.min(self.made);
        if self.layout.guards == GuardKind::Madvise && count > 1 {
            // SAFETY: the guards are the lowest pages of slots that have not been used yet.
            self.guarded =
                unsafe { memory::install_guards(base, self.layout.guard, self.stride, count) };
        }
        if self.guarded == 0 {
            // SAFETY: the guard's pages are the lowest of a slot that is not in use yet.
            unsafe { self.layout.make_guard(base, in_use) }?;
            self.guarded = 1;
        }
        Ok(())
    }

    /// Doubles the reservation, within bounds. If the system refuses, it asks for half as much,
    /// repeatedly. Of what it then gets it keeps only half, as the heap needs some, too, under a
    /// limit on address space (`ulimit -v`).
    fn reserve_chunk(&mut self) -> Result<(), StackError> {
        let wish = self.reserved().clamp(SMALLEST_FIRST_CHUNK, LARGEST_CHUNK);
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
                    mappings::note(chunk, size, self.stride);
                    self.chunks += 1;
                    self.reserved += size;
                    self.fresh = (chunk, size);
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
}

/// Unmaps slots of `stride` bytes, neighbours together. Sorts the list. Returns how many pieces of
/// address space they were.
///
/// # Safety
/// The slots are mapped, and nothing uses them now or later.
unsafe fn unmap_slots(slots: &mut [NonNull<u8>], stride: usize) -> usize {
    slots.sort_unstable();
    let mut pieces = 0;
    let are_neighbours =
        |one: &NonNull<u8>, next: &NonNull<u8>| one.addr().get() + stride == next.addr().get();
    for piece in slots.chunk_by(are_neighbours) {
        pieces += 1;
        // SAFETY: the caller's condition; a piece is slots without gaps.
        unsafe { unmap_all(piece[0], piece.len() * stride) };
    }
    pieces
}

/// Unmaps `size` bytes, which may be none.
///
/// # Safety
/// As for [`memory::unmap`].
unsafe fn unmap_all(start: NonNull<u8>, size: usize) {
    if size > 0 {
        mappings::forget(start, size);
        // SAFETY: the caller's condition.
        unsafe { memory::unmap(start, size) };
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// The page sizes of x86-64 and aarch64.
    const PAGES: [usize; 3] = [4 << 10, 16 << 10, 64 << 10];

    fn layout(page: usize) -> Layout {
        Layout::new(0, GuardKind::Mprotect, page)
    }

    /// Eight neighbours at a made-up address, which nothing accesses.
    fn neighbours(layout: Layout, extent: usize) -> [Stack; COLOURS] {
        std::array::from_fn(|number| {
            let base = NonNull::without_provenance(
                std::num::NonZero::new(GIBIBYTE + number * extent).expect("it is not zero"),
            );
            layout.stack_at(base, extent, 1)
        })
    }

    #[test]
    fn guards_and_usable_bytes_are_whole_pages_of_every_size() {
        for page in PAGES {
            let layout = layout(page);
            assert!(layout.guard >= GUARD_SIZE && layout.guard.is_multiple_of(page));
            for (wish, pages_of_4_kib) in [(1, 4), (MINIMUM_SIZE + 1, 5), (1 << 20, 256)] {
                let size = layout.usable_size(wish).expect("it is in bounds");
                assert_eq!(size, (pages_of_4_kib * PAGES[0]).next_multiple_of(page));
                let extent = layout.extent(size);
                assert_eq!(extent / page % 2, 1, "an odd number of pages");
                assert!(extent.is_multiple_of(page) && extent - layout.guard - size < 3 * page);
            }
            assert!(layout.usable_size(MAXIMUM_SIZE + 1).is_err());
        }
    }

    #[test]
    fn the_stack_of_each_address_is_found_until_it_is_unmapped() {
        let layout = Layout::new(0, GuardKind::detect(), memory::page_size());
        let mut slots = Slots::new(1, layout, layout.extent(64 << 10));
        let place = |address: usize| {
            let stack = stack_at(address)?;
            Some((stack.bottom() as usize, stack.top() as usize))
        };
        let mut addresses = Vec::new();
        for _ in 0..3 {
            let stack = slots.make(0).expect("a stack");
            let (bottom, top) = (stack.bottom() as usize, stack.top() as usize);
            addresses = vec![stack.guard().start, bottom - 1, bottom, top - 1];
            for &address in &addresses {
                assert_eq!(place(address), Some((bottom, top)));
            }
        }
        assert_eq!(place(&raw const addresses as usize), None);
        slots.unmap();
        for address in addresses {
            assert_eq!(place(address), None, "it was unmapped");
        }
    }

    /// The colour takes no page of its own: what is just below the top is in the last page. So a
    /// suspended process uses one page, whatever its size.
    #[test]
    fn the_top_of_each_stack_is_in_the_last_page_of_its_slot() {
        for page in PAGES {
            let layout = layout(page);
            let extent = layout.extent(1 << 20);
            let stacks = neighbours(layout, extent);
            let mut offsets = std::collections::HashSet::new();
            for stack in &stacks {
                let end = stack.base.as_ptr() as usize + extent;
                let below = end - stack.top() as usize;
                assert!(below <= (COLOURS - 1) * COLOUR_STEP);
                assert!(stack.size() >= 1 << 20 && stack.top() as usize > end - page);
                offsets.insert(below);
            }
            assert_eq!(
                offsets.len(),
                COLOURS,
                "each neighbour has its own offset in its page"
            );
        }
    }
}
