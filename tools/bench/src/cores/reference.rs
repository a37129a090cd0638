//! Values that are passed by reference: frozen values, and buffers that are moved.

use std::time::Duration;

use anyhow::Result;

use super::arms::{self, BATON, ERLANG, GO_CORES, NODE};
use super::{BESIDES, ratios, spread};
use crate::bench::Bench;
use crate::chart::Bars;
use crate::command_line::CoresOptions;
use crate::contest::{Arm, Case, Contest, Results};
use crate::machine;
use crate::report::{Report, notes};
use crate::stats;
use crate::table::{Table, figure};
use crate::verdict::{Goal, Verdict};

const GIB: u64 = 1 << 30;
/// With this much free memory, in KiB, the large buffer has a gibibyte. Otherwise it has a quarter.
const ENOUGH_KIB: u64 = 4 * 1024 * 1024;

/// What is passed: the name of the case and the title, of the small and of the large one.
const PAIRS: [(&str, &str, &str); 2] = [
    ("a frozen value", "small value", "large value"),
    ("a moved buffer", "small buffer", "large buffer"),
];
const BUFFERS: [&str; 2] = ["small buffer", "large buffer"];

/// The CPU time to pass a large one, to that of a small one. On a busy machine, elapsed times say
/// little of so short waits.
const SIZE_GOAL: Goal = Goal::at_most(1.5, "", 3);

pub(super) fn run(bench: &Bench, options: &CoresOptions) -> Result<Report> {
    // Only Go and Erlang have something like frozen values.
    let with_cases = |arm: Arm| match arm.name {
        NODE => arm.only(&BUFFERS),
        _ => arm,
    };
    let arms = arms::arms(bench, &[BATON, NODE, GO_CORES, ERLANG])?;
    let free = machine::number("/proc/meminfo", "MemAvailable").unwrap_or(0);
    let results = Contest {
        arms: arms.into_iter().map(with_cases).collect(),
        cases: cases(options, largest_buffer(free)),
        rounds: options.rounds,
        figure: "us",
        limit: BESIDES + Duration::from_secs_f64(options.seconds * 20.0),
    }
    .run();
    let table = |what: &str, figure: &'static str| {
        let caption = format!("reference: {what}, with a wake-up; median (smallest-largest)");
        results.by_case(caption, "passed", results.all_cases(), |arm, case| {
            spread(&results.values(arm, case, figure), 2)
        })
    };
    let chart = Bars::new("A value that is passed by reference", "microseconds").digits(2);
    let median = |arm, case| results.median(arm, case, "us");
    Ok(results.complete(Report {
        notes: notes(&[
            "References: a value is passed to and fro. Baton moves a buffer or passes a frozen \
             value, Node transfers a buffer. Go and Erlang pass references to shared memory.",
        ]),
        tables: vec![
            table("microseconds for each pass", "us"),
            table("CPU microseconds of all for each pass", "cpu_us"),
            of_sizes(&results),
        ],
        charts: vec![results.bars(chart, results.all_cases(), median)],
        verdicts: verdicts(&results),
        ..Report::default()
    }))
}

fn largest_buffer(free_kib: u64) -> u64 {
    if free_kib >= ENOUGH_KIB { GIB } else { GIB / 4 }
}

fn cases(options: &CoresOptions, largest: u64) -> Vec<Case> {
    let case = |name: &str, title: String, what: &str, size: u64| {
        Case::new(name, title, &[&"reference", &what, &size, &options.seconds])
    };
    vec![
        case("small value", "value of 10 items".into(), "value", 10),
        case(
            "large value",
            "value of 100,000 items".into(),
            "value",
            100_000,
        ),
        case("small buffer", "buffer of 1 KiB".into(), "buffer", 1024),
        case(
            "large buffer",
            format!("buffer of {} MiB", largest >> 20),
            "buffer",
            largest,
        ),
    ]
}

/// The ratios of the CPU times of a system, of the large one to the small one, round by round.
fn large_to_small(results: &Results, arm: usize, small: &str, large: &str) -> Vec<f64> {
    match (results.case(large), results.case(small)) {
        (Some(large), Some(small)) => ratios(results, (arm, large), (arm, small), "cpu_us"),
        _ => Vec::new(),
    }
}

fn of_sizes(results: &Results) -> Table {
    let names = results.arms.iter().map(|arm| arm.name);
    let header = ["passed"].into_iter().chain(names);
    let caption =
        "reference: CPU time of the large one / of the small one; median (smallest-largest)";
    let mut table = Table::new(caption, header);
    for (what, small, large) in PAIRS {
        let cell = |arm| {
            let ratios = large_to_small(results, arm, small, large);
            spread(&ratios, 2).unwrap_or_else(|| figure(None, 2))
        };
        table.named(what, (0..results.arms.len()).map(cell));
    }
    table
}

fn verdicts(results: &Results) -> Vec<Verdict> {
    let Some(baton) = results.arm(BATON) else {
        return Vec::new();
    };
    let judge = |(what, small, large): (&str, &str, &str)| {
        let ratio = stats::median(&large_to_small(results, baton, small, large))?;
        let what = format!("{what}: CPU time of a large one / of a small one");
        Some(SIZE_GOAL.judge(&what, Some(ratio)))
    };
    PAIRS.into_iter().filter_map(judge).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_short_of_memory_gets_a_smaller_buffer() {
        assert_eq!(largest_buffer(ENOUGH_KIB), GIB);
        assert_eq!(largest_buffer(ENOUGH_KIB - 1), GIB / 4);
        let cases = cases(&CoresOptions::quick(), GIB / 4);
        assert_eq!(cases[3].title, "buffer of 256 MiB");
        assert_eq!(
            cases[3].arguments[..3],
            ["reference", "buffer", "268435456"]
        );
    }
}
