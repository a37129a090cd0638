//! Messages from one VM to another.

use std::time::Duration;

use anyhow::Result;

use super::arms::{self, BATON, ERLANG, GO_CORES, INTERPRETERS, NODE, PROCESSES};
use super::{BESIDES, ratios, spread};
use crate::bench::Bench;
use crate::chart::{Chart, Lines};
use crate::command_line::CoresOptions;
use crate::contest::{Arm, Case, Contest, Results};
use crate::report::{Report, notes};
use crate::stats;
use crate::table::{Table, figure};
use crate::verdict::{Goal, Verdict};

/// The ways to pass messages: the name in every program, and the name in tables.
const WAYS: [(&str, &str); 2] = [("stream", "one way"), ("pingpong", "to and fro")];

/// The messages: the kind in every program, the number of bytes, and the name in tables.
const MESSAGES: [(&str, u64, &str); 6] = [
    ("text", 11, "11 B"),
    ("table", 64, "table of 64 B"),
    ("text", 1 << 10, "1 KiB"),
    ("text", 64 << 10, "64 KiB"),
    ("text", 3_000_000, "3 MB"),
    ("text", 64_000_000, "64 MB"),
];

/// The heaps of the sender of small messages, in MB: the name of the case, and the title.
const HEAPS: [(&str, u64, &str); 2] = [
    (SMALL_HEAP, 1, "1 KiB from a heap of 1 MB"),
    (LARGE_HEAP, 500, "1 KiB from a heap of 500 MB"),
];
const SMALL_HEAP: &str = "small heap";
const LARGE_HEAP: &str = "large heap";

/// The CPU time of a message from a large heap, to that from a small one.
const HEAP_GOAL: Goal = Goal::at_most(1.25, "", 3);

/// The CPU time of each side for a small table that wakes nobody. The sender's is without the time
/// to make the table.
const SIDE_GOAL: Goal = Goal::at_most(0.5, " us", 2);

/// Small tables while both sides run: some messages wake the receiver, or a sender that waits for
/// room. And small tables in turns: the receiver takes 50 of them when all are there.
const SMALL_TABLE: [(&str, &str); 2] = [
    ("stream 64", "while both sides run"),
    (IN_TURNS, "in turns of 50"),
];
const IN_TURNS: &str = "turns 64";

const NOTES: [&str; 5] = [
    "Messages: one way, with several under way, or to and fro, with a wake-up for each. Times are \
     for each message.",
    "Go passes a reference to memory that both share, and so does Erlang for texts from 65 bytes \
     on. Both may run the two sides on one native thread, and do not tell their CPU times apart. \
     An interpreter of Python looks at an empty queue every 10 ms.",
    "The times include making each message. What that takes alone is measured afterwards.",
    "In turns, one side sends 50 messages, and then the other one receives them. No message \
     wakes a VM, only each turn does. The CPU times are those of the 50 calls.",
    "To and fro, both sides do the same, and the CPU time is that of one of them for each message.",
];

pub(super) fn run(bench: &Bench, options: &CoresOptions) -> Result<Report> {
    let results = Contest {
        arms: arms::arms(
            bench,
            &[BATON, NODE, PROCESSES, INTERPRETERS, GO_CORES, ERLANG],
        )?
        .into_iter()
        .map(without_heaps)
        .collect(),
        cases: cases(options),
        rounds: options.rounds,
        figure: "us",
        limit: BESIDES + Duration::from_secs_f64(options.seconds * 20.0),
    }
    .run();
    let mut tables: Vec<Table> = WAYS.iter().flat_map(|way| of_way(&results, way)).collect();
    tables.push(of_heaps(&results));
    tables.extend(of_small_table(&results));
    Ok(results.complete(Report {
        notes: notes(&NOTES),
        tables,
        charts: WAYS.iter().map(|way| chart(&results, way)).collect(),
        verdicts: verdict_on_heaps(&results)
            .into_iter()
            .chain(verdicts_on_sides(&results))
            .collect(),
        ..Report::default()
    }))
}

/// Only Baton is tried with heaps of two sizes.
fn without_heaps(arm: Arm) -> Arm {
    match arm.name {
        BATON => arm,
        _ => arm.only(&EVERYWHERE),
    }
}

/// The names of the cases for all systems.
const EVERYWHERE: [&str; 12] = [
    "stream 11",
    "stream 64",
    "stream 1024",
    "stream 65536",
    "stream 3000000",
    "stream 64000000",
    "pingpong 11",
    "pingpong 64",
    "pingpong 1024",
    "pingpong 65536",
    "pingpong 3000000",
    "pingpong 64000000",
];

fn cases(options: &CoresOptions) -> Vec<Case> {
    let seconds = options.seconds;
    let of_way = |(way, title): (&'static str, &'static str)| {
        let tried = MESSAGES
            .into_iter()
            .filter(|(_, bytes, _)| *bytes <= options.largest);
        tried.map(move |(kind, bytes, of)| {
            Case::new(
                format!("{way} {bytes}"),
                format!("{of}, {title}"),
                &[&"message", &way, &kind, &bytes, &seconds],
            )
        })
    };
    let mut cases: Vec<Case> = WAYS.into_iter().flat_map(of_way).collect();
    cases.push(Case::new(
        IN_TURNS,
        "table of 64 B, in turns",
        &[&"message", &"turns", &"table", &64, &seconds],
    ));
    cases.extend(HEAPS.map(|(name, megabytes, title)| {
        let heap = (megabytes * 1_000_000).min(options.heap);
        Case::new(
            name,
            title,
            &[&"message", &"stream", &"text", &1024, &seconds, &heap],
        )
    }));
    cases
}

