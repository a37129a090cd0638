//! What macOS and FreeBSD have in common.

use std::ffi::{c_int, c_void};
use std::io;

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

/// Whether the calling thread is the first one of its program.
pub(crate) fn is_first_thread(_program: i32, _thread: i32) -> bool {
    // SAFETY: the call takes nothing and touches no memory.
    unsafe { libc::pthread_main_np() == 1 }
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
