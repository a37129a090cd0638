//! Signals with a mark: the receiver can tell them from others of the same number.

use std::ffi::{c_int, c_void};
use std::io;

/// Sends a signal to a program, marked with a value.
///
/// # Errors
/// The system's: `EPERM`, `ESRCH`, or `EAGAIN` if too many signals are queued.
pub fn send(program: i32, signal: c_int, mark: usize) -> io::Result<()> {
    let value = libc::sigval {
        sival_ptr: mark as *mut c_void,
    };
    // SAFETY: passes three words to the system.
    let result = unsafe { libc::sigqueue(program, signal, value) };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
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
            && (*info).si_code == libc::SI_QUEUE
            && (*info).si_value().sival_ptr as usize == mark
    }
}
