//! The experiment `philosophers`: the CPU time and the latency that another program loses beside
//! dining philosophers.
//!
//! In the 1990s, forty philosophers, each a system process, made whole computers unusable. Here all
//! of them are one program, which may take the share of one program.

use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::json;

use crate::bench::{Bench, progress};
use crate::chart::{Bars, Chart};
use crate::child::{Figures, Owned, first};
use crate::command_line::PhilosophersOptions;
use crate::neighbour::Neighbour;
use crate::places::Place;
use crate::report::{Report, notes};
use crate::stats;
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

/// The figures of the other program by round, when alone or beside one case.
#[derive(Default)]
struct Neighbours {
    /// Turns of its work per second, on one CPU.
    speeds: Vec<f64>,
    /// The lateness on all CPUs, of which one may be idle.
    wakes_on_all: Wakes,
    /// The lateness on the one CPU that both programs share.
    wakes_on_one: Wakes,
}

/// The lateness of the other program's wake-ups in microseconds, by round.
#[derive(Default)]
struct Wakes {
    p50: Vec<f64>,
    p99: Vec<f64>,
}

/// Runs the experiment.
pub(crate) fn run(bench: &Bench, options: &PhilosophersOptions) -> Result<Report> {
    let baton = bench.paths.baton()?;
    let script = bench.script(
        "philosophers",
        include_str!("../../../examples/philosophers.lua"),
    )?;
    let start = |words: &str| {
        let mut command = baton.script(&script);
        command.args(words.split(' ')).args(["-m", "1000000000"]);
        command
    };
    let place = Place::all()?.swap_remove(0);
    let mut alone = Neighbours::default();
    let mut beside: Vec<Neighbours> = CASES.iter().map(|_| Neighbours::default()).collect();
    let bar = progress((CASES.len() + 1) * options.rounds as usize);
    for _ in 0..options.rounds {
        alone.measure(&place, options.seconds, || None)?;
        bar.inc(1);
        for ((words, title), neighbours) in CASES.iter().zip(&mut beside) {
            bar.set_message(*title);
            neighbours
                .measure(&place, options.seconds, || Some(start(words)))
                .with_context(|| format!("beside {title}"))?;
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    Ok(Report {
        arms: vec![baton.found()],
        notes: notes(&[
            "Philosophers beside another program: its work on one CPU, which they share, and how \
             late it wakes, on that CPU and on all.",
        ]),
        tables: vec![table(&alone, &beside)],
        charts: charts(&alone, &beside),
        verdicts: verdicts(&alone, &beside),
        samples: samples(&alone, &beside),
    })
}

impl Neighbours {
    /// Measures one round. The other program computes, and then sleeps and wakes in both ways. Each
    /// time, new philosophers run beside it.
    fn measure(
        &mut self,
        place: &Place,
        seconds: f64,
        command: impl Fn() -> Option<Command>,
    ) -> Result<()> {
        let figures = place.within(|| run_beside("compute", seconds, command()))?;
        let turns = first(&figures, "turns").zip(first(&figures, "seconds"));
        let (turns, seconds_of_it) = turns.context("the other program printed nothing")?;
        self.speeds.push(turns / seconds_of_it);
        self.wakes_on_all
            .add(&run_beside("wake", seconds, command())?);
        let wake_here = || run_beside("wake", seconds, command());
        self.wakes_on_one.add(&place.within(wake_here)?);
        Ok(())
    }

    /// The other program's slowdown: its speed when alone, divided by its speed here.
    fn slowdown(&self, alone: &Neighbours) -> Option<f64> {
        stats::median_of_ratios(&alone.speeds, &self.speeds)
    }

    /// Its lateness on all CPUs, divided by that when alone.
    fn lateness_on_all(&self, alone: &Neighbours) -> Option<f64> {
        self.wakes_on_all.lateness(&alone.wakes_on_all)
    }

    /// Its lateness on the shared CPU, divided by that when alone.
    fn lateness_on_one(&self, alone: &Neighbours) -> Option<f64> {
        self.wakes_on_one.lateness(&alone.wakes_on_one)
    }
}

impl Wakes {
    fn add(&mut self, figures: &Figures) {
        self.p50.extend(first(figures, "p50_us"));
        self.p99.extend(first(figures, "p99_us"));
    }

    fn lateness(&self, alone: &Wakes) -> Option<f64> {
        stats::median_of_ratios(&self.p99, &alone.p99)
    }

    /// The cells of the table: p50, p99, and p99 divided by that of the program when alone.
    fn cells(&self, alone: &Wakes) -> [String; 3] {
        [
            figure(stats::median(&self.p50), 1),
            figure(stats::median(&self.p99), 1),
            figure(self.lateness(alone), 2),
        ]
    }
}

/// The figures of the other program after some seconds beside `command`.
fn run_beside(way: &str, seconds: f64, command: Option<Command>) -> Result<Figures> {
    let philosophers = command.map(|mut command| {
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

fn table(alone: &Neighbours, beside: &[Neighbours]) -> Table {
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
    for (title, of_one) in with_names(alone, beside) {
        let slowdown = figure(of_one.slowdown(alone), 3);
        let on_all = of_one.wakes_on_all.cells(&alone.wakes_on_all);
        let on_one = of_one.wakes_on_one.cells(&alone.wakes_on_one);
        table.named(title, [slowdown].into_iter().chain(on_all).chain(on_one));
    }
    table
}

/// The figures of the other program, alone and beside each case, with their names.
fn with_names<'a>(
    alone: &'a Neighbours,
    beside: &'a [Neighbours],
) -> impl Iterator<Item = (&'static str, &'a Neighbours)> {
    let titles = CASES.iter().map(|(_, title)| *title);
    [("none", alone)].into_iter().chain(titles.zip(beside))
}

type Measure = fn(&Neighbours, &Neighbours) -> Option<f64>;

fn charts(alone: &Neighbours, beside: &[Neighbours]) -> Vec<Chart> {
    let chart = |title: &str, label: &str, measure: Measure, mark: &str, goal: Goal| {
        Bars::new(title, label)
            .from(1.0)
            .mark(mark, goal.limit())
            .digits(2)
            .rows(CASES.map(|(_, title)| title))
            .series(
                "another program",
                beside.iter().map(|of_one| measure(of_one, alone)),
            )
            .into()
    };
    vec![
        chart(
            "What another program on the same CPU loses to philosophers",
            "times as slow as alone",
            Neighbours::slowdown,
            "fair share",
            SLOWDOWN_GOAL,
        ),
        chart(
            "How late another program wakes beside philosophers, on all CPUs",
            "p99, times that of an idle machine",
            Neighbours::lateness_on_all,
            "at most",
            LATENCY_GOAL,
        ),
        chart(
            "How late another program wakes beside philosophers, on the same CPU",
            "p99, times that of an idle machine",
            Neighbours::lateness_on_one,
            "at most",
            LATENCY_GOAL,
        ),
    ]
}

fn verdicts(alone: &Neighbours, beside: &[Neighbours]) -> Vec<Verdict> {
    let of_one = |((_, title), of_one): (&(&str, &str), &Neighbours)| {
        let slowdown = format!("{title}: slowdown of another program on the same CPU");
        let lateness = |cpus| {
            format!(
                "{title}: another program's wake-up latency on {cpus}, p99 / on an idle machine"
            )
        };
        [
            SLOWDOWN_GOAL.judge(&slowdown, of_one.slowdown(alone)),
            LATENCY_GOAL.judge(&lateness("all CPUs"), of_one.lateness_on_all(alone)),
            LATENCY_GOAL.judge(&lateness("the same CPU"), of_one.lateness_on_one(alone)),
        ]
    };
    CASES.iter().zip(beside).flat_map(of_one).collect()
}

fn samples(alone: &Neighbours, beside: &[Neighbours]) -> serde_json::Value {
    let sample = |(title, of_one): (&str, &Neighbours)| {
        json!({
            "philosophers": title,
            "turns_per_second": of_one.speeds,
            "p50_us": of_one.wakes_on_all.p50,
            "p99_us": of_one.wakes_on_all.p99,
            "same_cpu_p50_us": of_one.wakes_on_one.p50,
            "same_cpu_p99_us": of_one.wakes_on_one.p99,
        })
    };
    with_names(alone, beside).map(sample).collect()
}
