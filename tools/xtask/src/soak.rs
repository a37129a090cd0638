//! `cargo xtask soak`: a load that goes on for long and checks all the while that it leaves nothing behind.

mod foreign;

use std::path::PathBuf;
use std::process::Command;

use crate::Outcome;
use crate::cargo::{Steps, cargo};
use crate::workspace;

/// The program under `tools/baton/tests/lua` that makes the load of a name.
const PROGRAMS: &[(&str, &str)] = &[("net", "parking/soak.lua")];

/// The load that has a driver of its own.
const FOREIGN: &str = "foreign";

const DEFAULT_SECONDS: u32 = 600;

/// So few descriptors that the load runs out of them, and is told by the word `few` that it must have.
const FEW_DESCRIPTORS: u32 = 80;

/// What the command line asks for.
#[derive(Debug, PartialEq, Eq)]
struct Request {
    program: &'static str,
    seconds: u32,
}

/// Builds the interpreter and runs the load: half of the time as it is, half of it with few descriptors. The load itself fails if what it is there for
/// has not happened often enough: in ten minutes a thousand kills, and in a shorter run as many fewer.
pub(crate) fn run(arguments: &[String]) -> Outcome {
    if let Some((FOREIGN, rest)) = arguments.split_first().map(|(name, rest)| (name.as_str(), rest)) {
        return foreign::run(rest);
    }
    let request = Request::parse(arguments)?;
    let mut steps = Steps::of("soak");
    steps.run("build", &mut cargo(&["build", "--release", "-p", "baton"]));
    let baton = workspace::target_directory("release").join("baton");
    let half = (request.seconds / 2).max(1).to_string();
    steps.run("as it is", Command::new(&baton).arg(request.path()).arg(&half));
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

impl Request {
    fn parse(arguments: &[String]) -> Result<Self, String> {
        let known = PROGRAMS
            .iter()
            .map(|(name, _)| *name)
            .chain([FOREIGN])
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
            _ => return Err("soak: '--seconds N' is all that may follow".to_owned()),
        };
        Ok(Self { program, seconds })
    }

    fn path(&self) -> PathBuf {
        workspace::root().join("tools/baton/tests/lua").join(self.program)
    }
}

fn parse_seconds(given: &str) -> Result<u32, String> {
    match given.parse() {
        Ok(seconds) if seconds > 0 => Ok(seconds),
        _ => Err(format!("soak: '--seconds' needs a number of at least 1, got '{given}'")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Request, String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        Request::parse(&words)
    }

    #[test]
    fn a_load_lasts_ten_minutes_unless_told_otherwise() {
        assert_eq!(parse("net").map(|request| request.seconds), Ok(600));
        assert_eq!(parse("net --seconds 30").map(|request| request.seconds), Ok(30));
    }

    #[test]
    fn the_program_of_every_load_is_there() {
        for (name, _) in PROGRAMS {
            let request = parse(name).expect("it is a load");
            assert!(request.path().is_file(), "{}", request.path().display());
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (line, complaint) in [
            ("", "a load expected: net"),
            ("nets", "no load is called 'nets'"),
            ("net --seconds 0", "at least 1, got '0'"),
            ("net 30", "'--seconds N' is all"),
        ] {
            let error = parse(line).expect_err("it is wrong");
            assert!(error.contains(complaint), "{error}");
        }
    }
}
