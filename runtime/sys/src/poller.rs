//! The owner's wait: one system call for the next deadline, any descriptor and any kick.
//!
//! The contract, which every backend keeps:
//!
//! - [`Poller::wait`] returns at the deadline or later (never earlier by the clock of [`Instant`]),
//!   when a descriptor is ready, when it was kicked, or for no reason: the caller looks at
//!   everything again after each return. A signal handler alone may or may not end it: one that
//!   wants to kicks. It does not sleep when the deadline is past, and it sleeps without any wake-up
//!   when nothing is due.
//! - Registrations are *one-shot* and *level-triggered*: a descriptor that is ready at
//!   [`Poller::add`] or [`Poller::modify`], or becomes so later, is reported once; then it is
//!   silent until [`Poller::modify`] arms it again.
//! - [`Poller::watch`] registers otherwise: for all directions, and *by edges*. What the descriptor
//!   is ready for then is reported, and again whatever it is ready for each time that something new
//!   has come. Nobody arms it again. [`Poller::renew`] does so for some directions. It may be
//!   called again and again, also after the descriptor's number went to another file.
//! - A [`Poller::kick`] before, during or after the decision to wait ends the wait, or the next
//!   one. Kicks coalesce.
//! - Closing a descriptor ends its registration, if no duplicate of it is open; [`Poller::remove`]
//!   first is the clean order.
//! - One thread waits at a time. The other methods may be called on any thread at any moment.
//!
//! | module | for | deadlines |
//! |---|---|---|
//! | `epoll` | Linux | `epoll_pwait2`; a timer descriptor before 5.11 or by `--cfg baton_timerfd` |
//! | `portable` | macOS, the BSDs, Linux by `--cfg baton_portable` | those of the crate `polling` |
//!
//! An [`WakeUpTimer`] wakes the waiter of a poller at a time that another thread sets, without
//! waking it before. Where systems have no timers that are descriptors, there is none
//! (`no_wake_up_timer.rs`), and its users kick instead.
//!
//! One suite, `tests/poller.rs`, holds whichever of them this build has to the contract.
//!
//! System calls are made raw. So a library that defines functions called `poll` or `epoll_wait` for
//! the whole program changes nothing here, and the newer calls need no newer C library.

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

/// What to be told about a descriptor. Failure and hang-up are always told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interest {
    /// There is something to read, or the end.
    pub readable: bool,
    /// There is room to write, or nobody reads.
    pub writable: bool,
    /// There is out-of-band data, or what else `POLLPRI` means for the descriptor.
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
    /// As given to [`Poller::add`] or, later, [`Poller::modify`].
    pub token: u64,
    /// A read will not block: data, the end, or an error.
    pub readable: bool,
    /// A write will not block: room, nobody who reads, or an error.
    pub writable: bool,
    /// Out-of-band data.
    pub priority: bool,
    /// An error or hang-up (`POLLERR`, `POLLHUP`); the two directions are set as well, so that
    /// whoever waits finds out.
    pub failed: bool,
}

/// What a wait brought. All zero: the deadline came, or nothing in particular happened.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Wait {
    /// Somebody kicked.
    pub kicked: bool,
    /// Number of descriptors' events, to be taken with [`Events::drain`].
    pub ready: usize,
}

impl Poller {
    /// Whether a wait would bring something at once, timers aside: for another thread than the one
    /// that waits.
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

/// Asks about one descriptor without waiting: positive if it is ready or not open.
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

/// What a descriptor is ready for at this moment, of what `interest` asks; `None` if it is not
/// open. The token of the answer is 0.
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
    })
}

fn check_token(token: u64) -> io::Result<()> {
    if token < FIRST_RESERVED_TOKEN {
        Ok(())
    } else {
        Err(io::Error::from_raw_os_error(libc::EINVAL))
    }
}
