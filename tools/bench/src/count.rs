//! Counts instructions instead of time, which a noisy machine does not disturb.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::json;

use crate::bench::{Bench, progress};
use crate::child;
use crate::command_line::LuaOptions;
use crate::interpreters::Interpreter;
use crate::lua::{self, Program};
use crate::report::Report;
use crate::stats;
use crate::table::{Table, figure};
use crate::verdict::Verdict;

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
    let programs = lua::chosen(options)?;
    let (arms, debian_missing) = lua::arms(bench)?;
    let counter = Counter::find(bench.directory())?;
    let notes = vec![
        format!(
            "counted by {}; one run of a smaller size each",
            counter.name()
        ),
        features(bench, counter, &arms[0]),
    ];
    let bar = progress(programs.len());
    let mut counts = Vec::new();
    for program in programs {
        bar.set_message(program.name);
        counts.push((program.name, count_program(bench, counter, program, &arms)?));
        bar.inc(1);
    }
    bar.finish_and_clear();
    let names: Vec<&str> = arms.iter().map(|arm| arm.name).collect();
    let missing = |reason| Verdict::unmet("instructions beside debian", reason);
    Ok(Report {
        arms: arms.iter().map(Interpreter::found).collect(),
        notes,
        tables: vec![table(&counts, &arms)],
        samples: json!({"counter": counter.name(), "arms": names, "instructions": counts}),
        verdicts: debian_missing.map(missing).into_iter().collect(),
        ..Report::default()
    })
}

/// The instructions of one program, by arm.
fn count_program(
    bench: &Bench,
    counter: Counter,
    program: &Program,
    arms: &[Interpreter],
) -> Result<Vec<f64>> {
    let script = bench.script(program.name, program.source)?;
    let (mut counts, mut expected) = (Vec::new(), None);
    for arm in arms {
        let mut command = arm.script(&script);
        command.arg(program.small_size.to_string());
        let (output, count) = counter.count(&command, bench.directory())?;
        let expected = expected.get_or_insert_with(|| output.clone());
        if output != *expected {
            bail!(
                "{} under {} printed {output:?}, where another arm printed {expected:?}",
                program.name,
                arm.name
            );
        }
        counts.push(count);
    }
    Ok(counts)
}

fn table(counts: &[(&str, Vec<f64>)], arms: &[Interpreter]) -> Table {
    let caption = "millions of instructions; Lua seeds its hashes anew each run, which alone is \
                   worth up to 2 %";
    let mut header = vec!["program"];
    header.extend(arms.iter().map(|arm| arm.name));
    header.extend(
        ["baton/stock", "baton/debian"]
            .into_iter()
            .take(arms.len() - 1),
    );
    let mut table = Table::new(caption, &header);
    let ratios = |peer: usize| {
        counts
            .iter()
            .map(|(_, of_one)| of_one[0] / of_one[peer])
            .collect::<Vec<f64>>()
    };
    for (name, of_one) in counts {
        let mut row = vec![name.to_string()];
        row.extend(of_one.iter().map(|count| figure(Some(count / 1e6), 2)));
        row.extend(
            of_one[1..]
                .iter()
                .map(|count| figure(Some(of_one[0] / count), 3)),
        );
        table.row(row);
    }
    let mut mean = vec!["geometric mean".to_string()];
    mean.extend(arms.iter().map(|_| String::new()));
    mean.extend((1..arms.len()).map(|peer| figure(stats::geometric_mean(&ratios(peer)), 3)));
    table.row(mean);
    table
}

/// The mechanisms that baton uses under the counter, since valgrind may lack some.
fn features(bench: &Bench, counter: Counter, baton: &Interpreter) -> String {
    let features = bench
        .script("features", include_str!("../programs/features.lua"))
        .and_then(|script| counter.count(&baton.script(&script), bench.directory()));
    match features {
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
