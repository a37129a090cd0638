//! Wait queues: processes ordered by priority, and first come, first served within one priority.
//!
//! A waiter node is one process in one queue; a process in a select has several. The nodes of all
//! queues are in one slab. A queue is a ring with a sentinel node of priority 0. So a node can be
//! removed without knowing its queue, and every wait is cancelled in constant time.
//!
//! An insertion takes constant time, too, except for a walk over the *levels* that are present.
//! There are at most 80 levels. The first and the last node of each level are each other's `peer`,
//! so a walk passes a level in one step.

use crate::sched::slab::NIL;

/// The kind of wait of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(in crate::sched) enum Kind {
    Sentinel,
    Free,
    Semaphore,
    Mutex,
    Condition,
    Event,
    Read,
    Write,
    Barrier,
    Receive,
    Send,
    Queue,
    Descriptor,
    Join,
    Rest,
    Alarm,
    Shared,
}

impl Kind {
    /// Whether something else depends on how many wait like that, or how urgent they are.
    #[inline]
    pub(in crate::sched) fn has_waiters_that_count(self) -> bool {
        matches!(
            self,
            Kind::Mutex
                | Kind::Read
                | Kind::Write
                | Kind::Barrier
                | Kind::Descriptor
                | Kind::Shared
        )
    }
}

/// A queue, by the index of its sentinel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub(in crate::sched) struct WaitQueue(pub(in crate::sched) u32);

/// The data of a waiter in a queue.
#[derive(Clone, Copy, Debug)]
pub(in crate::sched) struct Ticket {
    pub(in crate::sched) kind: Kind,
    /// The index of the object.
    pub(in crate::sched) object: u32,
    /// The index of the case in a select.
    pub(in crate::sched) case: u32,
    /// The value to send.
    pub(in crate::sched) value: u64,
}

impl Ticket {
    pub(in crate::sched) const fn new(kind: Kind, object: u32) -> Ticket {
        Ticket {
            kind,
            object,
            case: 0,
            value: 0,
        }
    }
}

/// One process in one queue, a queue's sentinel, or a free node.
#[derive(Debug)]
pub(in crate::sched) struct Waiter {
    next: u32,
    prev: u32,
    /// For the first node of a level the last one, and vice versa; unused in other nodes.
    peer: u32,
    /// 1 to 80; 0 for a sentinel.
    priority: u8,
    pub(in crate::sched) ticket: Ticket,
    pub(in crate::sched) process: u32,
    /// The next node of the same process, or of the free list.
    pub(in crate::sched) sibling: u32,
    queue: u32,
}

impl Waiter {
    /// A sentinel without links.
    const UNUSED: Waiter = Waiter {
        next: NIL,
        prev: NIL,
        peer: NIL,
        priority: 0,
        ticket: Ticket::new(Kind::Sentinel, NIL),
        process: NIL,
        sibling: NIL,
        queue: NIL,
    };
}

/// The nodes of all queues.
#[derive(Debug)]
pub(in crate::sched) struct Waiters {
    nodes: Vec<Waiter>,
    free: u32,
}

impl Waiters {
    pub(in crate::sched) const fn new() -> Self {
        Waiters {
            nodes: Vec::new(),
            free: NIL,
        }
    }

    /// Whether there is room for the queues of one object and one wait. The table grows if
    /// necessary; `false` if it cannot.
    pub(in crate::sched) fn make_room(&mut self) -> bool {
        const NODES: usize = 8;
        let mut next = self.free;
        for _ in 0..NODES {
            match self.nodes.get(next as usize) {
                Some(node) => next = node.sibling,
                None => return crate::sched::room::make_room(&mut self.nodes, NODES),
            }
        }
        true
    }

    /// Creates an empty queue.
    pub(in crate::sched) fn make_queue(&mut self) -> WaitQueue {
        let index = self.allocate();
        *self.node_mut(index) = Waiter {
            next: index,
            prev: index,
            queue: index,
            ..Waiter::UNUSED
        };
        WaitQueue(index)
    }

    /// Frees an empty queue.
    pub(in crate::sched) fn free_queue(&mut self, queue: WaitQueue) {
        debug_assert!(self.is_empty(queue));
        self.release(queue.0);
    }

    #[inline]
    pub(in crate::sched) fn node(&self, index: u32) -> &Waiter {
        &self.nodes[index as usize]
    }

    #[inline]
    fn node_mut(&mut self, index: u32) -> &mut Waiter {
        &mut self.nodes[index as usize]
    }

    #[inline]
    pub(in crate::sched) fn is_empty(&self, queue: WaitQueue) -> bool {
        self.node(queue.0).next == queue.0
    }

    /// The first node: of the most urgent level, the one that has waited longest.
    #[inline]
    pub(in crate::sched) fn first(&self, queue: WaitQueue) -> Option<u32> {
        let first = self.node(queue.0).next;
        (first != queue.0).then_some(first)
    }

    /// The nodes, in order.
    pub(in crate::sched) fn iter(&self, queue: WaitQueue) -> impl Iterator<Item = &Waiter> {
        let follow = move |&index: &u32| {
            let next = self.node(index).next;
            (next != queue.0).then_some(next)
        };
        std::iter::successors(self.first(queue), follow).map(|index| self.node(index))
    }

