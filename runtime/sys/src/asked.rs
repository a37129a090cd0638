//! What other threads ask of an owner: a list under a mutex, and a bit that says "look at it".
//!
//! | step | who | what |
//! |---|---|---|
//! | 1 | the thread that asks | lists what it asks for ([`Asked::list`]) |
//! | 2 | the same | sets the bit, with Release |
//! | 3 | the owner, at its next check | clears the bit, with Acquire and Release |
//! | 4 | the same | takes the whole list ([`Asked::take`]), and does it |
//!
//! **Nothing is lost.** Step 1 comes before step 2, and step 3 before step 4. So the owner that
//! clears a bit finds what was listed before. What is listed later has its bit set later, and the
//! owner sees that bit at its next check.
//!
//! A thread that waits no longer withdraws what it has listed ([`Asked::withdraw`]). It clears the
//! bit, so that the owner is not asked for nothing. Then it sets the bit again if others are still
//! listed: one of them may have set it before it was cleared. Checked by the loom test
//! `tests/loom_asked.rs`.

#[cfg(loom)]
use loom::sync::{Mutex, MutexGuard, atomic::AtomicU32};
use std::sync::atomic::Ordering;
#[cfg(not(loom))]
use std::sync::{MutexGuard, atomic::AtomicU32};

#[cfg(not(loom))]
use crate::forking::{Child, ForkMutex as Mutex};

/// What other threads ask of an owner.
#[derive(Debug)]
pub struct Asked<T>(Mutex<List<T>>);

impl<T> Default for Asked<T> {
    fn default() -> Asked<T> {
        Asked(Mutex::new(List::default()))
    }
}

#[derive(Debug)]
struct List<T> {
    waiting: Vec<(Number, T)>,
    /// How many things were listed so far.
    listed: u64,
}

impl<T> Default for List<T> {
    fn default() -> List<T> {
        List {
            waiting: Vec::new(),
            listed: 0,
        }
    }
}

/// The number of something that was listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Number(u64);

impl<T> Asked<T> {
    #[cfg(not(loom))]
    fn lock(&self) -> MutexGuard<'_, List<T>> {
        self.0.lock()
    }

    #[cfg(loom)]
    fn lock(&self) -> MutexGuard<'_, List<T>> {
        self.0.lock().expect("no thread panics with it")
    }

    /// Lists what is asked for. The caller sets the bit next.
    pub fn list(&self, what: T) -> Number {
        let mut list = self.lock();
        list.listed += 1;
        let number = Number(list.listed);
        list.waiting.push((number, what));
        number
    }

    /// Takes all that is listed, in order. The caller has cleared the bit before.
    pub fn take(&self) -> Vec<T> {
        let waiting = std::mem::take(&mut self.lock().waiting);
        waiting.into_iter().map(|(_, what)| what).collect()
    }

    /// Withdraws what was listed with this number. Returns it; `None` if the owner has taken it.
    pub fn withdraw(&self, number: Number, bits: &AtomicU32, bit: u32) -> Option<T> {
        let mut list = self.lock();
        let at = list.waiting.iter().position(|(each, _)| *each == number)?;
        let (_, what) = list.waiting.remove(at);
        drop(list);
        // AcqRel: pairs with the release of those who ask.
        bits.fetch_and(!bit, Ordering::AcqRel);
        if !self.lock().waiting.is_empty() {
            // Release: as if the others asked now.
            bits.fetch_or(bit, Ordering::Release);
        }
        Some(what)
    }

    /// Forgets what threads that are gone have listed, in a fork's child.
    #[cfg(not(loom))]
    pub fn renew_in_child(&self, child: &Child) {
        self.0.renew_in_child(child, List::default());
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const BIT: u32 = 4;

    #[test]
    fn what_was_taken_cannot_be_withdrawn() {
        let (asked, bits) = (Asked::default(), AtomicU32::new(BIT | 1));
        let first = asked.list("first");
        assert_eq!(asked.take(), ["first"]);
        assert_eq!(asked.withdraw(first, &bits, BIT), None);
        assert_eq!(bits.load(Ordering::Relaxed), BIT | 1);
    }

    #[test]
    fn the_bit_stays_while_others_wait_and_other_bits_stay_anyway() {
        let (asked, bits) = (Asked::default(), AtomicU32::new(BIT | 1));
        let (first, second) = (asked.list(1), asked.list(2));
        assert_eq!(asked.withdraw(first, &bits, BIT), Some(1));
        assert_eq!(bits.load(Ordering::Relaxed), BIT | 1);
        assert_eq!(asked.withdraw(second, &bits, BIT), Some(2));
        assert_eq!(bits.load(Ordering::Relaxed), 1);
    }
}
