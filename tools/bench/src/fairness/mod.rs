//! The experiment `fairness`: how processes share the CPU. It runs a calculation beside an event
//! loop as in 1997, equal and unequal processes, and seven endless loops inside different parts of
//! Lua.

mod article;
mod figures;
mod loops;
mod shares;
mod slices;

use anyhow::Result;
use serde_json::json;

use crate::bench::Bench;
use crate::command_line::FairnessOptions;
use crate::report::Report;

pub(crate) use slices::processes as processes_with_slices;

/// Runs the experiments.
pub(crate) fn run(bench: &Bench, options: &FairnessOptions) -> Result<Report> {
    let baton = bench.paths.baton()?;
    let parts = [
        (
            "article",
            figures::report(&article::measure(bench, &baton, options)?, options),
        ),
        ("shares", shares::run(bench, &baton, options)?),
        ("slices", slices::run(options)?),
        ("loops", loops::run(bench, &baton, options)?),
    ];
    let mut report = Report {
        arms: vec![baton.found()],
        samples: json!({}),
        ..Report::default()
    };
    for (name, part) in parts {
        report.samples[name] = report.add(part);
    }
    Ok(report)
}
