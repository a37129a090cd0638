//! The poller of other systems, by the crate `polling`: kqueue on macOS and the BSDs, and epoll in
//! tests on Linux.
//!
//! This module adds what the crate lacks: whether a wait was kicked, a new poller in a fork's
//! child, and descriptors above the standard streams. After a signal handler, the crate's wait
//! continues by itself.
//!
//! **No kick is lost.** [`Poller::kick`] sets `kicked`, then notifies. [`Poller::wait`] returns
//! from the crate's wait, then takes `kicked`. If an earlier notification is pending, another one
//! makes no system call. But the wait that clears the earlier one takes `kicked` after that: all
//! four operations are sequentially consistent.

use super::{Event, Interest, Wait, check_token};
use crate::clock::Instant;
use polling::PollMode;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::time::Duration;

/// The buffer for events, owned by the waiting thread. Events that do not fit come with the next
/// wait.
pub struct Events {
    raw: polling::Events,
    ready: Vec<Event>,
}

impl Events {
    /// A buffer of the crate's default size.
    #[must_use]
    pub fn new() -> Events {
        Events {
            raw: polling::Events::new(),
            ready: Vec::new(),
        }
    }

    /// Takes the events of the last wait out of the buffer.
    pub fn drain(&mut self) -> impl Iterator<Item = Event> + '_ {
        self.ready.drain(..)
    }
}

impl Default for Events {
    fn default() -> Events {
        Events::new()
    }
}

/// The crate's poller, and whether it was kicked.
pub struct Poller {
    /// From a `Box`; replaced only in a fork's child.
    current: AtomicPtr<polling::Poller>,
    kicked: AtomicBool,
}

impl Poller {
    /// Opens the descriptors, closed on exec.
    ///
    /// # Errors
    ///
    /// When the system refuses, usually because the program has too many descriptors open.
    pub fn new() -> io::Result<Poller> {
        Ok(Poller {
            current: AtomicPtr::new(open()?),
            kicked: AtomicBool::new(false),
        })
    }

    /// Sleeps until `deadline` (`None` and [`Instant::FAR_FUTURE`]: for ever), until a descriptor
    /// is ready, or until kicked. With a past deadline it does not sleep. Events that are still in
    /// `events` are lost.
    ///
    /// # Errors
    ///
    /// Those of the system; none is known for an open poller.
    pub fn wait(&self, events: &mut Events, deadline: Option<Instant>) -> io::Result<Wait> {
        let deadline = deadline.filter(|&deadline| deadline != Instant::FAR_FUTURE);
        let timeout: Option<Duration> = deadline.map(|deadline| deadline - Instant::now());
        events.raw.clear();
        events.ready.clear();
        self.current().wait(&mut events.raw, timeout)?;
        events.ready.extend(events.raw.iter().map(read));
        // SeqCst: pairs with the store in `kick` (see the module's text).
        let kicked = self.kicked.swap(false, Ordering::SeqCst);
        Ok(Wait {
            kicked,
            ready: events.ready.len(),
            timed_out: false,
        })
    }

    /// Ends the present wait, or the next one. Async-signal-safe; on any thread; at most one system
    /// call. Callers skip it when they know that the owner is not waiting (see `parking`).
    pub fn kick(&self) {
        // SeqCst: pairs with the swap in `wait` (see the module's text).
        self.kicked.store(true, Ordering::SeqCst);
        // The crate's own descriptor is open, and writing to it cannot fail.
        let _ = self.current().notify();
    }

    /// The system's own descriptor. It is readable (for poll, select) while a wait would return at
    /// once, timers aside.
    #[must_use]
    pub fn fd(&self) -> RawFd {
        self.current().as_raw_fd()
    }

