//! FreeBSD. Compiled, never run.

use std::ffi::{c_int, c_void};
use std::fs::File;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

/// The flags for memory of stacks: none. `MAP_STACK` would make a range that grows by itself.
pub(crate) const MAP_OF_STACKS: c_int = 0;

/// The flag for shared files: none.
pub(crate) const MAP_OF_FILES: c_int = 0;

/// A new file without a name, in memory.
pub(crate) fn file_in_memory() -> io::Result<File> {
    // SAFETY: the name is a C string; the call touches no other memory.
    let descriptor = unsafe { libc::memfd_create(c"baton".as_ptr(), libc::MFD_CLOEXEC) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a new descriptor, which nothing else owns.
    Ok(File::from(unsafe { OwnedFd::from_raw_fd(descriptor) }))
}

/// Sends a signal with a value to a program.
pub(crate) fn send_with_value(program: i32, signal: c_int, value: usize) -> io::Result<()> {
    let value = libc::sigval {
        sival_ptr: value as *mut c_void,
    };
    // SAFETY: passes three words to the system.
    match unsafe { libc::sigqueue(program, signal, value) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The kernel's number for the calling thread.
pub(crate) fn thread_number() -> i32 {
    // SAFETY: the call takes nothing and touches no memory.
    unsafe { libc::pthread_getthreadid_np() }
}

/// Sends a signal to a thread. Returns 0 or the system's error, ESRCH if there is no such thread.
/// Async-signal-safe, but for errno.
pub(crate) fn signal_thread(program: i32, thread: i32, signal: c_int) -> c_int {
    // SAFETY: the call takes three integers; it checks `program` and `thread` together.
    match unsafe { libc::thr_kill2(program, thread.into(), signal) } {
        0 => 0,
        // SAFETY: the address is valid; no reference is formed.
        _ => unsafe { *super::errno() },
    }
}

/// A signal to one thread has no value here.
pub(crate) fn queue_to_thread(_: i32, _: i32, _signal: c_int, _value: usize) -> c_int {
    libc::ENOTSUP
}
