//! The experiment `delay`: the lateness of sleeps of 50 us to 10 ms, compared with a bare timer
//! descriptor and with other systems.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

use crate::bench::Bench;
use crate::chart::Bars;
use crate::command_line::DelayOptions;
use crate::contest::{Arm, Case, Contest, Results};
use crate::output;
use crate::peers;
use crate::report::{Report, notes};
use crate::scripts;
use crate::stats;
use crate::table::figure;
use crate::verdict::{Goal, Verdict};

const BATON: &str = "baton";
const BARE: &str = "bare timerfd";

/// The lengths of the sleeps, as the programs take them and as tables show them.
const LENGTHS: [(&str, &str); 4] = [
    ("0.00005", "50 us"),
    ("0.0001", "100 us"),
    ("0.001", "1 ms"),
    ("0.01", "10 ms"),
];

/// The default number of sleeps in a run.
const SLEEPS: u32 = 500;
/// The case with a goal for a thousand sleeps.
const MILLISECOND: &str = "1 ms";
const THOUSAND: u32 = 1000;

/// The lateness at 50 us, relative to the bare loop.
const BARE_GOAL: Goal = Goal::at_most(1.3, " of a bare timerfd loop", 2);
/// The lateness at 1 ms, relative to the best peer.
const PEERS_GOAL: Goal = Goal::at_most(1.0, " of the best peer", 2);
/// The lateness at 1 ms, relative to the more exact of OpenSmalltalk-VM's designs.
const DESIGNS_GOAL: Goal = Goal::at_most(1.0, " of the best of OpenSmalltalk's designs", 2);
/// The time of a thousand sleeps of 1 ms.
const THOUSAND_GOAL: Goal = Goal::at_most(1.06, " s", 3);

/// Runs the experiment.
pub(crate) fn run(bench: &Bench, options: &DelayOptions) -> Result<Report> {
    measure(bench, options, cases(options.sleeps))
}

/// Measures only the cases that other experiments quote: how exact short sleeps are in the same
/// run.
pub(crate) fn exactness(bench: &Bench, options: &DelayOptions) -> Result<Report> {
    let mut cases = cases(options.sleeps);
    cases.retain(|case| ["50 us", MILLISECOND].contains(&case.name.as_str()));
    measure(bench, options, cases)
}

fn measure(bench: &Bench, options: &DelayOptions, cases: Vec<Case>) -> Result<Report> {
    let results = Contest {
        arms: arms(bench)?,
        cases,
        rounds: options.rounds,
        figure: "late_us",
        limit: Duration::from_secs(120),
    }
    .run();
    let table = results.by_arm("lateness in us: p50 / p99 / max", "arm", |arm, case| {
        let at = |percent| Some(figure(lateness(&results, arm, case, percent)?, 0));
        Some(format!("{} / {} / {}", at(50.0)?, at(99.0)?, at(100.0)?))
    });
    let chart = Bars::new("How late a sleep ends", "us, median").log();
    // Zero has no place on a logarithmic axis.
    let median = |arm, case| lateness(&results, arm, case, 50.0).filter(|&late| late > 0.0);
    Ok(results.complete(Report {
        notes: notes(&["'busy': three endless loops run beside, and the sleeper is urgent."]),
        tables: vec![table],
        charts: vec![results.bars(chart, results.all_cases(), median)],
        verdicts: verdicts(&results, options.sleeps),
        ..Report::default()
    }))
}

fn arms(bench: &Bench) -> Result<Vec<Arm>> {
    let baton = bench.paths.baton()?;
    let script = bench.script("delay", include_str!("../programs/delay.lua"))?;
    let mut arms = vec![
        Arm::interpreted(BATON, &baton, &script, &[]),
        Arm::this_program(BARE, &["bare-timer"])?.only(&ALONE),
    ];
    let peers = peers::directory(bench.paths.peers.as_ref())?;
    let designs = peers::OPENSMALLTALK.map(|(peer, design)| peer.arm(&peers, &[design, "delay"]));
    let others = scripts::arms(bench.directory(), "delay")?
        .into_iter()
        .chain(designs);
    arms.extend(others.map(|arm| arm.only(&ALONE)));
    Ok(arms)
}

const ALONE: [&str; 4] = ["50 us", "100 us", MILLISECOND, "10 ms"];

/// The number of sleeps in a case.
fn number(sleeps: Option<u32>, case: &str) -> u32 {
    sleeps.unwrap_or(if case == MILLISECOND {
        THOUSAND
    } else {
        SLEEPS
    })
}

