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

use std::time::Duration;

use anyhow::Result;

use crate::bench::Bench;
use crate::chart::{Bars, Chart};
use crate::child::first;
use crate::command_line::ThreadMetricOptions;
use crate::contest::{Arm, Case, Contest, Results};
use crate::peers::{self, BOOST_FIBER, ERLANG_OTP, GO, MAY, POSIX_THREADS, PTH, Peer};
use crate::report::{Report, notes};
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
    let case = |(name, title, _): Test| Case::new(name, title, &[&name, &options.seconds]);
    let results = Contest {
        arms: arms(bench)?,
        cases: TESTS.map(case).to_vec(),
        rounds: options.rounds,
        figure: "counts",
        limit: Duration::from_secs_f64(options.seconds) + Duration::from_secs(60),
    }
    .run();
    Ok(results.complete(Report {
        notes: notes(&NOTES),
        tables: tables(&results, options),
        charts: vec![chart(&results)],
        verdicts: verdicts(&results),
        ..Report::default()
    }))
}

fn arms(bench: &Bench) -> Result<Vec<Arm>> {
    let program = bench.script(
        "thread_metric",
        include_str!("../../programs/thread_metric.lua"),
    )?;
    let mut arms = vec![
        Arm::this_program(RUNTIME, &["runtime"])?,
        Arm::interpreted(LUA, &bench.paths.baton()?, &program, &[]).only(IN_LUA),
        // The bare switch is the same for every case.
        Arm::this_program(BARE, &["runtime", "--bare"])?.only(&["cooperative"]),
    ];
    let peers = peers::directory(bench.paths.peers.as_ref())?;
    arms.extend(PEERS.map(|(peer, tests)| peer.arm(&peers, &["thread-metric"]).only(tests)));
    Ok(arms)
}

/// Counts per second, as the median of the rounds. The seconds are CPU time, which other programs
/// do not disturb. For tests with two threads they are elapsed time.
fn rate(results: &Results, arm: usize, case: usize) -> Option<f64> {
    let clock = match results.cases[case].name.as_str() {
        "interrupt_thread" => "seconds",
        _ => "cpu",
    };
    let rates = results
        .rounds(arm, case)
        .iter()
        .filter_map(|round| Some(first(round, "counts")? / first(round, clock)?));
    stats::median(&rates.collect::<Vec<_>>())
}

fn rate_of(results: &Results, arm: &str, case: &str) -> Option<f64> {
    rate(results, results.arm(arm)?, results.case(case)?)
}

fn tables(results: &Results, options: &ThreadMetricOptions) -> Vec<Table> {
    let by_arm = |caption: &str, cell: &dyn Fn(usize, usize, f64) -> String| {
        results.by_arm(caption, "system", |arm, case| {
            Some(cell(arm, case, rate(results, arm, case)?))
        })
    };
    let caption = format!(
        "counts in 30 s of CPU time (from {} rounds of {} s)",
        options.rounds, options.seconds
    );
    let cost = |_, case: usize, rate| {
        let (counts, switches) = TESTS[case].2.unwrap_or((1.0, 1.0));
        format!("{:.1}", 1e9 / rate * counts / switches)
    };
    let to_basic = |arm, _, rate| {
        let basic = results.case("basic");
        let basic = basic.and_then(|basic| self::rate(results, arm, basic));
        figure(basic.map(|basic| rate / basic), 3)
    };
    vec![
        by_arm(&caption, &|_, _, rate| format!("{:.0}", rate * 30.0)),
        by_arm("nanoseconds per switch, else per count", &cost),
        by_arm("counts / the same system's of basic", &to_basic),
        beside_others(results),
    ]
}

/// A table of the runtime's counts divided by those of other systems.
fn beside_others(results: &Results) -> Table {
    let titles = TESTS.iter().map(|(_, title, _)| *title);
    let header = ["system"].into_iter().chain(titles);
    let mut table = Table::new("counts of the runtime / those of", header);
    for of_arm in results.arms.iter().filter(|arm| arm.name != RUNTIME) {
        let ratio =
            |case| Some(rate_of(results, RUNTIME, case)? / rate_of(results, of_arm.name, case)?);
        table.named(of_arm.name, TESTS.map(|(case, ..)| figure(ratio(case), 2)));
    }
    table
}

fn chart(results: &Results) -> Chart {
    let label = "nanoseconds per count, logarithmic; less is better";
    let chart = Bars::new("Thread-Metric", label).log();
    let cost = |arm, case| rate(results, arm, case).map(|rate| 1e9 / rate);
    results.bars(chart, results.all_cases(), cost)
}

/// The largest counts per second of any peer.
fn fastest_peer(results: &Results, case: &str) -> Option<f64> {
    let rates = PEERS.map(|(peer, _)| rate_of(results, peer.name, case));
    rates.into_iter().flatten().reduce(f64::max)
}

fn verdicts(results: &Results) -> Vec<Verdict> {
    // `switches` is the number of switches in a count.
    let to_bare = |case: &str, switches: f64| {
        let bare = rate_of(results, BARE, "cooperative")?;
        Some(bare / (rate_of(results, RUNTIME, case)? * switches))
    };
    let of_switches = |(case, switches)| {
        let what = format!("{case}: ns per switch / the bare stack switch's");
        BARE_GOAL.judge(&what, to_bare(case, switches))
    };
    let of_peers = |(case, goal): (&str, Goal)| {
        let what = format!("{case}: the fastest peer's counts / the runtime's");
        let ratio = || Some(fastest_peer(results, case)? / rate_of(results, RUNTIME, case)?);
        goal.judge(&what, ratio())
    };
    let beside_bare = [("cooperative", 1.0), ("preemptive", 1.6)].map(of_switches);
    let beside_peers = [
        ("cooperative", SWITCH_GOAL),
        ("synchronization", OTHER_GOAL),
        ("message", OTHER_GOAL),
        ("memory", OTHER_GOAL),
    ];
    beside_bare
        .into_iter()
        .chain(beside_peers.map(of_peers))
        .collect()
}
