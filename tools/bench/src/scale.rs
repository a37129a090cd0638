//! Many sleeping processes: what each costs in time and memory, and how long the collector stops everybody.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};

use crate::bench::{Bench, Report, progress};
use crate::child::{self, figures};
use crate::command_line::ScaleOptions;
use crate::interpreters::Interpreter;
use crate::machine;
use crate::stats;
use crate::table::{Table, figure};
use crate::verdict::{Goal, Verdict};

const STEPS: [u64; 4] = [1_000, 10_000, 100_000, 1_000_000];
const MEMORY_GOALS: [(u64, Goal); 2] = [
    (100_000, Goal::at_most(1.0, " GiB", 2)),
    (1_000_000, Goal::at_most(9.0, " GiB", 2)),
];
const TIME_GOAL: Goal = Goal::at_most(5.0, " us", 2);
const KIB_PER_GIB: f64 = 1024.0 * 1024.0;
const LIMIT: Duration = Duration::from_secs(600);

/// How the processes end: killed one by one while they sleep, or released together by an event they wait for.
const ENDINGS: [&str; 2] = ["kill", "release"];

/// One child: so many processes, ended in one of the two ways.
struct Step {
    processes: u64,
    ending: &'static str,
    figures: BTreeMap<String, Vec<f64>>,
}

impl Step {
    fn get(&self, name: &str) -> Option<f64> {
        self.figures.get(name)?.first().copied()
    }

    /// Resident memory and page tables together; the latter are not part of the former.
    fn memory_kib(&self) -> Option<f64> {
        Some(self.get("rss_kib")? + self.get("pte_kib")?)
    }

    fn each_kib(&self, name: &str) -> Option<f64> {
        Some(self.get(name)? / self.processes as f64)
    }

    fn to_json(&self) -> Value {
        json!({"processes": self.processes, "ending": self.ending, "figures": self.figures})
    }
}

/// Runs the experiment.
pub(crate) fn run(bench: &Bench, options: &ScaleOptions) -> Result<Report> {
    let baton = bench.paths.baton()?;
    let script = bench.script("scale", include_str!("../programs/scale.lua"))?;
    let counts = counts(options.max);
    let (mut steps, mut failed) = (Vec::new(), Vec::new());
    let bar = progress(counts.len() * ENDINGS.len());
    for &processes in &counts {
        if let Some(reason) = too_little_memory(processes) {
            failed.push(Verdict::unmet(&format!("{processes} sleeping processes"), reason));
            continue;
        }
        for ending in ENDINGS {
            bar.set_message(format!("{processes} processes, {ending}"));
            match measure(&baton, &script, processes, ending) {
                Ok(step) => steps.push(step),
                Err(error) => failed.push(Verdict::unmet(
                    &format!("{processes} processes ({ending})"),
                    format!("{error:#}"),
                )),
            }
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    print_tables(&steps);
    let mut verdicts = verdicts(&steps);
    verdicts.extend(failed);
    Ok(Report {
        samples: steps.iter().map(Step::to_json).collect(),
        verdicts,
    })
}

fn counts(max: u64) -> Vec<u64> {
    let mut counts: Vec<u64> = STEPS.into_iter().filter(|&step| step < max).collect();
    counts.push(max);
    counts
}

/// A step is not tried where its memory goal would not fit into what is free.
fn too_little_memory(processes: u64) -> Option<String> {
    let available = machine::memory_kib("MemAvailable")? as f64 / KIB_PER_GIB;
    let needed = processes as f64 / 1e6 * 9.5;
    (available < needed).then(|| format!("it may need {needed:.1} GiB, and {available:.1} GiB are free"))
}

fn measure(baton: &Interpreter, script: &Path, processes: u64, ending: &'static str) -> Result<Step> {
    let what = format!("{processes} processes ({ending})");
    let mut command = baton.script(script);
    command.arg(processes.to_string()).arg(ending);
    let run = child::run(&mut command, LIMIT)?.succeeded(&what)?;
    Ok(Step {
        processes,
        ending,
        figures: figures(&run.output),
    })
}

fn print_tables(steps: &[Step]) {
    println!("time in us and memory in KiB per process; spawning lasts until all sleep");
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
    let mut costs = Table::new(&header);
    for step in steps {
        costs.row([
            step.processes.to_string(),
            step.ending.to_string(),
            figure(step.get("spawn_call_us"), 2, ""),
            figure(step.get("spawn_us"), 2, ""),
            figure(step.get("end_us"), 2, ""),
            figure(step.each_kib("rss_kib"), 2, ""),
            figure(step.each_kib("pss_kib"), 2, ""),
            figure(step.each_kib("pte_kib"), 3, ""),
            figure(step.memory_kib().map(|kib| kib / KIB_PER_GIB), 3, ""),
            figure(step.get("after_kib").map(|kib| kib / KIB_PER_GIB), 3, ""),
        ]);
    }
    println!("{costs}");
    println!("longest collector pause in ms, and how late a 1 ms ticker at priority 60 was beside it");
    let mut pauses = Table::new(&["processes", "end by", "step", "late", "young", "late", "full"]);
    for step in steps {
        let names = [
            "pause_step_ms",
            "late_step_ms",
            "pause_young_ms",
            "late_young_ms",
            "pause_full_ms",
        ];
        let mut row = vec![step.processes.to_string(), step.ending.to_string()];
        row.extend(names.iter().map(|name| figure(step.get(name), 2, "")));
        pauses.row(row);
    }
    print!("{pauses}");
}

fn verdicts(steps: &[Step]) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for (processes, goal) in MEMORY_GOALS {
        let of_count: Vec<&Step> = steps.iter().filter(|step| step.processes == processes).collect();
        if !of_count.is_empty() {
            let memory: Option<Vec<f64>> = of_count.iter().map(|step| step.memory_kib()).collect();
            let worst = memory.and_then(|kib| stats::maximum(&kib)).map(|kib| kib / KIB_PER_GIB);
            let what = format!("{processes} sleeping processes, resident and page tables");
            verdicts.push(goal.judge(&what, worst));
        }
    }
    for step in steps {
        for (name, what) in [("spawn_us", "to spawn each"), ("end_us", "to end each")] {
            let what = format!("{} processes ({}): {what}", step.processes, step.ending);
            verdicts.push(TIME_GOAL.judge(&what, step.get(name)));
        }
    }
    verdicts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_go_up_to_the_largest_number_and_end_there() {
        assert_eq!(counts(1_000_000), [1_000, 10_000, 100_000, 1_000_000]);
        assert_eq!(counts(50_000), [1_000, 10_000, 50_000]);
        assert_eq!(counts(7), [7]);
    }

    #[test]
    fn page_tables_count_as_memory() {
        let figures = figures("rss_kib 9000000\npte_kib 600000\nspawn_us 4\nend_us 6\n");
        let step = Step {
            processes: 1_000_000,
            ending: "kill",
            figures,
        };
        let lines: Vec<String> = verdicts(&[step]).iter().map(ToString::to_string).collect();
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
