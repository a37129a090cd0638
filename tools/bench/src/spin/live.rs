//! Measures the spin policies in running programs: the same waits under each policy, in one run.

use std::time::Duration;

use anyhow::Result;
use baton_core::spin::Accuracy;
use baton_sys::processors;

use crate::chart::{Bars, Chart};
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
    let median = |arm, case, name, digits| figure(results.median(arm, case, name), digits);
    Ok(results.complete(Report {
        notes: vec![format!(
            "Live: threads of this machine waited for a processor during {:.0} % of the time \
             before; above 10 % learned does not spin.",
            pressure * 100.0
        )],
        tables: vec![
            table(
                &results,
                "late by us: p50 / p99",
                &is_answered,
                &|arm, case| {
                    let [p50, p99] = ["p50_us", "p99_us"].map(|name| median(arm, case, name, 1));
                    format!("{p50} / {p99}")
                },
            ),
            table(
                &results,
                "CPU time of the thread that waits, in %",
                &|_| true,
                &|arm, case| median(arm, case, "cpu_percent", 2),
            ),
            table(
                &results,
                "right and wrong: TP / FP / TN / FN, of waits in the median of the rounds",
                &|_| true,
                &|arm, case| right_and_wrong(&results, arm, case),
            ),
            table(&results, "tasks a second", &is_application, &|arm, case| {
                median(arm, case, "waits_per_second", 0)
            }),
        ],
        charts: vec![
            chart(
                &results,
                Bars::new("How late an answer is noticed", "us, median").log(),
                "p50_us",
                &is_answered,
            ),
            chart(
                &results,
                Bars::new("CPU time of waiting", "% of one processor").log(),
                "cpu_percent",
                &is_quiet,
            ),
            chart(
                &results,
                Bars::new("An application of short tasks", "tasks a second"),
                "waits_per_second",
                &is_application,
            ),
        ],
        verdicts: verdicts(&results),
        ..Report::default()
    }))
}

/// The counts of right and wrong decisions. A policy that never spins decides nothing, and has
/// none.
fn right_and_wrong(results: &Results, arm: usize, case: usize) -> String {
    match results.arms[arm].name {
        OFF => "-".to_string(),
        _ => super::counts(Accuracy::default())
            .map(|(name, _)| figure(results.median(arm, case, name), 0))
            .join(" / "),
    }
}

fn is_quiet(case: &str) -> bool {
    QUIET.iter().any(|quiet| quiet.0 == case)
}

fn is_answered(case: &str) -> bool {
    !is_quiet(case)
}

fn is_application(case: &str) -> bool {
    case == APPLICATION
}

fn arms() -> Result<Vec<Arm>> {
    let arm = |policy| Arm::this_program(policy, &["waits", policy]);
    [OFF, EMA, LEARNED].into_iter().map(arm).collect()
}

fn gap_name(partner: &str, gap: u64) -> String {
    match gap {
        0..1000 => format!("{partner}, {gap} us"),
        _ => format!("{partner}, {} ms", gap / 1000),
    }
}

fn cases(seconds: f64) -> Vec<Case> {
    let case = |name: String, way: &str, microseconds: u64| {
        Case::new(&name, &name, &[&way, &microseconds, &seconds])
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
    results.by_case(
        caption,
        "waits for",
        chosen(results, wanted),
        |arm, case| (!results.rounds(arm, case).is_empty()).then(|| cell(arm, case)),
    )
}

fn chosen(results: &Results, wanted: &dyn Fn(&str) -> bool) -> Vec<usize> {
    let cases = results.all_cases();
    cases
        .filter(|&case| wanted(&results.cases[case].name))
        .collect()
}

fn chart(results: &Results, chart: Bars, name: &str, wanted: &dyn Fn(&str) -> bool) -> Chart {
    // Zero has no place on a logarithmic axis.
    let value = |arm, case| results.median(arm, case, name).filter(|&value| value > 0.0);
    results.bars(chart.digits(1), chosen(results, wanted), value)
}

/// The verdicts: a figure of `learned` in a case, compared with that of another policy.
fn verdicts(results: &Results) -> Vec<Verdict> {
    let value = |policy: &str, case: &str, name: &str| {
        let (arm, case) = results.place(policy, case)?;
        results.median(arm, case, name)
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
