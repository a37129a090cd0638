//! What the pool does when the system refuses address space, or the program finds no memory.
//!
//! Under a limit on address space (`ulimit -v`) free stacks and the heap take it from each other.
//! Free stacks are unmapped then, except of a few, and of those that were reserved. And a program
//! that has freed much may have its address space in the C library's heap, which does not give it
//! back: then a stack is made there.

use super::{IN_HEAP, StackPool};
use crate::memory;
use crate::stack::slots::Slots;
use crate::stack::{Stack, StackError, valgrind};
use std::iter;

impl StackPool {
    /// The system has refused address space: gives back that of free stacks, and then takes some of
    /// the C library's heap, which may have what the program has freed. Returns `refused` if there
    /// is none.
    #[cold]
    pub(super) fn allocate_at_last(
        &mut self,
        size: Option<usize>,
        refused: Result<Stack, StackError>,
    ) -> Result<Stack, StackError> {
        let size = self.size_or_default(size)?;
        let whole = self.layout.extent(size);
        if self.unmap_free() >= whole
            && let Ok(stack) = self.allocate_sized(size)
        {
            return Ok(stack);
        }
        let Some(base) = memory::allocate_pages(whole) else {
            return refused;
        };
        // SAFETY: the pages were allocated above and are not in use.
        if let Err(error) = unsafe { self.layout.make_guard(base, self.in_use) } {
            // SAFETY: as above; without its guard, all of the block is as it was.
            unsafe { memory::free_pages(base) };
            return Err(error);
        }
        self.own_mappings += 1;
        self.own_reserved += whole;
        let stack = self.layout.stack_at(base, whole, IN_HEAP);
        valgrind::register(&stack);
        Ok(stack)
    }

    pub(super) fn free_in_heap(&mut self, stack: Stack) {
        self.own_mappings -= 1;
        self.own_reserved -= stack.extent();
        // SAFETY: the stack is one in the heap, and its user gave it back. Pages that cannot be
        // made as before are not given back.
        unsafe {
            if self.layout.remove_guard(stack.base).is_ok() {
                memory::free_pages(stack.base);
            }
        }
    }

    /// Gives back the address space of free stacks, except of a few. Returns how many bytes that
    /// is. For a program that finds no memory: allocates nothing.
    pub fn unmap_free(&mut self) -> usize {
        let mut bytes = 0;
        while self.own_free.len() > self.own_least
            && let Some(stack) = self.own_free.pop()
        {
            bytes += stack.extent();
            self.unmap_own(stack);
        }
        let all = iter::once(&mut self.slots).chain(&mut self.former);
        bytes + all.map(Slots::unmap_free).sum::<usize>()
    }
}
