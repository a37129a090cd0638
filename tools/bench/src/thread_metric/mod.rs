//! The experiment `thread-metric`: Express Logic's eight tests of a real-time kernel. They run
//! through the runtime's Rust interface and from Lua, and in other systems.
//!
//! A test counts for an interval. At its end, a reporter with a higher priority than all others
//! reads the counters. One count is, for example, one run of a process, one message or one
//! interrupt. In the preemptive test, five counts are eight switches. The interval is elapsed time.
//! The rates are counts per second of CPU time, so that other programs on the machine matter
//! little.

mod calls;
mod instructions;
pub(crate) mod operations;
pub(crate) mod runtime;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::bench::Bench;
use crate::chart::{Bars, Chart, Scale, Series};
use crate::command_line::ThreadMetricOptions;
use crate::contest::{Arm, Case, Contest, Results};
use crate::peers::{self, BOOST_FIBER, ERLANG_OTP, GO, MAY, POSIX_THREADS, PTH, Peer};
use crate::report::Report;
use crate::stats;
use crate::table::{Table, figure};
use crate::verdict::{Goal, Verdict};

/// A test: its name in the programs, its name in tables, and for tests of switching, how many
/// counts are how many switches.
type Test = (&'static str, &'static str, Option<(f64, f64)>);

const TESTS: [Test; 9] = [
    ("basic", "basic", None),
    ("cooperative", "cooperative", Some((1.0, 1.0))),
    ("preemptive", "preemptive", Some((5.0, 8.0))),
    ("interrupt", "interrupt (signal)", None),
    ("interrupt_thread", "interrupt (thread)", None),
    ("interrupt_preemption", "interrupt, preemption", None),
    ("message", "message", None),
    ("synchronization", "synchronization", None),
    ("memory", "memory", None),
];

const RUNTIME: &str = "runtime (Rust)";
const LUA: &str = "baton (Lua)";
const BARE: &str = "bare stack switch";

/// The tests that Lua can run. It has no interrupts except SIGINT.
const IN_LUA: &[&str] = &[
    "basic",
    "cooperative",
    "preemptive",
    "message",
    "synchronization",
    "memory",
];
/// The tests that the other systems can run. They lack priorities, and cannot suspend other
/// processes.
const IN_PEERS: &[&str] = &[
    "basic",
    "cooperative",
    "message",
    "synchronization",
    "memory",
];
/// The tests that POSIX threads can run. They also have the system's signals.
const IN_THREADS: &[&str] = &[
    "basic",
    "cooperative",
    "interrupt",
    "interrupt_thread",
    "message",
    "synchronization",
    "memory",
];
const PEERS: [(Peer, &[&str]); 6] = [
    (GO, IN_PEERS),
    (ERLANG_OTP, IN_PEERS),
    (MAY, IN_PEERS),
    (BOOST_FIBER, IN_PEERS),
    (PTH, IN_PEERS),
    (POSIX_THREADS, IN_THREADS),
];

const BARE_GOAL: Goal = Goal::at_most(2.0, "", 3);
const SWITCH_GOAL: Goal = Goal::at_most(1.0 / 3.0, "", 3);
const OTHER_GOAL: Goal = Goal::at_most(1.2, "", 3);

const NOTES: [&str; 7] = [
    "one count: a pass over 1024 words (basic); a run of one of five processes (cooperative, \
     preemptive); an interrupt handled; 16 bytes sent, received and compared; a semaphore taken \
     and given; 128 bytes allocated and freed (in Lua: a table of 120)",
    "checks in every interval: counters of processes that take turns are within one of their mean \
     (within a quarter in Go, which does not promise turns); no interrupt is lost; no message is \
     changed",
    "interrupts: SIGUSR1 raised by the running process, or a thread that the runtime does not \
     know; both use a waker of the runtime",
    "rates are per second of CPU time of all threads; in tests with a second thread, per second of \
     elapsed time",
    "the peers take part only in tests that do not need immediate preemption by a more urgent \
     process, which none of them has; all run on one thread, except POSIX threads, which share one \
     CPU and take turns through semaphores",
    "in the runtime's own tests, each measured call of the scheduler is a function that is not \
     inlined into the loop around it",
    "one bare switch is one count; in the preemptive test, eight of its switches are five counts",
];

