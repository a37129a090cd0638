//! Mutexes: owned, not recursive, handed from owner to owner, with priority inheritance.
//!
//! An unlock hands the mutex to its first waiter, so a mutex with waiters is never free. If the
//! owner ended without unlocking it, the next owner gets `Abandoned`.

use crate::sched::process::Phase;
use crate::sched::slab::{Key, NIL};
use crate::sched::wait::waiters::{Kind, Ticket, WaitQueue};
use crate::sched::{
    Attempt, Deadline, MutexId, NotOwner, ProcessId, Recursive, Scheduler, Wake, WakeReason,
};

#[derive(Debug)]
pub(in crate::sched) struct Mutex {
    /// The process that holds it, or `NIL`.
    pub(in crate::sched) owner: u32,
    /// The last owner died holding it, and no process has locked it since.
    pub(super) is_abandoned: bool,
    pub(in crate::sched) waiters: WaitQueue,
    /// The other mutexes of the same owner.
    pub(in crate::sched) held_next: u32,
    pub(in crate::sched) held_prev: u32,
}

impl<C> Scheduler<C> {
    /// Creates a mutex, unlocked.
    pub fn mutex_new(&mut self) -> MutexId {
        let waiters = self.waiters.make_queue();
        MutexId(self.mutexes.insert(Mutex {
            owner: NIL,
            is_abandoned: false,
            waiters,
            held_next: NIL,
            held_prev: NIL,
        }))
    }

    /// Locks a mutex: `Done`, or `Abandoned` if it is locked but its last owner died holding it.
    ///
    /// # Errors
    ///
    /// [`Recursive`] if the current process holds it.
    pub fn mutex_lock(&mut self, id: MutexId, deadline: Deadline) -> Result<Attempt, Recursive> {
        let me = match self.may_wait() {
            Ok(me) => me,
            Err(answer) => return Ok(answer),
        };
        let Some(mutex) = self.mutexes.get(id.0) else {
            return Ok(Attempt::because(WakeReason::Closed));
        };
        let (owner, waiters) = (mutex.owner, mutex.waiters);
        if owner == me {
            return Err(Recursive);
        }
        if owner == NIL {
            return Ok(Attempt::because(self.own_mutex(id.0.index, me)));
        }
        let ticket = Ticket::new(Kind::Mutex, id.0.index);
        let attempt = self.wait_in(me, waiters, ticket, deadline);
        if attempt == Attempt::Blocked {
            self.inherit_from(owner, me);
        }
        Ok(attempt)
    }

    /// Unlocks a mutex.
    ///
    /// # Errors
    ///
    /// [`NotOwner`] if the current process does not hold it.
    pub fn mutex_unlock(&mut self, id: MutexId) -> Result<(), NotOwner> {
        self.mutex_give_back(id, false)
    }

    /// Gives back a mutex that was locked last, by a process that cannot use it. If the process
    /// got it as abandoned, so does the next one.
    ///
    /// # Errors
    ///
    /// [`NotOwner`] if the current process does not hold it.
    pub fn mutex_give_back(&mut self, id: MutexId, is_abandoned: bool) -> Result<(), NotOwner> {
        match self.mutexes.get(id.0) {
            Some(mutex) if mutex.owner == self.current && mutex.owner != NIL => {
                let reason = match is_abandoned {
                    true => WakeReason::Abandoned,
                    false => WakeReason::Done,
                };
                self.hand_over(id.0.index, reason);
                Ok(())
            }
            _ => Err(NotOwner),
        }
    }

    /// The process that holds a mutex.
    pub fn mutex_owner(&self, id: MutexId) -> Option<ProcessId> {
        let owner = self.mutexes.get(id.0)?.owner;
        (owner != NIL).then(|| self.processes.id(owner))
    }

    /// Frees a mutex; its waiters get `Closed`. Returns whether it existed.
    pub fn mutex_free(&mut self, id: MutexId) -> bool {
        let Some(mutex) = self.mutexes.get(id.0) else {
            return false;
        };
        let (owner, waiters) = (mutex.owner, mutex.waiters);
        if owner != NIL {
            self.disown(id.0.index);
        }
        self.mutexes.remove(id.0);
        self.close_queue(waiters);
        if owner != NIL {
            self.inherit_less(owner);
        }
        true
    }

