//! How endless loops inside different parts of Lua share the CPU.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Result, bail};
use serde_json::json;

use crate::bench::{Bench, Report, progress};
use crate::child::{self, figures};
use crate::command_line::FairnessOptions;
use crate::stats;
use crate::table::{Table, figure};
use crate::verdict::Verdict;

const GOAL_PERCENT: f64 = 5.0;
const LOOPS: [&str; 7] = [
    "plain",
    "pcall",
    "sort",
    "gsub",
    "index",
    "coroutine",
    "hook",
];

/// One round: for each loop its CPU seconds and its own count of turns.
type Round = BTreeMap<String, Vec<f64>>;

/// Runs the experiment.
pub(crate) fn run(bench: &Bench, options: &FairnessOptions) -> Result<Report> {
    let baton = bench.paths.baton()?;
    let script = bench.script("fairness", include_str!("../programs/fairness.lua"))?;
    let limit = Duration::from_secs_f64(options.seconds * 2.0 + 30.0);
    let bar = progress(options.rounds as usize);
    let mut rounds = Vec::new();
    for _ in 0..options.rounds {
        let mut command = baton.script(&script);
        command.arg(options.seconds.to_string());
        let run = child::run(&mut command, limit)?.succeeded("the loops")?;
        let round = figures(&run.output);
        if let Some(missing) = LOOPS
            .iter()
            .find(|&&name| round.get(name).is_none_or(|of_one| of_one.len() != 2))
        {
            bail!("no figures for the loop '{missing}':\n{}", run.output);
        }
        rounds.push(round);
        bar.inc(1);
    }
    bar.finish_and_clear();
    print_table(&rounds);
    let worst = rounds
        .iter()
        .map(|round| stats::largest_deviation(&seconds(round)))
        .collect::<Option<Vec<_>>>();
    let worst = worst
        .and_then(|deviations| stats::maximum(&deviations))
        .map(|fraction| fraction * 100.0);
    let total: Vec<f64> = rounds
        .iter()
        .map(|round| seconds(round).iter().sum::<f64>() / options.seconds)
        .collect();
    println!(
        "all loops together had {} of one CPU",
        figure(stats::median(&total).map(|share| share * 100.0), 1, " %")
    );
    Ok(Report {
        samples: json!(rounds),
        verdicts: vec![Verdict::at_most(
            "farthest share of CPU from the mean",
            worst,
            GOAL_PERCENT,
            2,
            " %",
        )],
    })
}

fn seconds(round: &Round) -> Vec<f64> {
    LOOPS
        .iter()
        .filter_map(|&name| round.get(name)?.first().copied())
        .collect()
}

fn print_table(rounds: &[Round]) {
    println!(
        "CPU of each loop as a share of the mean in %, by round; millions of its own turns in the last"
    );
    let names: Vec<String> = (1..=rounds.len())
        .map(|round| format!("round {round}"))
        .collect();
    let mut header = vec!["loop"];
    header.extend(names.iter().map(String::as_str));
    header.push("turns");
    let mut table = Table::new(&header);
    for (index, name) in LOOPS.iter().enumerate() {
        let share = |round: &Round| {
            let seconds = seconds(round);
            Some(seconds.get(index)? / stats::mean(&seconds)? * 100.0)
        };
        let mut row = vec![name.to_string()];
        row.extend(rounds.iter().map(|round| figure(share(round), 2, "")));
        let turns = rounds
            .last()
            .and_then(|round| round.get(*name)?.get(1).copied());
        row.push(figure(turns.map(|turns| turns / 1e6), 2, ""));
        table.row(row);
    }
    print!("{table}");
}
