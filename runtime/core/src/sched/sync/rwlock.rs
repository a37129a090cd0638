//! Locks for many readers or one writer: owned, not recursive, with priority inheritance.
//!
//! The first waiter is let in as soon as the processes inside allow it. Only a more urgent process
//! may pass it. So a waiting writer keeps later readers out until it has had the lock, and
//! consecutive waiting readers are let in together. If a writer ends inside, each later lock gets
//! `Abandoned`, up to and including the next writer's.
//!
//! Each process inside inherits the priority of the waiters. A *hold* is one process inside one
//! lock: it is in the list of the process and in that of the lock.

use crate::sched::slab::{NIL, Slab};
use crate::sched::wait::waiters::{Kind, Ticket, WaitQueue};
use crate::sched::{Attempt, Deadline, NotOwner, Recursive, RwLockId, Scheduler, Wake, WakeReason};

#[derive(Debug)]
pub(in crate::sched) struct RwLock {
    /// The process inside is a writer.
    pub(in crate::sched) is_written: bool,
    /// A writer ended inside, and no writer has locked it since.
    is_abandoned: bool,
    /// The first of the holds of this lock.
    pub(in crate::sched) holds: u32,
    /// The priority of the first waiter, 0 if there is none: the processes inside inherit it.
    pub(in crate::sched) lent: u8,
    pub(in crate::sched) waiters: WaitQueue,
}

/// One process inside one lock.
#[derive(Debug)]
pub(in crate::sched) struct Hold {
    pub(in crate::sched) process: u32,
    pub(in crate::sched) lock: u32,
    pub(in crate::sched) next_of_process: u32,
    prev_of_process: u32,
    pub(in crate::sched) next_of_lock: u32,
    prev_of_lock: u32,
}

/// All holds, and the locks whose admission is in progress.
#[derive(Debug)]
pub(in crate::sched) struct Holds {
    slab: Slab<Hold>,
    /// Locks to admit waiters to, after the present one.
    to_admit: Vec<u32>,
    is_admitting: bool,
    /// The lock that admits its first waiters now, or `NIL`.
    admitting: u32,
}

impl Holds {
    pub(in crate::sched) const fn new() -> Holds {
        Holds {
            slab: Slab::new(),
            to_admit: Vec::new(),
            is_admitting: false,
            admitting: NIL,
        }
    }

    #[inline]
    pub(in crate::sched) fn at(&self, index: u32) -> Option<&Hold> {
        self.slab.at(index)
    }

    /// Reserves memory for one more process inside a lock that waits for another one.
    pub(in crate::sched) fn make_room(&mut self) -> bool {
        self.slab.make_room() && crate::sched::room::make_room(&mut self.to_admit, 1)
    }

    #[cfg(test)]
    pub(in crate::sched) fn in_use(&self) -> usize {
        assert!(self.to_admit.is_empty() && !self.is_admitting);
        self.slab.iter().count()
    }
}

impl<C> Scheduler<C> {
    /// Creates a lock with no process inside.
    ///
    /// ```
    /// use baton_core::sched::{Attempt, Deadline, Scheduler, SpawnOptions, Wake, WakeReason};
    ///
    /// let mut sched: Scheduler<()> = Scheduler::new(10);
    /// let lock = sched.rwlock_new();
    /// let done = Ok(Attempt::Ready(Wake::because(WakeReason::Done)));
    /// let reader = sched.spawn(SpawnOptions::default(), ())?;
    /// sched.spawn(SpawnOptions::default(), ())?;
    /// let _ = sched.schedule();
    /// assert_eq!(sched.rwlock_read(lock, Deadline::Never), done);
    /// let _ = sched.yield_current();
    /// assert_eq!(sched.rwlock_write(lock, Deadline::Never), Ok(Attempt::Blocked));
    /// let _ = sched.switch_to(reader);
    /// sched.rwlock_unlock(lock).expect("it is inside");
    /// assert_eq!(sched.rwlock_holders(lock), (1, true));
    /// # Ok::<(), baton_core::sched::ProcessLimit>(())
    /// ```
    pub fn rwlock_new(&mut self) -> RwLockId {
        let waiters = self.waiters.make_queue();
        RwLockId(self.rwlocks.insert(RwLock {
            is_written: false,
            is_abandoned: false,
            holds: NIL,
            lent: 0,
            waiters,
        }))
    }

    /// Locks for reading, together with other readers: `Done`, or `Abandoned` if a writer died
    /// inside and no writer has locked it since.
    ///
    /// # Errors
    ///
    /// [`Recursive`] if the current process is inside.
    pub fn rwlock_read(&mut self, id: RwLockId, deadline: Deadline) -> Result<Attempt, Recursive> {
        self.rwlock_enter(id, Kind::Read, deadline)
    }

