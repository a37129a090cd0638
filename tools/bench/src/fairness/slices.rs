//! Measures processes with slices of different lengths, through the runtime's Rust interface.
//! Processes of equal priority must get CPU time in proportion to their slices.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::{Context, Result};
use baton_sys::clock::Instant;
use serde_json::json;

use crate::child;
use crate::command_line::FairnessOptions;
use crate::lab::Lab;
use crate::report::Report;
use crate::table::{Table, figure};
use crate::verdict::Goal;
use crate::{output, stats};

/// The slice of each process, in milliseconds.
const SLICES: [u64; 4] = [1, 2, 5, 10];

/// The number of rounds; in each, every process has its slice once.
const ROUNDS: u64 = 100;

const GOAL: Goal = Goal::at_most(1.0, " %", 2);

/// Runs [`processes`] as a separate program.
pub(super) fn run(options: &FairnessOptions) -> Result<Report> {
    let rounds = if options.most < 10 { 5 } else { ROUNDS };
    let limit =
        Duration::from_millis(SLICES.iter().sum::<u64>() * rounds * 3) + Duration::from_secs(30);
    let mut command = child::this_program(&["slices", &rounds.to_string()])?;
    let found = child::measure(&mut command, limit, "processes with slices", "cpu")?;
    let caption =
        format!("shares of four endless processes with slices of their own, over {rounds} rounds");
    let mut table = Table::new(caption, ["slice", "fair share %", "share %"]);
    let seconds = &found["cpu"];
    let (all, slices) = (seconds.iter().sum::<f64>(), SLICES.iter().sum::<u64>());
    let mut distances = Vec::new();
    for (slice, seconds) in SLICES.iter().zip(seconds) {
        let (fair, share) = (*slice as f64 / slices as f64, seconds / all);
        distances.push((share / fair - 1.0).abs() * 100.0);
        table.named(
            format!("{slice} ms"),
            [fair, share].map(|share| figure(share * 100.0, 2)),
        );
    }
    let what = "slices of 1, 2, 5 and 10 ms: farthest share from that of the slice";
    Ok(Report {
        tables: vec![table],
        verdicts: vec![GOAL.judge(what, stats::maximum(&distances))],
        samples: json!(seconds),
        ..Report::default()
    })
}

/// Runs the program itself, which prints the seconds that each process had.
pub(crate) fn processes(rounds: u32) -> Result<()> {
    let lab = Lab::new()?;
    let outcome = Arc::new(OnceLock::new());
    let mut endless = Vec::new();
    for slice in SLICES {
        let process = lab.spawn(40, false, |process| {
            loop {
                process.checkpoint();
            }
        })?;
        endless.push((Duration::from_millis(slice), process));
    }
    let round = Duration::from_millis(SLICES.iter().sum());
    let told = Arc::clone(&outcome);
    lab.spawn(60, false, move |process| {
        for &(slice, id) in &endless {
            process.vm.set_slice(id, Some(slice));
        }
        let look = || {
            let times = endless.iter().map(|(_, id)| process.vm.running_time(*id));
            times.collect::<Vec<Duration>>()
        };
        process.vm.sleep_until(Instant::now() + round);
        let (before, start) = (look(), Instant::now());
        process.vm.sleep_until(start + round * rounds);
        let used = look()
            .into_iter()
            .zip(before)
            .map(|(after, before)| after - before);
        let _ = told.set(used.collect());
        process.vm.stop();
    })?;
    lab.vm.run();
    let used: &Vec<Duration> = outcome.get().context("the processes were not looked at")?;
    let words: Vec<String> = used
        .iter()
        .map(|of_one| of_one.as_secs_f64().to_string())
        .collect();
    output::print(&format!("cpu {}\n", words.join(" ")))
}
