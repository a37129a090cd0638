//! Channels between VMs: bounded queues of messages, by their number and by their bytes.
//!
//! A message that is larger than the limit of bytes is let in when the channel is empty: it alone
//! exceeds the limit. Otherwise it could never be sent.
//!
//! Messages are received in the order in which they were sent, and waits end in their order, by
//! receivers and by senders apart.

use super::tickets::{Sleep, TicketId, TicketWas, Tickets, Wakes};
use baton_sys::shared_mutex::{MutexGuard, Shared, SharedMutex};
use std::collections::VecDeque;
use std::sync::Arc;

/// What a channel carries.
pub trait Message: Send + 'static {
    /// Its size in bytes.
    fn size(&self) -> u64;
}

/// The limits of a channel.
#[derive(Clone, Copy, Debug)]
struct Limits {
    count: usize,
    bytes: u64,
}

struct Contents<M, S> {
    limits: Limits,
    messages: VecDeque<M>,
    /// The bytes of the messages.
    bytes: u64,
    is_closed: bool,
    receivers: Tickets<S>,
    senders: Tickets<S>,
}

/// The result of an attempt to send.
#[must_use]
#[derive(Debug)]
pub enum Sent<M, S> {
    /// The channel has the message.
    Done(Wakes<S>),
    /// There is no room.
    Full(M),
    /// The channel is closed.
    Closed(M),
}

/// The result of an attempt to receive.
#[must_use]
#[derive(Debug)]
pub enum Received<M, S> {
    /// A message.
    Done(M, Wakes<S>),
    /// There is none, or those that there are belong to processes that came before.
    Empty,
    /// There is none, and there will be none.
    Closed,
}

/// A ticket has been entered.
#[must_use]
#[derive(Clone, Copy, Debug)]
pub enum Entered {
    /// The process has to wait.
    Waits(TicketId),
    /// It is called already.
    IsCalled(TicketId),
}

impl Entered {
    /// The ticket.
    pub fn ticket(self) -> TicketId {
        match self {
            Entered::Waits(ticket) | Entered::IsCalled(ticket) => ticket,
        }
    }
}

impl<M: Message, S: Sleep> Contents<M, S> {
    /// Whether there is room for a message beside those of the called senders.
    fn has_room(&self, senders: &Tickets<S>, size: u64) -> bool {
        let count = self.messages.len() + senders.called();
        let bytes = self.bytes.saturating_add(senders.called_size());
        count == 0 || count < self.limits.count && size <= self.limits.bytes.saturating_sub(bytes)
    }

    /// Whether a sender that comes now may send.
    fn admits_sender(&self, size: u64) -> bool {
        !self.senders.has_waiting() && self.has_room(&self.senders, size)
    }

    /// Whether a receiver that comes now may receive. Of a closed channel it takes what is
    /// reserved, too: then no message is left over if a called process goes without it.
    fn admits_receiver(&self) -> bool {
        let reserved = match self.is_closed {
            true => 0,
            false => self.receivers.called(),
        };
        self.messages.len() > reserved
    }

    fn put(&mut self, message: M) {
        self.bytes += message.size();
        self.messages.push_back(message);
    }

    fn take(&mut self) -> Option<M> {
        let message = self.messages.pop_front()?;
        self.bytes -= message.size();
        Some(message)
    }

    /// Calls the tickets that can go on. All of them, if the channel is closed.
    fn settle(&mut self) -> Wakes<S> {
        let mut wakes = Wakes::default();
        self.settle_receivers(&mut wakes);
        self.settle_senders(&mut wakes);
        wakes
    }

    fn settle_receivers(&mut self, wakes: &mut Wakes<S>) {
        if !self.receivers.has_waiting() {
            return;
        }
        self.receivers.drop_gone();
        let (is_closed, there_are) = (self.is_closed, self.messages.len());
        while let Some(called) = self
            .receivers
            .call_next(|tickets, _| is_closed || tickets.called() < there_are)
        {
            wakes.add(called);
        }
    }

    fn settle_senders(&mut self, wakes: &mut Wakes<S>) {
        if !self.senders.has_waiting() {
            return;
        }
        self.senders.drop_gone();
        let mut senders = std::mem::take(&mut self.senders);
        while let Some(called) =
            senders.call_next(|tickets, size| self.is_closed || self.has_room(tickets, size))
        {
            wakes.add(called);
        }
        self.senders = senders;
    }
}

/// The messages of a channel that nobody else uses meanwhile.
pub struct HeldMessages<'c, M, S>(MutexGuard<'c, Contents<M, S>>);

impl<M, S> std::fmt::Debug for HeldMessages<'_, M, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HeldMessages").finish_non_exhaustive()
    }
}

impl<M: Message, S> HeldMessages<'_, M, S> {
    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &M> {
        self.0.messages.iter()
    }

    /// Takes all of them out.
    pub fn take_all(&mut self) -> impl Iterator<Item = M> + use<M, S> {
        self.0.bytes = 0;
        std::mem::take(&mut self.0.messages).into_iter()
    }
}

impl<M: Message, S: Sleep> Shared for Contents<M, S> {
    fn in_child(&mut self) {
        self.receivers.clear();
        self.senders.clear();
    }
}

/// A channel that several VMs share.
pub struct SharedChannel<M, S> {
    state: Arc<SharedMutex<Contents<M, S>>>,
    name: Box<str>,
}

