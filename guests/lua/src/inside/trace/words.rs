//! How a trace words what has happened.

use baton_core::sched::{Blocker, SharedKind, WakeReason};
use baton_core::trace::Left;

/// A process: "process 7", or "process 7 'name'".
pub(super) fn title(number: u64, name: &str) -> String {
    match name {
        "" => format!("process {number}"),
        name => format!("process {number} '{name}'"),
    }
}

/// How a wait has ended.
pub(super) fn of(reason: WakeReason) -> &'static str {
    match reason {
        WakeReason::Done => "has ended",
        WakeReason::TimedOut => "its time is over",
        WakeReason::Closed => "the object was closed",
        WakeReason::Dead => "it was impossible",
        WakeReason::Abandoned => "the last owner of the mutex has ended",
        WakeReason::Killed => "the process was killed",
        WakeReason::Interrupted => "a signal has interrupted it",
        WakeReason::Forbidden => "it was forbidden",
    }
}

/// Why a process that can go on was left.
pub(super) fn of_left(cause: Left) -> &'static str {
    match cause {
        Left::Yielded => "it yielded",
        Left::SliceOver => "its slice was over",
        Left::Outranked => "a more urgent process is runnable",
        Left::Moves => "it goes on elsewhere, or after a hook",
        Left::Waits => "it waits",
        Left::Suspended => "it is suspended",
        Left::Calls => "it is in a call",
        Left::Ended => "it has ended",
    }
}

/// What a process waits for. `name` is that of the object.
pub(super) fn of_wait(blocker: Blocker, name: Option<&str>) -> String {
    let (before, kind) = match blocker {
        Blocker::Sleep => return "sleeps".to_owned(),
        Blocker::Join(_) => return "waits for the end of another process".to_owned(),
        Blocker::Rest => return "waits for the end of all others".to_owned(),
        Blocker::Select(count) => return format!("waits in a select of {count} cases"),
        Blocker::Queue(_) => return "waits for a file, a connection or a module in use".to_owned(),
        Blocker::Descriptor(number) => return format!("waits for descriptor {number}"),
        Blocker::Descriptors(count) => return format!("waits for one of {count} descriptors"),
        Blocker::Thread(_) => return "waits for its native thread".to_owned(),
        Blocker::Alarm(_) => ("waits for", "timer"),
        Blocker::Semaphore(_) => ("waits for", "semaphore"),
        Blocker::Mutex(_) => ("waits for", "mutex"),
        Blocker::Condition(_) => ("waits for", "condition"),
        Blocker::Event(_) => ("waits for", "event"),
        Blocker::Read(_) => ("waits to read under", "lock"),
        Blocker::Write(_) => ("waits to write under", "lock"),
        Blocker::Barrier(_) => ("waits for others at", "barrier"),
        Blocker::Shared(_, SharedKind::Send) => ("waits to send to", "channel between VMs"),
        Blocker::Shared(_, SharedKind::Receive) => ("waits to receive from", "channel between VMs"),
        Blocker::Shared(_, SharedKind::Word) => ("waits at", "shared word"),
        Blocker::Send(_) => ("waits to send to", "channel"),
        Blocker::Receive(_) => ("waits to receive from", "channel"),
    };
    match name {
        Some(name) => format!("{before} the {kind} '{name}'"),
        None if kind == "event" => format!("{before} an {kind}"),
        None => format!("{before} a {kind}"),
    }
}
