//! How promptly the kernel wakes the calling thread and lets it run. Systems other than Linux, and
//! builds with `--cfg baton_portable`, cannot be told.

use std::io;
use std::time::Duration;

/// How much later than its deadline the kernel may wake the calling thread, to save power: 50 us
/// unless told otherwise.
///
/// # Errors
///
/// What `prctl` says; none is known.
pub fn set_timer_slack(slack: Duration) -> io::Result<()> {
    if cfg!(baton_portable) {
        return Ok(());
    }
    // Zero would mean "back to the default".
    let nanoseconds = libc::c_ulong::try_from(slack.as_nanos())
        .unwrap_or(libc::c_ulong::MAX)
        .max(1);
    // SAFETY: PR_SET_TIMERSLACK takes one integer and touches no memory.
    let result = unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, nanoseconds, 0, 0, 0) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// The kernel's slice for the calling thread, as an ordinary thread: Linux takes 100 us to 100 ms,
/// 3 ms or less unless told otherwise.
///
/// A thread with a shorter slice has the same share of a CPU, in smaller pieces; in return, when it
/// wakes up on a CPU that is in use, it does not wait for the end of the other thread's slice
/// (since Linux 6.12; older kernels take the value and do not mind it).
///
/// # Errors
///
/// What `sched_getattr` and `sched_setattr` say, such as that the value is out of range, or that a
/// sandbox forbids them.
pub fn set_slice(slice: Duration) -> io::Result<()> {
    if cfg!(baton_portable) {
        return Ok(());
    }
    const SIZE: libc::c_uint = size_of::<libc::sched_attr>() as libc::c_uint;
    const CALLING_THREAD: libc::c_int = 0;
    const NO_FLAGS: libc::c_uint = 0;
    let nanoseconds = u64::try_from(slice.as_nanos()).unwrap_or(u64::MAX);
    // SAFETY: the structure is plain integers.
    let mut attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes at most the given size to the structure.
    let got = unsafe {
        libc::syscall(
            libc::SYS_sched_getattr,
            CALLING_THREAD,
            &raw mut attributes,
            SIZE,
            NO_FLAGS,
        )
    };
    if got != 0 {
        return Err(io::Error::last_os_error());
    }
    attributes.sched_runtime = nanoseconds;
    // SAFETY: the kernel reads the structure, whose size it has just written.
    let set = unsafe {
        libc::syscall(
            libc::SYS_sched_setattr,
            CALLING_THREAD,
            &raw const attributes,
            NO_FLAGS,
        )
    };
    if set == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
