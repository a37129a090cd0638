//! The start of VMs: the time until the first function runs, the memory, and the wake-ups of idle
//! ones.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::Receiver;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

use super::arms::{self, BATON, INTERPRETERS, NODE, PROCESSES};
use super::{BESIDES, spread};
use crate::bench::Bench;
use crate::chart::Bars;
use crate::child::{self, Figures, Owned};
use crate::command_line::CoresOptions;
use crate::contest::{Arm, Case, Contest, Results};
use crate::machine;
use crate::report::{Report, notes};
use crate::usage;
use crate::verdict::{Goal, Verdict};

/// The name of the case with all VMs that were asked for, which only Baton starts.
const MANY: &str = "many";
/// The name of the case with a tenth of them.
const FEW: &str = "few";

/// The time limit for a line of a program's output.
const LINE_LIMIT: Duration = Duration::from_secs(60);
/// The time for a program to come to rest, before its wake-ups are counted.
const REST: Duration = Duration::from_millis(500);

/// The time after which an ended program says nothing more.
const QUIET: Duration = Duration::from_millis(100);
/// The number of lines that an error quotes.
const QUOTED: usize = 20;

/// The wake-ups of each idle VM in a second.
const IDLE_GOAL: Goal = Goal::at_most(0.01, "", 4);

/// The figures: the name, the name in tables, and the number of decimals.
const FIGURES: [(&str, &str, usize); 3] = [
    ("us", "microseconds until the first function runs", 0),
    ("kib", "memory of each, in KiB", 0),
    ("wakeups", "wake-ups of each in an idle second", 3),
];

pub(super) fn run(bench: &Bench, options: &CoresOptions) -> Result<Report> {
    let only_few = |arm: Arm| match arm.name {
        BATON => arm,
        _ => arm.only(&[FEW]),
    };
    let arms = arms::arms(bench, &[BATON, NODE, PROCESSES, INTERPRETERS])?;
    let few = options.vms.div_ceil(10);
    let case =
        |name: &str, count: u32| Case::new(name, format!("{count} at once"), &[&"spawn", &count]);
    let idle = Duration::from_secs_f64(options.idle);
    let results = Contest {
        arms: arms.into_iter().map(only_few).collect(),
        cases: vec![case(FEW, few), case(MANY, options.vms)],
        rounds: options.rounds,
        figure: "us",
        limit: BESIDES + idle,
    }
    .run_by(|_, case, command| {
        let count = if case.name == FEW { few } else { options.vms };
        measure(command, f64::from(count), idle)
    });
    let table = |&(name, what, digits): &(&'static str, &str, usize)| {
        let caption = format!("start: {what}; median (smallest-largest)");
        results.by_case(caption, "VMs", results.all_cases(), |arm, case| {
            spread(&results.values(arm, case, name), digits)
        })
    };
    let chart = Bars::new("The start of a VM", "microseconds, logarithmic").log();
    let time = |arm, case| results.median(arm, case, "us");
    Ok(results.complete(Report {
        notes: notes(&[
            "Start: one after the other, each until its first function runs; all stay. Memory is \
             each one's share of resident memory and page tables, after all have started. Python \
             forks its processes.",
            "Go and Erlang are no peers here: their goroutines and processes have no heap with \
             modules of its own that can be compared with a VM. They are in the experiment scale.",
        ]),
        tables: FIGURES.iter().map(table).collect(),
        charts: vec![results.bars(chart, results.all_cases(), time)],
        verdicts: verdict(&results, options.vms).into_iter().collect(),
        ..Report::default()
    }))
}

fn verdict(results: &Results, vms: u32) -> Option<Verdict> {
    let (arm, case) = results.place(BATON, MANY)?;
    let wakeups = results.median(arm, case, "wakeups");
    let what = format!("wake-ups in a second of each of {vms} idle VMs");
    Some(IDLE_GOAL.judge(&what, wakeups))
}

/// Runs a program that starts workers. An error quotes what it says last.
fn measure(command: &mut Command, count: f64, idle: Duration) -> Result<Figures> {
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut program = Owned::spawn(command)?;
    let errors = child::lines(program.inner.stderr.take().context("it has errors")?);
    watch(program, count, idle).with_context(|| {
        let mut lines = Vec::new();
        while let Ok(line) = errors.recv_timeout(QUIET) {
            lines.push(line);
        }
        lines[lines.len().saturating_sub(QUOTED)..].join("\n")
    })
}

