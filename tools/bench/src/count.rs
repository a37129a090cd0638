//! Counts instructions instead of time, which a noisy machine does not disturb.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::bench::Bench;
use crate::child;
use crate::command_line::LuaOptions;
use crate::lua;
use crate::report::Report;
use crate::verdict::Verdict;

/// The name of the figure.
const INSTRUCTIONS: &str = "instructions";
const LIMIT: Duration = Duration::from_secs(600);

/// A way to count instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counter {
    /// The CPU's own counter, in user mode only.
    Perf,
    /// Simulation. It may lack system calls that baton uses, so that baton uses its fallbacks.
    Valgrind,
}

impl Counter {
    /// The first of the two that works here. perf may be installed and still have no counter.
    fn find(directory: &Path) -> Result<Self> {
        let mut nothing = Command::new("true");
        nothing.arg("true");
        [Self::Perf, Self::Valgrind]
            .into_iter()
            .find(|counter| counter.count(&nothing, directory).is_ok())
            .context(
                "neither `perf stat -e instructions:u` nor `valgrind --tool=cachegrind` works here",
            )
    }

    fn name(self) -> &'static str {
        match self {
            Self::Perf => "perf stat, user mode",
            Self::Valgrind => "valgrind's cachegrind",
        }
    }

    /// Runs `command` under the counter. Returns its output and the number of instructions.
    fn count(self, command: &Command, directory: &Path) -> Result<(String, f64)> {
        let report = directory.join("instructions");
        let mut counted = match self {
            Self::Perf => words(
                &["perf", "stat", "-x,", "-e", "instructions:u", "-o"],
                &report,
            ),
            Self::Valgrind => {
                let mut file = OsString::from("--log-file=");
                file.push(&report);
                let mut counted = words(
                    &["valgrind", "--tool=cachegrind", "--cache-sim=no"],
                    Path::new("--cachegrind-out-file=/dev/null"),
                );
                counted.arg(file);
                counted
            }
        };
        counted
            .arg("--")
            .arg(command.get_program())
            .args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => counted.env(name, value),
                None => counted.env_remove(name),
            };
        }
        let run = child::run(&mut counted, LIMIT)?.succeeded("the counted run")?;
        let text = fs::read_to_string(&report)
            .with_context(|| format!("cannot read {}", report.display()))?;
        let instructions = match self {
            Self::Perf => perf_count(&text),
            Self::Valgrind => valgrind_count(&text),
        };
        match instructions {
            Some(instructions) => Ok((run.output, instructions)),
            None => bail!("{self:?} reported no number of instructions:\n{text}"),
        }
    }
}

fn words(words: &[&str], last: &Path) -> Command {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).arg(last);
    command
}

/// Reads a line such as `123456,,instructions:u,...`.
fn perf_count(text: &str) -> Option<f64> {
    let line = text.lines().find(|line| line.contains("instructions"))?;
    line.split(',').next()?.parse().ok()
}

/// Reads a line such as `==99== I   refs:      1,234,567`.
fn valgrind_count(text: &str) -> Option<f64> {
    let line = text
        .lines()
        .find(|line| line.contains("refs:") && line.contains(" I "))?;
    let digits: String = line
        .rsplit(':')
        .next()?
        .chars()
        .filter(char::is_ascii_digit)
        .collect();
    digits.parse().ok()
}

/// Counts one run of each program under each interpreter.
pub(crate) fn run(bench: &Bench, options: &LuaOptions) -> Result<Report> {
    let (mut contest, debian_missing) = lua::contest(bench, options, true)?;
    contest.rounds = 1;
    let counter = Counter::find(bench.directory())?;
    let notes = vec![
        format!(
            "counted by {}; one run of a smaller size each",
            counter.name()
        ),
        features(bench, counter),
    ];
    let mut outputs = lua::Outputs::default();
    let results = contest.run_by(|arm, case, command| {
        let (output, count) = counter.count(command, bench.directory())?;
        outputs.check(arm, case, &output)?;
        Ok([(INSTRUCTIONS.to_string(), vec![count])].into())
    });
    let caption = "millions of instructions; Lua seeds its hashes anew each run, which alone is \
                   worth up to 2 %";
    let ratios = lua::ratios_to(&results, INSTRUCTIONS);
    let missing = |reason| Verdict::unmet("instructions beside debian", reason);
    Ok(results.complete(Report {
        notes,
        tables: vec![lua::table(
            &results,
            caption,
            (INSTRUCTIONS, 1e-6, 2),
            &ratios,
        )],
        verdicts: debian_missing.map(missing).into_iter().collect(),
        ..Report::default()
    }))
}

/// The mechanisms that baton uses under the counter, since valgrind may lack some.
fn features(bench: &Bench, counter: Counter) -> String {
    let counted = || {
        let script = bench.script("features", include_str!("../programs/features.lua"))?;
        counter.count(&bench.paths.baton()?.script(&script), bench.directory())
    };
    match counted() {
        Ok((output, _)) => format!("baton's features under it: {}", output.trim_end()),
        Err(error) => format!("baton's features under it are unknown: {error:#}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reports_of_both_counters_are_read() {
        assert_eq!(
            perf_count("# started\n\n8123456,,instructions:u,1000,100.00,,\n"),
            Some(8_123_456.0)
        );
        assert_eq!(
            valgrind_count("==7== \n==7== I   refs:      1,234,567\n"),
            Some(1_234_567.0)
        );
    }

    #[test]
    fn a_counter_that_is_not_supported_is_no_number() {
        assert_eq!(
            perf_count("<not supported>,,instructions:u,0,100.00,,\n"),
            None
        );
        assert_eq!(valgrind_count("valgrind: no such tool\n"), None);
    }
}