    /// Releases the mutexes of a dead process.
    pub(in crate::sched) fn abandon_mutexes(&mut self, index: u32) {
        while self.processes[index].held != NIL {
            self.hand_over(self.processes[index].held, WakeReason::Abandoned);
        }
    }

    /// Ends a condition's wait with `wake`, once the process holds the mutex again. Called again
    /// when it gets the mutex.
    pub(in crate::sched) fn relock(&mut self, index: u32, wake: Wake) {
        let Some(relock) = self.processes[index].relock else {
            return;
        };
        let MutexId(key) = relock.mutex;
        let Some(mutex) = self.mutexes.get(key) else {
            self.processes[index].relock = None;
            self.finish_wait(index, Wake::because(WakeReason::Closed));
            return;
        };
        let (owner, waiters) = (mutex.owner, mutex.waiters);
        if owner == index {
            let mut kept = self.processes[index].wake;
            kept.value = u64::from(wake.reason == WakeReason::Abandoned);
            self.processes[index].relock = None;
            self.finish_wait(index, kept);
        } else if owner == NIL {
            let mut wake = wake;
            wake.value = u64::from(self.own_mutex(key.index, index) == WakeReason::Abandoned);
            self.processes[index].relock = None;
            self.finish_wait(index, wake);
        } else {
            self.processes[index].wake = wake;
            self.enter_queue(index, waiters, Ticket::new(Kind::Mutex, key.index));
            self.inherit_from(owner, index);
        }
    }

    /// Whether a process waits to lock the mutex again after a condition's wait.
    pub(in crate::sched) fn is_relocking(&self, index: u32) -> bool {
        let process = &self.processes[index];
        process.phase == Phase::Waiting
            && process.relock.is_some()
            && process.waiters != NIL
            && self.waiters.node(process.waiters).ticket.kind == Kind::Mutex
    }

    /// Hands a mutex to its first waiter; it is free if there is none.
    pub(super) fn hand_over(&mut self, mutex: u32, reason: WakeReason) {
        let Some(owner) = self.mutexes.at(mutex).map(|mutex| mutex.owner) else {
            return;
        };
        self.disown(mutex);
        if let Some(mutex) = self.mutexes.at_mut(mutex) {
            mutex.is_abandoned = reason == WakeReason::Abandoned;
        }
        let waiters = self.mutexes.at(mutex).map(|mutex| mutex.waiters);
        if let Some(first) = waiters.and_then(|waiters| self.waiters.first(waiters)) {
            let node = self.waiters.node(first);
            let (next, case) = (node.process, node.ticket.case);
            let wake = Wake::because(self.own_mutex(mutex, next));
            self.wake_process(next, Wake { case, ..wake });
        }
        self.inherit_less(owner);
    }

    /// Makes a process the owner of a free mutex. Returns `Done`, or `Abandoned`.
    pub(super) fn own_mutex(&mut self, index: u32, owner: u32) -> WakeReason {
        let held_next = std::mem::replace(&mut self.processes[owner].held, index);
        if let Some(next) = self.mutexes.at_mut(held_next) {
            next.held_prev = index;
        }
        let Some(mutex) = self.mutexes.at_mut(index) else {
            return WakeReason::Closed;
        };
        mutex.owner = owner;
        mutex.held_next = held_next;
        mutex.held_prev = NIL;
        if std::mem::take(&mut mutex.is_abandoned) {
            WakeReason::Abandoned
        } else {
            WakeReason::Done
        }
    }

    /// Removes a mutex from its owner's list.
    fn disown(&mut self, index: u32) {
        let Some(mutex) = self.mutexes.at_mut(index) else {
            return;
        };
        let owner = std::mem::replace(&mut mutex.owner, NIL);
        let next = std::mem::replace(&mut mutex.held_next, NIL);
        let prev = std::mem::replace(&mut mutex.held_prev, NIL);
        if let Some(next) = self.mutexes.at_mut(next) {
            next.held_prev = prev;
        }
        match self.mutexes.at_mut(prev) {
            Some(prev) => prev.held_next = next,
            None => self.processes[owner].held = next,
        }
    }

    /// The id of the mutex at `index`.
    pub(in crate::sched) fn mutex_id(&self, index: u32) -> Option<MutexId> {
        self.mutexes.key_at(index).map(|key: Key| MutexId(key))
    }
}
