//! Channels: values from process to process, in order.
//!
//! A channel has a buffer, which may have no room at all. Receivers wait only while the buffer is
//! empty and no sender waits; senders wait only while the buffer is full and no receiver waits. So
//! a value is in exactly one place: it goes to a receiver, into the buffer, or stays with its
//! waiting sender.

use std::collections::VecDeque;
use std::fmt;

use crate::sched::wait::waiters::{Kind, Ticket, WaitQueue};
use crate::sched::{
    Attempt, ChannelId, Deadline, FirstLook, FirstWaiter, ProcessId, Scheduler, WaitPlace, Wake,
    WakeReason,
};

#[derive(Debug)]
pub(in crate::sched) struct Channel {
    pub(in crate::sched) buffer: VecDeque<u64>,
    pub(in crate::sched) capacity: usize,
    pub(in crate::sched) is_closed: bool,
    /// Values come from outside of the program, so a waiting receiver is no sign of a deadlock.
    is_fed: bool,
    pub(in crate::sched) receivers: WaitQueue,
    pub(in crate::sched) senders: WaitQueue,
    pub(in crate::sched) last_use: LastUse,
}

/// Who used a channel last: a note for reports. It changes no decision, so its text is always the
/// same: schedulers that differ in nothing else are alike.
#[derive(Clone, Copy, Default)]
pub(in crate::sched) struct LastUse {
    /// Who began to send last: a process notes itself, so that a note costs little.
    pub(in crate::sched) sender: Option<ProcessId>,
    /// Who began to receive last.
    pub(in crate::sched) receiver: Option<ProcessId>,
}

impl fmt::Debug for LastUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LastUse")
    }
}

impl<C> Scheduler<C> {
    /// Creates a channel that buffers `capacity` values. With 0, each sender waits for its
    /// receiver. The buffer grows as it fills.
    ///
    /// ```
    /// use baton_core::sched::{Attempt, Deadline, Scheduler, SpawnOptions, WakeReason};
    ///
    /// let mut sched: Scheduler<()> = Scheduler::new(10);
    /// sched.spawn(SpawnOptions::default(), ())?;
    /// let _ = sched.schedule();
    /// let channel = sched.channel_new(1);
    /// assert!(matches!(sched.channel_send(channel, 7, Deadline::Never), Attempt::Ready(_)));
    /// assert!(sched.channel_close(channel));
    /// for wanted in [(WakeReason::Done, 7), (WakeReason::Closed, 0)] {
    ///     let Attempt::Ready(wake) = sched.channel_receive(channel, Deadline::Never) else {
    ///         panic!("it is closed")
    ///     };
    ///     assert_eq!((wake.reason, wake.value), wanted);
    /// }
    /// # Ok::<(), baton_core::sched::ProcessLimit>(())
    /// ```
    pub fn channel_new(&mut self, capacity: usize) -> ChannelId {
        let receivers = self.waiters.make_queue();
        let senders = self.waiters.make_queue();
        let buffer = VecDeque::new();
        let channel = Channel {
            buffer,
            capacity,
            is_closed: false,
            is_fed: false,
            receivers,
            senders,
            last_use: LastUse::default(),
        };
        ChannelId(self.channels.insert(channel))
    }

    /// Whether one more value fits into the buffer. It grows if necessary; `false` if it cannot.
    #[must_use]
    pub fn channel_make_room(&mut self, id: ChannelId) -> bool {
        let channel = self.channels.get_mut(id.0);
        channel.is_none_or(|channel| channel.buffer.try_reserve(1).is_ok())
    }

    /// Begins a send of the current process: puts the value into the buffer, if there is room; or
    /// finds the receiver, or the place to wait at.
    #[inline]
    pub(crate) fn channel_begin_send(&mut self, id: ChannelId, value: u64) -> FirstLook {
        if !self.current_may_wait() {
            return FirstLook::Unclear;
        }
        let Some(channel) = self
            .channels
            .get_mut(id.0)
            .filter(|channel| !channel.is_closed)
        else {
            return FirstLook::Unclear;
        };
        channel.last_use.sender = Some(self.processes.id(self.current));
        if let Some(first) = self.waiters.first(channel.receivers) {
            return FirstLook::Wakes(FirstWaiter(first));
        }
        if channel.buffer.len() < channel.capacity {
            channel.buffer.push_back(value);
            return FirstLook::Done(0);
        }
        FirstLook::Waits(WaitPlace::new(channel.senders, Kind::Send, id.0.index))
    }

