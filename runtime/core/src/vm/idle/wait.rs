//! The owner's wait when no process is runnable: it spins if that is likely to pay, and then parks.
//!
//! [`spin`](crate::spin) decides. This module carries the decision out and reports the result back.
//! [`parking`](baton_sys::parking) says which threads must wake the owner, and why no wake-up is
//! lost. A spinning owner sees notifications itself, so that a notifier makes no system call.
//!
//! | state of the wait | left for |
//! |---|---|
//! | deciding | spinning, or parked |
//! | spinning | over (notified, or due), or parked when the limit is reached |
//! | parked | over (kicked, a descriptor, due), or interrupted, which teaches the policy nothing |

use super::spin_permits::{SPIN_PERMITS, SpinPermit};
use crate::spin::{Decision, Ended, Outlook, PolicyName, Settings, Source, Spun, Tally, Wait};
use crate::vm::{Inside, Vm};
use baton_sys::clock::Instant;
use baton_sys::parking::Prepared;
use baton_sys::{pause, processors};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How long a spinning owner checks only for notifications before it polls the poller again.
const BETWEEN_ASKING: Duration = Duration::from_nanos(500);

/// The result of one part of the wait.
#[must_use]
enum Came {
    /// Its end had come before it began.
    AtOnce,
    /// Its end came, at this time.
    Over(Ended, Instant),
    /// It is not over; the time now.
    Not(Instant),
}

/// The result of a wait in the poller.
#[must_use]
pub(in crate::vm) struct Brought {
    /// The poller was kicked.
    kicked: bool,
    /// How many processes were woken because their descriptors are ready.
    pub(in crate::vm) woken: usize,
}

impl Inside<'_> {
    /// Waits until a post arrives or a deadline is due. The owner then takes both in; it may find
    /// nothing.
    pub(in crate::vm) fn wait(&self, source: Source, deadline: Option<Instant>) {
        let settings = self.parameters.spinning();
        if settings.policy == PolicyName::Off {
            if self.may_park() {
                let _ = self.park_until(deadline, Instant::FAR_FUTURE);
            }
            return;
        }
        let began = Instant::now();
        let (spun, came) = match self.decide(settings, source, began, deadline) {
            None if self.may_park() => (Spun::Not, self.park_until(deadline, began)),
            None => (Spun::Not, Came::AtOnce),
            Some((limit, permit)) => {
                let came = self.spin_until(began + limit, deadline);
                drop(permit);
                match came {
                    Came::Not(now) => (Spun::Failed(now - began), self.park_until(deadline, now)),
                    came => (Spun::Hit, came),
                }
            }
        };
        let learn = |ended, waited| self.learn(settings, source, spun, ended, waited);
        match (settings.policy, came) {
            // Chromium's rule measures a wait until the program runs again. It has no case for a
            // wait that ends at once.
            (PolicyName::Ema, Came::AtOnce) => learn(Ended::Signalled, Duration::ZERO),
            (PolicyName::Ema, Came::Over(Ended::Signalled, _)) => {
                learn(Ended::Signalled, Instant::now() - began)
            }
            (_, Came::Over(ended, at)) => learn(ended, at - began),
            // The spin counts against the budget, although the length of the wait is unknown.
            (_, Came::Not(now)) if spun != Spun::Not => learn(Ended::Due, now - began),
            // No park was saved, as there would not have been one.
            (_, Came::AtOnce | Came::Not(_)) => {}
        }
    }

    /// How long to spin, and the permit for it. `None`: park.
    fn decide(
        &self,
        settings: Settings,
        source: Source,
        now: Instant,
        deadline: Option<Instant>,
    ) -> Option<(Duration, SpinPermit<'static>)> {
        let outlook = Outlook {
            now,
            source,
            due_in: deadline.map(|deadline| deadline - now),
        };
        let (decision, most) = self.with_inner(|inner| {
            let decision = inner.spin.decide(settings, outlook, processors::read);
            (decision, inner.spin.most_spinners(settings))
        });
        match decision {
            Decision::Park => None,
            Decision::Spin(limit) => Some((limit, SPIN_PERMITS.take(most)?)),
        }
    }

    fn learn(
        &self,
        settings: Settings,
        source: Source,
        spun: Spun,
        ended: Ended,
        waited: Duration,
    ) {
        let wait = Wait {
            source,
            waited,
            ended,
            spun,
        };
        self.with_inner(|inner| inner.spin.learn(settings, wait));
    }
}

impl Vm {
    /// Announces that the owner wants to sleep. Returns whether it may; from then on other threads
    /// kick it.
    pub(in crate::vm) fn may_park(&self) -> bool {
        self.park.prepare() == Prepared::MaySleep && self.inbox.is_empty() && !self.signal_is_due()
    }
}

