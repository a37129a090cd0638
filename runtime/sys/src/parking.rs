//! Whether the owner sleeps: one atomic that decides who must make a system call to wake it.
//!
//! | state | meaning |
//! |---|---|
//! | Running | the owner runs, or is about to look at its inbox |
//! | Spinning | the owner watches this word and will see a notification without being kicked |
//! | Polling | the owner has announced that it will sleep, and perhaps sleeps |
//! | Notified | somebody has posted since the owner last looked; nobody else need tell it |
//!
//! | from | to | made by | result |
//! |---|---|---|---|
//! | Running | Polling | [`Park::prepare`] | [`Prepared::MaySleep`] |
//! | Running | Spinning | [`Park::prepare_to_spin`] | [`Prepared::MaySleep`] |
//! | Spinning | Polling | [`Park::stop_spinning`] | [`Prepared::MaySleep`] |
//! | Notified | Running | [`Park::prepare`] and the two above | [`Prepared::AlreadyNotified`] |
//! | any | Running | [`Park::finish`], [`Park::acknowledge`] | |
//! | Polling | Notified | [`Park::notify`] | [`Notify::MustKick`] |
//! | Spinning | Notified | [`Park::notify`] | [`Notify::OwnerSpins`] |
//! | Running | Notified | [`Park::notify`] | [`Notify::OwnerIsRunning`] |
//! | Notified | Notified | [`Park::notify`] | [`Notify::AlreadyNotified`] |
//!
//! The owner's loop, and what others do:
//!
//! ```text
//! owner: loop {                                           others: inbox.post(message);
//!     take the inbox, run whatever is runnable            match park.notify() {
//!     if park.prepare() == MaySleep {                       MustKick => poller.kick(),
//!         if inbox.is_empty() { poller.wait(deadline) }     OwnerSpins => {}
//!         park.finish();                                    OwnerIsRunning => alert the monitor,
//!     }                                                     AlreadyNotified => alert it if parked,
//! }                                                       }
//! and when it takes the inbox without having slept: park.acknowledge() first.
//! An owner that spins first:
//!     if park.prepare_to_spin() == MaySleep {
//!         while !park.is_notified() and there is time { pause }
//!         if park.stop_spinning() == MaySleep { poller.wait(deadline); park.finish() }
//!     }
//! ```
//!
//! # Why no wake-up is lost
//!
//! `prepare`, `stop_spinning` and `notify` are read-modify-write operations on the same atomic, so
//! of any two of them one comes first in its modification order.
//!
//! 1. `notify` before `prepare` or `prepare_to_spin`: that one reads Notified (or what a later edge
//!    made of it) and does not let the owner wait. Having read a value that `notify` released, the
//!    owner sees the message when it takes the inbox next.
//! 2. `prepare` first: `notify` reads Polling. It answers MustKick, and the poller keeps a kick
//!    that comes before the wait. Or it reads Notified, because another `notify` was between them:
//!    that one read Polling and kicks, or will kick.
//! 3. `prepare_to_spin` first and `stop_spinning` not yet: `notify` reads Spinning and answers
//!    OwnerSpins; nobody kicks. The owner does not sleep before `stop_spinning`, which comes later
//!    in the modification order and reads Notified: as in 1. That holds whether or not
//!    `is_notified` has seen it: looking only ends the spin early. And the spin ends, as it has a
//!    limit.
//! 4. `stop_spinning` first: it has made the state Polling, and `notify` reads that: as in 2.
//!
//! The check of the inbox between `prepare` and the wait is therefore not needed for correctness;
//! it saves a wait when a message has come before its `notify`. A `notify` that falls after
//! `finish` finds Running, and the owner is awake, about to take the inbox. A kick that arrives
//! after `finish` ends a later wait early, which every waiter must expect anyway.
//!
//! What is owed: who got MustKick kicks without waiting for anything, and the owner takes the
//! inbox, or finds it empty, after each `finish`, AlreadyNotified and `acknowledge`, before it
//! waits again. An owner that took messages while Notified without `acknowledge` would hide the
//! next one from the monitor (AlreadyNotified), though not from its own next `prepare`. Checked by
//! the loom test `tests/loom_parking.rs`.

#[cfg(loom)]
use loom::sync::atomic::AtomicU8;
#[cfg(not(loom))]
use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering;

const RUNNING: u8 = 0;
const POLLING: u8 = 1;
const NOTIFIED: u8 = 2;
const SPINNING: u8 = 3;

/// May the owner sleep?
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prepared {
    /// Everybody who posts from now on does what the new state asks for: look at the inbox once
    /// more, wait in the poller (or spin, and [`Park::stop_spinning`] before), call
    /// [`Park::finish`].
    MaySleep,
    /// Something was posted: take the inbox instead. [`Park::finish`] need not be called.
    AlreadyNotified,
}

/// What is left to do for who posted.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notify {
    /// The owner sleeps or is about to: kick its poller.
    MustKick,
    /// The owner spins and sees it by itself.
    OwnerSpins,
    /// The owner runs, perhaps for long: alert the monitor. The owner will look before it sleeps in
    /// any case.
    OwnerIsRunning,
    /// Somebody else has notified, and the owner has not acknowledged it: the owner need not be
    /// kicked. It may have taken that message already, though (between its post and its
    /// notification), so see to it that the monitor is not parked.
    AlreadyNotified,
}

/// The state of the owner's wait. See the module's documentation.
#[derive(Debug)]
pub struct Park {
    state: AtomicU8,
}

impl Park {
    /// An owner that runs.
    #[must_use]
    pub fn new() -> Park {
        Park {
            state: AtomicU8::new(RUNNING),
        }
    }

