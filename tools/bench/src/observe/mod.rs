//! The experiment `observe`: what it costs a program to be looked at. An echo server, plain Lua and
//! ten thousand sleeping processes run with and without an observer, by turns.

pub(crate) mod watched;
mod ways;

use std::time::Duration;

use anyhow::{Result, bail};

use crate::bench::Bench;
use crate::chart::Bars;
use crate::command_line::ObserveOptions;
use crate::contest::{Arm, Case, Contest, Results};
use crate::lua;
use crate::report::{Report, notes};
use crate::table::{Table, figure};
use crate::verdict::{Goal, Verdict};
use ways::{AlsoSeen, TOP, WAYS, Way};

/// The share of a processor that `top` may take of ten thousand processes.
const TOP_GOAL: Goal = Goal::at_most(0.1, " %", 3);
/// The number of processes that `top` looks at.
const CROWD: u32 = 10_000;

/// The time limit for starting, connecting and ending, besides the load.
const BESIDES: Duration = Duration::from_secs(120);

/// Runs the experiment.
pub(crate) fn run(bench: &Bench, options: &ObserveOptions) -> Result<Report> {
    let baton = bench.paths.baton()?;
    let path = baton.path.display().to_string();
    let server = bench.script("net", include_str!("../../programs/net/baton.lua"))?;
    let server = server.display().to_string();
    let crowd = bench.script("crowd", include_str!("../../programs/crowd.lua"))?;
    let crowd = crowd.display().to_string();
    let programs = lua::named(&options.programs)?;
    let (seconds, pairs) = (options.seconds, options.pairs);
    let mut cases = vec![Case::new(
        "echo",
        format!("an echo server with {} connections", options.connections),
        &[&"echo", &server, &options.connections, &seconds, &pairs],
    )];
    cases.push(Case::new(
        "crowd",
        format!("{CROWD} sleeping processes"),
        &[&"crowd", &crowd, &CROWD, &seconds, &pairs],
    ));
    for program in &programs {
        let script = bench.script(program.name, program.source)?;
        cases.push(Case::new(
            program.name,
            program.name,
            &[
                &"lua",
                &script.display(),
                &program.small_size,
                &seconds,
                &pairs,
            ],
        ));
    }
    let mut arms = Vec::new();
    for way in chosen(&options.observers)? {
        let arm = Arm::this_program(way.name, &["watched", &path, way.name])?;
        let beside: Vec<&str> = match way.beside {
            AlsoSeen::Nothing => vec![],
            AlsoSeen::PlainLua => programs.iter().map(|program| program.name).collect(),
            AlsoSeen::Crowd => vec!["crowd"],
        };
        arms.push(arm.only(&[&["echo"][..], &beside].concat()));
    }
    arms[0].found = Some(baton.found());
    let results = Contest {
        arms,
        cases,
        rounds: options.rounds,
        figure: "cost",
        limit: BESIDES + Duration::from_secs_f64(f64::from(pairs) * (seconds + 2.0) * 2.0),
    }
    .run();
    Ok(results.complete(Report {
        notes: notes(&[
            "The cost is the processor time of the program while it is looked at, relative to the \
             time without an observer, in percent more. Both are measured by turns.",
            "Of the echo server it is the time for each request. Of the sleeping processes it is \
             the share of a processor. Of plain Lua it is the time of each run of a small program.",
            "The load on the echo server never sleeps: to wake it would take the server's time, \
             more or less of it by chance.",
        ]),
        tables: vec![table(&results)],
        charts: vec![chart(&results).into()],
        verdicts: verdicts(&results),
        ..Report::default()
    }))
}

/// The ways with these names; all of them if there is no name.
fn chosen(names: &[String]) -> Result<Vec<&'static Way>> {
    if let Some(unknown) = names.iter().find(|name| Way::named(name).is_none()) {
        let all: Vec<&str> = WAYS.iter().map(|way| way.name).collect();
        bail!(
            "no observer is named '{unknown}'; there are {}",
            all.join(", ")
        );
    }
    let wanted = |way: &&Way| names.is_empty() || names.iter().any(|name| name == way.name);
    Ok(WAYS.iter().filter(wanted).collect())
}

/// The cost of a way: in a case, or the mean of all programs in plain Lua.
fn cost(results: &Results, way: &Way, case: &str) -> Option<f64> {
    let (arm, case) = results.place(way.name, case)?;
    results.median(arm, case, "cost")
}

/// The mean over the programs in plain Lua.
fn mean_of_lua(results: &Results, way: &Way) -> Option<f64> {
    let programs = results.cases.iter().skip(2);
    let costs: Vec<f64> = programs
        .filter_map(|case| cost(results, way, &case.name))
        .collect();
    crate::stats::mean(&costs)
}

fn table(results: &Results) -> Table {
    let header = ["observer"]
        .into_iter()
        .chain(results.cases.iter().map(|case| case.name.as_str()))
        .chain(["mean of plain Lua"]);
    let mut table = Table::new("cost in percent; medians", header);
    for way in &WAYS {
        let of_cases = results
            .cases
            .iter()
            .map(|case| figure(cost(results, way, &case.name), 2));
        let mean = figure(mean_of_lua(results, way), 2);
        table.named(way.title, of_cases.chain([mean]));
    }
    table
}

fn chart(results: &Results) -> Bars {
    let title = "What it costs to be looked at";
    Bars::new(title, "processor time, percent more")
        .digits(2)
        .rows(WAYS.iter().map(|way| way.title))
        .series(
            "an echo server",
            WAYS.iter()
                .map(|way| above_zero(cost(results, way, "echo"))),
        )
        .series(
            "plain Lua",
            WAYS.iter().map(|way| above_zero(mean_of_lua(results, way))),
        )
}

/// A cost as the length of a bar. One below zero is due to chance.
fn above_zero(cost: Option<f64>) -> Option<f64> {
    cost.map(|cost| cost.max(0.0))
}

fn verdicts(results: &Results) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    let tried = WAYS.iter().filter(|way| results.arm(way.name).is_some());
    for way in tried {
        let Some(goal) = way.goal else { continue };
        verdicts.push(goal.judge(
            &format!("{} of an echo server", way.title),
            cost(results, way, "echo"),
        ));
        if way.beside == AlsoSeen::PlainLua {
            verdicts.push(goal.judge(
                &format!("{} of plain Lua, mean", way.title),
                mean_of_lua(results, way),
            ));
        }
    }
    if let Some((arm, case)) = results.place(TOP, "crowd") {
        let share = results.median(arm, case, "cost");
        verdicts.push(TOP_GOAL.judge("top of 10,000 sleeping processes, of a processor", share));
    }
    verdicts
}
