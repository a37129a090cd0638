//! The scheduler's vocabulary: what it is asked with and what it answers.

use baton_sys::clock::Instant;

use super::ProcessId;

/// How urgent a process is: 1 to 80, higher is more urgent.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Priority(u8);

impl Priority {
    /// The least urgent.
    pub const LOWEST: Priority = Priority(1);
    /// What a process has if nobody says otherwise.
    pub const DEFAULT: Priority = Priority(40);
    /// The most urgent.
    pub const HIGHEST: Priority = Priority(80);
    /// Above all that can be given: the level of a process in a critical section, which it has for
    /// itself.
    pub(super) const CRITICAL: Priority = Priority(81);

    /// `None` outside of 1 to 80.
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

    /// Whether a process of this priority goes before one of `other`.
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

    /// The highest that can be given, in place of the level above.
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
    /// Not at all: what cannot be done at once is answered with [`WakeReason::TimedOut`].
    Now,
    /// Until then.
    At(Instant),
}

/// Why a wait ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum WakeReason {
    /// What was waited for came.
    Done,
    /// The deadline came first.
    TimedOut,
    /// The channel was closed, or the object was freed.
    Closed,
    /// There was no living process to do it: nobody is current, or a process joined itself.
    Dead,
    /// The mutex is locked now, and its last owner died holding it: what it guards may be half
    /// changed.
    Abandoned,
    /// The waiting process was killed.
    Killed,
    /// The wait was broken off for the sake of a signal; the process raises an error that it may
    /// handle.
    Interrupted,
    /// The process is in a critical section, and would have had to wait.
    Forbidden,
}

/// How a wait ended: what the process that waited reads when it runs again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wake {
    /// Why it ended.
    pub reason: WakeReason,
    /// The case of a select that was completed, from 0; else 0.
    pub case: u32,
    /// What was received, or what the waker passed; else 0.
    pub value: u64,
}

impl Wake {
    /// A wake with a reason only.
    #[inline]
    pub const fn because(reason: WakeReason) -> Wake {
        Wake {
            reason,
            case: 0,
            value: 0,
        }
    }
}

/// What came of an operation that may wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Attempt {
    /// It is over, and the current process goes on.
    Ready(Wake),
    /// The current process was put to wait, and nobody is current: the caller asks `schedule` and
    /// switches. When the process runs again it reads `take_wake`.
    Blocked,
}

impl Attempt {
    #[inline]
    pub(super) const fn because(reason: WakeReason) -> Attempt {
        Attempt::Ready(Wake::because(reason))
    }
}

/// Who runs next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Next {
    /// The process that was current still is.
    Same,
    /// This one is current now. After a wait that ended before anybody else ran, it is the very
    /// process that waited.
    Other(ProcessId),
    /// Nobody can run, and nobody is current.
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

/// What a process is doing, as `p:status()` tells it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum State {
    /// It is the current one.
    Running,
    /// It could run.
    Runnable,
    /// It waits for something other than time.
    Waiting,
    /// It waits for a time.
    Sleeping,
    /// It was suspended, whatever else it may be doing.
    Suspended,
    /// It is out in a foreign call, and the VM went on without it.
    Foreign,
    /// It has ended.
    Dead,
}

/// What came of suspending a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum SuspendOutcome {
    /// It is suspended. If it waits, the wait goes on; if it is out in a foreign call, it stops
    /// when it returns.
    Suspended,
    /// The current process suspended itself: nobody is current, and the caller asks `schedule` and
    /// switches.
    CurrentMustSwitch,
    /// It was suspended before.
    Already,
    /// Its kill is due, so it was not suspended; if it is the current process, it is to raise the
    /// kill now.
    Killed,
    /// It has ended.
    Dead,
}

/// What came of resuming a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum ResumeOutcome {
    /// It goes on: it is runnable, or its wait goes on.
    Resumed,
    /// There was nothing to do.
    NotSuspended,
    /// It has ended.
    Dead,
}

/// What came of killing a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum KillOutcome {
    /// It was blocked, and goes on with [`WakeReason::Killed`].
    Woken,
    /// It is runnable, out in a foreign call or not yet fired by its timer: it will see the kill at
    /// its next safepoint.
    Pending,
    /// It holds kills back, and this is the first one.
    Held,
    /// It has ended.
    AlreadyDead,
    /// It is the current process: the caller raises the kill now.
    IsCurrent,
}

/// There are as many processes as the limit allows.
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

/// The current process locked a mutex that it holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Recursive;

/// The current process does not hold the mutex.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotOwner;

/// The current process is in no critical section that it could leave.
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
