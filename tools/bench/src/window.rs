//! The experiment `window`: the throughput of two processes that call C, for different windows of
//! the watchdog and lengths of calls. It compares every fixed window with the runtime's own choice.

use std::time::Duration;

use anyhow::Result;

use crate::bench::Bench;
use crate::calls::{self, DIRECTORY};
use crate::chart::{Chart, Heat, Scale};
use crate::command_line::WindowOptions;
use crate::contest::{Arm, Case, Contest, Results};
use crate::report::{Report, notes};
use crate::stats;
use crate::table::figure;
use crate::verdict::{Goal, Verdict};

const AUTO_GOAL: Goal = Goal::at_most(10.0, " %", 1);
const LIMIT: Duration = Duration::from_secs(120);

/// The windows in microseconds. With 0, every call that is seen is retaken.
const WINDOWS: [(&str, u32); 10] = [
    ("0", 0),
    ("20 us", 20),
    ("50 us", 50),
    ("100 us", 100),
    ("200 us", 200),
    ("500 us", 500),
    ("1 ms", 1000),
    ("2 ms", 2000),
    ("5 ms", 5000),
    ("10 ms", 10_000),
];
/// The arm in which calls are offloaded from the beginning, so that no window matters.
const MOVED: &str = "moved";
/// The arm in which the runtime chooses by itself.
const AUTO: &str = "auto";

/// The lengths of the calls in microseconds.
const LENGTHS: [u32; 11] = [1, 3, 10, 30, 100, 300, 1000, 3000, 10_000, 30_000, 100_000];
/// Calls up to this length, in microseconds, compute, because no sleep is this short. Longer ones
/// block.
const LONGEST_SPIN: u32 = 30;

const NOTES: [&str; 5] = [
    "two processes call C and compute in Lua for a quarter of that time, again and again; a call \
     of up to 30 us computes, a longer one blocks",
    "speedup: the work of two processes relative to one alone, the median of five measurements: 1 \
     means no gain, 2 means that neither ever waits for the other",
    "lost: the distance of the speedup from the best in its row",
    "windows: calls are declared short, so that none is offloaded; with a window of 0, every call \
     that the monitor finds is retaken",
    "moved: calls are declared long, so that all are made on another native thread; auto: the \
     runtime chooses by itself",
];

/// Runs the experiment.
pub(crate) fn run(bench: &Bench, options: &WindowOptions) -> Result<Report> {
    let results = Contest {
        arms: arms(bench)?,
        cases: cases(options)?,
        rounds: options.rounds,
        figure: "speedup",
        limit: LIMIT,
    }
    .run();
    let speedups: Vec<Vec<Option<f64>>> = results
        .all_cases()
        .map(|case| row(&results, case))
        .collect();
    let lost: Vec<Vec<Option<f64>>> = speedups.iter().map(|row| losses(row)).collect();
    let table = |caption, cell: &dyn Fn(usize, usize) -> Option<String>| {
        results.by_case(caption, "calls of", results.all_cases(), cell)
    };
    let shown = |name, digits| {
        let results = &results;
        move |arm, case| Some(figure(results.median(arm, case, name)?, digits))
    };
    let tables = vec![
        table(
            "lost against the best possible, in %, by length of the calls and window",
            &|arm, case| Some(figure(lost[case][arm]?, 1)),
        ),
        table("speedup by two processes", &shown("speedup", 2)),
        table(
            "share of the calls by two processes that the VM was taken from",
            &shown("retakes", 3),
        ),
        table(
            "share of the calls by two processes that were made elsewhere from the beginning",
            &shown("moves", 3),
        ),
    ];
    let report = results.complete(Report {
        notes: notes(&NOTES),
        tables,
        charts: vec![chart(&results, lost)],
        verdicts: verdicts(&results, &speedups),
        ..Report::default()
    });
    // All arms are one program.
    let arms = report.arms.last().cloned().into_iter().collect();
    Ok(Report { arms, ..report })
}

fn arms(bench: &Bench) -> Result<Vec<Arm>> {
    let baton = bench.paths.baton()?;
    let script = bench.script("window", include_str!("../programs/window.lua"))?;
    let fixed = |(name, microseconds): (&'static str, u32)| {
        let seconds = f64::from(microseconds) / 1e6;
        Arm::interpreted(name, &baton, &script, &["stay", DIRECTORY])
            .with("BATON_WINDOW", seconds.to_string())
    };
    let mut arms = Vec::from(WINDOWS.map(fixed));
    arms.extend([
        Arm::interpreted(MOVED, &baton, &script, &["move", DIRECTORY]),
        Arm::interpreted(AUTO, &baton, &script, &["auto", DIRECTORY]),
    ]);
    Ok(arms)
}

