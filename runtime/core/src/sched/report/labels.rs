//! Texts for the objects of waits.

use crate::sched::describe_row;
use crate::sched::{Blocker, CensusRow, Scheduler, SharedKind, ThreadNames, WaitObject, Wording};

/// The object that a process waits for, without its holder: "the mutex 'accounts'". One that has no
/// name is told by its number.
///
/// ```
/// use baton_core::sched::*;
///
/// let mut sched: Scheduler<()> = Scheduler::new(10);
/// sched.spawn(SpawnOptions::default(), ()).expect("there is room");
/// let _ = sched.schedule();
/// let channel = sched.channel_new(0);
/// let _ = sched.channel_send(channel, 1, Deadline::Never);
/// let row = sched.census_row(0).expect("it lives");
/// let describe = |sched: &Scheduler<()>| {
///     describe_object(sched, &Wording::PLAIN, &ThreadNames::new(), &row)
/// };
/// assert_eq!(describe(&sched), "the channel 1, without a name (to send)");
/// sched.set_name(Blocker::Send(channel), "jobs");
/// assert_eq!(describe(&sched), "the channel 'jobs' (to send)");
/// ```
pub fn describe_object<C>(
    sched: &Scheduler<C>,
    wording: &Wording,
    names: &ThreadNames,
    row: &CensusRow,
) -> String {
    let text = match row.object {
        WaitObject::Nothing => "nothing",
        WaitObject::Turn => "its turn",
        WaitObject::Resume => "a resume",
        WaitObject::Call => "the end of a call",
        WaitObject::Time => "until a time",
        WaitObject::Join => "the end of a process (join)",
        WaitObject::Descriptor => "descriptor",
        WaitObject::Cases { .. } => return describe_row(sched, wording, names, row),
        WaitObject::Shared(_) | WaitObject::One(_) => return describe_one(sched, wording, row),
    };
    text.to_owned()
}

fn describe_one<C>(sched: &Scheduler<C>, wording: &Wording, row: &CensusRow) -> String {
    let Some(blocker) = row.waits_for else {
        return String::new();
    };
    let (kind, number) = match blocker {
        Blocker::Semaphore(id) => ("semaphore", id.0.index),
        Blocker::Mutex(id) => ("mutex", id.0.index),
        Blocker::Condition(id) => ("condition", id.0.index),
        Blocker::Event(id) => ("event", id.0.index),
        Blocker::Read(id) | Blocker::Write(id) => ("lock", id.0.index),
        Blocker::Barrier(id) => ("barrier", id.0.index),
        Blocker::Send(id) | Blocker::Receive(id) => ("channel", id.0.index),
        Blocker::Queue(_) => return wording.queue.to_owned(),
        Blocker::Alarm(_) => return named("timer", sched.name_of(blocker)),
        Blocker::Rest => return "the end of all other processes".to_owned(),
        Blocker::Thread(_) => return "a native thread that another process uses".to_owned(),
        Blocker::Shared(_, kind) => {
            let thing = match kind {
                SharedKind::Word => "shared word",
                SharedKind::Send | SharedKind::Receive => "channel between VMs",
            };
            return named(thing, sched.name_of(blocker)) + verb(blocker);
        }
        _ => return String::new(),
    };
    let verb = verb(blocker);
    match sched.name_of(blocker) {
        Some(name) => format!("the {kind} '{name}'{verb}"),
        None => format!("the {kind} {}, without a name{verb}", number + 1),
    }
}

/// Objects of the same kind as the one that a process waits for, without those that are told one by
/// one: "other channels (to receive)".
///
/// ```
/// use baton_core::sched::*;
///
/// let mut sched: Scheduler<()> = Scheduler::new(10);
/// sched.spawn(SpawnOptions::default(), ()).expect("there is room");
/// let _ = sched.schedule();
/// let channel = sched.channel_new(0);
/// let _ = sched.channel_send(channel, 1, Deadline::Never);
/// let row = sched.census_row(0).expect("it lives");
/// assert_eq!(describe_others(&row), "other channels (to send)");
/// ```
#[must_use]
pub fn describe_others(row: &CensusRow) -> String {
    let WaitObject::One(blocker) = row.object else {
        return "others".to_owned();
    };
    let kinds = match blocker {
        Blocker::Semaphore(_) => "semaphores",
        Blocker::Mutex(_) => "mutexes",
        Blocker::Condition(_) => "conditions",
        Blocker::Event(_) => "events",
        Blocker::Read(_) | Blocker::Write(_) => "locks",
        Blocker::Barrier(_) => "barriers",
        Blocker::Send(_) | Blocker::Receive(_) => "channels",
        Blocker::Alarm(_) => "timers",
        _ => "objects",
    };
    format!("other {kinds}{}", verb(blocker))
}

fn named(kind: &str, name: Option<&str>) -> String {
    match name {
        Some(name) => format!("the {kind} '{name}'"),
        None => format!("a {kind}"),
    }
}

/// What the process would do with the object.
fn verb(blocker: Blocker) -> &'static str {
    match blocker {
        Blocker::Send(_) | Blocker::Shared(_, SharedKind::Send) => " (to send)",
        Blocker::Receive(_) | Blocker::Shared(_, SharedKind::Receive) => " (to receive)",
        _ => "",
    }
}
