//! The experiment `scale`: the time and memory of many sleeping processes, and the pauses that the
//! collector causes.

use std::time::Duration;

use anyhow::Result;

use crate::bench::Bench;
use crate::chart::{Chart, Lines};
use crate::command_line::ScaleOptions;
use crate::contest::{Arm, Case, Contest, Results, steps_up_to};
use crate::machine;
use crate::peers::{self, ERLANG_OTP, GO};
use crate::report::{Report, notes};
use crate::stats;
use crate::table::{Table, figure, figure_in};
use crate::verdict::{Goal, Verdict};

const STEPS: [u64; 4] = [1_000, 10_000, 100_000, 1_000_000];
const MEMORY_GOALS: [(u64, Goal); 2] = [
    (100_000, Goal::at_most(1.0, " GiB", 2)),
    (1_000_000, Goal::at_most(9.0, " GiB", 2)),
];
const TIME_GOAL: Goal = Goal::at_most(5.0, " us", 2);
const KIB_PER_GIB: f64 = 1024.0 * 1024.0;
const LIMIT: Duration = Duration::from_secs(600);

/// The ways in which baton's processes end. They wait for an event and are released together, or
/// are killed one by one while they sleep. These are the first two arms.
const ENDINGS: [(&str, &str); 2] = [("baton", "release"), ("baton, killed", "kill")];

const NOTES: [&str; 2] = [
    "baton's processes sleep or wait with a timeout, Go's and Erlang's wait without one; Lua: \
     stock Lua's coroutines",
    "Lua's times are CPU time, as stock Lua has no finer clock; the others' are elapsed time",
];

/// Runs the experiment.
pub(crate) fn run(bench: &Bench, options: &ScaleOptions) -> Result<Report> {
    let counts = steps_up_to(&STEPS, options.max).into_iter();
    let (tried, too_many): (Vec<u64>, Vec<u64>) =
        counts.partition(|&processes| too_little_memory(processes).is_none());
    let results = Contest {
        arms: arms(bench)?,
        cases: tried.iter().map(|&processes| case(processes)).collect(),
        rounds: options.rounds,
        figure: "spawn_us",
        limit: LIMIT,
    }
    .run();
    let mut report = results.complete(Report {
        notes: notes(&NOTES),
        tables: vec![
            beside_peers(&results),
            costs(&results, options.rounds),
            pauses(&results),
        ],
        charts: charts(&results),
        verdicts: verdicts(&results),
        ..Report::default()
    });
    let refused = too_many.into_iter().filter_map(|processes| {
        let what = format!("{processes} sleeping processes");
        Some(Verdict::unmet(&what, too_little_memory(processes)?))
    });
    report.verdicts.extend(refused);
    Ok(report)
}

fn arms(bench: &Bench) -> Result<Vec<Arm>> {
    let (baton, stock) = (bench.paths.baton()?, bench.paths.stock()?);
    let processes = bench.script("scale", include_str!("../programs/scale.lua"))?;
    let coroutines = bench.script(
        "coroutine_scale",
        include_str!("../programs/coroutine_scale.lua"),
    )?;
    let peers = peers::directory(bench.paths.peers.as_ref())?;
    Ok(vec![
        Arm::interpreted(ENDINGS[0].0, &baton, &processes, &[ENDINGS[0].1]),
        Arm::interpreted(ENDINGS[1].0, &baton, &processes, &[ENDINGS[1].1]),
        Arm::interpreted("Lua", &stock, &coroutines, &[]),
        GO.arm(&peers, &["scale"]),
        ERLANG_OTP.arm(&peers, &["scale"]),
    ])
}

fn case(processes: u64) -> Case {
    Case::new(processes, format!("{processes} processes"), &[&processes])
}

/// The reason why a step is not tried, if its memory goal exceeds the free memory.
fn too_little_memory(processes: u64) -> Option<String> {
    let available = machine::memory_kib("MemAvailable")? as f64 / KIB_PER_GIB;
    let needed = processes as f64 / 1e6 * 9.5;
    (available < needed)
        .then(|| format!("it may need {needed:.1} GiB, and {available:.1} GiB are free"))
}

/// Resident memory and page tables together, in GiB. Resident memory does not include page tables.
fn memory_gib(results: &Results, arm: usize, case: usize) -> Option<f64> {
    let kib = results.median(arm, case, "rss_kib")? + results.median(arm, case, "pte_kib")?;
    Some(kib / KIB_PER_GIB)
}

/// The memory that each process added to the program, in KiB.
fn each_kib(results: &Results, arm: usize, case: usize) -> Option<f64> {
    let processes: f64 = results.cases[case].name.parse().ok()?;
    let grown =
        memory_gib(results, arm, case)? * KIB_PER_GIB - results.median(arm, case, "base_kib")?;
    Some(grown / processes)
}

/// A table with a row for each system, and a group of columns for each number of processes.
fn beside_peers(results: &Results) -> Table {
    let caption = "what each process adds to memory, page tables included (KiB), and takes to \
                   spawn and to end (us)";
    let titles = results
        .cases
        .iter()
        .flat_map(|case| [&format!("KiB at {}", case.name), "spawn", "end"].map(str::to_string));
    let mut table = Table::new(caption, ["system".to_string()].into_iter().chain(titles));
    for (arm, of_arm) in results.arms.iter().enumerate() {
        let cells = results
            .all_cases()
            .flat_map(|case| match each_kib(results, arm, case) {
                None => [results.gap(arm, case), "-", "-"].map(str::to_string),
                memory => [
                    figure(memory, 2),
                    figure(results.median(arm, case, "spawn_us"), 2),
                    figure(results.median(arm, case, "end_us"), 2),
                ],
            });
        table.named(of_arm.name, cells);
    }
    for (arm, of_arm) in results.arms.iter().enumerate().skip(ENDINGS.len()) {
        let cells = results.all_cases().flat_map(|case| {
            let memory = || Some(each_kib(results, 0, case)? / each_kib(results, arm, case)?);
            let time = |name| results.ratio((0, case), (arm, case), name);
            [memory(), time("spawn_us"), time("end_us")].map(|ratio| figure_in(ratio, 2, "x"))
        });
        table.named(format!("baton / {}", of_arm.name), cells);
    }
    table
}

