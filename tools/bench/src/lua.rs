//! The experiment `lua`: the speed of plain Lua. The interpreters take turns with the same
//! programs.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail};
use serde_json::{Value, json};

use crate::bench::{Bench, progress};
use crate::chart::{Bars, Chart, Mark, Scale, Series};
use crate::child::{self, Run};
use crate::command_line::{Clock, LuaOptions};
use crate::interpreters::{Interpreter, STOCK_FLAGS};
use crate::report::Report;
use crate::stats;
use crate::table::{Table, figure};
use crate::verdict::{Goal, Verdict};

const MEAN_GOAL: Goal = Goal::at_most(1.05, "", 3);
const WORST_GOAL: Goal = Goal::at_most(1.15, "", 3);
/// A program that does almost nothing except calls from C. Each round leaves and enters the VM
/// twice.
const PCALL: &str = "pcall_loop";
const PCALL_GOAL: Goal = Goal::at_most(1.20, "", 3);
const LIMIT: Duration = Duration::from_secs(120);

/// One of our programs. Its small size is for trials, and for counting instructions, which is slow.
pub(crate) struct Program {
    pub(crate) name: &'static str,
    pub(crate) source: &'static str,
    pub(crate) small_size: u32,
}

macro_rules! programs {
    ($($name:literal $small_size:literal)*) => {
        [$(Program {
            name: $name,
            source: include_str!(concat!("../programs/lua/", $name, ".lua")),
            small_size: $small_size,
        }),*]
    };
}

static PROGRAMS: [Program; 18] = programs! {
    "binary_trees" 11
    "closures" 400
    "constraint_solver" 15
    "coroutine_ring" 900
    "fannkuch" 7
    "gsub_patterns" 5
    "json" 4
    "kernel_simulation" 4
    "metamethods" 40_000
    "method_calls" 60_000
    "n_body" 10_000
    "n_queens" 8
    "pcall_loop" 300_000
    "sort_comparator" 1
    "spectral_norm" 100
    "string_api" 6_000
    "string_building" 10
    "table_api" 30
};

/// The requested programs, or all.
pub(crate) fn chosen(options: &LuaOptions) -> Result<Vec<&'static Program>> {
    if let Some(unknown) = options
        .programs
        .iter()
        .find(|name| !PROGRAMS.iter().any(|program| program.name == **name))
    {
        let names: Vec<&str> = PROGRAMS.iter().map(|program| program.name).collect();
        bail!(
            "no program is named '{unknown}'; there are {}",
            names.join(", ")
        );
    }
    let wanted = |program: &&Program| {
        options.programs.is_empty() || options.programs.iter().any(|name| name == program.name)
    };
    Ok(PROGRAMS.iter().filter(wanted).collect())
}

/// The interpreters that were found. baton and stock must exist. If Debian's Lua is missing, the
/// second value is the reason.
pub(crate) fn arms(bench: &Bench) -> Result<(Vec<Interpreter>, Option<String>)> {
    let mut arms = vec![bench.paths.baton()?, bench.paths.stock()?];
    match bench.paths.debian() {
        Ok(debian) => arms.push(debian),
        Err(error) => return Ok((arms, Some(format!("{error:#}")))),
    }
    Ok((arms, None))
}

/// All runs of one program, by arm. After a failure, no more runs follow.
struct ProgramRuns {
    program: &'static Program,
    script: PathBuf,
    checksum: Option<String>,
    runs: Vec<Vec<Run>>,
    failure: Option<String>,
}

impl ProgramRuns {
    fn add(&mut self, arm: usize, interpreter: &Interpreter, small: bool) -> Result<()> {
        let what = format!("{} under {}", self.program.name, interpreter.name);
        let mut command = interpreter.script(&self.script);
        if small {
            command.arg(self.program.small_size.to_string());
        }
        let run = child::run(&mut command, LIMIT)?.succeeded(&what)?;
        let expected = self.checksum.get_or_insert_with(|| run.output.clone());
        if *expected != run.output {
            bail!(
                "{what} printed {:?}, where another run printed {expected:?}",
                run.output
            );
        }
        self.runs[arm].push(run);
        Ok(())
    }

    fn times(&self, arm: usize, clock: Clock) -> Vec<f64> {
        let time = |run: &Run| match clock {
            Clock::Cpu => run.cpu(),
            Clock::User => run.user,
            Clock::Wall => run.wall,
        };
        self.runs.get(arm).into_iter().flatten().map(time).collect()
    }

