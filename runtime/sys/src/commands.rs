//! Commands for the system's shell, as `system` of the C library runs them.
//!
//! `system` makes the whole program ignore SIGINT and SIGQUIT meanwhile, and holds the calling
//! thread. Here the caller decides about signals. It may wait for the command in a poller, by its
//! [descriptor](Command::descriptor), and take no native thread meanwhile.

use std::ffi::{CStr, c_char, c_int};
use std::os::fd::OwnedFd;
use std::{io, mem, ptr};

unsafe extern "C" {
    static mut environ: *const *mut c_char;
}

/// A command that runs.
#[must_use = "a command that is not waited for stays a zombie"]
#[derive(Debug)]
pub struct Command {
    process: libc::pid_t,
    /// Set if the program has a handler for SIGCHLD. The handler must not reap the command, so the
    /// signal is blocked on this thread until [`Command::wait`].
    mask: Option<SignalMask>,
}

struct SignalMask(libc::sigset_t);

impl Command {
    /// Starts a command. It inherits the calling thread's signal mask.
    ///
    /// # Errors
    /// The system's, if it cannot start the shell.
    ///
    /// ```
    /// use baton_sys::commands::Command;
    ///
    /// let command = Command::start(c"exit 3")?;
    /// assert_eq!(command.wait()?, 3 << 8); // a wait status
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn start(command: &CStr) -> io::Result<Command> {
        let child_ended = is_child_signal_handled().then_some(libc::SIGCHLD);
        let mask = SignalMask::block(child_ended);
        match spawn(command, &mask) {
            Ok(process) => Ok(Command {
                process,
                mask: child_ended.map(|_| mask),
            }),
            Err(error) => {
                mask.restore();
                Err(error)
            }
        }
    }

    /// A descriptor that is readable when the command has ended. `None` if the caller must wait by
    /// [`Command::wait`] on this thread: the program has a handler for SIGCHLD, or the system has
    /// no such descriptors.
    pub fn descriptor(&self) -> Option<OwnedFd> {
        if self.mask.is_some() {
            return None;
        }
        process_descriptor(self.process)
    }

    /// Waits for the end of the command. Returns its wait status.
    ///
    /// # Errors
    /// The system's: somebody else has waited for the command.
    pub fn wait(self) -> io::Result<c_int> {
        let status = loop {
            let mut status = 0;
            // SAFETY: the status is valid for writes.
            if unsafe { libc::waitpid(self.process, &raw mut status, 0) } >= 0 {
                break Ok(status);
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                break Err(error);
            }
        };
        if let Some(mask) = self.mask {
            mask.restore();
        }
        status
    }
}

#[cfg(target_os = "linux")]
fn process_descriptor(process: libc::pid_t) -> Option<OwnedFd> {
    use std::os::fd::FromRawFd;
    // SAFETY: pidfd_open takes two integers.
    let descriptor = unsafe { libc::syscall(libc::SYS_pidfd_open, process, 0) };
    if descriptor < 0 {
        return None;
    }
    // SAFETY: the descriptor is new.
    Some(unsafe { OwnedFd::from_raw_fd(descriptor as c_int) })
}

#[cfg(not(target_os = "linux"))]
fn process_descriptor(_process: libc::pid_t) -> Option<OwnedFd> {
    None
}

fn is_child_signal_handled() -> bool {
    let mut action = mem::MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: it only asks; the action is valid for writes, and was written if the result is 0.
    unsafe {
        libc::sigaction(libc::SIGCHLD, ptr::null(), action.as_mut_ptr()) != 0 || {
            let action = action.assume_init();
            action.sa_flags & libc::SA_SIGINFO != 0 || action.sa_sigaction != libc::SIG_DFL
        }
    }
}

fn spawn(command: &CStr, mask: &SignalMask) -> io::Result<libc::pid_t> {
    let arguments = [
        c"sh".as_ptr(),
        c"-c".as_ptr(),
        c"--".as_ptr(),
        command.as_ptr(),
        ptr::null(),
    ];
    let mut attributes = mem::MaybeUninit::<libc::posix_spawnattr_t>::uninit();
    let attributes = attributes.as_mut_ptr();
    let mut process = 0;
    // SAFETY: the attributes are initialized before they are used, and destroyed afterwards. The
    // arguments are strings that are not changed, and their list ends with a null.
    let error = unsafe {
        let mut error = libc::posix_spawnattr_init(attributes);
        if error == 0 {
            libc::posix_spawnattr_setsigmask(attributes, &raw const mask.0);
            libc::posix_spawnattr_setflags(attributes, libc::POSIX_SPAWN_SETSIGMASK as _);
            error = libc::posix_spawn(
                &raw mut process,
                c"/bin/sh".as_ptr(),
                ptr::null(),
                attributes,
                arguments.as_ptr().cast(),
                environ.cast(),
            );
            libc::posix_spawnattr_destroy(attributes);
        }
        error
    };
    match error {
        0 => Ok(process),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

impl SignalMask {
    /// Blocks a signal on the calling thread, or none. Returns the mask before.
    fn block(signal: Option<c_int>) -> SignalMask {
        // SAFETY: all-zero bytes are a set of signals; both sets are valid for what is done.
        unsafe {
            let (mut blocked, mut before): (libc::sigset_t, libc::sigset_t) = mem::zeroed();
            libc::sigemptyset(&raw mut blocked);
            if let Some(signal) = signal {
                libc::sigaddset(&raw mut blocked, signal);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const blocked, &raw mut before);
            SignalMask(before)
        }
    }

    fn restore(self) {
        // SAFETY: the set came from the system.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, ptr::null_mut());
        }
    }
}

impl std::fmt::Debug for SignalMask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SignalMask")
    }
}
