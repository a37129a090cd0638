//! At the bound on native threads, calls that may block come to their turn: the more urgent first, and among equals who asked first.
//!
//! As many calls are out as there may be threads; the last one is made on the owner's own thread if nobody else can run, and else the VM goes on
//! on a thread above the bound. Whoever comes then waits. Each call that comes back wakes the first one who waits, who looks again, and once it is let in wakes
//! the next, since its own call may be over at once and tell nobody. Somebody who was woken may find that a process which need not wait has taken the
//! thread, or that another one is before it who was woken too and has not looked yet: it waits again, at the place that it had.
//!
//! **Nobody waits in vain.** A process begins to wait only while calls are out or threads are kept for names, or behind one who was woken or waits. A call that
//! comes back wakes one, and so do a thread that loses its name and a bound that is set anew; one who is let in, or is killed on the way, wakes the next; and one who looks and waits again does so because a call is out, or because one
//! before it has yet to look. Who is suspended stops nobody: it is woken, and so is the next.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::{Inner, Vm};
use crate::kernel::{Deadline, ProcessId, WaitQueueId, Wake, WakeReason};

/// A place among those who ask for a thread: priority when it asked, and the number of the question.
type Place = (Reverse<u8>, u64);

/// Who wants to make a foreign call while all native threads are out. The owner's.
#[derive(Debug)]
pub(super) struct Turns {
    /// Where they wait. The order is that of their places.
    queue: WaitQueueId,
    /// All who have asked and were not let in yet, whether they wait or were woken.
    asking: BTreeMap<Place, ProcessId>,
    /// How many have asked.
    asked: u64,
}

impl Turns {
    pub(super) fn new(queue: WaitQueueId) -> Turns {
        Turns {
            queue,
            asking: BTreeMap::new(),
            asked: 0,
        }
    }

    /// In a fork's child: nobody else is there.
    pub(super) fn forget(&mut self) {
        self.asking.clear();
    }
}

impl Vm {
    /// Waits until a foreign call by the calling process has a native thread, after those that have asked before. Processes that
    /// are bound, or prefer home, do not wait: nobody could run in their place.
    ///
    /// ```
    /// use baton_core::kernel::WakeReason;
    /// # mod closures { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doctests/closures.rs")); }
    /// closures::run(|main| {
    ///     assert_eq!(main.vm.wait_for_thread().reason, WakeReason::Done); // or it was killed meanwhile, say
    ///     assert_eq!(main.vm.foreign(|| 6 * 7), 42);
    /// });
    /// ```
    pub fn wait_for_thread(&self) -> Wake {
        let mut place = None;
        // Without giving way, so that nobody else is let in between this look and the call.
        while !self.inner.with(|inner| self.lets_call(inner, &mut place)) {
            self.counters.thread_bound_hits.increment();
            let queue = self.inner.with(|inner| inner.turns.queue);
            let wake = self.attempt(|kernel| kernel.wait(queue, Deadline::Never));
            if wake.reason != WakeReason::Done {
                self.inner.with(|inner| self.leave_turns(inner, place));
                return wake;
            }
        }
        Wake::because(WakeReason::Done)
    }

    /// Whether the calling process may begin a foreign call; if not, it has a place from now on. If it had one, the next one is woken. Threads with
    /// names that have nobody out are for others, and count as if they had.
    fn lets_call(&self, inner: &mut Inner, place: &mut Option<Place>) -> bool {
        let kernel = &inner.kernel;
        let Some(me) = kernel.current() else {
            return true;
        };
        let stays = kernel.effective_carrier(me).is_some() || Some(me) == inner.prefers_home;
        let out = kernel.foreign_count() + kernel.named_and_vacant_count();
        let has_a_thread = out < self.parameters.max_threads().max(kernel.named_count() + 1);
        let may_call = stays || kernel.is_critical() || (has_a_thread && inner.is_first(me, *place));
        if !may_call {
            place.get_or_insert_with(|| inner.ask(me));
        } else if place.is_some() {
            self.leave_turns(inner, *place);
        }
        may_call
    }

    /// The calling process asks no longer, and the next one is woken.
    fn leave_turns(&self, inner: &mut Inner, place: Option<Place>) {
        if let Some(place) = place {
            inner.turns.asking.remove(&place);
        }
        inner.call_next();
        self.publish(inner);
    }
}

impl Inner {
    /// A thread may have become free: the first who waits is woken.
    pub(super) fn call_next(&mut self) {
        for &pid in self.turns.asking.values() {
            let woken = self.kernel.wake_this(self.turns.queue, pid, WakeReason::Done, 0);
            if woken && !self.kernel.is_suspended(pid) {
                return;
            }
        }
    }

    /// Whether nobody is before `me`, which has this place or would get one.
    fn is_first(&self, me: ProcessId, place: Option<Place>) -> bool {
        let place = place.unwrap_or_else(|| self.place_of(me, u64::MAX));
        let mut before = self.turns.asking.range(..place);
        before.all(|(_, &pid)| self.kernel.is_suspended(pid))
    }

    fn ask(&mut self, me: ProcessId) -> Place {
        self.turns.asked += 1;
        let place = self.place_of(me, self.turns.asked);
        self.turns.asking.insert(place, me);
        place
    }

    fn place_of(&self, pid: ProcessId, number: u64) -> Place {
        (Reverse(self.kernel.effective_priority(pid).get()), number)
    }
}
