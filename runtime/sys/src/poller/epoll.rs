//! The poller of Linux: epoll, an event counter for kicks and, on old kernels, a timer descriptor.

use super::{Event, FIRST_RESERVED_TOKEN, Interest, Wait, check_token};
use crate::clock::Instant;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const KICK_TOKEN: u64 = u64::MAX;
const TIMER_TOKEN: u64 = FIRST_RESERVED_TOKEN;
/// The size of the kernel's signal set; no set is passed.
const SIGNAL_SET_SIZE: usize = 8;
const DISARMED: u64 = 0;

/// The buffer for events, owned by the waiting thread. Events that do not fit come with the next
/// wait.
pub struct Events {
    buffer: Vec<libc::epoll_event>,
}

impl Events {
    const CAPACITY: usize = 256;

    /// A buffer for 256 events.
    #[must_use]
    pub fn new() -> Events {
        Events {
            buffer: Vec::with_capacity(Self::CAPACITY),
        }
    }

    /// Takes the events of the last wait out of the buffer.
    pub fn drain(&mut self) -> impl Iterator<Item = Event> + '_ {
        self.buffer.drain(..).map(|raw| {
            let bits = raw.events as libc::c_int;
            let failed = bits & (libc::EPOLLERR | libc::EPOLLHUP) != 0;
            Event {
                token: raw.u64,
                readable: failed || bits & (libc::EPOLLIN | libc::EPOLLRDHUP) != 0,
                writable: failed || bits & libc::EPOLLOUT != 0,
                priority: bits & libc::EPOLLPRI != 0,
                failed,
                ended: bits & libc::EPOLLRDHUP != 0,
            }
        })
    }
}

impl Default for Events {
    fn default() -> Events {
        Events::new()
    }
}

/// How deadlines reach the kernel.
enum Timer {
    /// Nanosecond timeouts of the wait itself (Linux 5.11).
    EpollPwait2,
    /// A timer descriptor. `armed` is the deadline that it was last set to; only the waiting thread
    /// uses it (Relaxed).
    TimerFd { timer: OwnedFd, armed: AtomicU64 },
}

/// An epoll instance, an event counter for kicks and, on old kernels, a timer.
pub struct Poller {
    epoll: OwnedFd,
    kick: OwnedFd,
    timer: Timer,
}

impl Poller {
    /// Opens the two or three descriptors, closed on exec.
    ///
    /// # Errors
    ///
    /// When the system refuses, usually because the program has too many descriptors open.
    pub fn new() -> io::Result<Poller> {
        let epoll = create_epoll()?;
        let kick = create_kick()?;
        let timer = if pwait2_is_supported(&epoll) {
            Timer::EpollPwait2
        } else {
            Timer::TimerFd {
                timer: create_timer()?,
                armed: AtomicU64::new(DISARMED),
            }
        };
        let poller = Poller { epoll, kick, timer };
        poller.register_own_descriptors()?;
        Ok(poller)
    }

    /// Sleeps until `deadline` (`None` and [`Instant::FAR_FUTURE`]: for ever), until a descriptor
    /// is ready, until kicked, or until a signal handler has run. With a past deadline it does not
    /// sleep. Events that are still in `events` are lost.
    ///
    /// # Errors
    ///
    /// Those of the system; none is known for an open poller.
    pub fn wait(&self, events: &mut Events, deadline: Option<Instant>) -> io::Result<Wait> {
        events.buffer.clear();
        let room = events.buffer.spare_capacity_mut();
        let room = (
            room.as_mut_ptr().cast::<libc::epoll_event>(),
            room.len().min(Events::CAPACITY),
        );
        let deadline = deadline.filter(|&deadline| deadline != Instant::FAR_FUTURE);
        let result = match &self.timer {
            Timer::EpollPwait2 => self.wait_by_timeout(room, deadline),
            Timer::TimerFd { timer, armed } => self.wait_by_timer(room, timer, armed, deadline),
        };
        let (filled, mut timed_out) = match result {
            Ok(filled) => (filled, filled == 0),
            // A signal handler may have changed what the caller must check.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => (0, false),
            Err(error) => return Err(error),
        };
        // SAFETY: the kernel has written `filled` events from the beginning of the room, which
        // began at index 0.
        unsafe { events.buffer.set_len(filled) };
        let mut kicked = false;
        events.buffer.retain(|event| {
            let token = event.u64;
            kicked |= token == KICK_TOKEN;
            timed_out |= token == TIMER_TOKEN;
            token < FIRST_RESERVED_TOKEN
        });
        if timed_out && let Timer::TimerFd { armed, .. } = &self.timer {
            // Relaxed: only the waiting thread uses it. The timer has gone off once for this time.
            armed.store(DISARMED, Ordering::Relaxed);
        }
        Ok(Wait {
            kicked,
            ready: events.buffer.len(),
            timed_out,
        })
    }

