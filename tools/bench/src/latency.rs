//! The experiment `latency`: how late an urgent process wakes that sleeps one millisecond at a
//! time.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use serde_json::json;

use crate::bench::{Bench, progress};
use crate::calls::DIRECTORY;
use crate::chart::{Chart, Heat, Scale};
use crate::child::{self, figures, first};
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
    let fifo = bench.directory().join("bytes");
    mkfifo(&fifo, Mode::S_IRUSR | Mode::S_IWUSR).context("cannot make a named pipe")?;
    let _writer = ByteWriter::start(&fifo)?;
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

    let bar = progress(runs.len());
    let (mut samples, mut failed) = (Vec::new(), Vec::new());
    for (beside, mut command, goals) in runs {
        bar.set_message(beside.clone());
        match measure(&mut command, options.seconds) {
            Ok(measured) => samples.push(Samples {
                goals: goals.or_else(|| measured.window.map(goals_within)),
                late: measured.late,
                calls: measured.calls,
                beside,
            }),
            Err(error) => failed.push(Verdict::unmet(
                &format!("lateness beside {beside}"),
                format!("{error:#}"),
            )),
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
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

/// The goals for an urgent process that becomes due during a call. `window` is the watchdog's
/// window in milliseconds.
fn goals_within(window: f64) -> Goals {
    [0.3, 1.0].map(|more| Goal::at_most(window + more, " ms", 3))
}

/// The figures that one run printed: lateness and window in milliseconds, and the number of
/// blocking calls that ended. Not every variant has a window.
struct Measured {
    late: Vec<f64>,
    calls: f64,
    window: Option<f64>,
}

fn measure(command: &mut Command, seconds: f64) -> Result<Measured> {
    let limit = Duration::from_secs_f64(seconds * 2.0 + 20.0);
    let run = child::run(command, limit)?.succeeded("it")?;
    let mut found = figures(&run.output);
    let late = found
        .remove("late_us")
        .context("the urgent process never woke")?;
    Ok(Measured {
        late: late
            .into_iter()
            .map(|microseconds| microseconds / 1e3)
            .collect(),
        calls: first(&found, "calls").unwrap_or(0.0),
        window: first(&found, "window_us").map(|microseconds| microseconds / 1e3),
    })
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
    let mut header = vec!["beside", "wakes", "calls"];
    header.extend(PERCENTILES.map(|(name, _)| name));
    let mut table = Table::new(caption, &header);
    for of_one in samples {
        let mut row = vec![
            of_one.beside.clone(),
            of_one.late.len().to_string(),
            of_one.calls.to_string(),
        ];
        row.extend(
            PERCENTILES.map(|(_, percent)| figure(stats::percentile(&of_one.late, percent), 3)),
        );
        table.row(row);
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

/// A thread that writes a byte into a named pipe every 10 ms, until this value is dropped. It also
/// holds the reading end, so that opening never blocks on either side.
struct ByteWriter {
    stop: Option<mpsc::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl ByteWriter {
    fn start(fifo: &Path) -> Result<Self> {
        let mut pipe = OpenOptions::new()
            .read(true)
            .write(true)
            .open(fifo)
            .context("cannot open the named pipe")?;
        let (stop, stopped) = mpsc::channel();
        let thread = thread::spawn(move || {
            while stopped.recv_timeout(Duration::from_millis(10)) == Err(RecvTimeoutError::Timeout)
            {
                if pipe.write_all(b".").is_err() {
                    return;
                }
            }
        });
        Ok(Self {
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for ByteWriter {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // The thread has no result. The readers notice if bytes are missing.
            let _ = thread.join();
        }
    }
}
