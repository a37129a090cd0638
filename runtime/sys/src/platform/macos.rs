//! macOS. Compiled, never run.

use std::ffi::{c_int, c_void};
use std::fs::{self, File};
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The flags for memory of stacks. The system counts memory only when it is touched.
pub(crate) const MAP_OF_STACKS: c_int = libc::MAP_NORESERVE;

/// The flag for shared files.
pub(crate) const MAP_OF_FILES: c_int = libc::MAP_NORESERVE;

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

/// A new file without a name: one in the directory for temporary files, whose name is removed.
pub(crate) fn file_in_memory() -> io::Result<File> {
    /// Distinguishes files that the program makes at the same time. Relaxed: it orders nothing.
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("baton-{}-{number}", std::process::id());
    let path = std::env::temp_dir().join(name);
    let file = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(&path)?;
    fs::remove_file(&path)?;
    Ok(file)
}

/// Signals with a value do not exist here.
pub(crate) fn send_with_value(_program: i32, _signal: c_int, _value: usize) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// The number of the calling thread: its Mach port.
pub(crate) fn thread_number() -> i32 {
    // SAFETY: a thread may ask for its own port.
    unsafe { libc::pthread_mach_thread_np(libc::pthread_self()).cast_signed() }
}

/// Whether the calling thread is the first one of its program.
pub(crate) fn is_first_thread(_program: i32, _thread: i32) -> bool {
    // SAFETY: the call takes nothing and touches no memory.
    unsafe { libc::pthread_main_np() == 1 }
}

/// Sends a signal to a thread. Returns whether there is such a thread.
pub(crate) fn signal_thread(_program: i32, thread: i32, signal: c_int) -> bool {
    // SAFETY: the first call looks a port up. The second refuses a thread that is gone (ESRCH).
    unsafe {
        let thread = libc::pthread_from_mach_thread_np(thread.cast_unsigned());
        thread != 0 && libc::pthread_kill(thread, signal) == 0
    }
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
