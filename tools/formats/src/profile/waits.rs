//! What was waited for, by object: one row for each, whoever held it at the moment.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt;

use serde::Serialize;

use super::merged::Place;
use super::{Profile, StackId};
use crate::{quantity, text};

/// The class of objects that keep processes waiting; see [`WaitCost::class`].
const OBJECT: &str = "object";
const IDLE: &str = "idle";
const TURN: &str = "turn";

/// How many holders, and places where an object is held, the table has for each object.
const MOST_HOLDERS: usize = 3;
const MOST_PLACES: usize = 2;

/// How many functions the table tells of such a place.
const MOST_FUNCTIONS: usize = 3;

/// What is known of waits beside their samples.
#[derive(Debug, Clone, Default)]
pub(super) struct WaitDetails {
    /// The class of each object.
    classes: HashMap<String, String>,
    /// The longest wait for each object, in nanoseconds.
    longest: HashMap<String, u64>,
    /// For each object, and stack of a holder: why it may end the waits, and the time for which
    /// others waited meanwhile.
    held: HashMap<(String, StackId), (String, u64)>,
}

impl WaitDetails {
    pub(super) fn is_idle(&self, object: &str) -> bool {
        self.class(object) == IDLE
    }

    fn class(&self, object: &str) -> &str {
        self.classes.get(object).map_or(OBJECT, String::as_str)
    }
}

impl Profile {
    /// Sets the class of an object: see [`WaitCost::class`].
    pub fn set_class(&mut self, object: &str, class: &str) {
        if !self.wait_details.classes.contains_key(object) {
            let classes = &mut self.wait_details.classes;
            classes.insert(text::lossy(object), class.to_owned());
        }
    }

    /// Adds to the longest wait for an object, in nanoseconds.
    pub fn extend_longest_wait(&mut self, object: &str, by: u64) {
        let longest = &mut self.wait_details.longest;
        let longest = longest.entry(text::lossy(object)).or_default();
        *longest = longest.saturating_add(by);
    }

    /// Adds what a process did while others waited for it for `value` nanoseconds in all. `role`
    /// says why it may end their waits, such as `held by`.
    pub fn add_holder(&mut self, object: &str, role: &str, stack: StackId, value: u64) {
        let key = (text::lossy(object), stack);
        let held = self.wait_details.held.entry(key).or_default();
        held.0 = text::lossy(role);
        held.1 = held.1.saturating_add(value);
    }
}

/// What processes waited for, over all stacks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WaitCost {
    /// The object; empty if that is not known.
    pub object: String,
    /// `object`: others kept the processes waiting. `idle`: they waited for work, or for a time.
    /// `turn`: they could run.
    pub class: String,
    /// The time that processes waited, in nanoseconds.
    pub total: u64,
    /// The number of samples.
    pub count: u64,
    /// The longest wait that was seen, in nanoseconds, from its beginning; 0 if it is not known.
    pub longest: u64,
    /// The process that had it for the greatest share; empty if there was none.
    pub holder: String,
    /// Those that had it, the one with the greatest share first.
    pub holders: Vec<HolderCost>,
    /// What those did meanwhile, by stack, the greatest share first.
    pub held_at: Vec<HeldPlace>,
    /// Why the holders may end the waits, such as `held by`.
    pub role: String,
}

/// How long others waited while one process had an object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HolderCost {
    /// The process.
    pub holder: String,
    /// In nanoseconds.
    pub total: u64,
}

/// How long others waited while the holder of an object was at one place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HeldPlace {
    /// Its functions with their places, the innermost first.
    pub stack: Vec<String>,
    /// In nanoseconds.
    pub total: u64,
}

/// The costs of all objects: those first that kept processes waiting, the greatest value first.
pub(super) fn costs(profile: &Profile) -> Vec<WaitCost> {
    let details = &profile.wait_details;
    let mut costs: HashMap<&str, (u64, u64)> = HashMap::new();
    let mut holders: HashMap<&str, HashMap<&str, u64>> = HashMap::new();
    for sample in profile.samples() {
        let (object, holder) = (&sample.labels.object[..], &sample.labels.holder[..]);
        let cost = costs.entry(object).or_default();
        cost.0 = cost.0.saturating_add(sample.value);
        cost.1 = cost.1.saturating_add(sample.count);
        if !holder.is_empty() {
            let held = holders
                .entry(object)
                .or_default()
                .entry(holder)
                .or_default();
            *held = held.saturating_add(sample.value);
        }
    }
    let mut all: Vec<WaitCost> = costs
        .into_iter()
        .map(|(object, (total, count))| {
            let holders = holders_of(holders.remove(object).unwrap_or_default());
            WaitCost {
                object: object.to_owned(),
                class: details.class(object).to_owned(),
                total,
                count,
                longest: details.longest.get(object).copied().unwrap_or(0),
                holder: holders.first().map_or("", |first| &first.holder).to_owned(),
                holders,
                held_at: held_places(profile, object),
                role: role(profile, object),
            }
        })
        .collect();
    // The order of a hash table differs from run to run; the names decide between equals.
    all.sort_by(|one, other| {
        let key = |cost: &WaitCost| (rank(&cost.class), Reverse(cost.total));
        key(one)
            .cmp(&key(other))
            .then_with(|| one.object.cmp(&other.object))
    });
    all
}