fn cases(options: &WindowOptions) -> Result<Vec<Case>> {
    let case = |microseconds: u32| {
        let (function, amount) = match microseconds <= LONGEST_SPIN {
            true => (
                "spin",
                calls::turns_that_last(Duration::from_micros(microseconds.into()))?,
            ),
            false => ("sleep", u64::from(microseconds)),
        };
        let rounds = rounds_within(options.seconds, microseconds);
        let arguments: [&dyn ToString; 4] = [&function, &microseconds, &amount, &rounds];
        Ok(Case::new(microseconds, title(microseconds), &arguments))
    };
    let shown = |microseconds: &u32| f64::from(*microseconds) / 1e6 <= options.longest;
    LENGTHS.into_iter().filter(shown).map(case).collect()
}

/// The number of rounds that take about `seconds`. In each, a process calls C, and computes for a
/// quarter of the call's length.
fn rounds_within(seconds: f64, microseconds: u32) -> u64 {
    let rounds = seconds * 1e6 / (1.25 * f64::from(microseconds));
    (rounds as u64).max(2)
}

fn title(microseconds: u32) -> String {
    match microseconds {
        0..1000 => format!("{microseconds} us"),
        _ => format!("{} ms", microseconds / 1000),
    }
}

/// The speedups of a case, by arm.
fn row(results: &Results, case: usize) -> Vec<Option<f64>> {
    let arms = 0..results.arms.len();
    arms.map(|arm| results.median(arm, case, "speedup"))
        .collect()
}

/// The loss of each choice against the best one, in percent.
fn losses(speedups: &[Option<f64>]) -> Vec<Option<f64>> {
    let known: Vec<f64> = speedups.iter().flatten().copied().collect();
    let best = stats::maximum(&known);
    let loss = |speedup: &Option<f64>| Some((1.0 - (*speedup)? / best?) * 100.0);
    speedups.iter().map(loss).collect()
}

fn chart(results: &Results, lost: Vec<Vec<Option<f64>>>) -> Chart {
    Chart::Heat(Heat {
        title: "The watchdog's window".to_string(),
        label: "throughput lost against the best possible in %, by length of the calls".to_string(),
        scale: Scale::Linear,
        digits: 0,
        columns_label: "window".to_string(),
        columns: results
            .arms
            .iter()
            .map(|arm| arm.name.to_string())
            .collect(),
        rows: results
            .cases
            .iter()
            .map(|case| case.title.clone())
            .collect(),
        cells: lost,
    })
}

/// The verdicts: the loss of `auto` against the best fixed choice, for each length.
fn verdicts(results: &Results, speedups: &[Vec<Option<f64>>]) -> Vec<Verdict> {
    let verdict = |(case, row): (&Case, &Vec<Option<f64>>)| {
        let what = format!(
            "lost by auto against the best fixed choice, calls of {}",
            case.title
        );
        let lost = || {
            let (auto, fixed) = row.split_last()?;
            let fixed: Vec<f64> = fixed.iter().flatten().copied().collect();
            Some((1.0 - (*auto)? / stats::maximum(&fixed)?) * 100.0)
        };
        AUTO_GOAL.judge(&what, lost())
    };
    results.cases.iter().zip(speedups).map(verdict).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_choice_loses_nothing_and_others_their_share() {
        let lost = losses(&[Some(1.5), None, Some(2.0), Some(1.0)]);
        assert_eq!(lost, [Some(25.0), None, Some(0.0), Some(50.0)]);
        assert_eq!(losses(&[None]), [None]);
    }

    #[test]
    fn short_calls_are_made_often_and_long_ones_still_twice() {
        assert_eq!(rounds_within(0.25, 1), 200_000);
        assert_eq!(rounds_within(0.25, 100_000), 2);
    }

    #[test]
    fn lengths_are_titled_in_the_unit_that_fits() {
        assert_eq!(
            [1, 300, 1000, 30_000].map(title),
            ["1 us", "300 us", "1 ms", "30 ms"]
        );
    }
}
