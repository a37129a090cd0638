//! Measures a crowd of processes that each make one blocking call, ten processes for each native
//! thread. All of them should take little more than ten times a call's length.

use std::path::Path;
use std::time::Duration;

use crate::command_line::ThreadsOptions;
use crate::contest::{Arm, Case, Contest, Results};
use crate::interpreters::Interpreter;
use crate::table::{Table, figure};
use crate::verdict::{Goal, Verdict};

use super::{DIRECTORY, LIMIT};

/// The number of processes for each thread.
const TIMES: u64 = 10;

/// The elapsed time relative to the shortest possible time.
const GOAL: Goal = Goal::at_most(1.05, "x", 3);

const WORDS: &[&str] = &["ffi", DIRECTORY, "lazy"];

/// The parameters of the run, and its figures.
pub(super) struct Crowd {
    pub(super) results: Results,
    processes: u64,
    threads: u64,
    milliseconds: u64,
}

impl Crowd {
    /// Runs the crowd once. The program runs the crowd twice, each time for ten calls' length.
    pub(super) fn run(baton: &Interpreter, script: &Path, options: &ThreadsOptions) -> Crowd {
        let (threads, processes) = (options.largest, options.largest * TIMES);
        let milliseconds = options.crowd_milliseconds;
        let arm = Arm::interpreted("a crowd, ffi", baton, script, WORDS);
        let contest = Contest {
            arms: vec![arm.with("BATON_MAX_THREADS", threads.to_string())],
            cases: vec![Case::new(
                "crowd",
                format!("{processes} calls"),
                &[&processes, &milliseconds],
            )],
            rounds: 1,
            figure: "again",
            limit: LIMIT + Duration::from_millis(milliseconds * TIMES * 3),
        };
        Crowd {
            results: contest.run(),
            processes,
            threads,
            milliseconds,
        }
    }

    /// The elapsed time of the first or second time, divided by the shortest possible time.
    fn ratio(&self, name: &str) -> Option<f64> {
        let shortest = Duration::from_millis(self.milliseconds * TIMES).as_secs_f64();
        Some(self.results.median(0, 0, name)? / shortest)
    }

    pub(super) fn table(&self) -> Table {
        let caption = format!(
            "{} processes, each with one call of {} ms, and {} threads; 1 is ten calls' time",
            self.processes, self.milliseconds, self.threads
        );
        let mut table = Table::new(caption, ["", "first", "again", "most threads", "CPU s"]);
        let median = |name| self.results.median(0, 0, name);
        let cells = [
            figure(self.ratio("first"), 3),
            figure(self.ratio("again"), 3),
            figure(median("threads"), 0),
            figure(median("cpu"), 3),
        ];
        table.named("a crowd, ffi", cells);
        table
    }

    pub(super) fn verdicts(&self) -> Vec<Verdict> {
        let what = format!("{} calls on {} threads", self.processes, self.threads);
        vec![
            GOAL.judge(&format!("{what}, the first time"), self.ratio("first")),
            GOAL.judge(&format!("{what}, again"), self.ratio("again")),
        ]
    }
}
