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
//!
//! A program may have commands started on a thread that lasts as long as it does (`starter.rs`).

mod starter;

pub use starter::{start_on_lasting_thread, threads};

use std::ffi::{CStr, CString, c_char, c_int};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;
use std::{io, mem, ptr};

use crate::errno;
use crate::forking::{Child, ForkMutex};
use crate::signals::mask::SignalMask;
use crate::thread;

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
        let is_handled = is_child_signal_handled();
        let mask = match is_handled {
            true => SignalMask::empty().with(libc::SIGCHLD).block(),
            false => SignalMask::of_this_thread(),
        };
        let text = CString::from(command);
        let process = match starter::on_lasting_thread(move || spawn(&text, mask)) {
            Ok(process) => process,
            Err(error) => {
                mask.set();
                return Err(error);
            }
        };
        let running = Running {
            process,
            mask: is_handled.then_some(mask),
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
            mask.set();
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

/// Starts a command at the other end of a pipe, as `popen` of the C library. It inherits the
/// calling thread's signal mask. To be closed by `pclose`, on any thread.
///
/// # Errors
/// Those of `popen`.
///
/// ```
/// use baton_sys::commands::open_pipe;
///
/// let pipe = open_pipe(c"exit 3", c"r")?;
/// // SAFETY: the file is open, and is not used again.
/// assert_eq!(unsafe { libc::pclose(pipe.as_ptr()) }, 3 << 8); // a wait status
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn open_pipe(command: &CStr, mode: &CStr) -> io::Result<NonNull<libc::FILE>> {
    let (command, mode) = (CString::from(command), CString::from(mode));
    let opened = starter::on_lasting_thread(move || {
        errno::set(0); // popen may lack memory without saying so
        // SAFETY: both are strings.
        let file = unsafe { libc::popen(command.as_ptr(), mode.as_ptr()) };
        match file.is_null() {
            false => Ok(file as usize),
            true => Err(errno::get()),
        }
    });
    let refused = || io::Error::from_raw_os_error(libc::ENOMEM);
    match opened {
        Ok(file) => NonNull::new(file as *mut libc::FILE).ok_or_else(refused),
        Err(0) => Err(refused()),
        Err(error) => Err(io::Error::from_raw_os_error(error)),
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

fn spawn(command: &CStr, mask: SignalMask) -> io::Result<libc::pid_t> {
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
            libc::posix_spawnattr_setsigmask(attributes, mask.as_set());
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
