//! Compares the article's figures with ours: by method, by machine and in the worst case. Also
//! shows latencies and verdicts.

use super::article::{ArticleResults, Ground, SLICES, Trial, sum};
use crate::chart::{Bars, Chart, Mark, Scale, Series};
use crate::child::{Figures, first};
use crate::command_line::FairnessOptions;
use crate::stats;
use crate::table::{Table, figure};
use crate::verdict::{Goal, Verdict};

use Ground::{Background, Foreground};

/// The methods: the name in the program, and the name in tables.
const METHODS: [(&str, &str); 3] = [
    ("time", "cooperative, by time"),
    ("count", "cooperative, by count"),
    ("preemptive", "preemptive"),
];

/// The article's means over nine machines in 1997. It did not measure yielding by count.
const PUBLISHED: [(Ground, &str, f64); 4] = [
    (Foreground, "time", 1.029),
    (Background, "time", 1.117),
    (Foreground, "preemptive", 1.302),
    (Background, "preemptive", 1.430),
];

const BALANCE: f64 = 2.0;
const FOREGROUND_GOAL: Goal = Goal::at_most(1.01, "", 4);
const BACKGROUND_GOAL: Goal = Goal::at_most(1.02, "", 4);
const BALANCE_GOAL: Goal = Goal::at_most(0.02, "", 4);

fn published(ground: Ground, method: &str) -> Option<f64> {
    let found = PUBLISHED
        .iter()
        .find(|(of, name, _)| (*of, *name) == (ground, method));
    found.map(|(_, _, score)| *score)
}

/// The trials of a place, in the order of all tables and charts.
fn usual(place: usize) -> impl Iterator<Item = (String, Trial)> {
    [Foreground, Background]
        .into_iter()
        .flat_map(move |ground| {
            METHODS.map(|(method, title)| {
                (
                    format!("{title}, {}", ground.name()),
                    Trial::new(place, ground, method),
                )
            })
        })
}

fn of_slice(method: &'static str, slice: u32) -> Trial {
    Trial {
        slice,
        ..Trial::new(0, Foreground, method)
    }
}

pub(super) fn notes(results: &ArticleResults, options: &FairnessOptions) -> Vec<String> {
    let mut notes = vec![
        format!(
            "A calculation of {} s beside an event loop, {} runs after one that is discarded. In \
             each run the same work is done never yielding in turns with it; the score is \
             the median of the quotients of the turns.",
            options.work, options.runs
        ),
        "Foreground and unloaded: elapsed time. In the background, beside an event loop of another \
         program, and under load: CPU time, all turns beside the other program. \
         By elapsed time: divided by that of turns without the event loop of another program, so \
         that its share is included."
            .to_string(),
        "1997: means of nine machines, as published; that of elapsed time, other programs' share \
         included.".to_string(),
    ];
    if results.places.len() < 3 {
        notes.push("There is one CPU to run on: what two would give is left out.".to_string());
    }
    notes
}

pub(super) fn tables(results: &ArticleResults) -> Vec<Table> {
    let mut tables: Vec<Table> = (0..results.places.len())
        .map(|place| scores(results, place))
        .collect();
    tables.push(slices(results));
    tables.push(latencies(results));
    tables
}

/// Mean, median, smallest and largest of the scores.
fn summary(scores: &[f64]) -> [String; 4] {
    let least = scores.iter().copied().reduce(f64::min);
    let cells = [
        stats::mean(scores),
        stats::median(scores),
        least,
        stats::maximum(scores),
    ];
    cells.map(|cell| figure(cell, 4))
}

fn scores(results: &ArticleResults, place: usize) -> Table {
    let caption = format!("scores on {}", results.places[place].name);
    let mut table = Table::new(
        caption,
        &[
            "method",
            "mean",
            "median",
            "min",
            "max",
            "by elapsed time",
            "1997",
        ],
    );
    for (title, trial) in usual(place) {
        let mut row = vec![title];
        row.extend(summary(&results.scores(trial)));
        row.push(figure(stats::mean(&results.elapsed(trial)), 4));
        row.push(figure(published(trial.ground, trial.method), 3));
        table.row(row);
    }
    table
}

fn slices(results: &ArticleResults) -> Table {
    let caption = "by length of the slice, on one CPU; balance: the event loop spins, ideally 2";
    let mut table = Table::new(caption, &["slice", "mean", "median", "min", "max"]);
    for (method, title) in [("preemptive", "preemptive"), ("balance", "balance")] {
        for slice in SLICES {
            let mut row = vec![format!("{title}, {slice} ms")];
            row.extend(summary(&results.scores(of_slice(method, slice))));
            table.row(row);
        }
    }
    table
}

/// The trials whose event loop handles events, with their titles.
fn with_events() -> Vec<(String, Trial)> {
    let mut list: Vec<(String, Trial)> = usual(0).collect();
    let slices = SLICES.map(|slice| {
        (
            format!("preemptive, slice of {slice} ms"),
            of_slice("preemptive", slice),
        )
    });
    list.extend(slices);
    let urgent = Trial::new(0, Foreground, "urgent");
    list.push(("preemptive, event loop more urgent".to_string(), urgent));
    list
}

/// The median over the runs of a latency in ms. `which` is 0 for the median, 1 for the 99th
/// percentile, and 2 for the worst.
fn latency(runs: &[Figures], which: usize) -> Option<f64> {
    let figures = runs
        .iter()
        .filter_map(|run| run.get("late_ms")?.get(which).copied());
    stats::median(&figures.collect::<Vec<_>>())
}

