//! Waiting for descriptors, in the owner's one wait for everything.
//!
//! A descriptor is registered with the poller when it is waited for first, for all directions and by edges, and stays so until it is closed: a
//! wait asks nothing of the system. What has come is taken in by the owner alone: when it is idle, between two looks of a spin, and at
//! safepoints, which the monitor asks for while others are busy (`watch.rs`).
//!
//! A registration is one word, by the descriptor's number:
//!
//! | word | meaning | left by |
//! |---|---|---|
//! | `2g` | not registered | [`Vm::wait_ready`], by the owner: `2g + 1` |
//! | `2g + 1` | registered; its events have `g` in their token | [`Vm::descriptor_closes`], any thread: `2g + 2` |
//!
//! Events of an older `g` are of a descriptor that was closed while a duplicate of it lives on, and are dropped.
//!
//! **No wake-up is lost.** The owner registers the descriptor, then tries what the process wants to do, and then has the process wait, all of it inside
//! the VM and without a switch. Whatever makes the descriptor ready after the attempt failed is an edge, which the poller keeps until somebody
//! takes it out; only the owner does, and by then the process waits. It does not matter that edges are dropped that come while
//! nobody waits: whoever waits later tries first. A wake-up may be for nothing, if another one was faster: then the process waits again.
//! *Closing*: whoever closes a descriptor says so before, or the number's next user would wait by a registration that is gone. Tests:
//! `tests/descriptors.rs`.

use super::{Inner, Post, Vm};
use crate::kernel::{Deadline, Readiness, Wake, WakeReason, Watch};
use baton_sys::clock::Instant;
use baton_sys::poller::Event;
use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Registrations that are made room for at once.
const CHUNK: usize = 1024;

/// Descriptors from this number on cannot be waited for: Linux gives out none unless `fs.nr_open` was raised.
pub const MOST_DESCRIPTORS: usize = 1 << 20;

/// The words of all descriptors, by number.
struct Registrations {
    chunks: Box<[OnceLock<Box<[AtomicU32]>>]>,
}

/// What the VM knows of descriptors beside who waits for them.
pub(super) struct Descriptors {
    registrations: Registrations,
    /// A hint for the monitor: somebody waits for a descriptor. Set by the owner before, cleared by it some time after.
    watched: AtomicBool,
    /// The monitor waits for the readability of the poller. Set and cleared by the monitor.
    armed: AtomicBool,
}

impl Registrations {
    fn new() -> Registrations {
        let chunks = (0..MOST_DESCRIPTORS / CHUNK).map(|_| OnceLock::new());
        Registrations {
            chunks: chunks.collect(),
        }
    }

    fn find(&self, descriptor: u32) -> Option<&AtomicU32> {
        let place = descriptor as usize;
        self.chunks.get(place / CHUNK)?.get()?.get(place % CHUNK)
    }

    fn find_or_make(&self, descriptor: u32) -> Option<&AtomicU32> {
        let place = descriptor as usize;
        let make = || (0..CHUNK).map(|_| AtomicU32::new(0)).collect();
        self.chunks.get(place / CHUNK)?.get_or_init(make).get(place % CHUNK)
    }

    /// The descriptor that an event is of, if its registration still stands.
    fn descriptor_of(&self, token: u64) -> Option<u32> {
        let descriptor = token as u32;
        // Acquire: pairs with the release in `end_registration`.
        let word = self.find(descriptor)?.load(Ordering::Acquire);
        (word & 1 == 1 && token_of(descriptor, word) == token).then_some(descriptor)
    }

    /// In a fork's child, whose poller is new.
    fn forget_all(&self) {
        for word in self.chunks.iter().filter_map(OnceLock::get).flatten() {
            // Relaxed (both): there is no other thread.
            let next = word.load(Ordering::Relaxed).wrapping_add(1) & !1;
            word.store(next, Ordering::Relaxed);
        }
    }
}

/// The token of a registration that `word` stands for, odd or not yet.
fn token_of(descriptor: u32, word: u32) -> u64 {
    u64::from(word >> 1) << 32 | u64::from(descriptor)
}

impl Descriptors {
    pub(super) fn new() -> Descriptors {
        Descriptors {
            registrations: Registrations::new(),
            watched: AtomicBool::new(false),
            armed: AtomicBool::new(false),
        }
    }

    /// In a fork's child.
    pub(super) fn forget_all(&self) {
        self.registrations.forget_all();
        self.note_armed(false);
    }

    /// Whether somebody waits for a descriptor: a hint, for the monitor.
    pub(super) fn are_watched(&self) -> bool {
        // Relaxed: ordered by the barrier of the monitor's parking, as all that the owner publishes.
        self.watched.load(Ordering::Relaxed)
    }

    fn note_watched(&self, watched: bool) {
        // Relaxed: as above.
        self.watched.store(watched, Ordering::Relaxed);
    }

    /// Whether the monitor hears of news by itself.
    pub(super) fn are_armed(&self) -> bool {
        // Relaxed: who reads an old value alerts the monitor needlessly; that it is not armed any more, the monitor says while it is awake.
        self.armed.load(Ordering::Relaxed)
    }

    pub(super) fn note_armed(&self, armed: bool) {
        // Relaxed: as above.
        self.armed.store(armed, Ordering::Relaxed);
    }
}

