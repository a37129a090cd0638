//! The experiment `philosophers`: the CPU time and the latency that another program loses beside
//! dining philosophers.
//!
//! In the 1990s, forty philosophers, each a system process, made whole computers unusable. Here all
//! of them are one program, which may take the share of one program.

use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::bench::Bench;
use crate::chart::{Bars, Chart};
use crate::child::{Figures, Owned, first};
use crate::command_line::PhilosophersOptions;
use crate::contest::{Arm, Case, Contest, Results};
use crate::neighbour::Neighbour;
use crate::places::Place;
use crate::report::{Report, notes};
use crate::table::{Table, figure};
use crate::verdict::{Goal, Verdict};

/// The largest slowdown allowed. Two programs on one CPU have half of it each; the rest allows for
/// the measurement itself.
const SLOWDOWN_GOAL: Goal = Goal::at_most(2.02, "", 3);
const LATENCY_GOAL: Goal = Goal::at_most(2.0, "", 2);

/// The arguments of the example, and their name in tables.
const CASES: [(&str, &str); 6] = [
    ("-n 40 -t 0.02", "40, semaphores"),
    ("-n 40 -t 0.02 --monitor", "40, a monitor"),
    ("-n 40 -t 0", "40 without a pause, semaphores"),
    ("-n 40 -t 0 --monitor", "40 without a pause, a monitor"),
    ("-n 40000 -t 0.02", "40,000, semaphores"),
    ("-n 40000 -t 0.02 --monitor", "40,000, a monitor"),
];

/// The other program by itself, which is the first case.
const ALONE: usize = 0;

/// Its lateness at the 99th percentile, in microseconds: on all CPUs, of which one may be idle, and
/// on the one CPU that it shares with the philosophers.
const LATE_ON_ALL: &str = "p99_us";
const LATE_ON_ONE: &str = "same_cpu_p99_us";

/// Runs the experiment.
pub(crate) fn run(bench: &Bench, options: &PhilosophersOptions) -> Result<Report> {
    let baton = bench.paths.baton()?;
    let script = bench.script(
        "philosophers",
        include_str!("../../../examples/philosophers.lua"),
    )?;
    let case = |(words, title): (&str, &str)| {
        let mut case = Case::new(title, title, &[]);
        case.arguments.extend(words.split(' ').map(str::to_string));
        case.arguments
            .extend(["-m", "1000000000"].map(str::to_string));
        case
    };
    let mut cases = vec![Case::new("none", "none", &[])];
    cases.extend(CASES.map(case));
    let results = Contest {
        arms: vec![Arm::interpreted("baton", &baton, &script, &[])],
        cases,
        rounds: options.rounds,
        figure: LATE_ON_ALL,
        limit: Duration::MAX,
    };
    let place = Place::all()?.swap_remove(0);
    let results = results.run_by(|_, case, command| {
        let philosophers = (!case.arguments.is_empty()).then_some(command);
        measure(philosophers, &place, options.seconds)
    });
    Ok(results.complete(Report {
        notes: notes(&[
            "Philosophers beside another program: its work on one CPU, which they share, and how \
             late it wakes, on that CPU and on all.",
        ]),
        tables: vec![table(&results)],
        charts: charts(&results),
        verdicts: verdicts(&results),
        ..Report::default()
    }))
}

/// Measures the other program. It computes, and then sleeps and wakes in both ways. Each time, new
/// philosophers run beside it.
fn measure(mut command: Option<&mut Command>, place: &Place, seconds: f64) -> Result<Figures> {
    let mut run = |way| run_beside(way, seconds, command.as_deref_mut());
    let work = place.within(|| run("compute"))?;
    let on_all = run("wake")?;
    let on_one = place.within(|| run("wake"))?;
    let turns = first(&work, "turns").zip(first(&work, "seconds"));
    let (turns, seconds) = turns.context("the other program printed nothing")?;
    let late = |figures: &Figures, name| figures.get(name).cloned().unwrap_or_default();
    let figures = [
        ("turns_per_second", vec![turns / seconds]),
        ("p50_us", late(&on_all, "p50_us")),
        (LATE_ON_ALL, late(&on_all, "p99_us")),
        ("same_cpu_p50_us", late(&on_one, "p50_us")),
        (LATE_ON_ONE, late(&on_one, "p99_us")),
    ];
    Ok(figures
        .map(|(name, values)| (name.to_string(), values))
        .into())
}