impl Inside<'_> {
    /// Spins until a notification, a descriptor event, a deadline or `until`. If it returns
    /// [`Came::Not`], the owner has announced that it sleeps.
    fn spin_until(&self, until: Instant, deadline: Option<Instant>) -> Came {
        // The bit of a signal may have been set before the owner last acknowledged a notification.
        // Later signals notify.
        if self.park.prepare_to_spin() == Prepared::AlreadyNotified || self.signal_is_due() {
            return Came::AtOnce;
        }
        let ready = self.poll_while_spinning(until);
        let notified = self.park.stop_spinning() == Prepared::AlreadyNotified;
        let now = Instant::now();
        match deadline {
            _ if notified || ready => Came::Over(Ended::Signalled, now),
            Some(deadline) if deadline <= now => Came::Over(Ended::Due, deadline),
            _ => Came::Not(now),
        }
    }

    /// Spins until a notification, until a descriptor is ready, or until the time is over. Returns
    /// whether a descriptor is ready.
    fn poll_while_spinning(&self, until: Instant) -> bool {
        if !self.with_inner(|inner| inner.sched.watching() > 0) {
            let _ = pause::spin_until(until, || self.park.is_notified());
            return false;
        }
        loop {
            if self.poll_descriptors() {
                return true;
            }
            let next = until.min(Instant::now() + BETWEEN_ASKING);
            if pause::spin_until(next, || self.park.is_notified()) == pause::Spin::Seen
                || next == until
            {
                return false;
            }
        }
    }

    /// Waits in the poller after the announcement. `since` is when this began: a kick before that
    /// was meant for an earlier wait.
    fn park_until(&self, deadline: Option<Instant>, since: Instant) -> Came {
        self.counters.idle_waits.increment();
        self.cancel_wake_up(deadline);
        let brought = self.wait_in_poller(deadline);
        if since == Instant::FAR_FUTURE {
            return Came::Not(since);
        }
        let now = Instant::now();
        // Relaxed: statistics. The time of a kick for another wait is before this wait.
        let kicked_at = Instant::from_nanos(self.kicked_at.load(Ordering::Relaxed));
        match deadline {
            _ if brought.kicked && kicked_at >= since => {
                self.with_inner(|inner| inner.spin.learn_park_cost(now - kicked_at));
                Came::Over(Ended::Signalled, kicked_at)
            }
            _ if brought.woken > 0 => {
                let came = self.with_inner(|inner| inner.spin.came_at(since, now));
                Came::Over(Ended::Signalled, came)
            }
            Some(deadline) if deadline <= now => Came::Over(Ended::Due, deadline),
            _ => Came::Not(now),
        }
    }

    /// Waits in the poller, or only polls it, and takes in the events.
    pub(in crate::vm) fn wait_in_poller(&self, deadline: Option<Instant>) -> Brought {
        let mut events = self
            .with_inner(|inner| inner.events.take())
            .unwrap_or_default();
        let wait = self
            .poller
            .wait(&mut events, deadline)
            .unwrap_or_else(|error| {
                eprintln!("baton: the poller failed: {error}");
                std::process::abort();
            });
        self.descriptors.note_harvest();
        if let Some(deadline) = deadline.filter(|_| wait.timed_out) {
            self.expire_by_force(deadline);
        }
        let woken = self.with_inner(|inner| {
            let woken = match wait.ready {
                0 => 0,
                _ => self.take_in_ready(&mut inner.sched, &mut inner.registrations, &mut events),
            };
            inner.events = Some(events);
            woken
        });
        Brought {
            kicked: wait.kicked,
            woken,
        }
    }
}

impl Inside<'_> {
    /// The wait until `deadline` has ended in the kernel. If the clock has not come there, as it
    /// stands still or is slow, the deadline counts as come: otherwise a sleep would not end.
    fn expire_by_force(&self, deadline: Instant) {
        if self.is_simulated() || deadline <= Instant::now() {
            return;
        }
        let ask = |user_data| self.guest.request_safepoint(user_data);
        self.with_inner(|inner| inner.sched.expire_and_ask(deadline, ask));
    }
}

impl Vm {
    /// Ends the owner's wait in the poller. Async-signal-safe.
    pub(in crate::vm) fn kick_poller(&self) {
        // Relaxed: statistics. The owner reacts to the kick itself.
        self.kicked_at
            .store(Instant::now().as_nanos(), Ordering::Relaxed);
        self.poller.kick();
    }
}

impl Inside<'_> {
    /// Statistics of spinning so far. Inside the VM.
    pub fn spin_tally(&self) -> Tally {
        self.with_inner(|inner| inner.spin.tally())
    }
}
