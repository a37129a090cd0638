//! Waiting for descriptors, in the owner's one wait for everything.
//!
//! A wait registers each descriptor with the poller (edge-triggered), and then blocks the process.
//! How long the registration is trusted depends on [`Keep`]:
//!
//! - [`Keep::ForThisWait`]: the registration is renewed for each wait, by one system call. The
//!   descriptor may be closed without notice.
//! - [`Keep::UntilClosed`]: the registration is made once, for all directions, and a wait makes no
//!   system call. Code that closes the descriptor calls [`Inside::descriptor_closes`] before. So
//!   it is only for descriptors whose number nobody else has. Others may close theirs, or give its
//!   number to another file (`dup2`), and the registration would be the old file's.
//!
//! Only the owner takes events out of the poller: when it is idle, between two polls of a spin, and
//! at safepoints. While processes run, the monitor requests these safepoints
//! (`preempt/decide.rs`). All data here belongs to the owner, except three hints.
//!
//! The token of an event has the edition of its descriptor's number. Closing a descriptor begins
//! the next edition. So events of a file that was closed while a duplicate of it lives on are
//! dropped.
//!
//! **No wake-up is lost.** An attempt (a read that would block, say) comes before the wait. Between
//! the two the descriptor may become ready, and the owner may take that event out of the poller
//! before the process waits.
//!
//! 1. A registration that is made or renewed reports what the descriptor is ready for at that
//!    moment. So no earlier event is missed.
//! 2. If the count of [`Vm::harvests`] is the same as before the attempt, the owner has taken
//!    nothing out of the poller since then. So an event after the attempt is still in the poller,
//!    and a kept registration is used without renewal. Otherwise it is renewed.
//! 3. The count is incremented after the events are taken out (Release). A process that reads the
//!    new count (Acquire) before its attempt sees the readiness in the attempt. A process that
//!    reads the old count renews. There is no switch between the registration and the wait.
//!
//! A wake-up may be spurious, if another process was faster: then the process waits again. Tests:
//! `tests/descriptors.rs`.

use crate::sched::{Deadline, Edition, Readiness, Scheduler, Wake, WakeReason, Watch};
use crate::vm::{Context, Inner, Inside, Vm};
use baton_sys::clock::Instant;
use baton_sys::poller::{Event, Events, Interest};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Descriptors from this number on cannot be waited for. Linux never allocates them unless
/// `fs.nr_open` was raised.
pub const MOST_DESCRIPTORS: usize = 1 << 20;

/// A wait for at most this many descriptors allocates nothing.
const FEW: usize = 8;

/// How long a descriptor's registration with the poller is trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// It is renewed for the next wait: the descriptor may be closed at any time.
    ForThisWait,
    /// Until [`Inside::descriptor_closes`], which comes before the number names another file.
    UntilClosed,
}

/// What the owner knows of one descriptor number.
#[derive(Debug, Clone, Copy, Default)]
struct Registration {
    edition: Edition,
    is_kept: bool,
    news: News,
}

/// What the events of a kept registration have told so far, including events that no process waited
/// for. If it is the same as before, no event was taken out of the poller in between.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct News {
    /// How many events have come. Wraps around.
    pub events: u32,
    /// Some event told of more than data and room: of out-of-band data, a failure, or the end.
    pub of_more: bool,
}

impl News {
    fn add(&mut self, event: Event) {
        self.events = self.events.wrapping_add(1);
        self.of_more |= event.priority || event.failed || event.ended;
    }
}

/// What the owner knows of all descriptors, by number.
#[derive(Debug, Default)]
pub(in crate::vm) struct Registrations(Vec<Registration>);

/// What other threads may read about descriptors.
pub(in crate::vm) struct Descriptors {
    /// A hint for the monitor: a process waits for a descriptor. The owner sets it before a wait,
    /// and clears it some time after.
    watched: AtomicBool,
    /// The monitor waits until the poller is readable. Written by the monitor.
    armed: AtomicBool,
    /// The monitor was notified that the poller is readable. The monitor's.
    notified: AtomicBool,
    /// How often the owner has polled the poller, or waited in it.
    harvests: AtomicU64,
}

impl Registrations {
    fn find(&self, descriptor: u32) -> Registration {
        self.0.get(descriptor as usize).copied().unwrap_or_default()
    }

    fn find_or_make(&mut self, descriptor: u32) -> io::Result<&mut Registration> {
        let place = descriptor as usize;
        if place >= MOST_DESCRIPTORS {
            return Err(io::Error::other(format!(
                "descriptor {descriptor} cannot be waited for (the limit is {MOST_DESCRIPTORS})"
            )));
        }
        if place >= self.0.len() {
            self.0.resize(place + 1, Registration::default());
        }
        Ok(&mut self.0[place])
    }

    /// The descriptor of an event, unless its edition is over. Counts the event.
    fn take_event(&mut self, event: Event) -> Option<u32> {
        let token = event.token;
        let descriptor = token as u32;
        let registration = self.0.get_mut(descriptor as usize)?;
        if token_of(descriptor, registration.edition) != token {
            return None;
        }
        registration.news.add(event);
        Some(descriptor)
    }

