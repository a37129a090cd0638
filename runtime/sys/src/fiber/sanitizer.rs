//! What ThreadSanitizer has to be told of fibers: that a switch is no call, and whose stack it
//! follows from there on.
//!
//! Only under `--cfg baton_tsan` (`cargo xtask races`); else all of this is nothing. The functions
//! are those of compiler-rt's `sanitizer/tsan_interface.h`.

#[cfg(baton_tsan)]
pub(super) use watched::{Context, forget_the_ended};

#[cfg(not(baton_tsan))]
pub(super) use unwatched::{Context, forget_the_ended};

#[cfg(not(baton_tsan))]
mod unwatched {
    /// Nobody watches.
    pub(in super::super) struct Context;

    impl Context {
        #[inline(always)]
        pub(in super::super) fn of_this_thread() -> Self {
            Self
        }

        #[inline(always)]
        pub(in super::super) fn new() -> Self {
            Self
        }

        #[inline(always)]
        pub(in super::super) fn continues(&self) {}

        #[inline(always)]
        pub(in super::super) fn ends(&self) {}
    }

    #[inline(always)]
    pub(in super::super) fn forget_the_ended() {}
}

#[cfg(baton_tsan)]
mod watched {
    use std::cell::Cell;
    use std::ffi::{c_uint, c_void};
    use std::ptr;

    unsafe extern "C" {
        fn __tsan_get_current_fiber() -> *mut c_void;
        fn __tsan_create_fiber(flags: c_uint) -> *mut c_void;
        fn __tsan_destroy_fiber(fiber: *mut c_void);
        fn __tsan_switch_to_fiber(fiber: *mut c_void, flags: c_uint);
    }

    /// A switch orders what came before it on this thread with what comes after it.
    const SYNCHRONIZES: c_uint = 0;

    thread_local! {
        /// The fiber that ended last on this thread: its context cannot go before the switch away
        /// from it.
        static ENDED: Cell<*mut c_void> = const { Cell::new(ptr::null_mut()) };
    }

    /// A fiber of ThreadSanitizer's.
    pub(in super::super) struct Context(*mut c_void);

    impl Context {
        pub(in super::super) fn of_this_thread() -> Self {
            // SAFETY: any thread may ask at any time.
            Self(unsafe { __tsan_get_current_fiber() })
        }

        pub(in super::super) fn new() -> Self {
            // SAFETY: as above.
            Self(unsafe { __tsan_create_fiber(0) })
        }

        /// Right before the switch to it. Always in line: a function would be entered on one stack
        /// and left on the other, in the detector's books.
        #[inline(always)]
        pub(in super::super) fn continues(&self) {
            // SAFETY: the context lives: it goes after its fiber's last switch.
            unsafe { __tsan_switch_to_fiber(self.0, SYNCHRONIZES) };
        }

        /// Right before the last switch away from it.
        pub(in super::super) fn ends(&self) {
            ENDED.set(self.0);
        }
    }

    /// Right after a switch: the fiber that ended by it is forgotten. Never in line, since the
    /// thread may be another one than before.
    #[inline(never)]
    pub(in super::super) fn forget_the_ended() {
        let ended = ENDED.replace(ptr::null_mut());
        if !ended.is_null() {
            // SAFETY: nobody runs on it, and nobody continues a fiber that has ended.
            unsafe { __tsan_destroy_fiber(ended) };
        }
    }
}
