//! `baton metrics`: the counters and histograms of a program, for Prometheus and its relatives.

use super::{Common, attach, print, print_json};
use clap::Args;
use serde_json::Value;

#[derive(Args)]
pub(super) struct MetricsOptions {
    #[command(flatten)]
    common: Common,
}

pub(super) fn run(options: &MetricsOptions) -> Result<(), String> {
    let mut program = attach(&options.common, false).map_err(|error| error.to_string())?;
    let answer = program.ask("metrics", Value::Null, &mut |_| Ok(()))?;
    if options.common.json {
        return print_json(&answer);
    }
    print(&baton_lua::answers::metrics::text(&answer)?)
}
