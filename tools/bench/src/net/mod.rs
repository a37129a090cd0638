//! The experiment `net`: a simple server at up to ten thousand connections, compared with the
//! servers of other systems.

mod calls;
mod client;
mod drive;
mod server;
mod servers;

use std::time::Duration;

use anyhow::Result;

use crate::bench::Bench;
use crate::chart::{Chart, Lines};
use crate::command_line::NetOptions;
use crate::contest::{Case, Contest, Results};
use crate::peers::{self, GO};
use crate::report::{Report, notes};
use crate::scripts;
use crate::table::Table;
use crate::verdict::{Goal, Verdict};

pub(crate) use calls::count as count_calls;
pub(crate) use client::{Client, Protocol};
pub(crate) use drive::{allow_descriptors, run as drive};
pub(crate) use server::Server;
use servers::{BATON, COPAS, LUA_PEERS, NGINX, NODE};

/// The protocols and clients: the name in the program, and the name in tables.
const KINDS: [(&str, &str); 5] = [
    ("echo", "echo"),
    ("http", "HTTP"),
    ("wrk", "HTTP, by wrk"),
    ("json", "JSON over HTTP, all parsed"),
    ("work", "JSON beside handlers that compute"),
];
const COUNTS: [u64; 4] = [1, 100, 1_000, 10_000];
/// Those in which all servers do the same: they parse the whole head, find a route, and answer JSON
/// with the request's own number.
const JSON_CASES: [&str; 4] = ["json 1", "json 100", "json 1000", "json 10000"];
/// The names of the other cases with at most a thousand connections.
const UP_TO_A_THOUSAND: [&str; 9] = [
    "echo 1",
    "echo 100",
    "echo 1000",
    "http 1",
    "http 100",
    "http 1000",
    "wrk 1",
    "wrk 100",
    "wrk 1000",
];
const SIMPLE_CASES: [&str; 12] = [
    "echo 1",
    "echo 100",
    "echo 1000",
    "echo 10000",
    "http 1",
    "http 100",
    "http 1000",
    "http 10000",
    "wrk 1",
    "wrk 100",
    "wrk 1000",
    "wrk 10000",
];
const HTTP_CASES: [&str; 12] = [
    "http 1",
    "http 100",
    "http 1000",
    "http 10000",
    "wrk 1",
    "wrk 100",
    "wrk 1000",
    "wrk 10000",
    "json 1",
    "json 100",
    "json 1000",
    "json 10000",
];

/// The figures of a run: the name, the name in tables, and the number of decimals.
const FIGURES: [(&str, &str, usize); 7] = [
    ("rps", "requests a second", 0),
    ("p50_us", "time of an answer in us, median", 0),
    ("p99_us", "time of an answer in us, 99th percentile", 0),
    (
        "cpu_us",
        "CPU time of the server for each request, in us",
        2,
    ),
    ("kib", "memory of the server for each connection, in KiB", 1),
    ("threads", "native threads of the server", 0),
    (
        "idle_ms",
        "CPU time in a second in which all connections are idle, in ms",
        2,
    ),
];

const THREADS_GOAL: Goal = Goal::at_most(4.0, "", 0);
const MEMORY_GOAL: Goal = Goal::at_most(25.0, " KiB", 1);
/// The goal relative to Copas: at least one and a half times as many requests.
const COPAS_GOAL: Goal = Goal::at_most(0.667, " of ours", 3);
/// The goal relative to the best peer in Lua: at least 0.8 times as many requests.
const BEST_GOAL: Goal = Goal::at_most(1.25, " of ours", 3);

/// The goals of equal work: as many requests as Go, twice as many as Node, nine tenths of nginx's;
/// no more CPU time than Go, and no longer waits at a thousand connections.
const GO_GOAL: Goal = Goal::at_most(1.0, " of ours", 3);
const NODE_GOAL: Goal = Goal::at_most(0.5, " of ours", 3);
const NGINX_GOAL: Goal = Goal::at_most(1.111, " of ours", 3);
const CPU_GOAL: Goal = Goal::at_most(1.0, " of Go's", 3);
/// Beside handlers that compute: a goroutine runs for 10 ms before another one gets its turn.
const WORK_GOAL: Goal = Goal::at_most(0.5, " of Go's", 3);
const P99_GOAL: Goal = Goal::at_most(1.0, " of Go's", 3);

/// The time limit for starting, connecting and ending, besides the load.
const BESIDES: Duration = Duration::from_secs(120);

