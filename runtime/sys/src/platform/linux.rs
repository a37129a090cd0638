//! Linux, with glibc or musl.

use std::ffi::{c_int, c_void};
use std::fs::File;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

/// The flags for memory of stacks: it is not counted before it is touched.
pub(crate) const MAP_OF_STACKS: c_int = libc::MAP_NORESERVE | libc::MAP_STACK;

/// The flag for shared files: they are not counted before they are touched.
pub(crate) const MAP_OF_FILES: c_int = libc::MAP_NORESERVE;

/// What `si_code` is for signals that carry a value.
pub(crate) const SENT_WITH_VALUE: c_int = libc::SI_QUEUE;

/// The address of the calling thread's `errno`. It stays valid as long as the thread lives.
pub(crate) fn errno() -> *mut c_int {
    // SAFETY: the call takes nothing and only computes an address.
    unsafe { libc::__errno_location() }
}

/// Whether the program has more rights than the user who has started it.
pub(crate) fn has_more_rights_than_its_user() -> bool {
    // SAFETY: reads what the kernel has passed to the program.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// Whether the kernel carried out a command of membarrier(2).
pub(crate) fn membarrier(command: c_int) -> bool {
    // SAFETY: the call takes two integers and a processor number that is ignored without a flag; it
    // touches no memory of ours.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}

/// Asks the kernel not to use huge pages for a range. Kernels without huge pages refuse, with no
/// loss.
///
/// # Safety
///
/// The range must be mapped.
pub(crate) unsafe fn forbid_huge_pages(address: *mut c_void, size: usize) {
    // SAFETY: the caller answers for the range; the advice changes no contents.
    unsafe { libc::madvise(address, size, libc::MADV_NOHUGEPAGE) };
}

/// Gives the same advice about several ranges of the program in one system call (Linux 6.15).
/// Returns how many bytes the kernel advised on, or a negative number.
///
/// # Safety
///
/// As for madvise(2) with this advice on each range.
pub(crate) unsafe fn advise_on_all(ranges: &[libc::iovec], advice: c_int) -> isize {
    /// The calling process, without a descriptor (include/uapi/linux/pidfd.h). Also right in a
    /// fork's child.
    const PIDFD_SELF: c_int = -10_000;
    const NO_FLAGS: libc::c_uint = 0;
    // SAFETY: the caller answers for the ranges; the kernel reads the vector's elements.
    let bytes = unsafe {
        libc::syscall(
            libc::SYS_process_madvise,
            PIDFD_SELF,
            ranges.as_ptr(),
            ranges.len(),
            advice,
            NO_FLAGS,
        )
    };
    bytes as isize
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
    // SAFETY: the call takes nothing, touches no memory, and cannot fail.
    unsafe { libc::syscall(libc::SYS_gettid) as i32 }
}

/// Whether the calling thread, which has this number, is the first one of its program.
pub(crate) fn is_first_thread(program: i32, thread: i32) -> bool {
    thread == program
}

/// Sends a signal to a thread. Returns 0 or the system's error, ESRCH if there is no such thread.
/// Async-signal-safe, but for errno.
pub(crate) fn signal_thread(program: i32, thread: i32, signal: c_int) -> c_int {
    // SAFETY: tgkill takes three integers; it cannot reach another program, since it checks
    // `program` and `thread` together.
    let sent = unsafe { libc::syscall(libc::SYS_tgkill, program, thread, signal) };
    match result_of(sent) {
        // A sandbox may forbid one of the two calls only.
        libc::EPERM | libc::EACCES | libc::ENOSYS => queue_to_thread(program, thread, signal, 0),
        result => result,
    }
}

/// Sends a signal with a value to a thread of a program. Returns 0 or the system's error.
pub(crate) fn queue_to_thread(program: i32, thread: i32, signal: c_int, value: usize) -> c_int {
    /// The kernel's `siginfo_t` of such a signal, on systems with 64 bits.
    #[repr(C)]
    struct Queued {
        signal: c_int,
        error: c_int,
        code: c_int,
        padding: c_int,
        program: libc::pid_t,
        user: libc::uid_t,
        value: usize,
        rest: [u64; 12],
    }
    // SAFETY: neither call has a condition.
    let (sender, user) = unsafe { (libc::getpid(), libc::getuid()) };
    let queued = Queued {
        signal,
        error: 0,
        code: libc::SI_QUEUE,
        padding: 0,
        program: sender,
        user,
        value,
        rest: [0; 12],
    };
    // SAFETY: the kernel reads a siginfo_t, which is as large as this one.
    let sent = unsafe {
        libc::syscall(
            libc::SYS_rt_tgsigqueueinfo,
            program,
            thread,
            signal,
            &raw const queued,
        )
    };
    result_of(sent)
}

/// 0, or the error of a system call that has failed.
fn result_of(call: libc::c_long) -> c_int {
    match call {
        0 => 0,
        // SAFETY: the address is valid; no reference is formed.
        _ => unsafe { *errno() },
    }
}

/// The effective user of the program at the other end of a Unix socket.
pub(crate) fn user_of_peer(socket: c_int) -> io::Result<u32> {
    let mut peer = libc::ucred {
        pid: 0,
        uid: 0,
        gid: 0,
    };
    let mut size = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `size` bytes to `peer`.
    let result = unsafe {
        libc::getsockopt(
            socket,
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &raw mut size,
        )
    };
    match result {
        0 => Ok(peer.uid),
        _ => Err(io::Error::last_os_error()),
    }
}
