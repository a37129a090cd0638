//! `cargo xtask soak`: runs a load for a long time, and checks that it leaves nothing behind.

mod cluster;
mod seeded;

use std::path::PathBuf;
use std::process::Command;

use crate::Outcome;
use crate::cargo::{Steps, cargo};
use crate::workspace;

/// The loads that are Lua programs, with their paths under `tools/baton/tests/lua`.
const PROGRAMS: &[(&str, &str)] = &[("net", "sockets/soak.lua")];

/// A load that has its own driver, in Rust. So have those of `seeded::LOADS`.
const CLUSTER: &str = "cluster";

const DEFAULT_SECONDS: u32 = 600;

/// A limit of descriptors that is low enough for the load to reach it. The argument `few` tells the
/// load to expect that.
const FEW_DESCRIPTORS: u32 = 80;

/// The options on the command line.
#[derive(Debug, PartialEq, Eq)]
struct SoakOptions {
    program: &'static str,
    seconds: u32,
}

/// Builds the interpreter and runs the load, for half of the time normally and for the other half
/// with few descriptors. The load fails if it had too few of the events that it is there for. In
/// ten minutes it must have a thousand kills, and proportionally fewer in a shorter run.
pub(crate) fn run(arguments: &[String]) -> Outcome {
    if let Some((name, rest)) = arguments.split_first() {
        if name == CLUSTER {
            return cluster::run(rest);
        }
        if let Some(load) = seeded::LOADS.iter().find(|load| load.name == name) {
            return seeded::run(load, rest);
        }
    }
    let request = SoakOptions::parse(arguments)?;
    let mut steps = Steps::of("soak");
    let build = ["build", "--profile", workspace::DIST, "-p", "baton"];
    steps.run("build", &mut cargo(&build));
    let baton = workspace::published_program();
    let half = (request.seconds / 2).max(1).to_string();
    steps.run(
        "without a limit of descriptors",
        Command::new(&baton).arg(request.path()).arg(&half),
    );
    let limited = format!("ulimit -n {FEW_DESCRIPTORS}; exec \"$0\" \"$@\"");
    let mut few = Command::new("sh");
    few.args(["-c", &limited])
        .arg(&baton)
        .arg(request.path())
        .arg(&half)
        .arg("few");
    steps.run("with few descriptors", &mut few);
    steps.finish()
}

impl SoakOptions {
    fn parse(arguments: &[String]) -> Result<Self, String> {
        let known = PROGRAMS
            .iter()
            .map(|(name, _)| *name)
            .chain(seeded::LOADS.iter().map(|load| load.name))
            .chain([CLUSTER])
            .collect::<Vec<_>>()
            .join(", ");
        let (name, rest) = arguments
            .split_first()
            .ok_or_else(|| format!("soak: a load expected: {known}"))?;
        let (_, program) = PROGRAMS
            .iter()
            .find(|(known, _)| known == name)
            .ok_or_else(|| format!("soak: no load is called '{name}'; there are: {known}"))?;
        let seconds = match rest {
            [] => DEFAULT_SECONDS,
            [option, given] if option == "--seconds" => parse_seconds(given)?,
            _ => return Err("soak: only '--seconds N' may follow".to_owned()),
        };
        Ok(Self { program, seconds })
    }

    fn path(&self) -> PathBuf {
        workspace::root()
            .join("tools/baton/tests/lua")
            .join(self.program)
    }
}

fn parse_seconds(given: &str) -> Result<u32, String> {
    match given.parse() {
        Ok(seconds) if seconds > 0 => Ok(seconds),
        _ => Err(format!(
            "soak: '--seconds' needs a number of at least 1, got '{given}'"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<SoakOptions, String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        SoakOptions::parse(&words)
    }

    #[test]
    fn a_load_lasts_ten_minutes_by_default() {
        assert_eq!(parse("net").map(|request| request.seconds), Ok(600));
        assert_eq!(
            parse("net --seconds 30").map(|request| request.seconds),
            Ok(30)
        );
    }

    #[test]
    fn the_program_of_every_load_is_there() {
        for (name, _) in PROGRAMS {
            let request = parse(name).expect("it is a load");
            assert!(request.path().is_file(), "{}", request.path().display());
        }
    }

    #[test]
    fn a_wrong_argument_is_named() {
        for (line, complaint) in [
            ("", "a load expected: net"),
            ("nets", "no load is called 'nets'"),
            ("net --seconds 0", "at least 1, got '0'"),
            ("net 30", "only '--seconds N' may"),
        ] {
            let error = parse(line).expect_err("it is wrong");
            assert!(error.contains(complaint), "{error}");
        }
    }
}