    /// Ends the present wait, or the next one. Async-signal-safe; on any thread; one system call.
    /// Callers skip it when they know that the owner is not waiting (see `parking`).
    pub fn kick(&self) {
        let one = 1_u64;
        // SAFETY: eight bytes are read from `one`. The counter cannot overflow within the program's
        // life, so the write cannot fail.
        unsafe {
            libc::syscall(
                libc::SYS_write,
                self.kick.as_raw_fd(),
                &raw const one,
                size_of::<u64>(),
            )
        };
    }

    /// The epoll descriptor. It is readable (for poll, select, epoll) while a wait would return at
    /// once, timers aside.
    #[must_use]
    pub fn fd(&self) -> RawFd {
        self.epoll.as_raw_fd()
    }

    /// How deadlines reach the kernel: `"epoll_pwait2"` or `"timerfd"`.
    #[must_use]
    pub fn timer_name(&self) -> &'static str {
        match self.timer {
            Timer::EpollPwait2 => "epoll_pwait2",
            Timer::TimerFd { .. } => "timerfd",
        }
    }

    /// Registers `fd`, armed for `interest`, as `token`, which must be below
    /// [`FIRST_RESERVED_TOKEN`].
    ///
    /// # Errors
    ///
    /// `EBADF`: not open. `EPERM`: a file that never blocks and cannot be waited for. `EEXIST`:
    /// registered already. `EINVAL`: a reserved token. Otherwise those of the system.
    pub fn add(&self, fd: RawFd, interest: Interest, token: u64) -> io::Result<()> {
        check_token(token)?;
        self.control(libc::EPOLL_CTL_ADD, fd, bits(interest), token)
    }

    /// Registers `fd` for all directions, edge-triggered, as `token`.
    ///
    /// # Errors
    ///
    /// As [`Poller::add`].
    pub fn watch(&self, fd: RawFd, token: u64) -> io::Result<()> {
        check_token(token)?;
        let bits =
            libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLOUT | libc::EPOLLPRI | libc::EPOLLET;
        self.control(libc::EPOLL_CTL_ADD, fd, bits as u32, token)
    }

    /// Registers `fd` for `interest`, edge-triggered, as `token`, or changes its registration to
    /// that. The next wait reports what it is ready for now.
    ///
    /// # Errors
    ///
    /// As [`Poller::add`], without `EEXIST`.
    pub fn renew(&self, fd: RawFd, interest: Interest, token: u64) -> io::Result<()> {
        check_token(token)?;
        let bits = bits(interest) & !(libc::EPOLLONESHOT as u32) | libc::EPOLLET as u32;
        match self.control(libc::EPOLL_CTL_MOD, fd, bits, token) {
            // It was not registered, or its number went to another file.
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => {
                self.control(libc::EPOLL_CTL_ADD, fd, bits, token)
            }
            renewed => renewed,
        }
    }

    /// Arms the registered `fd` again, for `interest`, as `token`. If it is ready already, the next
    /// wait reports that.
    ///
    /// # Errors
    ///
    /// `ENOENT`: not registered, for instance because it was closed meanwhile; and as
    /// [`Poller::add`].
    pub fn modify(&self, fd: RawFd, interest: Interest, token: u64) -> io::Result<()> {
        check_token(token)?;
        self.control(libc::EPOLL_CTL_MOD, fd, bits(interest), token)
    }

    /// Removes the registration of `fd`. Events that a wait has already taken from the kernel may
    /// still be in its buffer.
    ///
    /// # Errors
    ///
    /// `ENOENT`: not registered. `EBADF`: not open.
    pub fn remove(&self, fd: RawFd) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_DEL, fd, 0, 0)
    }

    /// Replaces the kernel objects that a fork's child shares with its parent, at the same
    /// descriptor numbers. All registrations are gone in the child, which must add them again. The
    /// parent's are unchanged. Async-signal-safe.
    ///
    /// # Errors
    ///
    /// When the system refuses the new objects. The poller must not be used afterwards.
    pub fn reopen_after_fork(&self) -> io::Result<()> {
        replace(&self.epoll, create_epoll()?)?;
        replace(&self.kick, create_kick()?)?;
        if let Timer::TimerFd { timer, armed } = &self.timer {
            replace(timer, create_timer()?)?;
            // Relaxed: a fork's child has one thread.
            armed.store(DISARMED, Ordering::Relaxed);
        }
        self.register_own_descriptors()
    }

    /// Registers the poller's own descriptors. The counter of kicks is never read back: it is
    /// edge-triggered, so it reports once for any number of writes since the last report.
    fn register_own_descriptors(&self) -> io::Result<()> {
        let edge = (libc::EPOLLIN | libc::EPOLLET) as u32;
        self.control(libc::EPOLL_CTL_ADD, self.kick.as_raw_fd(), edge, KICK_TOKEN)?;
        if let Timer::TimerFd { timer, .. } = &self.timer {
            self.control(libc::EPOLL_CTL_ADD, timer.as_raw_fd(), edge, TIMER_TOKEN)?;
        }
        Ok(())
    }

    fn control(&self, operation: libc::c_int, fd: RawFd, bits: u32, token: u64) -> io::Result<()> {
        let mut event = libc::epoll_event {
            events: bits,
            u64: token,
        };
        // SAFETY: `event` is valid for the call; the kernel checks the descriptors.
        let result = unsafe {
            libc::syscall(
                libc::SYS_epoll_ctl,
                self.epoll.as_raw_fd(),
                operation,
                fd,
                &raw mut event,
            )
        };
        if result == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }

    fn wait_by_timeout(&self, room: Room, deadline: Option<Instant>) -> io::Result<usize> {
        let timeout = deadline
            .map(|deadline| KernelTime::from_nanos((deadline - Instant::now()).as_nanos() as u64));
        epoll_pwait2(&self.epoll, room, timeout.as_ref())
    }

    fn wait_by_timer(
        &self,
        room: Room,
        timer: &OwnedFd,
        armed: &AtomicU64,
        deadline: Option<Instant>,
    ) -> io::Result<usize> {
        let now = Instant::now();
        if deadline.is_some_and(|deadline| deadline <= now) {
            return epoll_pwait(&self.epoll, room, 0);
        }
        let wanted = deadline.map_or(DISARMED, Instant::as_nanos);
        // Relaxed: only the waiting thread uses it.
        if armed.load(Ordering::Relaxed) != wanted {
            set_timer(timer, deadline.map(|deadline| deadline - now))?;
            armed.store(wanted, Ordering::Relaxed);
        }
        epoll_pwait(&self.epoll, room, -1)
    }
}