/// Measures a program that says `base` before it starts its workers, waits for a line, says `all`
/// when all have started, and ends with its input.
fn watch(mut program: Owned, count: f64, idle: Duration) -> Result<Figures> {
    let lines = child::lines(program.inner.stdout.take().context("it has an output")?);
    let mut input = program.inner.stdin.take().context("it has an input")?;
    let pid = program.inner.id();
    read_until("base", &lines)?;
    let before = memory(pid)?;
    input.write_all(b"\n")?;
    let mut figures = child::figures(&read_until("all", &lines)?);
    let kib = memory(pid)? - before;
    thread::sleep(REST.min(idle));
    let first = switches(pid)?;
    thread::sleep(idle);
    let wakeups: u64 = switches(pid)?
        .iter()
        .map(|(task, count)| count - first.get(task).unwrap_or(&0))
        .sum();
    drop(input);
    figures.insert("kib".to_string(), vec![kib / count]);
    let each = wakeups as f64 / count / idle.as_secs_f64();
    figures.insert("wakeups".to_string(), vec![each]);
    program
        .wait_at_most(LINE_LIMIT)?
        .context("it did not end with its input")?;
    Ok(figures)
}

/// The lines of a program up to one that is this word.
fn read_until(word: &str, lines: &Receiver<String>) -> Result<String> {
    let mut text = String::new();
    loop {
        let line = lines
            .recv_timeout(LINE_LIMIT)
            .with_context(|| format!("it did not say '{word}'"))?;
        if line == word {
            return Ok(text);
        }
        text.push_str(&line);
        text.push('\n');
    }
}

/// The memory of a program and its children in KiB: resident memory, of which each page is divided
/// by the number of processes that have it, and page tables.
fn memory(pid: u32) -> Result<f64> {
    let mut sum = 0.0;
    for pid in family(pid)? {
        let number =
            |file: &str, name| machine::number::<f64>(&format!("/proc/{pid}/{file}"), name);
        let resident = number("smaps_rollup", "Pss").context("the system does not tell Pss")?;
        sum += resident + number("status", "VmPTE").unwrap_or(0.0);
    }
    Ok(sum)
}

/// The voluntary switches of every thread of a program and its children.
fn switches(pid: u32) -> Result<BTreeMap<u32, u64>> {
    let mut all = BTreeMap::new();
    for pid in family(pid)? {
        let threads = usage::snapshot(&PathBuf::from(format!("/proc/{pid}/task")))?;
        all.extend(
            threads
                .into_iter()
                .map(|(task, used)| (task, used.voluntary)),
        );
    }
    Ok(all)
}

/// A process and its children, and theirs.
fn family(pid: u32) -> Result<Vec<u32>> {
    let tasks = format!("/proc/{pid}/task");
    let mut family = vec![pid];
    for task in fs::read_dir(&tasks).with_context(|| format!("cannot read {tasks}"))? {
        // A thread may have ended meanwhile.
        let children = fs::read_to_string(Path::new(&task?.path()).join("children"));
        for child in children.unwrap_or_default().split_ascii_whitespace() {
            family.extend(self::family(child.parse()?)?);
        }
    }
    Ok(family)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_and_wake_ups_of_all_processes_of_a_program_are_measured() {
        let script = "echo base; read -r line; sleep 30 & \
             until [ \"$(cat /proc/$!/comm)\" = sleep ]; do :; done; \
             echo us 5; echo all; read -r line; kill $!";
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let figures = measure(&mut command, 1.0, Duration::from_millis(50)).unwrap();
        assert_eq!(figures["us"], [5.0]);
        assert!(figures["kib"][0] > 0.0, "{figures:?}");
        assert_eq!(figures["wakeups"], [0.0]);
    }

    #[test]
    fn a_program_that_starts_nothing_is_an_error_that_names_the_word_and_quotes_it() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo no room >&2; exit 1"]);
        let error = measure(&mut command, 1.0, Duration::ZERO).unwrap_err();
        let said = format!("{error:#}");
        assert!(said.contains("base") && said.contains("no room"), "{said}");
    }
}
