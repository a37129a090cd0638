//! What processes wait for, as text for reports.

use crate::sched::{Blocker, CarrierId, CensusRow, Link, Partner, ProcessId, Role};
use crate::sched::{Scheduler, SharedKind};
use std::collections::HashMap;
use std::fmt::{self, Write};

/// How a guest names what is its own.
#[derive(Clone, Copy, Debug)]
pub struct Wording {
    /// Names a process by its user data, such as "process 7 'clerk'". `None`: by its id, and by the
    /// name that the scheduler knows.
    pub process: Option<fn(usize, &mut dyn Write) -> fmt::Result>,
    /// The number of a process, by its user data, as the guest counts processes.
    pub number: fn(usize) -> u64,
    /// The name that the program has given to a process; nothing if it has none.
    pub name: fn(usize, &mut dyn Write) -> fmt::Result,
    /// Names the foreign function that a process is in; nothing if that is not known.
    pub call: fn(usize, &mut dyn Write) -> fmt::Result,
    /// Names the place of the program where a process that does not run has stopped, such as a
    /// line; nothing if it is not known.
    pub place: fn(usize, &mut dyn Write) -> fmt::Result,
    /// What processes wait for at a wait queue, such as "a file in use".
    pub queue: &'static str,
}

impl Wording {
    /// Names that say nothing of the guest.
    pub const PLAIN: Wording = Wording {
        process: None,
        number: |user_data| user_data as u64,
        name: |_, _| Ok(()),
        call: |_, _| Ok(()),
        place: |_, _| Ok(()),
        queue: "something of the guest",
    };
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
/// let wording = Wording {
///     process: Some(|user_data, text| write!(text, "process {user_data}")),
///     ..Wording::PLAIN
/// };
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
    let mut text = String::new();
    // A string takes any text.
    let _ = write_wait(sched, wording, names, pid, &mut text);
    text
}

/// As [`describe_wait`], without an allocation.
pub(crate) fn write_wait<C>(
    sched: &Scheduler<C>,
    wording: &Wording,
    names: &ThreadNames,
    pid: ProcessId,
    text: &mut dyn Write,
) -> fmt::Result {
    let Some(blocker) = sched.blocker(pid) else {
        return Ok(());
    };
    if let Blocker::Select(count @ 1..) = blocker {
        return write_cases(sched, wording, pid, count as usize, text);
    }
    write_verb(names, blocker, text)?;
    write_thing(sched, wording, blocker, &Held::now(sched, blocker), text)
}

/// As [`describe_wait`], of the instant of a census: whoever held the lock then.
pub fn describe_row<C>(
    sched: &Scheduler<C>,
    wording: &Wording,
    names: &ThreadNames,
    row: &CensusRow,
) -> String {
    let mut text = String::new();
    // A string takes any text; here and below.
    let _ = match row.waits_for {
        None => Ok(()),
        waits_for if waits_for == sched.blocker(row.process) && row.holders != 1 => {
            write_wait(sched, wording, names, row.process, &mut text)
        }
        Some(Blocker::Select(count)) => write!(text, "in a select of {count} cases"),
        Some(blocker) => write_verb(names, blocker, &mut text).and_then(|()| {
            let held = Held::by(row.partner.filter(|partner| partner.role == Role::Holder));
            write_thing(sched, wording, blocker, &held, &mut text)
        }),
    };
    text
}

/// What comes before the object: "to send to ". All of the text if there is no object.
pub(super) fn write_verb(
    names: &ThreadNames,
    blocker: Blocker,
    text: &mut dyn Write,
) -> fmt::Result {
    if let Blocker::Thread(carrier) = blocker {
        match names.get(&carrier) {
            Some(name) => write!(text, "for the thread '{name}'")?,
            None => text.write_str("for its native thread")?,
        }
    }
    text.write_str(match blocker {
        Blocker::Sleep => "until a time",
        Blocker::Rest => "for the end of all other processes",
        Blocker::Select(0) => "in a select without cases",
        Blocker::Thread(_) => ", which is out in a call of another process",
        Blocker::Read(_) => "to read under ",
        Blocker::Write(_) => "to write under ",
        Blocker::Barrier(_) => "for others at ",
        Blocker::Send(_) | Blocker::Shared(_, SharedKind::Send) => "to send to ",
        Blocker::Receive(_) | Blocker::Shared(_, SharedKind::Receive) => "to receive from ",
        _ => "for ",
    })
}

/// "process 7 'clerk'".
pub(crate) fn write_process<C>(
    sched: &Scheduler<C>,
    wording: &Wording,
    pid: ProcessId,
    text: &mut dyn Write,
) -> fmt::Result {
    let Some(user_data) = sched.user_data(pid) else {
        return text.write_str("a process that has ended");
    };
    if let Some(process) = wording.process {
        return process(user_data, text);
    }
    write!(text, "process {}", pid.to_bits())?;
    match sched.process_name(pid) {
        Some(name) => write!(text, " '{name}'"),
        None => Ok(()),
    }
}

