//! The pool that stacks come from and return to.

mod shortage;

use std::io;
use std::iter;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use super::slots::{Layout, Slots};
use super::{GuardKind, Stack, StackError, mappings, valgrind};
use crate::memory;

/// A reservation leaves this fraction of the kernel's mappings to the rest of the program: to
/// malloc, threads and libraries.
const MAPS_LEFT: usize = 16;

/// How many mappings of other sizes are kept for the next request of the same size.
const OWN_MAPPINGS_KEPT: usize = 32;

/// How many sizes may have slots. Each of them reserves a chunk.
const MOST_SIZES: u16 = 8;

/// The number of slots that a stack with a mapping of its own has.
const OWN_MAPPING: u16 = 0;

/// The number of slots that a stack in the C library's heap has.
const IN_HEAP: u16 = u16::MAX;

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
    layout: Layout,
    default_size: usize,
    /// The slots of the default size.
    slots: Slots,
    /// Those of sizes that were the default before. Their free slots have no physical memory.
    former: Vec<Slots>,
    /// Stacks with a mapping of their own that were given back.
    own_free: Vec<Stack>,
    /// How many of them are kept.
    own_kept: usize,
    /// How many were reserved: so many are never given back.
    own_least: usize,
    own_reserved: usize,
    own_mappings: usize,
    in_use: usize,
    peak_in_use: usize,
    map_limit: usize,
    map_limit_warning: Warning,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Warning {
    NotDue,
    Due,
    Given,
}

impl StackPool {
    /// Creates a pool. Its default stacks have `default_size` usable bytes, rounded up to pages and
    /// to [`MINIMUM_SIZE`](super::MINIMUM_SIZE). Reserves nothing yet.
    ///
    /// # Errors
    ///
    /// When `default_size` exceeds [`MAXIMUM_SIZE`](super::MAXIMUM_SIZE).
    pub fn new(default_size: usize) -> io::Result<StackPool> {
        /// A number for each pool; wraps after four billion pools.
        static NEXT_ID: AtomicU32 = AtomicU32::new(0);
        // Relaxed: the numbers must only differ.
        let number = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let layout = Layout::new(number, GuardKind::detect(), memory::page_size());
        let default_size = layout
            .usable_size(default_size)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        Ok(StackPool {
            layout,
            default_size,
            slots: Slots::new(OWN_MAPPING + 1, layout, layout.extent(default_size)),
            former: Vec::new(),
            own_free: Vec::new(),
            own_kept: OWN_MAPPINGS_KEPT,
            own_least: 0,
            own_reserved: 0,
            own_mappings: 0,
            in_use: 0,
            peak_in_use: 0,
            map_limit: map_limit(),
            map_limit_warning: Warning::NotDue,
        })
    }

    /// Changes the size of default stacks, rounded up as in [`StackPool::new`]. Those of the
    /// previous size that are in use stay as they are. Changing it back uses the same slots.
    ///
    /// Beyond eight sizes in the life of a pool nothing changes. Stacks of further sizes then have
    /// mappings of their own.
    ///
    /// # Errors
    ///
    /// When the size is beyond the limit.
    #[inline]
    pub fn set_default_size(&mut self, size: usize) -> Result<(), StackError> {
        if size == self.default_size {
            return Ok(());
        }
        self.change_default_size(self.layout.usable_size(size)?);
        Ok(())
    }

    #[cold]
    fn change_default_size(&mut self, size: usize) {
        let stride = self.layout.extent(size);
        if stride == self.slots.stride() {
            return;
        }
        let known = self
            .former
            .iter()
            .position(|slots| slots.stride() == stride);
        let slots = match known {
            Some(place) => self.former.swap_remove(place),
            None => {
                let number = self.slots_of_all_sizes().count() as u16 + 1;
                if number > MOST_SIZES {
                    return;
                }
                Slots::new(number, self.layout, stride)
            }
        };
        let mut former = std::mem::replace(&mut self.slots, slots);
        former.trim_at_most(usize::MAX);
        self.former.push(former);
        self.default_size = size;
    }

    /// A stack of at least `size` usable bytes, or of the default size. Its contents are those of
    /// the last use, or zeros.
    ///
    /// # Errors
    ///
    /// When `size` is beyond the limit or the system refuses; the pool is unchanged.
    #[inline]
    pub fn allocate(&mut self, size: Option<usize>) -> Result<Stack, StackError> {
        let mut stack = match size {
            Some(size) if size != self.default_size => self.allocate_sized(size),
            _ => self.allocate_slot(),
        };
        if let Err(StackError::NoAddressSpace { .. }) = stack {
            stack = self.allocate_at_last(size, stack);
        }
        let stack = stack?;
        self.in_use += 1;
        self.peak_in_use = self.peak_in_use.max(self.in_use);
        Ok(stack)
    }

