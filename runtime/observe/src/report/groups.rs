//! Processes that are alike, merged.

use super::{MOST_LEVELS, ObjectWaits, Overview, Process, in_vm, write_stacks};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::fmt;

/// Processes of one VM with the same state, object of their wait, place of spawn and stacks.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Group<'a> {
    /// How many there are.
    pub count: usize,
    /// One of them: the one with the lowest number.
    pub example: &'a Process,
    /// The numbers of all.
    pub ids: Vec<u64>,
    /// How many of them have moved on since the look. Their stacks are later, and do not count.
    #[serde(skip_serializing_if = "is_nobody")]
    pub moved_on: usize,
    /// They wait for one object in different ways, such as for the ends of different processes.
    #[serde(skip)]
    differ: bool,
    /// They wait for different objects, of one kind.
    #[serde(skip)]
    objects_differ: bool,
}

fn is_nobody(count: &usize) -> bool {
    *count == 0
}

impl<'a> Group<'a> {
    fn of(process: &'a Process) -> Group<'a> {
        Group {
            count: 1,
            example: process,
            ids: vec![process.id],
            moved_on: usize::from(process.has_moved_on),
            differ: false,
            objects_differ: false,
        }
    }

    fn add(&mut self, process: &Process) {
        self.count += 1;
        self.ids.push(process.id);
        self.moved_on += usize::from(process.has_moved_on);
        self.differ |= process.waits != self.example.waits;
        self.objects_differ |= process.object != self.example.object;
    }
}

/// The object that a process waits for.
fn object_of(process: &Process) -> &str {
    match process.object.as_str() {
        "" => &process.waits,
        object => object,
    }
}

/// The kind of an object without a name, and what a process would do: "channel", " (to receive)".
fn kind_without_name(object: &str) -> Option<(&str, &str)> {
    let (kind, rest) = object.strip_prefix("the ")?.split_once(' ')?;
    let verb = rest.trim_start_matches(|digit: char| digit.is_ascii_digit());
    Some((kind, verb.strip_prefix(", without a name")?))
}

/// Merges processes that are alike, the largest groups first. Those that are idle are alike also if
/// they wait for different objects of a kind, without names. `objects` is what they all wait for.
///
/// ```
/// use baton_observe::report::{Process, group};
/// let waiter = |id: u64| Process {
///     vm: "main".into(),
///     id,
///     title: format!("process {id}"),
///     state: "waiting".into(),
///     waits: "for an event".into(),
///     object: "the event 1, without a name".into(),
///     has_moved_on: false,
///     has_sunk: false,
///     since: Some(0.5),
///     spawned_at: "a.lua:3".into(),
///     context: Default::default(),
///     running: 0.0,
///     cpu: 0.0,
///     stacks: Vec::new(),
/// };
/// let other = Process { state: "running".into(), ..waiter(1) };
/// let all = [other, waiter(2), waiter(3)];
/// let groups = group(&all, &[]);
/// assert_eq!(groups[0].ids, [2, 3]);
/// assert_eq!(groups[1].count, 1);
/// ```
pub fn group<'a>(processes: &'a [Process], objects: &[ObjectWaits]) -> Vec<Group<'a>> {
    let idle = objects.iter().filter(|object| object.class == "idle");
    let idle: HashSet<_> = idle.map(|one| (&*one.vm, &*one.object)).collect();
    let waits_for = |process: &'a Process| {
        let is_idle = idle.contains(&(&*process.vm, &*process.object));
        let kind = kind_without_name(&process.object).filter(|_| is_idle);
        kind.unwrap_or((object_of(process), ""))
    };
    let mut groups: Vec<Group<'_>> = Vec::new();
    let (mut places, mut first_places) = (HashMap::new(), HashMap::new());
    let (later, of_the_look): (Vec<_>, Vec<_>) =
        processes.iter().partition(|process| process.has_moved_on);
    for process in of_the_look.into_iter().chain(later) {
        let short = (
            &process.vm,
            &process.state,
            waits_for(process),
            &process.spawned_at,
        );
        let place = match (process.has_moved_on, first_places.get(&short)) {
            // Its stack is not the one that it waited with.
            (true, Some(&place)) => place,
            _ => *places
                .entry((short, &process.stacks))
                .or_insert(groups.len()),
        };
        first_places.entry(short).or_insert(place);
        match groups.get_mut(place) {
            Some(group) => group.add(process),
            None => groups.push(Group::of(process)),
        }
    }
    for group in &mut groups {
        group.ids.sort_unstable();
    }
    groups.sort_by_key(|group| (Reverse(group.count), group.example.id));
    groups
}

