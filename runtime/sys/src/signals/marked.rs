//! Signals with a mark: the receiver can tell them from others of the same number.

use std::ffi::{c_int, c_void};
use std::io;

use crate::platform;

/// Sends a signal to a program, marked with a value.
///
/// # Errors
/// The system's: `EPERM`, `ESRCH`, or `EAGAIN` if too many signals are queued. `Unsupported` on
/// macOS, which has no such signals.
pub fn send(program: i32, signal: c_int, mark: usize) -> io::Result<()> {
    platform::send_with_value(program, signal, mark)
}

/// Sends a signal to one native thread of a program, marked with a value.
///
/// # Errors
/// The system's, as for [`send`]. `Unsupported` on macOS and FreeBSD.
pub fn send_to_thread(program: i32, thread: i32, signal: c_int, mark: usize) -> io::Result<()> {
    match platform::queue_to_thread(program, thread, signal, mark) {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// Whether what the system says of a signal has this mark. Async-signal-safe.
///
/// # Safety
/// `info` is what a handler with `SA_SIGINFO` was given, or null.
pub unsafe fn has_mark(info: *const c_void, mark: usize) -> bool {
    // SAFETY: the caller's condition. A signal of sigqueue has a value.
    unsafe {
        let info = info.cast::<libc::siginfo_t>();
        !info.is_null()
            && (*info).si_code == platform::SENT_WITH_VALUE
            && (*info).si_value().sival_ptr as usize == mark
    }
}
