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

/// The processes that wait at words.
struct Waiting<S> {
    /// The tickets of each word at which processes wait.
    tickets: BTreeMap<usize, Tickets<S>>,
    /// The highest number of a ticket of a queue that was removed. A woken process may still have
    /// that ticket, so the word's next queue begins after it.
    last_number: u64,
}

impl<S: Sleep> Waiting<S> {
    fn of(&mut self, index: usize) -> &mut Tickets<S> {
        let after = self.last_number;
        let begin = || Tickets::numbered_after(after);
        self.tickets.entry(index).or_insert_with(begin)
    }

    fn remove_if_empty(&mut self, index: usize) {
        if self.tickets.get(&index).is_some_and(Tickets::is_empty)
            && let Some(empty) = self.tickets.remove(&index)
        {
            self.last_number = self.last_number.max(empty.last_number());
        }
    }
}

impl<S: Sleep> Shared for Waiting<S> {
    fn in_child(&mut self) {
        self.tickets.clear();
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
            waiting: SharedMutex::new(Waiting {
                tickets: BTreeMap::new(),
                last_number: 0,
            }),
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
        WordWait::Waits(waiting.of(index).enter(0, sleeper))
    }

    /// Ends a wait that nobody has woken. Returns whether somebody had.
    pub fn leave(&self, index: usize, ticket: TicketId) -> bool {
        let mut waiting = self.waiting.lock();
        let Some(tickets) = waiting.tickets.get_mut(&index) else {
            return true;
        };
        let left = tickets.leave(ticket);
        waiting.remove_if_empty(index);
        left == TicketWas::Gone
    }

    /// Ends up to `n` waits at a word, the longest ones.
    pub fn wake(&self, index: usize, n: usize) -> Wakes<S> {
        let mut wakes = Wakes::default();
        let mut waiting = self.waiting.lock();
        let Some(tickets) = waiting.tickets.get_mut(&index) else {
            return wakes;
        };
        for _ in 0..n {
            match tickets.take_first() {
                Some(woken) => wakes.add(woken),
                None => break,
            }
        }
        waiting.remove_if_empty(index);
        wakes
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{Sleep, WordWait, Words};

    #[derive(Clone)]
    struct Sleeper;

    impl Sleep for Sleeper {
        fn is_gone(&self) -> bool {
            false
        }
    }

    #[test]
    fn a_woken_process_that_leaves_late_ends_nobody_elses_wait() {
        let words = Words::new(1).expect("there is memory");
        let wait = || match words.enter(0, 0, Sleeper) {
            WordWait::Waits(ticket) => ticket,
            WordWait::Differs => panic!("the word is 0"),
        };
        let first = wait();
        assert_eq!(words.wake(0, 1).len(), 1);
        let second = wait();
        assert!(words.leave(0, first), "it was woken");
        assert_eq!(words.wake(0, 1).len(), 1, "the second one still waits");
        assert!(words.leave(0, second));
    }
}
