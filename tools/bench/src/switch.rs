//! The price of a switch, beside the nearest thing that stock Lua has: resuming and yielding a coroutine.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::bench::{Bench, Report, progress};
use crate::child::{self, figures};
use crate::command_line::SwitchOptions;
use crate::interpreters::Interpreter;
use crate::stats;
use crate::table::{Table, figure};
use crate::verdict::{Goal, Verdict};

const YIELD_GOAL: Goal = Goal::at_most(1.0 / 3.0, "", 3);
const APART_GOAL: Goal = Goal::at_most(1.0, "", 0);
const LIMIT: Duration = Duration::from_secs(120);

/// A case and the arm that runs it.
#[derive(Clone, Copy)]
struct Case {
    name: &'static str,
    operation: &'static str,
    in_stock: bool,
    coroutine: bool,
}

const fn process(name: &'static str, operation: &'static str) -> Case {
    Case {
        name,
        operation,
        in_stock: false,
        coroutine: false,
    }
}

const fn coroutine(name: &'static str, operation: &'static str, in_stock: bool) -> Case {
    Case {
        name,
        operation,
        in_stock,
        coroutine: true,
    }
}

const YIELD: usize = 0;
const STOCK_RESUME: usize = 1;
const STOCK_WRAP: usize = 2;

static CASES: [Case; 8] = [
    process("yield", "process.yield to the other of two"),
    coroutine("resume", "coroutine.resume and yield, the pair", true),
    coroutine("wrap", "coroutine.wrap and yield, the pair", true),
    coroutine("resume", "coroutine.resume and yield, the pair", false),
    coroutine("wrap", "coroutine.wrap and yield, the pair", false),
    process("channel", "channel send and receive, rendezvous"),
    process("semaphore", "semaphore hand-off"),
    process("spawn_join", "spawn and join"),
];

type Figures = BTreeMap<String, Vec<f64>>;

/// Runs the experiment.
pub(crate) fn run(bench: &Bench, options: &SwitchOptions) -> Result<Report> {
    let (baton, stock) = (bench.paths.baton()?, bench.paths.stock()?);
    let switch = bench.script("switch", include_str!("../programs/switch.lua"))?;
    let coroutines = bench.script("coroutines", include_str!("../programs/coroutines.lua"))?;
    let mut samples: Vec<Vec<Figures>> = vec![Vec::new(); CASES.len()];
    let mut failures: [Option<Verdict>; CASES.len()] = [const { None }; CASES.len()];
    let bar = progress(options.rounds as usize * CASES.len());
    for round in 0..options.rounds as usize {
        for turn in 0..CASES.len() {
            let index = (round + turn) % CASES.len();
            let case = CASES[index];
            bar.set_message(case.operation);
            let arm = if case.in_stock { &stock } else { &baton };
            let script = if case.coroutine { &coroutines } else { &switch };
            if failures[index].is_none() {
                match measure(case, arm, script, options.iterations) {
                    Ok(figures) => samples[index].push(figures),
                    Err(error) => failures[index] = Some(Verdict::unmet(case.operation, format!("{error:#}"))),
                }
            }
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    print_table(&samples, options.rounds);
    let mut verdicts = verdicts(&samples);
    verdicts.extend(failures.into_iter().flatten());
    Ok(Report {
        samples: CASES.iter().zip(&samples).map(to_json).collect(),
        verdicts,
    })
}

fn measure(case: Case, arm: &Interpreter, script: &Path, iterations: u64) -> Result<Figures> {
    let what = format!("the case {} under {}", case.name, arm.name);
    let mut command = arm.script(script);
    command.arg(case.name).arg(iterations.to_string());
    let run = child::run(&mut command, LIMIT)?.succeeded(&what)?;
    let found = figures(&run.output);
    found
        .get("ns")
        .with_context(|| format!("{what} printed no time:\n{}", run.output))?;
    Ok(found)
}

fn nanoseconds(of_case: &[Figures]) -> Vec<f64> {
    of_case
        .iter()
        .filter_map(|round| round.get("ns")?.first().copied())
        .collect()
}

fn ratio(samples: &[Vec<Figures>], case: usize, to: usize) -> Option<f64> {
    stats::median_of_ratios(&nanoseconds(&samples[case]), &nanoseconds(&samples[to]))
}

fn print_table(samples: &[Vec<Figures>], rounds: u32) {
    println!("nanoseconds of CPU per operation, median of {rounds} rounds; the ratio is to stock's resume and yield");
    let mut table = Table::new(&["operation", "arm", "ns", "ratio"]);
    for (index, case) in CASES.iter().enumerate() {
        table.row([
            case.operation.to_string(),
            if case.in_stock { "stock" } else { "baton" }.to_string(),
            figure(stats::median(&nanoseconds(&samples[index])), 1, ""),
            figure(ratio(samples, index, STOCK_RESUME), 3, ""),
        ]);
    }
    print!("{table}");
}

/// The largest distance that the two yielding processes' counters had, in any round, at any check.
fn counters_apart(of_yield: &[Figures]) -> Option<f64> {
    let at_the_end = |round: &Figures| match round.get("counters").map(Vec::as_slice) {
        Some([a, b]) => Some((a - b).abs()),
        _ => None,
    };
    let worst = |round: &Figures| Some(at_the_end(round)?.max(*round.get("apart")?.first()?));
    stats::maximum(&of_yield.iter().map(worst).collect::<Option<Vec<_>>>()?)
}

fn verdicts(samples: &[Vec<Figures>]) -> Vec<Verdict> {
    let mut verdicts = vec![
        YIELD_GOAL.judge(
            "process.yield / stock's resume and yield",
            ratio(samples, YIELD, STOCK_RESUME),
        ),
        APART_GOAL.judge(
            "counters of the yielding processes apart",
            counters_apart(&samples[YIELD]),
        ),
    ];
    // The runtime's own count of switches, where it offers one, must have grown by one for each yield.
    let switched = |round: &Figures| match round.get("switches").map(Vec::as_slice) {
        Some([counted, yields]) => Some(counted >= yields),
        _ => None,
    };
    if let Some(rounds) = samples[YIELD].iter().map(switched).collect::<Option<Vec<_>>>() {
        verdicts.push(Verdict::holds(
            "each yield was counted as a switch",
            rounds.into_iter().all(|did| did),
        ));
    }
    if let Some(ratio) = ratio(samples, YIELD, STOCK_WRAP) {
        println!("process.yield / stock's wrap and yield: {ratio:.3}");
    }
    verdicts
}

fn to_json((case, rounds): (&Case, &Vec<Figures>)) -> Value {
    let arm = if case.in_stock { "stock" } else { "baton" };
    json!({"operation": case.operation, "arm": arm, "rounds": rounds})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(text: &str) -> Figures {
        figures(text)
    }

    #[test]
    fn the_counters_distance_is_the_worst_of_all_rounds_and_checks() {
        let near = round("apart 1\ncounters 10 10\nns 12");
        let far = round("apart 1\ncounters 10 17\nns 12");
        assert_eq!(counters_apart(&[near.clone(), near.clone()]), Some(1.0));
        assert_eq!(counters_apart(&[near.clone(), far]), Some(7.0));
        assert_eq!(counters_apart(&[near, round("ns 12")]), None);
    }
}