    /// Begins a receive of the current process: takes the first value of the buffer, if no sender
    /// waits; or finds the sender, or the place to wait at.
    #[inline]
    pub(crate) fn channel_begin_receive(&mut self, id: ChannelId) -> FirstLook {
        if !self.current_may_wait() {
            return FirstLook::Unclear;
        }
        let Some(channel) = self.channels.get_mut(id.0) else {
            return FirstLook::Unclear;
        };
        channel.last_use.receiver = Some(self.processes.id(self.current));
        if let Some(first) = self.waiters.first(channel.senders) {
            if !channel.buffer.is_empty() {
                return FirstLook::Unclear;
            }
            return FirstLook::Wakes(FirstWaiter(first));
        }
        if let Some(value) = channel.buffer.pop_front() {
            return FirstLook::Done(value);
        }
        if channel.is_closed {
            return FirstLook::Unclear;
        }
        FirstLook::Waits(WaitPlace::new(channel.receivers, Kind::Receive, id.0.index))
    }

    /// Sends a value: `Done` once it is in the buffer or received. Otherwise the value was not
    /// sent.
    #[inline]
    pub fn channel_send(&mut self, id: ChannelId, value: u64, deadline: Deadline) -> Attempt {
        let me = match self.may_wait() {
            Ok(me) => me,
            Err(answer) => return answer,
        };
        self.note_sender(id, me);
        if let Some(wake) = self.try_send(id, value) {
            return Attempt::Ready(wake);
        }
        let ticket = Ticket {
            kind: Kind::Send,
            object: id.0.index,
            case: 0,
            value,
        };
        match self.channels.get(id.0).map(|channel| channel.senders) {
            Some(senders) => self.wait_in(me, senders, ticket, deadline),
            None => Attempt::because(WakeReason::Closed),
        }
    }

    /// Receives a value: `Done`, with the value. After a close it still returns the buffered
    /// values, then `Closed`.
    #[inline]
    pub fn channel_receive(&mut self, id: ChannelId, deadline: Deadline) -> Attempt {
        let me = match self.may_wait() {
            Ok(me) => me,
            Err(answer) => return answer,
        };
        self.note_receiver(id, me);
        if let Some(wake) = self.try_receive(id) {
            return Attempt::Ready(wake);
        }
        let ticket = Ticket::new(Kind::Receive, id.0.index);
        match self.channels.get(id.0).map(|channel| channel.receivers) {
            Some(receivers) => self.wait_in(me, receivers, ticket, deadline),
            None => Attempt::because(WakeReason::Closed),
        }
    }

    /// Closes a channel: nothing can be sent any more, and all waiting processes get `Closed`.
    /// Returns whether it was open.
    pub fn channel_close(&mut self, id: ChannelId) -> bool {
        let Some(channel) = self.channels.get_mut(id.0) else {
            return false;
        };
        let was_open = !std::mem::replace(&mut channel.is_closed, true);
        let (receivers, senders) = (channel.receivers, channel.senders);
        self.tell_closed(receivers);
        self.tell_closed(senders);
        was_open
    }

    /// Puts a value into a channel without waiting: to a waiting receiver, else into the buffer,
    /// even beyond its capacity. Returns whether the channel took it; a closed one does not.
    /// Senders wait until the buffer is within its capacity again.
    pub fn channel_post(&mut self, id: ChannelId, value: u64) -> bool {
        let Some(channel) = self
            .channels
            .get_mut(id.0)
            .filter(|channel| !channel.is_closed)
        else {
            return false;
        };
        if self.waiters.is_empty(channel.receivers) {
            channel.buffer.push_back(value);
            return true;
        }
        let _ = self.try_send(id, value);
        true
    }

    /// Gives back a value that was received last. It goes to a waiting receiver, or it is the next
    /// one again, even beyond the capacity and in a closed channel.
    pub fn channel_give_back(&mut self, id: ChannelId, value: u64) {
        let Some(channel) = self.channels.get_mut(id.0) else {
            return;
        };
        if self.waiters.is_empty(channel.receivers) {
            channel.buffer.push_front(value);
        } else {
            // Only an open channel has receivers that wait.
            let _ = self.try_send(id, value);
        }
    }

    /// As [`Scheduler::channel_post`], unless an equal value is in the buffer already.
    pub fn channel_post_once(&mut self, id: ChannelId, value: u64) -> bool {
        let is_there = self
            .channels
            .get(id.0)
            .is_some_and(|channel| channel.buffer.contains(&value));
        !is_there && self.channel_post(id, value)
    }

    /// Sets whether values are posted to the channel from outside of the program. While a process
    /// waits to receive from such a channel, [`Scheduler::all_blocked`] is false.
    pub fn channel_set_fed(&mut self, id: ChannelId, is_fed: bool) {
        let Some(channel) = self.channels.get_mut(id.0) else {
            return;
        };
        if channel.is_fed != is_fed {
            channel.is_fed = is_fed;
            self.fed_channels.retain(|other| *other != id);
            if is_fed {
                self.fed_channels.push(id);
            }
        }
    }

    /// Whether a process waits for a value from outside.
    pub(in crate::sched) fn waits_for_outside(&self) -> bool {
        self.fed_channels.iter().any(|id| {
            let channel = self.channels.get(id.0);
            channel.is_some_and(|channel| !self.waiters.is_empty(channel.receivers))
        })
    }

