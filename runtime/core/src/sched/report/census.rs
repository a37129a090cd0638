//! All processes at one instant: what each waits for, and who may end that wait.
//!
//! A row is a few words, so that the rows of ten thousand processes are read in one short step.
//! Texts and stacks are made later, from the rows.

use crate::sched::time::deadlines::Owner;
use crate::sched::{Blocker, ProcessId, Scheduler, State, WaitObject};
use baton_sys::clock::Instant;
use std::time::Duration;

/// A process at the instant of the census.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CensusRow {
    /// The process.
    pub process: ProcessId,
    /// Its state.
    pub state: State,
    /// What it waits for, as [`Scheduler::blocker`] tells it.
    pub waits_for: Option<Blocker>,
    /// The object of that wait.
    pub object: WaitObject,
    /// Who may end the wait, as far as that is known.
    pub partner: Option<Partner>,
    /// How many processes hold the object.
    pub holders: u32,
    /// Nothing but the object ends the wait: it has no deadline, and is for one object.
    pub is_endless: bool,
    /// When its last run ended, as the executor counts time; 0: never. A process that has run since
    /// has another one.
    pub stamp: u64,
}

impl CensusRow {
    /// For how long the process had not run at the instant of the census; `None` if it ran, or had
    /// never run.
    #[must_use]
    pub fn idle_at(&self, instant: Instant) -> Option<Duration> {
        let has_left = self.stamp != 0 && self.state != State::Running;
        has_left.then(|| Duration::from_nanos(instant.as_nanos().saturating_sub(self.stamp)))
    }
}

/// A process that may end a wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Partner {
    /// The process. It may have ended since it did what `role` says.
    pub process: ProcessId,
    /// Why it may end the wait.
    pub role: Role,
}

/// Why a process may end a wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// It holds the lock. If several do, it is one of them.
    Holder,
    /// The wait is for its end.
    Target,
    /// It was the last one that received from the channel.
    LastReceiver,
    /// It was the last one that sent to the channel.
    LastSender,
    /// It was the last one that signalled the condition.
    LastSignaller,
}

impl Role {
    /// Whether only this process can end the wait. The others are guesses by the past.
    #[must_use]
    pub fn is_certain(self) -> bool {
        matches!(self, Role::Holder | Role::Target)
    }

    /// What it did, before the name of the process: "held by".
    #[must_use]
    pub fn before_name(self) -> &'static str {
        match self {
            Role::Holder => "held by",
            Role::Target => "the end of",
            Role::LastReceiver => "last received from by",
            Role::LastSender => "last sent to by",
            Role::LastSignaller => "last signalled by",
        }
    }
}

impl<C> Scheduler<C> {
    /// The row of the process at a place, if one lives there. Its stamp is 0.
    ///
    /// ```
    /// use baton_core::sched::{Deadline, Role, Scheduler, SpawnOptions, State};
    ///
    /// let mut sched: Scheduler<()> = Scheduler::new(10);
    /// let mut spawn = || sched.spawn(SpawnOptions::default(), ()).expect("there is room");
    /// let [holder, waiter] = [spawn(), spawn()];
    /// let mutex = sched.mutex_new();
    /// for process in [holder, waiter] {
    ///     let _ = sched.switch_to(process);
    ///     let _ = sched.mutex_lock(mutex, Deadline::Never);
    /// }
    /// let row = sched.census_row(1).expect("it lives");
    /// assert_eq!((row.process, row.state), (waiter, State::Waiting));
    /// let partner = row.partner.expect("somebody holds the mutex");
    /// assert_eq!((partner.process, partner.role), (holder, Role::Holder));
    /// ```
    pub fn census_row(&self, place: u32) -> Option<CensusRow> {
        let process = self.process_at(place)?;
        let state = self.state(process);
        let waits_for = match state {
            State::Running | State::Foreign | State::Dead => None,
            _ => self.blocker(process),
        };
        let object = self.wait_object(process, state, waits_for);
        let is_suspended = self.processes[place].suspended;
        let is_one = matches!(object, WaitObject::One(_) | WaitObject::Join);
        let has_deadline = || self.deadlines.of(Owner::Process(place)).is_some();
        let lock = waits_for.filter(|blocker| {
            matches!(
                blocker,
                Blocker::Mutex(_) | Blocker::Read(_) | Blocker::Write(_)
            )
        });
        let holders = lock.map_or(0, |lock| self.holders_of(lock).count());
        Some(CensusRow {
            process,
            state,
            waits_for,
            object,
            partner: waits_for.and_then(|blocker| self.partner(blocker)),
            holders: u32::try_from(holders).unwrap_or(u32::MAX),
            is_endless: is_one && !is_suspended && !has_deadline(),
            stamp: 0,
        })
    }

    /// Who may end a wait for an object.
    fn partner(&self, blocker: Blocker) -> Option<Partner> {
        let (process, role) = match blocker {
            Blocker::Mutex(_) | Blocker::Read(_) | Blocker::Write(_) => {
                (self.holders(blocker).next(), Role::Holder)
            }
            Blocker::Join(target) => (Some(target), Role::Target),
            Blocker::Send(channel) => {
                let channel = self.channels.get(channel.0)?;
                (channel.last_use.receiver, Role::LastReceiver)
            }
            Blocker::Receive(channel) => {
                let channel = self.channels.get(channel.0)?;
                (channel.last_use.sender, Role::LastSender)
            }
            Blocker::Condition(condition) => (
                self.last_signal(condition).and_then(|signal| signal.by),
                Role::LastSignaller,
            ),
            _ => return None,
        };
        let process = process?;
        Some(Partner { process, role })
    }
}