/// Runs the experiment.
pub(crate) fn run(bench: &Bench, options: &NetOptions) -> Result<Report> {
    if options.calls {
        return calls::run(bench, options);
    }
    let mut cases = cases(options);
    let has_wrk = scripts::is_installed("wrk");
    cases.retain(|case| has_wrk || !case.name.starts_with("wrk"));
    let results = Contest {
        arms: servers::arms(bench, "drive")?,
        cases,
        rounds: options.rounds,
        figure: "rps",
        limit: BESIDES + Duration::from_secs_f64(options.seconds * 2.0),
    }
    .run();
    let tables = KINDS.iter().flat_map(|kind| {
        let of_figure = |figure| table(&results, kind, figure);
        FIGURES.iter().filter_map(of_figure)
    });
    let charts = KINDS.iter().filter_map(|kind| chart(&results, kind));
    let mut report = results.complete(Report {
        notes: notes(&[
            "Each server is a program of its own, with one thread for the work; the client is \
             another, with one thread.",
            "In the cases with JSON, each server parses the request line and all fields, finds a \
             route, and answers with the request's own number; the client checks it. In the other \
             cases, the servers of Baton, luv and Copas parse nothing, and those of Go, Node, \
             nginx and Tarantool parse everything.",
            "Every connection asks again as soon as it was answered. Memory is resident memory and \
             page tables, not the kernel's sockets.",
        ]),
        tables: tables.collect(),
        charts: charts.collect(),
        verdicts: verdicts(&results),
        ..Report::default()
    });
    if !has_wrk && options.only.as_deref().is_none_or(|only| only == "wrk") {
        report
            .verdicts
            .push(Verdict::unmet("HTTP, loaded by wrk", peers::REMEDY));
    }
    Ok(report)
}

fn name(kind: &str, count: u64) -> String {
    format!("{kind} {count}")
}

fn cases(options: &NetOptions) -> Vec<Case> {
    let case = |&(kind, title): &(&str, &str), count: u64| {
        let title = format!("{title} with {count} connections");
        Case::new(name(kind, count), title, &[&kind, &count, &options.seconds])
    };
    let counts = COUNTS.into_iter().filter(|&count| count <= options.most);
    let of_kind = |kind: &'static (&str, &str)| {
        let counts = counts
            .clone()
            .filter(|count| kind.0 != "work" || [100, 1_000].contains(count));
        counts.map(move |count| case(kind, count))
    };
    let is_wanted =
        |(kind, _): &&(&str, &str)| options.only.as_deref().is_none_or(|only| only == *kind);
    KINDS.iter().filter(is_wanted).flat_map(of_kind).collect()
}

/// The index of each case of a kind, with its number of connections.
fn cases_of<'a>(results: &'a Results, kind: &'a str) -> impl Iterator<Item = (usize, u64)> + 'a {
    COUNTS
        .into_iter()
        .filter_map(move |count| Some((results.case(&name(kind, count))?, count)))
}

/// A table of one figure by server and number of connections. `None` if no server has the figure.
fn table(
    results: &Results,
    (kind, title): &(&str, &str),
    (name, what, digits): &(&str, &str, usize),
) -> Option<Table> {
    let counts = cases_of(results, kind).map(|(_, count)| count.to_string());
    let header = ["server".to_string()].into_iter().chain(counts);
    let mut table = Table::new(format!("{title}: {what}, by connections"), header);
    let arms = || results.arms.iter().enumerate();
    for (arm, of_arm) in arms() {
        let cells =
            cases_of(results, kind).map(|(case, _)| results.shown(arm, case, name, *digits));
        table.named(of_arm.name, cells);
    }
    let has_figure = |(arm, _)| {
        cases_of(results, kind).any(|(case, _)| results.median(arm, case, name).is_some())
    };
    arms().any(has_figure).then_some(table)
}

fn chart(results: &Results, (kind, title): &(&str, &str)) -> Option<Chart> {
    let title = format!("A textbook server: {title}");
    let mut chart = Lines::log(title, "connections", "requests a second");
    for (arm, of_arm) in results.arms.iter().enumerate() {
        let point = |(case, count)| Some((count as f64, results.median(arm, case, "rps")?));
        let points: Vec<(f64, f64)> = cases_of(results, kind).filter_map(point).collect();
        if !points.is_empty() {
            chart = chart.line(of_arm.name, points);
        }
    }
    (!chart.series.is_empty()).then(|| chart.into())
}

