//! `baton metrics`: the counters and histograms of a program, for Prometheus and its relatives.

use super::{Once, print, print_json};
use baton_lua::answers::metrics::{TextFormat, text};
use clap::Args;
use serde_json::Value;

#[derive(Args)]
pub(super) struct MetricsOptions {
    #[command(flatten)]
    once: Once,
    /// Write `OpenMetrics` text, not Prometheus' own format
    #[arg(long, conflicts_with = "json")]
    openmetrics: bool,
}

pub(super) fn run(options: &MetricsOptions) -> Result<(), String> {
    let mut target = options.once.target()?;
    let mut program = target.attach_in_time(false)?;
    let answer = program.ask("metrics", Value::Null, &mut |_| Ok(()))?;
    let format = match options.openmetrics {
        true => TextFormat::OpenMetrics,
        false => TextFormat::Prometheus,
    };
    match options.once.json {
        true => print_json("baton.metrics", &answer)?,
        false => print(&text(&answer, format)?)?,
    }
    target.finish()
}
