//! The experiment `blocking --beside callbacks`: how late a process that waits in a callback of C
//! goes on, beside long C calls of another process.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::beside::{Call, LEAST_PART, chosen_of};
use crate::bench::Bench;
use crate::calls::DIRECTORY;
use crate::chart::Bars;
use crate::child::{self, first};
use crate::command_line::BlockingOptions;
use crate::contest::{Arm, Case, Contest, Results};
use crate::report::{Report, notes};
use crate::stats;
use crate::table::{Table, figure};
use crate::verdict::{Goal, Verdict};

const GOAL: Goal = Goal::at_most(20.0, " ms", 2);
const LIMIT: Duration = Duration::from_secs(60);
const WORST: &str = "worst_ms";

/// The calls, as in [`super::beside`].
const CALLS: [Call; 8] = [
    ("nothing", "nothing"),
    ("match", "a string.match"),
    ("fifo_open", "an open of a FIFO"),
    ("popen_close", "the close of a command"),
    ("module_sleeps", "a sleep in a declared module"),
    ("ffi_short", "short calls by ffi"),
    ("ffi_first", "a first call by ffi"),
    ("ffi_turning", "a long call by ffi after 3000 short ones"),
];

const NOTES: [&str; 1] = [
    "One process sleeps for 5 ms in a callback of qsort, again and again. The figure is the \
     longest time from when a sleep was due until the callback went on.",
];

/// Runs the experiment.
pub(super) fn run(bench: &Bench, options: &BlockingOptions) -> Result<Report> {
    let calls = chosen_of(&CALLS, &options.only)?;
    let baton = bench.paths.baton()?;
    bench.script(
        "calls_that_last",
        include_str!("../../programs/beside/calls_that_last.lua"),
    )?;
    bench.named_pipe("fifo")?;
    let script = bench.script(
        "callbacks",
        include_str!("../../programs/beside/callbacks.lua"),
    )?;
    let words = [
        format!("seconds={}", options.seconds),
        format!("modules={DIRECTORY}"),
        format!("directory={}", bench.directory().display()),
    ];
    let case = |&(name, beside): &Call| {
        let call = format!("call={name}");
        let title = format!("longest wait in a callback, beside {beside}");
        Case::new(name, title, &[&call, &words[0], &words[1], &words[2]])
    };
    let contest = Contest {
        arms: vec![Arm::interpreted("baton", &baton, &script, &[])],
        cases: calls.iter().map(case).collect(),
        rounds: options.runs,
        figure: WORST,
        limit: LIMIT,
    };
    let results = contest.run_by(|_, case, command| {
        let found = child::measure(command, LIMIT, &case.title, WORST)?;
        let lasted = first(&found, "lasted_s").context("no length of the call")?;
        ensure!(
            lasted >= options.seconds * LEAST_PART,
            "the call lasted {lasted} s, which is too short to tell anything"
        );
        Ok(found)
    });
    let mut table = Table::new(
        "waits in a callback, ms too long",
        ["beside", "worst", "waits", "the call, s"],
    );
    let worst = |case| stats::maximum(&results.values(0, case, WORST));
    for (case, (_, beside)) in calls.iter().enumerate() {
        let median = |name, digits| figure(results.median(0, case, name), digits);
        table.named(
            beside,
            [
                figure(worst(case), 2),
                median("waits", 0),
                median("lasted_s", 2),
            ],
        );
    }
    let chart = Bars::new("A wait in a callback beside a call", "worst, ms too long")
        .log()
        .mark("goal", GOAL.limit())
        .digits(2)
        .rows(calls.iter().map(|(_, beside)| beside))
        .series("baton", (0..calls.len()).map(worst));
    Ok(Report {
        arms: vec![baton.found()],
        tables: vec![table],
        charts: vec![chart.into()],
        verdicts: results
            .all_cases()
            .map(|case| verdict(&results, case))
            .collect(),
        notes: notes(&NOTES),
        samples: json!({ "runs": results.to_json() }),
    })
}

fn verdict(results: &Results, case: usize) -> Verdict {
    let what = &results.cases[case].title;
    match results.failure(0, case) {
        Some(why) => Verdict::unmet(what, why),
        None => GOAL.judge(what, stats::maximum(&results.values(0, case, WORST))),
    }
}
