//! The state of the owner's sleep: one atomic that decides which thread must make a system call to
//! wake the owner.
//!
//! | state | meaning |
//! |---|---|
//! | Running | the owner runs, or is about to check its inbox |
//! | Spinning | the owner watches this word and will see a notification without a kick |
//! | Polling | the owner has announced that it will sleep, and perhaps sleeps |
//! | Notified | there was a post since the owner's last check; no other notification is needed |
//!
//! | from | to | made by | result |
//! |---|---|---|---|
//! | Running | Polling | [`Park::prepare`] | [`Prepared::MaySleep`] |
//! | Running | Spinning | [`Park::prepare_to_spin`] | [`Prepared::MaySleep`] |
//! | Spinning | Polling | [`Park::stop_spinning`] | [`Prepared::MaySleep`] |
//! | Notified | Running | [`Park::prepare`] and the two above | [`Prepared::AlreadyNotified`] |
//! | Running, Notified | Polling | [`Park::hand_to_host`] | whether it was Notified |
//! | any | Running | [`Park::finish`], [`Park::acknowledge`] | |
//! | Polling | Notified | [`Park::notify`] | [`Notify::MustKick`] |
//! | Spinning | Notified | [`Park::notify`] | [`Notify::OwnerSpins`] |
//! | Running | Notified | [`Park::notify`] | [`Notify::OwnerIsRunning`] |
//! | Notified | Notified | [`Park::notify`] | [`Notify::AlreadyNotified`] |
//!
//! The owner's loop, and the other threads:
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
//! `prepare`, `stop_spinning` and `notify` are read-modify-write operations on the same atomic. So
//! of any two of them, one comes first in its modification order.
//!
//! 1. `notify` before `prepare` or `prepare_to_spin`: the latter reads Notified (or the result of a
//!    later edge) and does not let the owner wait. It has read a value that `notify` released, so
//!    the owner sees the message when it takes the inbox next.
//! 2. `prepare` first: `notify` reads Polling and returns MustKick; the poller keeps a kick that
//!    comes before the wait. Or it reads Notified, because another `notify` came between them: that
//!    one read Polling and kicks.
//! 3. `prepare_to_spin` first, before `stop_spinning`: `notify` reads Spinning and returns
//!    OwnerSpins, without a kick. The owner does not sleep before `stop_spinning`. That is later in
//!    the modification order and reads Notified, as in 1. It does not matter whether `is_notified`
//!    has returned true: it only ends the spin early. The spin has a limit, so it ends.
//! 4. `stop_spinning` first: it has made the state Polling, and `notify` reads that, as in 2.
//!
//! So the check of the inbox between `prepare` and the wait is not needed for correctness. It saves
//! a wait if a message has come before its `notify`. A `notify` after `finish` finds Running: the
//! owner is awake and about to take the inbox. A kick that arrives after `finish` ends a later wait
//! early, which every waiter must expect anyway.
//!
//! An owner whose thread is a program's own loop (a *host*) does not wait in the poller. It
//! announces the wait and returns to that loop, which watches the poller's descriptor. Then:
//!
//! 5. `prepare` comes first: `notify` returns MustKick as in 2. The kick makes the descriptor
//!    readable until the poller is polled. The owner does not poll it between `prepare` and the
//!    return to the host. It polls it at its next begin, and takes the inbox after that. So the
//!    host hears of the message, or the owner has come by itself and takes it.
//! 6. `notify` comes first, at the end of a stint whose time is used up: `hand_to_host` makes the
//!    state Polling all the same, and the owner kicks its own poller. The host comes again.
//!
//! **Duties.** A thread that got MustKick kicks without waiting for anything. The owner takes the
//! inbox, or finds it empty, after each `finish`, AlreadyNotified and `acknowledge`, before it
//! waits again. If the owner took messages while Notified without `acknowledge`, the monitor would
//! miss the next message (AlreadyNotified), though the owner's own next `prepare` would not.
//! Checked by the loom test `tests/loom_parking.rs`.

#[cfg(loom)]
use loom::sync::atomic::AtomicU8;
#[cfg(not(loom))]
use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering;

const RUNNING: u8 = 0;
const POLLING: u8 = 1;
const NOTIFIED: u8 = 2;
const SPINNING: u8 = 3;

/// Whether the owner may sleep.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prepared {
    /// It may. From now on each notifier acts on the new state. The owner checks the inbox once
    /// more, waits in the poller (or spins and then calls [`Park::stop_spinning`]), and calls
    /// [`Park::finish`].
    MaySleep,
    /// There was a post: take the inbox instead. [`Park::finish`] need not be called.
    AlreadyNotified,
}

