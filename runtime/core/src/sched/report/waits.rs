//! What processes wait for, as text for reports.

use crate::sched::{Blocker, CarrierId, Link, ProcessId, Scheduler};
use std::collections::HashMap;

/// How a guest names what is its own.
#[derive(Clone, Copy, Debug)]
pub struct Wording {
    /// Names a process by its user data, such as "process 7 'clerk'".
    pub process: fn(usize) -> String,
    /// What processes wait for at a wait queue, such as "a file in use".
    pub queue: &'static str,
}

/// Names of native threads.
pub type ThreadNames = HashMap<CarrierId, String>;

/// The maximal number of cases of a select, and of holders of a lock, that are listed.
const MOST_TOLD: usize = 4;

/// What a process waits for: kind, name and holder. The text is empty if it waits for nothing.
///
/// ```
/// use baton_core::sched::*;
///
/// let mut sched: Scheduler<()> = Scheduler::new(10);
/// let holder = sched.spawn(SpawnOptions::default(), ()).expect("there is room");
/// assert_eq!(sched.schedule(), Next::Other(holder));
/// let mutex = sched.mutex_new();
/// sched.set_name(Blocker::Mutex(mutex), "accounts");
/// assert!(matches!(sched.mutex_lock(mutex, Deadline::Never), Ok(Attempt::Ready(_))));
/// let process = sched.spawn(SpawnOptions::default(), ()).expect("there is room");
/// assert_eq!(sched.yield_current(), Next::Other(process));
/// let attempt = sched.mutex_lock(mutex, Deadline::Never);
/// assert!(matches!(attempt, Ok(Attempt::Blocked)));
///
/// let wording = Wording { process: |user_data| format!("process {user_data}"), queue: "work" };
/// assert_eq!(
///     describe_wait(&sched, &wording, &ThreadNames::new(), process),
///     "for the mutex 'accounts', held by process 0"
/// );
/// assert_eq!(describe_wait(&sched, &wording, &ThreadNames::new(), holder), "");
/// ```
pub fn describe_wait<C>(
    sched: &Scheduler<C>,
    wording: &Wording,
    names: &ThreadNames,
    pid: ProcessId,
) -> String {
    let Some(blocker) = sched.blocker(pid) else {
        return String::new();
    };
    match blocker {
        Blocker::Sleep => "until a time".into(),
        Blocker::Rest => "for the end of all other processes".into(),
        Blocker::Read(_) => format!("to read under {}", thing(sched, wording, blocker)),
        Blocker::Write(_) => format!("to write under {}", thing(sched, wording, blocker)),
        Blocker::Barrier(_) => format!("for others at {}", thing(sched, wording, blocker)),
        Blocker::Send(_) => format!("to send to {}", thing(sched, wording, blocker)),
        Blocker::Receive(_) => format!("to receive from {}", thing(sched, wording, blocker)),
        Blocker::Select(0) => "in a select without cases".into(),
        Blocker::Select(count) => {
            format!(
                "in a select of {count} cases: {}",
                cases(sched, wording, pid, count)
            )
        }
        Blocker::Thread(carrier) => match names.get(&carrier) {
            Some(name) => {
                format!("for the thread '{name}', which is out in a call of another process")
            }
            None => "for its native thread, which is out in a call of another process".into(),
        },
        _ => format!("for {}", thing(sched, wording, blocker)),
    }
}

/// "a mutex", or "the mutex 'accounts', held by process 7 'clerk'".
fn thing<C>(sched: &Scheduler<C>, wording: &Wording, blocker: Blocker) -> String {
    let kind = match blocker {
        Blocker::Join(target) => {
            return format!(
                "the end of {} (join)",
                (wording.process)(sched.user_data(target))
            );
        }
        Blocker::Descriptor(number) => return format!("descriptor {number}"),
        Blocker::Descriptors(count) => return format!("one of {count} descriptors"),
        Blocker::Queue(_) => return wording.queue.into(),
        Blocker::Sleep | Blocker::Rest | Blocker::Select(_) | Blocker::Thread(_) => {
            return "something".into();
        }
        Blocker::Alarm(_) => "timer",
        Blocker::Semaphore(_) => "semaphore",
        Blocker::Mutex(_) => "mutex",
        Blocker::Condition(_) => "condition",
        Blocker::Event(_) => "event",
        Blocker::Read(_) | Blocker::Write(_) => "lock",
        Blocker::Barrier(_) => "barrier",
        Blocker::Send(_) | Blocker::Receive(_) => "channel",
    };
    let mut text = match sched.name_of(blocker) {
        Some(name) => format!("the {kind} '{name}'"),
        None if kind == "event" => "an event".into(),
        None => format!("a {kind}"),
    };
    let holders = holders(sched, wording, blocker);
    if !holders.is_empty() {
        text += ", held by ";
        text += &holders;
    }
    text
}

/// The processes that hold a lock: "process 7 'clerk' and process 8". Empty if nobody does.
fn holders<C>(sched: &Scheduler<C>, wording: &Wording, blocker: Blocker) -> String {
    let mut text = String::new();
    for (number, holder) in sched.holders(blocker).take(MOST_TOLD).enumerate() {
        text += if number == 0 { "" } else { " and " };
        text += &(wording.process)(sched.user_data(holder));
    }
    match sched.holders(blocker).count().saturating_sub(MOST_TOLD) {
        0 => text,
        more => text + &format!(" and {more} more"),
    }
}

/// As [`describe_wait`], with the holders of a lock apart: "for the mutex 'accounts'" and "process
/// 7". Both are empty if the process waits for nothing.
pub fn describe_wait_and_holder<C>(
    sched: &Scheduler<C>,
    wording: &Wording,
    names: &ThreadNames,
    pid: ProcessId,
) -> (String, String) {
    let mut text = describe_wait(sched, wording, names, pid);
    let holders = sched
        .blocker(pid)
        .map(|blocker| holders(sched, wording, blocker))
        .unwrap_or_default();
    if !holders.is_empty()
        && let Some(rest) = text.strip_suffix(&format!(", held by {holders}"))
    {
        text.truncate(rest.len());
    }
    (text, holders)
}

/// A list of the first cases of a select.
fn cases<C>(sched: &Scheduler<C>, wording: &Wording, pid: ProcessId, count: usize) -> String {
    let mut blockers: Vec<Blocker> = sched.blockers(pid).collect();
    blockers.reverse();
    let told: Vec<String> = blockers
        .iter()
        .take(MOST_TOLD)
        .map(|&case| thing(sched, wording, case))
        .collect();
    let rest = if count > MOST_TOLD { "; ..." } else { "" };
    told.join("; ") + rest
}

/// A text for a cycle of locks, with all its processes and locks.
pub fn describe_cycle<C>(sched: &Scheduler<C>, wording: &Wording, links: &[Link]) -> String {
    let tell = |link: &Link| {
        let process = (wording.process)(sched.user_data(link.process));
        format!(
            "{process} waits for {}",
            thing(sched, wording, link.waits_for)
        )
    };
    links.iter().map(tell).collect::<Vec<_>>().join("; ")
}
