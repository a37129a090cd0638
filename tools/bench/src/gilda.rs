//! The experiment `gilda`: GildaVM's three tables. They are switching beside a watchdog, two long
//! calls, and many short calls, by one process and by two. It also measures a call that does almost
//! nothing.
//!
//! The tables are from Polito, Tesone, Miranda and Simmons, "GildaVM: a non-blocking I/O
//! architecture for the Cog VM" (IWST 2019). Here they are restated for any system that calls C.

mod goals;
mod price;
mod tables;

use std::time::Duration;

use anyhow::Result;
use serde_json::json;

use crate::bench::Bench;
use crate::calls::{self, DIRECTORY};
use crate::command_line::GildaOptions;
use crate::contest::{Arm, Case, Contest};
use crate::peers;
use crate::report::{Report, notes};
use crate::verdict;

/// The length of a short call, as in the paper.
const SHORT_CALL: Duration = Duration::from_nanos(600);
const LIMIT: Duration = Duration::from_secs(300);

/// The names of the first table's arms that the goals mention.
const WATCHDOG_ON: &str = "baton";
const WATCHDOG_OFF: &str = "baton, watchdog off";

/// The ways of switching: the name in the program, and the name in tables.
const SWITCHING: [(&str, &str); 3] = [
    ("same", "same priority"),
    ("yielding", "same, yielding"),
    ("priorities", "two priorities"),
];
const LONG: [(&str, &str); 3] = [
    ("long_sequential", "one process"),
    ("long_together", "two, at first"),
    ("long_learned", "two, once learned"),
];
const SHORT: [(&str, &str); 2] = [
    ("short_sequential", "one process"),
    ("short_together", "two processes"),
];

const NOTES: [&str; 8] = [
    "GildaVM as published (mean of 50, on another machine): switching 1784, 1800, 1784 ms, where \
     the VM without it took 1784, 1786, 1783;",
    "  two calls of 1 s 2003 ms by one process and 1216 ms by two; 100,000 short calls 88 ms and \
     995 ms, where the VM without it took 63 ms",
    "GildaVM's policy: our runtime, made to retake all calls every 2 ms, however short, and to use \
     a full fence for each return",
    "switching: two processes compute; stock Lua does the same work one part after the other, or \
     in coroutines. CPU is that of all threads",
    "long calls block; at first: in a new program; once learned: after calls of 20 ms by both \
     processes, so that native threads exist too",
    "short calls compute for 0.6 us, after 1000 others; by two processes: half of them each",
    "calls of nothing return at once: what is left, without the loop around them, is the price of \
     a call from that language",
    "the loop in C has two threads for the long calls of two processes; LuaJIT and stock Lua have \
     one process",
];

/// Runs the experiment.
pub(crate) fn run(bench: &Bench, options: &GildaOptions) -> Result<Report> {
    let switching = switching(bench, options)?.run();
    let calls = calls(bench, options)?.run();
    let mut verdicts = goals::of_switching(&switching);
    verdicts.extend(goals::of_long_calls(&calls, options.seconds));
    verdicts.extend(goals::of_short_calls(&calls, options.calls));
    let price = price::contest(bench, options)?.run();
    verdicts.push(price::verdict(&price));
    for part in [&switching, &calls, &price] {
        verdict::add_new(&mut verdicts, part.failures());
    }
    Ok(Report {
        arms: [switching.found(), calls.found()].concat(),
        notes: notes(&NOTES),
        tables: vec![
            tables::of_switching(&switching, options.rounds),
            tables::of_long_calls(&calls, options),
            tables::of_short_calls(&calls, options),
            price::table(&price, options.price),
        ],
        charts: vec![
            tables::chart_of_switching(&switching),
            tables::chart_of_calls(&calls, &LONG, "Two long calls"),
            tables::chart_of_calls(&calls, &SHORT, "Many short calls"),
        ],
        verdicts,
        samples: json!({
            "switching": switching.to_json(),
            "calls": calls.to_json(),
            "price": price.to_json(),
        }),
    })
}

fn switching(bench: &Bench, options: &GildaOptions) -> Result<Contest> {
    let (baton, stock) = (bench.paths.baton()?, bench.paths.stock()?);
    let script = bench.script("computing", include_str!("../programs/computing.lua"))?;
    let peers = peers::directory(bench.paths.peers.as_ref())?;
    let processes: &[&str] = &["processes", DIRECTORY];
    let case = |(name, title): (&str, &str)| Case::new(name, title, &[&name, &options.turns]);
    Ok(Contest {
        arms: vec![
            Arm::interpreted(WATCHDOG_ON, &baton, &script, &["processes", DIRECTORY]),
            // A window of one hour, which no call exceeds.
            Arm::interpreted(WATCHDOG_OFF, &baton, &script, &["processes", DIRECTORY])
                .with("BATON_WINDOW", "3600"),
            calls::gilda_policy(&peers, &script, processes),
            Arm::interpreted("stock Lua", &stock, &script, &["stock", DIRECTORY]),
        ],
        cases: SWITCHING.map(case).to_vec(),
        rounds: options.rounds,
        figure: "ms",
        limit: LIMIT,
    })
}

fn calls(bench: &Bench, options: &GildaOptions) -> Result<Contest> {
    let (baton, stock) = (bench.paths.baton()?, bench.paths.stock()?);
    let microseconds = Duration::from_secs_f64(options.seconds).as_micros() as u64;
    let turns = calls::turns_that_last(SHORT_CALL)?;
    let long = LONG.map(|(name, title)| {
        let title = format!("long calls, {title}");
        Case::new(name, title, &[&name, &2, &microseconds])
    });
    let short = SHORT.map(|(name, title)| {
        let title = format!("short calls, {title}");
        Case::new(name, title, &[&name, &options.calls, &turns])
    });
    Ok(Contest {
        arms: calls::arms(bench, &baton, &stock)?,
        cases: long.into_iter().chain(short).collect(),
        rounds: options.rounds,
        figure: "ms",
        limit: LIMIT,
    })
}
