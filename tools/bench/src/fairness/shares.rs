//! Measures the shares of equal processes, from two to a thousand, and of unequal ones.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use serde_json::json;

use crate::bench::{Bench, progress};
use crate::chart::{Chart, Lines};
use crate::child::{self, Figures};
use crate::command_line::FairnessOptions;
use crate::interpreters::Interpreter;
use crate::report::Report;
use crate::stats;
use crate::table::{Table, figure, figure_in};
use crate::verdict::{Goal, Verdict};

const GOAL: Goal = Goal::at_most(1.0, " %", 2);

/// The slice, in seconds.
const SLICE: f64 = 0.001;

/// The numbers of processes, each with its number of rounds. A reading may cut a round in two; with
/// this many rounds, the error is small.
const STEPS: [(u32, u32); 5] = [(2, 1000), (10, 500), (50, 300), (200, 250), (1000, 200)];

/// The work and the sleep of the two urgent processes in the mixed case, in seconds.
const WORK: f64 = 0.005;
const SLEEP: f64 = 0.045;

/// The shares of one number of processes.
struct Step {
    number: u32,
    rounds: u32,
    seconds: Vec<f64>,
}

impl Step {
    /// The largest distance of a process's share from the fair share, in percent of the fair share.
    fn deviation(&self) -> Option<f64> {
        Some(stats::largest_deviation(&self.seconds)? * 100.0)
    }

    fn share(&self, seconds: Option<f64>) -> Option<f64> {
        Some(seconds? / stats::mean(&self.seconds)? * 100.0)
    }
}

pub(super) fn run(bench: &Bench, baton: &Interpreter, options: &FairnessOptions) -> Result<Report> {
    let script = bench.script("shares", include_str!("../../programs/shares.lua"))?;
    let is_small = options.most < 10;
    let steps = STEPS
        .iter()
        .filter(|(number, _)| *number <= options.most.max(2));
    let bar = progress(steps.clone().count() + 1);
    let mut list = Vec::new();
    for &(number, rounds) in steps {
        bar.set_message(format!("{number} equal processes"));
        let rounds = if is_small { 20 } else { rounds };
        let words = [
            "equal".to_string(),
            number.to_string(),
            SLICE.to_string(),
            rounds.to_string(),
        ];
        let mut found = measure(baton, &script, &words, f64::from(number * rounds) * SLICE)?;
        let seconds = found.remove("cpu").unwrap_or_default();
        list.push(Step {
            number,
            rounds,
            seconds,
        });
        bar.inc(1);
    }
    bar.set_message("unequal processes");
    let seconds = if is_small { 0.2 } else { 5.0 };
    let mixed = measure(
        baton,
        &script,
        &["mixed".to_string(), seconds.to_string()],
        seconds,
    )?;
    bar.finish_and_clear();
    let mut verdicts: Vec<Verdict> = list.iter().map(verdict).collect();
    verdicts.push(verdict_of_mixed(&mixed));
    let equal: Vec<_> = list
        .iter()
        .map(|step| json!({"number": step.number, "seconds": step.seconds}))
        .collect();
    Ok(Report {
        tables: vec![table(&list), table_of_mixed(&mixed, seconds)],
        charts: vec![chart(&list)],
        verdicts,
        samples: json!({
            "equal": equal,
            "mixed": mixed,
        }),
        ..Report::default()
    })
}

fn measure(baton: &Interpreter, script: &Path, words: &[String], seconds: f64) -> Result<Figures> {
    let limit = Duration::from_secs_f64(60.0 + 5.0 * seconds);
    let mut command = baton.script(script);
    let what = "processes that share the CPU";
    child::measure(command.args(words), limit, what, "cpu")
}

fn table(list: &[Step]) -> Table {
    let caption = "shares of equal endless processes in % of the fair share, slices of 1 ms";
    let header = ["processes", "rounds", "smallest", "largest", "farthest off"];
    let mut table = Table::new(caption, header);
    for step in list {
        let least = step.seconds.iter().copied().reduce(f64::min);
        let cells = [
            step.rounds.to_string(),
            figure(step.share(least), 2),
            figure(step.share(stats::maximum(&step.seconds)), 2),
            figure_in(step.deviation(), 2, " %"),
        ];
        table.named(step.number, cells);
    }
    table
}

fn chart(list: &[Step]) -> Chart {
    let title = "How far the farthest of N equal processes is from its fair share";
    let point = |step: &Step| Some((f64::from(step.number), step.deviation()?));
    Lines::log(title, "processes", "% of the fair share")
        .linear()
        .mark("at most", GOAL.limit())
        .line("farthest", list.iter().filter_map(point))
        .into()
}

fn verdict(step: &Step) -> Verdict {
    let what = format!(
        "{} equal processes: farthest from the fair share",
        step.number
    );
    GOAL.judge(&what, step.deviation())
}

/// Shares of the whole time, in percent.
fn share_of(mixed: &Figures, name: &str) -> Vec<f64> {
    let all: f64 = mixed.values().flatten().sum();
    let seconds = mixed.get(name).into_iter().flatten();
    seconds.map(|seconds| seconds / all * 100.0).collect()
}

fn table_of_mixed(mixed: &Figures, seconds: f64) -> Table {
    let caption = format!(
        "shares of unequal processes in % of {seconds} s; two urgent ones work 5 ms and sleep 45 ms"
    );
    let mut table = Table::new(caption, ["processes", "each"]);
    for (title, name) in [
        ("urgent, priority 50", "urgent"),
        ("endless, priority 40", "cpu"),
    ] {
        let shares = share_of(mixed, name)
            .into_iter()
            .map(|share| figure(share, 2));
        table.named(title, [shares.collect::<Vec<_>>().join("  ")]);
    }
    table
}

/// The verdict on the urgent processes, which must get all they ask for. Each has a period of its
/// own work, of the other's work, for which it may have to wait, and of its sleep.
fn verdict_of_mixed(mixed: &Figures) -> Verdict {
    let asked = WORK / (2.0 * WORK + SLEEP) * 100.0;
    let least = share_of(mixed, "urgent").into_iter().reduce(f64::min);
    Goal::at_most(1.02, "", 3).judge(
        "unequal processes: what the urgent ones are sure of / what they got",
        least.map(|share| asked / share),
    )
}
