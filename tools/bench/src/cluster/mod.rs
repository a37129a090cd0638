//! The experiment `cluster`: durable queues and calls over NATS, beside other clients of the same
//! server.

mod server;

use std::time::Duration;

use anyhow::{Result, anyhow};

use crate::bench::Bench;
use crate::chart::Bars;
use crate::child::{self, Figures};
use crate::command_line::ClusterOptions;
use crate::contest::{Arm, Case, Contest, Results};
use crate::peers::{self, GO_NATS, NATS_PY, REMEDY};
use crate::report::{Report, notes};
use crate::stats;
use crate::table::figure;
use crate::verdict::{Goal, Verdict};
use server::NatsServer;

const BATON: &str = "baton";
const GO: &str = GO_NATS.name;
/// The same client with one goroutine that publishes, and reads acknowledgements later.
const GO_ASYNC: &str = "nats.go, async";

/// The parts: the word in every program, how many are in flight, and the title.
const PARTS: [(&str, u64, &str); 10] = [
    ("send", 1, "send, one sender"),
    ("send", 64, "send, 64 in flight"),
    ("send", 1000, "send, 1,000 in flight"),
    ("receive", 1, "receive and acknowledge, one receiver"),
    ("receive", 64, "receive and acknowledge, 64 receivers"),
    ("both", 64, "send and receive, 64 of each"),
    ("both", 1000, "send and receive, 1,000 of each"),
    ("latency", 1, "one job from send to receive"),
    ("call", 1, "call a service, one caller"),
    ("call", 64, "call a service, 64 callers"),
];

/// The cases of the client that publishes asynchronously.
const ASYNC_CASES: [&str; 4] = ["send 64", "send 1000", "both 64", "both 1000"];

/// At least 0.8 of the other client's rate.
const RATE_GOAL: Goal = Goal::at_most(1.25, " of ours", 2);

/// The time limit of one run, besides what a job takes.
const BESIDES: Duration = Duration::from_secs(60);
const OF_A_JOB: Duration = Duration::from_millis(20);

const NOTES: [&str; 4] = [
    "Each run has a server of its own with an empty directory, on the same machine. Unless --sync \
     is given, it writes to the disk at its own pace, as it does by default. Queues are streams \
     with the same options in all clients, and all jobs have ids.",
    "In flight are processes of Baton, goroutines, or tasks of asyncio. Each sends a job, and \
     waits for its acknowledgement. With async, one goroutine publishes, with so many that are not \
     acknowledged.",
    "Baton fetches up to 256 jobs ahead, nats.go up to 500, each its default; nats-py fetches 500 \
     at once. Acknowledgements of received jobs are not awaited one by one, but the server has all \
     of them at the end.",
    "Baton's values are MessagePack, and its calls check values and run in a process each; the \
     other clients pass bytes.",
];

/// Runs the experiment.
pub(crate) fn run(bench: &Bench, options: &ClusterOptions) -> Result<Report> {
    let server = peers::nats_server(&peers::directory(bench.paths.peers.as_ref())?);
    let results = Contest {
        arms: arms(bench, server.is_some())?,
        cases: cases(options),
        rounds: options.rounds,
        figure: "rate",
        limit: BESIDES,
    }
    .run_by(|arm, case, command| {
        let program = server.as_ref().ok_or_else(|| anyhow!(REMEDY))?;
        let server = NatsServer::start(program, options.sync)?;
        command.env("NATS_URL", server.url());
        let limit = BESIDES + OF_A_JOB * u32::try_from(options.jobs)?;
        let what = format!("{} of {}", case.title, arm.name);
        child::measure(command, limit, &what, "rate").map(with_percentiles)
    });
    Ok(report(&results))
}

fn arms(bench: &Bench, has_server: bool) -> Result<Vec<Arm>> {
    let peers = peers::directory(bench.paths.peers.as_ref())?;
    let baton = bench.paths.baton()?;
    let script = bench.script("cluster", include_str!("../../programs/cluster.lua"))?;
    let mut asynchronous = GO_NATS.arm(&peers, &["async"]).only(&ASYNC_CASES);
    asynchronous.name = GO_ASYNC;
    let arms = vec![
        Arm::interpreted(BATON, &baton, &script, &[]),
        GO_NATS.arm(&peers, &["plain"]),
        asynchronous,
        NATS_PY.arm(&peers, &[]),
    ];
    let unless_missing = |arm: Arm| match has_server {
        true => arm,
        false => Arm::missing(arm.name, REMEDY),
    };
    Ok(arms.into_iter().map(unless_missing).collect())
}

fn cases(options: &ClusterOptions) -> Vec<Case> {
    let case = |&(part, in_flight, title): &(&str, u64, &str)| {
        let jobs = if in_flight == 1 {
            options.jobs / 10
        } else {
            options.jobs
        };
        // So many senders have a job each at least.
        let in_flight_of_all = in_flight.min(jobs);
        Case::new(
            format!("{part} {in_flight}"),
            title,
            &[&part, &in_flight_of_all, &jobs, &options.bytes],
        )
    };
    PARTS.iter().map(case).collect()
}

