//! macOS. Compiled, never run.

use std::ffi::c_int;
use std::fs::{self, File};
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The flags for memory of stacks. The system counts memory only when it is touched.
pub(crate) const MAP_OF_STACKS: c_int = libc::MAP_NORESERVE;

/// The flag for shared files.
pub(crate) const MAP_OF_FILES: c_int = libc::MAP_NORESERVE;

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

/// Sends a signal to a thread. Returns 0 or the system's error, ESRCH if there is no such thread.
pub(crate) fn signal_thread(_program: i32, thread: i32, signal: c_int) -> c_int {
    // SAFETY: the first call looks a port up. The second refuses a thread that is gone (ESRCH).
    unsafe {
        match libc::pthread_from_mach_thread_np(thread.cast_unsigned()) {
            0 => libc::ESRCH,
            thread => libc::pthread_kill(thread, signal),
        }
    }
}

/// Signals with a value do not exist here.
pub(crate) fn queue_to_thread(_: i32, _: i32, _signal: c_int, _value: usize) -> c_int {
    libc::ENOTSUP
}
