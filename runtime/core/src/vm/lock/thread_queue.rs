//! The thread queue: at the bound on native threads, calls that may block wait for a thread. The
//! most urgent caller goes first; equals go in the order in which they asked.
//!
//! As many calls are out as there may be threads. The last one is made on the owner's own thread if
//! no other process can run. Otherwise the VM continues on a thread above the bound. Later callers
//! wait.
//!
//! - Each call that comes back wakes the first waiter, which checks again.
//! - A caller that is let in wakes the next waiter, as its own call may end without a notification.
//! - A process rechecks and waits again, at its old place, when (a) a call is still out or (b) an
//!   earlier waiter has not rechecked. A process that need not wait may have taken the thread.
//!
//! **No caller waits in vain.** A process begins to wait only while calls are out, while threads
//! are reserved for names, or behind another process of the queue. The next waiter is woken when
//!
//! - a call comes back,
//! - a thread loses its name,
//! - the bound changes,
//! - a caller is let in, or
//! - a waiter is killed.
//!
//! A suspended waiter does not block the queue: a wake goes to it and to the next one.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::sched::{Deadline, ProcessId, WaitQueueId, Wake, WakeReason};
use crate::vm::{Inner, Inside, Vm};

/// A place in the queue: the priority when the process asked, and a sequence number.
type QueuePlace = (Reverse<u8>, u64);

/// The processes that want to make a foreign call while all native threads are out. The owner's.
#[derive(Debug)]
pub(in crate::vm) struct ThreadQueue {
    /// The wait queue. Its order is that of the places.
    queue: WaitQueueId,
    /// All processes that have asked and were not let in yet, waiting or woken.
    asking: BTreeMap<QueuePlace, ProcessId>,
    /// How many have asked so far.
    asked: u64,
}

impl ThreadQueue {
    pub(in crate::vm) fn new(queue: WaitQueueId) -> ThreadQueue {
        ThreadQueue {
            queue,
            asking: BTreeMap::new(),
            asked: 0,
        }
    }

    /// Empties the queue, in a fork's child, where the other processes do not exist.
    pub(in crate::vm) fn forget(&mut self) {
        self.asking.clear();
    }
}

impl Inside<'_> {
    /// Waits until there is a native thread for a foreign call by the calling process, behind
    /// earlier callers. Processes that are bound or prefer home do not wait, as no other process
    /// could use their thread.
    ///
    /// ```
    /// use baton_core::sched::WakeReason;
    /// # mod closures { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doctests/closures.rs")); }
    /// closures::run(|main| {
    ///     // Another reason: it was killed meanwhile, for example.
    ///     assert_eq!(main.vm.wait_for_thread().reason, WakeReason::Done);
    ///     assert_eq!(main.vm.foreign(|| 6 * 7), 42);
    /// });
    /// ```
    pub fn wait_for_thread(&self) -> Wake {
        let mut place = None;
        // Does not give way between this check and the call, so that no other process is let in.
        while !self.with_inner(|inner| self.lets_call(inner, &mut place)) {
            self.counters.thread_bound_hits.increment();
            let queue = self.with_inner(|inner| inner.thread_queue.queue);
            let wake = self.block_on(|sched| sched.wait(queue, Deadline::Never));
            if wake.reason != WakeReason::Done {
                self.with_inner(|inner| self.leave_thread_queue(inner, place));
                return wake;
            }
        }
        Wake::because(WakeReason::Done)
    }
}

impl Vm {
    /// Whether the calling process may begin a foreign call. If not, it gets a place. If it had
    /// one, the next process is woken. A named thread counts as out even if it is not, as it is
    /// reserved.
    fn lets_call(&self, inner: &mut Inner, place: &mut Option<QueuePlace>) -> bool {
        let sched = &inner.sched;
        let Some(me) = sched.current() else {
            return true;
        };
        let stays = sched.effective_carrier(me).is_some() || Some(me) == inner.prefers_home;
        let out = sched.foreign_count() + inner.in_calls + sched.named_and_vacant_count();
        let has_a_thread = out < self.parameters.max_threads().max(sched.named_count() + 1);
        let may_call = stays || sched.is_critical() || (has_a_thread && inner.is_first(me, *place));
        if !may_call {
            place.get_or_insert_with(|| inner.ask(me));
        } else if place.is_some() {
            self.leave_thread_queue(inner, *place);
        }
        may_call
    }

    /// Removes the calling process from the queue, and wakes the next one.
    fn leave_thread_queue(&self, inner: &mut Inner, place: Option<QueuePlace>) {
        if let Some(place) = place {
            inner.thread_queue.asking.remove(&place);
        }
        inner.wake_next_in_queue();
        self.update_hints(inner);
    }
}

impl Inner {
    /// Wakes the first waiter: a thread may have become free.
    pub(in crate::vm) fn wake_next_in_queue(&mut self) {
        for &pid in self.thread_queue.asking.values() {
            let woken = self
                .sched
                .wake_this(self.thread_queue.queue, pid, WakeReason::Done, 0);
            if woken && !self.sched.is_suspended(pid) {
                return;
            }
        }
    }

    /// Whether no process of the queue comes before `me` with this place, or with the place it
    /// would get.
    fn is_first(&self, me: ProcessId, place: Option<QueuePlace>) -> bool {
        let place = place.unwrap_or_else(|| self.place_of(me, u64::MAX));
        let mut before = self.thread_queue.asking.range(..place);
        before.all(|(_, &pid)| self.sched.is_suspended(pid))
    }

    fn ask(&mut self, me: ProcessId) -> QueuePlace {
        self.thread_queue.asked += 1;
        let place = self.place_of(me, self.thread_queue.asked);
        self.thread_queue.asking.insert(place, me);
        place
    }

    fn place_of(&self, pid: ProcessId, number: u64) -> QueuePlace {
        (Reverse(self.sched.effective_priority(pid).get()), number)
    }
}
