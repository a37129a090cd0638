//! `baton profile`.

use super::started::{Start, Target};
use super::{print, print_json, progress};
use baton_formats::profile::{Format, Measure};
use baton_lua::answers::profile;
use clap::Args;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How many functions the table on the terminal has.
const MOST_FUNCTIONS: usize = 20;

#[derive(Args)]
pub(super) struct ProfileOptions {
    /// The process id of a running program; or a script to start, with its arguments
    #[arg(value_name = "PID or SCRIPT", required = true, trailing_var_arg = true)]
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

pub(super) fn run(options: &ProfileOptions) -> Result<(), String> {
    let file = match &options.output {
        Some(path) => Some((
            Format::of_path(path).map_err(|error| error.to_string())?,
            path,
        )),
        None => None,
    };
    let mut target = Target::of(&options.target, Start::Waiting)?;
    let mut connection = target.attach_in_time(false)?;
    let measure = options.measure();
    let mut profile = profile::begin(measure, &target.name, options.rate);
    let began = Instant::now();
    let mut add_part = |part: Value| profile::add_part(&mut profile, part);
    let what = measure.key();
    let with = json!({ "what": what, "seconds": options.duration, "rate": options.rate });
    let time = Duration::try_from_secs_f64(options.duration).unwrap_or_default();
    let asked = progress::during("profiling", time, || {
        connection.ask("profile", with, &mut add_part)
    });
    profile.duration = began.elapsed();
    let ended = target.finish();
    if profile.count() == 0 {
        asked?;
    }
    if let Some((format, path)) = file {
        profile::write(&profile, format, path)?;
    }
    let summary = profile.summary();
    match options.json {
        true => print_json("baton.profile", &summary)?,
        false => print(&summary.top(MOST_FUNCTIONS).to_string())?,
    }
    ended
}
