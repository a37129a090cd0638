//! A build whose cost is measured.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

use indicatif::ProgressBar;

use super::sources::Sources;
use crate::cargo::cargo;
use crate::deb::output;

/// The seconds that a build took.
#[derive(Clone, Copy)]
pub(super) struct Used {
    /// Processor time, of all threads.
    pub(super) cpu: f64,
    pub(super) elapsed: f64,
}

/// What a program costs.
pub(super) struct Cost {
    pub(super) name: String,
    pub(super) crates: usize,
    pub(super) downloaded: u64,
    pub(super) used: Used,
    /// The size of the program without symbols, in bytes.
    pub(super) stripped: u64,
}

/// Builds a program from nothing, without the network.
pub(super) fn build(sources: &Sources, progress: &ProgressBar) -> Result<Used, String> {
    let target = target(sources);
    super::empty(&target)?;
    let mut build = cargo(&["build", "--release", "--locked", "--offline"]);
    build
        .current_dir(&sources.directory)
        .env("CARGO_TARGET_DIR", &target)
        .env_remove("CARGO_BUILD_BUILD_DIR")
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    progress.reset();
    progress.set_length(sources.crates.len() as u64);
    let before = processor_time()?;
    let began = Instant::now();
    let mut child = build
        .spawn()
        .map_err(|why| format!("cannot start cargo: {why}"))?;
    let mut said = String::new();
    let stderr = child.stderr.take().into_iter();
    for line in stderr.flat_map(|stderr| BufReader::new(stderr).lines().map_while(Result::ok)) {
        if line.trim_start().starts_with("Compiling ") {
            progress.inc(1);
        }
        said += &format!("{line}\n");
    }
    let status = child
        .wait()
        .map_err(|why| format!("cannot wait for cargo: {why}"))?;
    let used = Used {
        cpu: processor_time()? - before,
        elapsed: began.elapsed().as_secs_f64(),
    };
    match status.success() {
        true => Ok(used),
        false => Err(format!("{} was not built: {status}\n{said}", sources.name)),
    }
}

/// The processor time of this program's children that have ended, and of theirs, in seconds.
fn processor_time() -> Result<f64, String> {
    let stat = fs::read_to_string("/proc/self/stat")
        .map_err(|why| format!("cannot read /proc/self/stat: {why}"))?;
    time_of_children(&stat).ok_or_else(|| format!("/proc/self/stat has other fields: {stat}"))
}

/// The fields `cutime` and `cstime`, which count in hundredths of a second.
fn time_of_children(stat: &str) -> Option<f64> {
    // The program's name may have blanks. The fields after it begin with the third one.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut times = fields.split_whitespace().skip(16 - 3).take(2);
    let mut next = || times.next()?.parse::<f64>().ok();
    Some((next()? + next()?) / 100.0)
}

/// The cost of a program that took these times, of which the least counts: others can only make a
/// build slower.
pub(super) fn cost(sources: Sources, times: &[Used]) -> Result<Cost, String> {
    let least = |of: fn(&Used) -> f64| times.iter().map(of).fold(f64::INFINITY, f64::min);
    let program = target(&sources).join("release").join(sources.program);
    let stripped = program.with_extension("stripped");
    let mut strip = Command::new("strip");
    output(strip.arg("-o").arg(&stripped).arg(&program))?;
    let file = fs::metadata(&stripped)
        .map_err(|why| format!("cannot read {}: {why}", stripped.display()))?;
    Ok(Cost {
        name: sources.name,
        crates: sources.crates.len(),
        downloaded: sources.downloaded,
        used: Used {
            cpu: least(|used| used.cpu),
            elapsed: least(|used| used.elapsed),
        },
        stripped: file.len(),
    })
}

fn target(sources: &Sources) -> PathBuf {
    sources.directory.join("target")
}

#[cfg(test)]
mod checks {
    use super::*;

    #[test]
    fn the_time_of_children_is_read_after_a_name_with_blanks() {
        let stat = "7 (a b) c) S 1 7 7 0 -1 4194560 100 200 0 0 11 12 1300 50 20 0 1 0 99";
        assert_eq!(time_of_children(stat), Some(13.5));
        assert_eq!(time_of_children("7 (a) S 1"), None);
    }
}
