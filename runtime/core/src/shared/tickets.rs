//! The queue of processes, of any VM, that wait for one object. The module's page has the states of
//! a ticket.

use std::collections::VecDeque;

/// How a process is woken that has a ticket.
pub trait Sleep: Clone + Send + 'static {
    /// Whether the process can never run again, as its VM has ended.
    fn is_gone(&self) -> bool;
}

/// The number of a ticket, in its queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TicketId(u64);

/// The processes to wake, with their tickets. It is used after the object's mutex was released.
#[must_use = "nobody wakes them otherwise"]
#[derive(Debug)]
pub struct Wakes<S>(Vec<(TicketId, S)>);

impl<S> Default for Wakes<S> {
    fn default() -> Self {
        Wakes(Vec::new())
    }
}

impl<S> Wakes<S> {
    pub(crate) fn add(&mut self, called: (TicketId, S)) {
        self.0.push(called);
    }

    /// How many are to be woken.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether nobody is to be woken.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<S> IntoIterator for Wakes<S> {
    type Item = (TicketId, S);
    type IntoIter = std::vec::IntoIter<(TicketId, S)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

/// What a ticket was when its process left it.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TicketWas {
    /// It waited.
    Waiting,
    /// It was called: something is reserved for it, which is now free.
    Called,
    /// It was not there any more.
    Gone,
}

#[derive(Debug)]
struct HeldTicket<S> {
    id: TicketId,
    /// The bytes that it needs.
    size: u64,
    sleeper: S,
}

/// A queue of tickets, in the order of their numbers.
#[derive(Debug)]
pub struct Tickets<S> {
    /// The called ones, then those that wait.
    queue: VecDeque<HeldTicket<S>>,
    /// How many are called.
    called: usize,
    /// The bytes that those need.
    called_size: u64,
    next: u64,
}

impl<S> Default for Tickets<S> {
    fn default() -> Self {
        Tickets {
            queue: VecDeque::new(),
            called: 0,
            called_size: 0,
            next: 0,
        }
    }
}

impl<S: Sleep> Tickets<S> {
    /// No tickets. The next one has a higher number than this.
    pub fn numbered_after(last: u64) -> Self {
        Tickets {
            next: last,
            ..Tickets::default()
        }
    }

    /// The number of the ticket that was made last.
    pub fn last_number(&self) -> u64 {
        self.next
    }

    /// How many tickets are called.
    pub fn called(&self) -> usize {
        self.called
    }

    /// The bytes that the called tickets need.
    pub fn called_size(&self) -> u64 {
        self.called_size
    }

    /// Whether a ticket waits.
    pub fn has_waiting(&self) -> bool {
        self.queue.len() > self.called
    }

    /// Whether there is no ticket.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Adds a ticket that waits.
    pub fn enter(&mut self, size: u64, sleeper: S) -> TicketId {
        self.next += 1;
        let id = TicketId(self.next);
        self.queue.push_back(HeldTicket { id, size, sleeper });
        id
    }

    /// Adds a ticket that is called at once. None must wait.
    pub fn enter_called(&mut self, size: u64, sleeper: S) -> TicketId {
        debug_assert!(!self.has_waiting(), "the others were first");
        let id = self.enter(size, sleeper);
        self.called += 1;
        self.called_size += size;
        id
    }

    /// Calls the first ticket that waits, if `fits` agrees with its size. Tickets of VMs that have
    /// ended are removed.
    pub fn call_next(&mut self, fits: impl Fn(&Self, u64) -> bool) -> Option<(TicketId, S)> {
        loop {
            let ticket = self.queue.get(self.called)?;
            if ticket.sleeper.is_gone() {
                self.queue.remove(self.called);
                continue;
            }
            let (id, size) = (ticket.id, ticket.size);
            let sleeper = ticket.sleeper.clone();
            if !fits(self, size) {
                return None;
            }
            self.called += 1;
            self.called_size += size;
            return Some((id, sleeper));
        }
    }

    /// Removes the first ticket, for a wake-up that leaves nothing to take.
    pub fn take_first(&mut self) -> Option<(TicketId, S)> {
        loop {
            let ticket = self.queue.pop_front()?;
            if !ticket.sleeper.is_gone() {
                return Some((ticket.id, ticket.sleeper));
            }
        }
    }

    /// Removes a ticket. Afterwards the object settles.
    pub fn leave(&mut self, id: TicketId) -> TicketWas {
        let Ok(place) = self.queue.binary_search_by_key(&id.0, |ticket| ticket.id.0) else {
            return TicketWas::Gone;
        };
        let was_called = place < self.called;
        if let Some(ticket) = self.queue.remove(place)
            && was_called
        {
            self.called -= 1;
            self.called_size -= ticket.size;
        }
        if was_called {
            TicketWas::Called
        } else {
            TicketWas::Waiting
        }
    }

    /// Removes the called tickets of VMs that have ended: what is reserved for them is free.
    pub fn drop_gone(&mut self) {
        let is_gone = |ticket: &HeldTicket<S>| ticket.sleeper.is_gone();
        while let Some(place) = self.queue.iter().take(self.called).position(is_gone) {
            let id = self.queue[place].id;
            let _ = self.leave(id);
        }
    }

    /// Removes all tickets.
    pub fn clear(&mut self) {
        self.queue.clear();
        (self.called, self.called_size) = (0, 0);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{Sleep, TicketWas, Tickets};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[derive(Clone)]
    struct Sleeper(Arc<AtomicBool>);

    impl Sleep for Sleeper {
        fn is_gone(&self) -> bool {
            self.0.load(Ordering::Relaxed)
        }
    }

    fn sleeper() -> Sleeper {
        Sleeper(Arc::default())
    }

    #[test]
    fn tickets_are_called_in_the_order_in_which_they_came() {
        let mut tickets = Tickets::default();
        let ids = [1, 2, 3].map(|size| tickets.enter(size, sleeper()));
        for id in ids {
            let called = tickets.call_next(|_, _| true).map(|(id, _)| id);
            assert_eq!(called, Some(id));
        }
        assert_eq!((tickets.called(), tickets.called_size()), (3, 6));
        assert!(!tickets.has_waiting());
        assert_eq!(tickets.leave(ids[1]), TicketWas::Called);
        assert_eq!((tickets.called(), tickets.called_size()), (2, 4));
        assert_eq!(tickets.leave(ids[1]), TicketWas::Gone);
    }

    #[test]
    fn one_that_does_not_fit_holds_up_those_behind_it() {
        let mut tickets = Tickets::default();
        let large = tickets.enter(100, sleeper());
        let _ = tickets.enter(1, sleeper());
        let fits_in = |room: u64| move |_: &Tickets<Sleeper>, size: u64| size <= room;
        assert!(tickets.call_next(fits_in(99)).is_none());
        assert_eq!(tickets.leave(large), TicketWas::Waiting);
        assert!(tickets.call_next(fits_in(99)).is_some());
    }

    #[test]
    fn tickets_of_vms_that_have_ended_are_passed_over() {
        let mut tickets = Tickets::default();
        let gone = [sleeper(), sleeper()];
        for sleeper in &gone {
            let _ = tickets.enter(1, sleeper.clone());
        }
        let last = tickets.enter(1, sleeper());
        assert!(tickets.call_next(|_, _| true).is_some());
        for sleeper in &gone {
            sleeper.0.store(true, Ordering::Relaxed);
        }
        tickets.drop_gone();
        assert_eq!((tickets.called(), tickets.called_size()), (0, 0));
        let called = tickets.call_next(|_, _| true).map(|(id, _)| id);
        assert_eq!(called, Some(last));
    }
}
