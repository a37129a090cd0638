//! Plain wait queues, for the executor's and the guest's own objects.

use crate::sched::wait::waiters::{Kind, Ticket};
use crate::sched::{Attempt, Deadline, ProcessId, Scheduler, WaitQueueId, Wake, WakeReason};

impl<C> Scheduler<C> {
    /// Creates a wait queue.
    ///
    /// ```
    /// use baton_core::sched::{Attempt, Deadline, Scheduler, Next, SpawnOptions, WakeReason};
    ///
    /// let mut sched: Scheduler<()> = Scheduler::new(10);
    /// let waiter = sched.spawn(SpawnOptions::default(), ())?;
    /// let _ = sched.schedule();
    /// let queue = sched.wait_queue_new();
    /// assert_eq!(sched.wait(queue, Deadline::Never), Attempt::Blocked);
    /// assert_eq!(sched.wake_one(queue, WakeReason::Done, 42), Some(waiter));
    /// assert_eq!(sched.schedule(), Next::Other(waiter));
    /// assert_eq!(sched.take_wake(waiter).value, 42);
    /// # Ok::<(), baton_core::sched::ProcessLimit>(())
    /// ```
    pub fn wait_queue_new(&mut self) -> WaitQueueId {
        let queue = self.waiters.make_queue();
        WaitQueueId(self.queues.insert(queue))
    }

    /// Waits in a queue. The waker passes the reason and the value.
    pub fn wait(&mut self, id: WaitQueueId, deadline: Deadline) -> Attempt {
        let me = match self.may_wait() {
            Ok(me) => me,
            Err(answer) => return answer,
        };
        match self.queues.get(id.0).copied() {
            Some(queue) => self.wait_in(me, queue, Ticket::new(Kind::Queue, id.0.index), deadline),
            None => Attempt::because(WakeReason::Closed),
        }
    }

    /// Wakes the first waiter, and returns it.
    pub fn wake_one(
        &mut self,
        id: WaitQueueId,
        reason: WakeReason,
        value: u64,
    ) -> Option<ProcessId> {
        let queue = self.queues.get(id.0).copied()?;
        let woken = self.wake_first(
            queue,
            Wake {
                reason,
                case: 0,
                value,
            },
        )?;
        Some(self.processes.id(woken))
    }

    /// Wakes all waiters with the same value. Returns how many.
    pub fn wake_all(&mut self, id: WaitQueueId, reason: WakeReason, value: u64) -> usize {
        match self.queues.get(id.0).copied() {
            Some(queue) => self.wake_each(
                queue,
                Wake {
                    reason,
                    case: 0,
                    value,
                },
            ),
            None => 0,
        }
    }

    /// Wakes one process if it waits in this queue. Returns whether it did.
    pub fn wake_this(
        &mut self,
        id: WaitQueueId,
        pid: ProcessId,
        reason: WakeReason,
        value: u64,
    ) -> bool {
        let (Some(_), Some(index)) = (self.queues.get(id.0), self.processes.find_alive(pid)) else {
            return false;
        };
        let node = self.processes[index].waiters;
        if node == crate::sched::NIL {
            return false;
        }
        let ticket = self.waiters.node(node).ticket;
        if ticket.kind != Kind::Queue || ticket.object != id.0.index {
            return false;
        }
        self.wake_process(
            index,
            Wake {
                reason,
                case: 0,
                value,
            },
        );
        true
    }

    /// How many processes wait in a queue.
    pub fn wait_queue_len(&self, id: WaitQueueId) -> usize {
        self.queues
            .get(id.0)
            .map_or(0, |&queue| self.waiters.iter(queue).count())
    }

    /// Whether no process waits in a queue, or it was freed.
    pub fn wait_queue_is_empty(&self, id: WaitQueueId) -> bool {
        let queue = self.queues.get(id.0).copied();
        queue.is_none_or(|queue| self.waiters.is_empty(queue))
    }

    /// Frees a queue; its waiters get `Closed`. Returns whether it existed.
    pub fn wait_queue_free(&mut self, id: WaitQueueId) -> bool {
        let Some(queue) = self.queues.remove(id.0) else {
            return false;
        };
        self.close_queue(queue);
        true
    }
}
