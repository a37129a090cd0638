//! The experiment `slow`: a thousand HTTP requests of LuaSocket to a slow server at once, and the
//! lateness of waiting processes beside C calls of one second.

use std::process::Stdio;
use std::time::Duration;

use anyhow::Result;
use serde_json::json;

use crate::bench::{Bench, progress};
use crate::chart::Bars;
use crate::child::{self, Owned, first};
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
    let server = SlowServer::start(bench, &baton)?;
    let measure = |name, source, number: u32, needed| {
        let mut command = baton.script(&bench.script(name, source)?);
        command.arg(&server.port).arg(number.to_string());
        child::measure(&mut command, LIMIT, name, needed)
    };
    let bar = progress(2);
    bar.set_message("requests to a slow server");
    let source = include_str!("../programs/slow_requests.lua");
    let requests = measure("slow_requests", source, options.requests, "seconds")?;
    bar.inc(1);
    bar.set_message("waiting processes beside long calls");
    let source = include_str!("../programs/waiting_beside.lua");
    let beside = measure("waiting_beside", source, options.waiting, "command_most_ms")?;
    bar.finish_and_clear();
    let what = format!(
        "{} requests of LuaSocket to a server that takes 1 s for each",
        options.requests
    );
    let mut verdicts = vec![
        REQUESTS_GOAL.judge(&what, first(&requests, "seconds")),
        Goal::at_most(0.0, "", 0).judge("requests that failed", first(&requests, "failed")),
    ];
    let late = |call, kind| first(&beside, &format!("{call}_{kind}_ms"));
    let caption = format!(
        "how late {} waiting processes are, beside calls of 1 s",
        options.waiting
    );
    let mut table = Table::new(caption, ["beside", "median ms", "at most ms"]);
    for (call, what, goal) in CALLS {
        table.named(
            what,
            ["median", "most"].map(|kind| figure(late(call, kind), 2)),
        );
        if let Some(goal) = goal {
            verdicts.push(goal.judge(&format!("longest wait beside {what}"), late(call, "most")));
        }
    }
    let title = "Waiting processes beside calls of a second";
    let chart = Bars::new(title, "how late they are, ms")
        .log()
        .digits(2)
        .rows(CALLS.map(|(_, what, _)| what))
        .series("median", CALLS.map(|(call, ..)| late(call, "median")))
        .series("at most", CALLS.map(|(call, ..)| late(call, "most")));
    Ok(Report {
        arms: vec![baton.found()],
        notes: vec![format!(
            "The server is another program. While the requests waited there were {} native \
             threads.",
            figure(first(&requests, "threads"), 0)
        )],
        tables: vec![table],
        charts: vec![chart.into()],
        verdicts,
        samples: json!({"requests": requests, "beside": beside}),
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
