//! Waiting until one of some descriptors is ready.
//!
//! Here a descriptor is a number, and readiness a set of bits; the executor knows their meaning. An
//! event wakes all processes that want it. Each of them tries its operation, and waits again if
//! another process was faster.

use crate::sched::process::Phase;
use crate::sched::wait::waiters::{Kind, Ticket, WaitQueue};
use crate::sched::{Attempt, Deadline, Scheduler, Wake, WakeReason};
use std::ops::BitOr;

/// What a descriptor is ready for, or what a process waits for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Readiness(u8);

impl Readiness {
    /// A read will not block.
    pub const READ: Readiness = Readiness(1);
    /// A write will not block.
    pub const WRITE: Readiness = Readiness(2);
    /// Out-of-band data.
    pub const PRIORITY: Readiness = Readiness(4);
    /// An error or hang-up, which ends every wait.
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

/// A descriptor that a process waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Watch {
    /// Its number.
    pub descriptor: u32,
    /// The readiness that ends the wait; [`Readiness::FAILED`] ends it in any case.
    pub wants: Readiness,
}

/// The generation of a descriptor number: each file that gets the number has another one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Edition(pub u32);

/// The value in the ticket of a waiter: the wanted readiness, and the edition.
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
    /// Waits until one of the descriptors is ready: `Wake::case` is its index, `Wake::value` what
    /// it is ready for. [`WakeReason::Closed`] if one of them was closed. With no descriptors it
    /// only waits for its deadline.
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

    /// Makes a process wait for a descriptor, as case `number`.
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

    /// Wakes all processes that want what a descriptor is ready for. Returns how many.
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

    /// Wakes all processes that wait for this edition of a descriptor, with `Closed`. Returns how
    /// many.
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

    /// Whether a process waits for a descriptor.
    pub fn is_watched(&self, descriptor: u32) -> bool {
        self.known_queue(descriptor)
            .is_some_and(|queue| !self.waiters.is_empty(queue))
    }

    /// The union of what the waiting processes want of a descriptor.
    pub fn wanted_of(&self, descriptor: u32) -> Readiness {
        let waiting = self.known_queue(descriptor).into_iter();
        let wanted = waiting.flat_map(|queue| self.waiters.iter(queue));
        wanted.fold(Readiness::default(), |all, waiter| {
            all | wants_of(waiter.ticket.value)
        })
    }

    /// How many waits for descriptors are in progress. A process that waits for several counts for
    /// each.
    #[inline]
    pub fn watching(&self) -> u32 {
        self.watching
    }

    /// The first waiter with a matching ticket, and the index of its watch.
    fn first_where(&self, queue: WaitQueue, is_meant: impl Fn(u64) -> bool) -> Option<(u32, u32)> {
        let mut waiting = self.waiters.iter(queue);
        let waiter = waiting.find(|waiter| is_meant(waiter.ticket.value))?;
        Some((waiter.process, waiter.ticket.case))
    }

    fn known_queue(&self, descriptor: u32) -> Option<WaitQueue> {
        *self.descriptors.get(descriptor as usize)?
    }

    /// The wait queue of a descriptor. Created for the first waiter and kept, as descriptor numbers
    /// are used again.
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