/// The order of the classes.
fn rank(class: &str) -> u8 {
    match class {
        IDLE => 2,
        TURN => 1,
        _ => 0,
    }
}

fn holders_of(held: HashMap<&str, u64>) -> Vec<HolderCost> {
    let mut holders: Vec<HolderCost> = held
        .into_iter()
        .map(|(holder, total)| HolderCost {
            holder: holder.to_owned(),
            total,
        })
        .collect();
    holders.sort_by(|one, other| {
        let order = Reverse(one.total).cmp(&Reverse(other.total));
        order.then_with(|| one.holder.cmp(&other.holder))
    });
    holders
}

fn held_places(profile: &Profile, object: &str) -> Vec<HeldPlace> {
    let held = profile.wait_details.held.iter();
    let held = held.filter(|((of, _), _)| of == object);
    let mut totals: HashMap<Vec<String>, u64> = HashMap::new();
    for ((_, stack), (_, value)) in held {
        let frames = profile.frames(*stack);
        // With lines, as a stack has them.
        let labels = frames.map(|frame| Place::of_frame(frame).label()).collect();
        let total = totals.entry(labels).or_default();
        *total = total.saturating_add(*value);
    }
    let mut places: Vec<HeldPlace> = totals
        .into_iter()
        .map(|(stack, total)| HeldPlace { stack, total })
        .collect();
    places.sort_by(|one, other| {
        let order = Reverse(one.total).cmp(&Reverse(other.total));
        order.then_with(|| one.stack.cmp(&other.stack))
    });
    places
}

fn role(profile: &Profile, object: &str) -> String {
    let held = profile.wait_details.held.iter();
    let mut roles = held.filter(|((of, _), _)| of == object);
    roles
        .next()
        .map_or("held by", |(_, (role, _))| role)
        .to_owned()
}

/// The tables of waits: those that others cause, and those for work or a time.
pub(super) struct WaitTable<'a>(pub(super) &'a [WaitCost]);

/// The widths of the columns, in characters.
const VALUE_WIDTH: usize = 9;
const SHARE_WIDTH: usize = 8;

impl fmt::Display for WaitTable<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_idle = |cost: &&WaitCost| cost.class == IDLE;
        let others: Vec<&WaitCost> = self.0.iter().filter(|cost| !is_idle(cost)).collect();
        let idle: Vec<&WaitCost> = self.0.iter().filter(is_idle).collect();
        write_table(out, &others, "waited for")?;
        write_table(out, &idle, "idle: waited for work, or for a time")
    }
}

fn write_table(out: &mut fmt::Formatter<'_>, costs: &[&WaitCost], heading: &str) -> fmt::Result {
    if costs.is_empty() {
        return Ok(());
    }
    let all = costs
        .iter()
        .fold(0, |sum: u64, cost| sum.saturating_add(cost.total));
    writeln!(
        out,
        "\n{:>VALUE_WIDTH$}{:SHARE_WIDTH$}{:>VALUE_WIDTH$}  {heading}",
        "time", "", "longest"
    )?;
    for cost in costs {
        let longest = match cost.longest {
            0 => String::new(),
            longest => quantity::time(longest),
        };
        let label = match cost.object.as_str() {
            "" => "(unknown)".to_owned(),
            object => text::visible(object),
        };
        writeln!(
            out,
            "{:>VALUE_WIDTH$}{:>SHARE_WIDTH$}{longest:>VALUE_WIDTH$}  {label}",
            quantity::time(cost.total),
            quantity::percent(cost.total, all),
        )?;
        if cost.class != IDLE {
            write_holders(out, cost)?;
        }
    }
    Ok(())
}

