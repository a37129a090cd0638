//! The owner's wait: one system call for the next deadline, any descriptor and any kick.
//!
//! Every backend keeps this contract:
//!
//! - [`Poller::wait`] returns at the deadline or later (never earlier by the clock of [`Instant`]),
//!   when a descriptor is ready, when it was kicked, or spuriously. So the caller checks everything
//!   after each return. A signal handler may or may not end the wait, so a handler that must end it
//!   kicks. The wait does not sleep if the deadline is past. It sleeps without wake-ups if nothing
//!   is due.
//! - Registrations are *one-shot* and *level-triggered*. A descriptor that is ready at
//!   [`Poller::add`] or [`Poller::modify`], or becomes ready later, is reported once. Then it is
//!   silent until [`Poller::modify`] arms it again.
//! - [`Poller::watch`] registers all directions, *edge-triggered*. It reports what the descriptor
//!   is ready for then, and again, with all of its readiness, after each new event. It need not be
//!   armed again. [`Poller::renew`] does the same for some directions. It may be called repeatedly,
//!   even after the descriptor's number went to another file.
//! - A [`Poller::kick`] before, during or after the decision to wait ends this wait or the next
//!   one. Kicks coalesce.
//! - Closing a descriptor ends its registration, unless a duplicate of it is open. It is cleaner to
//!   call [`Poller::remove`] first.
//! - One thread waits at a time. The other methods may be called on any thread at any time.
//!
//! | module | for | deadlines |
//! |---|---|---|
//! | `epoll` | Linux | `epoll_pwait2`; a timer descriptor before 5.11 or by `--cfg baton_timerfd` |
//! | `portable` | macOS, the BSDs, Linux by `--cfg baton_portable` | those of the crate `polling` |
//!
//! A [`WakeUpTimer`] wakes the waiter of a poller at a time that another thread sets. Setting it
//! does not wake the waiter. On systems without timer descriptors there is none
//! (`no_wake_up_timer.rs`), and its users kick instead.
//!
//! `tests/poller.rs` tests the contract for the backend of the build.
//!
//! System calls are made directly. So libraries that replace `poll` or `epoll_wait` for the whole
//! program have no effect here, and the newer calls need no newer C library.

#[cfg(all(target_os = "linux", not(baton_portable)))]
#[path = "poller/epoll.rs"]
mod backend;
#[cfg(any(not(target_os = "linux"), baton_portable))]
#[path = "poller/portable.rs"]
mod backend;

#[cfg(all(target_os = "linux", not(baton_portable)))]
#[path = "poller/wake_up_timer.rs"]
mod wake_up_timer;
#[cfg(any(not(target_os = "linux"), baton_portable))]
#[path = "poller/no_wake_up_timer.rs"]
mod wake_up_timer;

pub use backend::{Events, Poller};
pub use wake_up_timer::WakeUpTimer;

use std::io;

#[cfg(doc)]
use crate::clock::Instant;

/// Tokens from here on belong to the poller itself.
pub const FIRST_RESERVED_TOKEN: u64 = u64::MAX - 1;

/// The events to report for a descriptor. Failure and hang-up are always reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interest {
    /// There is something to read, or the end.
    pub readable: bool,
    /// There is room to write, or no reader.
    pub writable: bool,
    /// There is out-of-band data, or another `POLLPRI` condition.
    pub priority: bool,
}

impl Interest {
    /// Reading alone.
    pub const READABLE: Interest = Interest {
        readable: true,
        writable: false,
        priority: false,
    };
    /// Writing alone.
    pub const WRITABLE: Interest = Interest {
        readable: false,
        writable: true,
        priority: false,
    };
    /// Both directions.
    pub const BOTH: Interest = Interest {
        readable: true,
        writable: true,
        priority: false,
    };
}

/// A descriptor's readiness, by the token of its registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The token given to [`Poller::add`] or, later, [`Poller::modify`].
    pub token: u64,
    /// A read will not block: data, the end, or an error.
    pub readable: bool,
    /// A write will not block: room, no reader, or an error.
    pub writable: bool,
    /// Out-of-band data.
    pub priority: bool,
    /// An error or hang-up (`POLLERR`, `POLLHUP`). The two directions are set as well, so that
    /// waiting processes notice it.
    pub failed: bool,
    /// The other end sends no more (`POLLRDHUP`). Also set where the system does not say whether.
    pub ended: bool,
}

/// The result of a wait. All zero: it ended spuriously, or the poller cannot tell whether the
/// deadline came.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Wait {
    /// The poller was kicked.
    pub kicked: bool,
    /// How many descriptor events to take with [`Events::drain`].
    pub ready: usize,
    /// The time until the deadline has passed in the kernel, whatever the clock says: it may have
    /// been replaced by one that stands still.
    pub timed_out: bool,
}

impl Poller {
    /// Whether a wait would return events at once, timers aside. For a thread other than the
    /// waiting one.
    #[must_use]
    pub fn has_news(&self) -> bool {
        let mut asked = libc::pollfd {
            fd: self.fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        ask_now(&mut asked) > 0
    }
}

/// Polls one descriptor without waiting. Returns a positive number if it is ready or not open.
#[cfg(target_os = "linux")]
fn ask_now(asked: &mut libc::pollfd) -> libc::c_long {
    const NO_SIGNAL_SET: usize = 0;
    let at_once = [0_i64; 2];
    // SAFETY: one pollfd, which the kernel writes to, and a time that it may write to are valid for
    // the call; there is no signal set.
    unsafe {
        libc::syscall(
            libc::SYS_ppoll,
            std::ptr::from_mut(asked),
            1,
            at_once.as_ptr(),
            NO_SIGNAL_SET,
            0,
        )
    }
}

#[cfg(not(target_os = "linux"))]
fn ask_now(asked: &mut libc::pollfd) -> libc::c_long {
    // SAFETY: one pollfd, which the kernel writes to, is valid for the call.
    libc::c_long::from(unsafe { libc::poll(asked, 1, 0) })
}

/// What a descriptor is ready for now, of `interest`; `None` if it is not open. The event's token
/// is 0.
#[must_use]
pub fn readiness_now(fd: i32, interest: Interest) -> Option<Event> {
    let wanted = [
        (interest.readable, libc::POLLIN),
        (interest.writable, libc::POLLOUT),
        (interest.priority, libc::POLLPRI),
    ];
    let events = wanted.into_iter().filter(|&(is_wanted, _)| is_wanted);
    let mut asked = libc::pollfd {
        fd,
        events: events.fold(0, |all, (_, bit)| all | bit),
        revents: 0,
    };
    if ask_now(&mut asked) <= 0 {
        asked.revents = 0;
    }
    let has = |bits| asked.revents & bits != 0;
    let failed = has(libc::POLLERR | libc::POLLHUP);
    (!has(libc::POLLNVAL)).then_some(Event {
        token: 0,
        readable: failed || has(libc::POLLIN),
        writable: failed || has(libc::POLLOUT),
        priority: has(libc::POLLPRI),
        failed,
        ended: false, // it was not asked for
    })
}

fn check_token(token: u64) -> io::Result<()> {
    if token < FIRST_RESERVED_TOKEN {
        Ok(())
    } else {
        Err(io::Error::from_raw_os_error(libc::EINVAL))
    }
}