/// Runs the experiment.
pub(crate) fn run(bench: &Bench, options: &ThreadMetricOptions) -> Result<Report> {
    if options.count {
        return instructions::run(bench);
    }
    let case = |(name, title, _): Test| Case {
        name: name.to_string(),
        title: title.to_string(),
        arguments: vec![name.to_string(), options.seconds.to_string()],
    };
    let contest = Contest {
        arms: arms(bench)?,
        cases: TESTS.map(case).to_vec(),
        rounds: options.rounds,
        figure: "counts",
        limit: Duration::from_secs_f64(options.seconds) + Duration::from_secs(60),
    };
    let results = contest.run();
    let mut verdicts = verdicts(&results);
    verdicts.extend(results.failures());
    Ok(Report {
        arms: results
            .arms
            .iter()
            .filter_map(|arm| arm.found.clone())
            .collect(),
        notes: NOTES.map(str::to_string).to_vec(),
        tables: tables(&results, options),
        charts: vec![chart(&results)],
        verdicts,
        samples: results.to_json(),
    })
}

fn arms(bench: &Bench) -> Result<Vec<Arm>> {
    let program = bench.script(
        "thread_metric",
        include_str!("../../programs/thread_metric.lua"),
    )?;
    let own = std::env::current_exe().context("cannot find this program itself")?;
    let mut arms = vec![
        Arm::present(RUNTIME, of_runtime(&own)),
        Arm::interpreted(LUA, &bench.paths.baton()?, &program, &[]).only(IN_LUA),
        Arm::present(BARE, of_bare(&own)).only(&["cooperative"]),
    ];
    let peers = peers::directory(bench.paths.peers.as_ref())?;
    arms.extend(PEERS.map(|(peer, tests)| peer.arm(&peers, &["thread-metric"]).only(tests)));
    Ok(arms)
}

fn of_runtime(own: &Path) -> impl Fn() -> Command + 'static {
    let own = own.to_path_buf();
    move || {
        let mut command = Command::new(&own);
        command.arg("runtime");
        command
    }
}

/// The command for the bare switch, which runs the same for every case.
fn of_bare(own: &Path) -> impl Fn() -> Command + 'static {
    let own = own.to_path_buf();
    move || {
        let mut command = Command::new(&own);
        command.args(["runtime", "--bare"]);
        command
    }
}

/// Counts per second, as the median of the rounds. The seconds are CPU time, which other programs
/// do not disturb. For tests with two threads they are elapsed time.
fn rate(results: &Results, arm: usize, case: usize) -> Option<f64> {
    let clock = match results.cases[case].name.as_str() {
        "interrupt_thread" => "seconds",
        _ => "cpu",
    };
    let rates = results.rounds(arm, case).iter().filter_map(|round| {
        let first = |name: &str| round.get(name)?.first().copied();
        Some(first("counts")? / first(clock)?)
    });
    stats::median(&rates.collect::<Vec<_>>())
}

fn rate_of(results: &Results, arm: &str, case: &str) -> Option<f64> {
    rate(results, results.arm(arm)?, results.case(case)?)
}

/// A table with a row for each system and a column for each test. `cell` gets the arm, the case and
/// the counts per second.
fn table(
    results: &Results,
    caption: impl Into<String>,
    cell: impl Fn(usize, usize, f64) -> String,
) -> Table {
    let mut header = vec!["system"];
    header.extend(TESTS.iter().map(|(_, title, _)| *title));
    let mut table = Table::new(caption, &header);
    for (arm, of_arm) in results.arms.iter().enumerate() {
        let of_case = |case: usize| match rate(results, arm, case) {
            Some(rate) => cell(arm, case, rate),
            None => results.gap(arm, case).to_string(),
        };
        let cells = (0..TESTS.len()).map(of_case);
        table.row(std::iter::once(of_arm.name.to_string()).chain(cells));
    }
    table
}

