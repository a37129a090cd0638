//! The experiment `lua`: the speed of plain Lua. The interpreters take turns with the same
//! programs.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Result, bail, ensure};

use crate::bench::Bench;
use crate::chart::{Bars, Chart};
use crate::child;
use crate::command_line::LuaOptions;
use crate::contest::{Arm, Case, Contest, Results};
use crate::interpreters::STOCK_FLAGS;
use crate::report::Report;
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

static PROGRAMS: [Program; 19] = programs! {
    "binary_trees" 11
    "closures" 400
    "collector_steps" 2_000
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
    named(&options.programs)
}

/// The programs with these names; all of them if there is no name.
pub(crate) fn named(names: &[String]) -> Result<Vec<&'static Program>> {
    if let Some(unknown) = names
        .iter()
        .find(|name| !PROGRAMS.iter().any(|program| program.name == **name))
    {
        let all: Vec<&str> = PROGRAMS.iter().map(|program| program.name).collect();
        bail!(
            "no program is named '{unknown}'; there are {}",
            all.join(", ")
        );
    }
    let wanted =
        |program: &&Program| names.is_empty() || names.iter().any(|name| name == program.name);
    Ok(PROGRAMS.iter().filter(wanted).collect())
}

/// The contest of the chosen programs, each in its small size if `is_small`. baton and stock must
/// exist. If Debian's Lua is missing, the second value is the reason.
pub(crate) fn contest(
    bench: &Bench,
    options: &LuaOptions,
    is_small: bool,
) -> Result<(Contest, Option<String>)> {
    let debian = bench.paths.debian();
    let debian_missing = debian.as_ref().err().map(|error| format!("{error:#}"));
    let found = [bench.paths.baton()?, bench.paths.stock()?]
        .into_iter()
        .chain(debian);
    let case = |program: &'static Program| {
        let script = bench.script(program.name, program.source)?;
        let mut case = Case::new(program.name, program.name, &[&script.display()]);
        case.arguments
            .extend(is_small.then(|| program.small_size.to_string()));
        Ok(case)
    };
    let contest = Contest {
        arms: found
            .map(|arm| Arm::interpreted(arm.name, &arm, Path::new(""), &[]))
            .collect(),
        cases: chosen(options)?
            .into_iter()
            .map(case)
            .collect::<Result<_>>()?,
        rounds: options.rounds,
        figure: "cpu",
        limit: LIMIT,
    };
    Ok((contest, debian_missing))
}

/// The outputs of the programs, which must be the same in every run.
#[derive(Default)]
pub(crate) struct Outputs(BTreeMap<String, String>);

impl Outputs {
    /// Checks one more output of a program.
    pub(crate) fn check(&mut self, arm: &Arm, case: &Case, output: &str) -> Result<()> {
        let expected = self
            .0
            .entry(case.name.clone())
            .or_insert_with(|| output.to_string());
        ensure!(
            expected == output,
            "{} under {} printed {output:?}, where another run printed {expected:?}",
            case.name,
            arm.name
        );
        Ok(())
    }
}

/// Runs the experiment.
pub(crate) fn run(bench: &Bench, options: &LuaOptions) -> Result<Report> {
    let (contest, debian_missing) = contest(bench, options, options.small)?;
    let mut outputs = Outputs::default();
    let results = contest.run_by(|arm, case, command| {
        let what = format!("{} under {}", case.name, arm.name);
        let run = child::run(command, LIMIT)?.succeeded(&what)?;
        outputs.check(arm, case, &run.output)?;
        let times = [("cpu", run.cpu), ("wall", run.wall)];
        Ok(times
            .map(|(clock, time)| (clock.to_string(), vec![time]))
            .into())
    });
    let mut verdicts = verdicts(&results, "stock");
    match debian_missing {
        None => verdicts.extend(self::verdicts(&results, "debian")),
        Some(reason) => verdicts.push(Verdict::unmet("all programs beside debian", reason)),
    }
    let caption = format!(
        "median CPU time in ms; ratios are medians of {} rounds",
        options.rounds
    );
    let mut ratios = ratios_to(&results, "cpu");
    ratios.push(("wall b/s".to_string(), 1, "wall"));
    Ok(results.complete(Report {
        notes: vec![format!("stock is compiled with {STOCK_FLAGS}")],
        tables: vec![table(&results, caption, ("cpu", 1e3, 1), &ratios)],
        charts: vec![chart(&results)],
        verdicts,
        ..Report::default()
    }))
}

