//! The experiment `timers`: the time to set, cancel and expire a timer, beside a thousand others
//! and beside a million.

use std::time::Duration;

use anyhow::Result;

use crate::bench::Bench;
use crate::chart::{Chart, Lines};
use crate::command_line::TimersOptions;
use crate::contest::{Arm, Case, Contest, Results, steps_up_to};
use crate::report::{Report, notes};
use crate::table::Table;
use crate::verdict::{Goal, Verdict};

const STEPS: [u64; 4] = [1_000, 10_000, 100_000, 1_000_000];

/// The parts of a timer's life: the name of the figure, and its name in tables.
const PARTS: [(&str, &str); 3] = [
    ("set_ns", "set"),
    ("cancel_ns", "cancelled"),
    ("expire_ns", "expired"),
];

/// The largest growth allowed. A heap that is a thousand times as large is twice as deep, and does
/// not fit into the processor's caches.
const GROWTH_GOAL: Goal = Goal::at_most(4.0, " times", 2);

/// Runs the experiment.
pub(crate) fn run(bench: &Bench, options: &TimersOptions) -> Result<Report> {
    let baton = bench.paths.baton()?;
    let script = bench.script("timers", include_str!("../programs/timers.lua"))?;
    let counts = steps_up_to(&STEPS, options.largest).into_iter();
    let results = Contest {
        arms: vec![Arm::interpreted("baton", &baton, &script, &[])],
        cases: counts
            .map(|count| Case::new(count, format!("{count} timers"), &[&count]))
            .collect(),
        rounds: options.rounds,
        figure: "expire_ns",
        limit: Duration::from_secs(300),
    }
    .run();
    Ok(results.complete(Report {
        notes: notes(&[
            "Setting a timer makes the process of its firing; to expire is to run it, and to its \
             end.",
        ]),
        tables: vec![table(&results)],
        charts: vec![chart(&results)],
        verdicts: verdicts(&results),
        ..Report::default()
    }))
}

fn table(results: &Results) -> Table {
    let titles = PARTS.map(|(_, title)| title);
    let header = ["timers"].into_iter().chain(titles);
    let mut table = Table::new("ns of CPU time for each timer", header);
    for (number, case) in results.cases.iter().enumerate() {
        table.named(
            &case.name,
            PARTS.map(|(name, _)| results.shown(0, number, name, 0)),
        );
    }
    table
}

fn chart(results: &Results) -> Chart {
    let chart = Lines::log("What a timer costs", "timers", "ns of CPU time each");
    let point = |case: usize, name| {
        let count = results.cases[case].name.parse().ok()?;
        Some((count, results.median(0, case, name)?))
    };
    let add = |chart: Lines, (name, title)| {
        chart.line(
            title,
            results.all_cases().filter_map(|case| point(case, name)),
        )
    };
    PARTS.into_iter().fold(chart, add).into()
}

/// The verdicts: the cost of a timer among the most, divided by that among the fewest.
fn verdicts(results: &Results) -> Vec<Verdict> {
    let last = results.cases.len() - 1;
    let growth = |name: &str| Some(results.median(0, last, name)? / results.median(0, 0, name)?);
    let judge = |(name, title): (&str, &str)| {
        let what = format!(
            "the cost of a timer {title} among {}, against {}",
            results.cases[last].name, results.cases[0].name
        );
        // A failed run has a verdict of its own.
        growth(name).map(|growth| GROWTH_GOAL.judge(&what, Some(growth)))
    };
    PARTS.into_iter().filter_map(judge).collect()
}
