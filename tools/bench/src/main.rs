//! `baton-bench`: the experiments that measure Baton and its peers on the same machine.

#![forbid(unsafe_code)]

mod bench;
mod blocking;
mod calls;
mod chart;
mod child;
mod cluster;
mod command_line;
mod contest;
mod cores;
mod count;
mod delay;
mod fairness;
mod gate;
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
mod observe;
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
mod usage;
mod verdict;
mod window;

use std::env;
use std::process::ExitCode;
use std::str::FromStr;

use anyhow::{Context, Result, bail, ensure};
use clap::Parser;

use crate::bench::Bench;
use crate::command_line::{AllOptions, CommandLine, Experiment, ReportOptions};
use crate::interpreters::STOCK_FLAGS;
use crate::report::Document;
use crate::verdict::Outcome;

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match play(&words) {
        Some(done) => done.map(|()| ExitCode::SUCCESS),
        None => run(&CommandLine::parse()),
    };
    match done {
        Ok(code) => code,
        Err(error) if output::reader_is_gone(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("baton-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Plays one of the other roles of this program, in which experiments start it:
///
/// | words | role |
/// |---|---|
/// | `runtime TEST SECONDS` | one test of Thread-Metric in Rust; with `--bare`, the bare switch |
/// | `operation NAME TIMES` | one operation of the runtime, repeated |
/// | `bare-timer SECONDS SLEEPS` | the bare timer loop that `delay` compares with |
/// | `drive SERVER PROTOCOL CONNECTIONS SECONDS` | one server under load; a JSON list starts it |
/// | `count-calls SERVER PROTOCOL CONNECTIONS SECONDS` | the same, counting its system calls |
/// | `waits POLICY WAY MICROSECONDS SECONDS` | one program that waits, for `spin` |
/// | `watched BATON WAY SUBJECT ...` | a program that is looked at, for `observe` |
/// | `neighbour WAY` | another program on the machine |
/// | `slices ROUNDS` | processes with slices of different lengths |
fn play(words: &[&str]) -> Option<Result<()>> {
    let played = match *words {
        ["runtime", "--bare", _, seconds] => {
            number(seconds).and_then(|seconds| thread_metric::runtime::run("bare", seconds))
        }
        ["runtime", test, seconds] => {
            number(seconds).and_then(|seconds| thread_metric::runtime::run(test, seconds))
        }
        ["operation", name, times] => {
            number(times).and_then(|times| thread_metric::operations::run(name, times))
        }
        ["bare-timer", seconds, sleeps] => {
            number(seconds).and_then(|seconds| delay::bare_timer(seconds, number(sleeps)?))
        }
        ["drive", server, protocol, connections, seconds] => number(connections)
            .and_then(|connections| net::drive(server, protocol, connections, number(seconds)?)),
        ["count-calls", server, protocol, connections, seconds] => {
            number(connections).and_then(|connections| {
                net::count_calls(server, protocol, connections, number(seconds)?)
            })
        }
        ["waits", policy, way, microseconds, seconds] => number(microseconds)
            .and_then(|length| spin::waits::run(policy, way, length, number(seconds)?)),
        ["watched", baton, way, ref rest @ ..] => observe::watched::run(baton, way, rest),
        ["neighbour", way] => neighbour::run(way),
        ["slices", rounds] => number(rounds).and_then(fairness::processes_with_slices),
        _ => return None,
    };
    Some(played)
}

fn number<N: FromStr>(word: &str) -> Result<N> {
    let number = word.parse().ok();
    number.with_context(|| format!("expected a number, got '{word}'"))
}

fn run(line: &CommandLine) -> Result<ExitCode> {
    let documents = match &line.experiment {
        Experiment::Lua(options) if options.list => {
            lua::chosen(options)?
                .iter()
                .try_for_each(|program| output::print(&format!("{}\n", program.name)))?;
            return Ok(ExitCode::SUCCESS);
        }
        Experiment::Report(options) => read(line, options)?,
        Experiment::All(options) => all(line, options)?,
        experiment => {
            let arguments = env::args().skip(1).collect();
            let bench = Bench::new(line.paths.clone())?;
            vec![measure(&bench, experiment, arguments)?]
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
    let bench = Bench::new(line.paths.clone())?;
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
    let (name, report) = match experiment {
        Experiment::Lua(options) if options.count => ("lua", count::run(bench, options)),
        Experiment::Lua(options) => ("lua", lua::run(bench, options)),
        Experiment::Switch(options) => ("switch", switch::run(bench, options)),
        Experiment::Gate(options) => ("gate", gate::run(bench, options)),
        Experiment::ThreadMetric(options) => ("thread-metric", thread_metric::run(bench, options)),
        Experiment::Scale(options) => ("scale", scale::run(bench, options)),
        Experiment::Latency(options) => ("latency", latency::run(bench, options)),
        Experiment::Fairness(options) => ("fairness", fairness::run(bench, options)),
        Experiment::Philosophers(options) => ("philosophers", philosophers::run(bench, options)),
        Experiment::Idle(options) => ("idle", idle::run(bench, options)),
        Experiment::Blocking(options) => ("blocking", blocking::run(bench, options)),
        Experiment::Spin(options) => ("spin", spin::run(options)),
        Experiment::Delay(options) => ("delay", delay::run(bench, options)),
        Experiment::Gilda(options) => ("gilda", gilda::run(bench, options)),
        Experiment::Window(options) => ("window", window::run(bench, options)),
        Experiment::Threads(options) => ("threads", threads::run(bench, options)),
        Experiment::Timers(options) => ("timers", timers::run(bench, options)),
        Experiment::Net(options) => ("net", net::run(bench, options)),
        Experiment::Observe(options) => ("observe", observe::run(bench, options)),
        Experiment::Slow(options) => ("slow", slow::run(bench, options)),
        Experiment::Cores(options) => ("cores", cores::run(bench, options)),
        Experiment::Cluster(options) => ("cluster", cluster::run(bench, options)),
        Experiment::All(_) | Experiment::Report(_) => bail!("it is no experiment by itself"),
    };
    Ok(Document {
        experiment: name.to_string(),
        arguments,
        machine,
        stock_flags: STOCK_FLAGS.to_string(),
        report: report?,
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