/// A column of ratios: its header, the index of the peer, and the figure.
type RatioColumn = (String, usize, &'static str);

/// A column for each peer, with the ratio of baton's figure to its figure.
pub(crate) fn ratios_to(results: &Results, figure: &'static str) -> Vec<RatioColumn> {
    let peers = results.arms.iter().enumerate().skip(1);
    peers
        .map(|(peer, arm)| (format!("baton/{}", arm.name), peer, figure))
        .collect()
}

/// A table with a row for each program, and their mean below. The figure is multiplied, and shown
/// with this number of decimals.
pub(crate) fn table(
    results: &Results,
    caption: impl Into<String>,
    (name, factor, digits): (&str, f64, usize),
    ratios: &[RatioColumn],
) -> Table {
    let header = ["program"]
        .into_iter()
        .chain(results.arms.iter().map(|arm| arm.name));
    let titles = ratios.iter().map(|(title, ..)| title.as_str());
    let mut table = Table::new(caption, header.chain(titles));
    let arms = 0..results.arms.len();
    for (number, case) in results.cases.iter().enumerate() {
        let median = |arm| {
            results
                .median(arm, number, name)
                .map(|median| median * factor)
        };
        let figures = arms.clone().map(|arm| figure(median(arm), digits));
        let ratio = |&(_, peer, name): &RatioColumn| {
            figure(results.ratio((0, number), (peer, number), name), 3)
        };
        table.named(&case.name, figures.chain(ratios.iter().map(ratio)));
    }
    let mean = |&(_, peer, name): &RatioColumn| figure(results.mean_ratio(0, peer, name), 3);
    let empty = arms.map(|_| String::new());
    table.named("geometric mean", empty.chain(ratios.iter().map(mean)));
    table
}

/// A chart of the ratios as bars from 1. The mean is below the programs.
fn chart(results: &Results) -> Chart {
    let label = "CPU time relative to the peer; less is better";
    let names = results.cases.iter().map(|case| case.name.as_str());
    let mut chart = Bars::new("The price of plain Lua under Baton", label)
        .from(1.0)
        .mark("mean at most", MEAN_GOAL.limit())
        .mark("each at most", WORST_GOAL.limit())
        .digits(3)
        .rows(names.chain(["geometric mean"]));
    for (peer, arm) in results.arms.iter().enumerate().skip(1) {
        let ratio = |case| results.ratio((0, case), (peer, case), "cpu");
        let mean = results.mean_ratio(0, peer, "cpu");
        let values = results.all_cases().map(ratio).chain([mean]);
        chart = chart.series(format!("baton / {}", arm.name), values);
    }
    chart.into()
}

fn verdicts(results: &Results, peer_name: &str) -> Vec<Verdict> {
    let peer = results.arm(peer_name).unwrap_or_default();
    let mean = results.mean_ratio(0, peer, "cpu");
    let mut verdicts = vec![MEAN_GOAL.judge(&format!("geometric mean of baton/{peer_name}"), mean)];
    let of_program = |case: usize| {
        let ratio = results.ratio((0, case), (peer, case), "cpu")?;
        Some((ratio, results.cases[case].name.as_str()))
    };
    let (pcall, others): (Vec<_>, Vec<_>) = results
        .all_cases()
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
    use crate::child::figures;
    use std::process::Command;

    fn lines(programs: &[(&str, f64)]) -> Vec<String> {
        let arms = ["baton", "stock"].map(|name| Arm::present(name, || Command::new("it")));
        let cases = programs.iter().map(|(name, _)| Case::new(name, name, &[]));
        let measured = programs.iter().enumerate().flat_map(|(case, (_, ours))| {
            [*ours, 1.0]
                .into_iter()
                .enumerate()
                .map(move |(arm, cpu)| ((arm, case), Ok(figures(&format!("cpu {cpu}")))))
        });
        let results = Results::of(arms.into(), cases.collect(), measured);
        let verdicts = verdicts(&results, "stock");
        verdicts.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_bare_pcall_loop_has_a_limit_of_its_own() {
        let all = lines(&[(PCALL, 1.18), ("n_body", 1.02)]);
        assert!(
            all[1].starts_with("met     worst baton/stock, n_body, <= 1.15"),
            "{all:?}"
        );
        assert!(
            all[2].starts_with("met     baton/stock, pcall_loop, <= 1.2"),
            "{all:?}"
        );
        assert!(lines(&[("n_body", 1.18)])[1].starts_with("MISSED"));
    }

    #[test]
    fn an_output_that_differs_is_quoted() {
        let (arm, case) = (Arm::missing("stock", ""), Case::new("json", "json", &[]));
        let mut outputs = Outputs::default();
        outputs.check(&arm, &case, "1").unwrap();
        outputs.check(&arm, &case, "1").unwrap();
        let error = outputs.check(&arm, &case, "2").unwrap_err().to_string();
        assert!(
            error.starts_with("json under stock printed \"2\", where"),
            "{error}"
        );
    }

    #[test]
    fn programs_are_listed_once_and_in_order() {
        assert!(PROGRAMS.windows(2).all(|pair| pair[0].name < pair[1].name));
    }
}
