//! A copy of the program, in which its memory is read while the program goes on.
//!
//! The copy is made by the system call `clone`, as `fork` makes one. But it runs none of the
//! handlers around a fork (`pthread_atfork`): they take locks of the program, and prepare a child
//! that goes on as the program. This one only reads, writes to a pipe, and ends.
//!
//! ```text
//! the program                                    the copy
//! Preparation::new: a pipe
//! Preparation::copy
//!   blocks all signals of this thread
//!   clone -------------------------------------> SIGALRM ends it at its limit of time
//!   restores them, and goes on                   closes all but the pipe
//! ProgramCopy::read <--------------------------- work: reads memory, writes to the pipe
//! ProgramCopy::end: waits for it <-------------- _exit
//! ```
//!
//! **What the program notices.** It stands still for the system call, which copies its page tables.
//! Then the first write to each page costs a fault, until the copy has ended. The copy sends no
//! SIGCHLD, and a `wait` for any child does not find it (`__WCLONE`).
//!
//! **What the copy may do.** Another thread of the program may have held a lock when the copy was
//! made, of malloc or of stdio for example. That thread does not exist in the copy, so the lock
//! stays held. So the copy calls only async-signal-safe functions.
//!
//! **Who ends it.** If the program ends or stops reading, the next write to the pipe fails.
//! Dropping a [`ProgramCopy`] kills the copy. If memory is short, the system kills the copy first.

use std::ffi::{CStr, c_int, c_void};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

/// What a copy does: it gets a context and the pipe to write to, and returns its exit status.
pub type Work = unsafe extern "C" fn(context: *const c_void, output: c_int) -> c_int;

/// How long a reader waits before it checks whether the copy has ended. Usually the end of the pipe
/// says so. But if another thread has started a program meanwhile, that may have the pipe, too.
const CHECK: Duration = Duration::from_millis(500);

/// What is made before the program is copied.
#[derive(Debug)]
pub struct Preparation {
    reader: OwnedFd,
    writer: OwnedFd,
}

impl Preparation {
    /// Makes a pipe.
    ///
    /// # Errors
    /// The system's: no descriptors are left, or no memory.
    pub fn new() -> io::Result<Preparation> {
        let (reader, writer) = platform::pipe()?;
        Ok(Preparation { reader, writer })
    }

    /// Copies the program, on the calling thread's stack as it is. In the copy, that thread calls
    /// `work`. The copy ends after `limit` at the latest (rounded up to seconds). People see it
    /// under `name`, of at most 15 bytes.
    ///
    /// # Errors
    /// The system's: `EAGAIN` or `ENOMEM` if it has no room, `EPERM` or `ENOSYS` if a filter
    /// forbids it. `Unsupported` on systems other than Linux.
    ///
    /// # Safety
    /// In a program with no other thread than the calling one, and with this memory, `work` may be
    /// called with `context`. It calls only async-signal-safe functions, and does not unwind.
    pub unsafe fn copy(
        self,
        name: &CStr,
        limit: Duration,
        work: Work,
        context: *const c_void,
    ) -> io::Result<ProgramCopy> {
        let began = Instant::now();
        let job = platform::Job {
            name,
            limit,
            work,
            context,
            output: self.writer.as_raw_fd(),
        };
        // SAFETY: the caller's conditions.
        let process = unsafe { platform::start(&job) }?;
        Ok(ProgramCopy {
            process,
            output: self.reader,
            pause: began.elapsed(),
            end: None,
        })
    }
}

/// How a copy has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// By itself, with this status.
    Status(c_int),
    /// By this signal: SIGALRM at its limit of time.
    Signal(c_int),
    /// It has ended, and the program has waited for it elsewhere.
    Unknown,
}

/// A copy that runs. Dropping it ends it.
#[derive(Debug)]
pub struct ProgramCopy {
    process: libc::pid_t,
    output: OwnedFd,
    pause: Duration,
    /// Set once the system has been told that the copy is not needed as a zombie.
    end: Option<End>,
}

impl ProgramCopy {
    /// How long the calling thread stood still for the copy.
    #[must_use]
    pub fn pause(&self) -> Duration {
        self.pause
    }

    /// Its process number.
    #[must_use]
    pub fn process(&self) -> u32 {
        self.process.unsigned_abs()
    }

