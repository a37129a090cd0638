//! The run queue: a ring of runnable processes for each priority, and a bitmap of the rings that
//! are not empty.
//!
//! A ring is a head link and the `next`/`prev` links in the processes. The predecessor of the head
//! is the back. The current process stays at the head of its ring while it runs. So a yield rotates
//! the ring by one, and a preemption by a more urgent process changes nothing in it.

use crate::sched::process::Process;
use crate::sched::slab::NIL;

/// Rings of processes by priority.
#[derive(Debug)]
pub(in crate::sched) struct RunQueue {
    /// The levels whose rings have a process.
    levels: Levels,
    /// The most urgent of them, 0 if there is none: computed from `levels`.
    top: u8,
    /// The head of each ring. The size is a power of two, so that a masked level is in bounds.
    heads: [u32; 128],
    /// Incremented when a process is added or removed, or what it may do changes.
    changes: u64,
}

impl RunQueue {
    pub(in crate::sched) const fn new() -> Self {
        RunQueue {
            levels: Levels::NONE,
            top: 0,
            heads: [NIL; 128],
            changes: 0,
        }
    }

    /// The most urgent level that has a process, 0 if none has.
    #[inline]
    pub(in crate::sched) fn top(&self) -> u8 {
        self.top
    }

    /// A count of additions, removals, and what [`RunQueue::note_change`] notes. Rotations of a
    /// ring do not count.
    #[inline]
    pub(in crate::sched) fn changes(&self) -> u64 {
        self.changes
    }

    /// The most urgent level below `level` that has a process, 0 if none has.
    #[inline]
    pub(super) fn top_below(&self, level: u8) -> u8 {
        self.levels.below(level).top()
    }

    /// Notes that a process became preemptible or stopped being preemptible.
    pub(in crate::sched) fn note_change(&mut self) {
        self.changes += 1;
    }

    /// All levels that have a process, but the most urgent one.
    #[inline(always)]
    pub(super) fn levels_below_top(&self) -> Levels {
        let mut others = self.levels;
        others.remove(self.top);
        others
    }

    /// The first process of a level, or `NIL`.
    #[inline]
    pub(in crate::sched) fn head(&self, level: u8) -> u32 {
        self.heads[usize::from(level & 127)]
    }

    /// Rotates the ring of `level` so that `index`, which is in it, comes first.
    #[inline]
    pub(super) fn rotate_to(&mut self, level: u8, index: u32) {
        self.heads[usize::from(level & 127)] = index;
    }

    #[inline]
    pub(in crate::sched) fn push_back(&mut self, processes: &mut [Process], index: u32) {
        let level = processes[index as usize].priority;
        self.changes += 1;
        self.levels.insert(level.get());
        self.top = self.top.max(level.get());
        push_back(
            processes,
            &mut self.heads[usize::from(level.get() & 127)],
            index,
        );
    }

    #[inline]
    pub(super) fn push_front(&mut self, processes: &mut [Process], index: u32) {
        self.push_back(processes, index);
        let level = processes[index as usize].priority.get();
        self.rotate_to(level, index);
    }

    /// Adds a process behind those of its level that are due as early, and behind `running`.
    #[cold]
    pub(super) fn push_by_due_time(&mut self, processes: &mut [Process], index: u32, running: u32) {
        let level = processes[index as usize].priority.get();
        let head = self.head(level);
        let due = processes[index as usize].due;
        let mut place = head;
        while place != NIL && (place == running || processes[place as usize].due <= due) {
            place = processes[place as usize].next;
            if place == head {
                place = NIL;
            }
        }
        if place == NIL {
            return self.push_back(processes, index);
        }
        self.push_before(processes, index, place);
        if place == head {
            self.rotate_to(level, index);
        }
    }

    /// Adds a process before another one of its level. The head of the ring stays the same.
    pub(super) fn push_before(&mut self, processes: &mut [Process], index: u32, place: u32) {
        self.changes += 1;
        // A push to the back of the ring that would begin at `place`.
        let mut before = place;
        push_back(processes, &mut before, index);
    }

    #[inline]
    pub(in crate::sched) fn remove(&mut self, processes: &mut [Process], index: u32) {
        let level = processes[index as usize].priority;
        self.changes += 1;
        let head = &mut self.heads[usize::from(level.get() & 127)];
        remove(processes, head, index);
        if *head == NIL {
            self.levels.remove(level.get());
            self.top = self.levels.top();
        }
    }

