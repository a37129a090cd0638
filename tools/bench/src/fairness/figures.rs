//! Compares the article's figures with ours: by method, by machine and in the worst case. Also
//! shows latencies and verdicts.

use super::article::{ArticleResults, Ground, SLICES, Trial, sum};
use crate::chart::{Bars, Chart};
use crate::child::{Figures, first};
use crate::command_line::FairnessOptions;
use crate::report::Report;
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

/// The report of the calculation beside an event loop.
pub(super) fn report(results: &ArticleResults, options: &FairnessOptions) -> Report {
    Report {
        notes: notes(results, options),
        tables: tables(results),
        charts: charts(results),
        verdicts: verdicts(results),
        samples: results.to_json(),
        ..Report::default()
    }
}

fn notes(results: &ArticleResults, options: &FairnessOptions) -> Vec<String> {
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

fn tables(results: &ArticleResults) -> Vec<Table> {
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
    let header = [
        "method",
        "mean",
        "median",
        "min",
        "max",
        "by elapsed time",
        "1997",
    ];
    let mut table = Table::new(caption, header);
    for (title, trial) in usual(place) {
        let elapsed = figure(stats::mean(&results.elapsed(trial)), 4);
        let published = figure(published(trial.ground, trial.method), 3);
        let scores = summary(&results.scores(trial)).into_iter();
        table.named(title, scores.chain([elapsed, published]));
    }
    table
}

fn slices(results: &ArticleResults) -> Table {
    let caption = "by length of the slice, on one CPU; balance: the event loop spins, ideally 2";
    let mut table = Table::new(caption, ["slice", "mean", "median", "min", "max"]);
    for method in ["preemptive", "balance"] {
        for slice in SLICES {
            let scores = results.scores(of_slice(method, slice));
            table.named(format!("{method}, {slice} ms"), summary(&scores));
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
    let mut table = Table::new(caption, ["method", "p50", "p99", "worst"]);
    for (title, trial) in with_events() {
        let runs = results.runs(trial);
        table.named(
            title,
            [0, 1, 2].map(|which| figure(latency(runs, which), 3)),
        );
    }
    table
}

fn charts(results: &ArticleResults) -> Vec<Chart> {
    vec![
        beside_published(results, "By method", "mean", stats::mean),
        by_machine(results),
        beside_published(results, "Worst case", "worst run", stats::maximum),
        balances(results),
        latency_chart(results),
    ]
}

/// A chart of scores.
fn bars(title: &str) -> Bars {
    Bars::new(title, "time / time of the same work never yielding")
        .from(1.0)
        .digits(3)
}

fn titles() -> impl Iterator<Item = String> {
    usual(0).map(|(title, _)| title)
}

fn published_scores() -> impl Iterator<Item = Option<f64>> {
    usual(0).map(|(_, trial)| published(trial.ground, trial.method))
}

fn beside_published(
    results: &ArticleResults,
    title: &str,
    of_runs: &str,
    choose: fn(&[f64]) -> Option<f64>,
) -> Chart {
    let ours = usual(0).map(|(_, trial)| choose(&results.scores(trial)));
    bars(title)
        .rows(titles())
        .series(format!("Baton on one CPU, {of_runs}"), ours)
        .series("Thread Manager, 1997, mean", published_scores())
        .into()
}

fn by_machine(results: &ArticleResults) -> Chart {
    let mut chart = bars("By machine").rows(titles());
    for (number, place) in results.places.iter().enumerate() {
        let means = usual(number).map(|(_, trial)| stats::mean(&results.scores(trial)));
        chart = chart.series(place.name, means);
    }
    chart
        .series("nine machines, 1997", published_scores())
        .into()
}

fn balances(results: &ArticleResults) -> Chart {
    let mean = |slice| stats::mean(&results.scores(of_slice("balance", slice)));
    bars("Balance with an event loop that spins")
        .mark("ideal", BALANCE)
        .rows(SLICES.map(|slice| format!("slice of {slice} ms")))
        .series("Baton on one CPU, mean", SLICES.map(mean))
        .into()
}

fn latency_chart(results: &ArticleResults) -> Chart {
    let list = with_events();
    let mut chart = Bars::new("From event to handler", "ms")
        .log()
        .digits(3)
        .rows(list.iter().map(|(title, _)| title));
    for (name, which) in [("p50", 0), ("p99", 1)] {
        let latencies = list
            .iter()
            .map(|(_, trial)| latency(results.runs(*trial), which));
        chart = chart.series(name, latencies);
    }
    chart.into()
}

fn verdicts(results: &ArticleResults) -> Vec<Verdict> {
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