fn verdicts(results: &Results) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    let Some(baton) = results.arm(BATON) else {
        return verdicts;
    };
    if let Some(most) = results.case("echo 10000") {
        let held = |figure| results.median(baton, most, figure);
        verdicts.push(THREADS_GOAL.judge("native threads at 10,000 connections", held("threads")));
        verdicts.push(MEMORY_GOAL.judge("memory for each of 10,000 connections", held("kib")));
    }
    verdicts.extend(verdicts_on_json(results, baton));
    let Some(thousand) = results.case("echo 1000") else {
        return verdicts;
    };
    let against = |peer: &str| {
        let peer = results.arm(peer)?;
        results.ratio((peer, thousand), (baton, thousand), "rps")
    };
    if let Some(ratio) = against(COPAS) {
        verdicts.push(COPAS_GOAL.judge("echo by Copas at 1,000 connections", Some(ratio)));
    }
    let ratios = LUA_PEERS
        .iter()
        .filter_map(|peer| Some((against(peer)?, peer)));
    if let Some((ratio, best)) = ratios.max_by(|one, other| one.0.total_cmp(&other.0)) {
        let what = format!("echo by the best peer in Lua, {best}, at 1,000 connections");
        verdicts.push(BEST_GOAL.judge(&what, Some(ratio)));
    }
    verdicts
}

/// The goals of equal work, at each number of connections.
fn verdicts_on_json(results: &Results, baton: usize) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for (case, count) in cases_of(results, "json") {
        let goals = [
            (GO.name, "rps", GO_GOAL),
            (NODE, "rps", NODE_GOAL),
            (NGINX, "rps", NGINX_GOAL),
            (GO.name, "cpu_us", CPU_GOAL),
            (GO.name, "p99_us", P99_GOAL),
        ];
        for (peer, figure, goal) in goals {
            let is_wanted = match (peer, figure) {
                (NGINX, _) => [100, 1_000].contains(&count),
                (_, "p99_us") => count == 1_000,
                _ => true,
            };
            let Some(arm) = results.arm(peer).filter(|_| is_wanted) else {
                continue;
            };
            let what = format!("JSON with {count} connections, {figure}, beside {peer}");
            let ratio = match figure {
                "rps" => results.ratio((arm, case), (baton, case), figure),
                _ => results.ratio((baton, case), (arm, case), figure),
            };
            verdicts.push(goal.judge(&what, ratio));
        }
    }
    for (case, count) in cases_of(results, "work") {
        if let Some(go) = results.arm(GO.name) {
            let what = format!("JSON with {count} connections beside handlers that compute, p99");
            let ratio = results.ratio((baton, case), (go, case), "p99_us");
            verdicts.push(WORK_GOAL.judge(&what, ratio));
        }
    }
    verdicts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contest::Arm;
    use std::process::Command;

    fn options() -> NetOptions {
        NetOptions {
            rounds: 1,
            seconds: 0.5,
            most: 1_000,
            only: None,
            calls: false,
        }
    }

    #[test]
    fn one_kind_is_tried_alone() {
        let only = Some("json".to_string());
        let options = NetOptions { only, ..options() };
        let names: Vec<String> = cases(&options).into_iter().map(|case| case.name).collect();
        assert_eq!(names, JSON_CASES[..3]);
    }

    #[test]
    fn every_kind_is_tried_with_every_number_up_to_the_most() {
        let cases = cases(&options());
        let names: Vec<&str> = cases.iter().map(|case| case.name.as_str()).collect();
        assert_eq!(names[..9], UP_TO_A_THOUSAND);
        assert_eq!(names[9..12], JSON_CASES[..3]);
        assert_eq!(names[12..], ["work 100", "work 1000"]);
        assert_eq!(cases[1].arguments, ["echo", "100", "0.5"]);
    }

    #[test]
    fn the_best_peer_in_lua_is_compared_and_missing_ones_are_ignored() {
        let arm = |name, rps: &'static str| {
            Arm::present(name, move || {
                let mut command = Command::new("echo");
                command.args(["rps", rps, "\nignored"]);
                command
            })
        };
        let results = Contest {
            arms: vec![
                arm(BATON, "100"),
                arm(COPAS, "50"),
                arm("luv", "120"),
                Arm::missing("Tarantool", "get it"),
            ],
            cases: cases(&options()),
            rounds: 1,
            figure: "rps",
            limit: Duration::from_secs(20),
        }
        .run();
        let lines: Vec<String> = verdicts(&results).iter().map(ToString::to_string).collect();
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(
            lines[0].starts_with("met") && lines[0].contains("0.500"),
            "{lines:?}"
        );
        assert!(
            lines[1].starts_with("met") && lines[1].contains("luv") && lines[1].contains("1.200"),
            "{lines:?}"
        );
    }
}
