//! Measures the spin policies in running programs: the same waits under each policy, in one run.

use std::env;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use baton_core::spin::Accuracy;
use baton_sys::processors;

use crate::chart::{Bars, Chart, Scale, Series};
use crate::command_line::SpinOptions;
use crate::contest::{Arm, Case, Contest, Results};
use crate::report::Report;
use crate::table::{Table, figure};
use crate::verdict::{Goal, Verdict};

const OFF: &str = "off";
const EMA: &str = "ema";
const LEARNED: &str = "learned";

/// The goals relative to `off`: the lateness of answers after a short gap, and the time of an
/// application's task.
const SHORT_GOAL: Goal = Goal::at_most(0.3, " of off", 2);
const APPLICATION_GOAL: Goal = Goal::at_most(1.0 / 1.1, " of off", 3);
/// The goal relative to `ema`: the CPU time of the waiting thread.
const CPU_GOAL: Goal = Goal::at_most(0.05, " of ema", 3);
/// The goal relative to `off`: the additional CPU time.
const MORE_GOAL: Goal = Goal::at_most(1.0, " percentage points", 2);

/// Gaps below this length, in microseconds, are short.
const SHORT: u64 = 50;
const GAPS: [u64; 6] = [5, 20, 45, 200, 1000, 10_000];

/// Ways of waiting that have no answer, and so no lateness: the name, the way, and microseconds.
const QUIET: [(&str, &str, u64); 5] = [
    ("60 Hz frames", "frames", 16_667),
    ("120 Hz frames", "frames", 8_333),
    ("every 1.9 ms", "periodic", 1_900),
    ("idle", "timer", 0),
    ("timer of 1 kHz", "timer", 1_000),
];
const APPLICATION: &str = "application";

/// Runs the programs.
pub(super) fn run(options: &SpinOptions) -> Result<Report> {
    let pressure = processors::read().pressure;
    let results = Contest {
        arms: arms()?,
        cases: cases(options.seconds),
        rounds: options.rounds,
        figure: "cpu_percent",
        limit: Duration::from_secs_f64(60.0 + 5.0 * options.seconds),
    }
    .run();
    let mut verdicts = verdicts(&results);
    verdicts.extend(results.failures());
    Ok(Report {
        notes: vec![format!(
            "Live: threads of this machine waited for a processor during {:.0} % of the time \
             before; above 10 % learned does not spin.",
            pressure * 100.0
        )],
        tables: vec![
            table(
                &results,
                "late by us: p50 / p99",
                &|case| !is_quiet(case),
                &|arm, case| {
                    let [p50, p99] = ["p50_us", "p99_us"]
                        .map(|name| figure(results.median(arm, case, name), 1, ""));
                    format!("{p50} / {p99}")
                },
            ),
            table(
                &results,
                "CPU time of the thread that waits, in %",
                &|_| true,
                &|arm, case| figure(results.median(arm, case, "cpu_percent"), 2, ""),
            ),
            table(
                &results,
                "right and wrong: TP / FP / TN / FN, of waits in the median of the rounds",
                &|_| true,
                &|arm, case| right_and_wrong(&results, arm, case),
            ),
            table(
                &results,
                "tasks a second",
                &|case| case == APPLICATION,
                &|arm, case| figure(results.median(arm, case, "waits_per_second"), 0, ""),
            ),
        ],
        charts: vec![
            chart(
                &results,
                "How late an answer is noticed",
                "us, median",
                "p50_us",
                &|case| !is_quiet(case),
            ),
            chart(
                &results,
                "CPU time of waiting",
                "% of one processor",
                "cpu_percent",
                &is_quiet,
            ),
            chart(
                &results,
                "An application of short tasks",
                "tasks a second",
                "waits_per_second",
                &|case| case == APPLICATION,
            ),
        ],
        samples: results.to_json(),
        verdicts,
        ..Report::default()
    })
}

/// The counts of right and wrong decisions. A policy that never spins decides nothing, and has
/// none.
fn right_and_wrong(results: &Results, arm: usize, case: usize) -> String {
    match results.arms[arm].name {
        OFF => "-".to_string(),
        _ => super::counts(Accuracy::default())
            .map(|(name, _)| figure(results.median(arm, case, name), 0, ""))
            .join(" / "),
    }
}

fn is_quiet(case: &str) -> bool {
    QUIET.iter().any(|quiet| quiet.0 == case)
}

fn arms() -> Result<Vec<Arm>> {
    let own = env::current_exe().context("cannot find this program's own executable")?;
    let arm = |policy: &'static str| {
        let own = own.clone();
        Arm::present(policy, move || {
            let mut command = Command::new(&own);
            command.args(["waits", policy]);
            command
        })
    };
    Ok([OFF, EMA, LEARNED].map(arm).into())
}