    /// Adds a node for `process` behind equally urgent ones. `sibling` is the process's first node
    /// so far.
    #[inline]
    pub(in crate::sched) fn enter(
        &mut self,
        queue: WaitQueue,
        process: u32,
        sibling: u32,
        priority: u8,
        ticket: Ticket,
    ) -> u32 {
        let index = self.allocate();
        let is_alone = self.is_empty(queue);
        let node = self.node_mut(index);
        // As for a node that is alone in its queue, the most frequent case.
        *node = Waiter {
            next: queue.0,
            prev: queue.0,
            peer: index,
            priority,
            ticket,
            process,
            sibling,
            queue: queue.0,
        };
        if is_alone {
            let sentinel = self.node_mut(queue.0);
            (sentinel.next, sentinel.prev) = (index, index);
        } else {
            self.link(index, priority);
        }
        index
    }

    /// Removes and frees a node. Returns its sibling and its ticket.
    #[inline]
    pub(in crate::sched) fn leave(&mut self, index: u32) -> (u32, Ticket) {
        let node = self.node(index);
        let (sibling, ticket, next) = (node.sibling, node.ticket, node.next);
        if next == node.prev {
            // It is alone in its queue: both are the sentinel.
            let sentinel = self.node_mut(next);
            (sentinel.next, sentinel.prev) = (next, next);
        } else {
            self.unlink(index);
        }
        self.release(index);
        (sibling, ticket)
    }

    /// Moves a node to the back of its new level.
    pub(in crate::sched) fn requeue(&mut self, index: u32, priority: u8) {
        self.unlink(index);
        self.link(index, priority);
    }

    fn link(&mut self, index: u32, priority: u8) {
        self.node_mut(index).priority = priority;
        let sentinel = self.node(index).queue;
        let back = self.node(sentinel).prev;
        let (before, first_of_level) = if self.node(back).priority > priority {
            (sentinel, NIL)
        } else if self.node(back).priority == priority {
            (sentinel, self.node(back).peer)
        } else {
            self.place_for(sentinel, priority)
        };
        self.insert_before(before, index);
        let first = if first_of_level == NIL {
            index
        } else {
            first_of_level
        };
        self.node_mut(first).peer = index;
        self.node_mut(index).peer = first;
    }

    /// The node before which a new node of this priority goes, and the first node of its level or
    /// `NIL`.
    fn place_for(&self, sentinel: u32, priority: u8) -> (u32, u32) {
        let mut first = self.node(sentinel).next;
        while self.node(first).priority > priority {
            first = self.after_level(first);
        }
        if self.node(first).priority == priority {
            (self.after_level(first), first)
        } else {
            (first, NIL)
        }
    }

    #[inline]
    fn after_level(&self, first: u32) -> u32 {
        self.node(self.node(first).peer).next
    }

    #[inline]
    fn insert_before(&mut self, place: u32, index: u32) {
        let prev = self.node(place).prev;
        self.node_mut(place).prev = index;
        self.node_mut(prev).next = index;
        let node = self.node_mut(index);
        node.next = place;
        node.prev = prev;
    }

    fn unlink(&mut self, index: u32) {
        let Waiter {
            next,
            prev,
            peer,
            priority,
            ..
        } = *self.node(index);
        let is_first = self.node(prev).priority != priority;
        let is_last = self.node(next).priority != priority;
        if is_first && !is_last {
            self.node_mut(next).peer = peer;
            self.node_mut(peer).peer = next;
        } else if is_last && !is_first {
            self.node_mut(prev).peer = peer;
            self.node_mut(peer).peer = prev;
        }
        self.node_mut(prev).next = next;
        self.node_mut(next).prev = prev;
    }

    /// A node for the caller to fill.
    #[inline]
    fn allocate(&mut self) -> u32 {
        let index = self.free;
        match self.nodes.get(index as usize) {
            Some(node) => {
                self.free = node.sibling;
                index
            }
            None => self.add(),
        }
    }

    #[cold]
    #[inline(never)]
    fn add(&mut self) -> u32 {
        let index = self.nodes.len() as u32;
        assert!(index != NIL, "more than {NIL} waits in one VM");
        self.nodes.push(Waiter::UNUSED);
        index
    }

    #[inline]
    fn release(&mut self, index: u32) {
        let sibling = std::mem::replace(&mut self.free, index);
        let node = self.node_mut(index);
        node.sibling = sibling;
        node.ticket.kind = Kind::Free;
    }

    /// Checks the order and the peers of a queue. Returns its number of nodes.
    #[cfg(test)]
    pub(in crate::sched) fn check(&self, queue: WaitQueue) -> usize {
        let mut count = 0;
        let mut first_of_level = queue.0;
        let mut index = self.node(queue.0).next;
        while index != queue.0 {
            let node = self.node(index);
            assert_eq!(self.node(node.next).prev, index);
            assert_eq!(node.queue, queue.0);
            let before = self.node(node.prev).priority;
            assert!(node.prev == queue.0 || before >= node.priority);
            if before != node.priority {
                first_of_level = index;
            }
            if self.node(node.next).priority != node.priority {
                assert_eq!(node.peer, first_of_level);
                assert_eq!(self.node(first_of_level).peer, index);
            }
            count += 1;
            index = node.next;
        }
        count
    }

    /// How many nodes are in use, sentinels included.
    #[cfg(test)]
    pub(in crate::sched) fn in_use(&self) -> usize {
        self.nodes
            .iter()
            .filter(|node| node.ticket.kind != Kind::Free)
            .count()
    }
}