fn cases(sleeps: Option<u32>) -> Vec<Case> {
    let case = |(seconds, length): (&str, &str), beside: &str| {
        let name = format!("{length}{beside}");
        let mut case = Case::new(&name, &name, &[&seconds, &number(sleeps, &name)]);
        case.arguments
            .extend((!beside.is_empty()).then(|| "busy".to_string()));
        case
    };
    let each = |beside| LENGTHS.into_iter().map(move |length| case(length, beside));
    each("").chain(each(", busy")).collect()
}

/// A percentile of the lateness of all sleeps of all rounds, in microseconds.
fn lateness(results: &Results, arm: usize, case: usize, percent: f64) -> Option<f64> {
    let late = results
        .rounds(arm, case)
        .iter()
        .filter_map(|round| round.get("late_us"));
    stats::percentile(&late.flatten().copied().collect::<Vec<_>>(), percent)
}

fn verdicts(results: &Results, sleeps: Option<u32>) -> Vec<Verdict> {
    let late = |arm: &str, case: &str, percent| {
        let (arm, case) = results.place(arm, case)?;
        lateness(results, arm, case, percent)
    };
    let designs = || peers::OPENSMALLTALK.iter().map(|(peer, _)| peer.name);
    let mut verdicts = Vec::new();
    for (name, percent) in [("p50", 50.0), ("p99", 99.0)] {
        let least = |arms: &mut dyn Iterator<Item = &'static str>| {
            arms.filter_map(|arm| late(arm, MILLISECOND, percent))
                .reduce(f64::min)
        };
        let ratio = |case, to: Option<f64>| Some(late(BATON, case, percent)? / to?);
        let bare = ratio("50 us", late(BARE, "50 us", percent));
        verdicts.push(BARE_GOAL.judge(&format!("lateness of 50 us, {name}"), bare));
        let millisecond = format!("lateness of 1 ms, {name}");
        let to_peer = ratio(MILLISECOND, least(&mut scripts::names()));
        verdicts.push(PEERS_GOAL.judge(&millisecond, to_peer));
        // If the designs are missing, a separate verdict says so.
        let to_design = ratio(MILLISECOND, least(&mut designs()));
        verdicts.extend(to_design.map(|ratio| DESIGNS_GOAL.judge(&millisecond, Some(ratio))));
    }
    let slept = number(sleeps, MILLISECOND);
    let took = || {
        let (arm, case) = results.place(BATON, MILLISECOND)?;
        let took = results.median(arm, case, "took_s")?;
        Some(took * f64::from(THOUSAND) / f64::from(slept))
    };
    let thousand = match slept {
        THOUSAND => "a thousand sleeps of 1 ms".to_string(),
        _ => format!("a thousand sleeps of 1 ms, reckoned from {slept}"),
    };
    verdicts.push(THOUSAND_GOAL.judge(&thousand, took()));
    verdicts
}

/// Runs the bare loop, which sets a timer descriptor and reads it, again and again. Prints the same
/// figures as the programs.
pub(crate) fn bare_timer(seconds: f64, sleeps: u32) -> Result<()> {
    let length = Duration::from_secs_f64(seconds);
    let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_CLOEXEC)
        .context("cannot open a timer")?;
    let mut late = Vec::with_capacity(sleeps as usize);
    let start = Instant::now();
    for _ in 0..sleeps {
        let before = Instant::now();
        timer.set(
            Expiration::OneShot(TimeSpec::from_duration(length)),
            TimerSetTimeFlags::empty(),
        )?;
        timer.wait()?;
        late.push(before.elapsed().saturating_sub(length).as_secs_f64() * 1e6);
    }
    let took = start.elapsed().as_secs_f64();
    let words: Vec<String> = late.iter().map(|one| format!("{one:.2}")).collect();
    output::print(&format!("took_s {took}\nlate_us {}\n", words.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_is_tried_alone_and_busy() {
        let cases = cases(Some(7));
        let names: Vec<&str> = cases.iter().map(|case| case.name.as_str()).collect();
        assert_eq!(names[..4], ALONE);
        assert_eq!(names[4], "50 us, busy");
        assert_eq!(cases[0].arguments, ["0.00005", "7"]);
        assert_eq!(cases[7].arguments, ["0.01", "7", "busy"]);
    }

    #[test]
    fn a_thousand_sleeps_of_a_millisecond_are_slept_unless_another_number_is_asked_for() {
        let numbers: Vec<String> = cases(None)
            .iter()
            .map(|case| case.arguments[1].clone())
            .collect();
        assert_eq!(
            numbers,
            ["500", "500", "1000", "500", "500", "500", "500", "500"]
        );
        assert!(cases(Some(7)).iter().all(|case| case.arguments[1] == "7"));
    }
}
