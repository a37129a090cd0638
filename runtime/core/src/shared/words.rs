//! Shared words: 64-bit integers that VMs change atomically, and wait at until others wake them.
//!
//! All accesses are sequentially consistent.
//!
//! **No wake-up is lost.** A process compares the word and enters its ticket under one mutex. A
//! wake-up takes the same mutex. So if a process changes the word and then wakes, either the
//! waiting one sees the change, or its ticket is there for the wake-up.

use super::tickets::{Sleep, TicketId, TicketWas, Tickets, Wakes};
use baton_sys::shared_mutex::{Shared, SharedMutex};
#[cfg(loom)]
use loom::sync::atomic::AtomicI64;
use std::collections::BTreeMap;
use std::sync::Arc;
#[cfg(not(loom))]
use std::sync::atomic::AtomicI64;
use std::sync::atomic::Ordering;

/// The tickets of each word at which processes wait.
struct Waiting<S>(BTreeMap<usize, Tickets<S>>);

impl<S: Sleep> Shared for Waiting<S> {
    fn in_child(&mut self) {
        self.0.clear();
    }
}

/// The result of the beginning of a wait.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WordWait {
    /// The word has another value.
    Differs,
    /// The process waits.
    Waits(TicketId),
}

/// Some words, counted from 0. An index that is too large panics.
pub struct Words<S> {
    words: Box<[AtomicI64]>,
    waiting: Arc<SharedMutex<Waiting<S>>>,
}

impl<S> std::fmt::Debug for Words<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Words")
            .field("count", &self.words.len())
            .finish_non_exhaustive()
    }
}

impl<S: Sleep> Words<S> {
    /// Words that are 0. `None` without memory for them.
    pub fn new(count: usize) -> Option<Words<S>> {
        let mut words = Vec::new();
        words.try_reserve_exact(count).ok()?;
        words.extend((0..count).map(|_| AtomicI64::new(0)));
        Some(Words {
            words: words.into_boxed_slice(),
            waiting: SharedMutex::new(Waiting(BTreeMap::new())),
        })
    }

    /// How many words there are.
    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// Whether there is no word.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// The value of a word.
    pub fn load(&self, index: usize) -> i64 {
        // SeqCst: pairs with all other accesses of all words.
        self.words[index].load(Ordering::SeqCst)
    }

    /// Sets a word.
    pub fn store(&self, index: usize, value: i64) {
        // SeqCst: pairs with all other accesses of all words.
        self.words[index].store(value, Ordering::SeqCst);
    }

    /// Adds to a word; the sum wraps around. Returns the old value.
    pub fn add(&self, index: usize, n: i64) -> i64 {
        // SeqCst: pairs with all other accesses of all words.
        self.words[index].fetch_add(n, Ordering::SeqCst)
    }

    /// Sets a word. Returns the old value.
    pub fn exchange(&self, index: usize, value: i64) -> i64 {
        // SeqCst: pairs with all other accesses of all words.
        self.words[index].swap(value, Ordering::SeqCst)
    }

    /// Sets a word if it has the expected value.
    ///
    /// # Errors
    /// The present value, if it is another one.
    pub fn compare(&self, index: usize, expected: i64, value: i64) -> Result<i64, i64> {
        // SeqCst: pairs with all other accesses of all words.
        self.words[index].compare_exchange(expected, value, Ordering::SeqCst, Ordering::SeqCst)
    }

    /// Begins a wait at a word, unless that differs from `expected`.
    pub fn enter(&self, index: usize, expected: i64, sleeper: S) -> WordWait {
        let mut waiting = self.waiting.lock();
        if self.load(index) != expected {
            return WordWait::Differs;
        }
        WordWait::Waits(waiting.0.entry(index).or_default().enter(0, sleeper))
    }

    /// Ends a wait that nobody has woken. Returns whether somebody had.
    pub fn leave(&self, index: usize, ticket: TicketId) -> bool {
        let mut waiting = self.waiting.lock();
        let Some(tickets) = waiting.0.get_mut(&index) else {
            return true;
        };
        let left = tickets.leave(ticket);
        if tickets.is_empty() {
            waiting.0.remove(&index);
        }
        left == TicketWas::Gone
    }

    /// Ends up to `n` waits at a word, the longest ones.
    pub fn wake(&self, index: usize, n: usize) -> Wakes<S> {
        let mut wakes = Wakes::default();
        let mut waiting = self.waiting.lock();
        let Some(tickets) = waiting.0.get_mut(&index) else {
            return wakes;
        };
        for _ in 0..n {
            match tickets.take_first() {
                Some(woken) => wakes.add(woken),
                None => break,
            }
        }
        if tickets.is_empty() {
            waiting.0.remove(&index);
        }
        wakes
    }
}