    /// The owner announces that it wants to sleep.
    #[inline]
    pub fn prepare(&self) -> Prepared {
        self.advance(RUNNING, POLLING)
    }

    /// The owner announces that it will watch [`Park::is_notified`] for a while before it sleeps.
    #[inline]
    pub fn prepare_to_spin(&self) -> Prepared {
        self.advance(RUNNING, SPINNING)
    }

    /// The owner has spun: it announces that it wants to sleep now, unless it was notified
    /// meanwhile.
    #[inline]
    pub fn stop_spinning(&self) -> Prepared {
        self.advance(SPINNING, POLLING)
    }

    /// Whether a spinning owner was notified. A hint to stop: the answer that counts is that of
    /// [`Park::stop_spinning`].
    #[inline]
    #[must_use]
    pub fn is_notified(&self) -> bool {
        // Relaxed: a hint; `stop_spinning` acquires.
        self.state.load(Ordering::Relaxed) == NOTIFIED
    }

    #[inline]
    fn advance(&self, from: u8, to: u8) -> Prepared {
        // AcqRel: the Acquire pairs with the Release of `notify` (the message is seen); the Release
        // with the Acquire of `notify`, for a deadline or other state that the owner leaves for the
        // notifier to see.
        match self
            .state
            .compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire)
        {
            Ok(_) => Prepared::MaySleep,
            Err(_) => {
                self.acknowledge();
                Prepared::AlreadyNotified
            }
        }
    }

    /// The owner has waited, or has found that it need not; it will take its inbox next.
    #[inline]
    pub fn finish(&self) {
        self.acknowledge();
    }

    /// The owner, which did not sleep, is about to take its inbox.
    #[inline]
    pub fn acknowledge(&self) {
        // AcqRel: pairs with the swap in `notify`. A swap, not a store: it takes its place after
        // the last `notify` in the modification order and acquires that one's Release, so that the
        // message is seen when the inbox is taken.
        self.state.swap(RUNNING, Ordering::AcqRel);
    }

    /// Another thread, or the owner's signal handler, has posted. Async-signal-safe.
    #[inline]
    pub fn notify(&self) -> Notify {
        // AcqRel: pairs with the exchanges of `prepare` and `acknowledge`, to which the Release
        // publishes the message. A swap even when the state is Notified already: a mere load could
        // be ordered before the post.
        match self.state.swap(NOTIFIED, Ordering::AcqRel) {
            POLLING => Notify::MustKick,
            SPINNING => Notify::OwnerSpins,
            RUNNING => Notify::OwnerIsRunning,
            _ => Notify::AlreadyNotified,
        }
    }

    /// Whether the owner has announced that it sleeps or spins: a hint for statistics and the
    /// monitor, outdated when it is read.
    #[inline]
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        // Relaxed: a hint.
        matches!(self.state.load(Ordering::Relaxed), POLLING | SPINNING)
    }
}

impl Default for Park {
    fn default() -> Park {
        Park::new()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn an_undisturbed_owner_sleeps_and_runs_again() {
        let park = Park::new();
        assert_eq!(park.prepare(), Prepared::MaySleep);
        assert!(park.is_waiting());
        park.finish();
        assert!(!park.is_waiting());
    }

    #[test]
    fn a_sleeping_owner_is_kicked_by_the_first_notifier_only() {
        let park = Park::new();
        assert_eq!(park.prepare(), Prepared::MaySleep);
        assert_eq!(park.notify(), Notify::MustKick);
        assert_eq!(park.notify(), Notify::AlreadyNotified);
        park.finish();
        assert_eq!(park.prepare(), Prepared::MaySleep);
    }

    #[test]
    fn a_spinning_owner_needs_no_kick_and_does_not_go_on_to_sleep() {
        let park = Park::new();
        assert_eq!(park.prepare_to_spin(), Prepared::MaySleep);
        assert!(park.is_waiting() && !park.is_notified());
        assert_eq!(park.notify(), Notify::OwnerSpins);
        assert_eq!(park.notify(), Notify::AlreadyNotified);
        assert!(park.is_notified());
        assert_eq!(park.stop_spinning(), Prepared::AlreadyNotified);
        assert_eq!(park.notify(), Notify::OwnerIsRunning);
    }

    #[test]
    fn an_owner_that_has_spun_for_nothing_must_be_kicked() {
        let park = Park::new();
        assert_eq!(park.prepare_to_spin(), Prepared::MaySleep);
        assert_eq!(park.stop_spinning(), Prepared::MaySleep);
        assert_eq!(park.notify(), Notify::MustKick);
        park.finish();
        assert_eq!(park.prepare(), Prepared::MaySleep);
    }

    #[test]
    fn who_was_notified_before_it_spins_does_not_spin() {
        let park = Park::new();
        assert_eq!(park.notify(), Notify::OwnerIsRunning);
        assert_eq!(park.prepare_to_spin(), Prepared::AlreadyNotified);
        assert_eq!(park.prepare_to_spin(), Prepared::MaySleep);
        park.finish();
        assert_eq!(park.notify(), Notify::OwnerIsRunning);
    }

    #[test]
    fn a_notification_while_running_keeps_the_owner_awake_once() {
        let park = Park::new();
        assert_eq!(park.notify(), Notify::OwnerIsRunning);
        assert_eq!(park.notify(), Notify::AlreadyNotified);
        assert_eq!(park.prepare(), Prepared::AlreadyNotified);
        assert_eq!(park.prepare(), Prepared::MaySleep);
    }

    #[test]
    fn acknowledging_makes_the_next_notifier_alert_again() {
        let park = Park::new();
        assert_eq!(park.notify(), Notify::OwnerIsRunning);
        park.acknowledge();
        assert_eq!(park.notify(), Notify::OwnerIsRunning);
    }
}
