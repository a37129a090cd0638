//! Servers that listen in several VMs on one port.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;

use super::{BESIDES, arms, ratios, spread};
use crate::bench::Bench;
use crate::chart::Bars;
use crate::command_line::CoresOptions;
use crate::contest::{Arm, Case, Contest, Results};
use crate::peers::{self, GO, REMEDY};
use crate::report::{Report, notes};
use crate::stats;
use crate::verdict::{Goal, Verdict};

const ONE: &str = "one VM";
const TWO: &str = "two VMs";

const PROTOCOLS: [(&str, &str); 2] = [("echo", "echo"), ("http", "HTTP")];

/// The figures: the name, the name in tables, and the number of decimals.
const FIGURES: [(&str, &str, usize); 3] = [
    ("rps", "requests a second", 0),
    (
        "cpu_us",
        "CPU time of the server for each request, in us",
        2,
    ),
    ("p99_us", "time of an answer in us, 99th percentile", 0),
];

/// The CPU time for each request with two VMs, to that with one.
const CPU_GOAL: Goal = Goal::at_most(1.05, "", 3);
/// Go's requests a second, to those of two VMs.
const GO_GOAL: Goal = Goal::at_most(1.0, " of ours", 3);

pub(super) fn run(bench: &Bench, options: &CoresOptions) -> Result<Report> {
    let case = |(protocol, title): (&str, &str)| {
        let title = format!("{title}, {} connections", options.connections);
        Case::new(
            protocol,
            title,
            &[&protocol, &options.connections, &options.load],
        )
    };
    let results = Contest {
        arms: servers(bench, options.batch)?,
        cases: PROTOCOLS.map(case).to_vec(),
        rounds: options.rounds,
        figure: "rps",
        limit: BESIDES + Duration::from_secs_f64(options.load * 2.0),
    }
    .run();
    let table = |&(name, what, digits): &(&'static str, &str, usize)| {
        let caption = format!("server: {what}; median (smallest-largest)");
        results.by_case(caption, "protocol", results.all_cases(), |arm, case| {
            spread(&results.values(arm, case, name), digits)
        })
    };
    let chart = Bars::new("A server on two cores", "requests a second; more is better");
    let rate = |arm, case| results.median(arm, case, "rps");
    let mut notes = notes(&[
        "Servers: each VM listens on the same port by reuseport. Go has GOMAXPROCS=2. The client \
         has one thread, and needs a core too.",
    ]);
    if options.batch {
        notes.push("The servers are started by chrt --batch 0.".to_owned());
    }
    Ok(results.complete(Report {
        notes,
        tables: FIGURES.iter().map(table).collect(),
        charts: vec![results.bars(chart, results.all_cases(), rate)],
        verdicts: verdicts(&results),
        ..Report::default()
    }))
}

/// The command line of a server that does not preempt its client, on a processor that both use.
fn as_batch(server: &[String]) -> Vec<String> {
    let begin = ["chrt", "--batch", "0"].map(str::to_owned);
    begin.into_iter().chain(server.iter().cloned()).collect()
}

/// Each server as an arm that runs this program, which starts the server and loads it.
fn servers(bench: &Bench, batch: bool) -> Result<Vec<Arm>> {
    let drive = |name, server: &[String]| {
        let server = match batch {
            true => as_batch(server),
            false => server.to_vec(),
        };
        let words = serde_json::Value::from(server).to_string();
        Arm::this_program(name, &["drive", &words])
    };
    let text = |path: &Path| path.display().to_string();
    let baton = bench.paths.baton()?;
    let source = include_str!("../../programs/cores/server.lua");
    let script = bench.script("cores_server", source)?;
    let has_sockets = arms::finds(&baton.path, "socket");
    let mut arms = Vec::new();
    for (name, count) in [(ONE, "1"), (TWO, "2")] {
        arms.push(match has_sockets {
            true => drive(name, &[text(&baton.path), text(&script), count.to_string()])?,
            false => Arm::missing(name, REMEDY),
        });
    }
    let directory = peers::directory(bench.paths.peers.as_ref())?;
    arms.push(match GO.found(&directory) {
        Some(found) => {
            let words = [text(&GO.program(&directory)), "cores".into(), "net".into()];
            let mut arm = drive(GO.name, &words)?;
            arm.found = Some(found);
            arm
        }
        None => Arm::missing(GO.name, REMEDY),
    });
    Ok(arms)
}

fn verdicts(results: &Results) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for (protocol, title) in PROTOCOLS {
        let median_ratio = |arm, to, figure| {
            let (arm, to) = (results.place(arm, protocol)?, results.place(to, protocol)?);
            stats::median(&ratios(results, arm, to, figure))
        };
        if let Some(ratio) = median_ratio(TWO, ONE, "cpu_us") {
            let what = format!("{title}: CPU time of a request, two VMs / one");
            verdicts.push(CPU_GOAL.judge(&what, Some(ratio)));
        }
        if let Some(ratio) = median_ratio(GO.name, TWO, "rps") {
            let what = format!("{title}: requests by Go on two cores");
            verdicts.push(GO_GOAL.judge(&what, Some(ratio)));
        }
    }
    verdicts
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_server_in_the_batch_class_keeps_its_words() {
        let words = ["baton", "server.lua"].map(str::to_owned);
        assert_eq!(
            as_batch(&words),
            ["chrt", "--batch", "0", "baton", "server.lua"]
        );
    }

    #[test]
    fn two_vms_are_judged_beside_one_and_beside_go() {
        let arm = |name, cpu: &'static str, rate: &'static str| {
            Arm::present(name, move || {
                let mut command = Command::new("echo");
                command.args([&format!("cpu_us {cpu}\nrps {rate}\nignored")]);
                command
            })
        };
        let results = Contest {
            arms: vec![
                arm(ONE, "10", "50"),
                arm(TWO, "11", "90"),
                arm(GO.name, "12", "45"),
            ],
            cases: vec![Case::new("echo", "echo", &[])],
            rounds: 2,
            figure: "rps",
            limit: Duration::from_secs(20),
        }
        .run();
        let lines: Vec<String> = verdicts(&results).iter().map(ToString::to_string).collect();
        assert_eq!(
            lines,
            [
                "MISSED  echo: CPU time of a request, two VMs / one <= 1.05  (measured 1.100)",
                "met     echo: requests by Go on two cores <= 1 of ours  (measured 0.500 of ours)",
            ]
        );
    }
}
