//! Waits by object: all waits for one mutex are one, whoever holds it at the moment.

use crate::sched::wait::waiters::Kind;
use crate::sched::{Blocker, ProcessId, Scheduler, SharedKind, State};

/// What a wait is for. Waits for one object are equal.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum WaitObject {
    /// The process runs.
    Nothing,
    /// Its turn to run.
    Turn,
    /// A resume: it is suspended.
    Resume,
    /// The end of its call in C, beside which others run.
    Call,
    /// A time.
    Time,
    /// The end of a process, whichever.
    Join,
    /// Descriptors, whichever.
    Descriptor,
    /// An object that several VMs share, whichever.
    Shared(SharedKind),
    /// Several objects.
    Cases {
        /// How many.
        count: u32,
        /// A sum of which they are.
        which: u32,
        /// All of them are waits for work, or for a time.
        is_idle: bool,
    },
    /// This one.
    One(Blocker),
}

/// What a wait says of a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WaitClass {
    /// Others keep the process waiting.
    Object,
    /// It waits for work, or for a time.
    Idle,
    /// It could run.
    Turn,
}

impl WaitObject {
    /// What a wait for this says.
    #[must_use]
    pub fn class(self) -> WaitClass {
        match self {
            WaitObject::Turn | WaitObject::Nothing => WaitClass::Turn,
            WaitObject::Resume
            | WaitObject::Time
            | WaitObject::Descriptor
            | WaitObject::Shared(SharedKind::Receive)
            | WaitObject::Cases { is_idle: true, .. }
            | WaitObject::One(Blocker::Receive(_) | Blocker::Alarm(_) | Blocker::Rest) => {
                WaitClass::Idle
            }
            _ => WaitClass::Object,
        }
    }
}

impl<C> Scheduler<C> {
    /// The object of a wait.
    pub(super) fn wait_object(
        &self,
        process: ProcessId,
        state: State,
        waits_for: Option<Blocker>,
    ) -> WaitObject {
        match state {
            State::Running | State::Dead => return WaitObject::Nothing,
            State::Suspended => return WaitObject::Resume,
            State::Foreign => return WaitObject::Call,
            _ => {}
        }
        match waits_for {
            None => WaitObject::Turn,
            Some(Blocker::Sleep) => WaitObject::Time,
            Some(Blocker::Join(_)) => WaitObject::Join,
            Some(Blocker::Descriptor(_) | Blocker::Descriptors(_)) => WaitObject::Descriptor,
            Some(Blocker::Shared(_, kind)) => WaitObject::Shared(kind),
            Some(Blocker::Select(count)) => self.cases_of(process, count),
            Some(Blocker::Write(lock)) => WaitObject::One(Blocker::Read(lock)),
            Some(blocker) => WaitObject::One(blocker),
        }
    }

    fn cases_of(&self, process: ProcessId, count: u32) -> WaitObject {
        let (mut which, mut is_idle) = (0_u32, true);
        let index = self.processes.find(process).into_iter();
        for node in index.flat_map(|index| self.nodes_of(index)) {
            let (kind, object) = (node.ticket.kind, node.ticket.object);
            let sum = which.wrapping_mul(31).wrapping_add(kind as u32);
            which = sum.wrapping_mul(31).wrapping_add(object);
            is_idle &= matches!(kind, Kind::Receive | Kind::Alarm | Kind::Descriptor);
        }
        WaitObject::Cases {
            count,
            which,
            is_idle,
        }
    }
}
