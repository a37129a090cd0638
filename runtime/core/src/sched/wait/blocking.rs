//! The begin and end of every wait: one way in, one way out.
//!
//! - In: an operation calls [`Scheduler::may_wait`], tries, and then blocks.
//! - Out: [`Scheduler::wake_process`], for a signal, a deadline, a kill or a close. It first
//!   removes the process from every queue, so a wait ends once.

use super::waiters::{Kind, Ticket, WaitQueue};
use crate::sched::process::Phase;
use crate::sched::slab::NIL;
use crate::sched::time::deadlines::Owner;
use crate::sched::{Attempt, Deadline, ProcessId, Scheduler, Wake, WakeReason};

impl<C> Scheduler<C> {
    /// How the last wait of a process ended. Read once after each `Attempt::Blocked`.
    #[inline]
    pub fn take_wake(&mut self, pid: ProcessId) -> Wake {
        match self.processes.find(pid) {
            Some(index) => {
                self.processes[index].has_wake = false;
                self.processes[index].wake
            }
            None => Wake::because(WakeReason::Dead),
        }
    }

    /// The current process, if it may wait; otherwise the result of the operation. A process that
    /// must die does not wait any more.
    #[inline]
    pub(in crate::sched) fn may_wait(&self) -> Result<u32, Attempt> {
        if self.current_may_wait() {
            return Ok(self.current);
        }
        Err(Attempt::because(match self.current {
            NIL => WakeReason::Dead,
            _ => WakeReason::Killed,
        }))
    }

    /// Whether [`Scheduler::may_wait`] would let the current process wait.
    #[inline]
    pub(in crate::sched) fn current_may_wait(&self) -> bool {
        let current = self.processes.slots.get(self.current as usize);
        current.is_some_and(|process| !process.kill_is_due())
    }

    /// Puts the current process into `queue`, unless it must not wait.
    #[inline]
    pub(in crate::sched) fn wait_in(
        &mut self,
        me: u32,
        queue: WaitQueue,
        ticket: Ticket,
        deadline: Deadline,
    ) -> Attempt {
        if let Some(refusal) = self.refusal_to_block(me, deadline) {
            return refusal;
        }
        self.block_in(me, queue, ticket, deadline);
        Attempt::Blocked
    }

    #[inline(never)]
    fn block_in(&mut self, me: u32, queue: WaitQueue, ticket: Ticket, deadline: Deadline) {
        self.enter_queue(me, queue, ticket);
        let _ = self.block(me, Phase::Waiting, deadline);
    }

    /// The result of an operation whose process would have to wait, but must not.
    #[inline]
    pub(in crate::sched) fn refusal_to_block(
        &self,
        me: u32,
        deadline: Deadline,
    ) -> Option<Attempt> {
        if deadline == Deadline::Now {
            return Some(Attempt::because(WakeReason::TimedOut));
        }
        (self.processes[me].critical > 0).then(|| Attempt::because(WakeReason::Forbidden))
    }

    /// Adds a node for a process to `queue`.
    #[inline]
    pub(in crate::sched) fn enter_queue(&mut self, index: u32, queue: WaitQueue, ticket: Ticket) {
        let process = &mut self.processes[index];
        let priority = process.priority.get();
        process.waiters = self
            .waiters
            .enter(queue, index, process.waiters, priority, ticket);
    }

    /// Sets the end of a process's wait. The end of time is no deadline.
    #[inline]
    pub(in crate::sched) fn set_deadline(&mut self, index: u32, deadline: Deadline) {
        if let Deadline::At(at) = deadline
            && at.as_nanos() != u64::MAX
        {
            self.deadlines.set(Owner::Process(index), at.as_nanos());
        }
    }

    /// Stops the current process; no process is current.
    #[inline]
    pub(in crate::sched) fn block(&mut self, me: u32, phase: Phase, deadline: Deadline) -> Attempt {
        self.set_deadline(me, deadline);
        self.processes[me].has_wake = false;
        self.leave_run_queue(me);
        self.set_phase(me, phase);
        self.clear_current();
        if self.processes[me].decay.has_sunk() {
            self.come_back(me);
        }
        Attempt::Blocked
    }

    /// Ends the wait of a process in the phase `Waiting` or `Sleeping`.
    pub(in crate::sched) fn wake_process(&mut self, index: u32, wake: Wake) {
        self.deadlines.cancel(Owner::Process(index));
        self.leave_queues(index);
        if self.processes[index].relock.is_some() {
            self.relock(index, wake);
        } else {
            self.finish_wait(index, wake);
        }
    }

    /// Makes a process runnable after its wait, with the result.
    #[inline]
    pub(in crate::sched) fn finish_wait(&mut self, index: u32, wake: Wake) {
        if self.wakes.is_noted() {
            self.note_wake(index, wake.reason);
        }
        let process = &mut self.processes[index];
        process.wake = wake;
        process.has_wake = true;
        self.counters.wakes += 1;
        if process.suspended {
            self.set_phase(index, Phase::Halted);
        } else {
            self.make_ready(index);
        }
    }

    /// Wakes the first process of a queue, with the case that it waits in. Returns it.
    #[inline]
    pub(in crate::sched) fn wake_first(&mut self, queue: WaitQueue, wake: Wake) -> Option<u32> {
        let node = self.waiters.node(self.waiters.first(queue)?);
        let (process, case) = (node.process, node.ticket.case);
        self.wake_process(process, Wake { case, ..wake });
        Some(process)
    }

    /// Wakes all processes of a queue, in order. Returns how many.
    pub(in crate::sched) fn wake_each(&mut self, queue: WaitQueue, wake: Wake) -> usize {
        let mut count = 0;
        while self.wake_first(queue, wake).is_some() {
            count += 1;
        }
        count
    }

    /// Wakes all processes of a queue with `Closed`, and frees the queue.
    pub(in crate::sched) fn close_queue(&mut self, queue: WaitQueue) {
        self.wake_each(queue, Wake::because(WakeReason::Closed));
        self.waiters.free_queue(queue);
    }

    /// Removes a process from every queue that it waits in.
    #[inline]
    pub(in crate::sched) fn leave_queues(&mut self, index: u32) {
        let mut node = std::mem::replace(&mut self.processes[index].waiters, NIL);
        while node != NIL {
            let (sibling, ticket) = self.waiters.leave(node);
            node = sibling;
            if ticket.kind.has_waiters_that_count() {
                self.a_waiter_has_left(ticket);
            }
        }
    }

    /// Updates what depends on the waiters of an object, after one has left.
    #[inline(never)]
    fn a_waiter_has_left(&mut self, ticket: Ticket) {
        match ticket.kind {
            Kind::Mutex => {
                if let Some(owner) = self.owner_of_mutex(ticket.object) {
                    self.inherit_less(owner);
                }
            }
            Kind::Read | Kind::Write => self.admit_to_rwlock(ticket.object),
            Kind::Barrier => self.leave_barrier(ticket.object),
            Kind::Descriptor => self.watching -= 1,
            Kind::Shared => self.waiting_for_shared -= 1,
            _ => {}
        }
    }
}