    /// Drops the buffered values.
    pub fn channel_clear(&mut self, id: ChannelId) {
        if let Some(channel) = self.channels.get_mut(id.0) {
            channel.buffer.clear();
        }
    }

    /// How many values are in the buffer.
    pub fn channel_len(&self, id: ChannelId) -> usize {
        self.channels
            .get(id.0)
            .map_or(0, |channel| channel.buffer.len())
    }

    /// Whether a channel is closed; `true` for a freed one.
    pub fn channel_is_closed(&self, id: ChannelId) -> bool {
        self.channels
            .get(id.0)
            .is_none_or(|channel| channel.is_closed)
    }

    /// Closes and frees a channel. Returns the values that were not received.
    pub fn channel_free(&mut self, id: ChannelId) -> Vec<u64> {
        self.channel_close(id);
        self.channel_set_fed(id, false);
        let Some(channel) = self.channels.remove(id.0) else {
            return Vec::new();
        };
        self.waiters.free_queue(channel.receivers);
        self.waiters.free_queue(channel.senders);
        channel.buffer.into()
    }

    /// Sends a value without waiting: `None` if it would have to wait.
    #[inline]
    pub(super) fn try_send(&mut self, id: ChannelId, value: u64) -> Option<Wake> {
        let Some(channel) = self
            .channels
            .get_mut(id.0)
            .filter(|channel| !channel.is_closed)
        else {
            return Some(Wake::because(WakeReason::Closed));
        };
        let receivers = channel.receivers;
        if let Some(first) = self.waiters.first(receivers) {
            let node = self.waiters.node(first);
            let wake = Wake {
                reason: WakeReason::Done,
                case: node.ticket.case,
                value,
            };
            let receiver = node.process;
            self.wake_process(receiver, wake);
            return Some(Wake::because(WakeReason::Done));
        }
        if channel.buffer.len() < channel.capacity {
            channel.buffer.push_back(value);
            return Some(Wake::because(WakeReason::Done));
        }
        None
    }

    /// Receives a value without waiting: `None` if it would have to wait.
    #[inline]
    pub(super) fn try_receive(&mut self, id: ChannelId) -> Option<Wake> {
        let Some(channel) = self.channels.get_mut(id.0) else {
            return Some(Wake::because(WakeReason::Closed));
        };
        let is_closed = channel.is_closed;
        let buffered = channel.buffer.pop_front();
        // Posts can exceed the capacity.
        let is_overfull = buffered.is_some() && channel.buffer.len() >= channel.capacity;
        let first_sender = self.waiters.first(channel.senders).filter(|_| !is_overfull);
        let sent = first_sender.map(|first| {
            let node = self.waiters.node(first);
            (node.process, node.ticket)
        });
        let value = match (buffered, sent) {
            (Some(value), Some((_, ticket))) => {
                channel.buffer.push_back(ticket.value);
                value
            }
            (Some(value), None) => value,
            (None, Some((_, ticket))) => ticket.value,
            (None, None) => return is_closed.then(|| Wake::because(WakeReason::Closed)),
        };
        if let Some((sender, ticket)) = sent {
            let wake = Wake {
                reason: WakeReason::Done,
                case: ticket.case,
                value: 0,
            };
            self.wake_process(sender, wake);
        }
        Some(Wake {
            reason: WakeReason::Done,
            case: 0,
            value,
        })
    }

    /// Notes that a process begins to send, unless the channel is closed.
    pub(super) fn note_sender(&mut self, id: ChannelId, process: u32) {
        let process = self.processes.id(process);
        let channel = self.channels.get_mut(id.0);
        if let Some(channel) = channel.filter(|channel| !channel.is_closed) {
            channel.last_use.sender = Some(process);
        }
    }

    /// Notes that a process begins to receive.
    pub(super) fn note_receiver(&mut self, id: ChannelId, process: u32) {
        let process = self.processes.id(process);
        if let Some(channel) = self.channels.get_mut(id.0) {
            channel.last_use.receiver = Some(process);
        }
    }

    /// Whether [`Scheduler::try_send`] would return a result.
    pub(super) fn can_send(&self, id: ChannelId) -> bool {
        self.channels.get(id.0).is_none_or(|channel| {
            channel.is_closed
                || channel.buffer.len() < channel.capacity
                || !self.waiters.is_empty(channel.receivers)
        })
    }

    /// Whether [`Scheduler::try_receive`] would return a result.
    pub(super) fn can_receive(&self, id: ChannelId) -> bool {
        self.channels.get(id.0).is_none_or(|channel| {
            channel.is_closed
                || !channel.buffer.is_empty()
                || !self.waiters.is_empty(channel.senders)
        })
    }

    fn tell_closed(&mut self, queue: WaitQueue) {
        self.wake_each(queue, Wake::because(WakeReason::Closed));
    }
}
