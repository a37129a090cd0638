//! The processes that use most, and totals: for a table that is shown again and again.
//!
//! A first look reads the times of all processes. Only the rows that are shown are described, in a
//! second look. So ten thousand processes pause for less than a millisecond.

use super::{PATIENCE, metrics, stacks};
use baton_core::sched::ProcessId;
use baton_core::vm::{NoLook, View, Vm};
use baton_observe::report::Process;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// The maximal number of rows.
const MOST_ROWS: usize = 1000;

/// The details of the question.
#[derive(Deserialize)]
struct TopWanted {
    rows: usize,
    sort: Sort,
}

/// What the first rows have most of.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Sort {
    /// Processor time since the last question.
    Cpu,
    /// Processor time in all.
    Total,
    /// The time since it last ran.
    Idle,
    /// The number: the newest first.
    New,
}

/// The times of all processes at the last question.
#[derive(Default)]
pub(super) struct LastTimes {
    at: Option<Instant>,
    /// Processor time, by process.
    cpu: HashMap<ProcessId, Duration>,
}

/// A process in the first look.
struct Times {
    process: ProcessId,
    cpu: Duration,
    idle: Duration,
}

/// A row of the table.
#[derive(Serialize)]
struct Row {
    #[serde(flatten)]
    process: Process,
    /// Processor time since the last question, as a share of the time that has passed.
    share: f64,
}

pub(super) fn answer(vm: &Vm, with: &Value, seen: &mut LastTimes) -> Result<Value, String> {
    let wanted = TopWanted::deserialize(with).map_err(|error| {
        format!("'rows' and 'sort' expected, the latter cpu, total, idle or new: {error}")
    })?;
    let times = match vm.look(PATIENCE, read_times) {
        Ok(times) => times,
        Err(NoLook::Ended) => return Err("the program is ending".to_owned()),
        Err(NoLook::KeptInside) => {
            return Ok(json!({ "kept_inside": true, "totals": metrics::answer(vm) }));
        }
    };
    let now = Instant::now();
    let passed = seen.at.map_or(Duration::ZERO, |at| now - at);
    let used = |times: &Times| match seen.at {
        None => Duration::ZERO,
        Some(_) => {
            let before = seen.cpu.get(&times.process).copied().unwrap_or_default();
            times.cpu.saturating_sub(before)
        }
    };
    let count = times.len();
    let mut order: Vec<(Duration, &Times)> =
        times.iter().map(|times| (used(times), times)).collect();
    match wanted.sort {
        // Before there is a share, the total decides.
        Sort::Cpu => order.sort_by_key(|&(used, times)| Reverse((used, times.cpu))),
        Sort::Total => order.sort_by_key(|&(_, times)| Reverse(times.cpu)),
        Sort::Idle => order.sort_by_key(|&(_, times)| Reverse(times.idle)),
        Sort::New => order.reverse(),
    }
    order.truncate(wanted.rows.min(MOST_ROWS));
    let chosen: Vec<(ProcessId, f64)> = order
        .iter()
        .map(|&(used, times)| (times.process, share(used, passed)))
        .collect();
    let rows = vm
        .look(PATIENCE, move |view| describe(view, &chosen))
        .unwrap_or_default();
    *seen = LastTimes {
        at: Some(now),
        cpu: times
            .into_iter()
            .map(|times| (times.process, times.cpu))
            .collect(),
    };
    Ok(json!({
        "kept_inside": false,
        "processes": count,
        "rows": rows,
        "totals": metrics::answer(vm),
    }))
}

fn share(used: Duration, passed: Duration) -> f64 {
    match passed.is_zero() {
        true => 0.0,
        false => used.as_secs_f64() / passed.as_secs_f64(),
    }
}

fn read_times(view: &mut View<'_>) -> Vec<Times> {
    let times = |process| Times {
        process,
        cpu: view.time_used(process).cpu,
        idle: view.idle_for(process).unwrap_or_default(),
    };
    view.sched().iter().map(times).collect()
}

fn describe(view: &mut View<'_>, chosen: &[(ProcessId, f64)]) -> Vec<Row> {
    let names = view.thread_names();
    let living = chosen
        .iter()
        .filter(|&&(process, _)| view.sched().is_alive(process));
    living
        .map(|&(process, share)| Row {
            process: stacks::process(view, &names, process, 1),
            share,
        })
        .collect()
}