    /// As [`RunQueue::push_back`] to a `level` above all that have a process. The caller links the
    /// process to itself.
    #[inline(always)]
    pub(super) fn push_alone(&mut self, level: u8, index: u32) {
        self.changes += 1;
        self.levels.insert(level);
        self.top = level;
        self.rotate_to(level, index);
    }

    /// Removes the only process of the most urgent level. `others` are the other levels that have a
    /// process. The caller clears the links of the process.
    #[inline(always)]
    pub(super) fn empty_top(&mut self, others: Levels) {
        self.changes += 1;
        self.rotate_to(self.top, NIL);
        self.levels = others;
        self.top = others.top();
    }

    /// Removes the first of several processes of a level. The caller clears its links.
    #[inline(always)]
    pub(super) fn remove_head(&mut self, processes: &mut [Process], index: u32, level: u8) {
        let Process { next, prev, .. } = processes[index as usize];
        self.changes += 1;
        processes[prev as usize].next = next;
        processes[next as usize].prev = prev;
        self.rotate_to(level, next);
    }
}

/// A set of levels: a bit for each, in two words of a processor. Bit 0 of the first word is always
/// set, so that the highest bit of either word that is not zero is found by one instruction.
#[derive(Debug, Clone, Copy)]
pub(super) struct Levels {
    low: u64,
    high: u64,
}

impl Levels {
    const NONE: Levels = Levels { low: 1, high: 0 };

    #[inline]
    fn insert(&mut self, level: u8) {
        let bit = 1 << (level & 63);
        if level < 64 {
            self.low |= bit;
        } else {
            self.high |= bit;
        }
    }

    #[inline]
    fn remove(&mut self, level: u8) {
        let others = !(1 << (level & 63));
        if level < 64 {
            self.low &= others;
        } else {
            self.high &= others;
        }
    }

    /// The most urgent level, 0 if there is none.
    #[inline]
    pub(super) fn top(self) -> u8 {
        match self.high.checked_ilog2() {
            Some(bit) => 64 + bit as u8,
            None => (self.low | 1).ilog2() as u8,
        }
    }

    /// The levels below `level`.
    #[inline]
    fn below(self, level: u8) -> Levels {
        let mask = (1 << (level & 63)) - 1;
        if level < 64 {
            Levels {
                low: self.low & mask,
                high: 0,
            }
        } else {
            Levels {
                low: self.low,
                high: self.high & mask,
            }
        }
    }
}

/// Adds a process to the back of the ring that starts at `head`.
#[inline]
pub(in crate::sched) fn push_back(processes: &mut [Process], head: &mut u32, index: u32) {
    let first = *head;
    if first == NIL {
        let process = &mut processes[index as usize];
        process.next = index;
        process.prev = index;
        *head = index;
        return;
    }
    let back = processes[first as usize].prev;
    processes[first as usize].prev = index;
    processes[back as usize].next = index;
    let process = &mut processes[index as usize];
    process.next = first;
    process.prev = back;
}

/// Takes a process out of the ring that starts at `head`.
#[inline]
pub(in crate::sched) fn remove(processes: &mut [Process], head: &mut u32, index: u32) {
    let Process { next, prev, .. } = processes[index as usize];
    if next == index {
        *head = NIL;
    } else {
        processes[prev as usize].next = next;
        processes[next as usize].prev = prev;
        if *head == index {
            *head = next;
        }
    }
    let process = &mut processes[index as usize];
    process.next = NIL;
    process.prev = NIL;
}

#[cfg(test)]
mod tests {
    use super::Levels;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        // Miri shows no files, and is slow.
        #![proptest_config(ProptestConfig {
            cases: if cfg!(miri) { 16 } else { 256 },
            failure_persistence: None,
            ..ProptestConfig::default()
        })]

        #[test]
        fn levels_are_a_set_whose_largest_is_known(
            changes in proptest::collection::vec((1..=80_u8, any::<bool>()), 0..40),
            level in 1..=80_u8,
        ) {
            let (mut levels, mut model) = (Levels::NONE, BTreeSet::new());
            for (level, is_added) in changes {
                if is_added {
                    levels.insert(level);
                    model.insert(level);
                } else {
                    levels.remove(level);
                    model.remove(&level);
                }
                prop_assert_eq!(levels.top(), model.last().copied().unwrap_or(0));
            }
            let below = model.range(..level).next_back();
            prop_assert_eq!(levels.below(level).top(), below.copied().unwrap_or(0));
        }
    }
}
