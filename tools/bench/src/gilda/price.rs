//! Measures the cost of calling an `int f(int)` that returns at once.

use anyhow::Result;

use crate::bench::Bench;
use crate::calls::{self, BATON_FFI, STOCK_MODULE};
use crate::command_line::GildaOptions;
use crate::contest::{Case, Contest, Results};
use crate::stats;
use crate::table::{Table, figure};
use crate::verdict::{Goal, Verdict};

use super::LIMIT;

/// The cost of a prepared ffi call, relative to a function that was bound by hand.
const PRICE_GOAL: Goal = Goal::at_most(3.0, "", 2);

/// The peers' name for this case, which is the shortest of short calls.
const NAME: &str = "short_sequential";

pub(super) fn contest(bench: &Bench, options: &GildaOptions) -> Result<Contest> {
    let (baton, stock) = (bench.paths.baton()?, bench.paths.stock()?);
    Ok(Contest {
        arms: calls::arms(bench, &baton, &stock)?,
        cases: vec![Case::new(
            NAME,
            "calls of nothing",
            &[&NAME, &options.price, &1],
        )],
        rounds: options.rounds,
        figure: "ms",
        limit: LIMIT,
    })
}

/// The milliseconds of each round. If the system measures the loop without calls, that time is
/// subtracted.
fn net(results: &Results, arm: usize) -> Vec<f64> {
    let with = results.values(arm, 0, "ms");
    let of_loops = results.values(arm, 0, "loop_ms");
    let loops = of_loops.into_iter().chain(std::iter::repeat(0.0));
    with.iter()
        .zip(loops)
        .map(|(with, of_loop)| with - of_loop)
        .collect()
}

/// The median over the rounds of an arm's cost divided by that in stock Lua.
fn beside_stock(results: &Results, arm: usize) -> Option<f64> {
    stats::median_of_ratios(
        &net(results, arm),
        &net(results, results.arm(STOCK_MODULE)?),
    )
}

/// A table with a row for each system: nanoseconds of a call with its loop and without, and their
/// ratio to stock Lua.
pub(super) fn table(results: &Results, calls: u64) -> Table {
    let caption =
        format!("{calls} calls of nothing, int f(int), by one process: nanoseconds each, medians");
    let header = [
        "system",
        "with its loop",
        "the call",
        "/ by hand in stock Lua",
    ];
    let mut table = Table::new(caption, header);
    let each = |milliseconds: f64| milliseconds * 1e6 / calls as f64;
    for (arm, of_arm) in results.arms.iter().enumerate() {
        let with = results
            .median(arm, 0, "ms")
            .map(|with| figure(each(with), 1));
        let cells = [
            with.unwrap_or_else(|| results.gap(arm, 0).to_string()),
            figure(stats::median(&net(results, arm)).map(each), 1),
            figure(beside_stock(results, arm), 2),
        ];
        table.named(of_arm.name, cells);
    }
    table
}

pub(super) fn verdict(results: &Results) -> Verdict {
    let ratio = || beside_stock(results, results.arm(BATON_FFI)?);
    PRICE_GOAL.judge(
        &format!("{BATON_FFI}: a call of int f(int) / {STOCK_MODULE}, both without the loop"),
        ratio(),
    )
}
