//! `baton top`.
//!
//! | file | what is there |
//! |---|---|
//! | `answer.rs` | what the program answers, and rates |
//! | `units.rs` | numbers as texts |
//! | `plain.rs` | the table as text |
//! | `sort.rs` | the orders of the rows |
//! | `stack.rs` | the stacks of one process |
//! | `state.rs` | what keys and answers change |
//! | `canvas.rs` | the cells of a screen |
//! | `screen.rs` | the state as a drawing |
//! | `source.rs` | the connection |
//! | `terminal.rs` | a terminal that shows cells |
//! | `live.rs` | keys, signals and questions |
//!
//! The first eight know neither terminal nor program. `tests/top_screen.rs` tests them.

mod answer;
mod canvas;
mod live;
mod plain;
mod screen;
mod sort;
mod source;
mod stack;
mod state;
mod terminal;
mod units;

use super::started::{Start, Target};
use super::{check_write, print, print_line};
use answer::{Answer, Rates};
use clap::Args;
use clap::builder::TypedValueParser;
use live::Ended;
use serde_json::{Value, json};
use signal_hook::low_level::emulate_default_handler;
use sort::Sort;
use source::{Source, Trouble};
use state::{KEPT, ScreenState};
use std::ffi::OsString;
use std::io::IsTerminal;
use std::ops::RangeInclusive;
use std::time::Duration;

/// Seconds between two looks.
const DELAYS: RangeInclusive<f64> = 0.1..=3600.0;

#[derive(Args)]
#[command(
    after_help = "On a terminal the table is live, and the key h shows the keys. Elsewhere, \
                        with -n or with --json it is printed. The first look is not shown: shares \
                        and rates are of the time since the look before."
)]
pub(super) struct TopOptions {
    /// The process id of a running program; or a script to start, with its arguments
    #[arg(value_name = "PID or SCRIPT", required = true, trailing_var_arg = true)]
    target: Vec<OsString>,
    /// Writes JSON instead of text
    #[arg(long)]
    json: bool,
    /// The time between two looks, from 0.1 to 3600 seconds
    #[arg(short, long, value_name = "SECONDS", default_value = "1", value_parser = delay)]
    delay: Duration,
    /// Prints so many tables, a delay apart, and ends; elsewhere than on a terminal 1 by default
    #[arg(short = 'n', long, value_name = "COUNT", value_parser = at_least_one())]
    count: Option<u64>,
    /// The number of processes in each table that is printed
    #[arg(long, value_name = "COUNT", default_value_t = 20)]
    rows: usize,
    /// Which processes come first: those with most of this
    #[arg(long, value_enum, default_value_t)]
    sort: Sort,
    /// Shows only processes with this text in their name, their wait or their place of spawn
    #[arg(long, value_name = "TEXT", default_value = "")]
    filter: String,
    /// Merges processes of one name, and adds up their times
    #[arg(long)]
    group: bool,
    /// Lets the key x kill a process of a program that was not started with BATON_ATTACH=all
    #[arg(long)]
    write: bool,
}

fn at_least_one() -> impl TypedValueParser<Value = u64> {
    clap::value_parser!(u64).range(1..)
}

fn delay(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "a number expected".to_owned())?;
    match DELAYS.contains(&seconds) {
        true => Ok(Duration::from_secs_f64(seconds)),
        false => Err("from 0.1 to 3600 seconds expected".to_owned()),
    }
}

pub(super) fn run(options: &TopOptions) -> Result<(), String> {
    check_write(options.write)?;
    let is_terminal = std::io::stdout().is_terminal() && std::io::stdin().is_terminal();
    let is_live = is_terminal && options.count.is_none() && !options.json;
    let start = match is_live {
        true => Start::Hidden, // its output would be in the middle of the table
        false => Start::Shown,
    };
    let mut target = Target::of(&options.target, start)?;
    let source = Source::attach(&mut target, options.write)?;
    if is_live {
        let filter = options.filter.clone();
        let mut state = ScreenState::new(target.pid, options.sort, filter, options.write);
        state.is_grouped = options.group;
        let ended = live::run(source, state, options.delay)?;
        drop(target); // ends a script, also before a signal ends this command
        if let Ended::BySignal(signal) = ended {
            emulate_default_handler(signal).map_err(|error| error.to_string())?;
        }
        return Ok(());
    }
    print_tables(source, target.pid, options)?;
    target.finish()
}

fn print_tables(mut source: Source, pid: u32, options: &TopOptions) -> Result<(), String> {
    let with = json!({
        "rows": options.rows,
        "sort": options.sort.name(),
        "filter": options.filter,
        "group": options.group,
    });
    // Only a second look has shares.
    let first = json!({ "rows": 0, "sort": options.sort.name() });
    let mut before = match source.table(&first) {
        Ok(answer) => Some(read(&answer)?),
        Err(Trouble::Held(_)) => None,
        Err(Trouble::Over(why)) => return Err(why),
    };
    let mut left = options.count.unwrap_or(1);
    while left > 0 {
        left -= 1;
        source.rest(options.delay);
        match source.table(&with) {
            Err(Trouble::Over(why)) => return Err(why),
            Err(Trouble::Held(what)) => print_held(options, &what)?,
            Ok(answer) => {
                let now = read(&answer)?;
                if now.is_first() {
                    // The program was held at the first look.
                    before = Some(now);
                    left += 1;
                    continue;
                }
                let rates = before
                    .as_ref()
                    .map(|before| Rates::between(before, &now))
                    .unwrap_or_default();
                print_answer(pid, options, answer, &now, &rates)?;
                before = Some(now);
            }
        }
    }
    Ok(())
}

fn read(answer: &Value) -> Result<Answer, String> {
    serde::Deserialize::deserialize(answer).map_err(|error| format!("a wrong answer: {error}"))
}

fn print_answer(
    pid: u32,
    options: &TopOptions,
    mut answer: Value,
    now: &Answer,
    rates: &Rates,
) -> Result<(), String> {
    if options.json {
        answer["rates"] = json!({
            "switches": rates.switches,
            "retakes": rates.retakes,
            "preemptions": rates.preemptions,
        });
        return print_line("baton.top", &answer);
    }
    if now.kept_inside {
        return print_held(options, now.why.as_deref().unwrap_or(KEPT));
    }
    print(&plain::table(pid, now, rates))
}

fn print_held(options: &TopOptions, what: &str) -> Result<(), String> {
    match options.json {
        true => print_line("baton.top", &json!({ "held": what })),
        false => print(&format!("held: {what}\n")),
    }
}
