//! The slot of a process: all of its scheduler data except its payload.

use std::num::NonZeroU32;
use std::ops::{Index, IndexMut};

use super::run::decay::Decay;
use super::slab::{NIL, next_generation};
use super::sync::condition::Relock;
use super::{CarrierId, Priority, ProcessId, Wake, WakeReason};

/// Where a process is. Exactly one applies at any time; each says which links are in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    /// The slot has no process; `next` is the next free slot.
    Free,
    /// In the ring of its level, by `next` and `prev`: the current process (at the head) and all
    /// that may be chosen.
    Ready,
    /// Kept aside: runnable, but its carrier is occupied. In the carrier's ring, by `next` and
    /// `prev`.
    Aside,
    /// In wait queues, by its waiter nodes; perhaps with a deadline.
    Waiting,
    /// Waiting for a deadline, and in no queue.
    Sleeping,
    /// Suspended, without a wait; or spawned suspended and not resumed yet.
    Halted,
    /// Created for a timer that has not fired.
    Prepared,
    /// Out in a foreign call.
    Foreign,
    /// Ended, and not yet forgotten.
    Dead,
}

/// The number of phases, for counts by phase.
pub(super) const PHASES: usize = Phase::Dead as usize + 1;

/// One slot. Only the scheduler uses it.
#[derive(Debug)]
pub(super) struct Process {
    /// Links of the ring that the process is in, or of the free list.
    pub(super) next: u32,
    pub(super) prev: u32,
    pub(super) generation: NonZeroU32,
    /// Its present priority: its own, or a more urgent one inherited through a lock that it holds.
    pub(super) priority: Priority,
    /// The priority it was given; a level lower while it has sunk.
    pub(super) own_priority: Priority,
    /// Whether whole slices make it sink, and whether it has sunk.
    pub(super) decay: Decay,
    pub(super) phase: Phase,
    pub(super) suspended: bool,
    pub(super) preemptible: bool,
    pub(super) daemon: bool,
    pub(super) quiet: bool,
    pub(super) started: bool,
    /// The nesting depth of its critical sections.
    pub(super) critical: u32,
    /// The depth that it left when it suspended itself, and takes again when it runs.
    pub(super) critical_left: u32,
    /// How many times it was killed.
    pub(super) kills: u32,
    /// It holds kills: the first kill is deferred.
    pub(super) holds_kills: bool,
    /// `wake` was written and not read yet.
    pub(super) has_wake: bool,
    pub(super) wake: Wake,
    /// The first of its waiter nodes.
    pub(super) waiters: u32,
    /// The mutex that it must lock again before a condition's wait ends.
    pub(super) relock: Option<Relock>,
    /// The first of the mutexes that it holds, by index.
    pub(super) held: u32,
    /// The first of its holds of locks for readers and writers.
    pub(super) holds: u32,
    /// The sentinel of the queue of its joiners, created for the first joiner.
    pub(super) joiners: u32,
    /// The carrier that the user bound it to.
    pub(super) pin: Option<CarrierId>,
    /// The carrier that has its foreign frames.
    pub(super) pinned: Option<CarrierId>,
    /// The carrier in whose list it is: `pinned`, else `pin`.
    pub(super) carrier: u32,
    pub(super) carrier_next: u32,
    pub(super) carrier_prev: u32,
    /// The carrier that it is out on, while its phase is `Foreign`.
    pub(super) foreign_on: u32,
    /// The guest's own record of it.
    pub(super) user_data: usize,
    /// Its due time, in nanoseconds: among equals, the earliest runs first. [`NO_DUE_TIME`] sorts
    /// last.
    pub(super) due: u64,
}

/// No due time.
pub(super) const NO_DUE_TIME: u64 = u64::MAX;

impl Process {
    fn free(next: u32) -> Process {
        Process {
            next,
            prev: NIL,
            generation: NonZeroU32::MIN,
            priority: Priority::DEFAULT,
            own_priority: Priority::DEFAULT,
            decay: Decay::Never,
            phase: Phase::Free,
            suspended: false,
            preemptible: true,
            daemon: false,
            quiet: false,
            started: false,
            critical: 0,
            critical_left: 0,
            kills: 0,
            holds_kills: false,
            has_wake: false,
            wake: Wake::because(WakeReason::Done),
            waiters: NIL,
            relock: None,
            held: NIL,
            holds: NIL,
            joiners: NIL,
            pin: None,
            pinned: None,
            carrier: NIL,
            carrier_next: NIL,
            carrier_prev: NIL,
            foreign_on: NIL,
            user_data: 0,
            due: NO_DUE_TIME,
        }
    }

    /// Whether it must raise a kill at the next chance.
    #[inline]
    pub(super) fn kill_is_due(&self) -> bool {
        self.kills > 0 && (!self.holds_kills || self.kills > 1)
    }
}

/// All slots, found by index.
#[derive(Debug)]
pub(super) struct ProcessTable {
    pub(super) slots: Vec<Process>,
    free: u32,
}

impl ProcessTable {
    pub(super) const fn new() -> Self {
        ProcessTable {
            slots: Vec::new(),
            free: NIL,
        }
    }

    /// A free slot, still in the phase `Free`.
    pub(super) fn allocate(&mut self) -> u32 {
        if self.free != NIL {
            let index = self.free;
            self.free = self[index].next;
            self[index].next = NIL;
            return index;
        }
        let index = self.slots.len() as u32;
        self.slots.push(Process::free(NIL));
        index
    }

    /// Whether one more process fits. The table grows if necessary; `false` if it cannot.
    pub(super) fn make_room(&mut self) -> bool {
        self.free != NIL || super::room::make_room(&mut self.slots, 1)
    }

    /// How many slots there are with one more process.
    pub(super) fn slots_with_one_more(&self) -> usize {
        self.slots.len() + usize::from(self.free == NIL)
    }

    /// Frees a slot: its ids are stale from here on.
    pub(super) fn release(&mut self, index: u32) {
        let generation = next_generation(self[index].generation);
        let next = std::mem::replace(&mut self.free, index);
        self[index] = Process {
            generation,
            ..Process::free(next)
        };
    }

    /// The id of the process in a slot.
    #[inline]
    pub(super) fn id(&self, index: u32) -> ProcessId {
        ProcessId {
            index,
            generation: self[index].generation,
        }
    }

    /// The slot of an id that is not stale: living or dead.
    #[inline]
    pub(super) fn find(&self, id: ProcessId) -> Option<u32> {
        let process = self.slots.get(id.index as usize)?;
        let is_same = process.generation == id.generation && process.phase != Phase::Free;
        is_same.then_some(id.index)
    }

    /// The slot of a process that has not ended: living, or prepared for a timer.
    #[inline]
    pub(super) fn find_alive(&self, id: ProcessId) -> Option<u32> {
        self.find(id)
            .filter(|&index| self[index].phase != Phase::Dead)
    }
}

impl Index<u32> for ProcessTable {
    type Output = Process;

    #[inline]
    fn index(&self, index: u32) -> &Process {
        &self.slots[index as usize]
    }
}

impl IndexMut<u32> for ProcessTable {
    #[inline]
    fn index_mut(&mut self, index: u32) -> &mut Process {
        &mut self.slots[index as usize]
    }
}
