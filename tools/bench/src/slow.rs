//! The experiment `slow`: a thousand HTTP requests of LuaSocket to a slow server at once, and the
//! lateness of waiting processes beside C calls of one second.

use std::process::Stdio;
use std::time::Duration;

use anyhow::Result;
use serde_json::json;

use crate::bench::{Bench, progress};
use crate::chart::{Bars, Chart, Scale, Series};
use crate::child::{self, Figures, Owned, figures, first};
use crate::command_line::SlowOptions;
use crate::interpreters::Interpreter;
use crate::report::Report;
use crate::table::{Table, figure};
use crate::verdict::Goal;

const REQUESTS_GOAL: Goal = Goal::at_most(1.5, " s", 3);
/// The goal beside an unexpected call: the call itself takes a second, and the rest is for
/// reporting.
const SURPRISE_GOAL: Goal = Goal::at_most(1050.0, " ms", 1);
/// The goal beside a known long call: the lateness that a busy machine causes anyway.
const LEARNED_GOAL: Goal = Goal::at_most(20.0, " ms", 1);

const LIMIT: Duration = Duration::from_secs(60);

/// The calls: the name in the program, a description, and the goal.
const CALLS: [(&str, &str, Option<Goal>); 4] = [
    ("alone", "nothing", None),
    ("surprise", "an unexpected call", Some(SURPRISE_GOAL)),
    (
        "learned",
        "the same function, called again",
        Some(LEARNED_GOAL),
    ),
    ("command", "os.execute", Some(LEARNED_GOAL)),
];

/// Runs the experiment.
pub(crate) fn run(bench: &Bench, options: &SlowOptions) -> Result<Report> {
    let baton = bench.paths.baton()?;
    let bar = progress(2);
    bar.set_message("requests to a slow server");
    let server = SlowServer::start(bench, &baton)?;
    let requests = ask(bench, &baton, &server, options.requests)?;
    bar.inc(1);
    bar.set_message("waiting processes beside long calls");
    let beside = wait_beside(bench, &baton, &server, options.waiting)?;
    bar.finish_and_clear();
    let mut verdicts = vec![
        REQUESTS_GOAL.judge(
            &format!(
                "{} requests of LuaSocket to a server that takes 1 s for each",
                options.requests
            ),
            first(&requests, "seconds"),
        ),
        Goal::at_most(0.0, "", 0).judge("requests that failed", first(&requests, "failed")),
    ];
    let mut table = Table::new(
        format!(
            "how late {} waiting processes are, beside calls of 1 s",
            options.waiting
        ),
        &["beside", "median ms", "at most ms"],
    );
    for (name, what, goal) in CALLS {
        let value = |kind: &str| first(&beside, &format!("{name}_{kind}_ms"));
        table.row([
            what.to_string(),
            figure(value("median"), 2),
            figure(value("most"), 2),
        ]);
        if let Some(goal) = goal {
            verdicts.push(goal.judge(&format!("longest wait beside {what}"), value("most")));
        }
    }
    Ok(Report {
        arms: vec![baton.found()],
        notes: vec![format!(
            "The server is another program. While the requests waited there were {} native \
             threads.",
            figure(first(&requests, "threads"), 0)
        )],
        tables: vec![table],
        charts: vec![chart(&beside)],
        verdicts,
        samples: json!({"requests": requests, "beside": beside}),
    })
}

fn chart(beside: &Figures) -> Chart {
    let series = [("median", "median"), ("at most", "most")];
    Chart::Bars(Bars {
        title: "Waiting processes beside calls of a second".to_string(),
        label: "how late they are, ms".to_string(),
        scale: Scale::Log,
        baseline: None,
        marks: Vec::new(),
        digits: 2,
        rows: CALLS
            .iter()
            .map(|(_, what, _)| (*what).to_string())
            .collect(),
        series: series
            .map(|(name, kind)| Series {
                name: name.to_string(),
                values: CALLS
                    .iter()
                    .map(|(call, ..)| first(beside, &format!("{call}_{kind}_ms")))
                    .collect(),
            })
            .into(),
    })
}

/// The running slow server. It ends when its standard input ends.
struct SlowServer {
    _program: Owned,
    port: String,
}

impl SlowServer {
    fn start(bench: &Bench, baton: &Interpreter) -> Result<Self> {
        let script = bench.script("slow_server", include_str!("../programs/slow_server.lua"))?;
        let mut command = baton.script(&script);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut program = Owned::spawn(&mut command)?;
        Ok(Self {
            port: program.read_port()?,
            _program: program,
        })
    }
}

fn ask(bench: &Bench, baton: &Interpreter, server: &SlowServer, requests: u32) -> Result<Figures> {
    let script = bench.script(
        "slow_requests",
        include_str!("../programs/slow_requests.lua"),
    )?;
    let mut command = baton.script(&script);
    command.arg(&server.port).arg(requests.to_string());
    Ok(figures(
        &child::run(&mut command, LIMIT)?
            .succeeded("the requests")?
            .output,
    ))
}

fn wait_beside(
    bench: &Bench,
    baton: &Interpreter,
    server: &SlowServer,
    waiting: u32,
) -> Result<Figures> {
    let script = bench.script(
        "waiting_beside",
        include_str!("../programs/waiting_beside.lua"),
    )?;
    let mut command = baton.script(&script);
    command.arg(&server.port).arg(waiting.to_string());
    Ok(figures(
        &child::run(&mut command, LIMIT)?
            .succeeded("the waiting processes")?
            .output,
    ))
}
