//! Arguments and results of the scheduler's operations.

use baton_sys::clock::Instant;

use super::ProcessId;

/// How urgent a process is: 1 to 80, higher is more urgent.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Priority(u8);

impl Priority {
    /// The least urgent.
    pub const LOWEST: Priority = Priority(1);
    /// The priority of a process that is given none.
    pub const DEFAULT: Priority = Priority(40);
    /// The most urgent.
    pub const HIGHEST: Priority = Priority(80);
    /// The level of a process in a critical section: above all priorities that can be given.
    pub(super) const CRITICAL: Priority = Priority(81);

    /// The priority of this number; `None` outside of 1 to 80.
    #[inline]
    pub const fn new(level: u8) -> Option<Priority> {
        if level >= 1 && level <= 80 {
            Some(Priority(level))
        } else {
            None
        }
    }

    /// The number, 1 to 80.
    #[inline]
    pub const fn get(self) -> u8 {
        self.0
    }

    /// Whether a process of this priority runs before one of `other`.
    ///
    /// ```
    /// use baton_core::sched::Priority;
    ///
    /// let urgent = Priority::new(60).expect("from 1 to 80");
    /// assert!(urgent.is_more_urgent_than(Priority::DEFAULT));
    /// assert!(!urgent.is_more_urgent_than(urgent));
    /// assert_eq!(Priority::new(81), None);
    /// ```
    #[inline]
    pub const fn is_more_urgent_than(self, other: Priority) -> bool {
        self.0 > other.0
    }

    /// This priority, or [`Priority::HIGHEST`] for [`Priority::CRITICAL`], which cannot be given.
    #[inline]
    pub(super) const fn or_highest(self) -> Priority {
        if self.0 > Priority::HIGHEST.0 {
            Priority::HIGHEST
        } else {
            self
        }
    }

    /// The more urgent of the two.
    #[inline]
    pub(super) const fn or_more_urgent(self, other: Priority) -> Priority {
        if other.0 > self.0 { other } else { self }
    }
}

impl Default for Priority {
    fn default() -> Self {
        Priority::DEFAULT
    }
}

/// How long an operation may wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Deadline {
    /// For ever.
    Never,
    /// Not at all: an operation that would have to wait ends with [`WakeReason::TimedOut`].
    Now,
    /// Until this time.
    At(Instant),
}

/// Why a wait ended. The numbers are those of `enum baton_reason` in `baton.h`.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum WakeReason {
    /// The wait was successful.
    Done,
    /// The deadline came first.
    TimedOut,
    /// The channel was closed, or the object was freed.
    Closed,
    /// The operation is impossible: there is no current process, or a process joined itself.
    Dead,
    /// The mutex is locked now. Its last owner ended while it held it, so the data may be
    /// inconsistent.
    Abandoned,
    /// The waiting process was killed.
    Killed,
    /// A signal interrupted the wait. The process raises an error that it may handle.
    Interrupted,
    /// The process is in a critical section, so it must not wait.
    Forbidden = 8,
}

/// How a wait ended. The process reads it when it runs again. In C, this is `struct baton_wake`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wake {
    /// Why it ended.
    pub reason: WakeReason,
    /// The case of a select that was completed, from 0; else 0.
    pub case: u32,
    /// The received value, or the value that the waker passed; else 0.
    pub value: u64,
}

impl Wake {
    /// A wake with a reason, and no case or value.
    #[inline]
    pub const fn because(reason: WakeReason) -> Wake {
        Wake {
            reason,
            case: 0,
            value: 0,
        }
    }
}

/// The result of an operation that may wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Attempt {
    /// The operation is complete, and the current process continues.
    Ready(Wake),
    /// The current process waits, and no process is current. The caller calls `schedule` and
    /// switches. When the process runs again it calls `take_wake`.
    Blocked,
}

impl Attempt {
    #[inline]
    pub(super) const fn because(reason: WakeReason) -> Attempt {
        Attempt::Ready(Wake::because(reason))
    }
}

/// The process to run next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Next {
    /// The current process, as before.
    Same,
    /// This process, which is current now. It can be the process that just began to wait, if the
    /// wait has already ended.
    Other(ProcessId),
    /// No process can run, and none is current.
    Nothing,
}

/// Why a running process is made to give way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Preemption {
    /// A more urgent process can run: the current one keeps its place at the head of its level.
    MoreUrgent,
    /// Its slice is over: it goes to the back of its level.
    SliceExpired,
}

/// The state of a process, as `p:status()` returns it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum State {
    /// It is the current process.
    Running,
    /// It may be chosen to run.
    Runnable,
    /// It waits, with or without a deadline.
    Waiting,
    /// It sleeps until a time.
    Sleeping,
    /// It is suspended, whatever else its state is.
    Suspended,
    /// It is out in a foreign call, and the VM runs other processes.
    Foreign,
    /// It has ended.
    Dead,
}

/// The result of suspending a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum SuspendOutcome {
    /// It is suspended. A wait of it continues. If it is out in a foreign call, it stops when it
    /// returns.
    Suspended,
    /// The current process suspended itself, and no process is current. The caller calls `schedule`
    /// and switches.
    CurrentMustSwitch,
    /// It was suspended already.
    Already,
    /// It must be killed, so it was not suspended. If it is the current process, it raises the kill
    /// now.
    Killed,
    /// It has ended.
    Dead,
}

/// The result of resuming a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum ResumeOutcome {
    /// It is resumed: it is runnable, or its wait continues.
    Resumed,
    /// It was not suspended.
    NotSuspended,
    /// It has ended.
    Dead,
}

/// The result of killing a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum KillOutcome {
    /// It was blocked, and is woken with [`WakeReason::Killed`].
    Woken,
    /// It is runnable, out in a foreign call, or not yet fired by its timer. The kill takes effect
    /// at its next safepoint.
    Pending,
    /// It holds kills, and this is the first one: the kill is deferred.
    Held,
    /// It has ended.
    AlreadyDead,
    /// It is the current process: the caller raises the kill now.
    IsCurrent,
}

/// The error that there are as many processes as the limit allows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProcessLimit {
    /// The limit.
    pub limit: u32,
}

impl std::fmt::Display for ProcessLimit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "too many processes (the limit is {})", self.limit)
    }
}

impl std::error::Error for ProcessLimit {}

/// The error that the current process already holds the lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Recursive;

/// The error that the current process does not hold the lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotOwner;

/// The error that the current process is in no critical section that it could leave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotCritical;

impl std::fmt::Display for Recursive {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the process holds this mutex already")
    }
}

impl std::error::Error for Recursive {}

impl std::fmt::Display for NotOwner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the process does not hold this mutex")
    }
}

impl std::error::Error for NotOwner {}

impl std::fmt::Display for NotCritical {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the process is not in a critical section")
    }
}

impl std::error::Error for NotCritical {}

/// What a process waits for at an object that several VMs share; for reports.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SharedKind {
    /// A message of a channel.
    Receive,
    /// Room in a channel.
    Send,
    /// A wake-up at a shared word.
    Word,
}
