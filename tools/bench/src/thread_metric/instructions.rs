//! Counts the instructions of the runtime's operations, which do not depend on the load of the
//! machine.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::json;

use crate::bench::{Bench, progress};
use crate::chart::{Bars, Chart};
use crate::child;
use crate::report::{Report, notes};
use crate::table::{Table, figure};
use crate::verdict::Goal;

/// The repetitions in the shorter run; the longer run has twice as many. The difference is the cost
/// of the operations.
const TIMES: u64 = 10_000;
const LIMIT: Duration = Duration::from_secs(120);
const GOAL: Goal = Goal::at_most(0.8, "", 3);

/// An operation, with the program that repeats it.
struct Operation {
    title: &'static str,
    program: &'static str,
    /// Whether each of many processes performs it once, in the place of a yield.
    is_done_once: bool,
}

const fn operation(title: &'static str, program: &'static str, is_done_once: bool) -> Operation {
    Operation {
        title,
        program,
        is_done_once,
    }
}

const SELF_SUSPEND: &str = "suspend itself";
const IN_GENERAL: &str = "suspend itself, in general";

const OPERATIONS: [Operation; 7] = [
    operation("bare stack switch", "switch", false),
    operation("yield", "yield", false),
    operation(SELF_SUSPEND, "once-suspend", true),
    operation(IN_GENERAL, "once-suspend-in-general", true),
    operation("wait for a semaphore", "once-wait", true),
    operation("hand over by semaphores", "hand-off", false),
    operation("resume the more urgent, and back", "preemption", false),
];

const NOTES: [&str; 3] = [
    "instructions of the VM's first thread, counted by valgrind's callgrind: the difference of a \
     run and one with twice the repetitions; calls, loop and the switch of stacks are included",
    "in general: of this process and the next, only one can be preempted, so that the fast path \
     does not apply",
    "handing over: signalling another process's semaphore, waiting for the own one, and the \
     switch; the last row has two switches",
];

/// Counts each operation.
pub(crate) fn run(bench: &Bench) -> Result<Report> {
    let bar = progress(OPERATIONS.len() + 1);
    bar.set_message("a yield, to compare with");
    let once = each(bench, "once-yield")?;
    bar.inc(1);
    let mut counts = Vec::new();
    let mut of_yield = 0.0;
    for operation in &OPERATIONS {
        bar.set_message(operation.title);
        let mut count = each(bench, operation.program)?;
        if operation.is_done_once {
            count += of_yield - once;
        } else if operation.program == "yield" {
            of_yield = count;
        }
        counts.push((operation.title, count));
        bar.inc(1);
    }
    bar.finish_and_clear();
    let mut table = Table::new("instructions", &["operation", "each"]);
    for &(title, count) in &counts {
        table.named(title, [figure(count, 1)]);
    }
    let count_of = |wanted: &str| {
        counts
            .iter()
            .find(|(title, _)| *title == wanted)
            .map(|(_, count)| *count)
    };
    let ratio = count_of(SELF_SUSPEND)
        .zip(count_of(IN_GENERAL))
        .map(|(own, general)| own / general);
    Ok(Report {
        notes: notes(&NOTES),
        tables: vec![table],
        charts: vec![chart(&counts)],
        verdicts: vec![GOAL.judge(
            "instructions of a process that suspends itself / in general",
            ratio,
        )],
        samples: json!({"times": TIMES, "instructions": counts}),
        ..Report::default()
    })
}

fn chart(counts: &[(&str, f64)]) -> Chart {
    Bars::new("What the runtime's operations take", "instructions")
        .rows(counts.iter().map(|(title, _)| title))
        .series(
            "runtime (Rust)",
            counts.iter().map(|(_, count)| Some(*count)),
        )
        .into()
}

/// The instructions of one repetition in a program.
fn each(bench: &Bench, program: &str) -> Result<f64> {
    let [short, long] = [TIMES, 2 * TIMES].map(|times| count(bench, program, times));
    Ok((long? - short?) / TIMES as f64)
}

/// The instructions of a program's first thread.
fn count(bench: &Bench, program: &str, times: u64) -> Result<f64> {
    let own = child::this_program(&[])?;
    let out = bench.directory().join("counted");
    let mut command = Command::new("valgrind");
    command
        .args([
            "--quiet",
            "--tool=callgrind",
            "--separate-threads=yes",
            "--fair-sched=yes",
        ])
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(own.get_program())
        .args(["operation", program, &times.to_string()]);
    child::run(&mut command, LIMIT)
        .context("valgrind counts the instructions")?
        .succeeded("the counted run")?;
    first_threads_total(&bench.directory().join("counted-01"))
}

/// Reads a line such as `totals: 1234567`.
fn first_threads_total(path: &Path) -> Result<f64> {
    let text =
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    match total(&text) {
        Some(total) => Ok(total),
        None => bail!("{} has no line of totals", path.display()),
    }
}

fn total(text: &str) -> Option<f64> {
    let line = text
        .lines()
        .rev()
        .find_map(|line| line.strip_prefix("totals:"))?;
    line.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_of_totals_counts() {
        assert_eq!(
            total("fn=(1) main\n1 2\ntotals: 1234567\n"),
            Some(1_234_567.0)
        );
        assert_eq!(total("summary: 5\n"), None);
    }
}