/// The indices of the cases of a way, with the bytes of each.
fn cases_of(results: &Results, way: &str) -> Vec<(usize, u64)> {
    let of_bytes =
        |(_, bytes, _): (&str, u64, &str)| Some((results.case(&format!("{way} {bytes}"))?, bytes));
    MESSAGES.into_iter().filter_map(of_bytes).collect()
}

/// The tables of one way: the time, its ratio to Baton's, and the CPU time of both sides.
fn of_way(results: &Results, (way, title): &(&str, &str)) -> Vec<Table> {
    let cases = || cases_of(results, way).into_iter().map(|(case, _)| case);
    let baton = results.arm(BATON);
    let time = results.by_case(
        format!("message {title}: microseconds, median"),
        "message",
        cases(),
        |arm, case| Some(figure(results.median(arm, case, "us")?, 2)),
    );
    let ratio = results.by_case(
        format!("message {title}: baton's time / its time; median (smallest-largest)"),
        "message",
        cases(),
        |arm, case| match baton? {
            baton if baton == arm => None,
            baton => spread(&ratios(results, (baton, case), (arm, case), "us"), 2),
        },
    );
    let sides = results.by_case(
        format!("message {title}: CPU microseconds of all (of sender / of receiver), medians"),
        "message",
        cases(),
        |arm, case| {
            let of = |name| figure(results.median(arm, case, name), 2);
            results.median(arm, case, "us")?;
            Some(format!(
                "{} ({} / {})",
                of("cpu_us"),
                of("sender_us"),
                of("receiver_us")
            ))
        },
    );
    vec![time, ratio, sides]
}

fn of_heaps(results: &Results) -> Table {
    let header = ["message", "us", "CPU us of both", "CPU us of the sender"];
    let mut table = Table::new("message one way, by the sender's heap; medians", header);
    for (name, _, title) in HEAPS {
        if let Some((arm, case)) = results.place(BATON, name) {
            let cells = ["us", "cpu_us", "sender_us"].map(|name| results.shown(arm, case, name, 3));
            table.named(title, cells);
        }
    }
    table
}

fn chart(results: &Results, (way, title): &(&str, &str)) -> Chart {
    let title = format!("A message {title}");
    let mut chart = Lines::log(title, "bytes", "microseconds for each message");
    for (arm, of_arm) in results.arms.iter().enumerate() {
        let point = |(case, bytes)| Some((bytes as f64, results.median(arm, case, "us")?));
        let points: Vec<(f64, f64)> = cases_of(results, way)
            .into_iter()
            .filter_map(point)
            .collect();
        if !points.is_empty() {
            chart = chart.line(of_arm.name, points);
        }
    }
    chart.into()
}

fn verdict_on_heaps(results: &Results) -> Option<Verdict> {
    let large = results.place(BATON, LARGE_HEAP)?;
    let small = results.place(BATON, SMALL_HEAP)?;
    let ratio = results.ratio(large, small, "cpu_us");
    let what = "a message of 1 KiB: CPU time from a heap of 500 MB / from one of 1 MB";
    Some(HEAP_GOAL.judge(what, ratio))
}

/// The sides of a small table: what the sender needs beside making it, in each round.
fn of_sender(results: &Results, (arm, case): (usize, usize)) -> Option<f64> {
    let sending = results.values(arm, case, "sender_us");
    let making = results.values(arm, case, "making_us");
    let beside: Vec<f64> = sending
        .iter()
        .zip(making)
        .map(|(all, own)| all - own)
        .collect();
    stats::median(&beside)
}

fn of_small_table(results: &Results) -> Option<Table> {
    let header = [
        "table of 64 B",
        "CPU us to make it",
        "to send it",
        "to receive it",
        "wake-ups for each",
    ];
    let mut table = Table::new("the sides of a small table; medians", header);
    for (name, title) in SMALL_TABLE {
        let place @ (arm, case) = results.place(BATON, name)?;
        let cells = [
            results.shown(arm, case, "making_us", 3),
            of_sender(results, place).map_or_else(String::new, |us| figure(us, 3)),
            results.shown(arm, case, "receiver_us", 3),
            results.shown(arm, case, "wakes", 3),
        ];
        table.named(title, cells);
    }
    Some(table)
}

fn verdicts_on_sides(results: &Results) -> Vec<Verdict> {
    let Some(place @ (arm, case)) = results.place(BATON, IN_TURNS) else {
        return Vec::new();
    };
    let receiver = results.median(arm, case, "receiver_us");
    vec![
        SIDE_GOAL.judge(
            "a table of 64 B that wakes nobody: CPU time to send it",
            of_sender(results, place),
        ),
        SIDE_GOAL.judge(
            "a table of 64 B that wakes nobody: CPU time to receive it",
            receiver,
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_systems_have_every_case_but_those_of_heaps() {
        let options = CoresOptions {
            heap: 1 << 20,
            ..CoresOptions::quick()
        };
        let cases = cases(&options);
        let names: Vec<&str> = cases.iter().map(|case| case.name.as_str()).collect();
        assert_eq!(names[..12], EVERYWHERE);
        assert_eq!(names[12..], [IN_TURNS, SMALL_HEAP, LARGE_HEAP]);
        assert_eq!(cases[13].arguments.last().unwrap(), "1000000");
        assert_eq!(cases[14].arguments.last().unwrap(), "1048576");
        let small = CoresOptions {
            largest: 1024,
            ..options
        };
        let cases = super::cases(&small);
        assert_eq!(cases.len(), 2 * 3 + 3, "{cases:?}");
    }
}
