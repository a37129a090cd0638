//! A process's wait for an object outside of this VM, which several VMs share.
//!
//! Such an object keeps its own queue of waiting processes, of all VMs, and decides which of them
//! goes on (`crate::shared`). Here is only the end of one wait: the object, by a post, or a process
//! of this VM calls [`Scheduler::shared_wake`]. The wait may be a case of a select.

use crate::sched::wait::waiters::{Kind, Ticket, WaitQueue};
use crate::sched::{
    Attempt, Blocker, Deadline, Scheduler, SharedKind, SharedWaitId, Wake, WakeReason,
};

#[derive(Debug)]
pub(in crate::sched) struct SharedWait {
    pub(in crate::sched) kind: SharedKind,
    pub(in crate::sched) is_woken: bool,
    /// The process that waits; empty once it was woken.
    pub(in crate::sched) waiters: WaitQueue,
}

impl<C> Scheduler<C> {
    /// Begins a wait of one process for a shared object. The name of the object, which may be
    /// empty, is for reports.
    ///
    /// ```
    /// use baton_core::sched::{Attempt, Deadline, Scheduler, SharedKind, SpawnOptions, WakeReason};
    ///
    /// let mut sched: Scheduler<()> = Scheduler::new(10);
    /// let waiter = sched.spawn(SpawnOptions::default(), ())?;
    /// let _ = sched.schedule();
    /// let wait = sched.shared_wait_new(SharedKind::Receive, "jobs");
    /// assert_eq!(sched.shared_wait(wait, Deadline::Never), Attempt::Blocked);
    /// assert_eq!(sched.shared_waits(), 1);
    /// assert!(sched.shared_wake(wait));
    /// let _ = sched.schedule();
    /// assert_eq!(sched.take_wake(waiter).reason, WakeReason::Done);
    /// assert!(sched.shared_wait_free(wait));
    /// assert!(!sched.shared_wake(wait)); // a late wake-up finds nothing
    /// # Ok::<(), baton_core::sched::ProcessLimit>(())
    /// ```
    pub fn shared_wait_new(&mut self, kind: SharedKind, name: &str) -> SharedWaitId {
        let waiters = self.waiters.make_queue();
        let id = SharedWaitId(self.shared_waits.insert(SharedWait {
            kind,
            is_woken: false,
            waiters,
        }));
        if !name.is_empty() {
            self.set_name(Blocker::Shared(id, kind), name);
        }
        id
    }

    /// Waits until [`Scheduler::shared_wake`] was called for this wait: `Done`.
    pub fn shared_wait(&mut self, id: SharedWaitId, deadline: Deadline) -> Attempt {
        let me = match self.may_wait() {
            Ok(me) => me,
            Err(answer) => return answer,
        };
        let Some(wait) = self.shared_waits.get(id.0) else {
            return Attempt::because(WakeReason::Closed);
        };
        if wait.is_woken {
            return Attempt::because(WakeReason::Done);
        }
        let (queue, ticket) = (wait.waiters, Ticket::new(Kind::Shared, id.0.index));
        let attempt = self.wait_in(me, queue, ticket, deadline);
        if attempt == Attempt::Blocked {
            self.waiting_for_shared += 1;
        }
        attempt
    }

    /// Makes a process wait in a select, as case `number`.
    pub(super) fn enter_shared_wait(&mut self, me: u32, id: SharedWaitId, number: u32) {
        let Some(wait) = self.shared_waits.get(id.0) else {
            return;
        };
        let ticket = Ticket {
            case: number,
            ..Ticket::new(Kind::Shared, id.0.index)
        };
        self.enter_queue(me, wait.waiters, ticket);
        self.waiting_for_shared += 1;
    }

    /// Ends a wait. Returns whether it was there and had not been ended.
    pub fn shared_wake(&mut self, id: SharedWaitId) -> bool {
        let Some(wait) = self.shared_waits.get_mut(id.0) else {
            return false;
        };
        if std::mem::replace(&mut wait.is_woken, true) {
            return false;
        }
        let waiters = wait.waiters;
        self.wake_each(waiters, Wake::because(WakeReason::Done));
        true
    }

    /// Whether a wait was ended by [`Scheduler::shared_wake`].
    pub fn shared_wait_is_over(&self, id: SharedWaitId) -> bool {
        self.shared_waits.get(id.0).is_none_or(|wait| wait.is_woken)
    }

    /// Forgets a wait. Returns whether it was there.
    pub fn shared_wait_free(&mut self, id: SharedWaitId) -> bool {
        let Some(wait) = self.shared_waits.remove(id.0) else {
            return false;
        };
        if !self.names.is_empty() {
            self.set_name(Blocker::Shared(id, wait.kind), "");
        }
        self.close_queue(wait.waiters);
        true
    }

    /// How many waits for shared objects are in progress. A process in a select has one for each
    /// such case.
    ///
    /// While other VMs run, a VM with such waits is not deadlocked: one of them may end a wait.
    pub fn shared_waits(&self) -> u32 {
        self.waiting_for_shared
    }
}
