//! The price of plain Lua: the same programs under every interpreter, interleaved.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail};
use serde_json::{Value, json};

use crate::bench::{Bench, Report, progress};
use crate::child::{self, Run};
use crate::command_line::{Clock, LuaOptions};
use crate::interpreters::{Interpreter, STOCK_FLAGS};
use crate::stats;
use crate::table::{Table, figure};
use crate::verdict::{Goal, Verdict};

const MEAN_GOAL: Goal = Goal::at_most(1.05, "", 3);
const WORST_GOAL: Goal = Goal::at_most(1.20, "", 3);
const LIMIT: Duration = Duration::from_secs(120);

/// One program of ours. Its size for counting instructions is smaller, since counting is slow.
pub(crate) struct Program {
    pub(crate) name: &'static str,
    pub(crate) source: &'static str,
    pub(crate) count_size: u32,
}

macro_rules! programs {
    ($($name:literal $count_size:literal)*) => {
        [$(Program {
            name: $name,
            source: include_str!(concat!("../programs/lua/", $name, ".lua")),
            count_size: $count_size,
        }),*]
    };
}

static PROGRAMS: [Program; 16] = programs! {
    "binary_trees" 11
    "closures" 400
    "coroutine_ring" 900
    "fannkuch" 7
    "gsub_patterns" 5
    "metamethods" 40_000
    "method_calls" 60_000
    "n_body" 10_000
    "n_queens" 8
    "parse_json" 12
    "pcall_loop" 300_000
    "sort_comparator" 1
    "spectral_norm" 100
    "string_api" 6_000
    "string_building" 10
    "table_api" 30
};

/// The programs that were asked for, or all.
pub(crate) fn chosen(options: &LuaOptions) -> Result<Vec<&'static Program>> {
    if let Some(unknown) = options
        .programs
        .iter()
        .find(|name| !PROGRAMS.iter().any(|program| program.name == **name))
    {
        let names: Vec<&str> = PROGRAMS.iter().map(|program| program.name).collect();
        bail!("no program is named '{unknown}'; there are {}", names.join(", "));
    }
    let wanted =
        |program: &&Program| options.programs.is_empty() || options.programs.iter().any(|name| name == program.name);
    Ok(PROGRAMS.iter().filter(wanted).collect())
}

/// The arms that were found: baton and stock must be there, Debian's may be missing, with the reason.
pub(crate) fn arms(bench: &Bench) -> Result<(Vec<Interpreter>, Option<String>)> {
    let mut arms = vec![bench.paths.baton()?, bench.paths.stock()?];
    match bench.paths.debian() {
        Ok(debian) => arms.push(debian),
        Err(error) => return Ok((arms, Some(format!("{error:#}")))),
    }
    Ok((arms, None))
}

/// All runs of one program, by arm, up to a failure.
struct Samples {
    program: &'static Program,
    script: PathBuf,
    checksum: Option<String>,
    runs: Vec<Vec<Run>>,
    failure: Option<String>,
}

impl Samples {
    fn add(&mut self, arm: usize, interpreter: &Interpreter) -> Result<()> {
        let what = format!("{} under {}", self.program.name, interpreter.name);
        let run = child::run(&mut interpreter.script(&self.script), LIMIT)?.succeeded(&what)?;
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
        json!({"program": self.program.name, "checksum": self.checksum, "failure": self.failure, "seconds": arms})
    }
}

