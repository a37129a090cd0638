//! The experiment `threads`: bursts of blocking calls, with native threads made on demand or in
//! advance, and with limits on their number.

mod crowd;

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use serde_json::json;

use crate::bench::Bench;
use crate::calls::DIRECTORY;
use crate::chart::Lines;
use crate::command_line::ThreadsOptions;
use crate::contest::{Arm, Case, Contest, Results};
use crate::interpreters::Interpreter;
use crate::report::{Report, notes};
use crate::stats;
use crate::table::{Table, figure};
use crate::verdict::Verdict;

use crowd::Crowd;

const LIMIT: Duration = Duration::from_secs(180);

/// The numbers of processes that make a call at once.
const BURSTS: [u64; 7] = [1, 3, 10, 30, 100, 300, 1000];

/// The limit on the number of native threads.
#[derive(Clone, Copy)]
enum Bound {
    /// One more than the largest burst: a thread for each call, and one for the other processes.
    Enough,
    Fixed(u64),
    Default,
}

/// One way to provide native threads.
struct ThreadSetup {
    name: &'static str,
    /// The way to call C, and the time at which threads are made.
    words: &'static [&'static str],
    bound: Bound,
    /// The time for which an unused thread is kept; `None` is the default.
    idle: Option<&'static str>,
}

const LAZY: &[&str] = &["module", DIRECTORY, "lazy"];

const WAYS: [ThreadSetup; 8] = [
    ThreadSetup {
        words: &["module", DIRECTORY, "eager"],
        ..lazy("eager, enough", Bound::Enough)
    },
    lazy("lazy, enough", Bound::Enough),
    ThreadSetup {
        idle: Some("0"),
        ..lazy("lazy, ended at once", Bound::Enough)
    },
    lazy("lazy, up to 256", Bound::Fixed(256)),
    lazy("lazy, up to 64", Bound::Fixed(64)),
    lazy("lazy, up to 16", Bound::Fixed(16)),
    lazy("lazy, defaults", Bound::Default),
    ThreadSetup {
        words: &["ffi", DIRECTORY, "lazy"],
        ..lazy("lazy, defaults, ffi", Bound::Default)
    },
];

const NOTES: [&str; 5] = [
    "in a burst, many processes make one blocking call each, at the same time; there are two \
     bursts. 1 is the length of a call: no process waited for another",
    "eager: as many threads as the limit allows are made before the first burst; lazy: a thread is \
     made when a long call makes other processes wait",
    "up to: max_threads; only that many calls run at once, and the others wait; enough is one more \
     than the largest burst",
    "ended at once: thread_idle is 0; otherwise an unused thread is kept for 10 s",
    "ffi: calls by baton.ffi, which learns that they are long and offloads them; the others call a \
     C module, and each call is retaken",
];

const fn lazy(name: &'static str, bound: Bound) -> ThreadSetup {
    ThreadSetup {
        name,
        words: LAZY,
        bound,
        idle: None,
    }
}

impl ThreadSetup {
    fn bound(&self, options: &ThreadsOptions) -> Option<u64> {
        match self.bound {
            Bound::Enough => Some(options.largest + 1),
            Bound::Fixed(bound) => Some(bound),
            Bound::Default => None,
        }
    }

    fn arm(&self, baton: &Interpreter, script: &Path, options: &ThreadsOptions) -> Arm {
        let mut arm = Arm::interpreted(self.name, baton, script, self.words);
        if let Some(bound) = self.bound(options) {
            arm = arm.with("BATON_MAX_THREADS", bound.to_string());
        }
        if let Some(idle) = self.idle {
            arm = arm.with("BATON_THREAD_IDLE", idle);
        }
        arm
    }
}