    fn ratio(&self, peer: usize, clock: Clock) -> Option<f64> {
        if self.failure.is_some() {
            return None;
        }
        stats::median_of_ratios(&self.times(0, clock), &self.times(peer, clock))
    }

    fn to_json(&self, arms: &[Interpreter]) -> Value {
        let by_arm = |(arm, interpreter): (usize, &Interpreter)| {
            let times = json!({
                "user": self.times(arm, Clock::User),
                "cpu": self.times(arm, Clock::Cpu),
                "wall": self.times(arm, Clock::Wall),
            });
            (interpreter.name.to_string(), times)
        };
        let arms: serde_json::Map<String, Value> = arms.iter().enumerate().map(by_arm).collect();
        json!({
            "program": self.program.name,
            "checksum": self.checksum,
            "failure": self.failure,
            "seconds": arms,
        })
    }
}

/// Runs the experiment.
pub(crate) fn run(bench: &Bench, options: &LuaOptions) -> Result<Report> {
    let programs = chosen(options)?;
    let (arms, debian_missing) = arms(bench)?;
    let samples = measure(bench, &programs, &arms, options)?;
    let mut verdicts = verdicts(&samples, "stock", 1, options.clock);
    match debian_missing {
        None => verdicts.extend(self::verdicts(&samples, "debian", 2, options.clock)),
        Some(reason) => verdicts.push(Verdict::unmet("all programs beside debian", reason)),
    }
    let failed =
        |of_one: &ProgramRuns| Some(Verdict::unmet(of_one.program.name, of_one.failure.clone()?));
    verdicts.extend(samples.iter().filter_map(failed));
    Ok(Report {
        arms: arms.iter().map(Interpreter::found).collect(),
        notes: vec![format!("stock is compiled with {STOCK_FLAGS}")],
        tables: vec![table(&samples, &arms, options)],
        charts: vec![chart(&samples, &arms, options.clock)],
        samples: samples.iter().map(|of_one| of_one.to_json(&arms)).collect(),
        verdicts,
    })
}

/// Measures all programs. The outer loop is over the rounds, and the order of the arms rotates. So
/// no arm gets the quiet moments of the machine to itself.
fn measure(
    bench: &Bench,
    programs: &[&'static Program],
    arms: &[Interpreter],
    options: &LuaOptions,
) -> Result<Vec<ProgramRuns>> {
    let start = |program: &&'static Program| {
        Ok(ProgramRuns {
            program,
            script: bench.script(program.name, program.source)?,
            checksum: None,
            runs: vec![Vec::new(); arms.len()],
            failure: None,
        })
    };
    let mut samples = programs.iter().map(start).collect::<Result<Vec<_>>>()?;
    let bar = progress(options.rounds as usize * programs.len() * arms.len());
    for round in 0..options.rounds as usize {
        for of_one in &mut samples {
            for turn in 0..arms.len() {
                let arm = (round + turn) % arms.len();
                bar.set_message(format!("{} under {}", of_one.program.name, arms[arm].name));
                if of_one.failure.is_none() {
                    of_one.failure = of_one
                        .add(arm, &arms[arm], options.small)
                        .err()
                        .map(|error| format!("{error:#}"));
                }
                bar.inc(1);
            }
        }
    }
    bar.finish_and_clear();
    Ok(samples)
}

fn table(samples: &[ProgramRuns], arms: &[Interpreter], options: &LuaOptions) -> Table {
    let caption = format!(
        "median {} time in ms; ratios are medians of {} rounds",
        options.clock.name(),
        options.rounds
    );
    let mut header = vec!["program"];
    header.extend(arms.iter().map(|arm| arm.name));
    header.push("baton/stock");
    if arms.len() > 2 {
        header.push("baton/debian");
    }
    header.push("wall b/s");
    let mut table = Table::new(caption, &header);
    for of_one in samples {
        let median =
            |arm| stats::median(&of_one.times(arm, options.clock)).map(|seconds| seconds * 1e3);
        let mut row = vec![of_one.program.name.to_string()];
        row.extend((0..arms.len()).map(|arm| figure(median(arm), 1)));
        row.extend((1..arms.len()).map(|peer| figure(of_one.ratio(peer, options.clock), 3)));
        row.push(figure(of_one.ratio(1, Clock::Wall), 3));
        table.row(row);
    }
    let mut mean = vec!["geometric mean".to_string()];
    mean.extend(arms.iter().map(|_| String::new()));
    mean.extend(
        (1..arms.len()).map(|peer| figure(geometric_mean(samples, peer, options.clock), 3)),
    );
    mean.push(figure(geometric_mean(samples, 1, Clock::Wall), 3));
    table.row(mean);
    table
}

