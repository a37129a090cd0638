//! The experiment `gate`: the time to leave a VM and to enter it again, by a guest in C, with the
//! shared and the static library.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::bench::Bench;
use crate::chart::Bars;
use crate::command_line::GateOptions;
use crate::contest::{Arm, Case, Contest, Results};
use crate::report::{Report, notes};
use crate::table::Table;
use crate::verdict::{Goal, Verdict};

const PAIR_GOAL: Goal = Goal::at_most(3.0, " ns", 2);
const LIMIT: Duration = Duration::from_secs(60);

/// The ways to build the program: the arm, whether the library is static, and a flag of the
/// compiler.
const ARMS: [(&str, bool, &str); 4] = [
    (SHARED, false, "-DNDEBUG"),
    ("shared library, called", false, "-DBATON_NO_INLINE"),
    (STATIC, true, "-DNDEBUG"),
    ("static library, called", true, "-DBATON_NO_INLINE"),
];
const SHARED: &str = "shared library";
const STATIC: &str = "static library";

const NOTES: [&str; 2] = [
    "a pair is baton_leave and baton_enter, with no call between them, in a loop",
    "called: with BATON_NO_INLINE, as from a language that cannot include baton.h",
];

/// Runs the experiment.
pub(crate) fn run(bench: &Bench, options: &GateOptions) -> Result<Report> {
    let results = Contest {
        arms: arms(bench.directory(), &options.prefix)?,
        cases: vec![Case::new("pair", "leave + enter", &[&options.pairs])],
        rounds: options.rounds,
        figure: "ns",
        limit: LIMIT,
    }
    .run();
    let chart = Bars::new(
        "Leave and enter",
        "nanoseconds for each pair; less is better",
    );
    let pair = |arm, case| results.median(arm, case, "ns");
    let charts = vec![results.bars(chart, results.all_cases(), pair)];
    Ok(results.complete(Report {
        notes: notes(&NOTES),
        tables: vec![table(&results, options.rounds)],
        charts,
        verdicts: verdicts(&results),
        ..Report::default()
    }))
}

fn arms(directory: &Path, prefix: &Path) -> Result<Vec<Arm>> {
    let descriptions = prefix.join("lib/pkgconfig");
    if !descriptions.join("baton.pc").exists() {
        let remedy = format!("cargo xtask install --prefix {}", prefix.display());
        return Ok(ARMS.map(|(name, ..)| Arm::missing(name, &remedy)).into());
    }
    let source = directory.join("gate.c");
    std::fs::write(&source, include_str!("../c/gate.c")).context("cannot write gate.c")?;
    let libraries = std::path::absolute(prefix.join("lib"))?;
    let mut arms = Vec::new();
    for (number, (name, is_static, flag)) in ARMS.into_iter().enumerate() {
        let program = directory.join(format!("gate-{number}"));
        let mut pkg_config = Command::new("pkg-config");
        pkg_config
            .env("PKG_CONFIG_PATH", &descriptions)
            .args(is_static.then_some("--static"))
            .args(["--cflags", "--libs", "baton"]);
        let flags = pkg_config.output().context("cannot start pkg-config")?;
        ensure!(flags.status.success(), "pkg-config does not find baton");
        let flags = String::from_utf8_lossy(&flags.stdout).into_owned();
        let compiled = Command::new("cc")
            .args(["-O2", flag, "-o"])
            .args([&program, &source])
            .args(flags.split_whitespace())
            .arg("-lpthread")
            .status()
            .context("cannot start cc")?;
        ensure!(compiled.success(), "gate.c does not compile for: {name}");
        let libraries = libraries.clone();
        arms.push(Arm::present(name, move || {
            let mut command = Command::new(&program);
            command.env("LD_LIBRARY_PATH", &libraries);
            command
        }));
    }
    Ok(arms)
}

fn table(results: &Results, rounds: u32) -> Table {
    let caption = format!("nanoseconds of CPU, median of {rounds} rounds");
    let mut table = Table::new(caption, ["library", "leave + enter"]);
    for (arm, of_arm) in results.arms.iter().enumerate() {
        table.named(of_arm.name, [results.shown(arm, 0, "ns", 2)]);
    }
    table
}

fn verdicts(results: &Results) -> Vec<Verdict> {
    [SHARED, STATIC]
        .into_iter()
        .filter_map(|name| {
            let (arm, case) = results.place(name, "pair")?;
            let what = format!("leave + enter, {name}");
            Some(PAIR_GOAL.judge(&what, results.median(arm, case, "ns")))
        })
        .collect()
}
