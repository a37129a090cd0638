//! `cargo xtask cost`: builds the README's first command from a clean clone, and ripgrep from the
//! registry, in turns, and prints what each build costs.
//!
//! Seconds tell little on their own: machines differ. So a program that many people build stands
//! beside ours. All crates are downloaded before the clocks start.

mod built;
mod sources;

use std::fs;
use std::path::Path;

use indicatif::{ProgressBar, ProgressStyle};

use crate::Outcome;
use crate::workspace;
use built::{Cost, Used};
use sources::Sources;

/// The most that the first build may take, as a multiple of ripgrep's CPU time.
const MOST_CPU: f64 = 2.0;

/// The most crates of others in the interpreter's build.
const MOST_CRATES: usize = 95;

/// The largest stripped program, in bytes.
const LARGEST: u64 = 8 << 20;

/// Builds both programs, `--rounds N` times (once), and prints the figures.
pub(crate) fn run(arguments: &[String]) -> Outcome {
    let rounds = parse(arguments)?;
    let directory = workspace::target_directory("cost");
    fs::create_dir_all(&directory)
        .map_err(|why| format!("cannot make {}: {why}", directory.display()))?;
    let progress = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{bar:20} {pos}/{len} {elapsed} {msg}") {
        progress.set_style(style);
    }
    progress.set_message("downloads the crates of both programs");
    let baton = Sources::of_baton(&directory)?;
    let ripgrep = Sources::of_ripgrep(&directory)?;
    let mut ours = Vec::new();
    let mut theirs = Vec::new();
    for round in 1..=rounds {
        for (sources, used) in [(&ripgrep, &mut theirs), (&baton, &mut ours)] {
            let name = &sources.name;
            progress.set_message(format!("builds {name}, round {round} of {rounds}"));
            used.push(built::build(sources, &progress)?);
        }
    }
    progress.finish_and_clear();
    let costs = [built::cost(ripgrep, &theirs)?, built::cost(baton, &ours)?];
    let removed = fs::remove_dir_all(&directory);
    removed.map_err(|why| format!("cannot remove {}: {why}", directory.display()))?;
    print!("{}", table(&costs));
    judge(&costs)
}

fn parse(arguments: &[String]) -> Result<u32, String> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let refused = || format!("cost: expected '--rounds N', got '{}'", words.join(" "));
    match words[..] {
        [] => Ok(1),
        ["--rounds", count] => match count.parse() {
            Ok(count) if count > 0 => Ok(count),
            _ => Err(refused()),
        },
        _ => Err(refused()),
    }
}

/// The figures of both programs, a column for each.
fn table([theirs, ours]: &[Cost; 2]) -> String {
    let row = |what: &str, figure: &dyn Fn(&Cost) -> String| {
        format!("{what:<34}{:>16}{:>16}\n", figure(theirs), figure(ours))
    };
    let mib = |bytes: u64| format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20));
    let seconds = |of: fn(&Used) -> f64| move |cost: &Cost| format!("{:.0} s", of(&cost.used));
    [
        row("", &|cost| cost.name.clone()),
        row("crates of others", &|cost| cost.crates.to_string()),
        row("downloaded before", &|cost| mib(cost.downloaded)),
        row("CPU time of the build", &seconds(|used| used.cpu)),
        row("elapsed", &seconds(|used| used.elapsed)),
        row("program, stripped", &|cost| mib(cost.stripped)),
    ]
    .concat()
}

/// Prints a line for each goal. Returns an error if one is missed.
fn judge([theirs, ours]: &[Cost; 2]) -> Outcome {
    let ratio = ours.used.cpu / theirs.used.cpu;
    let name = &theirs.name;
    let goals = [
        (
            ratio <= MOST_CPU,
            format!("{ratio:.2} times the CPU time of {name}; at most {MOST_CPU:.1}"),
        ),
        (
            ours.crates <= MOST_CRATES,
            format!("{} crates of others; at most {MOST_CRATES}", ours.crates),
        ),
        (
            ours.stripped <= LARGEST,
            format!("{} bytes; at most {LARGEST}", ours.stripped),
        ),
    ];
    println!();
    for (is_met, goal) in &goals {
        println!("{:<7}{goal}", if *is_met { "met" } else { "MISSED" });
    }
    match goals.iter().all(|(is_met, _)| *is_met) {
        true => Ok(()),
        false => Err("cost: the first build costs more than it may".to_owned()),
    }
}

/// Makes an empty directory.
fn empty(directory: &Path) -> Outcome {
    let removed = match directory.exists() {
        true => fs::remove_dir_all(directory),
        false => Ok(()),
    };
    removed
        .and_then(|()| fs::create_dir_all(directory))
        .map_err(|why| format!("cannot empty {}: {why}", directory.display()))
}

#[cfg(test)]
mod checks {
    use super::*;

    fn cost(name: &str, cpu: f64, crates: usize, stripped: u64) -> Cost {
        Cost {
            name: name.to_owned(),
            crates,
            downloaded: 3 << 20,
            used: Used {
                cpu,
                elapsed: cpu / 2.0,
            },
            stripped,
        }
    }

    #[test]
    fn the_figures_of_both_programs_stand_side_by_side() {
        let costs = [
            cost("ripgrep 1", 100.0, 40, 4 << 20),
            cost("baton 2", 150.0, 80, 7 << 20),
        ];
        let table = table(&costs);
        let line = |start: &str| {
            let line = table.lines().find(|line| line.starts_with(start));
            line.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        };
        assert_eq!(
            line("CPU").as_deref(),
            Some("CPU time of the build 100 s 150 s")
        );
        assert_eq!(
            line("program").as_deref(),
            Some("program, stripped 4.0 MiB 7.0 MiB")
        );
        assert_eq!(judge(&costs), Ok(()));
    }

    #[test]
    fn a_missed_goal_fails_the_command() {
        let known = || cost("ripgrep 1", 100.0, 40, 4 << 20);
        for ours in [
            cost("baton 2", 201.0, 80, 7 << 20),
            cost("baton 2", 100.0, 96, 7 << 20),
            cost("baton 2", 100.0, 80, (8 << 20) + 1),
        ] {
            assert!(judge(&[known(), ours]).is_err());
        }
    }

    #[test]
    fn a_number_of_rounds_is_all_that_can_be_asked_for() {
        let parsed = |line: &str| {
            let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            parse(&words)
        };
        assert_eq!(parsed(""), Ok(1));
        assert_eq!(parsed("--rounds 3"), Ok(3));
        assert!(parsed("--rounds 0").is_err() && parsed("baton").is_err());
    }
}