/// The buffer where the kernel writes events, and its capacity.
type Room = (*mut libc::epoll_event, usize);

/// `struct __kernel_timespec`: 64 bits each on every architecture.
#[repr(C)]
struct KernelTime {
    seconds: i64,
    nanoseconds: i64,
}

impl KernelTime {
    fn from_nanos(nanoseconds: u64) -> KernelTime {
        // Both quotients are far below the sign bit.
        KernelTime {
            seconds: (nanoseconds / 1_000_000_000) as i64,
            nanoseconds: (nanoseconds % 1_000_000_000) as i64,
        }
    }
}

fn epoll_pwait2(epoll: &OwnedFd, room: Room, timeout: Option<&KernelTime>) -> io::Result<usize> {
    let timeout = timeout.map_or(ptr::null(), ptr::from_ref);
    // SAFETY: the kernel writes at most `room.1` events to `room.0`, which the callers took from a
    // buffer with that capacity; `timeout` is null or valid; there is no signal set.
    let result = unsafe {
        libc::syscall(
            libc::SYS_epoll_pwait2,
            epoll.as_raw_fd(),
            room.0,
            room.1,
            timeout,
            ptr::null::<u8>(),
            SIGNAL_SET_SIZE,
        )
    };
    count_of(result)
}

fn epoll_pwait(epoll: &OwnedFd, room: Room, milliseconds: libc::c_int) -> io::Result<usize> {
    // SAFETY: as for `epoll_pwait2`.
    let result = unsafe {
        libc::syscall(
            libc::SYS_epoll_pwait,
            epoll.as_raw_fd(),
            room.0,
            room.1,
            milliseconds,
            ptr::null::<u8>(),
            SIGNAL_SET_SIZE,
        )
    };
    count_of(result)
}

