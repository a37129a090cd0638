//! Reports fibers to ThreadSanitizer: a switch is no call, and continues another stack.
//!
//! Only under `--cfg baton_tsan` (`cargo xtask races`); otherwise all of this is empty. The
//! functions are those of compiler-rt's `sanitizer/tsan_interface.h`.

#[cfg(baton_tsan)]
pub(super) use watched::{Context, forget_the_ended};

#[cfg(not(baton_tsan))]
pub(super) use unwatched::{Context, forget_the_ended};

#[cfg(not(baton_tsan))]
mod unwatched {
    /// The context without a race detector: empty.
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
        /// The fiber that ended last on this thread. Its context can be destroyed only after the
        /// switch away from it.
        static ENDED: Cell<*mut c_void> = const { Cell::new(ptr::null_mut()) };
    }

    /// A fiber of ThreadSanitizer.
    pub(in super::super) struct Context(*mut c_void);

    impl Context {
        pub(in super::super) fn of_this_thread() -> Self {
            // SAFETY: any thread may call it at any time.
            Self(unsafe { __tsan_get_current_fiber() })
        }

        pub(in super::super) fn new() -> Self {
            // SAFETY: as above.
            Self(unsafe { __tsan_create_fiber(0) })
        }

        /// Called right before the switch to it. Always inlined: otherwise the detector would see a
        /// function that is entered on one stack and left on the other.
        #[inline(always)]
        pub(in super::super) fn continues(&self) {
            // SAFETY: the context lives: it goes after its fiber's last switch.
            unsafe { __tsan_switch_to_fiber(self.0, SYNCHRONIZES) };
        }

        /// Called right before the last switch away from it.
        pub(in super::super) fn ends(&self) {
            ENDED.set(self.0);
        }
    }

    /// Called right after a switch: destroys the context of the fiber that has ended. Never
    /// inlined, as the thread may be another one than before.
    #[inline(never)]
    pub(in super::super) fn forget_the_ended() {
        let ended = ENDED.replace(ptr::null_mut());
        if !ended.is_null() {
            // SAFETY: nothing runs on it, and a fiber that has ended is not continued.
            unsafe { __tsan_destroy_fiber(ended) };
        }
    }
}
