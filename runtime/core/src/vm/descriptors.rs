//! Waiting for descriptors, in the owner's one wait for everything.
//!
//! A descriptor is registered with the poller when it is waited for first, for all directions and by edges, and stays so until it is closed: a
//! wait asks nothing of the system. What has come is taken in by the owner alone: when it is idle, between two looks of a spin, and at
//! safepoints, which the monitor asks for while others are busy (`watch.rs`).
//!
//! A registration is one word, by the descriptor's number: an edition, and the bits `REGISTERED` and `WAITED`.
//!
//! | registered | waited for | left by |
//! |---|---|---|
//! | no | no | `register`, by the owner |
//! | yes | no | `note_waits`, by the owner; [`Vm::descriptor_closes`], and [`Vm::descriptor_has_closed`], by anybody: the next edition, not registered |
//! | yes | yes | `note_end_of_waits`, by the owner; [`Vm::descriptor_closes`]: the same, and those who wait are told; [`Vm::descriptor_has_closed`]: the same, and they try again |
//!
//! Events have their registration's edition in their token: those of a descriptor that was closed while a duplicate of it lives on are dropped.
//!
//! **No wake-up is lost.** The owner registers the descriptor, then tries what the process wants to do, and then has the process wait, all of it inside
//! the VM and without a switch. Whatever makes the descriptor ready after the attempt failed is an edge, which the poller keeps until somebody
//! takes it out; only the owner does, and by then the process waits. It does not matter that edges are dropped that come while
//! nobody waits: whoever waits later tries first. A wake-up may be for nothing, if another one was faster: then the process waits again.
//! *Closing*: whoever closes a descriptor says so before, or the number's next user would wait by a registration that is gone. All accesses that change a
//! word are read-modify-write operations, so of `note_waits` and `descriptor_closes` one comes first. Either the owner finds that the edition is over,
//! and registers anew; or who closes finds `WAITED`, and posts. The owner takes that post in when the process waits. Between the word and the
//! closing the owner may register the file that goes (it sets `REGISTERED` before it asks the poller). So whoever closes looks again afterwards, and ends a registration that was made since: whoever waits by it
//! tries again, and finds the number closed, or its next user's file, which it registers anew. Tests: `tests/descriptors.rs`.

use super::{Context, Post, Vm};
use crate::kernel::{Deadline, Edition, Kernel, Readiness, Wake, WakeReason, Watch};
use baton_sys::clock::Instant;
use baton_sys::poller::{Event, Events};
use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Registrations that are made room for at once.
const CHUNK: usize = 1024;

const REGISTERED: u32 = 1;
const WAITED: u32 = 2;
/// Editions are counted in the bits above.
const EDITION: u32 = 4;

/// Waits for so many descriptors at once need no memory.
const FEW: usize = 8;

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
    /// It has been told. The monitor's.
    told: AtomicBool,
    /// How often the owner has asked the poller, or waited in it.
    asked: AtomicU64,
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
        // Acquire: pairs with the exchange in `end_registration`.
        let word = self.find(descriptor)?.load(Ordering::Acquire);
        (word & REGISTERED != 0 && token_of(descriptor, edition_of(word)) == token).then_some(descriptor)
    }

    /// In a fork's child, whose poller is new.
    fn forget_all(&self) {
        for word in self.chunks.iter().filter_map(OnceLock::get).flatten() {
            // Relaxed (both): there is no other thread.
            let before = word.load(Ordering::Relaxed);
            word.store(next_edition(before), Ordering::Relaxed);
        }
    }
}

fn edition_of(word: u32) -> Edition {
    Edition(word / EDITION)
}

/// The word of the next edition, not registered yet.
fn next_edition(word: u32) -> u32 {
    (word & !(REGISTERED | WAITED)).wrapping_add(EDITION)
}

fn token_of(descriptor: u32, edition: Edition) -> u64 {
    u64::from(edition.0) << 32 | u64::from(descriptor)
}

