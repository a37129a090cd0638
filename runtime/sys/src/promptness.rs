//! How promptly the kernel wakes and runs the calling thread. Has no effect on systems other than
//! Linux and in builds with `--cfg baton_portable`.

use std::io;
use std::time::Duration;

/// Sets how much later than its deadline the kernel may wake the calling thread, to save power. The
/// default is 50 us.
///
/// # Errors
///
/// Those of `prctl`; none is known.
pub fn set_timer_slack(slack: Duration) -> io::Result<()> {
    system::set_timer_slack(slack)
}

/// Sets the kernel's slice for the calling thread, as an ordinary thread. Linux accepts 100 us to
/// 100 ms; the default is 3 ms or less.
///
/// A thread with a shorter slice has the same share of a CPU, in smaller pieces. In return, when it
/// wakes up on a busy CPU, it does not wait for the end of the other thread's slice. That works
/// since Linux 6.12; older kernels accept the value and ignore it.
///
/// # Errors
///
/// Those of `sched_getattr` and `sched_setattr`: for example, the value is out of range, or a
/// sandbox forbids them.
pub fn set_slice(slice: Duration) -> io::Result<()> {
    system::set_slice(slice)
}

#[cfg(all(target_os = "linux", not(baton_portable)))]
mod system {
    use std::io;
    use std::time::Duration;

    pub(super) fn set_timer_slack(slack: Duration) -> io::Result<()> {
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

    pub(super) fn set_slice(slice: Duration) -> io::Result<()> {
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
}

#[cfg(not(all(target_os = "linux", not(baton_portable))))]
mod system {
    use std::io;
    use std::time::Duration;

    pub(super) fn set_timer_slack(_slack: Duration) -> io::Result<()> {
        Ok(())
    }

    pub(super) fn set_slice(_slice: Duration) -> io::Result<()> {
        Ok(())
    }
}