/// Runs the experiment.
pub(crate) fn run(bench: &Bench, options: &LuaOptions) -> Result<Report> {
    let programs = chosen(options)?;
    if options.list {
        programs.iter().for_each(|program| println!("{}", program.name));
        return Ok(Report {
            samples: Value::Null,
            verdicts: Vec::new(),
        });
    }
    let (arms, debian_missing) = arms(bench)?;
    for arm in &arms {
        println!("{:<6}  {}  {}", arm.name, arm.version, arm.path.display());
    }
    println!("stock is compiled with {STOCK_FLAGS}");
    let samples = measure(bench, &programs, &arms, options.rounds)?;
    print_table(&samples, &arms, options);
    let mut verdicts = verdicts(&samples, "stock", 1, options.clock);
    match debian_missing {
        None => verdicts.extend(self::verdicts(&samples, "debian", 2, options.clock)),
        Some(reason) => verdicts.push(Verdict::unmet(
            "geometric mean and worst program against debian",
            reason,
        )),
    }
    let failed = |of_one: &Samples| Some(Verdict::unmet(of_one.program.name, of_one.failure.clone()?));
    verdicts.extend(samples.iter().filter_map(failed));
    Ok(Report {
        samples: samples.iter().map(|of_one| of_one.to_json(&arms)).collect(),
        verdicts,
    })
}

/// Rounds are outermost and the order of the arms rotates, so that no arm has the quiet moments to itself.
fn measure(bench: &Bench, programs: &[&'static Program], arms: &[Interpreter], rounds: u32) -> Result<Vec<Samples>> {
    let start = |program: &&'static Program| {
        Ok(Samples {
            program,
            script: bench.script(program.name, program.source)?,
            checksum: None,
            runs: vec![Vec::new(); arms.len()],
            failure: None,
        })
    };
    let mut samples = programs.iter().map(start).collect::<Result<Vec<_>>>()?;
    let bar = progress(rounds as usize * programs.len() * arms.len());
    for round in 0..rounds as usize {
        for of_one in &mut samples {
            for turn in 0..arms.len() {
                let arm = (round + turn) % arms.len();
                bar.set_message(format!("{} under {}", of_one.program.name, arms[arm].name));
                if of_one.failure.is_none() {
                    of_one.failure = of_one.add(arm, &arms[arm]).err().map(|error| format!("{error:#}"));
                }
                bar.inc(1);
            }
        }
    }
    bar.finish_and_clear();
    Ok(samples)
}

fn print_table(samples: &[Samples], arms: &[Interpreter], options: &LuaOptions) {
    println!(
        "\nmedian {} time in ms; ratios are medians of {} rounds",
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
    let mut table = Table::new(&header);
    for of_one in samples {
        let median = |arm| stats::median(&of_one.times(arm, options.clock)).map(|seconds| seconds * 1e3);
        let mut row = vec![of_one.program.name.to_string()];
        row.extend((0..arms.len()).map(|arm| figure(median(arm), 1, "")));
        row.extend((1..arms.len()).map(|peer| figure(of_one.ratio(peer, options.clock), 3, "")));
        row.push(figure(of_one.ratio(1, Clock::Wall), 3, ""));
        table.row(row);
    }
    let mut mean = vec!["geometric mean".to_string()];
    mean.extend(arms.iter().map(|_| String::new()));
    mean.extend((1..arms.len()).map(|peer| figure(geometric_mean(samples, peer, options.clock), 3, "")));
    mean.push(figure(geometric_mean(samples, 1, Clock::Wall), 3, ""));
    table.row(mean);
    print!("{table}");
}

fn ratios(samples: &[Samples], peer: usize, clock: Clock) -> Vec<f64> {
    samples.iter().filter_map(|of_one| of_one.ratio(peer, clock)).collect()
}

fn geometric_mean(samples: &[Samples], peer: usize, clock: Clock) -> Option<f64> {
    stats::geometric_mean(&ratios(samples, peer, clock))
}

fn verdicts(samples: &[Samples], peer_name: &str, peer: usize, clock: Clock) -> Vec<Verdict> {
    let worst = samples
        .iter()
        .filter_map(|of_one| Some((of_one.ratio(peer, clock)?, of_one.program.name)))
        .max_by(|left, right| left.0.total_cmp(&right.0));
    let name = worst.map_or("none", |(_, name)| name);
    let mean = geometric_mean(samples, peer, clock);
    vec![
        MEAN_GOAL.judge(&format!("geometric mean of baton/{peer_name}"), mean),
        WORST_GOAL.judge(
            &format!("worst baton/{peer_name}, {name},"),
            worst.map(|(ratio, _)| ratio),
        ),
    ]
}
