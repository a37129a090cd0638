//! Priorities, given and inherited.
//!
//! The owner of a mutex is at least as urgent as the most urgent process that waits for it. If the
//! owner itself waits for a mutex, the owner of that one inherits in turn, and so on. The same
//! holds for each process inside a lock for readers and writers. An inherited priority ends when
//! the lock is left, or when the process that lent it stops waiting.

use crate::sched::process::Phase;
use crate::sched::slab::NIL;
use crate::sched::wait::waiters::Kind;
use crate::sched::{Priority, ProcessId, Scheduler};

impl<C> Scheduler<C> {
    /// The priority that a process was given; the default for a forgotten process. A process that
    /// has sunk keeps it.
    pub fn priority(&self, pid: ProcessId) -> Priority {
        self.processes.find(pid).map_or(Priority::DEFAULT, |index| {
            let process = &self.processes[index];
            process.decay.given(process.own_priority)
        })
    }

    /// The present priority of a process, inherited or its own.
    #[inline]
    pub fn effective_priority(&self, pid: ProcessId) -> Priority {
        self.processes.find(pid).map_or(Priority::DEFAULT, |index| {
            self.processes[index].priority.or_highest()
        })
    }

    /// Sets the priority of a process, which has not sunk then. It moves to the back of its new
    /// level; the current process moves to the head. Returns whether it is alive.
    ///
    /// ```
    /// use baton_core::sched::{Scheduler, Next, Priority, SpawnOptions};
    ///
    /// let mut sched: Scheduler<()> = Scheduler::new(10);
    /// let first = sched.spawn(SpawnOptions::default(), ())?;
    /// let second = sched.spawn(SpawnOptions::default(), ())?;
    /// assert_eq!(sched.schedule(), Next::Other(first));
    /// assert!(sched.set_priority(second, Priority::HIGHEST));
    /// assert!(sched.current_should_yield());
    /// assert_eq!(sched.schedule(), Next::Other(second));
    /// # Ok::<(), baton_core::sched::ProcessLimit>(())
    /// ```
    pub fn set_priority(&mut self, pid: ProcessId, priority: Priority) -> bool {
        let Some(index) = self.processes.find_alive(pid) else {
            return false;
        };
        self.forget_sinking(index);
        self.processes[index].own_priority = priority;
        self.inherit(index);
        true
    }

    /// Updates the present priority of a process, then that of the owner of the mutex that it waits
    /// for, and so on. The chain ends where nothing changes. It ends in a cycle of waiting owners,
    /// too, as priorities there only rise or only fall. A select may wait for several mutexes: each
    /// begins a chain.
    pub(in crate::sched) fn inherit(&mut self, index: u32) {
        let mut others = Vec::new();
        self.inherit_along(index, &mut others);
        while let Some(index) = others.pop() {
            self.inherit_along(index, &mut others);
        }
    }

    /// As [`Scheduler::inherit`], of a process to which no more is lent than before. If it has only
    /// its own priority, nothing changes.
    #[inline]
    pub(in crate::sched) fn inherit_less(&mut self, index: u32) {
        let process = &self.processes[index];
        if process.priority != process.own_priority {
            self.inherit(index);
        }
    }

    /// As [`Scheduler::inherit`], of the owner of a mutex that `waiter` has begun to wait for.
    #[inline]
    pub(in crate::sched) fn inherit_from(&mut self, owner: u32, waiter: u32) {
        let lent = self.processes[waiter].priority;
        if lent.is_more_urgent_than(self.processes[owner].priority) {
            self.inherit(owner);
        }
    }

    /// Follows one chain. Adds the starts of further chains to `others`.
    fn inherit_along(&mut self, index: u32, others: &mut Vec<u32>) {
        let mut index = index;
        loop {
            let priority = self.due_priority(index);
            let process = &self.processes[index];
            if priority == process.priority {
                return;
            }
            if priority.is_more_urgent_than(process.own_priority) && priority != Priority::CRITICAL
            {
                self.counters.priorities_inherited += 1;
            }
            self.move_to_level(index, priority);
            match self.owner_waited_for(index, others) {
                Some(owner) => index = owner,
                None => return,
            }
        }
    }

    /// The owner of a mutex.
    #[inline]
    pub(in crate::sched) fn owner_of_mutex(&self, mutex: u32) -> Option<u32> {
        let owner = self.mutexes.at(mutex)?.owner;
        (owner != NIL).then_some(owner)
    }

    fn due_priority(&self, index: u32) -> Priority {
        let process = &self.processes[index];
        if process.critical > 0 {
            return Priority::CRITICAL;
        }
        let mut priority = process.own_priority;
        let mut held = process.held;
        while let Some(mutex) = self.mutexes.at(held) {
            if let Some(first) = self.waiters.first(mutex.waiters) {
                let waiter = self.waiters.node(first).process;
                priority = priority.or_more_urgent(self.processes[waiter].priority);
            }
            held = mutex.held_next;
        }
        match Priority::new(self.lent_by_rwlocks(index)) {
            Some(lent) => priority.or_more_urgent(lent),
            None => priority,
        }
    }

    /// The owner of a mutex that a process waits for. Owners of its further mutexes go to `others`.
    fn owner_waited_for(&self, index: u32, others: &mut Vec<u32>) -> Option<u32> {
        let mut owners = self.owners_waited_for(index);
        let first = owners.next()?;
        others.extend(owners);
        Some(first)
    }

    /// The owners of the mutexes that a process waits for.
    pub(super) fn owners_waited_for(&self, index: u32) -> impl Iterator<Item = u32> {
        let mutexes = self
            .nodes_of(index)
            .filter(|node| node.ticket.kind == Kind::Mutex);
        mutexes.filter_map(|node| self.owner_of_mutex(node.ticket.object))
    }

    fn move_to_level(&mut self, index: u32, priority: Priority) {
        let phase = self.processes[index].phase;
        if matches!(phase, Phase::Ready | Phase::Aside) {
            self.leave_run_queue(index);
            self.processes[index].priority = priority;
            self.make_ready(index);
            return;
        }
        self.processes[index].priority = priority;
        let mut node = self.processes[index].waiters;
        while node != NIL {
            self.waiters.requeue(node, priority.get());
            let (sibling, ticket) = (
                self.waiters.node(node).sibling,
                self.waiters.node(node).ticket,
            );
            if matches!(ticket.kind, Kind::Read | Kind::Write) {
                // Lets the process in if it is the first now; otherwise lends its priority to those
                // inside.
                self.admit_to_rwlock(ticket.object);
                return;
            }
            node = sibling;
        }
    }
}
