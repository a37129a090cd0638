//! A lock-free inbox: any thread posts, one owner takes everything.
//!
//! It is a list of nodes, newest first, behind one atomic pointer. A post pushes a node by
//! compare-and-swap. A take swaps the whole list out and reverses it. Nodes are never taken out one
//! by one, so there is no ABA problem. A successful compare-and-swap has linked its node to exactly
//! the list that was there.
//!
//! | `newest` | edge | made by |
//! |---|---|---|
//! | null -> node | [`Posted::First`] | [`Inbox::post`] |
//! | node -> newer node | [`Posted::Behind`] | [`Inbox::post`] |
//! | any -> null | the taker gets the list | [`Inbox::take_all`], `drop` |
//!
//! A post alone wakes no thread: see `parking` for the wake-up protocol, and why no wake-up is
//! lost. Checked by the loom test `tests/loom_inbox.rs`.

#[cfg(loom)]
use loom::sync::atomic::AtomicPtr;
use std::ptr;
#[cfg(not(loom))]
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering;

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
    /// The newest node, or null. A thread that swaps it out owns it and all nodes behind it.
    newest: AtomicPtr<Node<T>>,
}

#[derive(Debug)]
struct Node<T> {
    message: T,
    /// The node posted before this one, or null. Written before the node is published, and not
    /// again until it is taken.
    older: *mut Node<T>,
}

// SAFETY: nodes are reached through `newest` alone. A node belongs to its poster until it is
// linked, and to its taker after the swap. So no two threads use one at the same time. Messages
// cross threads, hence `T: Send`; none is shared, so `T: Sync` is not needed.
unsafe impl<T: Send> Sync for Inbox<T> {}
// SAFETY: as above; the nodes go where the inbox goes.
unsafe impl<T: Send> Send for Inbox<T> {}

impl<T: Send> Inbox<T> {
    /// An empty inbox.
    #[must_use]
    pub fn new() -> Inbox<T> {
        Inbox {
            newest: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// Adds `message`. Allocates a node; never blocks; not async-signal-safe.
    pub fn post(&self, message: T) -> Posted {
        let node = Box::into_raw(Box::new(Node {
            message,
            older: ptr::null_mut(),
        }));
        // Relaxed: the value is only compared and stored, not followed.
        let mut newest = self.newest.load(Ordering::Relaxed);
        loop {
            // SAFETY: the node is not published yet, so it is ours alone.
            unsafe { (*node).older = newest };
            // Release: publishes the node's contents; pairs with the Acquire swap in `swap_out`.
            // The nodes behind it were published by exchanges that this one continues (a release
            // sequence), so that one swap acquires them all.
            match self.newest.compare_exchange_weak(
                newest,
                node,
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(previous) if previous.is_null() => return Posted::First,
                Ok(_) => return Posted::Behind,
                Err(actual) => newest = actual,
            }
        }
    }

    /// Takes all messages, in the order in which they were posted. Dropping the iterator drops the
    /// rest.
    #[must_use = "the messages were taken out; those not iterated over are lost"]
    pub fn take_all(&self) -> Messages<T> {
        if self.is_empty() {
            return Messages {
                oldest: ptr::null_mut(),
            };
        }
        let mut node = self.swap_out();
        let mut oldest = ptr::null_mut();
        while !node.is_null() {
            // SAFETY: the list was swapped out, so it is ours; its nodes come from `Box::into_raw`
            // and are linked once each.
            let older = unsafe { std::mem::replace(&mut (*node).older, oldest) };
            oldest = node;
            node = older;
        }
        Messages { oldest }
    }

    /// Whether the inbox is empty. An owner that is about to sleep must check this after
    /// `Park::prepare`.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        // Relaxed: nothing is read through the pointer. The order against a parking owner's state
        // comes from that state's exchanges.
        self.newest.load(Ordering::Relaxed).is_null()
    }

    fn swap_out(&self) -> *mut Node<T> {
        // Acquire: pairs with the Release exchanges in `post`.
        self.newest.swap(ptr::null_mut(), Ordering::Acquire)
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
    /// The next message. Each node's `older` now leads to the node posted after it.
    oldest: *mut Node<T>,
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
        // SAFETY: the node came from `Box::into_raw`, belongs to this iterator, and is forgotten by
        // the next line.
        let node = unsafe { Box::from_raw(self.oldest) };
        self.oldest = node.older;
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
