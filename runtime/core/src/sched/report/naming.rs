//! Names of the objects that processes wait for; for reports.
//!
//! Few objects have a name, so names are kept apart from the objects.

use crate::sched::{Blocker, Scheduler};

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