impl<M, S> std::fmt::Debug for SharedChannel<M, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SharedChannel")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl<M: Message, S: Sleep> SharedChannel<M, S> {
    /// An empty channel for at most `count` messages, of at most `bytes` bytes together. The name,
    /// which may be empty, is for reports.
    ///
    /// # Panics
    /// If `count` is 0.
    pub fn new(count: usize, bytes: u64, name: &str) -> SharedChannel<M, S> {
        assert!(count > 0, "a channel between VMs has room for a message");
        let limits = Limits { count, bytes };
        SharedChannel {
            state: SharedMutex::new(Contents {
                limits,
                messages: VecDeque::new(),
                bytes: 0,
                is_closed: false,
                receivers: Tickets::default(),
                senders: Tickets::default(),
            }),
            name: name.into(),
        }
    }

    /// Its name, or nothing.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How many messages are in it.
    pub fn len(&self) -> usize {
        self.state.lock().messages.len()
    }

    /// Whether no message is in it.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Sends without waiting.
    pub fn try_send(&self, message: M) -> Sent<M, S> {
        let mut state = self.state.lock();
        if state.is_closed {
            return Sent::Closed(message);
        }
        if !state.admits_sender(message.size()) {
            return Sent::Full(message);
        }
        state.put(message);
        Sent::Done(state.settle())
    }

    /// Receives without waiting.
    pub fn try_receive(&self) -> Received<M, S> {
        let mut state = self.state.lock();
        if !state.admits_receiver() {
            return match state.is_closed {
                true => Received::Closed,
                false => Received::Empty,
            };
        }
        match state.take() {
            Some(message) => Received::Done(message, state.settle()),
            None => Received::Empty,
        }
    }

    /// Enters a ticket of a process that wants to send a message of this size. It waits for its
    /// call, and then leaves the ticket by [`SharedChannel::send_called`] or
    /// [`SharedChannel::leave_sender`].
    pub fn enter_sender(&self, size: u64, sleeper: S) -> Entered {
        let mut state = self.state.lock();
        state.senders.drop_gone();
        if !state.senders.has_waiting() && (state.is_closed || state.admits_sender(size)) {
            Entered::IsCalled(state.senders.enter_called(size, sleeper))
        } else {
            Entered::Waits(state.senders.enter(size, sleeper))
        }
    }

    /// Enters a ticket of a process that wants to receive. It waits for its call, and then leaves
    /// the ticket by [`SharedChannel::receive_called`] or [`SharedChannel::leave_receiver`].
    pub fn enter_receiver(&self, sleeper: S) -> Entered {
        let mut state = self.state.lock();
        state.receivers.drop_gone();
        let may_go_on = state.is_closed || state.admits_receiver();
        if !state.receivers.has_waiting() && may_go_on {
            Entered::IsCalled(state.receivers.enter_called(0, sleeper))
        } else {
            Entered::Waits(state.receivers.enter(0, sleeper))
        }
    }

    /// Sends by a ticket that was called.
    pub fn send_called(&self, ticket: TicketId, message: M) -> Sent<M, S> {
        let mut state = self.state.lock();
        let left = state.senders.leave(ticket);
        if state.is_closed {
            return Sent::Closed(message);
        }
        if left != TicketWas::Called {
            return Sent::Full(message);
        }
        state.put(message);
        Sent::Done(state.settle())
    }

    /// Receives by a ticket that was called.
    pub fn receive_called(&self, ticket: TicketId) -> Received<M, S> {
        let mut state = self.state.lock();
        let left = state.receivers.leave(ticket);
        let message = match left {
            TicketWas::Called => state.take(),
            TicketWas::Waiting | TicketWas::Gone => None,
        };
        match message {
            Some(message) => Received::Done(message, state.settle()),
            None if state.is_closed => Received::Closed,
            None => Received::Empty,
        }
    }

    /// Leaves the ticket of a process that does not send. A call goes to the next one.
    pub fn leave_sender(&self, ticket: TicketId) -> Wakes<S> {
        let mut state = self.state.lock();
        // A ticket that waited may have held up smaller ones behind it.
        let _ = state.senders.leave(ticket);
        state.settle()
    }

    /// Leaves the ticket of a process that does not receive. A call goes to the next one.
    pub fn leave_receiver(&self, ticket: TicketId) -> Wakes<S> {
        let mut state = self.state.lock();
        match state.receivers.leave(ticket) {
            TicketWas::Called => state.settle(),
            TicketWas::Waiting | TicketWas::Gone => Wakes::default(),
        }
    }

    /// Gives back a message that was received last and has not been used. It is the next one again.
    pub fn give_back(&self, message: M) -> Wakes<S> {
        let mut state = self.state.lock();
        state.bytes += message.size();
        state.messages.push_front(message);
        state.settle()
    }

    /// Calls the tickets behind those of VMs that have ended.
    pub fn pass_on(&self) -> Wakes<S> {
        self.state.lock().settle()
    }

    /// The messages, unless another thread uses the channel. Nobody else uses it meanwhile.
    pub fn try_hold(&self) -> Option<HeldMessages<'_, M, S>> {
        self.state.try_lock().map(HeldMessages)
    }

    /// Closes the channel: nothing is sent any more, and who waits is woken. What is in it can
    /// still be received.
    pub fn close(&self) -> Wakes<S> {
        let mut state = self.state.lock();
        state.is_closed = true;
        state.settle()
    }
}