    /// How deadlines reach the kernel: `"polling"`, the crate's way.
    #[must_use]
    pub fn timer_name(&self) -> &'static str {
        "polling"
    }

    /// Registers `fd`, armed for `interest`, as `token`, which must be below
    /// [`FIRST_RESERVED_TOKEN`](super::FIRST_RESERVED_TOKEN).
    ///
    /// # Errors
    ///
    /// `EBADF`: not open. `EPERM`: a file that never blocks and cannot be waited for. `EEXIST`:
    /// registered already. `EINVAL`: a reserved token. Otherwise those of the system.
    pub fn add(&self, fd: RawFd, interest: Interest, token: u64) -> io::Result<()> {
        let event = event(interest, token)?;
        let descriptor = borrow(fd)?;
        // SAFETY: the crate requires that the descriptor is removed before it is closed, as some
        // systems would report it under another name afterwards. The systems that this runs on
        // forget it (epoll(7), kqueue(2)), and events are identified by their tokens.
        unsafe {
            self.current()
                .add_with_mode(&descriptor, event, PollMode::Oneshot)
        }
    }

    /// Registers `fd` for all directions, edge-triggered, as `token`.
    ///
    /// # Errors
    ///
    /// As [`Poller::add`].
    pub fn watch(&self, fd: RawFd, token: u64) -> io::Result<()> {
        let mut event = event(Interest::BOTH, token)?;
        event.set_priority(true);
        let descriptor = borrow(fd)?;
        // SAFETY: as in `add`.
        unsafe {
            self.current()
                .add_with_mode(&descriptor, event, PollMode::Edge)
        }
    }

    /// Registers `fd` for `interest`, edge-triggered, as `token`, or changes its registration to
    /// that. The next wait reports what it is ready for now.
    ///
    /// # Errors
    ///
    /// As [`Poller::add`], without `EEXIST`.
    pub fn renew(&self, fd: RawFd, interest: Interest, token: u64) -> io::Result<()> {
        let event = event(interest, token)?;
        let descriptor = borrow(fd)?;
        match self
            .current()
            .modify_with_mode(descriptor, event, PollMode::Edge)
        {
            // It was not registered, or its number went to another file.
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => {
                // SAFETY: as in `add`.
                unsafe {
                    self.current()
                        .add_with_mode(&descriptor, event, PollMode::Edge)
                }
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
        let event = event(interest, token)?;
        self.current()
            .modify_with_mode(borrow(fd)?, event, PollMode::Oneshot)
    }

    /// Removes the registration of `fd`. Events that a wait has already taken from the kernel may
    /// still be in its buffer.
    ///
    /// # Errors
    ///
    /// `ENOENT`: not registered. `EBADF`: not open.
    pub fn remove(&self, fd: RawFd) -> io::Result<()> {
        self.current().delete(borrow(fd)?)
    }

    /// Opens a new poller in a fork's child. All registrations are gone in the child, which must
    /// add them again. The parent's are unchanged: the inherited poller is leaked, as closing it in
    /// order would remove the parent's registrations.
    ///
    /// # Errors
    ///
    /// When the system refuses the new objects. The poller must not be used afterwards.
    pub fn reopen_after_fork(&self) -> io::Result<()> {
        // Relaxed (both): a fork's child has one thread.
        self.current.store(open()?, Ordering::Relaxed);
        self.kicked.store(false, Ordering::Relaxed);
        Ok(())
    }

    fn current(&self) -> &polling::Poller {
        // Relaxed: it changes only while there is one thread.
        let current = self.current.load(Ordering::Relaxed);
        // SAFETY: it comes from a `Box` that is dropped only with `self`.
        unsafe { &*current }
    }
}

impl Drop for Poller {
    fn drop(&mut self) {
        // SAFETY: it comes from a `Box` that `self` alone owns, and `self` is no longer borrowed.
        drop(unsafe { Box::from_raw(*self.current.get_mut()) });
    }
}

/// Opens a poller, with its descriptor above the standard streams. In a program that was started
/// with one of these closed, the descriptor could take its number, and output would be written to
/// it.
fn open() -> io::Result<*mut polling::Poller> {
    let mut in_the_way = Vec::new();
    loop {
        let next = File::open("/dev/null")?;
        if next.as_raw_fd() > libc::STDERR_FILENO {
            break;
        }
        in_the_way.push(next);
    }
    let poller = polling::Poller::new()?;
    Ok(Box::into_raw(Box::new(poller)))
}

fn borrow(fd: RawFd) -> io::Result<BorrowedFd<'static>> {
    if fd < 0 {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    }
    // SAFETY: it is not -1. The kernel checks whether it is open; it is only passed to system
    // calls, and is not kept.
    Ok(unsafe { BorrowedFd::borrow_raw(fd) })
}

fn event(interest: Interest, token: u64) -> io::Result<polling::Event> {
    check_token(token)?;
    let too_large = |_| io::Error::from_raw_os_error(libc::EINVAL);
    let key = usize::try_from(token).map_err(too_large)?;
    let mut event = polling::Event::new(key, interest.readable, interest.writable);
    event.set_priority(interest.priority);
    Ok(event)
}

/// Converts an event. The crate counts out-of-band data as readable; so does this.
fn read(event: polling::Event) -> Event {
    let failed = event.is_interrupt() || event.is_err() == Some(true);
    Event {
        token: event.key as u64,
        readable: failed || event.readable,
        writable: failed || event.writable,
        priority: event.is_priority(),
        failed,
        ended: event.readable,
    }
}