/// How many holders of an object a text lists.
const MOST_PARTNERS: usize = 4;

/// How many numbers of processes a group's text lists.
const MOST_IDS: usize = 8;

impl fmt::Display for Group<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.count == 1 {
            return self.example.fmt(f);
        }
        let example = self.example;
        let all = format!("{} processes", self.count);
        write!(f, "{}: ", in_vm("of", &all, &example.vm))?;
        let waits = match self.differ && !self.objects_differ {
            true => format!("for {}", example.object),
            false => example.waits.clone(),
        };
        let alike = Process {
            since: None,
            has_moved_on: false,
            has_sunk: false,
            waits,
            ..example.clone()
        };
        alike.describe(f)?;
        if !example.spawned_at.is_empty() {
            write!(f, " (spawned at {})", example.spawned_at)?;
        }
        let ids: Vec<String> = self.ids.iter().take(MOST_IDS).map(u64::to_string).collect();
        let more = if self.count > MOST_IDS { ", ..." } else { "" };
        write!(f, "\nnumbers {}{more}", ids.join(", "))?;
        match self.moved_on {
            0 => writeln!(f)?,
            moved_on => writeln!(f, "; {moved_on} of them have moved on since the look")?,
        }
        if example.stacks.is_empty() {
            return Ok(());
        }
        write_stacks(f, &example.stacks)
    }
}

/// The text of all groups: first the objects that most processes are kept waiting by, with their
/// holders; then processes that do not wait for others; last the idle ones.
#[derive(Debug)]
pub struct Groups<'a> {
    /// All processes.
    pub processes: &'a [Process],
    /// What they wait for.
    pub overview: &'a Overview,
}

impl fmt::Display for Groups<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let groups = group(self.processes, &self.overview.objects);
        let class = |group: &Group<'_>| {
            let objects = &mut self.overview.objects.iter();
            let found = objects.find(|object| is_of(group, object));
            found.map_or("", |object| object.class.as_str())
        };
        let of_objects = self.overview.objects.iter();
        for object in of_objects.filter(|object| object.class == "object") {
            self.write_object(object, f)?;
            let waiting = groups.iter();
            for group in waiting.filter(|group| is_of(group, object)) {
                write!(f, "{group}")?;
            }
            writeln!(f)?;
        }
        let mut line_between = "";
        for group in &groups {
            if !matches!(class(group), "object" | "idle") {
                write!(f, "{group}")?;
                line_between = "\n";
            }
        }
        let idle = groups.iter().filter(|group| class(group) == "idle");
        for (number, group) in idle.enumerate() {
            if number == 0 {
                writeln!(f, "{line_between}idle: these wait for work, or for a time")?;
            }
            // A channel may hold what a pool lends: then who was to give it back is of interest.
            let mut objects = self.overview.objects.iter();
            if let Some(object) = objects.find(|object| is_of(group, object))
                && !object.partners.is_empty()
                && !group.objects_differ
            {
                self.write_object(object, f)?;
            }
            write!(f, "{group}")?;
        }
        write!(f, "{}", self.overview)
    }
}

/// Whether a group waits for an object.
fn is_of(group: &Group<'_>, object: &ObjectWaits) -> bool {
    let example = group.example;
    (&example.vm, &example.object) == (&object.vm, &object.object)
}

impl Groups<'_> {
    /// The object, and what those do that may end the waits for it.
    fn write_object(&self, object: &ObjectWaits, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{object}")?;
        for partner in object.partners.iter().take(MOST_PARTNERS) {
            write!(f, "{} {}", partner.role, partner.title)?;
            let found = self
                .processes
                .iter()
                .find(|one| (&one.vm, one.id) == (&object.vm, partner.id));
            if let Some(process) = found.filter(|_| partner.id != 0) {
                f.write_str(": ")?;
                process.describe(f)?;
                for frame in process.stacks.iter().flatten().take(MOST_LEVELS) {
                    write!(f, "\n\t{frame}")?;
                }
            }
            writeln!(f)?;
        }
        match object.partners.len().saturating_sub(MOST_PARTNERS) {
            0 => Ok(()),
            more => writeln!(f, "and {more} more"),
        }
    }
}
