//! A thousand HTTP requests of LuaSocket to a slow server at once, and how late parked processes are beside calls of C that last a second.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};
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
/// No more than the call itself, which takes a second, and what reporting it takes.
const SURPRISE_GOAL: Goal = Goal::at_most(1050.0, " ms", 1);
/// Nothing: what a busy machine makes anybody wait.
const LEARNED_GOAL: Goal = Goal::at_most(20.0, " ms", 1);

const LIMIT: Duration = Duration::from_secs(60);

/// What the parked processes wait beside: name, what it is, and what is asked of it.
const CALLS: [(&str, &str, Option<Goal>); 4] = [
    ("alone", "nothing", None),
    ("surprise", "a call that nobody could foresee", Some(SURPRISE_GOAL)),
    ("learned", "the same function, called again", Some(LEARNED_GOAL)),
    ("command", "os.execute", Some(LEARNED_GOAL)),
];

/// Runs the experiment.
pub(crate) fn run(bench: &Bench, options: &SlowOptions) -> Result<Report> {
    let baton = bench.paths.baton()?;
    let bar = progress(2);
    bar.set_message("requests to a slow server");
    let server = Server::start(bench, &baton)?;
    let requests = ask(bench, &baton, &server, options.requests)?;
    bar.inc(1);
    bar.set_message("parked processes beside long calls");
    let beside = wait_beside(bench, &baton, &server, options.parked)?;
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
        format!("how late {} parked processes are, beside calls of 1 s", options.parked),
        &["beside", "median ms", "at most ms"],
    );
    for (name, what, goal) in CALLS {
        let value = |kind: &str| first(&beside, &format!("{name}_{kind}_ms"));
        table.row([
            what.to_string(),
            figure(value("median"), 2, ""),
            figure(value("most"), 2, ""),
        ]);
        if let Some(goal) = goal {
            verdicts.push(goal.judge(&format!("longest wait beside {what}"), value("most")));
        }
    }
    Ok(Report {
        arms: vec![baton.found()],
        notes: vec![format!(
            "The server is another program. While the requests waited there were {} native threads.",
            figure(first(&requests, "threads"), 0, "")
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
        title: "Parked processes beside calls of a second".to_string(),
        label: "how late they are, ms".to_string(),
        scale: Scale::Log,
        baseline: None,
        marks: Vec::new(),
        digits: 2,
        rows: CALLS.iter().map(|(_, what, _)| (*what).to_string()).collect(),
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

/// The slow server. It ends with its standard input.
struct Server {
    _program: Owned,
    port: String,
}

impl Server {
    fn start(bench: &Bench, baton: &Interpreter) -> Result<Self> {
        let script = bench.script("slow_server", include_str!("../programs/slow_server.lua"))?;
        let mut command = baton.script(&script);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut program = Owned::spawn(&mut command)?;
        let output = program
            .inner
            .stdout
            .take()
            .context("the server has no standard output")?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        let Some(port) = line.strip_prefix("port ") else {
            bail!(
                "the server did not start, perhaps for want of LuaSocket (`cargo xtask test` installs it): it said {line:?}"
            );
        };
        Ok(Self {
            port: port.trim().to_string(),
            _program: program,
        })
    }
}

fn ask(bench: &Bench, baton: &Interpreter, server: &Server, requests: u32) -> Result<Figures> {
    let script = bench.script("slow_requests", include_str!("../programs/slow_requests.lua"))?;
    let mut command = baton.script(&script);
    command.arg(&server.port).arg(requests.to_string());
    Ok(figures(
        &child::run(&mut command, LIMIT)?.succeeded("the requests")?.output,
    ))
}

fn wait_beside(bench: &Bench, baton: &Interpreter, server: &Server, parked: u32) -> Result<Figures> {
    let script = bench.script("parked_beside", include_str!("../programs/parked_beside.lua"))?;
    let mut command = baton.script(&script);
    command.arg(&server.port).arg(parked.to_string());
    Ok(figures(
        &child::run(&mut command, LIMIT)?
            .succeeded("the parked processes")?
            .output,
    ))
}