    fn end(&mut self, descriptor: u32) {
        if let Some(registration) = self.0.get_mut(descriptor as usize) {
            registration.edition = Edition(registration.edition.0.wrapping_add(1));
            registration.is_kept = false;
            registration.news.of_more = false;
        }
    }

    /// Forgets all, in a fork's child, whose poller is new.
    pub(in crate::vm) fn forget_all(&mut self) {
        for descriptor in 0..self.0.len() {
            self.end(descriptor as u32);
        }
    }
}

fn token_of(descriptor: u32, edition: Edition) -> u64 {
    u64::from(edition.0) << 32 | u64::from(descriptor)
}

impl Descriptors {
    pub(in crate::vm) fn new() -> Descriptors {
        Descriptors {
            watched: AtomicBool::new(false),
            armed: AtomicBool::new(false),
            notified: AtomicBool::new(false),
            harvests: AtomicU64::new(0),
        }
    }

    /// Forgets all, in a fork's child.
    pub(in crate::vm) fn forget_all(&self) {
        self.note_armed(false);
    }

    /// Whether a process waits for a descriptor: a hint for the monitor.
    pub(in crate::vm) fn are_watched(&self) -> bool {
        // Relaxed: like all hints, ordered by the barrier of the monitor's rest.
        self.watched.load(Ordering::Relaxed)
    }

    fn note_watched(&self, watched: bool) {
        // Relaxed: as above.
        self.watched.store(watched, Ordering::Relaxed);
    }

    /// Whether the poller itself will wake the monitor.
    pub(in crate::vm) fn are_armed(&self) -> bool {
        // Relaxed: an old value only causes a needless alert. The monitor clears the flag while it
        // is awake.
        self.armed.load(Ordering::Relaxed)
    }

    pub(in crate::vm) fn note_notified(&self) {
        self.note_armed(false);
        // Relaxed: the monitor's alone.
        self.notified.store(true, Ordering::Relaxed);
    }

    pub(in crate::vm) fn take_notified(&self) -> bool {
        // Relaxed: the monitor's alone.
        self.notified.swap(false, Ordering::Relaxed)
    }

    /// After the owner has taken events out of the poller.
    pub(super) fn note_harvest(&self) {
        // Relaxed: only the owner writes it.
        let harvests = self.harvests.load(Ordering::Relaxed);
        // Release: pairs with the load in `harvests`.
        self.harvests
            .store(harvests.wrapping_add(1), Ordering::Release);
    }

    pub(in crate::vm) fn harvests(&self) -> u64 {
        // Acquire: pairs with the store in `note_harvest`.
        self.harvests.load(Ordering::Acquire)
    }

    pub(in crate::vm) fn note_armed(&self, armed: bool) {
        // Relaxed: as above.
        self.armed.store(armed, Ordering::Relaxed);
    }
}

impl Inside<'_> {
    /// Makes the calling process wait until `attempt` succeeds.
    ///
    /// `attempt` is called inside the VM, must not block, and gets the reason why the last wait
    /// ended. It is called at once, and then each time that one of the descriptors may be ready.
    ///
    /// Returns [`WakeReason::Done`] when it has succeeded, and otherwise why the wait ended. The
    /// registration is renewed for each wait.
    ///
    /// # Errors
    /// As [`Inside::await_ready`], when the attempt fails.
    pub fn wait_ready(
        &self,
        watches: &[Watch],
        deadline: Deadline,
        mut attempt: impl FnMut(Option<Wake>) -> bool,
    ) -> io::Result<Wake> {
        let mut last = None;
        loop {
            let harvests = self.harvests();
            if attempt(last) {
                return Ok(Wake::because(WakeReason::Done));
            }
            let wake = self.await_ready(watches, Keep::ForThisWait, harvests, deadline)?;
            if wake.reason != WakeReason::Done {
                return Ok(wake);
            }
            last = Some(wake);
        }
    }

    /// Makes the calling process wait until one of the descriptors may be ready. Before this call,
    /// the caller reads `harvests` from [`Vm::harvests`] and then makes an attempt that would have
    /// blocked.
    ///
    /// Returns [`WakeReason::Done`], with the index of the watch and what it is ready for;
    /// [`WakeReason::Closed`] if one of the descriptors was closed; otherwise why the wait ended.
    ///
    /// # Errors
    /// If a descriptor is not open, is of a kind that never blocks, or has a number of
    /// [`MOST_DESCRIPTORS`] or more.
    pub fn await_ready(
        &self,
        watches: &[Watch],
        keep: Keep,
        harvests: u64,
        deadline: Deadline,
    ) -> io::Result<Wake> {
        let is_fresh = harvests == self.harvests();
        let (mut few, mut many) = ([Edition::default(); FEW], Vec::new());
        let editions: &mut [Edition] = if watches.len() <= FEW {
            &mut few[..watches.len()]
        } else {
            many.resize(watches.len(), Edition::default());
            &mut many
        };
        self.descriptors.note_watched(true);
        self.with_inner(|inner| {
            let mut places = watches.iter().zip(&mut *editions);
            places.try_for_each(|(watch, edition)| {
                *edition = self.register(inner, *watch, keep, is_fresh)?;
                Ok::<(), io::Error>(())
            })
        })?;
        self.counters.descriptor_waits.increment();
        let watches_of_editions = watches.iter().copied().zip(editions.iter().copied());
        Ok(self.block_on(|sched| sched.wait_ready(watches_of_editions, deadline)))
    }
}