fn tables(results: &Results, options: &ThreadMetricOptions) -> Vec<Table> {
    let caption = format!(
        "counts in 30 s of CPU time (from {} rounds of {} s)",
        options.rounds, options.seconds
    );
    let counts = table(results, caption, |_, _, rate| format!("{:.0}", rate * 30.0));
    let costs = table(
        results,
        "nanoseconds per switch, else per count",
        |_, case, rate| {
            let (counts, switches) = TESTS[case].2.unwrap_or((1.0, 1.0));
            format!("{:.1}", 1e9 / rate * counts / switches)
        },
    );
    let basic = results.case("basic");
    let to_basic = table(
        results,
        "counts / the same system's of basic",
        |arm, _, rate| {
            let basic = basic.and_then(|basic| self::rate(results, arm, basic));
            figure(basic.map(|basic| rate / basic), 3, "")
        },
    );
    vec![counts, costs, to_basic, beside_others(results)]
}

/// A table of the runtime's counts divided by those of other systems.
fn beside_others(results: &Results) -> Table {
    let mut header = vec!["system"];
    header.extend(TESTS.iter().map(|(_, title, _)| *title));
    let mut table = Table::new("counts of the runtime / those of", &header);
    for of_arm in results.arms.iter().filter(|arm| arm.name != RUNTIME) {
        let mut row = vec![of_arm.name.to_string()];
        for (name, _, _) in TESTS {
            let ratio = rate_of(results, RUNTIME, name)
                .zip(rate_of(results, of_arm.name, name))
                .map(|(own, others)| own / others);
            row.push(figure(ratio, 2, ""));
        }
        table.row(row);
    }
    table
}

fn chart(results: &Results) -> Chart {
    let of_arm = |(arm, name): (usize, &'static str)| Series {
        name: name.to_string(),
        values: (0..TESTS.len())
            .map(|case| rate(results, arm, case).map(|rate| 1e9 / rate))
            .collect(),
    };
    Chart::Bars(Bars {
        title: "Thread-Metric".to_string(),
        label: "nanoseconds per count, logarithmic; less is better".to_string(),
        scale: Scale::Log,
        baseline: None,
        marks: Vec::new(),
        digits: 0,
        rows: results
            .cases
            .iter()
            .map(|case| case.title.clone())
            .collect(),
        series: results
            .arms
            .iter()
            .map(|arm| arm.name)
            .enumerate()
            .map(of_arm)
            .collect(),
    })
}

/// The largest counts per second of any peer.
fn fastest_peer(results: &Results, case: &str) -> Option<f64> {
    let rates = PEERS.map(|(peer, _)| rate_of(results, peer.name, case));
    rates.into_iter().flatten().reduce(f64::max)
}

fn verdicts(results: &Results) -> Vec<Verdict> {
    let bare = rate_of(results, BARE, "cooperative");
    let ns = |counts: f64| move |rate: f64| 1e9 / (rate * counts);
    let to_bare = |case: &str, per_count: f64| {
        let own = rate_of(results, RUNTIME, case).map(ns(per_count))?;
        Some(own / bare.map(ns(1.0))?)
    };
    let to_peer =
        |case: &str| Some(fastest_peer(results, case)? / rate_of(results, RUNTIME, case)?);
    let mut verdicts = vec![
        BARE_GOAL.judge(
            "cooperative: ns per switch / the bare stack switch's",
            to_bare("cooperative", 1.0),
        ),
        BARE_GOAL.judge(
            "preemptive: ns per switch / the bare stack switch's",
            to_bare("preemptive", 1.6),
        ),
        SWITCH_GOAL.judge(
            "cooperative: the fastest peer's counts / the runtime's",
            to_peer("cooperative"),
        ),
    ];
    for case in ["synchronization", "message", "memory"] {
        let what = format!("{case}: the fastest peer's counts / the runtime's");
        verdicts.push(OTHER_GOAL.judge(&what, to_peer(case)));
    }
    verdicts
}
