//! `baton-bench`: the experiments that measure Baton and its peers on the same machine.

#![forbid(unsafe_code)]

mod bench;
mod blocking;
mod calls;
mod chart;
mod child;
mod command_line;
mod contest;
mod count;
mod delay;
mod fairness;
mod gilda;
mod html;
mod idle;
mod interpreters;
mod lab;
mod latency;
mod lua;
mod machine;
mod neighbour;
mod net;
mod output;
mod peers;
mod philosophers;
mod places;
mod report;
mod scale;
mod scripts;
mod slow;
mod spin;
mod stats;
mod switch;
mod table;
mod thread_metric;
mod threads;
mod timers;
mod verdict;
mod window;

use std::env;
use std::process::ExitCode;

use anyhow::{Result, ensure};
use clap::Parser;

use crate::bench::Bench;
use crate::command_line::{AllOptions, CommandLine, Experiment, ReportOptions};
use crate::interpreters::{Paths, STOCK_FLAGS};
use crate::report::Document;
use crate::verdict::Outcome;

fn main() -> ExitCode {
    let line = CommandLine::parse();
    match run(&line) {
        Ok(code) => code,
        Err(error) if output::reader_is_gone(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("baton-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(line: &CommandLine) -> Result<ExitCode> {
    let documents = match &line.experiment {
        Experiment::Lua(options) if options.list => {
            lua::chosen(options)?
                .iter()
                .try_for_each(|program| output::print(&format!("{}\n", program.name)))?;
            return Ok(ExitCode::SUCCESS);
        }
        Experiment::Runtime(options) => {
            let test = if options.bare { "bare" } else { &options.test };
            thread_metric::runtime::run(test, options.seconds)?;
            return Ok(ExitCode::SUCCESS);
        }
        Experiment::Operation(options) => {
            thread_metric::operations::run(&options.name, options.times)?;
            return Ok(ExitCode::SUCCESS);
        }
        Experiment::BareTimer(options) => {
            delay::bare_timer(options)?;
            return Ok(ExitCode::SUCCESS);
        }
        Experiment::Drive(options) => {
            net::drive(options)?;
            return Ok(ExitCode::SUCCESS);
        }
        Experiment::Waits(options) => {
            spin::waits::run(options)?;
            return Ok(ExitCode::SUCCESS);
        }
        Experiment::Neighbour(options) => {
            neighbour::run(options)?;
            return Ok(ExitCode::SUCCESS);
        }
        Experiment::Slices(options) => {
            fairness::processes_with_slices(options)?;
            return Ok(ExitCode::SUCCESS);
        }
        Experiment::Report(options) => read(line, options)?,
        Experiment::All(options) => all(line, options)?,
        experiment => {
            let arguments = env::args().skip(1).collect();
            vec![measure(&Bench::new(paths(line))?, experiment, arguments)?]
        }
    };
    // Files are written first, because standard output may be closed early.
    if let Some(file) = &line.json {
        report::write_json(file, &documents)?;
    }
    if let Some(directory) = &line.charts {
        report::write_charts(directory, &documents)?;
    }
    if let Some(file) = &line.html {
        report::write(file, &html::page(&documents)?)?;
    }
    match print(&documents) {
        Err(error) if !output::reader_is_gone(&error) => Err(error),
        // If the reader of standard output has closed it, the exit status still tells about the
        // goals.
        _ => Ok(exit_code(&documents, line.check)),
    }
}

fn print(documents: &[Document]) -> Result<()> {
    for document in documents {
        if documents.len() > 1 {
            output::print(&format!("\n==> {}\n", document.experiment))?;
        }
        document.print()?;
    }
    Ok(())
}

fn paths(line: &CommandLine) -> Paths {
    Paths {
        baton: line.baton.clone(),
        stock: line.stock.clone(),
        debian: line.debian.clone(),
        peers: line.peers.clone(),
    }
}

/// The reports of earlier runs.
fn read(line: &CommandLine, options: &ReportOptions) -> Result<Vec<Document>> {
    ensure!(
        line.json
            .as_ref()
            .is_none_or(|written| !options.files.contains(written)),
        "--json would overwrite a file that is read"
    );
    let read: Result<Vec<Vec<Document>>> = options
        .files
        .iter()
        .map(|file| report::read_json(file))
        .collect();
    Ok(read?.concat())
}

/// Runs every experiment in turn. If one cannot run, the others stop too, because they need the
/// same things, such as a build of baton.
fn all(line: &CommandLine, options: &AllOptions) -> Result<Vec<Document>> {
    let bench = Bench::new(paths(line))?;
    let run = |words: Vec<&str>| {
        eprintln!("==> {}", words.join(" "));
        let line = CommandLine::try_parse_from([&["baton-bench"], &words[..]].concat())?;
        measure(
            &bench,
            &line.experiment,
            words.iter().map(ToString::to_string).collect(),
        )
    };
    command_line::every_experiment(options.quick)
        .map(run)
        .collect()
}

fn measure(bench: &Bench, experiment: &Experiment, arguments: Vec<String>) -> Result<Document> {
    // The machine's load is read before the experiment adds its own.
    let machine = machine::facts();
    let report = match experiment {
        Experiment::Lua(options) if options.count => count::run(bench, options),
        Experiment::Lua(options) => lua::run(bench, options),
        Experiment::Switch(options) => switch::run(bench, options),
        Experiment::ThreadMetric(options) => thread_metric::run(bench, options),
        Experiment::Scale(options) => scale::run(bench, options),
        Experiment::Latency(options) => latency::run(bench, options),
        Experiment::Fairness(options) => fairness::run(bench, options),
        Experiment::Philosophers(options) => philosophers::run(bench, options),
        Experiment::Idle(options) => idle::run(bench, options),
        Experiment::Blocking(options) => blocking::run(bench, options),
        Experiment::Spin(options) => spin::run(options),
        Experiment::Delay(options) => delay::run(bench, options),
        Experiment::Gilda(options) => gilda::run(bench, options),
        Experiment::Window(options) => window::run(bench, options),
        Experiment::Threads(options) => threads::run(bench, options),
        Experiment::Timers(options) => timers::run(bench, options),
        Experiment::Net(options) => net::run(bench, options),
        Experiment::Slow(options) => slow::run(bench, options),
        Experiment::All(_)
        | Experiment::Drive(_)
        | Experiment::Report(_)
        | Experiment::Runtime(_)
        | Experiment::Operation(_)
        | Experiment::BareTimer(_)
        | Experiment::Waits(_)
        | Experiment::Neighbour(_)
        | Experiment::Slices(_) => {
            anyhow::bail!("it is no experiment by itself")
        }
    }?;
    Ok(Document {
        experiment: experiment.name().to_string(),
        arguments,
        machine,
        stock_flags: STOCK_FLAGS.to_string(),
        report,
    })
}

/// The exit status. A goal that could not be tried always makes it 1. A missed goal does so only
/// with `check`.
fn exit_code(documents: &[Document], check: bool) -> ExitCode {
    let fails = |outcome: &Outcome| match outcome {
        Outcome::Met => false,
        Outcome::Missed => check,
        Outcome::Unmet(_) => true,
    };
    let mut verdicts = documents
        .iter()
        .flat_map(|document| &document.report.verdicts);
    if verdicts.any(|verdict| fails(verdict.outcome())) {
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
