//! Select: waiting for one of several cases.
//!
//! The process has a node in the queue of every case. The first completed case wakes the process,
//! which removes its other nodes at once. So no second case can be completed. While a process tries
//! its cases it is in no queue, so it never completes its own case.
//!
//! **No wake-up is lost.** A case that is not ready when it is tried can become ready only by an
//! operation of the scheduler. Each such operation checks the queue of its object. The scheduler
//! has one user at a time, so nothing happens between the attempt and the entry into the last
//! queue.

use crate::sched::process::Phase;
use crate::sched::slab::NIL;
use crate::sched::wait::waiters::{Kind, Ticket, WaitQueue};
use crate::sched::{
    Attempt, ChannelId, Deadline, Edition, EventId, MutexId, ProcessId, Scheduler, SemaphoreId,
    SharedWaitId, TimerId, Wake, WakeReason, Watch,
};

/// One case of a select. A freed object is a ready case, with `Closed`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Case {
    /// To receive a value.
    Receive(ChannelId),
    /// To send a value.
    Send(ChannelId, u64),
    /// The end of a process.
    Join(ProcessId),
    /// An event that is set.
    Event(EventId),
    /// One unit of a semaphore's count.
    Semaphore(SemaphoreId),
    /// A lock of a mutex; may be `Abandoned`.
    Mutex(MutexId),
    /// An alarm that has gone off.
    Alarm(TimerId),
    /// A descriptor that is not ready; see [`Scheduler::wait_ready`].
    Descriptor(Watch, Edition),
    /// A wait for an object that several VMs share.
    Shared(SharedWaitId),
    /// A case that the caller has found ready, with this reason and value.
    Ready(WakeReason, u64),
}

impl<C> Scheduler<C> {
    /// Completes exactly one of the cases, and returns its index in `Wake::case`. `random` chooses
    /// among the cases that are ready; if none is, the first one to become ready counts.
    ///
    /// - A case of a closed channel is ready, with `Closed`.
    /// - Without any case it only waits for its deadline.
    /// - A process that waits for a mutex lends its priority to the owner.
    /// - The result is `Dead` for an impossible case: the process holds one of the mutexes, or
    ///   joins itself.
    ///
    /// ```
    /// use baton_core::sched::{Attempt, Case, Deadline, Scheduler, SpawnOptions};
    ///
    /// let mut sched: Scheduler<()> = Scheduler::new(10);
    /// sched.spawn(SpawnOptions::default(), ())?;
    /// let _ = sched.schedule();
    /// let (empty, semaphore) = (sched.channel_new(1), sched.semaphore_new(1));
    /// let cases = [Case::Receive(empty), Case::Semaphore(semaphore)];
    /// let Attempt::Ready(wake) = sched.select(&cases, Deadline::Never, 42) else {
    ///     panic!("one is ready")
    /// };
    /// assert_eq!((wake.case, sched.semaphore_count(semaphore)), (1, 0));
    /// # Ok::<(), baton_core::sched::ProcessLimit>(())
    /// ```
    pub fn select(&mut self, cases: &[Case], deadline: Deadline, random: u64) -> Attempt {
        let me = match self.may_wait() {
            Ok(me) => me,
            Err(answer) => return answer,
        };
        if let Some(number) = cases.iter().position(|case| self.is_hopeless(me, case)) {
            let wake = Wake::because(WakeReason::Dead);
            let case = number as u32;
            return Attempt::Ready(Wake { case, ..wake });
        }
        let ready = cases.iter().filter(|case| self.is_ready(case)).count();
        if ready > 0 {
            let nth_ready = (random % ready as u64) as usize;
            return Attempt::Ready(self.complete(me, cases, nth_ready));
        }
        if let Some(refusal) = self.refusal_to_block(me, deadline) {
            return refusal;
        }
        for (number, case) in cases.iter().enumerate() {
            self.enter_case(me, case, number as u32);
        }
        let attempt = self.block(me, Phase::Waiting, deadline);
        for case in cases {
            if let Case::Mutex(mutex) = case
                && let Some(owner) = self.owner_of_mutex(mutex.0.index)
            {
                self.inherit_from(owner, me);
            }
        }
        attempt
    }

    fn is_hopeless(&self, me: u32, case: &Case) -> bool {
        match *case {
            Case::Join(process) => process == self.processes.id(me),
            Case::Mutex(mutex) => self
                .mutexes
                .get(mutex.0)
                .is_some_and(|mutex| mutex.owner == me),
            _ => false,
        }
    }