fn gap_name(partner: &str, gap: u64) -> String {
    match gap {
        0..1000 => format!("{partner}, {gap} us"),
        _ => format!("{partner}, {} ms", gap / 1000),
    }
}

fn cases(seconds: f64) -> Vec<Case> {
    let case = |name: String, way: &str, microseconds: u64| Case {
        title: format!("waits for '{name}'"),
        name,
        arguments: vec![
            way.to_string(),
            microseconds.to_string(),
            seconds.to_string(),
        ],
    };
    let partners = ["thread", "program"].into_iter();
    let gaps =
        partners.flat_map(|partner| GAPS.map(|gap| case(gap_name(partner, gap), partner, gap)));
    let quiet = QUIET.map(|(name, way, microseconds)| case(name.to_string(), way, microseconds));
    gaps.chain(quiet)
        .chain([case(APPLICATION.to_string(), APPLICATION, 0)])
        .collect()
}

fn table(
    results: &Results,
    caption: &str,
    wanted: &dyn Fn(&str) -> bool,
    cell: &dyn Fn(usize, usize) -> String,
) -> Table {
    let mut header = vec!["waits for"];
    header.extend(results.arms.iter().map(|arm| arm.name));
    let mut table = Table::new(caption, &header);
    for (number, case) in results
        .cases
        .iter()
        .enumerate()
        .filter(|(_, case)| wanted(&case.name))
    {
        let shown = |arm: usize| match results.rounds(arm, number) {
            [] => results.gap(arm, number).to_string(),
            _ => cell(arm, number),
        };
        let mut row = vec![case.name.clone()];
        row.extend((0..results.arms.len()).map(shown));
        table.row(row);
    }
    table
}

fn chart(
    results: &Results,
    title: &str,
    label: &str,
    name: &str,
    wanted: &dyn Fn(&str) -> bool,
) -> Chart {
    let cases: Vec<usize> = (0..results.cases.len())
        .filter(|&case| wanted(&results.cases[case].name))
        .collect();
    let series = results.arms.iter().enumerate().map(|(arm, of_arm)| Series {
        name: of_arm.name.to_string(),
        values: cases
            .iter()
            .map(|&case| results.median(arm, case, name).filter(|&value| value > 0.0))
            .collect(),
    });
    Chart::Bars(Bars {
        title: title.to_string(),
        label: label.to_string(),
        scale: if cases.len() > 1 {
            Scale::Log
        } else {
            Scale::Linear
        },
        baseline: None,
        marks: Vec::new(),
        digits: 1,
        rows: cases
            .iter()
            .map(|&case| results.cases[case].name.clone())
            .collect(),
        series: series.collect(),
    })
}

/// The verdicts: a figure of `learned` in a case, compared with that of another policy.
fn verdicts(results: &Results) -> Vec<Verdict> {
    let value = |policy: &str, case: &str, name: &str| {
        results.median(results.arm(policy)?, results.case(case)?, name)
    };
    let ratio = |case: &str, to: &str, name: &str| {
        Some(value(LEARNED, case, name)? / value(to, case, name)?)
    };
    let mut verdicts = Vec::new();
    for partner in ["thread", "program"] {
        for gap in GAPS.into_iter().filter(|&gap| gap < SHORT) {
            let case = gap_name(partner, gap);
            let what = format!("lateness of an answer by another {case}, p50");
            verdicts.push(SHORT_GOAL.judge(&what, ratio(&case, OFF, "p50_us")));
        }
    }
    let tasks = ratio(APPLICATION, OFF, "waits_per_second");
    verdicts.push(APPLICATION_GOAL.judge(
        "time of the application's tasks",
        tasks.map(|ratio| 1.0 / ratio),
    ));
    for (case, way, _) in QUIET {
        let name = "cpu_percent";
        verdicts.push(match way {
            "timer" => {
                let more = || Some(value(LEARNED, case, name)? - value(OFF, case, name)?);
                MORE_GOAL.judge(
                    &format!("CPU time of learned beyond that of off, {case}"),
                    more(),
                )
            }
            _ => CPU_GOAL.judge(
                &format!("CPU time of learned, {case}"),
                ratio(case, EMA, name),
            ),
        });
    }
    verdicts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_has_a_name_and_arguments_of_its_own() {
        let cases = cases(1.5);
        assert_eq!(cases.len(), 2 * GAPS.len() + QUIET.len() + 1);
        assert_eq!(cases[0].arguments, ["thread", "5", "1.5"]);
        assert_eq!(cases[11].name, "program, 10 ms");
        let mut names: Vec<&str> = cases.iter().map(|case| case.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), cases.len());
    }
}