/// The other program's slowdown: its speed when alone, divided by its speed in a case.
fn slowdown(results: &Results, case: usize) -> Option<f64> {
    results.ratio((0, ALONE), (0, case), "turns_per_second")
}

/// Its lateness in a case, divided by that when alone.
fn lateness(results: &Results, case: usize, name: &str) -> Option<f64> {
    results.ratio((0, case), (0, ALONE), name)
}

/// The figures of the other program after some seconds beside `command`.
fn run_beside(way: &str, seconds: f64, command: Option<&mut Command>) -> Result<Figures> {
    let philosophers = command.map(|command| {
        let quiet = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        Owned::spawn(quiet)
    });
    let mut philosophers = philosophers.transpose()?;
    let neighbour = Neighbour::start(way)?;
    thread::sleep(Duration::from_secs_f64(seconds));
    let figures = neighbour.end()?;
    if let Some(philosophers) = &mut philosophers {
        let ended = philosophers.inner.try_wait()?;
        ensure!(ended.is_none(), "the philosophers ended early: {ended:?}");
    }
    Ok(figures)
}

fn table(results: &Results) -> Table {
    let header = [
        "philosophers",
        "slowdown",
        "wakes late us, all CPUs: p50",
        "p99",
        "p99 / alone",
        "wakes late us, same CPU: p50",
        "p99",
        "p99 / alone",
    ];
    let caption = "another program's work and wake-ups; medians over the rounds";
    let mut table = Table::new(caption, header);
    for (number, case) in results.cases.iter().enumerate() {
        let late = |name| figure(results.median(0, number, name), 1);
        let ratio = |name| figure(lateness(results, number, name), 2);
        let cells = [
            figure(slowdown(results, number), 3),
            late("p50_us"),
            late(LATE_ON_ALL),
            ratio(LATE_ON_ALL),
            late("same_cpu_p50_us"),
            late(LATE_ON_ONE),
            ratio(LATE_ON_ONE),
        ];
        table.named(&case.title, cells);
    }
    table
}

fn charts(results: &Results) -> Vec<Chart> {
    let chart = |title: &str, label: &str, mark: &str, goal: Goal| {
        Bars::new(title, label)
            .from(1.0)
            .mark(mark, goal.limit())
            .digits(2)
            .rows(CASES.map(|(_, title)| title))
    };
    let beside = || 1..results.cases.len();
    let late = |cpus: &str, name| {
        let title = format!("How late another program wakes beside philosophers, on {cpus}");
        let label = "p99, times that of an idle machine";
        let values = beside().map(|case| lateness(results, case, name));
        chart(&title, label, "at most", LATENCY_GOAL).series("another program", values)
    };
    let slowdowns = beside().map(|case| slowdown(results, case));
    let title = "What another program on the same CPU loses to philosophers";
    let slow = chart(title, "times as slow as alone", "fair share", SLOWDOWN_GOAL)
        .series("another program", slowdowns);
    let charts = [
        slow,
        late("all CPUs", LATE_ON_ALL),
        late("the same CPU", LATE_ON_ONE),
    ];
    charts.map(Chart::from).into()
}

fn verdicts(results: &Results) -> Vec<Verdict> {
    let of_case = |(case, (_, title)): (usize, &(&str, &str))| {
        let latency = |cpus: &str, name| {
            let what = format!(
                "{title}: another program's wake-up latency on {cpus}, p99 / on an idle machine"
            );
            LATENCY_GOAL.judge(&what, lateness(results, case, name))
        };
        let what = format!("{title}: slowdown of another program on the same CPU");
        [
            SLOWDOWN_GOAL.judge(&what, slowdown(results, case)),
            latency("all CPUs", LATE_ON_ALL),
            latency("the same CPU", LATE_ON_ONE),
        ]
    };
    (1..).zip(&CASES).flat_map(of_case).collect()
}