impl Descriptors {
    pub(super) fn new() -> Descriptors {
        Descriptors {
            registrations: Registrations::new(),
            watched: AtomicBool::new(false),
            armed: AtomicBool::new(false),
            told: AtomicBool::new(false),
            asked: AtomicU64::new(0),
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

    pub(super) fn note_told(&self) {
        self.note_armed(false);
        // Relaxed: the monitor's alone.
        self.told.store(true, Ordering::Relaxed);
    }

    pub(super) fn take_told(&self) -> bool {
        // Relaxed: the monitor's alone.
        self.told.swap(false, Ordering::Relaxed)
    }

    pub(super) fn note_asked(&self) {
        // Relaxed (both): the owner alone counts, for the monitor, as a hint.
        let asked = self.asked.load(Ordering::Relaxed);
        self.asked.store(asked.wrapping_add(1), Ordering::Relaxed);
    }

    pub(super) fn times_asked(&self) -> u64 {
        // Relaxed: a hint.
        self.asked.load(Ordering::Relaxed)
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
        let (mut few, mut many) = ([Edition::default(); FEW], Vec::new());
        loop {
            self.descriptors.note_watched(true);
            let registered = watches.iter().try_for_each(|watch| self.register(watch.descriptor));
            if attempt(last) {
                return Ok(Wake::because(WakeReason::Done));
            }
            registered?;
            let Some(editions) = self.note_waits(watches, &mut few, &mut many) else {
                continue;
            };
            self.counters.descriptor_waits.increment();
            let watches_of_editions = watches.iter().copied().zip(editions.iter().copied());
            let wake = self.attempt(|kernel| kernel.wait_ready(watches_of_editions, deadline));
            self.note_end_of_waits(watches);
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
        // Acquire: pairs with the exchange in `end_registration`.
        let before = word.load(Ordering::Acquire);
        if before & REGISTERED != 0 {
            return Ok(());
        }
        // First, so that whoever has closed it finds the registration and ends it.
        // AcqRel: pairs with the exchange in `end_registration`.
        let edition = edition_of(word.fetch_or(REGISTERED, Ordering::AcqRel));
        let watched = self.watch_in_poller(descriptor.cast_signed(), token_of(descriptor, edition));
        if watched.is_err() {
            let take_back = |word| (edition_of(word) == edition).then_some(word & !REGISTERED);
            // AcqRel, Acquire: as above; another edition is not this one's to take back.
            let _ = word.fetch_update(Ordering::AcqRel, Ordering::Acquire, take_back);
        } else {
            self.counters.descriptors_registered.increment();
        }
        watched
    }

    fn watch_in_poller(&self, fd: i32, token: u64) -> io::Result<()> {
        match self.poller.watch(fd, token) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                // A registration that nobody has removed, of the number's last user.
                self.poller.remove(fd)?;
                self.poller.watch(fd, token)
            }
            watched => watched,
        }
    }

    /// Whoever ends one of the registrations knows of the wait from here on. Answers their editions, in `few` or `many`; none if one has ended
    /// already. Inside the VM.
    fn note_waits<'a>(
        &self,
        watches: &[Watch],
        few: &'a mut [Edition; FEW],
        many: &'a mut Vec<Edition>,
    ) -> Option<&'a [Edition]> {
        let editions: &'a mut [Edition] = if watches.len() <= FEW {
            &mut few[..watches.len()]
        } else {
            many.resize(watches.len(), Edition::default());
            many
        };
        for (edition, watch) in editions.iter_mut().zip(watches) {
            let word = self.descriptors.registrations.find(watch.descriptor)?;
            // AcqRel: pairs with the exchange in `end_registration`.
            let before = word.fetch_or(WAITED, Ordering::AcqRel);
            if before & REGISTERED == 0 {
                return None;
            }
            *edition = edition_of(before);
        }
        Some(editions)
    }

    fn note_end_of_waits(&self, watches: &[Watch]) {
        for watch in watches {
            let still_watched = self.inner.with(|inner| inner.kernel.is_watched(watch.descriptor));
            if let Some(word) = self
                .descriptors
                .registrations
                .find(watch.descriptor)
                .filter(|_| !still_watched)
            {
                // Relaxed: who closes after that tells nobody, and who has closed before has posted needlessly.
                word.fetch_and(!WAITED, Ordering::Relaxed);
            }
        }
    }

    /// To be called before a descriptor is closed, or replaced by `dup2`, that processes may have waited for: those that do are told
    /// [`WakeReason::Closed`] soon. On any thread, inside the VM or outside; nobody is switched to.
    pub fn descriptor_closes(&self, descriptor: u32) {
        let ended = self.end_registration(descriptor);
        if let Some(word) = ended.filter(|word| word & WAITED != 0) {
            self.post(Post::Closed(descriptor, edition_of(word)));
        }
    }

    /// To be called after it was closed or replaced. A registration that was made since [`Vm::descriptor_closes`] may be of the file that is gone: it ends, and
    /// those who wait by it try again.
    pub fn descriptor_has_closed(&self, descriptor: u32) {
        let ended = self.end_registration(descriptor);
        if ended.is_some_and(|word| word & WAITED != 0) {
            self.post(Post::TryAgain(descriptor));
        }
    }

    /// Whether a descriptor is registered: if not, its closing concerns nobody. On any thread.
    pub fn is_registered(&self, descriptor: u32) -> bool {
        let word = self.descriptors.registrations.find(descriptor);
        // Acquire: pairs with the release in `register`.
        word.is_some_and(|word| word.load(Ordering::Acquire) & REGISTERED != 0)
    }

    /// The word that the registration had, if there was one.
    fn end_registration(&self, descriptor: u32) -> Option<u32> {
        let word = self.descriptors.registrations.find(descriptor)?;
        if !self.is_registered(descriptor) {
            return None;
        }
        // It may have gone already, with the descriptor.
        let _ = self.poller.remove(descriptor.cast_signed());
        let end = |word| (word & REGISTERED != 0).then(|| next_edition(word));
        // AcqRel, Acquire: pairs with the accesses of the owner; of several who close, one ends it.
        word.fetch_update(Ordering::AcqRel, Ordering::Acquire, end).ok()
    }

    /// Those go on who wait for what a wait in the poller has brought. Says how many they are: a descriptor that has become ready for what nobody wants, as one that
    /// can be written to again, is nobody's news.
    pub(super) fn take_in_ready(&self, kernel: &mut Kernel<Context>, events: &mut Events) -> usize {
        let mut woken = 0;
        for event in events.drain() {
            if let Some(descriptor) = self.descriptors.registrations.descriptor_of(event.token) {
                woken += kernel.descriptor_is_ready(descriptor, readiness_of(event));
            }
        }
        woken
    }

    /// Asks the poller what has come, if anybody waits for a descriptor; says whether somebody goes on by it.
    pub(super) fn look_for_ready(&self) -> bool {
        let watched = self.inner.with(|inner| inner.kernel.watching() > 0);
        if !watched {
            self.descriptors.note_watched(false);
            return false;
        }
        self.wait_in_poller(Some(Instant::from_nanos(0))).woken > 0
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
