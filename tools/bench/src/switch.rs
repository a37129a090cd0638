//! The experiment `switch`: the time of a switch between processes, compared with other systems.

use std::time::Duration;

use anyhow::Result;

use crate::bench::Bench;
use crate::chart::{Bars, Chart};
use crate::child::{Figures, first};
use crate::command_line::SwitchOptions;
use crate::contest::{Arm, Case, Contest, Results};
use crate::peers::{self, BOOST_FIBER, ERLANG_OTP, GO, MAY, Peer};
use crate::report::{Report, notes};
use crate::stats;
use crate::table::{Table, figure};
use crate::verdict::{Goal, Verdict};

const YIELD_GOAL: Goal = Goal::at_most(1.0 / 3.0, "", 3);
/// Of a switch in the chain, to a pair of stock's resume and yield.
const CHAIN_GOAL: Goal = Goal::at_most(1.0, "", 3);
const APART_GOAL: Goal = Goal::at_most(1.0, "", 0);
const LIMIT: Duration = Duration::from_secs(120);

/// The operations: the name in every program, and the name in tables.
const CASES: [(&str, &str); 11] = [
    ("yield", "yield"),
    ("channel", "channel"),
    ("semaphore", "semaphore"),
    ("spawn_join", "spawn + join"),
    ("mutex", "mutex"),
    ("event", "event"),
    ("select", "select of four"),
    ("suspend", "suspend + resume"),
    (CHAIN, "chain"),
    (TIMEOUT, "process.timeout"),
    (SCOPE, "process.scope"),
];

/// The case that needs priorities.
const CHAIN: &str = "chain";

/// The cases that are compared with a spawn and a join of the same system.
const TIMEOUT: &str = "timeout";
const SCOPE: &str = "scope";
const TIMEOUT_GOAL: Goal = Goal::at_most(1.5, "", 3);
const SCOPE_GOAL: Goal = Goal::at_most(2.5, "", 3);

/// The cases of systems that have nothing near to the others.
const COMMON: &[&str] = &["yield", "channel", "semaphore", "spawn_join"];

/// The cases of systems without priorities of processes.
const WITHOUT_PRIORITIES: &[&str] = &[
    "yield",
    "channel",
    "semaphore",
    "spawn_join",
    "mutex",
    "event",
    "select",
    "suspend",
];

/// The names of the arms that the goals mention.
const BATON: &str = "baton";
const RESUME: &str = "Lua resume";
const WRAP: &str = "Lua wrap";

const NOTES: [&str; 12] = [
    "Lua: coroutines of stock Lua; baton's own coroutines for comparison",
    "yield: two processes yield to each other; for coroutines, a pair of resume and yield",
    "channel: a value is passed on, and its sender waits until it is received; by a receipt in \
     Erlang and may, by a yield in Lua",
    "semaphore: two processes take turns; by a message in Erlang, by a channel in Go, by a yield \
     in Lua",
    "spawn + join: a process is started, and another one waits for its end; coroutines are made \
     and run to their end",
    "mutex: two processes take a lock in turns, and yield while they hold it; a process grants it \
     in Erlang",
    "event: two processes take turns by events; by a condition variable in Go, by a message in \
     Erlang",
    "select: a process receives from four channels, to which another one sends in turns; by \
     tagged messages and receipts in Erlang",
    "suspend + resume: two processes take turns; by a channel in Go, by a message in Erlang",
    "chain: a switch between five processes of five priorities; each resumes the next more urgent \
     one, which preempts it and then suspends itself; the other systems have no such priorities",
    "process.timeout: a function that returns at once is called with a deadline",
    "process.scope: a scope with one spawn, whose process returns at once",
];

/// Runs the experiment.
pub(crate) fn run(bench: &Bench, options: &SwitchOptions) -> Result<Report> {
    let case = |(name, title): (&str, &str)| {
        Case::new(name, title, &[&name, &iterations(name, options.iterations)])
    };
    let results = Contest {
        arms: arms(bench)?,
        cases: CASES.map(case).to_vec(),
        rounds: options.rounds,
        figure: "ns",
        limit: LIMIT,
    }
    .run();
    Ok(results.complete(Report {
        notes: notes(&NOTES),
        tables: vec![table(&results, options.rounds), in_spawns(&results)],
        charts: vec![chart(&results)],
        verdicts: verdicts(&results),
        ..Report::default()
    }))
}

/// The number of operations in a case. Starting a process costs ten times a switch, so it is
/// repeated less often.
fn iterations(case: &str, iterations: u64) -> u64 {
    match case {
        "spawn_join" | TIMEOUT | SCOPE => iterations / 10,
        _ => iterations,
    }
}

fn arms(bench: &Bench) -> Result<Vec<Arm>> {
    let (baton, stock) = (bench.paths.baton()?, bench.paths.stock()?);
    let processes = bench.script("switch", include_str!("../programs/switch.lua"))?;
    let coroutines = bench.script("coroutines", include_str!("../programs/coroutines.lua"))?;
    let mut arms = vec![
        Arm::interpreted(BATON, &baton, &processes, &[]),
        Arm::interpreted(RESUME, &stock, &coroutines, &["resume"]).only(COMMON),
        Arm::interpreted(WRAP, &stock, &coroutines, &["wrap"]).only(COMMON),
        Arm::interpreted("Lua resume in baton", &baton, &coroutines, &["resume"]).only(&["yield"]),
    ];
    let peers = peers::directory(bench.paths.peers.as_ref())?;
    let arm = |peer: &Peer| peer.arm(&peers, &["switch"]);
    arms.extend([&GO, &ERLANG_OTP].map(|peer| arm(peer).only(WITHOUT_PRIORITIES)));
    arms.extend([&MAY, &BOOST_FIBER].map(|peer| arm(peer).only(COMMON)));
    Ok(arms)
}

