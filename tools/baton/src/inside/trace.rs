//! `baton trace`.

use super::started::{Start, Target};
use super::{print, print_json, progress};
use baton_observe::protocol::Bytes;
use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::fmt::{self, Display, Formatter};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::time::Duration;

#[derive(Args)]
pub(super) struct TraceOptions {
    /// The process id of a running program; or a script to start, with its arguments
    #[arg(value_name = "PID or SCRIPT", required = true, trailing_var_arg = true)]
    target: Vec<OsString>,
    /// For how many seconds; a script that ends earlier ends the trace
    #[arg(short, long, value_name = "SECONDS", default_value_t = 5.0)]
    duration: f64,
    /// Writes what the program has kept of its last seconds, by its parameter flight
    #[arg(long, conflicts_with = "duration")]
    flight: bool,
    /// The file, for <https://ui.perfetto.dev>
    #[arg(short, long, value_name = "FILE", default_value = "trace.pftrace")]
    output: PathBuf,
    /// Writes the numbers of the trace as JSON
    #[arg(long)]
    json: bool,
}

/// The numbers of a trace, as the program sends them.
#[derive(Deserialize, Serialize)]
struct Summary {
    events: u64,
    lost: u64,
    seconds: f64,
    idle: f64,
    processes: u64,
    runs: u64,
    calls: u64,
    latest: f64,
    busiest: Vec<Busy>,
}

#[derive(Deserialize, Serialize)]
struct Busy {
    process: String,
    seconds: f64,
    runs: u64,
}

pub(super) fn run(options: &TraceOptions) -> Result<(), String> {
    let failed =
        |error: std::io::Error| format!("cannot write {}: {error}", options.output.display());
    if !(0.01..=3600.0).contains(&options.duration) {
        return Err(format!(
            "from 0.01 to 3600 seconds expected, got {}",
            options.duration
        ));
    }
    let mut target = Target::of(&options.target, Start::default())?;
    let mut connection = target.attach_in_time(false)?;
    let mut file = BufWriter::new(File::create(&options.output).map_err(failed)?);
    let mut summary = None;
    let mut write_part = |part: Value| {
        if let Some(last) = part.get("summary") {
            summary = Some(last.clone());
            return Ok(());
        }
        let trace = part.get("trace").cloned().unwrap_or_default();
        let Bytes(bytes) =
            serde_json::from_value(trace).map_err(|error| format!("a wrong answer: {error}"))?;
        file.write_all(&bytes).map_err(failed)
    };
    let seconds = (!options.flight).then_some(options.duration);
    let with = json!({ "seconds": seconds });
    let ask = || connection.ask("trace", with, &mut write_part);
    let asked = match seconds {
        Some(seconds) => progress::during("tracing", Duration::from_secs_f64(seconds), ask),
        None => ask(),
    };
    let ended = target.finish();
    file.flush().map_err(failed)?;
    // A program that ends has sent all, and does not answer any more.
    let summary = match summary {
        Some(summary) => summary,
        None => asked?,
    };
    let summary: Summary =
        serde_json::from_value(summary).map_err(|error| format!("a wrong answer: {error}"))?;
    match options.json {
        true => print_json(
            "baton.trace",
            &json!({ "file": options.output, "summary": summary }),
        )?,
        false => print(&format!("{}: {summary}", options.output.display()))?,
    }
    ended
}

impl Display for Summary {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} events in {:.3} s", self.events, self.seconds)?;
        match self.lost {
            0 => writeln!(f, ", none lost")?,
            lost => writeln!(
                f,
                ", and {lost} lost: the program was faster than its reader"
            )?,
        }
        writeln!(
            f,
            "{} processes ran {} times; idle {:.1} %; {} calls beside others; latest deadline \
             {:.3} ms late",
            self.processes,
            self.runs,
            self.share(self.idle),
            self.calls,
            self.latest * 1e3
        )?;
        for busy in &self.busiest {
            let share = self.share(busy.seconds);
            writeln!(
                f,
                "{:>10.6} s {share:>5.1} % {:>9} runs  {}",
                busy.seconds, busy.runs, busy.process
            )?;
        }
        Ok(())
    }
}

impl Summary {
    /// In percent.
    fn share(&self, seconds: f64) -> f64 {
        match self.seconds > 0.0 {
            true => 100.0 * seconds / self.seconds,
            false => 0.0,
        }
    }
}