/// The number of events.
fn count_of(result: libc::c_long) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// Whether the kernel has `epoll_pwait2`; checked once per program. Old kernels return ENOSYS, and
/// old sandboxes EPERM.
fn pwait2_is_supported(epoll: &OwnedFd) -> bool {
    static SUPPORTED: OnceLock<bool> = OnceLock::new();
    if cfg!(baton_timerfd) {
        return false;
    }
    *SUPPORTED.get_or_init(|| {
        let mut event = libc::epoll_event { events: 0, u64: 0 };
        let asked = epoll_pwait2(epoll, (&raw mut event, 1), Some(&KernelTime::from_nanos(0)));
        asked.is_ok() || asked.is_err_and(|error| error.kind() == io::ErrorKind::Interrupted)
    })
}

/// Sets a timer to go off after some time, or clears it. The time is relative: the program's clock
/// may be another one than the kernel's, as under faketime.
pub(super) fn set_timer(timer: &OwnedFd, after: Option<Duration>) -> io::Result<()> {
    let nanoseconds = after.map_or(0, |after| (after.as_nanos() as u64).max(1));
    let value = KernelTime::from_nanos(nanoseconds);
    // struct itimerspec: the interval, then the value; all zero disarms.
    let setting = [KernelTime::from_nanos(0), value];
    // SAFETY: `setting` has the layout of the kernel's 64-bit itimerspec and is valid for the call;
    // no old setting is asked for.
    let result = unsafe {
        libc::syscall(
            libc::SYS_timerfd_settime,
            timer.as_raw_fd(),
            0,
            setting.as_ptr(),
            ptr::null::<u8>(),
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

fn create_epoll() -> io::Result<OwnedFd> {
    // SAFETY: takes one integer.
    own("epoll_create1", unsafe {
        libc::syscall(libc::SYS_epoll_create1, libc::EPOLL_CLOEXEC)
    })
}

fn create_kick() -> io::Result<OwnedFd> {
    // SAFETY: takes two integers.
    own("eventfd", unsafe {
        libc::syscall(
            libc::SYS_eventfd2,
            0,
            libc::EFD_CLOEXEC | libc::EFD_NONBLOCK,
        )
    })
}

pub(super) fn create_timer() -> io::Result<OwnedFd> {
    let flags = libc::TFD_CLOEXEC | libc::TFD_NONBLOCK;
    // SAFETY: takes two integers.
    own("timerfd_create", unsafe {
        libc::syscall(libc::SYS_timerfd_create, libc::CLOCK_MONOTONIC, flags)
    })
}

/// The descriptor that a system call has returned. An error names the call.
fn own(call: &str, result: libc::c_long) -> io::Result<OwnedFd> {
    match RawFd::try_from(result) {
        // SAFETY: the kernel has just opened the descriptor, and it is not shared.
        Ok(fd) if fd >= 0 => above_standard_streams(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => {
            let error = io::Error::last_os_error();
            Err(io::Error::new(error.kind(), format!("{call}: {error}")))
        }
    }
}

/// Moves a descriptor above the standard streams. In a program that was started with one of these
/// closed, a poller's descriptor could take its number, and output would be written to it.
fn above_standard_streams(fd: OwnedFd) -> io::Result<OwnedFd> {
    if fd.as_raw_fd() > libc::STDERR_FILENO {
        return Ok(fd);
    }
    let lowest = libc::STDERR_FILENO + 1;
    // SAFETY: duplicates an open descriptor of ours; takes integers only.
    own("fcntl", unsafe {
        libc::syscall(
            libc::SYS_fcntl,
            fd.as_raw_fd(),
            libc::F_DUPFD_CLOEXEC,
            lowest,
        )
    })
}

/// Puts `new`'s kernel object at `old`'s descriptor number.
pub(super) fn replace(old: &OwnedFd, new: OwnedFd) -> io::Result<()> {
    // SAFETY: both descriptors are open and ours; dup3 closes the old object's descriptor and puts
    // the new one in its place, so `old` stays an owned, open descriptor.
    let result = unsafe {
        libc::syscall(
            libc::SYS_dup3,
            new.as_raw_fd(),
            old.as_raw_fd(),
            libc::O_CLOEXEC,
        )
    };
    if result >= 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

fn bits(interest: Interest) -> u32 {
    let mut bits = libc::EPOLLONESHOT;
    if interest.readable {
        bits |= libc::EPOLLIN | libc::EPOLLRDHUP;
    }
    if interest.writable {
        bits |= libc::EPOLLOUT;
    }
    if interest.priority {
        bits |= libc::EPOLLPRI;
    }
    bits as u32
}