/// The holders of an object with their shares, and what they did.
fn write_holders(out: &mut fmt::Formatter<'_>, cost: &WaitCost) -> fmt::Result {
    let indent = VALUE_WIDTH + SHARE_WIDTH + VALUE_WIDTH + 2;
    if cost.holders.is_empty() {
        return Ok(());
    }
    let shown = cost.holders.iter().take(MOST_HOLDERS);
    let shown: Vec<String> = shown
        .map(|holder| {
            let share = quantity::percent(holder.total, cost.total);
            format!("{} {share}", text::visible(&holder.holder))
        })
        .collect();
    let more = match cost.holders.len() - shown.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let role = &cost.role;
    writeln!(out, "{:indent$}{role} {}{more}", "", shown.join(", "))?;
    let held = cost
        .held_at
        .iter()
        .fold(0, |sum: u64, one| sum.saturating_add(one.total));
    for place in cost.held_at.iter().take(MOST_PLACES) {
        let functions: Vec<&str> = place
            .stack
            .iter()
            .take(MOST_FUNCTIONS)
            .map(String::as_str)
            .collect();
        if functions.is_empty() {
            continue;
        }
        let share = quantity::percent(place.total, held);
        writeln!(out, "{:indent$}{share} in {}", "", functions.join(" < "))?;
    }
    Ok(())
}

#[cfg(test)]
mod checks {
    use super::*;
    use crate::profile::{Format, Frame, Labels, Measure};

    /// Two hundred processes hold a mutex in turn, each while 199 wait.
    fn handed_on() -> Profile {
        let mut profile = Profile::new(Measure::Waits, "");
        let waiting = profile.stack([Frame::c("lock", "")]);
        let holding = profile.stack([Frame::c("sleep", ""), Frame::lua("work", "a.lua", 5)]);
        for number in 0..200_u64 {
            let holder = format!("process {number}");
            let labels = Labels::default().waiting_for("the mutex 'db'", holder);
            profile.add(waiting, 199_000_000, 1, labels);
            profile.add_holder("the mutex 'db'", "held by", holding, 199_000_000);
        }
        profile.extend_longest_wait("the mutex 'db'", 100_000_000);
        profile.extend_longest_wait("the mutex 'db'", 99_000_000);
        let receiving = profile.stack([Frame::c("receive", "")]);
        profile.set_class("the channel 'jobs' (to receive)", "idle");
        profile.set_class("its turn", "turn");
        for (object, value) in [
            ("the channel 'jobs' (to receive)", 900_000_000_000),
            ("its turn", 90_000_000_000),
        ] {
            let labels = Labels::default().waiting_for(object, "");
            profile.add(receiving, value, 9, labels);
        }
        profile
    }

    #[test]
    fn an_object_with_two_hundred_holders_is_one_row_with_the_whole_time() {
        let summary = handed_on().summary();
        let first = &summary.waits[0];
        assert_eq!(first.object, "the mutex 'db'");
        assert_eq!(first.total, 200 * 199_000_000);
        assert_eq!(first.longest, 199_000_000);
        assert_eq!(first.holders.len(), 200);
        assert!(
            first
                .holders
                .iter()
                .all(|holder| holder.total == 199_000_000)
        );
        assert_eq!(first.held_at.len(), 1);
        assert_eq!(summary.waits.len(), 3);
    }

    #[test]
    fn a_flame_graph_has_one_box_for_an_object_and_idle_waits_stand_apart() {
        let mut folded = Vec::new();
        let written = handed_on().write(Format::Folded, &mut folded);
        written.expect("a vector takes everything");
        let expected = "\
lock [C];waits for the mutex 'db' 39800000000
receive [C];waits for its turn 90000000000
waits for work or for a time;receive [C];waits for the channel 'jobs' (to receive) 900000000000
";
        assert_eq!(String::from_utf8_lossy(&folded), expected);
    }

    #[test]
    fn turns_and_idle_waits_come_after_all_objects_however_long() {
        let table = handed_on().summary().to_string();
        let (_, waits) = table.split_once("\n\n").expect("a table of waits");
        let expected = "     time          longest  waited for
   39.8 s  30.7 %   199 ms  the mutex 'db'
                            held by process 0 0.5 %, process 1 0.5 %, process 10 0.5 % \
             and 197 more
                            100.0 % in sleep [C] < work (a.lua)
   90.0 s  69.3 %           its turn

     time          longest  idle: waited for work, or for a time
    900 s 100.0 %           the channel 'jobs' (to receive)
";
        assert_eq!(waits, expected);
    }
}