    /// Locks for writing, alone: `Done`, or `Abandoned` if the last writer died inside.
    ///
    /// # Errors
    ///
    /// [`Recursive`] if the current process is inside.
    pub fn rwlock_write(&mut self, id: RwLockId, deadline: Deadline) -> Result<Attempt, Recursive> {
        self.rwlock_enter(id, Kind::Write, deadline)
    }

    /// Unlocks: the current process leaves the lock.
    ///
    /// # Errors
    ///
    /// [`NotOwner`] if it is not inside.
    pub fn rwlock_unlock(&mut self, id: RwLockId) -> Result<(), NotOwner> {
        self.rwlock_give_back(id, false)
    }

    /// Gives back a lock that was locked last, by a process that cannot use it. If a writer got it
    /// as abandoned, so does the next process.
    ///
    /// # Errors
    ///
    /// [`NotOwner`] if the current process is not inside.
    pub fn rwlock_give_back(&mut self, id: RwLockId, is_abandoned: bool) -> Result<(), NotOwner> {
        if self.current == NIL || self.rwlocks.get(id.0).is_none() {
            return Err(NotOwner);
        }
        let hold = self.hold_of(self.current, id.0.index).ok_or(NotOwner)?;
        self.leave_rwlock(hold, is_abandoned);
        Ok(())
    }

    /// How many processes are inside, and whether it is a writer.
    pub fn rwlock_holders(&self, id: RwLockId) -> (usize, bool) {
        let Some(lock) = self.rwlocks.get(id.0) else {
            return (0, false);
        };
        (self.holds_of_lock(lock.holds).count(), lock.is_written)
    }

    /// Frees a lock; its waiters get `Closed`. Returns whether it existed.
    pub fn rwlock_free(&mut self, id: RwLockId) -> bool {
        let Some(lock) = self.rwlocks.get(id.0) else {
            return false;
        };
        let waiters = lock.waiters;
        let mut inside = Vec::new();
        while let Some(hold) = self.first_hold(id.0.index) {
            inside.push(self.remove_hold(hold));
        }
        self.rwlocks.remove(id.0);
        self.close_queue(waiters);
        inside.into_iter().for_each(|process| self.inherit(process));
        true
    }

    /// Makes a dead process leave all locks that it is inside of.
    pub(in crate::sched) fn abandon_rwlocks(&mut self, index: u32) {
        while self.processes[index].holds != NIL {
            self.leave_rwlock(self.processes[index].holds, true);
        }
    }

    /// The highest priority that the locks of a process lend to it.
    pub(in crate::sched) fn lent_by_rwlocks(&self, index: u32) -> u8 {
        let follow = |hold: &u32| self.holds.at(*hold).map(|hold| hold.next_of_process);
        let holds = std::iter::successors(Some(self.processes[index].holds), follow);
        let locks = holds.filter_map(|hold| self.rwlocks.at(self.holds.at(hold)?.lock));
        locks.map(|lock| lock.lent).max().unwrap_or(0)
    }

    /// Admits waiters after a change of a lock's queue or holders, and updates inherited
    /// priorities. If another lock is being processed, this one is only queued. So a long chain of
    /// locks needs no deep stack.
    pub(in crate::sched) fn admit_to_rwlock(&mut self, lock: u32) {
        if self.holds.admitting == lock {
            return;
        }
        self.holds.to_admit.push(lock);
        if std::mem::replace(&mut self.holds.is_admitting, true) {
            return;
        }
        while let Some(lock) = self.holds.to_admit.pop() {
            self.holds.admitting = lock;
            self.admit(lock);
            self.holds.admitting = NIL;
            self.lend(lock);
        }
        self.holds.is_admitting = false;
    }

    fn rwlock_enter(
        &mut self,
        id: RwLockId,
        kind: Kind,
        deadline: Deadline,
    ) -> Result<Attempt, Recursive> {
        let me = match self.may_wait() {
            Ok(me) => me,
            Err(answer) => return Ok(answer),
        };
        let Some(lock) = self.rwlocks.get(id.0) else {
            return Ok(Attempt::because(WakeReason::Closed));
        };
        let waiters = lock.waiters;
        if self.hold_of(me, id.0.index).is_some() {
            return Err(Recursive);
        }
        let first = self
            .waiters
            .first(waiters)
            .map(|node| self.waiters.node(node).process);
        let priority = self.processes[me].priority;
        let passes =
            first.is_none_or(|first| priority.is_more_urgent_than(self.processes[first].priority));
        if passes && self.admits(id.0.index, kind) {
            let reason = self.add_hold(id.0.index, me, kind);
            self.inherit(me);
            return Ok(Attempt::because(reason));
        }
        let attempt = self.wait_in(me, waiters, Ticket::new(kind, id.0.index), deadline);
        self.admit_to_rwlock(id.0.index);
        Ok(attempt)
    }

    /// Whether the processes inside allow one more of this kind.
    fn admits(&self, lock: u32, kind: Kind) -> bool {
        self.rwlocks
            .at(lock)
            .is_some_and(|lock| lock.holds == NIL || (kind == Kind::Read && !lock.is_written))
    }

