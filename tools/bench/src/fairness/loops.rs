//! Measures how endless loops inside different parts of Lua share the CPU.

use std::process::Command;
use std::time::Duration;

use anyhow::Result;
use serde_json::json;

use crate::bench::{Bench, progress};
use crate::chart::{Bars, Chart};
use crate::child::{self, Figures};
use crate::command_line::FairnessOptions;
use crate::interpreters::Interpreter;
use crate::report::Report;
use crate::stats;
use crate::table::{Table, figure, figure_in};
use crate::verdict::Goal;

const GOAL: Goal = Goal::at_most(5.0, " %", 2);
const LOOPS: [&str; 7] = [
    "plain",
    "pcall",
    "sort",
    "gsub",
    "index",
    "coroutine",
    "hook",
];

/// One round: the CPU seconds of each loop, and its own count of turns.
type Round = Figures;

/// Runs the experiment.
pub(super) fn run(bench: &Bench, baton: &Interpreter, options: &FairnessOptions) -> Result<Report> {
    let script = bench.script("fairness", include_str!("../../programs/fairness.lua"))?;
    let bar = progress(options.rounds as usize);
    let mut rounds = Vec::new();
    for _ in 0..options.rounds {
        rounds.push(measure(baton.script(&script), options.seconds)?);
        bar.inc(1);
    }
    bar.finish_and_clear();
    let total: Vec<f64> = rounds
        .iter()
        .map(|round| seconds(round).iter().sum::<f64>() / options.seconds)
        .collect();
    let share = stats::median(&total).map(|share| share * 100.0);
    let together = format!(
        "all loops together had {} of one CPU",
        figure_in(share, 1, " %")
    );
    let deviation = |round: &Round| Some(stats::largest_deviation(&seconds(round))? * 100.0);
    let deviations: Option<Vec<f64>> = rounds.iter().map(deviation).collect();
    let worst = deviations.and_then(|deviations| stats::maximum(&deviations));
    Ok(Report {
        notes: vec![together],
        tables: vec![table(&rounds)],
        charts: vec![chart(&rounds)],
        samples: json!(rounds),
        verdicts: vec![GOAL.judge("seven loops: farthest share of CPU from the mean", worst)],
        ..Report::default()
    })
}

fn measure(mut command: Command, seconds: f64) -> Result<Round> {
    let limit = Duration::from_secs_f64(seconds * 2.0 + 30.0);
    let last = LOOPS[LOOPS.len() - 1];
    child::measure(command.arg(seconds.to_string()), limit, "the loops", last)
}

fn seconds(round: &Round) -> Vec<f64> {
    LOOPS
        .iter()
        .filter_map(|&name| round.get(name)?.first().copied())
        .collect()
}

/// The CPU time of each loop in a round, in percent of the mean, in the order of [`LOOPS`].
fn shares(round: &Round) -> Vec<f64> {
    let seconds = seconds(round);
    let mean = stats::mean(&seconds).unwrap_or(f64::NAN);
    seconds.iter().map(|of_one| of_one / mean * 100.0).collect()
}

fn table(rounds: &[Round]) -> Table {
    let names = (1..=rounds.len()).map(|round| format!("round {round}"));
    let header = ["loop".to_string()]
        .into_iter()
        .chain(names)
        .chain(["turns".to_string()]);
    let caption = "CPU of each loop as a share of the mean in %, by round; millions of its own \
                   turns in the last";
    let mut table = Table::new(caption, header);
    for (index, name) in LOOPS.iter().enumerate() {
        let shares = rounds
            .iter()
            .map(|round| figure(shares(round).get(index).copied(), 2));
        let turns = || rounds.last()?.get(*name)?.get(1).copied();
        table.named(
            name,
            shares.chain([figure(turns().map(|turns| turns / 1e6), 2)]),
        );
    }
    table
}

fn chart(rounds: &[Round]) -> Chart {
    let mut chart = Bars::new(
        "Seven endless loops share the CPU",
        "share in % of the mean",
    )
    .from(100.0)
    .digits(2)
    .rows(LOOPS);
    for (number, round) in (1..).zip(rounds) {
        let shares = shares(round).into_iter().map(Some);
        chart = chart.series(format!("round {number}"), shares);
    }
    chart.into()
}
