//! How late an urgent process wakes that sleeps one millisecond at a time.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use serde_json::json;

use crate::bench::{Bench, Report, progress};
use crate::child::{self, figures};
use crate::command_line::LatencyOptions;
use crate::stats;
use crate::table::{Table, figure};
use crate::verdict::Verdict;

const P50_GOAL_MS: f64 = 0.3;
const P99_GOAL_MS: f64 = 1.5;

/// What runs beside the urgent process; the goals are for those with an endless loop and a blocking call.
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

/// The latenesses of one variant, in milliseconds, and how many blocking calls ended meanwhile.
struct Samples {
    beside: String,
    judged: bool,
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
    let limit = Duration::from_secs_f64(options.seconds * 2.0 + 30.0);
    let bar = progress(VARIANTS.len());
    let mut samples = Vec::new();
    for variant in VARIANTS {
        let beside = if variant.is_empty() {
            "nothing".to_string()
        } else {
            variant.join(" + ")
        };
        bar.set_message(beside.clone());
        let mut command = baton.script(&script);
        command
            .arg(options.seconds.to_string())
            .arg(&fifo)
            .args(variant);
        let run =
            child::run(&mut command, limit)?.succeeded(&format!("latency beside {beside}"))?;
        let mut found = figures(&run.output);
        let late = found.remove("late_us").context("the ticker never ticked")?;
        samples.push(Samples {
            beside,
            judged: variant.len() > 1,
            late: late
                .into_iter()
                .map(|microseconds| microseconds / 1e3)
                .collect(),
            calls: found
                .get("calls")
                .and_then(|calls| calls.first().copied())
                .unwrap_or(0.0),
        });
        bar.inc(1);
    }
    bar.finish_and_clear();
    print_table(&samples);
    let of_one = |of_one: &Samples| json!({"beside": of_one.beside, "calls": of_one.calls, "late_ms": of_one.late});
    Ok(Report {
        samples: samples.iter().map(of_one).collect(),
        verdicts: samples
            .iter()
            .filter(|of_one| of_one.judged)
            .flat_map(verdicts)
            .collect(),
    })
}

fn print_table(samples: &[Samples]) {
    println!("lateness in ms of a priority-60 process that sleeps 1 ms at a time");
    let mut table = Table::new(&[
        "beside", "wakes", "calls", "p50", "p90", "p99", "p99.9", "max",
    ]);
    for of_one in samples {
        let mut row = vec![
            of_one.beside.clone(),
            of_one.late.len().to_string(),
            of_one.calls.to_string(),
        ];
        row.extend(
            [50.0, 90.0, 99.0, 99.9, 100.0]
                .map(|percent| figure(stats::percentile(&of_one.late, percent), 3, "")),
        );
        table.row(row);
    }
    print!("{table}");
}

fn verdicts(of_one: &Samples) -> [Verdict; 3] {
    let goal = |percent: f64, limit| {
        let what = format!("beside {}: p{percent}", of_one.beside);
        Verdict::at_most(
            &what,
            stats::percentile(&of_one.late, percent),
            limit,
            3,
            " ms",
        )
    };
    let called = format!("beside {}: the blocking call was repeated", of_one.beside);
    [
        goal(50.0, P50_GOAL_MS),
        goal(99.0, P99_GOAL_MS),
        Verdict::holds(&called, of_one.calls > 1.0),
    ]
}

/// Writes a byte into a named pipe every 10 ms until it is dropped. It also holds the reading end, so that
/// opening never blocks on either side.
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
            // It has nothing to report: the readers notice if bytes are missing.
            let _ = thread.join();
        }
    }
}
