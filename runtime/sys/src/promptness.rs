//! How promptly the kernel wakes and runs the calling thread. Has no effect on systems other than
//! Linux and in builds with `--cfg baton_portable`.

use std::ffi::c_int;
use std::io;
use std::time::Duration;

use crate::signals::{Obstacle, ThreadHandle};

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

/// The policy by which the kernel lets a thread run, and its real-time priority, which is 0 for
/// ordinary policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    number: c_int,
    priority: c_int,
}

impl Policy {
    /// The calling thread's.
    #[must_use]
    pub fn of_this_thread() -> Policy {
        const CALLING_THREAD: c_int = 0;
        system::policy_of(CALLING_THREAD)
    }

    /// 0 for ordinary policies.
    pub(crate) fn priority(self) -> c_int {
        self.priority
    }

    /// The policy of a thread that runs whenever it can, even if one with this policy computes.
    /// `None`: an ordinary policy, under which each thread runs soon.
    pub(crate) fn above(self) -> Option<Policy> {
        (self.priority > 0).then_some(Policy {
            number: libc::SCHED_FIFO,
            priority: self.priority + 1,
        })
    }

    /// Has a thread that is made with these attributes begin with the policy. Returns 0 or an
    /// error.
    ///
    /// # Safety
    /// The attributes are initialised.
    pub(crate) unsafe fn choose_in(self, attributes: *mut libc::pthread_attr_t) -> c_int {
        // SAFETY: the caller's condition.
        unsafe { system::choose(self, attributes) }
    }

    /// Has a thread that is made with these attributes inherit the policy of the thread that makes
    /// it.
    ///
    /// # Safety
    /// The attributes are initialised.
    pub(crate) unsafe fn inherit_in(attributes: *mut libc::pthread_attr_t) {
        // SAFETY: the caller's condition.
        unsafe { system::inherit(attributes) };
    }
}

/// Raises the real-time priority of the calling thread above that of `other`, if `other` has any.
/// Returns what keeps it from that: the system does not allow it.
pub fn outrank(other: ThreadHandle) -> Option<Obstacle> {
    let other = system::policy_of(other.id());
    let wanted = other.above()?;
    if Policy::of_this_thread().priority >= wanted.priority {
        return None;
    }
    match system::set_policy(wanted) {
        0 => None,
        error => Some(Obstacle::Outranked(other.priority, error)),
    }
}

#[cfg(all(target_os = "linux", not(baton_portable)))]
mod system {
    use super::Policy;
    use crate::errno;
    use std::ffi::c_int;
    use std::io;
    use std::time::Duration;

    /// Of pthread.h, in glibc and musl.
    const PTHREAD_INHERIT_SCHED: c_int = 0;
    const PTHREAD_EXPLICIT_SCHED: c_int = 1;

    /// What the kernel may add to the number of a policy.
    const RESET_ON_FORK: c_int = 0x4000_0000;

    /// An ordinary policy, if the kernel does not say. By system calls: the C library may remember
    /// an old policy, or refuse to say.
    pub(super) fn policy_of(thread: c_int) -> Policy {
        let mut parameters = libc::sched_param { sched_priority: 0 };
        // SAFETY: the calls take a number; the second one writes the parameters.
        let (number, got) = unsafe {
            (
                libc::syscall(libc::SYS_sched_getscheduler, thread),
                libc::syscall(libc::SYS_sched_getparam, thread, &raw mut parameters),
            )
        };
        if number < 0 || got != 0 {
            parameters.sched_priority = 0;
        }
        Policy {
            number: number.max(0) as c_int & !RESET_ON_FORK,
            priority: parameters.sched_priority,
        }
    }

    pub(super) fn set_policy(policy: Policy) -> c_int {
        const CALLING_THREAD: c_int = 0;
        let parameters = libc::sched_param {
            sched_priority: policy.priority,
        };
        // SAFETY: the call reads the parameters.
        let set = unsafe {
            libc::syscall(
                libc::SYS_sched_setscheduler,
                CALLING_THREAD,
                policy.number,
                &raw const parameters,
            )
        };
        match set {
            0 => 0,
            _ => errno::get(),
        }
    }

    pub(super) unsafe fn choose(policy: Policy, attributes: *mut libc::pthread_attr_t) -> c_int {
        let parameters = libc::sched_param {
            sched_priority: policy.priority,
        };
        // SAFETY: the caller's condition; the parameters are only read.
        unsafe {
            let mut refusal =
                libc::pthread_attr_setinheritsched(attributes, PTHREAD_EXPLICIT_SCHED);
            if refusal == 0 {
                refusal = libc::pthread_attr_setschedpolicy(attributes, policy.number);
            }
            if refusal == 0 {
                refusal = libc::pthread_attr_setschedparam(attributes, &raw const parameters);
            }
            refusal
        }
    }

    pub(super) unsafe fn inherit(attributes: *mut libc::pthread_attr_t) {
        // SAFETY: the caller's condition.
        unsafe { libc::pthread_attr_setinheritsched(attributes, PTHREAD_INHERIT_SCHED) };
    }

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
    use super::Policy;
    use std::ffi::c_int;
    use std::io;
    use std::time::Duration;

    pub(super) fn policy_of(_thread: c_int) -> Policy {
        Policy {
            number: 0,
            priority: 0,
        }
    }

    pub(super) fn set_policy(_policy: Policy) -> c_int {
        0
    }

    pub(super) unsafe fn choose(_policy: Policy, _attributes: *mut libc::pthread_attr_t) -> c_int {
        0
    }

    pub(super) unsafe fn inherit(_attributes: *mut libc::pthread_attr_t) {}

    pub(super) fn set_timer_slack(_slack: Duration) -> io::Result<()> {
        Ok(())
    }

    pub(super) fn set_slice(_slice: Duration) -> io::Result<()> {
        Ok(())
    }
}
