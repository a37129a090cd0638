//! A process's slot: everything the scheduler knows about one process but its payload.

use std::num::NonZeroU32;
use std::ops::{Index, IndexMut};

use super::slab::{NIL, next_generation};
use super::{CarrierId, MutexId, Priority, ProcessId, Wake, WakeReason};

/// Where a process is. Exactly one holds at any time, and each says which links are in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    /// The slot has no process; `next` is the next free slot.
    Free,
    /// In the ring of its level, in `next` and `prev`: the current process (at the head) and all
    /// that may be chosen.
    Ready,
    /// Runnable, but its carrier is occupied: in the carrier's ring, in `next` and `prev`.
    Aside,
    /// In wait queues, by its waiter nodes; perhaps with a deadline.
    Waiting,
    /// With a deadline and in no queue.
    Sleeping,
    /// Suspended with no wait going on, or not resumed since it was spawned suspended.
    Halted,
    /// Made for a timer that has not fired.
    Prepared,
    /// Out in a foreign call.
    Foreign,
    /// Ended, and not yet forgotten.
    Dead,
}

/// How many phases there are: for counts by phase.
pub(super) const PHASES: usize = Phase::Dead as usize + 1;

/// One slot. Only the scheduler touches it.
#[derive(Debug)]
pub(super) struct Process {
    /// The links of the one ring that the process is in; of the free list.
    pub(super) next: u32,
    pub(super) prev: u32,
    pub(super) generation: NonZeroU32,
    /// The priority it has now: its own, or a more urgent one inherited through a mutex it holds.
    pub(super) priority: Priority,
    /// The priority it was given.
    pub(super) own_priority: Priority,
    pub(super) phase: Phase,
    pub(super) suspended: bool,
    pub(super) preemptible: bool,
    pub(super) daemon: bool,
    pub(super) quiet: bool,
    pub(super) started: bool,
    /// How many critical sections it is inside of.
    pub(super) critical: u32,
    /// How many it left when it suspended itself, and takes again when it runs.
    pub(super) critical_left: u32,
    /// How many kills it got.
    pub(super) kills: u32,
    /// It is where the first kill has to wait.
    pub(super) holds_kills: bool,
    /// `wake` was written and not read.
    pub(super) has_wake: bool,
    pub(super) wake: Wake,
    /// The first of its waiter nodes.
    pub(super) waiters: u32,
    /// What it locks again before a condition's wait ends.
    pub(super) relock: Option<MutexId>,
    /// The first of the mutexes it holds, by index.
    pub(super) held: u32,
    /// The first of its holds of locks for readers and writers.
    pub(super) holds: u32,
    /// The sentinel of the queue of those who join it, made for the first of them.
    pub(super) joiners: u32,
    /// What the user's bind asked for.
    pub(super) pin: Option<CarrierId>,
    /// Where its foreign frames are.
    pub(super) pinned: Option<CarrierId>,
    /// The carrier in whose list it is: that of `pinned`, else of `pin`.
    pub(super) carrier: u32,
    pub(super) carrier_next: u32,
    pub(super) carrier_prev: u32,
    /// The carrier it is out on, while its phase is `Foreign`.
    pub(super) foreign_on: u32,
    /// The guest's record of it.
    pub(super) user_data: usize,
    /// When it is to be done, in nanoseconds: the earliest goes first among equals. [`NO_DUE_TIME`]
    /// comes last.
    pub(super) due: u64,
}

/// No deadline orders a process among its equals.
pub(super) const NO_DUE_TIME: u64 = u64::MAX;

impl Process {
    fn free(next: u32) -> Process {
        Process {
            next,
            prev: NIL,
            generation: NonZeroU32::MIN,
            priority: Priority::DEFAULT,
            own_priority: Priority::DEFAULT,
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

    /// Whether the kill is to be raised at the next chance.
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

    /// Whether one more process fits; the table grows if it must and can.
    pub(super) fn make_room(&mut self) -> bool {
        self.free != NIL || super::room::make_room(&mut self.slots, 1)
    }

    /// Takes a slot back: its ids are stale from here on.
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
