//! The first look at an object: what an operation of the current process comes to.
//!
//! The executor looks once. It then carries out what was found, with functions that need not look
//! again: nothing to do, wake one process, or wait. What is not frequent is
//! [`FirstLook::Unclear`]; then the whole operation of the scheduler decides, and nothing has
//! changed so far.

use super::waiters::{Kind, Ticket, WaitQueue};
use crate::sched::process::Phase;
use crate::sched::{Attempt, Deadline, Scheduler, Wake, WakeReason};

/// What a first look found. Use it at once: any other operation makes it stale.
#[must_use]
#[derive(Debug, Clone, Copy)]
pub enum FirstLook {
    /// The operation is done, and no scheduling decision has changed. With a received value.
    Done(u64),
    /// It is done as soon as this waiter is woken, by [`Scheduler::wake_waiter`].
    Wakes(FirstWaiter),
    /// The current process has to wait, by [`Scheduler::wait_by_handoff`] or
    /// [`Scheduler::wait_at`].
    Waits(WaitPlace),
    /// The whole operation has to decide.
    Unclear,
}

/// A place to wait at: a queue of an object.
#[derive(Debug, Clone, Copy)]
#[repr(C)] // two registers in C's convention
pub struct WaitPlace {
    queue: WaitQueue,
    object: u32,
    kind: Kind,
}

impl WaitPlace {
    #[inline]
    pub(in crate::sched) fn new(queue: WaitQueue, kind: Kind, object: u32) -> WaitPlace {
        WaitPlace {
            queue,
            object,
            kind,
        }
    }
}

/// The first waiter of an object, by the index of its node.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub struct FirstWaiter(pub(in crate::sched) u32);

impl<C> Scheduler<C> {
    /// Ends the wait of a waiter with `Done` and `value`. Returns the value that it wanted to send.
    ///
    /// A waiter that was not found just now may be another one.
    ///
    /// # Panics
    /// If there has never been such a waiter.
    #[inline]
    pub fn wake_waiter(&mut self, waiter: FirstWaiter, value: u64) -> u64 {
        let node = self.waiters.node(waiter.0);
        let (process, ticket) = (node.process, node.ticket);
        let wake = Wake {
            reason: WakeReason::Done,
            case: ticket.case,
            value,
        };
        self.wake_process(process, wake);
        ticket.value
    }

    /// Makes the current process wait, with a value to send. A refusal is a result.
    #[inline]
    pub fn wait_at(&mut self, place: WaitPlace, value: u64, deadline: Deadline) -> Attempt {
        let me = self.current;
        if let Some(refusal) = self.refusal_to_block(me, deadline) {
            return refusal;
        }
        self.enter_at(me, place, value);
        self.block(me, Phase::Waiting, deadline)
    }

    #[inline]
    pub(in crate::sched) fn enter_at(&mut self, index: u32, place: WaitPlace, value: u64) {
        let ticket = Ticket {
            value,
            ..Ticket::new(place.kind, place.object)
        };
        self.enter_queue(index, place.queue, ticket);
    }
}
