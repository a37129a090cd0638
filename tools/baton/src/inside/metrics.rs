//! `baton metrics`: the counters and histograms of a program, for Prometheus and its relatives.

use super::{Once, print, print_json};
use clap::Args;
use serde_json::Value;

#[derive(Args)]
pub(super) struct MetricsOptions {
    #[command(flatten)]
    once: Once,
}

pub(super) fn run(options: &MetricsOptions) -> Result<(), String> {
    let mut target = options.once.target()?;
    let mut program = target.attach_in_time(false)?;
    let answer = program.ask("metrics", Value::Null, &mut |_| Ok(()))?;
    match options.once.json {
        true => print_json(&answer)?,
        false => print(&baton_lua::answers::metrics::text(&answer)?)?,
    }
    target.finish()
}
