//! Deadlines: a 4-ary heap that knows the place of each owner's deadline.
//!
//! A moved or cancelled deadline is removed at once. So each of a million waits that end before
//! their timeouts costs no more than the heap's depth. Equal deadlines come in the order in which
//! they were set.

use crate::sched::slab::NIL;

/// The number of kinds of owners.
const OWNERS: usize = 4;

/// The owner of a deadline, by index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::sched) enum Owner {
    /// The wait of a process.
    Process(u32),
    Timer(u32),
    /// The request that a process comes to a safepoint.
    Safepoint(u32),
    /// The return of a process that has sunk to its own level.
    Decay(u32),
}

impl Owner {
    #[inline]
    fn key(self) -> usize {
        match self {
            Owner::Process(index) => index as usize * OWNERS,
            Owner::Timer(index) => index as usize * OWNERS + 1,
            Owner::Safepoint(index) => index as usize * OWNERS + 2,
            Owner::Decay(index) => index as usize * OWNERS + 3,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Nanoseconds on the monotonic clock.
    at: u64,
    /// A sequence number that keeps equal deadlines in order.
    sequence: u64,
    owner: Owner,
}

impl Entry {
    #[inline]
    fn is_before(&self, other: &Entry) -> bool {
        (self.at, self.sequence) < (other.at, other.sequence)
    }
}

/// Deadlines by owner, the earliest on top. An owner has at most one.
#[derive(Debug)]
pub(in crate::sched) struct Deadlines {
    heap: Vec<Entry>,
    /// The place of an owner's entry in the heap, by the owner's key; `NIL` if it has none.
    places: Vec<u32>,
    sequence: u64,
    /// Incremented when a deadline is set or removed.
    updates: u64,
}

impl Deadlines {
    pub(in crate::sched) const fn new() -> Self {
        Deadlines {
            heap: Vec::new(),
            places: Vec::new(),
            sequence: 0,
            updates: 0,
        }
    }

    /// A count of deadlines set and removed.
    #[inline]
    pub(in crate::sched) fn changes(&self) -> u64 {
        self.updates
    }

    /// Whether `owners` processes and as many timers can have deadlines. The tables grow if
    /// necessary; `false` if they cannot.
    pub(in crate::sched) fn make_room(&mut self, owners: usize) -> bool {
        let keys = (OWNERS * owners).saturating_sub(self.places.len());
        let entries = (OWNERS * owners).saturating_sub(self.heap.len());
        crate::sched::room::make_room(&mut self.places, keys)
            && crate::sched::room::make_room(&mut self.heap, entries)
    }

    /// Sets an owner's deadline, in place of the one it had.
    pub(in crate::sched) fn set(&mut self, owner: Owner, at: u64) {
        self.cancel(owner);
        let key = owner.key();
        if key >= self.places.len() {
            self.places.resize(key + 1, NIL);
        }
        self.sequence += 1;
        self.updates += 1;
        self.heap.push(Entry {
            at,
            sequence: self.sequence,
            owner,
        });
        self.rise(self.heap.len() - 1);
    }

    /// Removes an owner's deadline. Returns whether it had one.
    #[inline]
    pub(in crate::sched) fn cancel(&mut self, owner: Owner) -> bool {
        match self.places.get(owner.key()) {
            None | Some(&NIL) => false,
            Some(&place) => {
                self.remove(place as usize);
                true
            }
        }
    }

    /// The earliest deadline.
    #[inline]
    pub(in crate::sched) fn earliest(&self) -> Option<u64> {
        self.heap.first().map(|entry| entry.at)
    }

    /// Removes the earliest deadline if it is due at `now`. Returns its owner, and when it was due.
    #[inline]
    pub(in crate::sched) fn take_due(&mut self, now: u64) -> Option<(Owner, u64)> {
        let first = *self.heap.first()?;
        if first.at > now {
            return None;
        }
        self.remove(0);
        Some((first.owner, first.at))
    }

    /// Moves all deadlines `by` nanoseconds into the future. Those that are centuries away stay.
    pub(in crate::sched) fn postpone(&mut self, by: u64) {
        // None passes another one. Only those that come to the limit become equal; their order
        // among themselves does not matter.
        const FAR: u64 = u64::MAX / 2;
        for entry in self.heap.iter_mut().filter(|entry| entry.at < FAR) {
            entry.at = entry.at.saturating_add(by).min(FAR - 1);
        }
        self.updates += 1;
    }

    pub(in crate::sched) fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    fn remove(&mut self, place: usize) {
        self.updates += 1;
        let removed = self.heap.swap_remove(place);
        self.places[removed.owner.key()] = NIL;
        if place < self.heap.len() {
            let place = self.rise(place);
            self.sink(place);
        }
    }

    /// Moves an entry up until its parent is before it. Returns its place.
    fn rise(&mut self, mut place: usize) -> usize {
        let entry = self.heap[place];
        while place > 0 {
            let parent = (place - 1) / 4;
            if !entry.is_before(&self.heap[parent]) {
                break;
            }
            self.put(place, self.heap[parent]);
            place = parent;
        }
        self.put(place, entry);
        place
    }

    /// Moves an entry down until it is before all its children.
    fn sink(&mut self, mut place: usize) {
        let entry = self.heap[place];
        loop {
            let first = place * 4 + 1;
            let last = (first + 4).min(self.heap.len());
            let Some(least) = (first..last).reduce(|a, b| {
                if self.heap[b].is_before(&self.heap[a]) {
                    b
                } else {
                    a
                }
            }) else {
                break;
            };
            if !self.heap[least].is_before(&entry) {
                break;
            }
            self.put(place, self.heap[least]);
            place = least;
        }
        self.put(place, entry);
    }

    #[inline]
    fn put(&mut self, place: usize, entry: Entry) {
        self.heap[place] = entry;
        self.places[entry.owner.key()] = place as u32;
    }

    /// Checks that every owner's place is right, and that no child is before its parent.
    /// How many owners the tables have memory for.
    #[cfg(test)]
    pub(in crate::sched) fn room(&self) -> usize {
        self.places.capacity().min(self.heap.capacity()) / OWNERS
    }

    #[cfg(test)]
    pub(in crate::sched) fn check(&self) {
        for (place, entry) in self.heap.iter().enumerate() {
            assert_eq!(self.places[entry.owner.key()], place as u32);
            assert!(place == 0 || !entry.is_before(&self.heap[(place - 1) / 4]));
        }
        let placed = self.places.iter().filter(|&&place| place != NIL).count();
        assert_eq!(placed, self.heap.len());
    }

    /// The deadline of an owner.
    pub(in crate::sched) fn of(&self, owner: Owner) -> Option<u64> {
        match self.places.get(owner.key()) {
            None | Some(&NIL) => None,
            Some(&place) => Some(self.heap[place as usize].at),
        }
    }
}
