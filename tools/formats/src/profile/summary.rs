//! What each function cost, as a table and as JSON.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt;

use serde::Serialize;

use super::merged::Place;
use super::waits::{self, WaitCost, WaitTable};
use super::{FrameKind, Measure, Profile, Unit};
use crate::interned::Interned;
use crate::{quantity, text};

/// The width of the columns with values and with shares, in characters.
const VALUE_WIDTH: usize = 9;
const SHARE_WIDTH: usize = 8;

/// What one function cost, over all stacks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FunctionCost {
    /// Its name; its file and line if it has none.
    pub function: String,
    /// Its source file or library; empty if that is not known.
    pub file: String,
    /// Its first line; 0 if that is not known.
    pub line: u32,
    /// Whether it is a function in C.
    pub is_c: bool,
    /// The VM; empty if that is not known. A function that several VMs run has a row for each.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub vm: String,
    /// What was measured while it was the innermost function.
    #[serde(rename = "self")]
    pub own: u64,
    /// What was measured while it was anywhere on the stack. A stack counts once, even if the
    /// function called itself.
    pub total: u64,
    /// How many of the measurements had it as the innermost function.
    pub count: u64,
    #[serde(skip)]
    label: String,
}

/// The costs in a profile. `Display` writes tables for people, [`Self::to_json`] text for programs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// What was measured: see [`Measure::key`].
    pub measure: &'static str,
    /// The unit of all values: `nanoseconds` or `bytes`.
    pub unit: &'static str,
    /// The sum of all values.
    pub total: u64,
    /// For waits: the part of it in which processes waited for work, or for a time.
    #[serde(skip_serializing_if = "is_nothing")]
    pub idle: u64,
    /// The number of measurements.
    pub count: u64,
    /// The distance between two of them; 0 if everything was measured.
    pub period: u64,
    /// How long the profile lasted, in nanoseconds.
    pub duration: u64,
    /// The functions, the greatest own value first; for waits without the idle ones.
    pub functions: Vec<FunctionCost>,
    /// What was waited for: what kept processes waiting first, the greatest value first. Only a
    /// profile of waits has it.
    pub waits: Vec<WaitCost>,
    #[serde(skip)]
    heading: String,
    #[serde(skip)]
    counted: &'static str,
    #[serde(skip)]
    shown_unit: Unit,
}

/// The three sums of a place.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    own: u64,
    total: u64,
    count: u64,
}

/// Adds up the costs of a profile.
pub(super) fn of(profile: &Profile) -> Summary {
    let unit = profile.measure.unit();
    Summary {
        measure: profile.measure.key(),
        unit: unit.name(),
        total: profile.total(),
        idle: idle(profile),
        count: profile.count(),
        period: profile.period,
        duration: profile.duration_nanos(),
        functions: functions(profile),
        waits: match profile.measure {
            Measure::Waits => waits::costs(profile),
            Measure::CpuTime | Measure::WallTime | Measure::Allocation => Vec::new(),
        },
        heading: text::visible(&profile.heading()),
        counted: profile.measure.counted(),
        shown_unit: unit,
    }
}

fn functions(profile: &Profile) -> Vec<FunctionCost> {
    // By VM.
    let mut places: Interned<(String, Place)> = Interned::default();
    let mut sums: Vec<Sums> = Vec::new();
    // The number of the sample that last counted a place, so that recursion counts once.
    let mut counted: Vec<usize> = Vec::new();
    for (number, sample) in profile.samples().iter().enumerate() {
        if profile.wait_details.is_idle(&sample.labels.object) {
            continue;
        }
        let mut stack: Vec<Place> = profile.frames(sample.stack).map(Place::of_frame).collect();
        if stack.is_empty() {
            stack.push(Place::Unknown);
        }
        for (depth, place) in stack.into_iter().enumerate() {
            let at = places.add((sample.labels.vm.clone(), place)) as usize;
            if at == sums.len() {
                sums.push(Sums::default());
                counted.push(usize::MAX);
            }
            if depth == 0 {
                sums[at].own = sums[at].own.saturating_add(sample.value);
                sums[at].count = sums[at].count.saturating_add(sample.count);
            }
            if counted[at] != number {
                counted[at] = number;
                sums[at].total = sums[at].total.saturating_add(sample.value);
            }
        }
    }
    let mut costs: Vec<FunctionCost> = places
        .iter()
        .zip(sums)
        .map(|((vm, place), sums)| cost(vm, place, sums))
        .collect();
    if profile.has_several_vms() {
        for cost in &mut costs {
            cost.label = text::visible(&format!("{} in VM '{}'", cost.label, cost.vm));
        }
    }
    costs.sort_by(|one, other| {
        let key = |cost: &FunctionCost| (Reverse(cost.own), Reverse(cost.total));
        key(one)
            .cmp(&key(other))
            .then_with(|| one.label.cmp(&other.label))
    });
    costs
}

fn cost(vm: &str, place: &Place, sums: Sums) -> FunctionCost {
    let (file, line, is_c) = match place {
        Place::Function {
            file,
            first_line,
            kind,
            ..
        } => (file.clone(), *first_line, *kind == FrameKind::C),
        Place::Vm(_) | Place::Wait { .. } | Place::Idle | Place::Unknown => {
            (String::new(), 0, false)
        }
    };
    FunctionCost {
        function: place.name(),
        file,
        line,
        is_c,
        vm: vm.to_owned(),
        own: sums.own,
        total: sums.total,
        count: sums.count,
        label: place.label(),
    }
}

/// What processes waited for work or for a time.
fn idle(profile: &Profile) -> u64 {
    let samples = profile.samples().iter();
    let idle = samples.filter(|sample| profile.wait_details.is_idle(&sample.labels.object));
    idle.fold(0, |sum, sample| sum.saturating_add(sample.value))
}