    /// Reads what the copy has written. Waits until there is something; 0 means that it has ended.
    ///
    /// # Errors
    /// The system's.
    pub fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        loop {
            let patience = if self.end.is_some() {
                Duration::ZERO
            } else {
                CHECK
            };
            if platform::is_readable(&self.output, patience)? {
                return platform::read(&self.output, bytes);
            }
            if self.end.is_some() {
                return Ok(0);
            }
            self.end = platform::wait(self.process, false);
        }
    }

    /// Waits for its end.
    #[must_use]
    pub fn end(mut self) -> End {
        self.wait()
    }

    fn wait(&mut self) -> End {
        *self
            .end
            .get_or_insert_with(|| platform::wait(self.process, true).unwrap_or(End::Unknown))
    }
}

impl Drop for ProgramCopy {
    fn drop(&mut self) {
        if self.end.is_none() {
            platform::kill(self.process);
            self.wait();
        }
    }
}

#[cfg(target_os = "linux")]
mod platform {
    use super::{End, Work};
    use std::ffi::{CStr, c_int, c_uint, c_void};
    use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
    use std::time::Duration;
    use std::{io, mem, ptr};

    /// Bytes that the copy may be ahead of the reader. The system may grant fewer.
    const PIPE: c_int = 1 << 20;