/// A chart of the ratios as bars from 1. The mean is below the programs.
fn chart(samples: &[ProgramRuns], arms: &[Interpreter], clock: Clock) -> Chart {
    let mut rows: Vec<String> = samples
        .iter()
        .map(|of_one| of_one.program.name.to_string())
        .collect();
    rows.push("geometric mean".to_string());
    let series = (1..arms.len()).map(|peer| {
        let ratios = samples.iter().map(|of_one| of_one.ratio(peer, clock));
        Series {
            name: format!("baton / {}", arms[peer].name),
            values: ratios
                .chain([geometric_mean(samples, peer, clock)])
                .collect(),
        }
    });
    let mark = |name: &str, goal: Goal| Mark {
        name: name.to_string(),
        at: goal.limit(),
    };
    Chart::Bars(Bars {
        title: "The price of plain Lua under Baton".to_string(),
        label: format!("{} time relative to the peer; less is better", clock.name()),
        scale: Scale::Linear,
        baseline: Some(1.0),
        marks: vec![
            mark("mean at most", MEAN_GOAL),
            mark("each at most", WORST_GOAL),
        ],
        digits: 3,
        rows,
        series: series.collect(),
    })
}

fn ratios(samples: &[ProgramRuns], peer: usize, clock: Clock) -> Vec<f64> {
    samples
        .iter()
        .filter_map(|of_one| of_one.ratio(peer, clock))
        .collect()
}

fn geometric_mean(samples: &[ProgramRuns], peer: usize, clock: Clock) -> Option<f64> {
    stats::geometric_mean(&ratios(samples, peer, clock))
}

fn verdicts(samples: &[ProgramRuns], peer_name: &str, peer: usize, clock: Clock) -> Vec<Verdict> {
    let mean = geometric_mean(samples, peer, clock);
    let mut verdicts = vec![MEAN_GOAL.judge(&format!("geometric mean of baton/{peer_name}"), mean)];
    let of_program = |of_one: &ProgramRuns| Some((of_one.ratio(peer, clock)?, of_one.program.name));
    let (pcall, others): (Vec<_>, Vec<_>) = samples
        .iter()
        .filter_map(of_program)
        .partition(|(_, name)| *name == PCALL);
    let worst = others
        .iter()
        .max_by(|left, right| left.0.total_cmp(&right.0));
    if let Some((ratio, name)) = worst {
        verdicts.push(WORST_GOAL.judge(&format!("worst baton/{peer_name}, {name},"), Some(*ratio)));
    }
    if let Some((ratio, name)) = pcall.first() {
        verdicts.push(PCALL_GOAL.judge(&format!("baton/{peer_name}, {name},"), Some(*ratio)));
    }
    verdicts
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    fn samples(name: &str, ours: f64, stock: f64) -> ProgramRuns {
        let run = |seconds| Run {
            wall: seconds,
            user: seconds,
            system: 0.0,
            output: String::new(),
            errors: String::new(),
            status: ExitStatus::from_raw(0),
        };
        ProgramRuns {
            program: PROGRAMS
                .iter()
                .find(|program| program.name == name)
                .expect("a program of ours"),
            script: PathBuf::new(),
            checksum: None,
            runs: vec![vec![run(ours)], vec![run(stock)]],
            failure: None,
        }
    }

    #[test]
    fn the_bare_pcall_loop_has_a_limit_of_its_own() {
        let all = [samples(PCALL, 1.18, 1.0), samples("n_body", 1.02, 1.0)];
        let lines: Vec<String> = verdicts(&all, "stock", 1, Clock::Cpu)
            .iter()
            .map(ToString::to_string)
            .collect();
        assert!(
            lines[1].starts_with("met     worst baton/stock, n_body, <= 1.15"),
            "{lines:?}"
        );
        assert!(
            lines[2].starts_with("met     baton/stock, pcall_loop, <= 1.2"),
            "{lines:?}"
        );
        let slow = [samples("n_body", 1.18, 1.0)];
        assert!(
            verdicts(&slow, "stock", 1, Clock::Cpu)[1]
                .to_string()
                .starts_with("MISSED")
        );
    }

    #[test]
    fn programs_are_listed_once_and_in_order() {
        assert!(PROGRAMS.windows(2).all(|pair| pair[0].name < pair[1].name));
    }
}
