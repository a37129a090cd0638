//! `baton profile`.

use super::started::Target;
use super::{print, print_json};
use baton_formats::profile::{Format, Frame, Labels, Measure, Profile};
use baton_observe::report::{self, Kind};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Deserialize;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

/// How many functions the table on the terminal has.
const MOST_FUNCTIONS: usize = 20;

/// The mean distance of two samples of allocations, in bytes.
const ALLOCATION_PERIOD: u64 = 512 << 10;

#[derive(Args)]
pub(super) struct ProfileOptions {
    /// The process id of a running program; or a script to start, with its arguments
    #[arg(
        value_name = "PID or SCRIPT",
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    target: Vec<OsString>,
    /// Samples processor time (the default)
    #[arg(long, group = "what")]
    cpu: bool,
    /// Samples the time of all processes, running or not
    #[arg(long, group = "what")]
    wall: bool,
    /// Samples the time of processes that wait, by what they wait for and who holds that
    #[arg(long, group = "what")]
    waits: bool,
    /// Samples what Lua allocates, in bytes: about one sample in 512 KiB
    #[arg(long, group = "what", conflicts_with = "rate")]
    alloc: bool,
    /// For how many seconds; a script that ends earlier ends the profile
    #[arg(short, long, value_name = "SECONDS", default_value_t = 10.0)]
    duration: f64,
    /// Samples for each second, from 1 to 1000
    #[arg(short, long, value_name = "HERTZ", default_value_t = 99)]
    rate: u32,
    /// Writes the profile to a file: .svg is a flame graph, .pb.gz is for pprof, .json for
    /// speedscope, .folded has a line for each stack
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Writes the table of functions as JSON
    #[arg(long)]
    json: bool,
}

impl ProfileOptions {
    fn measure(&self) -> Measure {
        match (self.wall, self.waits, self.alloc) {
            (true, _, _) => Measure::WallTime,
            (_, true, _) => Measure::Waits,
            (_, _, true) => Measure::Allocation,
            _ => Measure::CpuTime,
        }
    }
}

/// A sample, as the program sends it.
#[derive(Deserialize)]
struct Sample {
    id: u64,
    process: String,
    frames: Vec<report::Frame>,
    #[serde(default)]
    object: String,
    #[serde(default)]
    holder: String,
    value: u64,
    count: u64,
}

pub(super) fn run(options: &ProfileOptions) -> Result<(), String> {
    let file = match &options.output {
        Some(path) => Some((
            Format::of_path(path).map_err(|error| error.to_string())?,
            path,
        )),
        None => None,
    };
    let mut target = Target::reach(&options.target)?;
    let measure = options.measure();
    let mut profile = Profile::new(measure, &target.name);
    profile.started = Some(SystemTime::now());
    profile.period = match measure {
        Measure::Allocation => ALLOCATION_PERIOD,
        _ => 1_000_000_000 / u64::from(options.rate.max(1)),
    };
    let began = Instant::now();
    let mut add_part = |part: Value| {
        let samples: Vec<Sample> =
            serde_json::from_value(part).map_err(|error| format!("a wrong answer: {error}"))?;
        for sample in samples {
            add(&mut profile, sample);
        }
        Ok(())
    };
    let what = measure.key();
    let with = json!({ "what": what, "seconds": options.duration, "rate": options.rate });
    let asked = with_progress(options.duration, || {
        target.connection.ask("profile", with, &mut add_part)
    });
    profile.duration = began.elapsed();
    let ended = target.finish();
    if profile.count() == 0 {
        asked?;
    }
    if let Some((format, path)) = file {
        write(&profile, format, path)?;
    }
    let summary = profile.summary();
    match options.json {
        true => print_json(&summary)?,
        false => print(&summary.top(MOST_FUNCTIONS).to_string())?,
    }
    ended
}

fn add(profile: &mut Profile, sample: Sample) {
    let mut frames = sample.frames;
    // What has called the outermost function of the program is no part of it.
    let has_more = frames.len() > 1;
    if has_more
        && frames
            .last()
            .is_some_and(|outermost| outermost.kind == Kind::C && outermost.name.is_empty())
    {
        frames.pop();
    }
    let stack = profile.stack(frames.into_iter().map(frame));
    let labels = Labels::of_process(&sample.process, sample.id)
        .waiting_for(object(&sample.object), &sample.holder);
    profile.add(stack, sample.value, sample.count, labels);
}

/// The object in what a process waits for: "to send to the channel 'x'" is "the channel 'x' (to
/// send)".
fn object(wait: &str) -> String {
    const VERBS: [(&str, &str); 4] = [
        ("to receive from ", "to receive"),
        ("to send to ", "to send"),
        ("to read under ", "to read"),
        ("to write under ", "to write"),
    ];
    let found = VERBS.iter().find_map(|(beginning, verb)| {
        let object = wait.strip_prefix(beginning)?;
        Some(format!("{object} ({verb})"))
    });
    found.unwrap_or_else(|| wait.strip_prefix("for ").unwrap_or(wait).to_owned())
}

fn frame(frame: report::Frame) -> Frame {
    match frame.kind {
        Kind::C => Frame::c(&frame.name, ""),
        Kind::Main => Frame::lua("main chunk", &frame.source, frame.line),
        Kind::Guest => {
            Frame::lua(&frame.name, &frame.source, frame.line).beginning_at(frame.defined)
        }
    }
}

fn write(profile: &Profile, format: Format, path: &Path) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("cannot write {}: {error}", path.display());
    let mut file = BufWriter::new(File::create(path).map_err(failed)?);
    profile.write(format, &mut file).map_err(failed)?;
    file.flush().map_err(failed)
}

/// Shows on a terminal how much of the time has passed while `work` runs.
fn with_progress<R>(seconds: f64, work: impl FnOnce() -> R) -> R {
    const STEP: Duration = Duration::from_millis(100);
    let done = AtomicBool::new(false);
    let steps = (seconds / STEP.as_secs_f64()).ceil() as u64;
    let bar = ProgressBar::new(steps);
    if let Ok(style) = ProgressStyle::with_template("profiling {wide_bar} {eta} left") {
        bar.set_style(style);
    }
    thread::scope(|threads| {
        threads.spawn(|| {
            // Relaxed: only the end of a display.
            while !done.load(Ordering::Relaxed) {
                thread::sleep(STEP);
                bar.inc(1);
            }
            bar.finish_and_clear();
        });
        let result = work();
        // Relaxed: as above.
        done.store(true, Ordering::Relaxed);
        result
    })
}
