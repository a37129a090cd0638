//! The number of the last error of the C library, per native thread.

use std::ffi::c_int;

use crate::platform;

/// The calling thread's `errno`.
#[must_use]
pub fn get() -> c_int {
    // SAFETY: the address is valid for the calling thread, which stays the same.
    unsafe { *platform::errno() }
}

/// Sets the calling thread's `errno`.
pub fn set(number: c_int) {
    // SAFETY: as in `get`.
    unsafe { *platform::errno() = number };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_call_sets_it_and_the_next_failed_call_replaces_it() {
        set(0);
        // SAFETY: there is no such descriptor, so nothing is closed.
        assert_eq!(unsafe { libc::close(-1) }, -1);
        assert_eq!(get(), libc::EBADF);
        set(libc::EINTR);
        assert_eq!(get(), libc::EINTR);
    }
}