/// What the notifier must do next.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notify {
    /// Kick the owner's poller: the owner sleeps or is about to.
    MustKick,
    /// Nothing: the owner spins and sees the notification.
    OwnerSpins,
    /// Alert the monitor: the owner runs, perhaps for long. The owner checks its inbox before it
    /// sleeps in any case.
    OwnerIsRunning,
    /// Alert the monitor if it rests, but do not kick. There was an earlier notification, which the
    /// owner has not acknowledged. The owner may have taken that message already (between its post
    /// and its notification).
    AlreadyNotified,
}

/// The state of the owner's wait. See the module's documentation.
#[derive(Debug)]
pub struct Park {
    state: AtomicU8,
}

impl Park {
    /// The state of a running owner.
    #[must_use]
    pub fn new() -> Park {
        Park {
            state: AtomicU8::new(RUNNING),
        }
    }

    /// Announces that the owner wants to sleep.
    #[inline]
    pub fn prepare(&self) -> Prepared {
        self.advance(RUNNING, POLLING)
    }

    /// Announces that the owner leaves the wait to the loop of a host, although there may be work.
    /// After [`Prepared::AlreadyNotified`] there is a message to take, so the owner kicks its own
    /// poller. Either way others kick it from now on.
    pub fn hand_to_host(&self) -> Prepared {
        let mut found = Prepared::MaySleep;
        while self.prepare() == Prepared::AlreadyNotified {
            found = Prepared::AlreadyNotified;
        }
        found
    }

    /// Announces that the owner will watch [`Park::is_notified`] for a while before it sleeps.
    #[inline]
    pub fn prepare_to_spin(&self) -> Prepared {
        self.advance(RUNNING, SPINNING)
    }

    /// Ends the spin: announces that the owner wants to sleep now, unless it was notified
    /// meanwhile.
    #[inline]
    pub fn stop_spinning(&self) -> Prepared {
        self.advance(SPINNING, POLLING)
    }

    /// Whether a spinning owner was notified: a hint to stop. [`Park::stop_spinning`] gives the
    /// definite answer.
    #[inline]
    #[must_use]
    pub fn is_notified(&self) -> bool {
        // Relaxed: a hint; `stop_spinning` acquires.
        self.state.load(Ordering::Relaxed) == NOTIFIED
    }

    #[inline]
    fn advance(&self, from: u8, to: u8) -> Prepared {
        // AcqRel: the Acquire pairs with the Release of `notify`, so that the message is visible.
        // The Release pairs with the Acquire of `notify`, so that the notifier sees a deadline or
        // other state that the owner has written.
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

    /// Ends the wait, or the attempt: the owner takes its inbox next.
    #[inline]
    pub fn finish(&self) {
        self.acknowledge();
    }

    /// Notes that the owner, which did not sleep, is about to take its inbox.
    #[inline]
    pub fn acknowledge(&self) {
        // AcqRel: pairs with the swap in `notify`. A swap, not a store: it comes after the last
        // `notify` in the modification order and acquires its Release. So the message is visible
        // when the inbox is taken.
        self.state.swap(RUNNING, Ordering::AcqRel);
    }

    /// Notifies the owner of a post by another thread or by the owner's signal handler.
    /// Async-signal-safe.
    #[inline]
    pub fn notify(&self) -> Notify {
        // AcqRel: pairs with the exchanges of `prepare` and `acknowledge`, to which the Release
        // publishes the message. A swap even if the state is Notified already: a load could be
        // ordered before the post.
        match self.state.swap(NOTIFIED, Ordering::AcqRel) {
            POLLING => Notify::MustKick,
            SPINNING => Notify::OwnerSpins,
            RUNNING => Notify::OwnerIsRunning,
            _ => Notify::AlreadyNotified,
        }
    }

    /// Whether the owner has announced that it sleeps or spins. A hint for statistics and the
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
    fn an_owner_that_leaves_its_wait_to_a_host_is_kicked_although_it_was_notified() {
        let park = Park::new();
        assert_eq!(park.hand_to_host(), Prepared::MaySleep);
        assert_eq!(park.notify(), Notify::MustKick);
        park.finish();
        assert_eq!(park.notify(), Notify::OwnerIsRunning);
        assert_eq!(park.hand_to_host(), Prepared::AlreadyNotified);
        assert_eq!(park.notify(), Notify::MustKick);
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
    fn an_owner_notified_before_it_spins_does_not_spin() {
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