/// Runs the experiment.
pub(crate) fn run(bench: &Bench, options: &ThreadsOptions) -> Result<Report> {
    let baton = bench.paths.baton()?;
    let script = bench.script("threads", include_str!("../programs/threads.lua"))?;
    let results = Contest {
        arms: WAYS
            .iter()
            .map(|way| way.arm(&baton, &script, options))
            .collect(),
        cases: cases(options),
        rounds: options.rounds,
        figure: "again",
        limit: LIMIT,
    }
    .run();
    let crowd = Crowd::run(&baton, &script, options);
    let length = options.milliseconds as f64 / 1e3;
    let in_lengths = |arm, case, name| Some(results.median(arm, case, name)? / length);
    let table = |caption, name| {
        let cell = |arm, case| Some(figure(in_lengths(arm, case, name)?, 3));
        results.by_arm(caption, "threads", cell)
    };
    let arms: Vec<usize> = (0..WAYS.len()).collect();
    let chart = |title, name| {
        let chart = Lines::log(title, "calls at once", "elapsed time in lengths of a call");
        results.lines(chart, &arms, |arm, case| in_lengths(arm, case, name))
    };
    let mut verdicts = vec![bound_is_kept(&results, options)];
    verdicts.extend(crowd.verdicts());
    let mut report = results.complete(Report {
        notes: notes(&NOTES),
        tables: vec![
            table("the first burst, in lengths of a call", "first"),
            table("another burst after it, in lengths of a call", "again"),
            costs(&results),
            crowd.table(),
        ],
        charts: vec![
            chart("The first burst of calls", "first"),
            chart("Another burst of calls", "again"),
        ],
        verdicts,
        ..Report::default()
    });
    report.arms = vec![baton.found()];
    report.verdicts.extend(crowd.results.failures());
    report.samples = json!({"bursts": report.samples, "crowd": crowd.results.to_json()});
    Ok(report)
}

fn cases(options: &ThreadsOptions) -> Vec<Case> {
    let bursts = BURSTS.into_iter().filter(|burst| *burst <= options.largest);
    let case = |burst: u64| {
        Case::new(
            burst,
            format!("{burst} calls"),
            &[&burst, &options.milliseconds],
        )
    };
    bursts.map(case).collect()
}

/// A table of what the threads cost, at the largest burst.
fn costs(results: &Results) -> Table {
    let largest = results.cases.len() - 1;
    let caption = format!("what that takes, at {}", results.cases[largest].title);
    let header = [
        "threads",
        "most at once",
        "started",
        "beforehand s",
        "CPU s",
        "MiB more",
    ];
    let mut table = Table::new(caption, header);
    for (arm, of_arm) in results.arms.iter().enumerate() {
        let median = |name| results.median(arm, largest, name);
        let memory = median("kib")
            .zip(median("base_kib"))
            .map(|(with, base)| (with - base) / 1024.0);
        let cells = [
            figure(median("threads"), 0),
            figure(median("started"), 0),
            figure(median("beforehand"), 3),
            figure(median("cpu"), 3),
            figure(memory, 1),
        ];
        table.named(of_arm.name, cells);
    }
    table
}

/// The number of threads that may exist beyond the calls. One runs the VM; the others serve calls
/// that begin to block late.
const MOST_ABOVE_THE_BOUND: u64 = 5;

/// Checks that no run ever had more threads than it was allowed.
fn bound_is_kept(results: &Results, options: &ThreadsOptions) -> Verdict {
    let most = |arm: usize| {
        let of_cases =
            (0..results.cases.len()).flat_map(|case| results.values(arm, case, "threads"));
        stats::maximum(&of_cases.collect::<Vec<_>>())
    };
    let keeps = |(arm, way): (usize, &ThreadSetup)| match (way.bound(options), most(arm)) {
        (Some(bound), Some(most)) => most <= (bound + MOST_ABOVE_THE_BOUND) as f64,
        _ => true,
    };
    Verdict::holds(
        "no more native threads than max_threads and five, in any run",
        WAYS.iter().enumerate().all(keeps),
    )
}