impl Vm {
    /// How often the owner has taken events out of the poller. Read it before an attempt that may
    /// be followed by [`Inside::await_ready`]. On any thread.
    pub fn harvests(&self) -> u64 {
        self.descriptors.harvests()
    }
}

impl Inside<'_> {
    /// What the descriptor's events have told, if its registration is kept. Inside the VM.
    pub fn descriptor_news(&self, descriptor: u32) -> Option<News> {
        self.with_inner(|inner| {
            let registration = inner.registrations.find(descriptor);
            registration.is_kept.then_some(registration.news)
        })
    }

    /// Renews a descriptor's registration for the caller's next wait. Inside the VM.
    pub(in crate::vm) fn renew(&self, watch: Watch) -> io::Result<Edition> {
        self.descriptors.note_watched(true);
        self.with_inner(|inner| self.register(inner, watch, Keep::ForThisWait, false))
    }
}

impl Vm {
    /// Registers a descriptor, or uses its kept registration. `is_fresh`: nothing was taken out of
    /// the poller since the attempt.
    fn register(
        &self,
        inner: &mut Inner,
        watch: Watch,
        keep: Keep,
        is_fresh: bool,
    ) -> io::Result<Edition> {
        let registration = inner.registrations.find_or_make(watch.descriptor)?;
        if registration.is_kept && is_fresh {
            return Ok(registration.edition);
        }
        let is_kept = registration.is_kept || keep == Keep::UntilClosed;
        let edition = registration.edition;
        let interest = if is_kept {
            EVERYTHING
        } else {
            interest_of(watch.wants | inner.sched.wanted_of(watch.descriptor))
        };
        let token = token_of(watch.descriptor, edition);
        self.poller
            .renew(watch.descriptor.cast_signed(), interest, token)?;
        registration.is_kept = is_kept;
        self.counters.descriptors_registered.increment();
        Ok(edition)
    }
}

impl Inside<'_> {
    /// Wakes all processes that wait for a descriptor, with [`WakeReason::Closed`]. To be called
    /// before a descriptor with a kept registration is closed, or after its number has gone to
    /// another file. Inside the VM; does not give way. Returns how many processes waited.
    pub fn descriptor_closes(&self, descriptor: u32) -> usize {
        self.with_inner(|inner| {
            let registration = inner.registrations.find(descriptor);
            if registration.is_kept {
                // The registration may have gone already, with the descriptor.
                let _ = self.poller.remove(descriptor.cast_signed());
            }
            inner.registrations.end(descriptor);
            inner
                .sched
                .descriptor_closes(descriptor, registration.edition)
        })
    }
}

impl Vm {
    /// Wakes the processes that wait for the events that the poller returned. Returns how many. An
    /// event that no process waits for, such as readiness to write, wakes none.
    pub(super) fn take_in_ready(
        &self,
        sched: &mut Scheduler<Context>,
        registrations: &mut Registrations,
        events: &mut Events,
    ) -> usize {
        let mut woken = 0;
        sched.set_from_outside(true);
        for event in events.drain() {
            if let Some(descriptor) = registrations.take_event(event) {
                woken += sched.descriptor_is_ready(descriptor, readiness_of(event));
            }
        }
        sched.set_from_outside(false);
        woken
    }
}

impl Inside<'_> {
    /// Polls for events, if a process waits for a descriptor. Returns whether a process was woken.
    pub(in crate::vm) fn poll_descriptors(&self) -> bool {
        let watched = self.with_inner(|inner| inner.sched.watching() > 0);
        if !watched {
            self.descriptors.note_watched(false);
            return false;
        }
        self.wait_in_poller(Some(Instant::from_nanos(0))).woken > 0
    }
}

const EVERYTHING: Interest = Interest {
    readable: true,
    writable: true,
    priority: true,
};

pub(in crate::vm) fn interest_of(wants: Readiness) -> Interest {
    Interest {
        readable: wants.intersects(Readiness::READ),
        writable: wants.intersects(Readiness::WRITE),
        priority: wants.intersects(Readiness::PRIORITY),
    }
}

pub(in crate::vm) fn readiness_of(event: Event) -> Readiness {
    let bits = [
        (event.readable, Readiness::READ),
        (event.writable, Readiness::WRITE),
        (event.priority, Readiness::PRIORITY),
        (event.failed, Readiness::FAILED),
    ];
    let set = bits
        .into_iter()
        .filter_map(|(is_set, bit)| is_set.then_some(bit));
    set.fold(Readiness::default(), |all, bit| all | bit)
}
