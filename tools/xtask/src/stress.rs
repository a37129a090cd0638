//! `cargo xtask stress`: repeats the concurrent tests under conditions that bring out races.
//!
//! The tests run in two placements. Pinned to one CPU, every handoff between native threads is a
//! context switch, at a moment that the kernel chooses. Under load, there are more busy processes
//! than CPUs. So threads are also preempted inside sections that otherwise take nanoseconds.

mod run;
mod standstill;
mod suite;

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;

use indicatif::{ProgressBar, ProgressStyle};

use crate::Outcome;
use run::{Placement, RunResult};
use standstill::Clock;
use suite::StressedProgram;

/// The hidden command with which [`Load`] starts this program again.
pub(crate) const LOAD_COMMAND: &str = "burn-until-stdin-ends";

/// The number of busy processes beside the tests: the CPUs of the smallest machine that we test on.
const BUSY_PROCESSES: usize = 2;

const DEFAULT_RUNS: u32 = 200;

/// The number of runs after which a line is printed, where there is no terminal for a progress
/// display.
const RUNS_PER_LINE: u32 = 20;

/// The largest number of runs that are repeated because they failed while the machine stood still.
/// Further ones count as failures.
const MOST_REPEATED: u32 = 20;

/// The options on the command line.
#[derive(Debug, PartialEq, Eq)]
struct StressOptions {
    runs: u32,
    placements: Vec<Placement>,
    release: bool,
    /// The number of programs that run at the same time.
    at_once: u32,
    /// Whether to continue after a failure. Failures are still reported and counted.
    keep_going: bool,
    /// Only programs whose names contain one of these texts are run; all if the list is empty.
    only: Vec<String>,
}

/// Runs the concurrent tests as often as requested. It stops at the first failure, unless
/// `--keep-going` is given.
pub(crate) fn run(arguments: &[String]) -> Outcome {
    let request = StressOptions::parse(arguments)?;
    let mut programs = suite::build(request.release)?;
    programs.retain(|program| request.wants(&program.name));
    if programs.is_empty() {
        return Err(format!(
            "stress: no test program's name contains '{}'",
            request.only.join("' or '")
        ));
    }
    println!(
        "stress: {} test programs, {} runs each",
        programs.len(),
        request.runs
    );
    for program in &programs {
        println!("    {}", program.name);
    }
    let mut tally = Tally::default();
    for placement in &request.placements {
        repeat(*placement, &request, &programs, &mut tally)?;
        if tally.failed > 0 && !request.keep_going {
            break;
        }
    }
    if tally.repeated > 0 {
        println!(
            "{} were repeated, because the machine stood still",
            tally.repeated
        );
    }
    println!("{} passed, {} failed", tally.passed, tally.failed);
    if tally.failed > 0 {
        return Err("stress: the failures are shown above".to_owned());
    }
    Ok(())
}

/// Counts of runs of the whole suite.
#[derive(Default)]
struct Tally {
    passed: u32,
    failed: u32,
    /// Runs that do not count, because they failed while the machine stood still.
    repeated: u32,
}

/// Runs all programs in one placement as often as requested. An error means that they could not
/// run.
fn repeat(
    placement: Placement,
    request: &StressOptions,
    programs: &[StressedProgram],
    tally: &mut Tally,
) -> Outcome {
    let runs = request.runs;
    let _load = match placement {
        Placement::Loaded => Some(Load::start()?),
        Placement::Pinned => None,
    };
    let progress = ProgressBar::new(u64::from(runs));
    if let Ok(style) =
        ProgressStyle::with_template("{prefix} {bar:40} {pos}/{len} {elapsed}, {eta} to go {msg}")
    {
        progress.set_style(style);
    }
    progress.set_prefix(placement.name());
    let failed_before = tally.failed;
    let clock = Clock::start();
    let mut number = 1;
    while number <= runs {
        // Discard what happened before this run.
        let _ = clock.standstill();
        let failures = run_once(placement, request.at_once, programs, &progress)?;
        if !failures.is_empty()
            && tally.repeated < MOST_REPEATED
            && let Some(time) = clock.standstill()
        {
            let failed: Vec<&str> = failures
                .iter()
                .map(|(program, ..)| program.as_str())
                .collect();
            failures
                .iter()
                .for_each(|(.., output)| println!("{output}"));
            println!(
                "run {number} {} is repeated: the machine stood still for {} s, and these \
                 failed: {}",
                placement.name(),
                time.as_secs(),
                failed.join(", ")
            );
            tally.repeated += 1;
            continue;
        }
        for (program, ending, output) in &failures {
            println!("{output}");
            let place = placement.name();
            println!("run {number} {place}: {program}: {ending}; its output is above");
        }
        if failures.is_empty() {
            tally.passed += 1;
        } else {
            tally.failed += 1;
        }
        if !failures.is_empty() && !request.keep_going {
            progress.abandon();
            return Ok(());
        }
        progress.inc(1);
        if progress.is_hidden() && (number % RUNS_PER_LINE == 0 || number == runs) {
            let failed = tally.failed - failed_before;
            println!(
                "{}: {number} of {runs} runs, {failed} failed",
                placement.name()
            );
        }
        number += 1;
    }
    progress.finish_and_clear();
    Ok(())
}

/// A failure: the name of the program, how it ended, and its output.
type Failure = (String, String, String);