/// Replaces the times of single jobs by two of their percentiles.
fn with_percentiles(mut figures: Figures) -> Figures {
    let times = figures.remove("us").unwrap_or_default();
    for (name, percent) in [("p50_us", 50.0), ("p99_us", 99.0)] {
        let found = stats::percentile(&times, percent);
        figures.extend(found.map(|time| (name.to_string(), vec![time])));
    }
    figures
}

fn report(results: &Results) -> Report {
    let table = |name, caption: &str, cases: Vec<usize>, digits| {
        results.by_case(caption, "case", cases, |arm, case| {
            Some(figure(results.median(arm, case, name)?, digits))
        })
    };
    let all = || results.all_cases().collect();
    let timed = results.all_cases().filter(|&case| {
        ["latency", "call"]
            .iter()
            .any(|part| is_of(results, case, part))
    });
    let timed: Vec<usize> = timed.collect();
    let chart = Bars::new(
        "Durable queues over NATS",
        "jobs or calls a second, logarithmic",
    )
    .log();
    results.complete(Report {
        notes: notes(&NOTES),
        tables: vec![
            table("rate", "jobs or calls a second, medians", all(), 0),
            results.by_case(
                "its rate to Baton's, median by round",
                "case",
                results.all_cases(),
                |arm, case| {
                    let baton = results.arm(BATON).filter(|&baton| baton != arm)?;
                    Some(figure(
                        results.ratio((arm, case), (baton, case), "rate")?,
                        2,
                    ))
                },
            ),
            table("cpu_us", "CPU time of the client for each, in us", all(), 1),
            table("p50_us", "time of each in us, median", timed.clone(), 0),
            table("p99_us", "time of each in us, 99th percentile", timed, 0),
        ],
        charts: vec![results.bars(chart, results.all_cases(), |arm, case| {
            results.median(arm, case, "rate")
        })],
        verdicts: verdicts(results),
        ..Report::default()
    })
}

fn is_of(results: &Results, case: usize, part: &str) -> bool {
    results.cases[case].name.split(' ').next() == Some(part)
}

/// Each case of sending and receiving beside each way of the client in Go.
fn verdicts(results: &Results) -> Vec<Verdict> {
    let judge = |(peer, name): (&str, &str)| {
        let (baton, peer_at) = (results.place(BATON, name)?, results.place(peer, name)?);
        let ratio = results.ratio(peer_at, baton, "rate")?;
        let title = &results.cases[baton.1].title;
        Some(RATE_GOAL.judge(&format!("{title}: the rate of {peer}"), Some(ratio)))
    };
    let goals = [GO, GO_ASYNC].into_iter().flat_map(|peer| {
        let cases = ["both 64", "both 1000"].into_iter();
        cases.map(move |name| (peer, name))
    });
    goals.filter_map(judge).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    const OPTIONS: ClusterOptions = ClusterOptions {
        rounds: 1,
        jobs: 100,
        bytes: 8,
        sync: false,
    };

    #[test]
    fn one_in_flight_has_a_tenth_of_the_jobs_and_none_has_more_senders_than_jobs() {
        let cases = cases(&OPTIONS);
        let line = |case: usize| cases[case].arguments.join(" ");
        assert_eq!(
            (line(0), line(1)),
            ("send 1 10 8".into(), "send 64 100 8".into())
        );
        assert_eq!(
            (&*cases[2].name, line(2)),
            ("send 1000", "send 100 100 8".into())
        );
        for name in ASYNC_CASES {
            assert!(cases.iter().any(|case| case.name == name), "{name}");
        }
    }

    #[test]
    fn times_become_percentiles() {
        let figures = child::figures("rate 5\nus 1 2 3\n");
        let figures = with_percentiles(figures);
        assert_eq!(
            (&figures["p50_us"][..], figures.get("us")),
            (&[2.0][..], None)
        );
        let rate_alone = with_percentiles(child::figures("rate 5\n"));
        assert_eq!(rate_alone.len(), 1);
    }

    #[test]
    fn goals_compare_with_each_way_of_go_that_was_measured() {
        let arm = |name, rate: &'static str| {
            Arm::present(name, move || {
                let mut command = Command::new("echo");
                command.args(["rate", rate, "\nignored"]);
                command
            })
        };
        let results = Contest {
            arms: vec![
                arm(BATON, "100"),
                arm(GO, "120"),
                arm(GO_ASYNC, "200").only(&["both 64"]),
            ],
            cases: cases(&OPTIONS),
            rounds: 1,
            figure: "rate",
            limit: Duration::from_secs(20),
        }
        .run();
        let lines: Vec<String> = verdicts(&results).iter().map(ToString::to_string).collect();
        assert_eq!(lines.len(), 3, "{lines:?}");
        assert!(
            lines[0].starts_with("met") && lines[0].contains("1.20"),
            "{lines:?}"
        );
        assert!(
            lines[2].starts_with("MISSED") && lines[2].contains("2.00"),
            "{lines:?}"
        );
        assert!(report(&results).tables.len() == 5);
    }
}
