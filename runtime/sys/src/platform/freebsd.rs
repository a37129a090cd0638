//! FreeBSD. Compiled, never run.

use std::ffi::{c_int, c_void};
use std::fs::File;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

/// The flags for memory of stacks: none. `MAP_STACK` would make a range that grows by itself.
pub(crate) const MAP_OF_STACKS: c_int = 0;

/// The flag for shared files: none.
pub(crate) const MAP_OF_FILES: c_int = 0;

/// What `si_code` is for signals that carry a value (`SI_QUEUE` in sys/signal.h).
pub(crate) const SENT_WITH_VALUE: c_int = 0x10002;

/// The address of the calling thread's `errno`. It stays valid as long as the thread lives.
pub(crate) fn errno() -> *mut c_int {
    // SAFETY: the call takes nothing and only computes an address.
    unsafe { libc::__error() }
}

/// Whether the program has more rights than the user who has started it.
pub(crate) fn has_more_rights_than_its_user() -> bool {
    // SAFETY: reads what the kernel has passed to the program.
    unsafe { libc::issetugid() != 0 }
}

/// There is no such call. The answer makes each thread use its own fences.
pub(crate) fn membarrier(_command: c_int) -> bool {
    false
}

/// There is nothing to forbid.
///
/// # Safety
///
/// None is needed; other systems have a condition.
pub(crate) unsafe fn forbid_huge_pages(_address: *mut c_void, _size: usize) {}

/// There is no such call: no byte is advised on.
///
/// # Safety
///
/// None is needed; other systems have a condition.
pub(crate) unsafe fn advise_on_all(_ranges: &[libc::iovec], _advice: c_int) -> isize {
    0
}

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

/// Whether the calling thread is the first one of its program.
pub(crate) fn is_first_thread(_program: i32, _thread: i32) -> bool {
    // SAFETY: the call takes nothing and touches no memory.
    unsafe { libc::pthread_main_np() == 1 }
}

/// Sends a signal to a thread. Returns whether there is such a thread. Async-signal-safe.
pub(crate) fn signal_thread(program: i32, thread: i32, signal: c_int) -> bool {
    // SAFETY: the call takes three integers; it checks `program` and `thread` together.
    unsafe { libc::thr_kill2(program, thread.into(), signal) == 0 }
}

/// The effective user of the program at the other end of a Unix socket.
pub(crate) fn user_of_peer(socket: c_int) -> io::Result<u32> {
    let (mut user, mut group) = (0, 0);
    // SAFETY: the call writes two numbers.
    match unsafe { libc::getpeereid(socket, &raw mut user, &raw mut group) } {
        0 => Ok(user),
        _ => Err(io::Error::last_os_error()),
    }
}