/// Every step of baton's arms: the indices of arm and case, and the names in its row.
fn steps(results: &Results) -> impl Iterator<Item = (usize, usize, [String; 2])> {
    (0..results.cases.len()).flat_map(move |case| {
        let name = move |arm: usize| [results.cases[case].name.clone(), ENDINGS[arm].1.to_string()];
        (0..ENDINGS.len()).map(move |arm| (arm, case, name(arm)))
    })
}

fn costs(results: &Results, rounds: u32) -> Table {
    let header = [
        "processes",
        "end by",
        "spawn call",
        "spawn",
        "end",
        "RSS",
        "PSS",
        "page tables",
        "total GiB",
        "after GiB",
    ];
    let caption = format!(
        "baton: time in us and memory in KiB per process, the program itself included; spawning \
         lasts until all sleep; \
         medians of {rounds} rounds"
    );
    let mut costs = Table::new(caption, header);
    for (arm, case, [processes, ending]) in steps(results) {
        let of_step = |name: &str| results.median(arm, case, name);
        let count: Option<f64> = processes.parse().ok();
        let each = |name: &str| Some(of_step(name)? / count?);
        let cells = [
            ending,
            figure(of_step("spawn_call_us"), 2),
            figure(of_step("spawn_us"), 2),
            figure(of_step("end_us"), 2),
            figure(each("rss_kib"), 2),
            figure(each("pss_kib"), 2),
            figure(each("pte_kib"), 3),
            figure(memory_gib(results, arm, case), 3),
            figure(of_step("after_kib").map(|kib| kib / KIB_PER_GIB), 3),
        ];
        costs.named(processes, cells);
    }
    costs
}

fn pauses(results: &Results) -> Table {
    let caption = "baton: longest collector pause in ms, and how late a 1 ms ticker at priority 60 \
                   was beside it";
    let header = [
        "processes",
        "end by",
        "step",
        "late",
        "young",
        "late",
        "full",
    ];
    let mut pauses = Table::new(caption, header);
    let names = [
        "pause_step_ms",
        "late_step_ms",
        "pause_young_ms",
        "late_young_ms",
        "pause_full_ms",
    ];
    for (arm, case, name) in steps(results) {
        let figures = names.map(|name| figure(results.median(arm, case, name), 2));
        pauses.row(name.into_iter().chain(figures));
    }
    pauses
}

fn charts(results: &Results) -> Vec<Chart> {
    // Baton's second arm differs only in how its processes end, which neither chart shows.
    let arms: Vec<usize> = (0..results.arms.len()).filter(|&arm| arm != 1).collect();
    let memory = Lines::log("Memory of a waiting process", "processes", "KiB each");
    let time = Lines::log(
        "Time to spawn a process",
        "processes",
        "us each, until all wait",
    );
    vec![
        results.lines(memory, &arms, |arm, case| each_kib(results, arm, case)),
        results.lines(time, &arms, |arm, case| {
            results.median(arm, case, "spawn_us")
        }),
    ]
}

fn verdicts(results: &Results) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for (processes, goal) in MEMORY_GOALS {
        if let Some(case) = results.case(&processes.to_string()) {
            let memory: Option<Vec<f64>> = (0..ENDINGS.len())
                .map(|arm| memory_gib(results, arm, case))
                .collect();
            let worst = memory.and_then(|gib| stats::maximum(&gib));
            let what = format!("{processes} sleeping processes, resident and page tables");
            verdicts.push(goal.judge(&what, worst));
        }
    }
    for (arm, case, [processes, ending]) in steps(results) {
        for (name, what) in [("spawn_us", "to spawn each"), ("end_us", "to end each")] {
            let what = format!("{processes} processes ({ending}): {what}");
            verdicts.push(TIME_GOAL.judge(&what, results.median(arm, case, name)));
        }
    }
    verdicts
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn page_tables_count_as_memory_and_what_was_there_before_does_not_count_for_a_process() {
        let arm = || {
            Arm::present("trial", || {
                let mut command = Command::new("echo");
                command.arg(
                    "{\"rss_kib\": 9000000, \"pte_kib\": 600000, \"base_kib\": \
                             600000, \"spawn_us\": 4, \"end_us\": 6}\n",
                );
                command
            })
        };
        let contest = Contest {
            arms: vec![arm(), arm()],
            cases: vec![Case {
                arguments: Vec::new(),
                ..case(1_000_000)
            }],
            rounds: 1,
            figure: "spawn_us",
            limit: LIMIT,
        };
        let results = contest.run();
        assert_eq!(each_kib(&results, 0, 0).map(f64::round), Some(9.0));
        let lines: Vec<String> = verdicts(&results).iter().map(ToString::to_string).collect();
        assert!(
            lines[0].starts_with("MISSED") && lines[0].contains("9.16 GiB"),
            "{lines:?}"
        );
        assert!(
            lines[1].starts_with("met") && lines[2].starts_with("MISSED"),
            "{lines:?}"
        );
    }
}