fn is_nothing(value: &u64) -> bool {
    *value == 0
}

impl Summary {
    /// The summary as JSON on one line. Values are in [`Self::unit`].
    #[must_use]
    pub fn to_json(&self) -> String {
        // Only a map with other keys than text could fail.
        serde_json::to_string(self).expect("numbers and texts are JSON")
    }

    /// The summary with at most `limit` functions and `limit` objects of each class.
    #[must_use]
    pub fn top(mut self, limit: usize) -> Self {
        self.functions.truncate(limit);
        let mut counts: HashMap<String, usize> = HashMap::new();
        self.waits.retain(|wait| {
            let count = counts.entry(wait.class.clone()).or_default();
            *count += 1;
            *count <= limit
        });
        self
    }

    fn value(&self, value: u64) -> String {
        let shown = self.shown_unit.shown(value);
        format!("{shown:>VALUE_WIDTH$}")
    }

    fn share(&self, value: u64) -> String {
        let shown = quantity::percent(value, self.total.saturating_sub(self.idle));
        format!("{shown:>SHARE_WIDTH$}")
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |value| self.shown_unit.shown(value);
        write!(out, "{}: {}", self.heading, shown(self.total))?;
        if self.idle > 0 {
            write!(out, ", {} of it idle,", shown(self.idle))?;
        }
        write!(out, " in {} {}", self.count, self.counted)?;
        if self.duration > 0 {
            write!(out, " over {}", quantity::time(self.duration))?;
        }
        if self.period > 0 {
            let what = match self.shown_unit {
                Unit::Nanoseconds => "one",
                Unit::Bytes => "a sample",
            };
            write!(out, ", {what} each {}", shown(self.period))?;
        }
        writeln!(out)?;
        writeln!(
            out,
            "{:>VALUE_WIDTH$}{:SHARE_WIDTH$}{:>VALUE_WIDTH$}{:SHARE_WIDTH$}  function",
            "self", "", "total", ""
        )?;
        for cost in &self.functions {
            let (own, own_share) = (self.value(cost.own), self.share(cost.own));
            let (total, total_share) = (self.value(cost.total), self.share(cost.total));
            writeln!(out, "{own}{own_share}{total}{total_share}  {}", cost.label)?;
        }
        write!(out, "{}", WaitTable(&self.waits))
    }
}

#[cfg(test)]
mod checks {
    use super::*;
    use crate::profile::{Frame, Labels};
    use serde_json::{Value, json};
    use std::time::Duration;

    fn function(name: &str) -> Frame {
        Frame::lua(name, "a.lua", 5).beginning_at(3)
    }

    /// A profile in which `f` calls itself and then `g`.
    fn recursive() -> Profile {
        let mut profile = Profile::new(Measure::CpuTime, "a.lua");
        profile.period = 10_000_000;
        profile.duration = Duration::from_secs(2);
        let deep = profile.stack([function("g"), function("f"), function("f")]);
        profile.add(deep, 600_000_000, 60, Labels::default());
        let flat = profile.stack([function("f")]);
        profile.add(flat, 400_000_000, 40, Labels::default());
        profile
    }

    #[test]
    fn a_function_that_calls_itself_counts_once() {
        let summary = recursive().summary();
        let costs: Vec<(&str, u64, u64)> = summary
            .functions
            .iter()
            .map(|cost| (cost.function.as_str(), cost.own, cost.total))
            .collect();
        let expected = [
            ("g", 600_000_000, 600_000_000),
            ("f", 400_000_000, 1_000_000_000),
        ];
        assert_eq!(costs, expected);
    }

    #[test]
    fn the_table_has_values_and_shares() {
        let table = recursive().summary().to_string();
        let expected = "\
CPU time of a.lua: 1.00 s in 100 samples over 2.00 s, one each 10.0 ms
     self            total          function
   600 ms  60.0 %   600 ms  60.0 %  g (a.lua:3)
   400 ms  40.0 %   1.00 s 100.0 %  f (a.lua:3)
";
        assert_eq!(table, expected);
    }

    #[test]
    fn the_json_has_plain_numbers() {
        let json: Value =
            serde_json::from_str(&recursive().summary().top(1).to_json()).expect("it is JSON");
        let expected = json!({
            "measure": "cpu", "unit": "nanoseconds", "total": 1_000_000_000, "count": 100,
            "period": 10_000_000, "duration": 2_000_000_000_u64, "waits": [],
            "functions": [{
                "function": "g", "file": "a.lua", "line": 3, "is_c": false,
                "self": 600_000_000, "total": 600_000_000, "count": 60,
            }],
        });
        assert_eq!(json, expected);
    }

    #[test]
    fn a_profile_of_waits_also_sums_up_what_was_waited_for() {
        let mut profile = Profile::new(Measure::Waits, "");
        let stack = profile.stack([Frame::c("lock", "")]);
        let labels = |process| Labels::of_process("p", process);
        profile.add(stack, 3_000, 1, labels(1).waiting_for("mutex 'm'", "q"));
        profile.add(stack, 1_000, 1, labels(2).waiting_for("mutex 'm'", "q"));
        profile.add(stack, 1_000, 2, labels(2).waiting_for("channel\n", ""));
        let expected = "\
Waits: 5.00 µs in 4 samples
     self            total          function
  5.00 µs 100.0 %  5.00 µs 100.0 %  lock [C]

     time          longest  waited for
  4.00 µs  80.0 %           mutex 'm'
                            held by q 100.0 %
  1.00 µs  20.0 %           channel\u{240a}
";
        assert_eq!(profile.summary().to_string(), expected);
    }
}
