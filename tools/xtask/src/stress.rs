//! `cargo xtask stress`: the concurrent tests, over and over, where a race is likeliest to show.
//!
//! Pinned to one CPU, every hand-off between native threads is a context switch at a moment of the kernel's choice;
//! with more busy processes than CPUs, threads are preempted in the middle of what is otherwise over in nanoseconds.

mod run;
mod suite;

use std::io::Read;
use std::process::{Child, Command, Stdio};

use indicatif::{ProgressBar, ProgressStyle};

use crate::Outcome;
use run::{Placement, Run};
use suite::TestProgram;

/// The hidden command that [`Load`] starts ourselves with.
pub(crate) const LOAD_COMMAND: &str = "burn-until-stdin-ends";

/// Busy processes beside the tests: as many as the smallest machine that we test on has CPUs.
const BUSY_PROCESSES: usize = 2;

const DEFAULT_RUNS: u32 = 200;

/// Where there is no terminal to draw progress on, a line is printed after this many runs.
const RUNS_PER_LINE: u32 = 20;

/// What the command line asks for.
#[derive(Debug, PartialEq, Eq)]
struct Request {
    runs: u32,
    placements: Vec<Placement>,
    release: bool,
    /// Only programs whose names contain one of these; all if there are none.
    only: Vec<String>,
}

/// Runs the concurrent tests as often as asked, and stops at the first failure.
pub(crate) fn run(arguments: &[String]) -> Outcome {
    let request = Request::parse(arguments)?;
    let mut programs = suite::build(request.release)?;
    programs.retain(|program| request.wants(&program.name));
    if programs.is_empty() {
        return Err(format!(
            "stress: no test program is called like '{}'",
            request.only.join("' or '")
        ));
    }
    println!("stress: {} test programs, {} runs each", programs.len(), request.runs);
    for program in &programs {
        println!("    {}", program.name);
    }
    let mut passed = 0;
    for placement in &request.placements {
        let ending = repeat(*placement, request.runs, &programs, &mut passed);
        if let Err(failure) = ending {
            println!("{passed} passed, 1 failed");
            return Err(failure);
        }
    }
    println!("{passed} passed, 0 failed");
    Ok(())
}

/// Runs all programs `runs` times in one placement, and counts the runs of the whole suite that passed.
fn repeat(placement: Placement, runs: u32, programs: &[TestProgram], passed: &mut u32) -> Outcome {
    let _load = match placement {
        Placement::Loaded => Some(Load::start()?),
        Placement::Pinned => None,
    };
    let progress = ProgressBar::new(u64::from(runs));
    if let Ok(style) = ProgressStyle::with_template("{prefix} {bar:40} {pos}/{len} {elapsed}, {eta} to go {msg}") {
        progress.set_style(style);
    }
    progress.set_prefix(placement.name());
    for number in 1..=runs {
        for program in programs {
            progress.set_message(program.name.clone());
            if let Run::Failed { ending, output } = run::run(program, placement)? {
                progress.abandon();
                println!("{output}");
                let place = placement.name();
                return Err(format!(
                    "run {number} {place}: {}: {ending}; its output is above",
                    program.name
                ));
            }
        }
        *passed += 1;
        progress.inc(1);
        if progress.is_hidden() && (number % RUNS_PER_LINE == 0 || number == runs) {
            println!("{}: {number} of {runs} runs passed", placement.name());
        }
    }
    progress.finish_and_clear();
    println!("{}: all {runs} runs passed", placement.name());
    Ok(())
}

impl Request {
    fn parse(arguments: &[String]) -> Result<Self, String> {
        let mut request = Self {
            runs: DEFAULT_RUNS,
            placements: Vec::new(),
            release: false,
            only: Vec::new(),
        };
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            match argument.as_str() {
                "--runs" => request.runs = parse_runs(rest.next())?,
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
    let given = argument.ok_or("stress: '--only' needs parts of test programs' names, separated by commas")?;
    Ok(given.split(',').map(str::to_owned).collect())
}

fn parse_runs(argument: Option<&String>) -> Result<u32, String> {
    let given = argument.ok_or("stress: '--runs' needs a number")?;
    match given.parse() {
        Ok(runs) if runs > 0 => Ok(runs),
        _ => Err(format!("stress: '--runs' needs a number of at least 1, got '{given}'")),
    }
}

/// Processes that keep CPUs busy, for as long as this value lives.
struct Load(Vec<Child>);

impl Load {
    fn start() -> Result<Self, String> {
        let ourselves = std::env::current_exe().map_err(|why| format!("stress: cannot find ourselves: {why}"))?;
        let mut load = Self(Vec::new());
        for _ in 0..BUSY_PROCESSES {
            // Each holds the reading end of a pipe from us: it ends when we do, however we end.
            let child = Command::new(&ourselves).arg(LOAD_COMMAND).stdin(Stdio::piped()).spawn();
            load.0
                .push(child.map_err(|why| format!("stress: cannot start a busy process: {why}"))?);
        }
        Ok(load)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // An error means that it has ended already, which is all that we want.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// What a busy process does.
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

    fn parse(words: &[&str]) -> Result<Request, String> {
        Request::parse(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn without_options_both_placements_run_two_hundred_times() {
        let expected = Request {
            runs: 200,
            placements: vec![Placement::Pinned, Placement::Loaded],
            release: false,
            only: Vec::new(),
        };
        assert_eq!(parse(&[]), Ok(expected));
    }

    #[test]
    fn one_placement_can_be_chosen() {
        let expected = Request {
            runs: 3,
            placements: vec![Placement::Loaded],
            release: true,
            only: Vec::new(),
        };
        assert_eq!(parse(&["--runs", "3", "--load", "--release"]), Ok(expected));
    }

    #[test]
    fn programs_can_be_chosen_by_parts_of_their_names() {
        let request = parse(&["--only", "sync,core"]).unwrap();
        assert!(request.wants("baton: concurrency_sync") && request.wants("baton-core: waiting"));
        assert!(!request.wants("baton: concurrency_foreign"));
        assert!(parse(&["--only"]).is_err());
    }

    #[test]
    fn a_bad_number_of_runs_is_refused() {
        for words in [&["--runs"][..], &["--runs", "0"], &["--runs", "many"]] {
            assert!(parse(words).is_err(), "{words:?}");
        }
    }
}