    /// What a copy is given.
    pub(super) struct Job<'a> {
        pub(super) name: &'a CStr,
        pub(super) limit: Duration,
        pub(super) work: Work,
        pub(super) context: *const c_void,
        pub(super) output: c_int,
    }

    /// The reading end, which never blocks, and the writing end.
    pub(super) fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
        let mut ends = [0; 2];
        // SAFETY: there is room for two descriptors, which are new. Their flags and their size are
        // set by integers.
        unsafe {
            if libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) != 0 {
                return Err(io::Error::last_os_error());
            }
            let (reader, writer) = (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1]));
            libc::fcntl(ends[1], libc::F_SETPIPE_SZ, PIPE);
            if libc::fcntl(ends[0], libc::F_SETFL, libc::O_NONBLOCK) != 0 {
                return Err(io::Error::last_os_error());
            }
            Ok((reader, writer))
        }
    }

    /// Makes the copy. Returns its process number.
    ///
    /// # Safety
    /// As for `Preparation::copy`. `output` is open.
    pub(super) unsafe fn start(job: &Job<'_>) -> io::Result<libc::pid_t> {
        // SAFETY: all-zero bytes are a set of signals. The calls get sets that they may read or
        // write. `clone` without flags copies the memory, and both sides return; the child's signal
        // at its end is none. The child never leaves `run`.
        let result = unsafe {
            let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = mem::zeroed();
            libc::sigfillset(&raw mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
            let result =
                libc::syscall(libc::SYS_clone, 0_usize, 0_usize, 0_usize, 0_usize, 0_usize);
            if result == 0 {
                run(job);
            }
            let error = io::Error::last_os_error();
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, ptr::null_mut());
            if result > 0 { Ok(result) } else { Err(error) }
        };
        result.map(|process| process as libc::pid_t)
    }

    /// The copy, from its start to its end. Calls only async-signal-safe functions.
    ///
    /// # Safety
    /// This is the copy, and the caller has promised what `Preparation::copy` asks for.
    unsafe fn run(job: &Job<'_>) -> ! {
        let seconds = job.limit.as_secs() + u64::from(job.limit.subsec_nanos() > 0);
        // SAFETY: system calls with integers, and with records that are filled here. All signals
        // are blocked; only SIGALRM is let through, with its default action.
        unsafe {
            let mut action: libc::sigaction = mem::zeroed();
            action.sa_sigaction = libc::SIG_DFL;
            libc::sigaction(libc::SIGALRM, &raw const action, ptr::null_mut());
            let mut blocked: libc::sigset_t = mem::zeroed();
            libc::sigfillset(&raw mut blocked);
            libc::sigdelset(&raw mut blocked, libc::SIGALRM);
            libc::sigprocmask(libc::SIG_SETMASK, &raw const blocked, ptr::null_mut());
            libc::alarm(c_uint::try_from(seconds).unwrap_or(c_uint::MAX));
            close_all_but(job.output);
            let no_core = libc::rlimit {
                rlim_cur: 0,
                rlim_max: 0,
            };
            libc::setrlimit(libc::RLIMIT_CORE, &raw const no_core);
            // The program goes first where processors are few. But the copy is not starved, as it
            // costs memory.
            libc::setpriority(libc::PRIO_PROCESS, 0, 10);
            libc::prctl(libc::PR_SET_NAME, job.name.as_ptr());
            be_killed_first();
        }
        // SAFETY: the caller's condition.
        let status = unsafe { (job.work)(job.context, job.output) };
        // SAFETY: it ends the copy at once; no destructor runs.
        unsafe { libc::_exit(status) }
    }

    /// Closes what the copy has inherited, so that it keeps no connection and no file open.
    fn close_all_but(kept: c_int) {
        const MOST: libc::rlim_t = 1 << 20;
        let close_range = |first: c_int, last: c_uint| {
            // SAFETY: nothing in the copy uses a descriptor but `kept`.
            unsafe { libc::syscall(libc::SYS_close_range, first as c_uint, last, 0) == 0 }
        };
        let below = kept == 0 || close_range(0, kept as c_uint - 1);
        if below && close_range(kept + 1, c_uint::MAX) {
            return;
        }
        // Linux before 5.9, or a filter.
        // SAFETY: the record is written, and the descriptors are closed as above.
        unsafe {
            let mut limit: libc::rlimit = mem::zeroed();
            libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
            for descriptor in 0..limit.rlim_cur.min(MOST) as c_int {
                if descriptor != kept {
                    libc::close(descriptor);
                }
            }
        }
    }

    /// Has the system take this process first if memory is short. See proc(5), `oom_score_adj`.
    fn be_killed_first() {
        const MOST: &[u8] = b"1000";
        // SAFETY: the path is a C string, and the text has its length. A refusal does no harm.
        unsafe {
            let file = libc::open(c"/proc/self/oom_score_adj".as_ptr(), libc::O_WRONLY);
            if file >= 0 {
                libc::write(file, MOST.as_ptr().cast(), MOST.len());
                libc::close(file);
            }
        }
    }

    /// Whether there is something to read, or nobody can write any more.
    pub(super) fn is_readable(output: &OwnedFd, patience: Duration) -> io::Result<bool> {
        let mut ready = libc::pollfd {
            fd: output.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        let patience = c_int::try_from(patience.as_millis()).unwrap_or(c_int::MAX);
        // SAFETY: one record, which is read and written.
        match unsafe { libc::poll(&raw mut ready, 1, patience) } {
            -1 => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => Ok(false),
                error => Err(error),
            },
            count => Ok(count > 0),
        }
    }

    pub(super) fn read(output: &OwnedFd, bytes: &mut [u8]) -> io::Result<usize> {
        // SAFETY: the bytes may be written.
        let size =
            unsafe { libc::read(output.as_raw_fd(), bytes.as_mut_ptr().cast(), bytes.len()) };
        usize::try_from(size).map_err(|_| io::Error::last_os_error())
    }

    pub(super) fn kill(process: libc::pid_t) {
        // SAFETY: two integers; the process is a child that nobody has waited for.
        unsafe { libc::kill(process, libc::SIGKILL) };
    }

    /// The end of a copy; `None` if it has not ended, unless `blocks`.
    pub(super) fn wait(process: libc::pid_t, blocks: bool) -> Option<End> {
        let options = libc::__WALL | if blocks { 0 } else { libc::WNOHANG };
        loop {
            let mut status = 0;
            // SAFETY: the status may be written.
            match unsafe { libc::waitpid(process, &raw mut status, options) } {
                0 => return None,
                -1 if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
                -1 => return Some(End::Unknown),
                _ if libc::WIFSIGNALED(status) => return Some(End::Signal(libc::WTERMSIG(status))),
                _ => return Some(End::Status(libc::WEXITSTATUS(status))),
            }
        }
    }
}

/// Other systems have no `clone`, and their `fork` runs the handlers.
#[cfg(not(target_os = "linux"))]
mod platform {
    use super::{End, Work};
    use std::ffi::{CStr, c_int, c_void};
    use std::io;
    use std::os::fd::OwnedFd;
    use std::time::Duration;

    #[allow(dead_code)] // as on Linux, which reads it
    pub(super) struct Job<'a> {
        pub(super) name: &'a CStr,
        pub(super) limit: Duration,
        pub(super) work: Work,
        pub(super) context: *const c_void,
        pub(super) output: c_int,
    }

    fn refusal<T>() -> io::Result<T> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
        refusal()
    }

    pub(super) unsafe fn start(_job: &Job<'_>) -> io::Result<libc::pid_t> {
        refusal()
    }

    pub(super) fn is_readable(_output: &OwnedFd, _patience: Duration) -> io::Result<bool> {
        refusal()
    }

    pub(super) fn read(_output: &OwnedFd, _bytes: &mut [u8]) -> io::Result<usize> {
        refusal()
    }

    pub(super) fn kill(_process: libc::pid_t) {}

    pub(super) fn wait(_process: libc::pid_t, _blocks: bool) -> Option<End> {
        Some(End::Unknown)
    }
}