impl Vm {
    /// Has the calling process wait until `attempt` succeeds, which is called inside the VM, must not block, and is told how the last wait ended: first at
    /// once, then each time that one of the descriptors may be ready for what is wanted of it.
    ///
    /// Answers [`WakeReason::Done`] once it has succeeded, [`WakeReason::Closed`] if one of the descriptors was closed, and otherwise why
    /// the wait ended.
    ///
    /// # Errors
    /// When the attempt fails and a descriptor cannot be waited for: it is not open, of a kind that never blocks, or its number is
    /// [`MOST_DESCRIPTORS`] or more.
    pub fn wait_ready(
        &self,
        watches: &[Watch],
        deadline: Deadline,
        mut attempt: impl FnMut(Option<Wake>) -> bool,
    ) -> io::Result<Wake> {
        let mut last = None;
        loop {
            self.descriptors.note_watched(true);
            let registered = watches.iter().try_for_each(|watch| self.register(watch.descriptor));
            if attempt(last) {
                return Ok(Wake::because(WakeReason::Done));
            }
            registered?;
            self.counters.descriptor_waits.increment();
            let wake = self.attempt(|kernel| kernel.wait_ready(watches, deadline));
            if wake.reason != WakeReason::Done {
                return Ok(wake);
            }
            last = Some(wake);
        }
    }

    /// Inside the VM.
    fn register(&self, descriptor: u32) -> io::Result<()> {
        let Some(word) = self.descriptors.registrations.find_or_make(descriptor) else {
            return Err(io::Error::other(format!(
                "descriptor {descriptor} cannot be waited for (the limit is {MOST_DESCRIPTORS})"
            )));
        };
        // Acquire: pairs with the release in `end_registration`.
        let before = word.load(Ordering::Acquire);
        if before & 1 == 1 {
            return Ok(());
        }
        let token = token_of(descriptor, before);
        let fd = descriptor.cast_signed();
        if let Err(error) = self.poller.watch(fd, token) {
            if error.kind() != io::ErrorKind::AlreadyExists {
                return Err(error);
            }
            // It was closed and came back by a duplicate, or was registered by its number's last user and not removed.
            self.poller.remove(fd)?;
            self.poller.watch(fd, token)?;
        }
        self.counters.descriptors_registered.increment();
        // Release: pairs with the exchange in `end_registration`.
        word.store(before | 1, Ordering::Release);
        Ok(())
    }

    /// To be called before a descriptor is closed, or replaced by `dup2`, that processes may have waited for: those that do are told
    /// [`WakeReason::Closed`]. Inside the VM.
    pub fn descriptor_closes(&self, descriptor: u32) {
        if self.end_registration(descriptor) {
            self.operate(|kernel| kernel.descriptor_closes(descriptor));
        }
    }

    /// The same on any native thread, outside the VM: the news reaches those who wait soon.
    pub fn descriptor_closes_outside(&self, descriptor: u32) {
        if self.end_registration(descriptor) {
            self.post(Post::Closed(descriptor));
        }
    }

    /// Whether a descriptor is registered: if not, its closing concerns nobody. On any thread.
    pub fn is_registered(&self, descriptor: u32) -> bool {
        let word = self.descriptors.registrations.find(descriptor);
        // Acquire: pairs with the release in `register`.
        word.is_some_and(|word| word.load(Ordering::Acquire) & 1 == 1)
    }

    /// Whether there was a registration.
    fn end_registration(&self, descriptor: u32) -> bool {
        let Some(word) = self.descriptors.registrations.find(descriptor) else {
            return false;
        };
        // Acquire: pairs with the release in `register`.
        let before = word.load(Ordering::Acquire);
        if before & 1 == 0 {
            return false;
        }
        // It may have gone already, with the descriptor.
        let _ = self.poller.remove(descriptor.cast_signed());
        // AcqRel: pairs with the accesses in `register`; of several who close, one ends it.
        word.compare_exchange(before, before.wrapping_add(1), Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    /// Those go on who wait for what a wait in the poller has brought.
    pub(super) fn take_in_ready(&self, inner: &mut Inner) {
        let Inner { events, kernel, .. } = inner;
        for event in events.drain() {
            if let Some(descriptor) = self.descriptors.registrations.descriptor_of(event.token) {
                kernel.descriptor_is_ready(descriptor, readiness_of(event));
            }
        }
    }

    /// Asks the poller what has come, if anybody waits for a descriptor; says whether there was anything.
    pub(super) fn look_for_ready(&self) -> bool {
        let watched = self.inner.with(|inner| inner.kernel.watching() > 0);
        if !watched {
            self.descriptors.note_watched(false);
            return false;
        }
        self.wait_in_poller(Some(Instant::from_nanos(0))).ready > 0
    }
}

fn readiness_of(event: Event) -> Readiness {
    let bits = [
        (event.readable, Readiness::READ),
        (event.writable, Readiness::WRITE),
        (event.priority, Readiness::PRIORITY),
        (event.failed, Readiness::FAILED),
    ];
    let set = bits.into_iter().filter_map(|(is_set, bit)| is_set.then_some(bit));
    set.fold(Readiness::default(), |all, bit| all | bit)
}