    /// Lets the first waiters in, as long as the lock admits them.
    fn admit(&mut self, lock: u32) {
        while let Some(node) = self
            .rwlocks
            .at(lock)
            .and_then(|lock| self.waiters.first(lock.waiters))
        {
            let node = self.waiters.node(node);
            let (kind, next) = (node.ticket.kind, node.process);
            if !self.admits(lock, kind) {
                return;
            }
            let reason = self.add_hold(lock, next, kind);
            self.wake_process(next, Wake::because(reason));
            self.inherit(next);
        }
    }

    /// Lends the first waiter's priority to the processes inside, if it has changed.
    fn lend(&mut self, index: u32) {
        let Some(lock) = self.rwlocks.at(index) else {
            return;
        };
        let first = self
            .waiters
            .first(lock.waiters)
            .map(|node| self.waiters.node(node).process);
        let due = first.map_or(0, |first| self.processes[first].priority.get());
        if due == lock.lent {
            return;
        }
        let holds = self
            .holds_of_lock(lock.holds)
            .filter_map(|hold| self.holds.at(hold));
        let inside: Vec<u32> = holds.map(|hold| hold.process).collect();
        if let Some(lock) = self.rwlocks.at_mut(index) {
            lock.lent = due;
        }
        inside.into_iter().for_each(|process| self.inherit(process));
    }

    fn leave_rwlock(&mut self, hold: u32, abandons: bool) {
        let Some(lock) = self.holds.at(hold).map(|hold| hold.lock) else {
            return;
        };
        let process = self.remove_hold(hold);
        if let Some(lock) = self.rwlocks.at_mut(lock) {
            lock.is_abandoned |= abandons && lock.is_written;
            lock.is_written = false;
        }
        self.inherit(process);
        self.admit_to_rwlock(lock);
    }

    /// The hold of a process on a lock.
    fn hold_of(&self, process: u32, lock: u32) -> Option<u32> {
        let mut hold = self.processes[process].holds;
        while let Some(found) = self.holds.at(hold) {
            if found.lock == lock {
                return Some(hold);
            }
            hold = found.next_of_process;
        }
        None
    }

    fn first_hold(&self, lock: u32) -> Option<u32> {
        self.rwlocks
            .at(lock)
            .map(|lock| lock.holds)
            .filter(|&first| first != NIL)
    }

    pub(in crate::sched) fn holds_of_lock(&self, first: u32) -> impl Iterator<Item = u32> {
        let follow =
            |&hold: &u32| Some(self.holds.at(hold)?.next_of_lock).filter(|&next| next != NIL);
        std::iter::successors(Some(first).filter(|&first| first != NIL), follow)
    }

    /// Puts a process inside a lock that admits it. Returns `Done`, or `Abandoned`.
    fn add_hold(&mut self, lock: u32, process: u32, kind: Kind) -> WakeReason {
        let Some(found) = self.rwlocks.at_mut(lock) else {
            return WakeReason::Closed;
        };
        found.is_written = kind == Kind::Write;
        let is_abandoned = found.is_abandoned;
        found.is_abandoned &= kind == Kind::Read;
        let next_of_lock = found.holds;
        let next_of_process = self.processes[process].holds;
        let key = self.holds.slab.insert(Hold {
            process,
            lock,
            next_of_process,
            prev_of_process: NIL,
            next_of_lock,
            prev_of_lock: NIL,
        });
        let index = key.index;
        found.holds = index;
        self.processes[process].holds = index;
        if let Some(next) = self.holds.slab.at_mut(next_of_lock) {
            next.prev_of_lock = index;
        }
        if let Some(next) = self.holds.slab.at_mut(next_of_process) {
            next.prev_of_process = index;
        }
        if is_abandoned {
            WakeReason::Abandoned
        } else {
            WakeReason::Done
        }
    }

    /// Removes a hold from both of its lists. Returns its process.
    fn remove_hold(&mut self, index: u32) -> u32 {
        let Some(hold) = self
            .holds
            .slab
            .key_at(index)
            .and_then(|key| self.holds.slab.remove(key))
        else {
            return NIL;
        };
        if let Some(next) = self.holds.slab.at_mut(hold.next_of_lock) {
            next.prev_of_lock = hold.prev_of_lock;
        }
        if let Some(next) = self.holds.slab.at_mut(hold.next_of_process) {
            next.prev_of_process = hold.prev_of_process;
        }
        match self.holds.slab.at_mut(hold.prev_of_lock) {
            Some(prev) => prev.next_of_lock = hold.next_of_lock,
            None => {
                if let Some(lock) = self.rwlocks.at_mut(hold.lock) {
                    lock.holds = hold.next_of_lock;
                }
            }
        }
        match self.holds.slab.at_mut(hold.prev_of_process) {
            Some(prev) => prev.next_of_process = hold.next_of_process,
            None => self.processes[hold.process].holds = hold.next_of_process,
        }
        hold.process
    }
}
