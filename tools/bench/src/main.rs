//! `baton-bench`: the experiments that Baton is judged by, each beside its peers, on the machine at hand.

#![forbid(unsafe_code)]

mod bench;
mod blocking;
mod child;
mod command_line;
mod count;
mod fairness;
mod idle;
mod interpreters;
mod latency;
mod lua;
mod machine;
mod scale;
mod stats;
mod switch;
mod table;
mod verdict;

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;
use serde_json::{Value, json};

use crate::bench::{Bench, Report};
use crate::command_line::{CommandLine, Experiment};
use crate::interpreters::{Interpreter, Paths, STOCK_FLAGS};
use crate::verdict::Outcome;

fn main() -> ExitCode {
    match run(CommandLine::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("baton-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(line: CommandLine) -> Result<ExitCode> {
    let name = line.experiment.name();
    let bench = Bench::new(Paths {
        baton: line.baton,
        stock: line.stock,
        debian: line.debian,
    })?;
    let report = match line.experiment {
        Experiment::Lua(options) if options.count => count::run(&bench, &options),
        Experiment::Lua(options) => lua::run(&bench, &options),
        Experiment::Switch(options) => switch::run(&bench, &options),
        Experiment::Scale(options) => scale::run(&bench, &options),
        Experiment::Latency(options) => latency::run(&bench, &options),
        Experiment::Fairness(options) => fairness::run(&bench, &options),
        Experiment::Idle(options) => idle::run(&bench, &options),
        Experiment::Blocking(options) => blocking::run(&bench, &options),
    }?;
    println!();
    for verdict in &report.verdicts {
        println!("{verdict}");
    }
    if let Some(file) = &line.json {
        write_json(file, &bench.paths, name, &report)?;
    }
    Ok(exit_code(&report, line.check))
}

/// A goal that could not be tried always fails the run; one that was missed does so only if that was asked for.
fn exit_code(report: &Report, check: bool) -> ExitCode {
    let fails = |outcome: &Outcome| match outcome {
        Outcome::Met => false,
        Outcome::Missed => check,
        Outcome::Unmet(_) => true,
    };
    if report.verdicts.iter().any(|verdict| fails(verdict.outcome())) {
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn write_json(file: &Path, paths: &Paths, name: &str, report: &Report) -> Result<()> {
    let arms: Vec<Value> = [paths.baton(), paths.stock(), paths.debian()]
        .into_iter()
        .flatten()
        .map(|arm: Interpreter| json!({"name": arm.name, "version": arm.version, "path": arm.path}))
        .collect();
    let verdicts: Vec<Value> = report.verdicts.iter().map(verdict::Verdict::to_json).collect();
    let document = json!({
        "experiment": name,
        "machine": machine::facts(),
        "interpreters": arms,
        "stock_flags": STOCK_FLAGS,
        "verdicts": verdicts,
        "samples": report.samples,
    });
    let text = serde_json::to_string_pretty(&document)?;
    fs::write(file, text + "\n").with_context(|| format!("cannot write {}", file.display()))
}
