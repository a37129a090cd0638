//! A lock-free inbox: any thread posts, one owner takes everything.
//!
//! It is a [`Pile`] of nodes, which has the orderings. A post puts a node on it. A take takes the
//! whole pile and reverses it.
//!
//! | the pile | edge | made by |
//! |---|---|---|
//! | empty -> some | [`Posted::First`] | [`Inbox::post`] |
//! | some -> more | [`Posted::Behind`] | [`Inbox::post`] |
//! | any -> empty | the taker gets the messages | [`Inbox::take_all`], `drop` |
//!
//! A post alone wakes no thread: see `parking` for the wake-up protocol, and why no wake-up is
//! lost. Checked by the loom test `tests/loom_inbox.rs`.

use crate::pile::{Link, Pile, Put};
use std::marker::PhantomData;
use std::ptr::{self, NonNull};

/// The state of the inbox before a post.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Posted {
    /// It was empty: the owner has not been notified of this batch yet.
    First,
    /// There were earlier posts: the first poster notifies the owner, or has done so.
    Behind,
}

/// Messages from any thread to one owner.
#[derive(Debug)]
pub struct Inbox<T: Send> {
    /// Nodes, each of which a `Box` was.
    nodes: Pile,
    messages: PhantomData<Node<T>>,
}

#[repr(C)]
#[derive(Debug)]
struct Node<T> {
    /// First, as a pile needs it.
    link: Link,
    message: T,
}

// SAFETY: nodes are reached through the pile alone. A node belongs to its poster until it is put
// there, and to its taker afterwards. So no two threads use one at the same time. Messages cross
// threads, hence `T: Send`; none is shared, so `T: Sync` is not needed.
unsafe impl<T: Send> Sync for Inbox<T> {}
// SAFETY: as above; the nodes go where the inbox goes.
unsafe impl<T: Send> Send for Inbox<T> {}

impl<T: Send> Inbox<T> {
    /// An empty inbox.
    #[must_use]
    pub fn new() -> Inbox<T> {
        Inbox {
            nodes: Pile::new(),
            messages: PhantomData,
        }
    }

    /// Adds `message`. Allocates a node; never blocks; not async-signal-safe.
    pub fn post(&self, message: T) -> Posted {
        let node = Box::new(Node {
            link: Link::new(),
            message,
        });
        let node = NonNull::from(Box::leak(node)).cast::<Link>();
        // SAFETY: the node is ours alone (1). It stays until `Messages` makes it a box again (2).
        match unsafe { self.nodes.put(node) } {
            Put::First => Posted::First,
            Put::OnTop => Posted::Behind,
        }
    }

    /// Takes all messages, in the order in which they were posted. Dropping the iterator drops the
    /// rest.
    #[must_use = "the messages were taken out; those not iterated over are lost"]
    pub fn take_all(&self) -> Messages<T> {
        let mut link = self.nodes.take_all();
        let mut oldest = ptr::null_mut();
        while !link.is_null() {
            // SAFETY: the nodes were taken, so they are ours, and each is on the list once.
            let below = unsafe { std::mem::replace(&mut (*link).below, oldest) };
            oldest = link;
            link = below;
        }
        Messages {
            oldest,
            messages: PhantomData,
        }
    }

    /// Whether the inbox is empty. An owner that is about to sleep must check this after
    /// `Park::prepare`. The order against a parking owner's state comes from that state's
    /// exchanges.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }
}

impl<T: Send> Default for Inbox<T> {
    fn default() -> Inbox<T> {
        Inbox::new()
    }
}

impl<T: Send> Drop for Inbox<T> {
    fn drop(&mut self) {
        drop(self.take_all());
    }
}

/// Messages that were taken, oldest first.
#[derive(Debug)]
pub struct Messages<T> {
    /// The next node. Its link leads to the one that was posted after it.
    oldest: *mut Link,
    messages: PhantomData<Node<T>>,
}

// SAFETY: the nodes belong to this iterator alone, so sending it sends the messages.
unsafe impl<T: Send> Send for Messages<T> {}

impl<T> Iterator for Messages<T> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        if self.oldest.is_null() {
            return None;
        }
        // SAFETY: the node was a box, whose first field is the link. It belongs to this iterator,
        // and is forgotten by the next line.
        let node = unsafe { Box::from_raw(self.oldest.cast::<Node<T>>()) };
        self.oldest = node.link.below;
        Some(node.message)
    }
}

impl<T> Drop for Messages<T> {
    fn drop(&mut self) {
        self.for_each(drop);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn messages_come_out_in_the_order_in_which_they_went_in() {
        let inbox = Inbox::new();
        assert!(inbox.is_empty());
        assert_eq!(inbox.post(1), Posted::First);
        assert_eq!(inbox.post(2), Posted::Behind);
        assert_eq!(inbox.post(3), Posted::Behind);
        assert!(!inbox.is_empty());
        assert_eq!(inbox.take_all().collect::<Vec<_>>(), [1, 2, 3]);
        assert!(inbox.is_empty());
        assert_eq!(inbox.post(4), Posted::First);
        assert_eq!(inbox.take_all().collect::<Vec<_>>(), [4]);
        assert_eq!(inbox.take_all().next(), None);
    }

    #[test]
    fn messages_that_are_never_taken_are_dropped() {
        let message = Arc::new(());
        let inbox = Inbox::new();
        for _ in 0..3 {
            let _ = inbox.post(Arc::clone(&message));
        }
        let mut taken = inbox.take_all();
        assert!(taken.next().is_some());
        let _ = inbox.post(Arc::clone(&message));
        drop(taken);
        assert_eq!(Arc::strong_count(&message), 2);
        drop(inbox);
        assert_eq!(Arc::strong_count(&message), 1);
    }

    #[test]
    fn many_posters_lose_nothing_and_keep_their_order() {
        const POSTERS: usize = 4;
        const EACH: usize = if cfg!(miri) { 30 } else { 10_000 };
        let inbox = Inbox::new();
        let mut next = [0; POSTERS];
        std::thread::scope(|scope| {
            for poster in 0..POSTERS {
                let inbox = &inbox;
                scope.spawn(move || {
                    for number in 0..EACH {
                        let _ = inbox.post((poster, number));
                    }
                });
            }
            while next != [EACH; POSTERS] {
                for (poster, number) in inbox.take_all() {
                    assert_eq!(number, next[poster]);
                    next[poster] += 1;
                }
                std::thread::yield_now();
            }
        });
        assert!(inbox.is_empty());
    }
}