/// A table with a row for each system; baton is the first. For each operation it has the time, and
/// the ratio of baton's time to it.
fn table(results: &Results, rounds: u32) -> Table {
    let caption = format!(
        "nanoseconds of CPU per operation, median of {rounds} rounds, and baton's as a ratio to it"
    );
    let titles = CASES.iter().flat_map(|(_, title)| [*title, "baton/it"]);
    let mut table = Table::new(caption, ["system"].into_iter().chain(titles));
    for (arm, of_arm) in results.arms.iter().enumerate() {
        let cells = results.all_cases().flat_map(|case| {
            let ratio = results.ratio((0, case), (arm, case), "ns");
            [results.shown(arm, case, "ns", 1), figure(ratio, 3)]
        });
        table.named(of_arm.name, cells);
    }
    table
}

/// How many times as much as a spawn and a join of Baton one of its cases costs.
fn to_spawn(results: &Results, case: &str) -> Option<f64> {
    let spawn = results.place(BATON, "spawn_join")?;
    results.ratio(results.place(BATON, case)?, spawn, "ns")
}

/// A table of what is made of spawns.
fn in_spawns(results: &Results) -> Table {
    let caption = "Baton's calls that start processes, as multiples of spawn + join";
    let mut table = Table::new(caption, ["call", "multiple"]);
    for (name, title) in CASES {
        if [TIMEOUT, SCOPE].contains(&name) {
            table.named(title, [figure(to_spawn(results, name), 3)]);
        }
    }
    table
}

fn chart(results: &Results) -> Chart {
    let label = "nanoseconds of CPU per operation, logarithmic; less is better";
    let chart = Bars::new("The price of a switch", label).log();
    let median = |arm, case| results.median(arm, case, "ns");
    results.bars(chart, results.all_cases(), median)
}

/// The largest distance between the counters of the two yielding processes, at any check in any
/// round.
fn counters_apart(of_yield: &[Figures]) -> Option<f64> {
    let at_the_end = |round: &Figures| match round.get("counters").map(Vec::as_slice) {
        Some([a, b]) => Some((a - b).abs()),
        _ => None,
    };
    let worst = |round: &Figures| Some(at_the_end(round)?.max(first(round, "apart")?));
    stats::maximum(&of_yield.iter().map(worst).collect::<Option<Vec<_>>>()?)
}

fn verdicts(results: &Results) -> Vec<Verdict> {
    let Some((baton, case)) = results.place(BATON, "yield") else {
        return Vec::new();
    };
    let to_resume = || results.ratio((baton, case), (results.arm(RESUME)?, case), "ns");
    let chain_to_resume = || {
        results.ratio(
            results.place(BATON, CHAIN)?,
            results.place(RESUME, "yield")?,
            "ns",
        )
    };
    let rounds = results.rounds(baton, case);
    let mut verdicts = vec![
        YIELD_GOAL.judge("process.yield / stock's resume and yield", to_resume()),
        CHAIN_GOAL.judge(
            "a switch of the chain / stock's resume and yield",
            chain_to_resume(),
        ),
        TIMEOUT_GOAL.judge("process.timeout / spawn + join", to_spawn(results, TIMEOUT)),
        SCOPE_GOAL.judge("process.scope / spawn + join", to_spawn(results, SCOPE)),
        APART_GOAL.judge(
            "counters of the yielding processes apart",
            counters_apart(rounds),
        ),
    ];
    // If the runtime counts switches, its count must have grown by one for each yield.
    let switched = |round: &Figures| match round.get("switches").map(Vec::as_slice) {
        Some([counted, yields]) => Some(counted >= yields),
        _ => None,
    };
    if let Some(rounds) = rounds.iter().map(switched).collect::<Option<Vec<_>>>() {
        verdicts.push(Verdict::holds(
            "each yield was counted as a switch",
            rounds.into_iter().all(|did| did),
        ));
    }
    verdicts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::child::figures;

    #[test]
    fn the_counters_distance_is_the_worst_of_all_rounds_and_checks() {
        let near = figures("apart 1\ncounters 10 10\nns 12");
        let far = figures("apart 1\ncounters 10 17\nns 12");
        assert_eq!(counters_apart(&[near.clone(), near.clone()]), Some(1.0));
        assert_eq!(counters_apart(&[near.clone(), far]), Some(7.0));
        assert_eq!(counters_apart(&[near, figures("ns 12")]), None);
    }

    #[test]
    fn a_system_without_priorities_takes_part_in_every_other_case() {
        let others: Vec<&str> = CASES
            .iter()
            .map(|(name, _)| *name)
            .filter(|name| ![CHAIN, TIMEOUT, SCOPE].contains(name))
            .collect();
        assert_eq!(WITHOUT_PRIORITIES, others);
    }

    #[test]
    fn processes_are_started_a_tenth_as_often_as_switched() {
        assert_eq!(
            (iterations("yield", 1000), iterations("spawn_join", 1000)),
            (1000, 100)
        );
        assert_eq!(
            [TIMEOUT, SCOPE].map(|case| iterations(case, 1000)),
            [100; 2]
        );
    }
}
