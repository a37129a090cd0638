//! Waiting for descriptors: a process waits until one of some descriptors is ready for what it
//! wants to do.
//!
//! A descriptor is a number here, and readiness a set of bits: what they stand for the executor
//! knows. All who want what has come are woken: each tries for itself, and waits again if another
//! one was faster.

use crate::sched::process::Phase;
use crate::sched::wait::waiters::{Kind, Ticket, WaitQueue};
use crate::sched::{Attempt, Deadline, Scheduler, Wake, WakeReason};
use std::ops::BitOr;

/// What a descriptor is ready for, or what somebody wants of it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Readiness(u8);

impl Readiness {
    /// A read will not block.
    pub const READ: Readiness = Readiness(1);
    /// A write will not block.
    pub const WRITE: Readiness = Readiness(2);
    /// Out-of-band data.
    pub const PRIORITY: Readiness = Readiness(4);
    /// An error or hang-up, which everybody wants to know.
    pub const FAILED: Readiness = Readiness(8);

    /// The bits, for [`Wake::value`].
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// The set with these bits; unknown ones are dropped.
    pub const fn from_bits(bits: u8) -> Readiness {
        Readiness(bits & 15)
    }

    /// Whether the two have anything in common.
    pub const fn intersects(self, other: Readiness) -> bool {
        self.0 & other.0 != 0
    }
}

impl BitOr for Readiness {
    type Output = Readiness;

    fn bitor(self, other: Readiness) -> Readiness {
        Readiness(self.0 | other.0)
    }
}

/// A descriptor that somebody waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Watch {
    /// Its number.
    pub descriptor: u32,
    /// What it is to be ready for; [`Readiness::FAILED`] ends the wait in any case.
    pub wants: Readiness,
}

/// Which of the things that had a descriptor's number one after the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Edition(pub u32);

/// What the ticket of a waiter says: what it wants, and of which edition.
fn value_of(wants: Readiness, edition: Edition) -> u64 {
    u64::from(edition.0) << 8 | u64::from(wants.bits())
}

fn wants_of(value: u64) -> Readiness {
    Readiness::from_bits(value as u8)
}

fn edition_of(value: u64) -> Edition {
    Edition((value >> 8) as u32)
}

impl<C> Scheduler<C> {
    /// Waits until one of the descriptors is ready: `Wake::case` says which, `Wake::value` for
    /// what. [`WakeReason::Closed`] if one of them was closed. Without any it waits for its
    /// deadline only.
    ///
    /// ```
    /// use baton_core::sched::{Attempt, Deadline, Edition, Readiness, Scheduler};
    /// use baton_core::sched::{SpawnOptions, Watch};
    ///
    /// let mut sched: Scheduler<()> = Scheduler::new(10);
    /// let waiter = sched.spawn(SpawnOptions::default(), ())?;
    /// let _ = sched.schedule();
    /// let watch = Watch { descriptor: 3, wants: Readiness::READ };
    /// let attempt = sched.wait_ready([(watch, Edition::default())], Deadline::Never);
    /// assert_eq!(attempt, Attempt::Blocked);
    /// assert_eq!(sched.descriptor_is_ready(3, Readiness::WRITE), 0);
    /// assert_eq!(sched.descriptor_is_ready(3, Readiness::READ), 1);
    /// let _ = sched.schedule();
    /// assert_eq!(sched.take_wake(waiter).value, u64::from(Readiness::READ.bits()));
    /// # Ok::<(), baton_core::sched::ProcessLimit>(())
    /// ```
    pub fn wait_ready(
        &mut self,
        watches: impl IntoIterator<Item = (Watch, Edition)>,
        deadline: Deadline,
    ) -> Attempt {
        let me = match self.may_wait() {
            Ok(me) => me,
            Err(answer) => return answer,
        };
        if let Some(refusal) = self.refusal_to_block(me, deadline) {
            return refusal;
        }
        for (number, (watch, edition)) in watches.into_iter().enumerate() {
            self.enter_watch(me, watch, edition, number as u32);
        }
        self.block(me, Phase::Waiting, deadline)
    }

    /// A process begins to wait for a descriptor, as the case of this number.
    pub(super) fn enter_watch(&mut self, me: u32, watch: Watch, edition: Edition, number: u32) {
        let queue = self.queue_of_descriptor(watch.descriptor);
        let wants = watch.wants | Readiness::FAILED;
        let ticket = Ticket {
            kind: Kind::Descriptor,
            object: watch.descriptor,
            case: number,
            value: value_of(wants, edition),
        };
        self.enter_queue(me, queue, ticket);
        self.watching += 1;
    }

    /// A descriptor has become ready: all who want that go on. Says how many they are.
    pub fn descriptor_is_ready(&mut self, descriptor: u32, ready: Readiness) -> usize {
        let Some(queue) = self.known_queue(descriptor) else {
            return 0;
        };
        let mut count = 0;
        while let Some((process, case)) =
            self.first_where(queue, |value| wants_of(value).intersects(ready))
        {
            let wake = Wake {
                reason: WakeReason::Done,
                case,
                value: u64::from(ready.bits()),
            };
            self.wake_process(process, wake);
            count += 1;
        }
        count
    }

    /// An edition of a descriptor was closed: all who wait for that are told `Closed`. Says how
    /// many they are.
    pub fn descriptor_closes(&mut self, descriptor: u32, edition: Edition) -> usize {
        let Some(queue) = self.known_queue(descriptor) else {
            return 0;
        };
        let mut count = 0;
        while let Some((process, case)) =
            self.first_where(queue, |value| edition_of(value) == edition)
        {
            let wake = Wake::because(WakeReason::Closed);
            self.wake_process(process, Wake { case, ..wake });
            count += 1;
        }
        count
    }

    /// Whether anybody waits for a descriptor.
    pub fn is_watched(&self, descriptor: u32) -> bool {
        self.known_queue(descriptor)
            .is_some_and(|queue| !self.waiters.is_empty(queue))
    }

    /// What the processes that wait for a descriptor want of it, together.
    pub fn wanted_of(&self, descriptor: u32) -> Readiness {
        let waiting = self.known_queue(descriptor).into_iter();
        let wanted = waiting.flat_map(|queue| self.waiters.iter(queue));
        wanted.fold(Readiness::default(), |all, waiter| {
            all | wants_of(waiter.ticket.value)
        })
    }

    /// How many waits for descriptors go on; a process that waits for several counts for each.
    #[inline]
    pub fn watching(&self) -> u32 {
        self.watching
    }

    /// The first who waits with such a ticket, and the number of its watch.
    fn first_where(&self, queue: WaitQueue, is_meant: impl Fn(u64) -> bool) -> Option<(u32, u32)> {
        let mut waiting = self.waiters.iter(queue);
        let waiter = waiting.find(|waiter| is_meant(waiter.ticket.value))?;
        Some((waiter.process, waiter.ticket.case))
    }

    fn known_queue(&self, descriptor: u32) -> Option<WaitQueue> {
        *self.descriptors.get(descriptor as usize)?
    }

    /// Made for the first who waits, and kept: numbers of descriptors are used again.
    fn queue_of_descriptor(&mut self, descriptor: u32) -> WaitQueue {
        let place = descriptor as usize;
        if place >= self.descriptors.len() {
            self.descriptors.resize(place + 1, None);
        }
        let Scheduler {
            descriptors,
            waiters,
            ..
        } = self;
        *descriptors[place].get_or_insert_with(|| waiters.make_queue())
    }
}