/// Runs each program once, `at_once` of them at the same time.
fn run_once(
    placement: Placement,
    at_once: u32,
    programs: &[StressedProgram],
    progress: &ProgressBar,
) -> Result<Vec<Failure>, String> {
    let next = Mutex::new(programs.iter());
    let failures = Mutex::new(Vec::new());
    let worker = || -> Outcome {
        loop {
            let Some(program) = lock(&next).next() else {
                return Ok(());
            };
            progress.set_message(program.name.clone());
            if let RunResult::Failed { ending, output } = run::run(program, placement)? {
                lock(&failures).push((program.name.clone(), ending, output));
            }
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..at_once).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().try_for_each(|worker| {
            let ended = worker.join();
            ended.unwrap_or_else(|_| {
                Err("stress: one of this program's threads panicked".to_owned())
            })
        })
    })?;
    Ok(failures
        .into_inner()
        .unwrap_or_else(std::sync::PoisonError::into_inner))
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl StressOptions {
    fn parse(arguments: &[String]) -> Result<Self, String> {
        let mut request = Self {
            runs: DEFAULT_RUNS,
            placements: Vec::new(),
            release: false,
            at_once: 1,
            keep_going: false,
            only: Vec::new(),
        };
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            match argument.as_str() {
                "--runs" => request.runs = parse_number("--runs", rest.next())?,
                "--at-once" => request.at_once = parse_number("--at-once", rest.next())?,
                "--keep-going" => request.keep_going = true,
                "--pinned" => request.placements.push(Placement::Pinned),
                "--load" => request.placements.push(Placement::Loaded),
                "--release" => request.release = true,
                "--only" => request.only = parse_names(rest.next())?,
                other => return Err(format!("stress: unknown option '{other}'")),
            }
        }
        if request.placements.is_empty() {
            request.placements = vec![Placement::Pinned, Placement::Loaded];
        }
        Ok(request)
    }

    fn wants(&self, program: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|part| program.contains(part.as_str()))
    }
}

fn parse_names(argument: Option<&String>) -> Result<Vec<String>, String> {
    let given = argument
        .ok_or("stress: '--only' needs parts of test programs' names, separated by commas")?;
    Ok(given.split(',').map(str::to_owned).collect())
}

fn parse_number(option: &str, argument: Option<&String>) -> Result<u32, String> {
    let given = argument.ok_or_else(|| format!("stress: '{option}' needs a number"))?;
    match given.parse() {
        Ok(number) if number > 0 => Ok(number),
        _ => Err(format!(
            "stress: '{option}' needs a number of at least 1, got '{given}'"
        )),
    }
}

/// Processes that keep CPUs busy. They end when this value is dropped.
struct Load(Vec<Child>);

impl Load {
    fn start() -> Result<Self, String> {
        let ourselves = std::env::current_exe()
            .map_err(|why| format!("stress: cannot find this program's own file: {why}"))?;
        let mut load = Self(Vec::new());
        for _ in 0..BUSY_PROCESSES {
            // Each process holds the reading end of a pipe from this program. So it ends when this
            // program ends, even if that is killed.
            let child = Command::new(&ourselves)
                .arg(LOAD_COMMAND)
                .stdin(Stdio::piped())
                .spawn();
            load.0
                .push(child.map_err(|why| format!("stress: cannot start a busy process: {why}"))?);
        }
        Ok(load)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // An error means that the process has already ended.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Runs one busy process, until its standard input ends.
pub(crate) fn burn_until_stdin_ends() -> Outcome {
    let burner = std::thread::spawn(|| {
        let mut turns = 0_u64;
        loop {
            turns = std::hint::black_box(turns.wrapping_add(1));
        }
    });
    let mut ignored = Vec::new();
    let ended = std::io::stdin().read_to_end(&mut ignored);
    drop(burner);
    ended.map(|_| ()).map_err(|why| format!("stdin: {why}"))
}

#[cfg(test)]
mod checks {
    use super::*;

    fn parse(words: &[&str]) -> Result<StressOptions, String> {
        StressOptions::parse(
            &words
                .iter()
                .map(|word| (*word).to_owned())
                .collect::<Vec<_>>(),
        )
    }

    #[test]
    fn without_options_both_placements_run_two_hundred_times() {
        let expected = StressOptions {
            runs: 200,
            placements: vec![Placement::Pinned, Placement::Loaded],
            release: false,
            at_once: 1,
            keep_going: false,
            only: Vec::new(),
        };
        assert_eq!(parse(&[]), Ok(expected));
    }

    #[test]
    fn one_placement_can_be_chosen() {
        let expected = StressOptions {
            runs: 3,
            placements: vec![Placement::Loaded],
            release: true,
            at_once: 4,
            keep_going: true,
            only: Vec::new(),
        };
        let words = [
            "--runs",
            "3",
            "--load",
            "--release",
            "--at-once",
            "4",
            "--keep-going",
        ];
        assert_eq!(parse(&words), Ok(expected));
    }

    #[test]
    fn programs_can_be_chosen_by_parts_of_their_names() {
        let request = parse(&["--only", "sync,core"]).unwrap();
        assert!(request.wants("baton: concurrency_sync") && request.wants("baton-core: waiting"));
        assert!(!request.wants("baton: concurrency_foreign"));
        assert!(parse(&["--only"]).is_err());
    }

    #[test]
    fn a_bad_number_is_refused() {
        for words in [
            &["--runs"][..],
            &["--runs", "0"],
            &["--runs", "many"],
            &["--at-once", "0"],
        ] {
            assert!(parse(words).is_err(), "{words:?}");
        }
    }
}
