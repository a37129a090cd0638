//! The experiment `latency`: how late an urgent process wakes that sleeps one millisecond at a
//! time.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::json;

use crate::bench::{Bench, in_turn};
use crate::calls::DIRECTORY;
use crate::chart::{Chart, Heat, Scale};
use crate::child::{self, Figures, first};
use crate::command_line::LatencyOptions;
use crate::report::Report;
use crate::stats;
use crate::table::{Table, figure};
use crate::verdict::{Goal, Verdict};

/// The largest lateness allowed: the median, and the 99th percentile.
type Goals = [Goal; 2];

const GOALS: Goals = [Goal::at_most(0.3, " ms", 3), Goal::at_most(1.5, " ms", 3)];

/// The programs that run beside the urgent process. The goals apply to the variants with an endless
/// loop and with a blocking call.
const VARIANTS: [&[&str]; 8] = [
    &[],
    &["loop"],
    &["execute"],
    &["popen"],
    &["fifo"],
    &["loop", "execute"],
    &["loop", "popen"],
    &["loop", "fifo"],
];

/// The variant in which the urgent process always becomes due in the middle of a call.
const SURPRISE: &str = "a surprise call";

/// The lateness of each sleep of one variant, in milliseconds, and the number of blocking calls
/// that ended.
struct Samples {
    beside: String,
    goals: Option<Goals>,
    late: Vec<f64>,
    calls: f64,
}

/// Runs the experiment.
pub(crate) fn run(bench: &Bench, options: &LatencyOptions) -> Result<Report> {
    let baton = bench.paths.baton()?;
    let script = bench.script("latency", include_str!("../programs/latency.lua"))?;
    let fifo = bench.named_pipe("bytes")?;
    let _writer = write_bytes(&fifo)?;
    let of_variant = |variant: &&[&str]| {
        let mut command = baton.script(&script);
        command
            .arg(options.seconds.to_string())
            .arg(&fifo)
            .args(*variant);
        let beside = if variant.is_empty() {
            "nothing".to_string()
        } else {
            variant.join(" + ")
        };
        (beside, command, (variant.len() > 1).then_some(GOALS))
    };
    let mut runs: Vec<_> = VARIANTS.iter().map(of_variant).collect();
    let surprise = bench.script("surprise", include_str!("../programs/surprise.lua"))?;
    let mut command = baton.script(&surprise);
    command.arg(options.seconds.to_string()).arg(DIRECTORY);
    runs.push((SURPRISE.to_string(), command, None));

    let limit = Duration::from_secs_f64(options.seconds * 2.0 + 20.0);
    let (measured, failed) = in_turn(
        runs,
        |(beside, ..)| format!("lateness beside {beside}"),
        |(_, command, _)| child::measure(command, limit, "it", "late_us"),
    );
    let samples: Vec<Samples> = measured.into_iter().map(Samples::of).collect();
    let mut verdicts: Vec<Verdict> = samples.iter().flat_map(verdicts).collect();
    verdicts.extend(failed);
    let of_one = |samples: &Samples| {
        let (beside, calls) = (&samples.beside, &samples.calls);
        json!({"beside": beside, "calls": calls, "late_ms": samples.late})
    };
    Ok(Report {
        arms: vec![baton.found()],
        tables: vec![table(&samples)],
        charts: vec![chart(&samples)],
        samples: samples.iter().map(of_one).collect(),
        verdicts,
        ..Report::default()
    })
}

impl Samples {
    /// The figures that one run printed. Not every variant has a window.
    fn of(((beside, _, goals), found): ((String, Command, Option<Goals>), Figures)) -> Self {
        let in_ms = |name| {
            let values = found.get(name).into_iter().flatten();
            values.map(|microseconds| microseconds / 1e3)
        };
        Self {
            beside,
            goals: goals.or_else(|| in_ms("window_us").next().map(goals_within)),
            late: in_ms("late_us").collect(),
            calls: first(&found, "calls").unwrap_or(0.0),
        }
    }
}

/// The goals for an urgent process that becomes due during a call. `window` is the watchdog's
/// window in milliseconds.
fn goals_within(window: f64) -> Goals {
    [0.3, 1.0].map(|more| Goal::at_most(window + more, " ms", 3))
}

const PERCENTILES: [(&str, f64); 5] = [
    ("p50", 50.0),
    ("p90", 90.0),
    ("p99", 99.0),
    ("p99.9", 99.9),
    ("max", 100.0),
];

fn table(samples: &[Samples]) -> Table {
    let caption =
        "lateness in ms of a priority-60 process that sleeps 1 ms at a time, or into a call";
    let names = PERCENTILES.map(|(name, _)| name);
    let header = ["beside", "wakes", "calls"].into_iter().chain(names);
    let mut table = Table::new(caption, header);
    for Samples {
        beside,
        late,
        calls,
        ..
    } in samples
    {
        let percentiles =
            PERCENTILES.map(|(_, percent)| figure(stats::percentile(late, percent), 3));
        let counts = [late.len().to_string(), calls.to_string()];
        table.named(beside, counts.into_iter().chain(percentiles));
    }
    table
}

fn chart(samples: &[Samples]) -> Chart {
    let cells = |of_one: &Samples| {
        PERCENTILES
            .map(|(_, percent)| stats::percentile(&of_one.late, percent))
            .to_vec()
    };
    Chart::Heat(Heat {
        title: "How late an urgent process wakes".to_string(),
        label: "ms, dark is late".to_string(),
        scale: Scale::Log,
        digits: 3,
        columns_label: "percentile of the wakes".to_string(),
        columns: PERCENTILES.map(|(name, _)| name.to_string()).to_vec(),
        rows: samples.iter().map(|of_one| of_one.beside.clone()).collect(),
        cells: samples.iter().map(cells).collect(),
    })
}

fn verdicts(of_one: &Samples) -> Vec<Verdict> {
    let Samples {
        beside,
        late,
        calls,
        ..
    } = of_one;
    let Some([p50, p99]) = of_one.goals else {
        return Vec::new();
    };
    vec![
        p50.judge(
            &format!("beside {beside}: p50"),
            stats::percentile(late, 50.0),
        ),
        p99.judge(
            &format!("beside {beside}: p99"),
            stats::percentile(late, 99.0),
        ),
        Verdict::holds(
            &format!("beside {beside}: the blocking call was repeated"),
            *calls > 1.0,
        ),
    ]
}

/// Starts a thread that writes a byte into a named pipe every 10 ms, until the returned value is
/// dropped. The thread also holds the reading end, so that opening never blocks on either side.
fn write_bytes(fifo: &Path) -> Result<Sender<()>> {
    let mut pipe = OpenOptions::new()
        .read(true)
        .write(true)
        .open(fifo)
        .context("cannot open the named pipe")?;
    let (stop, stopped) = mpsc::channel();
    thread::spawn(move || {
        while stopped.recv_timeout(Duration::from_millis(10)) == Err(RecvTimeoutError::Timeout) {
            if pipe.write_all(b".").is_err() {
                return;
            }
        }
    });
    Ok(stop)
}
