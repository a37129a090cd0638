//! The experiment `cores`: several VMs in one program, one core each. It compares work on two
//! cores, messages, references, the start of VMs, and servers with other systems.

mod arms;
mod map;
mod message;
mod reference;
mod serve;
mod spawn;

use std::mem;
use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Map, Value};

use crate::bench::Bench;
use crate::command_line::{CoresOptions, CoresPart};
use crate::contest::Results;
use crate::report::Report;
use crate::stats;
use crate::table::Table;
use crate::verdict;

/// The time limit of one run, besides what the options ask for.
const BESIDES: Duration = Duration::from_secs(60);

/// The peers that are not measured, and why.
const ABSENT: [(&str, &str); 2] = [
    ("Lua Lanes", "missing: Debian has no package of it"),
    ("effil", "missing: Debian has no package of it"),
];

/// Runs the experiment.
pub(crate) fn run(bench: &Bench, options: &CoresOptions) -> Result<Report> {
    let baton = bench.paths.baton()?;
    ensure!(
        arms::finds(&baton.path, "baton.vm"),
        "this baton has no baton.vm: build {} again, or name another with --baton PATH",
        baton.path.display()
    );
    let mut report = Report::default();
    let mut samples = Map::new();
    for part in &options.only {
        let mut of_part = match part {
            CoresPart::Map => map::run(bench, options),
            CoresPart::Message => message::run(bench, options),
            CoresPart::Reference => reference::run(bench, options),
            CoresPart::Spawn => spawn::run(bench, options),
            CoresPart::Serve => serve::run(bench, options),
        }?;
        for found in &of_part.arms {
            if !report.arms.contains(found) {
                report.arms.push(found.clone());
            }
        }
        // A peer that is missing is missing in every part, and is told once.
        let verdicts = mem::take(&mut of_part.verdicts);
        verdict::add_new(&mut report.verdicts, verdicts);
        samples.insert(part.name().to_string(), report.add(of_part));
    }
    report.samples = Value::Object(samples);
    report.tables.push(absent());
    Ok(report)
}

/// The peers that should be here and are not.
fn absent() -> Table {
    let mut table = Table::new("peers that are not measured", ["system", "why"]);
    for (name, why) in ABSENT {
        table.named(name, [why.to_string()]);
    }
    table
}

/// The median of samples, with the smallest and the largest one. `None` without samples.
fn spread(samples: &[f64], digits: usize) -> Option<String> {
    let median = stats::median(samples)?;
    let smallest = samples.iter().copied().reduce(f64::min)?;
    let largest = stats::maximum(samples)?;
    Some(format!(
        "{median:.digits$} ({smallest:.digits$}-{largest:.digits$})"
    ))
}

/// The quotients of a figure of two arms in cases, round by round.
fn ratios(
    results: &Results,
    (arm, case): (usize, usize),
    to: (usize, usize),
    figure: &str,
) -> Vec<f64> {
    let above = results.values(arm, case, figure);
    let below = results.values(to.0, to.1, figure);
    let each = above.iter().zip(&below).map(|(above, below)| above / below);
    each.filter(|ratio| ratio.is_finite()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contest::{Arm, Case, Contest};
    use std::process::Command;

    #[test]
    fn a_spread_has_the_median_and_both_ends() {
        assert_eq!(
            spread(&[2.0, 1.5, 9.0], 1),
            Some("2.0 (1.5-9.0)".to_string())
        );
        assert_eq!(spread(&[], 1), None);
    }

    #[test]
    fn ratios_are_those_of_each_round_and_zero_divides_nothing() {
        let arm = |name, figure: &'static str| {
            Arm::present(name, move || {
                let mut command = Command::new("echo");
                command.args(["us", figure]);
                command
            })
        };
        let results = Contest {
            arms: vec![arm("one", "3"), arm("two", "2"), arm("too quick", "0")],
            cases: vec![Case::new("a", "a case", &[])],
            rounds: 2,
            figure: "us",
            limit: Duration::from_secs(20),
        }
        .run();
        assert_eq!(ratios(&results, (0, 0), (1, 0), "us"), [1.5, 1.5]);
        assert!(ratios(&results, (0, 0), (2, 0), "us").is_empty());
    }
}
