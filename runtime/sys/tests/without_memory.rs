//! What the runtime's own threads ask of the system when there is no memory left. The allocator is
//! the whole program's, so this is the only test of its program.
#![cfg(all(target_os = "linux", not(any(loom, baton_portable))))]

use baton_sys::signals::ThreadHandle;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static MUST_NOT_ALLOCATE: Cell<bool> = const { Cell::new(false) };
}

/// Ends the program at an allocation that must not be made.
struct Strict;

// SAFETY: the system's allocator does everything.
unsafe impl GlobalAlloc for Strict {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if MUST_NOT_ALLOCATE.get() {
            std::process::abort();
        }
        // SAFETY: the caller's conditions.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's conditions.
        unsafe { System.dealloc(block, layout) };
    }
}

#[global_allocator]
static ALLOCATOR: Strict = Strict;

/// Guards against the monitor's end in the middle of a poll: it asked by strings on the heap.
#[test]
fn whether_a_thread_waits_is_asked_without_memory() {
    let me = ThreadHandle::current();
    MUST_NOT_ALLOCATE.set(true);
    let answers = (me.is_waiting(), me.activity(), me.cpu_time());
    MUST_NOT_ALLOCATE.set(false);
    assert_eq!(answers.0, Some(false));
    assert!(answers.1.is_some_and(|activity| activity.is_runnable));
    assert!(answers.2.is_some());
}
