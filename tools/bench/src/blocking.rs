//! The experiment `blocking`: several blocking C calls at the same time, a ticking process beside
//! one, and clients on sockets beside one.

mod beside;
mod postgres;

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{ChildStderr, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use serde_json::json;

use crate::bench::{Bench, progress};
use crate::chart::{Bars, Chart, Mark, Scale, Series};
use crate::child::{self, Figures, Owned, figures, first};
use crate::command_line::BlockingOptions;
use crate::interpreters::Interpreter;
use crate::report::Report;
use crate::table::{Table, figure};
use crate::verdict::{Goal, Verdict};

const TOGETHER_GOAL: Goal = Goal::at_most(1.15, " s", 3);
/// The longest gap allowed between ticks: twice the ticker's period of 10 ms, plus a reserve. A
/// longer gap means that something stopped the ticker.
const GAP_GOAL: Goal = Goal::at_most(30.0, " ms", 2);
const LIMIT: Duration = Duration::from_secs(70);
const LIMIT_TO_END: Duration = Duration::from_secs(5);

/// The calls that several processes make together.
const KINDS: [&str; 2] = ["execute", "popen"];

/// The calls beside which the ticker runs.
const CASES: [(&str, &str); 5] = [
    ("alone", "nothing"),
    ("match", "a string.match that runs for seconds"),
    ("print", "a print into a full pipe"),
    ("fifo_read", "a read from a FIFO without data"),
    ("fifo_open", "an open of a FIFO that no other program opens"),
];

/// Runs the experiment.
pub(crate) fn run(bench: &Bench, options: &BlockingOptions) -> Result<Report> {
    if options.beside.is_some() {
        return beside::run(bench, options);
    }
    let baton = bench.paths.baton()?;
    let bar = progress(KINDS.len() + CASES.len());
    let (mut samples, mut verdicts) = (Vec::new(), Vec::new());
    let blocking = bench.script("blocking", include_str!("../programs/blocking.lua"))?;
    for kind in KINDS {
        bar.set_message(kind);
        let what = format!(
            "{} processes that each {kind} sleep 1, together",
            options.processes
        );
        match block_together(baton.script(&blocking), kind, options.processes) {
            Ok(seconds) => {
                verdicts.push(TOGETHER_GOAL.judge(&what, Some(seconds)));
                samples.push(
                    json!({"case": kind, "processes": options.processes, "seconds": seconds}),
                );
            }
            Err(error) => verdicts.push(Verdict::unmet(&what, format!("{error:#}"))),
        }
        bar.inc(1);
    }
    let ticking = bench.script("ticking", include_str!("../programs/ticking.lua"))?;
    let mut table = Table::new(
        "a process that ticks every 10 ms",
        &[
            "beside",
            "longest gap ms",
            "ticks",
            "seconds",
            "ended by itself",
        ],
    );
    let mut gaps = Vec::new();
    for (case, beside) in CASES {
        bar.set_message(beside);
        let what = format!("longest gap beside {beside}");
        match tick_beside(&baton, &ticking, (case, options.seconds), bench.directory()) {
            Ok((found, ended)) => {
                table.row(row(beside, &found, ended));
                verdicts.push(GAP_GOAL.judge(&what, first(&found, "gap_ms")));
                gaps.push((beside.to_string(), first(&found, "gap_ms")));
                samples.push(json!({"case": case, "figures": found, "ended_by_itself": ended}));
            }
            Err(error) => verdicts.push(Verdict::unmet(&what, format!("{error:#}"))),
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(Report {
        arms: vec![baton.found()],
        tables: vec![table],
        charts: vec![chart(gaps)],
        verdicts,
        samples: samples.into(),
        ..Report::default()
    })
}

fn chart(gaps: Vec<(String, Option<f64>)>) -> Chart {
    let (rows, values) = gaps.into_iter().unzip();
    Chart::Bars(Bars {
        title: "A ticking process beside one that blocks".to_string(),
        label: "longest gap between ticks, ms".to_string(),
        scale: Scale::Linear,
        baseline: None,
        marks: vec![
            Mark {
                name: "period".to_string(),
                at: 10.0,
            },
            Mark {
                name: "goal".to_string(),
                at: GAP_GOAL.limit(),
            },
        ],
        digits: 2,
        rows,
        series: vec![Series {
            name: "baton".to_string(),
            values,
        }],
    })
}

fn row(beside: &str, found: &Figures, ended: bool) -> [String; 5] {
    [
        beside.to_string(),
        figure(first(found, "gap_ms"), 2),
        figure(first(found, "ticks"), 0),
        figure(first(found, "seconds"), 2),
        if ended { "yes" } else { "no" }.to_string(),
    ]
}

/// Makes `processes` processes block for one second each. Returns the seconds until all have ended.
fn block_together(mut command: Command, kind: &str, processes: u32) -> Result<f64> {
    let run = child::run(command.arg(kind).arg(processes.to_string()), LIMIT)?.succeeded(kind)?;
    first(&figures(&run.output), "seconds")
        .with_context(|| format!("it printed no time:\n{}", run.output))
}

/// Runs the ticker beside one call. Nobody reads standard output, which is a pipe, until the ticker
/// has reported on standard error. The second value tells whether the program then ended while a
/// call was still blocked.
fn tick_beside(
    baton: &Interpreter,
    script: &Path,
    (case, seconds): (&str, f64),
    directory: &Path,
) -> Result<(Figures, bool)> {
    let fifo = directory.join(format!("silent-{case}"));
    mkfifo(&fifo, Mode::S_IRUSR | Mode::S_IWUSR).context("cannot make a named pipe")?;
    let _other_end = match case {
        "fifo_read" => Some(OpenOptions::new().read(true).write(true).open(&fifo)?),
        _ => None,
    };
    let mut command = baton.script(script);
    command
        .arg(case)
        .arg(&fifo)
        .arg(seconds.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = Owned::spawn(&mut command)?;
    let errors = child
        .inner
        .stderr
        .take()
        .context("the child has no standard error")?;
    let report = report_until_done(errors)?;
    let output = child::drain(child.inner.stdout.take());
    let ended = child.wait_at_most(LIMIT_TO_END)?.is_some();
    child::collect(output)?;
    Ok((figures(&report), ended))
}

/// Reads until a line `done`. If the output ends without one, or takes too long, the error quotes
/// it.
fn report_until_done(errors: ChildStderr) -> Result<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut text = String::new();
        for line in BufReader::new(errors).lines().map_while(Result::ok) {
            if line == "done" {
                // If the receiver has given up, nobody needs the report.
                let _ = sender.send(Ok(text));
                return;
            }
            text.push_str(&line);
            text.push('\n');
        }
        let _ = sender.send(Err(anyhow!("the ticker ended without its report:\n{text}")));
    });
    receiver
        .recv_timeout(LIMIT)
        .map_err(|_| anyhow!("the ticker did not report within {LIMIT:?}"))?
}
