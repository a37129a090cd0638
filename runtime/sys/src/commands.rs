//! Commands for the system's shell, as `system` of the C library runs them.
//!
//! `system` makes the whole program ignore SIGINT and SIGQUIT meanwhile, and holds the calling
//! thread. Here the caller decides about signals. It may wait for the command in a poller, by its
//! [descriptor](Commands::descriptor), and take no native thread meanwhile.
//!
//! A caller may end before its command, with all others of its [`Commands`]: at any point between
//! the call of [`start`](Commands::start) and the end of [`wait`](Commands::wait).
//! [`Commands::abandon`] then has other threads wait, so that no command stays a zombie:
//!
//! | the command | who waits for it |
//! |---|---|
//! | is listed when the others are abandoned | a thread of its own, from then on |
//! | was being started then | a thread of its own, from the end of `start` on |
//! | is started later, by who abandons them | the caller, without a descriptor |
//! | its caller is in `wait` | the caller |

use crate::forking::{Child, ForkMutex};
use crate::thread;
use std::ffi::{CStr, c_char, c_int};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::{io, mem, ptr};

unsafe extern "C" {
    static mut environ: *const *mut c_char;
}

/// The commands that run for the same callers, such as the processes of a VM.
#[derive(Debug, Default)]
pub struct Commands(ForkMutex<State>);

#[derive(Debug, Default)]
struct State {
    are_abandoned: bool,
    running: Vec<Running>,
}

/// A command that nobody waits for by [`Commands::wait`] yet.
#[derive(Debug)]
struct Running {
    process: libc::pid_t,
    /// Set if the program has a handler for SIGCHLD. The handler must not reap the command, so the
    /// signal is blocked on this thread until [`Commands::wait`].
    mask: Option<SignalMask>,
    descriptor: Option<OwnedFd>,
}

/// A command that runs: the number of its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command(libc::pid_t);

struct SignalMask(libc::sigset_t);

impl Command {
    /// The command of this [number](Command::number).
    #[must_use]
    pub const fn from_number(number: c_int) -> Command {
        Command(number)
    }

    /// A positive number that no other command has until this one was waited for.
    #[must_use]
    pub const fn number(self) -> c_int {
        self.0
    }
}

impl Commands {
    /// No commands.
    #[must_use]
    pub const fn new() -> Commands {
        Commands(ForkMutex::new(State {
            are_abandoned: false,
            running: Vec::new(),
        }))
    }

    /// Starts a command. It inherits the calling thread's signal mask.
    ///
    /// # Errors
    /// The system's, if it cannot start the shell.
    ///
    /// ```
    /// use baton_sys::commands::Commands;
    ///
    /// let commands = Commands::new();
    /// let command = commands.start(c"exit 3")?;
    /// assert_eq!(commands.wait(command)?, 3 << 8); // a wait status
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn start(&self, command: &CStr) -> io::Result<Command> {
        let were_abandoned = self.are_abandoned();
        let child_ended = is_child_signal_handled().then_some(libc::SIGCHLD);
        let mask = SignalMask::block(child_ended);
        let process = match spawn(command, &mask) {
            Ok(process) => process,
            Err(error) => {
                mask.restore();
                return Err(error);
            }
        };
        let running = Running {
            process,
            mask: child_ended.map(|_| mask),
            descriptor: None,
        };
        let mut state = self.0.lock();
        if state.are_abandoned && !were_abandoned {
            drop(state);
            running.abandon();
        } else {
            state.running.push(running);
        }
        Ok(Command(process))
    }

    /// A descriptor that is readable when the command has ended, and is closed by
    /// [`wait`](Commands::wait). `None` if the caller must wait on this thread: the program has a
    /// handler for SIGCHLD, the system has no such descriptors, or the commands are abandoned.
    pub fn descriptor(&self, command: Command) -> Option<RawFd> {
        let mut state = self.0.lock();
        if state.are_abandoned {
            return None;
        }
        let running = state.find(command)?;
        let running = &mut state.running[running];
        if running.mask.is_none() && running.descriptor.is_none() {
            running.descriptor = process_descriptor(running.process);
        }
        running.descriptor.as_ref().map(AsRawFd::as_raw_fd)
    }

    /// Waits for the end of the command. Returns its wait status.
    ///
    /// # Errors
    /// The system's: somebody else has waited for the command.
    pub fn wait(&self, command: Command) -> io::Result<c_int> {
        let running = {
            let mut state = self.0.lock();
            let place = state.find(command);
            place.map(|place| state.running.swap_remove(place))
        };
        match running {
            Some(running) => running.wait(),
            None => Err(io::Error::from_raw_os_error(libc::ECHILD)),
        }
    }

    /// Whoever started commands will not wait for them any more. Threads of their own wait for
    /// those that run.
    pub fn abandon(&self) {
        let running = {
            let mut state = self.0.lock();
            state.are_abandoned = true;
            mem::take(&mut state.running)
        };
        running.into_iter().for_each(Running::abandon);
    }

    /// Whether [`abandon`](Commands::abandon) was called.
    pub fn are_abandoned(&self) -> bool {
        self.0.lock().are_abandoned
    }

    /// Forgets the commands in a fork's child, as they belong to the parent.
    pub fn renew_in_child(&self, child: &Child) {
        self.0.renew_in_child(child, State::default());
    }
}

impl State {
    fn find(&self, command: Command) -> Option<usize> {
        let mut running = self.running.iter();
        running.position(|running| running.process == command.0)
    }
}

impl Running {
    fn wait(self) -> io::Result<c_int> {
        let status = wait_for(self.process);
        if let Some(mask) = self.mask {
            mask.restore();
        }
        status
    }

    /// Has a thread of its own wait. Without room for one, the command stays a zombie.
    fn abandon(self) {
        let process = self.process;
        let _ = thread::start_helper("command", move || drop(wait_for(process)));
    }
}

fn wait_for(process: libc::pid_t) -> io::Result<c_int> {
    loop {
        let mut status = 0;
        // SAFETY: the status is valid for writes.
        if unsafe { libc::waitpid(process, &raw mut status, 0) } >= 0 {
            return Ok(status);
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
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