    #[cold]
    fn allocate_sized(&mut self, size: usize) -> Result<Stack, StackError> {
        match self.layout.usable_size(size)? {
            size if size == self.default_size => self.allocate_slot(),
            size => self.allocate_own(size),
        }
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
        if self.layout.guards == GuardKind::Mprotect
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
        if self.size_or_default(size)? == self.default_size {
            self.slots.keep_mapped(count);
        } else {
            self.own_kept = self.own_kept.max(self.own_free.len() + made.len());
            self.own_least = self.own_least.max(count);
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
        let size = self.size_or_default(size)?;
        if size == self.default_size {
            return Ok(self.slots.free());
        }
        let whole = self.layout.extent(size);
        Ok(self
            .own_free
            .iter()
            .filter(|stack| stack.extent() == whole)
            .count())
    }

    /// Makes a stack, even if others are free. It does not count as in use.
    fn make(&mut self, size: Option<usize>) -> Result<Stack, StackError> {
        let size = self.size_or_default(size)?;
        if size == self.default_size {
            return self.make_slot();
        }
        self.make_own(self.layout.extent(size))
    }

    /// Undoes [`StackPool::make`] for a stack that is not needed. A slot is set aside with its
    /// guard, for the next stack that is made.
    fn unmake(&mut self, stack: Stack) {
        if stack.slots != OWN_MAPPING {
            self.slots.set_aside(&stack);
        } else {
            self.unmap_own(stack);
        }
    }

    /// Takes back a stack that is no longer in use. It keeps its memory until [`StackPool::trim`].
    /// A stack of another pool stays reserved and unused.
    pub fn recycle(&mut self, stack: Stack) {
        if stack.pool != self.layout.pool {
            return;
        }
        self.in_use -= 1;
        if stack.slots == self.slots.number() {
            self.slots.give_back(&stack);
        } else if stack.slots == IN_HEAP {
            self.free_in_heap(stack);
        } else if stack.slots != OWN_MAPPING {
            self.recycle_former(&stack);
        } else if self.own_free.len() < self.own_kept {
            self.own_free.push(stack);
        } else {
            self.unmap_own(stack);
        }
    }

    #[cold]
    fn recycle_former(&mut self, stack: &Stack) {
        let number = stack.slots;
        if let Some(slots) = self
            .former
            .iter_mut()
            .find(|slots| slots.number() == number)
        {
            slots.give_back(stack);
            slots.trim_at_most(usize::MAX);
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
    /// recycled. It shrinks less if many stacks without memory were used again lately.
    pub fn shrink_gradually(&mut self) {
        self.slots.shrink_gradually(self.in_use);
    }

    /// Gives back the memory of free stacks, except of a few hundred. Those make the next processes
    /// cheap.
    pub fn trim_spare(&mut self) {
        self.slots.trim_spare();
    }

    /// As [`StackPool::trim`], but for at most `count` slots, the longest free ones first, so that
    /// a pause stays short (about a microsecond for each). Returns how many are left to trim.
    pub fn trim_at_most(&mut self, count: usize) -> usize {
        self.slots.trim_at_most(count)
    }

    /// The statistics of the pool.
    #[must_use]
    pub fn stats(&self) -> StackStats {
        StackStats {
            reserved: self
                .slots_of_all_sizes()
                .map(Slots::reserved)
                .sum::<usize>()
                + self.own_reserved,
            in_use: self.in_use,
            peak_in_use: self.peak_in_use,
            free: self.slots_of_all_sizes().map(Slots::free).sum::<usize>() + self.own_free.len(),
            untrimmed: self.slots.untrimmed() + self.own_free.len(),
            default_size: self.default_size,
            guards: self.layout.guards,
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
        match self.slots.take_free() {
            Some(stack) => Ok(stack),
            None => self.make_slot(),
        }
    }

    #[cold]
    #[inline(never)]
    fn make_slot(&mut self) -> Result<Stack, StackError> {
        let stack = self.slots.make(self.in_use)?;
        self.look_at_map_limit();
        Ok(stack)
    }

    fn allocate_own(&mut self, size: usize) -> Result<Stack, StackError> {
        let whole = self.layout.extent(size);
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
        // SAFETY: the mapping was made above and is not in use.
        if let Err(error) = unsafe { self.layout.make_guard(base, self.in_use) } {
            // SAFETY: the mapping was made above and is not in use.
            unsafe { memory::unmap(base, whole) };
            return Err(error);
        }
        self.own_mappings += 1;
        self.own_reserved += whole;
        self.look_at_map_limit();
        mappings::note(base, whole, whole);
        let stack = self.layout.stack_at(base, whole, OWN_MAPPING);
        valgrind::register(&stack);
        Ok(stack)
    }

    fn size_or_default(&self, size: Option<usize>) -> Result<usize, StackError> {
        match size {
            Some(size) => self.layout.usable_size(size),
            None => Ok(self.default_size),
        }
    }

    fn unmap_own(&mut self, stack: Stack) {
        self.own_mappings -= 1;
        self.own_reserved -= stack.extent();
        // SAFETY: the stack has a mapping of its own, of exactly these bytes, and its user gave it
        // back.
        unsafe { memory::unmap(stack.base, stack.extent()) };
    }

    fn maps(&self) -> usize {
        let chunks: usize = self.slots_of_all_sizes().map(Slots::chunks).sum();
        match self.layout.guards {
            GuardKind::Madvise => chunks + self.own_mappings,
            GuardKind::Mprotect => {
                let made: usize = self.slots_of_all_sizes().map(Slots::made).sum();
                chunks + 2 * (made + self.own_mappings)
            }
        }
    }

    fn slots_of_all_sizes(&self) -> impl Iterator<Item = &Slots> {
        iter::once(&self.slots).chain(&self.former)
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
        iter::once(&mut self.slots)
            .chain(&mut self.former)
            .for_each(Slots::unmap);
    }
}

/// How many mappings the program may have. The kernel is asked once.
fn map_limit() -> usize {
    const KERNEL_DEFAULT: usize = 65_530;
    static LIMIT: OnceLock<usize> = OnceLock::new();
    *LIMIT.get_or_init(|| {
        std::fs::read_to_string("/proc/sys/vm/max_map_count")
            .ok()
            .and_then(|text| text.trim().parse().ok())
            .unwrap_or(KERNEL_DEFAULT)
    })
}
