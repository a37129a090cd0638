//! Memory, and the store buffer of the thread that makes plain stores.
//!
//! The watchdog's stores are read-modify-write operations, or come before the unlock of a mutex. So
//! it needs no buffer.

use std::collections::VecDeque;

/// A place in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Place {
    /// The thread's gate.
    Gate,
    /// Whether the thread's `slow` has `REVOKED`.
    Revoked,
    /// The guest's state.
    Guest,
    /// The last call whose object is noted.
    Note,
}

/// A store that is not visible yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Pending {
    place: Place,
    value: u8,
    /// It becomes visible after all earlier stores.
    release: bool,
}

/// Memory, and the stores that are not visible yet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Memory {
    values: [u8; 4],
    buffer: VecDeque<Pending>,
}

impl Memory {
    pub(super) fn new(gate: u8) -> Memory {
        let mut memory = Memory {
            values: [0; 4],
            buffer: VecDeque::new(),
        };
        memory.write(Place::Gate, gate);
        memory
    }

    /// What all other threads read.
    pub(super) fn visible(&self, place: Place) -> u8 {
        self.values[place as usize]
    }

    /// What the thread itself reads: its newest store, or memory.
    pub(super) fn seen_by_thread(&self, place: Place) -> u8 {
        let newest = self
            .buffer
            .iter()
            .rev()
            .find(|pending| pending.place == place);
        newest.map_or(self.visible(place), |pending| pending.value)
    }

    /// Stores a value for the thread; other threads do not see it yet.
    pub(super) fn store(&mut self, place: Place, value: u8, release: bool) {
        self.buffer.push_back(Pending {
            place,
            value,
            release,
        });
    }

    /// A locked operation, visible at once. The thread's own ones come after [`Memory::drain`].
    pub(super) fn write(&mut self, place: Place, value: u8) {
        self.values[place as usize] = value;
    }

    /// Makes all stores of the thread visible, in order.
    pub(super) fn drain(&mut self) {
        while let Some(pending) = self.buffer.pop_front() {
            self.write(pending.place, pending.value);
        }
    }

    pub(super) fn is_drained(&self) -> bool {
        self.buffer.is_empty()
    }

    /// The memories in which one more of the thread's stores has become visible, with its place.
    pub(super) fn after_one_store(&self, in_order: bool) -> Vec<(Place, Memory)> {
        let candidates = if in_order {
            self.buffer.len().min(1)
        } else {
            self.buffer.len()
        };
        let may_go = |&number: &usize| number == 0 || self.may_overtake(number);
        (0..candidates)
            .filter(may_go)
            .map(|number| self.after_store(number))
            .collect()
    }

    fn may_overtake(&self, number: usize) -> bool {
        let pending = self.buffer[number];
        let is_first_of_place = self
            .buffer
            .iter()
            .take(number)
            .all(|older| older.place != pending.place);
        is_first_of_place && !pending.release
    }

    fn after_store(&self, number: usize) -> (Place, Memory) {
        let mut memory = self.clone();
        let pending = self.buffer[number];
        memory.buffer.remove(number);
        memory.write(pending.place, pending.value);
        (pending.place, memory)
    }
}
