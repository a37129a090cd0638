//! Measures how endless loops inside different parts of Lua share the CPU.

use std::process::Command;
use std::time::Duration;

use anyhow::{Result, bail};
use serde_json::json;

use crate::bench::{Bench, progress};
use crate::chart::{Bars, Chart, Scale, Series};
use crate::child::{self, Figures, figures};
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
    let run = child::run(command.arg(seconds.to_string()), limit)?.succeeded("the loops")?;
    let round = figures(&run.output);
    let missing = |name: &&&str| round.get(**name).is_none_or(|of_one| of_one.len() != 2);
    if let Some(name) = LOOPS.iter().find(missing) {
        bail!("no figures for the loop '{name}':\n{}", run.output);
    }
    Ok(round)
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
    let names: Vec<String> = (1..=rounds.len())
        .map(|round| format!("round {round}"))
        .collect();
    let mut header = vec!["loop"];
    header.extend(names.iter().map(String::as_str));
    header.push("turns");
    let caption = "CPU of each loop as a share of the mean in %, by round; millions of its own \
                   turns in the last";
    let mut table = Table::new(caption, &header);
    for (index, name) in LOOPS.iter().enumerate() {
        let mut row = vec![name.to_string()];
        row.extend(
            rounds
                .iter()
                .map(|round| figure(shares(round).get(index).copied(), 2)),
        );
        let turns = rounds
            .last()
            .and_then(|round| round.get(*name)?.get(1).copied());
        row.push(figure(turns.map(|turns| turns / 1e6), 2));
        table.row(row);
    }
    table
}

fn chart(rounds: &[Round]) -> Chart {
    let series = rounds.iter().enumerate().map(|(index, round)| Series {
        name: format!("round {}", index + 1),
        values: shares(round).into_iter().map(Some).collect(),
    });
    Chart::Bars(Bars {
        title: "Seven endless loops share the CPU".to_string(),
        label: "share in % of the mean".to_string(),
        scale: Scale::Linear,
        baseline: Some(100.0),
        marks: Vec::new(),
        digits: 2,
        rows: LOOPS.map(str::to_string).to_vec(),
        series: series.collect(),
    })
}