    fn is_ready(&self, case: &Case) -> bool {
        match *case {
            Case::Receive(channel) => self.can_receive(channel),
            Case::Send(channel, _) => self.can_send(channel),
            Case::Join(process) => self.processes.find_alive(process).is_none(),
            Case::Event(event) => self.events.get(event.0).is_none_or(|event| event.is_set),
            Case::Semaphore(semaphore) => self
                .semaphores
                .get(semaphore.0)
                .is_none_or(|found| found.count > 0),
            Case::Mutex(mutex) => self
                .mutexes
                .get(mutex.0)
                .is_none_or(|mutex| mutex.owner == NIL),
            Case::Alarm(timer) => self.alarm(timer).is_none_or(|alarm| alarm.has_gone_off),
            Case::Shared(wait) => self.shared_wait_is_over(wait),
            Case::Descriptor(..) => false,
            Case::Ready(..) => true,
        }
    }

    /// Completes the case with index `nth_ready` among the ready ones.
    fn complete(&mut self, me: u32, cases: &[Case], nth_ready: usize) -> Wake {
        let is_ready = |(_, case): &(usize, &Case)| self.is_ready(case);
        let Some((number, case)) = cases.iter().enumerate().filter(is_ready).nth(nth_ready) else {
            return Wake::because(WakeReason::TimedOut);
        };
        Wake {
            case: number as u32,
            ..self.complete_ready(me, case)
        }
    }

    fn complete_ready(&mut self, me: u32, case: &Case) -> Wake {
        let is_there = match *case {
            Case::Receive(channel) => {
                self.note_receiver(channel, me);
                let received = self.try_receive(channel);
                return received.unwrap_or(Wake::because(WakeReason::TimedOut));
            }
            Case::Send(channel, value) => {
                self.note_sender(channel, me);
                let sent = self.try_send(channel, value);
                return sent.unwrap_or(Wake::because(WakeReason::TimedOut));
            }
            Case::Mutex(mutex) if self.mutexes.get(mutex.0).is_some() => {
                return Wake::because(self.own_mutex(mutex.0.index, me));
            }
            Case::Ready(reason, value) => {
                return Wake {
                    reason,
                    case: 0,
                    value,
                };
            }
            Case::Semaphore(semaphore) => self
                .semaphores
                .get_mut(semaphore.0)
                .map(|found| found.count -= 1)
                .is_some(),
            Case::Event(event) => self.events.get(event.0).is_some(),
            Case::Alarm(timer) => self.alarm(timer).is_some(),
            Case::Join(_) | Case::Shared(_) => true,
            Case::Mutex(_) | Case::Descriptor(..) => false,
        };
        Wake::because(if is_there {
            WakeReason::Done
        } else {
            WakeReason::Closed
        })
    }

    fn enter_case(&mut self, me: u32, case: &Case, number: u32) {
        if let Case::Descriptor(watch, edition) = *case {
            return self.enter_watch(me, watch, edition, number);
        }
        if let Case::Shared(wait) = *case {
            return self.enter_shared_wait(me, wait, number);
        }
        match *case {
            Case::Receive(channel) => self.note_receiver(channel, me),
            Case::Send(channel, _) => self.note_sender(channel, me),
            _ => {}
        }
        let Some((queue, ticket)) = self.queue_of_case(case) else {
            return;
        };
        let case = number;
        self.enter_queue(me, queue, Ticket { case, ..ticket });
    }

    /// The queue and the ticket with which a process waits for a case.
    fn queue_of_case(&mut self, case: &Case) -> Option<(WaitQueue, Ticket)> {
        match *case {
            Case::Receive(id) => {
                let queue = self.channels.get(id.0)?.receivers;
                Some((queue, Ticket::new(Kind::Receive, id.0.index)))
            }
            Case::Send(id, value) => {
                let ticket = Ticket::new(Kind::Send, id.0.index);
                let queue = self.channels.get(id.0)?.senders;
                Some((queue, Ticket { value, ..ticket }))
            }
            Case::Join(process) => {
                let index = self.processes.find_alive(process)?;
                Some((self.joiners_of(index), Ticket::new(Kind::Join, index)))
            }
            Case::Event(id) => {
                let queue = self.events.get(id.0)?.waiters;
                Some((queue, Ticket::new(Kind::Event, id.0.index)))
            }
            Case::Semaphore(id) => {
                let queue = self.semaphores.get(id.0)?.waiters;
                Some((queue, Ticket::new(Kind::Semaphore, id.0.index)))
            }
            Case::Mutex(id) => {
                let queue = self.mutexes.get(id.0)?.waiters;
                Some((queue, Ticket::new(Kind::Mutex, id.0.index)))
            }
            Case::Alarm(id) => {
                let queue = self.alarm(id)?.waiters;
                Some((queue, Ticket::new(Kind::Alarm, id.0.index)))
            }
            Case::Descriptor(..) | Case::Shared(_) | Case::Ready(..) => None,
        }
    }
}
