//! The experiment `blocking`: several blocking C calls at the same time, a ticking process beside
//! one, and clients on sockets beside one.

mod beside;
mod callbacks;
mod postgres;

use std::fs::OpenOptions;
use std::process::{ChildStderr, Command, Stdio};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::bench::{Bench, in_turn};
use crate::chart::{Bars, Chart};
use crate::child::{self, Figures, Owned, figures, first};
use crate::command_line::{Beside, BlockingOptions};
use crate::report::Report;
use crate::table::{Table, figure};
use crate::verdict::Goal;

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
    match options.beside {
        Some(Beside::Sockets) => return beside::run(bench, options),
        Some(Beside::Callbacks) => return callbacks::run(bench, options),
        None => {}
    }
    let baton = bench.paths.baton()?;
    let blocking = bench.script("blocking", include_str!("../programs/blocking.lua"))?;
    let processes = options.processes;
    let together =
        |kind: &&str| format!("{processes} processes that each {kind} sleep 1, together");
    let (times, failed) = in_turn(KINDS.into(), together, |kind| {
        let mut command = baton.script(&blocking);
        command.arg(*kind).arg(processes.to_string());
        child::measure(&mut command, LIMIT, kind, "seconds")
    });
    let ticking = bench.script("ticking", include_str!("../programs/ticking.lua"))?;
    let beside = |(_, what): &(&str, &str)| format!("longest gap beside {what}");
    let (gaps, failed_beside) = in_turn(CASES.into(), beside, |(case, _)| {
        tick_beside(bench, baton.script(&ticking), (case, options.seconds))
    });
    let of_times = times
        .iter()
        .map(|(kind, found)| TOGETHER_GOAL.judge(&together(kind), first(found, "seconds")));
    let of_gaps = gaps
        .iter()
        .map(|(case, (found, _))| GAP_GOAL.judge(&beside(case), first(found, "gap_ms")));
    let mut samples: Vec<Value> = times
        .iter()
        .map(|(kind, found)| json!({"case": kind, "processes": processes, "figures": found}))
        .collect();
    samples.extend(gaps.iter().map(|((case, _), (found, ended))| {
        json!({"case": case, "figures": found, "ended_by_itself": ended})
    }));
    Ok(Report {
        arms: vec![baton.found()],
        tables: vec![table(&gaps)],
        charts: vec![chart(&gaps)],
        verdicts: of_times
            .chain(of_gaps)
            .chain(failed)
            .chain(failed_beside)
            .collect(),
        samples: samples.into(),
        ..Report::default()
    })
}

/// A call, the ticker's figures beside it, and whether the program then ended by itself.
type Gap = ((&'static str, &'static str), (Figures, bool));

fn table(gaps: &[Gap]) -> Table {
    let header = [
        "beside",
        "longest gap ms",
        "ticks",
        "seconds",
        "ended by itself",
    ];
    let mut table = Table::new("a process that ticks every 10 ms", header);
    for ((_, beside), (found, ended)) in gaps {
        let shown = |name, digits| figure(first(found, name), digits);
        let ended = if *ended { "yes" } else { "no" }.to_string();
        table.named(
            beside,
            [
                shown("gap_ms", 2),
                shown("ticks", 0),
                shown("seconds", 2),
                ended,
            ],
        );
    }
    table
}

fn chart(gaps: &[Gap]) -> Chart {
    let title = "A ticking process beside one that blocks";
    Bars::new(title, "longest gap between ticks, ms")
        .mark("period", 10.0)
        .mark("goal", GAP_GOAL.limit())
        .digits(2)
        .rows(gaps.iter().map(|((_, beside), _)| beside))
        .series(
            "baton",
            gaps.iter().map(|(_, (found, _))| first(found, "gap_ms")),
        )
        .into()
}

/// Runs the ticker beside one call. Nobody reads standard output, which is a pipe, until the ticker
/// has reported on standard error. The second value tells whether the program then ended while a
/// call was still blocked.
fn tick_beside(
    bench: &Bench,
    mut command: Command,
    (case, seconds): (&str, f64),
) -> Result<(Figures, bool)> {
    let fifo = bench.named_pipe(&format!("silent-{case}"))?;
    let _other_end = match case {
        "fifo_read" => Some(OpenOptions::new().read(true).write(true).open(&fifo)?),
        _ => None,
    };
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
    let (lines, end) = (child::lines(errors), Instant::now() + LIMIT);
    let mut text = String::new();
    loop {
        match lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok(line) if line == "done" => return Ok(text),
            Ok(line) => text = text + &line + "\n",
            Err(RecvTimeoutError::Timeout) => bail!("the ticker did not report within {LIMIT:?}"),
            Err(_) => bail!("the ticker ended without its report:\n{text}"),
        }
    }
}
