//! The experiment `timers`: the time to set, cancel and expire a timer, beside a thousand others
//! and beside a million.

use std::time::Duration;

use anyhow::Result;

use crate::bench::Bench;
use crate::chart::{Axis, Chart, Line, Lines, Scale};
use crate::command_line::TimersOptions;
use crate::contest::{Arm, Case, Contest, Results};
use crate::report::Report;
use crate::table::{Table, figure};
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
    let results = Contest {
        arms: vec![Arm::interpreted("baton", &baton, &script, &[])],
        cases: counts(options.largest).into_iter().map(case).collect(),
        rounds: options.rounds,
        figure: "expire_ns",
        limit: Duration::from_secs(300),
    }
    .run();
    let mut verdicts = verdicts(&results);
    verdicts.extend(results.failures());
    Ok(Report {
        arms: vec![baton.found()],
        notes: vec![
            "Setting a timer makes the process of its firing; to expire is to run it, and to its \
             end."
                .to_string(),
        ],
        tables: vec![table(&results)],
        charts: vec![chart(&results, &counts(options.largest))],
        samples: results.to_json(),
        verdicts,
    })
}

/// The numbers of timers: the steps up to the largest, and the largest itself.
fn counts(largest: u64) -> Vec<u64> {
    let below = STEPS.into_iter().filter(|&step| step < largest);
    below.chain([largest]).collect()
}

fn case(count: u64) -> Case {
    Case {
        name: count.to_string(),
        title: format!("{count} timers"),
        arguments: vec![count.to_string()],
    }
}

fn table(results: &Results) -> Table {
    let mut header = vec!["timers"];
    header.extend(PARTS.map(|part| part.1));
    let mut table = Table::new("ns of CPU time for each timer", &header);
    for (number, case) in results.cases.iter().enumerate() {
        let shown = |(name, _): (&str, &str)| match results.median(0, number, name) {
            None => results.gap(0, number).to_string(),
            cost => figure(cost, 0, ""),
        };
        table.row([case.name.clone()].into_iter().chain(PARTS.map(shown)));
    }
    table
}

fn chart(results: &Results, counts: &[u64]) -> Chart {
    let axis = |label: &str| Axis {
        label: label.to_string(),
        scale: Scale::Log,
    };
    let series = PARTS.map(|(name, title)| {
        let point = |(number, &count): (usize, &u64)| {
            Some((count as f64, results.median(0, number, name)?))
        };
        Line {
            name: title.to_string(),
            points: counts.iter().enumerate().filter_map(point).collect(),
        }
    });
    Chart::Lines(Lines {
        title: "What a timer costs".to_string(),
        x: axis("timers"),
        y: axis("ns of CPU time each"),
        marks: Vec::new(),
        series: series.into(),
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_steps_go_up_to_the_largest_number() {
        assert_eq!(counts(1_000_000), [1_000, 10_000, 100_000, 1_000_000]);
        assert_eq!(counts(20_000), [1_000, 10_000, 20_000]);
        assert_eq!(counts(500), [500]);
    }
}