fn latencies(results: &ArticleResults) -> Table {
    let caption =
        "ms from an event, one every 20 ms, to its handler, on one CPU: medians over the runs";
    let mut table = Table::new(caption, &["method", "p50", "p99", "worst"]);
    for (title, trial) in with_events() {
        let runs = results.runs(trial);
        let mut row = vec![title];
        row.extend((0..3).map(|which| figure(latency(runs, which), 3)));
        table.row(row);
    }
    table
}

pub(super) fn charts(results: &ArticleResults) -> Vec<Chart> {
    vec![
        beside_published(results, "By method", "mean", stats::mean),
        by_machine(results),
        beside_published(results, "Worst case", "worst run", stats::maximum),
        balances(results),
        latency_chart(results),
    ]
}

fn bars(title: &str, label: &str, rows: Vec<String>, series: Vec<Series>) -> Bars {
    Bars {
        title: title.to_string(),
        label: label.to_string(),
        scale: Scale::Linear,
        baseline: Some(1.0),
        marks: Vec::new(),
        digits: 3,
        rows,
        series,
    }
}

const SCORE: &str = "time / time of the same work never yielding";

fn beside_published(
    results: &ArticleResults,
    title: &str,
    of_runs: &str,
    choose: fn(&[f64]) -> Option<f64>,
) -> Chart {
    let list: Vec<(String, Trial)> = usual(0).collect();
    let ours = list
        .iter()
        .map(|(_, trial)| choose(&results.scores(*trial)));
    let theirs = list
        .iter()
        .map(|(_, trial)| published(trial.ground, trial.method));
    let series = vec![
        Series {
            name: format!("Baton on one CPU, {of_runs}"),
            values: ours.collect(),
        },
        Series {
            name: "Thread Manager, 1997, mean".to_string(),
            values: theirs.collect(),
        },
    ];
    let rows = list.into_iter().map(|(title, _)| title).collect();
    Chart::Bars(bars(title, SCORE, rows, series))
}

fn by_machine(results: &ArticleResults) -> Chart {
    let rows = usual(0).map(|(title, _)| title).collect();
    let mut series: Vec<Series> = (0..results.places.len())
        .map(|place| Series {
            name: results.places[place].name.to_string(),
            values: usual(place)
                .map(|(_, trial)| stats::mean(&results.scores(trial)))
                .collect(),
        })
        .collect();
    series.push(Series {
        name: "nine machines, 1997".to_string(),
        values: usual(0)
            .map(|(_, trial)| published(trial.ground, trial.method))
            .collect(),
    });
    Chart::Bars(bars("By machine", SCORE, rows, series))
}

fn balances(results: &ArticleResults) -> Chart {
    let values = SLICES.map(|slice| stats::mean(&results.scores(of_slice("balance", slice))));
    let series = Series {
        name: "Baton on one CPU, mean".to_string(),
        values: values.to_vec(),
    };
    let rows = SLICES.map(|slice| format!("slice of {slice} ms")).to_vec();
    let title = "Balance with an event loop that spins";
    let mut chart = bars(title, SCORE, rows, vec![series]);
    chart.marks = vec![Mark {
        name: "ideal".to_string(),
        at: BALANCE,
    }];
    Chart::Bars(chart)
}

fn latency_chart(results: &ArticleResults) -> Chart {
    let list = with_events();
    let series = [("p50", 0), ("p99", 1)].map(|(name, which)| Series {
        name: name.to_string(),
        values: list
            .iter()
            .map(|(_, trial)| latency(results.runs(*trial), which))
            .collect(),
    });
    let rows = list.iter().map(|(title, _)| title.clone()).collect();
    let mut chart = bars("From event to handler", "ms", rows, series.to_vec());
    (chart.scale, chart.baseline) = (Scale::Log, None);
    Chart::Bars(chart)
}

pub(super) fn verdicts(results: &ArticleResults) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for (ground, goal) in [(Foreground, FOREGROUND_GOAL), (Background, BACKGROUND_GOAL)] {
        for (method, title) in [METHODS[0], METHODS[2]] {
            let scores = results.scores(Trial::new(0, ground, method));
            let what = format!("{title}, {}: mean score", ground.name());
            verdicts.push(goal.judge(&what, stats::mean(&scores)));
        }
    }
    for slice in SLICES {
        let mean = stats::mean(&results.scores(of_slice("balance", slice)));
        let what = format!("balance at {slice} ms: mean score's distance from 2.00");
        verdicts.push(BALANCE_GOAL.judge(&what, mean.map(|mean| (mean - BALANCE).abs())));
    }
    let stays = SLICES
        .iter()
        .all(|&slice| still_preempts(results.runs(of_slice("balance", slice)), slice));
    verdicts.push(Verdict::holds(
        "the last program is preempted as the first was, slice for slice",
        stays,
    ));
    verdicts
}

/// Whether the last program is still preempted. Thread Manager 2.0.1 preempted only in the first
/// program. Two processes that never yield must switch at each slice, except for slices that the
/// machine delayed.
fn still_preempts(runs: &[Figures], slice: u32) -> bool {
    let enough = |run: &Figures| -> Option<bool> {
        let slices = sum(run, "cpu")? * 1e3 / f64::from(slice);
        Some(first(run, "switches")? >= (slices / 2.0).floor())
    };
    !runs.is_empty() && runs.iter().all(|run| enough(run) == Some(true))
}
