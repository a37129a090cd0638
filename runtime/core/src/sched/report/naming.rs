//! Names of processes, and of the objects that they wait for; for reports.
//!
//! Few of them have a name, so names are kept apart. A guest that names its processes itself
//! ([`Wording`](crate::sched::Wording)) gives none here.

use crate::sched::{Blocker, ProcessId, Scheduler};

impl<C> Scheduler<C> {
    /// Names an object that processes may wait for. An empty name removes it.
    ///
    /// ```
    /// use baton_core::sched::{Blocker, Scheduler};
    ///
    /// let mut sched: Scheduler<()> = Scheduler::new(10);
    /// let channel = sched.channel_new(0);
    /// sched.set_name(Blocker::Receive(channel), "jobs");
    /// assert_eq!(sched.name_of(Blocker::Send(channel)), Some("jobs")); // it is the same object
    /// sched.set_name(Blocker::Receive(channel), "");
    /// assert_eq!(sched.name_of(Blocker::Receive(channel)), None);
    /// ```
    pub fn set_name(&mut self, object: Blocker, name: &str) {
        let object = object_of(object);
        if !name.is_empty() {
            self.names.insert(object, name.into());
        } else if !self.names.is_empty() {
            self.names.remove(&object);
        }
    }

    /// Names a process, until it is forgotten. An empty name removes the name.
    pub fn set_process_name(&mut self, pid: ProcessId, name: &str) {
        if name.is_empty() {
            self.forget_process_name(pid);
        } else {
            self.process_names.insert(pid, name.into());
        }
    }

    /// Removes the name of a process. Costs one comparison while no process has a name here.
    #[inline]
    pub(in crate::sched) fn forget_process_name(&mut self, pid: ProcessId) {
        if !self.process_names.is_empty() {
            self.process_names.remove(&pid);
        }
    }

    /// The name of a process, if it has one here.
    pub fn process_name(&self, pid: ProcessId) -> Option<&str> {
        if self.process_names.is_empty() {
            return None;
        }
        self.process_names.get(&pid).map(AsRef::as_ref)
    }

    /// The name of an object, if it has one.
    pub fn name_of(&self, object: Blocker) -> Option<&str> {
        self.names.get(&object_of(object)).map(AsRef::as_ref)
    }
}

/// One key for each object, whatever a process waits for there.
fn object_of(blocker: Blocker) -> Blocker {
    match blocker {
        Blocker::Send(channel) => Blocker::Receive(channel),
        Blocker::Write(lock) => Blocker::Read(lock),
        other => other,
    }
}