/// "a mutex", or "the mutex 'accounts', held by process 7 'clerk'".
pub(super) fn write_thing<C>(
    sched: &Scheduler<C>,
    wording: &Wording,
    blocker: Blocker,
    held: &Held,
    text: &mut dyn Write,
) -> fmt::Result {
    let kind = match blocker {
        Blocker::Join(target) => {
            text.write_str("the end of ")?;
            write_process(sched, wording, target, text)?;
            return text.write_str(" (join)");
        }
        Blocker::Descriptor(number) => return write!(text, "descriptor {number}"),
        Blocker::Descriptors(count) => return write!(text, "one of {count} descriptors"),
        Blocker::Queue(_) => return text.write_str(wording.queue),
        Blocker::Sleep | Blocker::Rest | Blocker::Select(_) | Blocker::Thread(_) => return Ok(()),
        Blocker::Alarm(_) => "timer",
        Blocker::Semaphore(_) => "semaphore",
        Blocker::Mutex(_) => "mutex",
        Blocker::Condition(_) => "condition",
        Blocker::Event(_) => "event",
        Blocker::Read(_) | Blocker::Write(_) => "lock",
        Blocker::Barrier(_) => "barrier",
        Blocker::Send(_) | Blocker::Receive(_) => "channel",
        Blocker::Shared(_, SharedKind::Send | SharedKind::Receive) => "channel between VMs",
        Blocker::Shared(_, SharedKind::Word) => "shared word",
    };
    match sched.name_of(blocker) {
        Some(name) => write!(text, "the {kind} '{name}'")?,
        None if kind == "event" => text.write_str("an event")?,
        None => write!(text, "a {kind}")?,
    }
    if held.count > 0 {
        text.write_str(", held by ")?;
    }
    held.write(sched, wording, text)
}

/// The processes that hold a lock: the first ones, and how many there are.
pub(super) struct Held {
    first: [Option<ProcessId>; MOST_TOLD],
    count: usize,
}

impl Held {
    pub(super) const NOBODY: Held = Held {
        first: [None; MOST_TOLD],
        count: 0,
    };

    /// Those that hold a lock now.
    fn now<C>(sched: &Scheduler<C>, blocker: Blocker) -> Held {
        let mut holders = sched.holders(blocker);
        let first = std::array::from_fn(|_| holders.next());
        let told = first.iter().flatten().count();
        Held {
            first,
            count: told + holders.count(),
        }
    }

    /// One that held it at the instant of a census.
    fn by(partner: Option<Partner>) -> Held {
        let mut held = Held::NOBODY;
        held.first[0] = partner.map(|partner| partner.process);
        held.count = held.first.iter().flatten().count();
        held
    }

    /// "process 7 'clerk' and process 8". Nothing if nobody does.
    fn write<C>(
        &self,
        sched: &Scheduler<C>,
        wording: &Wording,
        text: &mut dyn Write,
    ) -> fmt::Result {
        for (number, holder) in self.first.iter().flatten().enumerate() {
            text.write_str(if number == 0 { "" } else { " and " })?;
            write_process(sched, wording, *holder, text)?;
        }
        match self.count.saturating_sub(MOST_TOLD) {
            0 => Ok(()),
            more => write!(text, " and {more} more"),
        }
    }
}

/// The first cases of a select. The scheduler lists the last one first.
fn write_cases<C>(
    sched: &Scheduler<C>,
    wording: &Wording,
    pid: ProcessId,
    count: usize,
    text: &mut dyn Write,
) -> fmt::Result {
    write!(text, "in a select of {count} cases: ")?;
    let listed = sched.blockers(pid).count();
    for number in 0..listed.min(MOST_TOLD) {
        if number > 0 {
            text.write_str("; ")?;
        }
        if let Some(case) = sched.blockers(pid).nth(listed - 1 - number) {
            write_thing(sched, wording, case, &Held::now(sched, case), text)?;
        }
    }
    text.write_str(if count > MOST_TOLD { "; ..." } else { "" })
}

/// A text for a cycle of locks, with all its processes and locks.
pub fn describe_cycle<C>(sched: &Scheduler<C>, wording: &Wording, links: &[Link]) -> String {
    let mut text = String::new();
    for (number, link) in links.iter().enumerate() {
        text += if number == 0 { "" } else { "; " };
        // A string takes any text.
        let _ = write_process(sched, wording, link.process, &mut text);
        text += " waits for ";
        let held = Held::now(sched, link.waits_for);
        let _ = write_thing(sched, wording, link.waits_for, &held, &mut text);
    }
    text
}
