//! The poller of other systems: the crate `polling`, which is kqueue on macOS and the BSDs, and
//! epoll where it runs on Linux in tests.
//!
//! What it lacks is added here: whether a wait was kicked, a child's own poller after `fork`, and
//! descriptors that keep clear of the standard streams. It waits again by itself after a signal
//! handler has run.
//!
//! **No kick is lost.** [`Poller::kick`] sets `kicked`, then notifies; [`Poller::wait`] returns
//! from the crate's wait, then takes `kicked`. A notification that finds an earlier one pending
//! makes no system call, but the wait that clears the earlier one takes `kicked` after that: all
//! four operations are sequentially consistent.

use super::{Event, Interest, Wait, check_token};
use crate::clock::Instant;
use polling::PollMode;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::time::Duration;

/// The buffer that waits fill; belongs to whoever waits. What it has no room for comes with the
/// next wait.
pub struct Events {
    raw: polling::Events,
    ready: Vec<Event>,
}

impl Events {
    /// Room for as many events as the crate thinks fit.
    #[must_use]
    pub fn new() -> Events {
        Events {
            raw: polling::Events::new(),
            ready: Vec::new(),
        }
    }

    /// Takes the events of the last wait out.
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
    /// From a `Box`; replaced in a fork's child alone.
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
    /// is ready, or until kicked. A past deadline asks without sleeping. Events that `events` still
    /// holds are lost.
    ///
    /// # Errors
    ///
    /// None is known for a poller that was built; what the system says otherwise.
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
        })
    }

    /// Ends the present wait, or the next one. Async-signal-safe; any thread; at most one system
    /// call. Callers skip it when they know that the owner is not waiting (see `parking`).
    pub fn kick(&self) {
        // SeqCst: pairs with the swap in `wait` (see the module's text).
        self.kicked.store(true, Ordering::SeqCst);
        // The crate's own descriptor is open, and writing to it cannot fail.
        let _ = self.current().notify();
    }

    /// The system's own descriptor: readable for others (poll, select) while a wait would return at
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
    /// registered already. `EINVAL`: a reserved token. Otherwise what the system says.
    pub fn add(&self, fd: RawFd, interest: Interest, token: u64) -> io::Result<()> {
        let event = event(interest, token)?;
        let descriptor = borrow(fd)?;
        // SAFETY: the crate asks that the descriptor be removed before it is closed, as some
        // systems would report it under another name afterwards; those that we run on forget it
        // (epoll(7), kqueue(2)), and events are judged by their tokens.
        unsafe {
            self.current()
                .add_with_mode(&descriptor, event, PollMode::Oneshot)
        }
    }

    /// Registers `fd` for all directions by edges, as `token`.
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

    /// Registers `fd` for `interest` by edges, as `token`, or changes its registration to that.
    /// What it is ready for now, the next wait says.
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
    /// wait says so.
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

    /// Forgets `fd`. Events that a wait has already taken from the kernel may still be in its
    /// buffer.
    ///
    /// # Errors
    ///
    /// `ENOENT`: not registered. `EBADF`: not open.
    pub fn remove(&self, fd: RawFd) -> io::Result<()> {
        self.current().delete(borrow(fd)?)
    }

    /// In a fork's child: opens a poller of its own. All registrations are gone; the child adds
    /// again what it waits for. The parent's are untouched: what was inherited is leaked, as
    /// closing it in order would remove the parent's registrations.
    ///
    /// # Errors
    ///
    /// When the system refuses the new objects; the poller must then not be used.
    pub fn reopen_after_fork(&self) -> io::Result<()> {
        // Relaxed (both): a fork's child has one thread.
        self.current.store(open()?, Ordering::Relaxed);
        self.kicked.store(false, Ordering::Relaxed);
        Ok(())
    }

    fn current(&self) -> &polling::Poller {
        // Relaxed: it changes only while there is one thread.
        let current = self.current.load(Ordering::Relaxed);
        // SAFETY: it comes from a `Box` that is dropped with `self` alone.
        unsafe { &*current }
    }
}

impl Drop for Poller {
    fn drop(&mut self) {
        // SAFETY: it comes from a `Box` that nobody else owns, and nobody borrows `self` any more.
        drop(unsafe { Box::from_raw(*self.current.get_mut()) });
    }
}

/// In a program started with a closed standard stream, ours must not take its number: what is
/// written there would be written to us.
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
    // SAFETY: it is not -1. Whether it is open the kernel checks; nothing but system calls is done
    // with it, and it is not kept.
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

/// The crate counts out-of-band data as readable; so does this.
fn read(event: polling::Event) -> Event {
    let failed = event.is_interrupt() || event.is_err() == Some(true);
    Event {
        token: event.key as u64,
        readable: failed || event.readable,
        writable: failed || event.writable,
        priority: event.is_priority(),
        failed,
    }
}
