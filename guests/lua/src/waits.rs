//! What processes wait for, as text for reports.

use baton_core::sched::{Blocker, CarrierId, Link, ProcessId, Scheduler, State};
use baton_core::vm::Context;
use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_void};

unsafe extern "C" {
    fn baton_lua_title(process: *const c_void, text: *mut c_char) -> *const c_char;
}

/// `BATON_TITLE` of the C half.
const TITLE: usize = 80;

/// Names of native threads.
pub(crate) type ThreadNames = HashMap<CarrierId, String>;

/// The maximal number of cases of a select, and of holders of a lock, that are listed.
const MOST_TOLD: usize = 4;

/// How messages name a process: "process 7", or "process 7 'name'". Characters that a terminal
/// would act on are escaped.
fn title(user_data: usize) -> String {
    let mut text: [c_char; TITLE] = [0; TITLE];
    // SAFETY: the user data is a live record; the text has room for the longest title, and is ended
    // by a zero byte.
    let title = unsafe {
        CStr::from_ptr(baton_lua_title(
            user_data as *const c_void,
            text.as_mut_ptr(),
        ))
    };
    title.to_string_lossy().into_owned()
}

/// The record of a process, its state, and what it waits for.
pub(crate) fn describe(
    sched: &Scheduler<Context>,
    names: &ThreadNames,
    pid: ProcessId,
) -> (usize, &'static str, String) {
    let state = match sched.state(pid) {
        State::Running => "running",
        State::Runnable => "runnable",
        State::Waiting => "waiting",
        State::Sleeping => "sleeping",
        State::Suspended => "suspended",
        State::Foreign => "foreign",
        State::Dead => "dead",
    };
    (sched.user_data(pid), state, blocker(sched, names, pid))
}

/// What a process waits for: kind, name and holder. The text is empty if it waits for nothing.
pub(crate) fn blocker(sched: &Scheduler<Context>, names: &ThreadNames, pid: ProcessId) -> String {
    let Some(blocker) = sched.blocker(pid) else {
        return String::new();
    };
    match blocker {
        Blocker::Sleep => "until a time".into(),
        Blocker::Rest => "for the end of all other processes".into(),
        Blocker::Read(_) => format!("to read under {}", thing(sched, blocker)),
        Blocker::Write(_) => format!("to write under {}", thing(sched, blocker)),
        Blocker::Barrier(_) => format!("for others at {}", thing(sched, blocker)),
        Blocker::Send(_) => format!("to send to {}", thing(sched, blocker)),
        Blocker::Receive(_) => format!("to receive from {}", thing(sched, blocker)),
        Blocker::Select(0) => "in a select without cases".into(),
        Blocker::Select(count) => {
            format!("in a select of {count} cases: {}", cases(sched, pid, count))
        }
        Blocker::Thread(carrier) => match names.get(&carrier) {
            Some(name) => {
                format!("for the thread '{name}', which is out in a call of another process")
            }
            None => "for its native thread, which is out in a call of another process".into(),
        },
        _ => format!("for {}", thing(sched, blocker)),
    }
}

/// "a mutex", or "the mutex 'accounts', held by process 7 'clerk'".
pub(crate) fn thing(sched: &Scheduler<Context>, blocker: Blocker) -> String {
    let kind = match blocker {
        Blocker::Join(target) => {
            return format!("the end of {} (join)", title(sched.user_data(target)));
        }
        Blocker::Descriptor(number) => return format!("descriptor {number}"),
        Blocker::Descriptors(count) => return format!("one of {count} descriptors"),
        Blocker::Queue(_) => return "a file or a module in use".into(),
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
    for (number, holder) in sched.holders(blocker).take(MOST_TOLD).enumerate() {
        text += if number == 0 { ", held by " } else { " and " };
        text += &title(sched.user_data(holder));
    }
    match sched.holders(blocker).count().saturating_sub(MOST_TOLD) {
        0 => text,
        more => text + &format!(" and {more} more"),
    }
}

/// A list of the first cases of a select.
fn cases(sched: &Scheduler<Context>, pid: ProcessId, count: usize) -> String {
    let mut blockers: Vec<Blocker> = sched.blockers(pid).collect();
    blockers.reverse();
    let told: Vec<String> = blockers
        .iter()
        .take(MOST_TOLD)
        .map(|&case| thing(sched, case))
        .collect();
    let rest = if count > MOST_TOLD { "; ..." } else { "" };
    told.join("; ") + rest
}

/// A text for a cycle of locks, with all its processes and locks.
pub(crate) fn cycle(sched: &Scheduler<Context>, links: &[Link]) -> String {
    let tell = |link: &Link| {
        let process = title(sched.user_data(link.process));
        format!("{process} waits for {}", thing(sched, link.waits_for))
    };
    links.iter().map(tell).collect::<Vec<_>>().join("; ")
}
