//! `baton metrics`: the counters of a program, for Prometheus and its relatives.

use super::{Common, attach, print, print_json};
use baton_formats::metrics::{Family, FamilyKind, MetricProblem, Metrics};
use clap::Args;
use serde_json::Value;

#[derive(Args)]
pub(super) struct MetricsOptions {
    #[command(flatten)]
    common: Common,
}

use FamilyKind::{Counter, Gauge};

/// The counters: name, kind and meaning. `process.stats` in the definitions for the language server
/// has the same meanings.
const COUNTERS: [(&str, FamilyKind, &str); 42] = [
    ("switches", Counter, "switches from one process to another"),
    ("yields", Counter, "of these: because a process yielded"),
    (
        "preemptions_by_urgency",
        Counter,
        "of these: because a more urgent process became runnable",
    ),
    (
        "preemptions_by_slice",
        Counter,
        "of these: because a slice was over",
    ),
    ("wakes", Counter, "waits that ended"),
    ("timeouts", Counter, "of these: because the time was over"),
    ("kills", Counter, "kills of living processes"),
    ("spawned", Counter, "processes spawned"),
    ("ended", Counter, "processes that have ended"),
    ("timers_fired", Counter, "firings of timers"),
    (
        "timers_skipped",
        Counter,
        "firings skipped: they were late, or the last one still ran",
    ),
    (
        "pinned_waits",
        Counter,
        "waits of processes for the one native thread that they can run on",
    ),
    ("live", Gauge, "processes that have not ended"),
    ("runnable", Gauge, "processes that are runnable"),
    ("sleeping", Gauge, "processes that sleep"),
    (
        "foreign",
        Gauge,
        "processes in a C call beside which others run",
    ),
    (
        "waiting_for_thread",
        Gauge,
        "processes that wait for their native thread",
    ),
    ("beats", Counter, "preempt requests of the monitor"),
    (
        "signals",
        Counter,
        "signals sent because a preempt request was not noticed",
    ),
    (
        "retakes",
        Counter,
        "calls that lasted, so that others went on",
    ),
    (
        "false_retakes",
        Counter,
        "retakes given up because the call ended meanwhile",
    ),
    (
        "gave_way_in_calls",
        Counter,
        "times that a C call gave way at the end of its slice",
    ),
    (
        "exclusive_calls",
        Counter,
        "calls that lasted, and kept all others waiting",
    ),
    (
        "moves",
        Counter,
        "offloaded calls: ffi calls known to be long, made on another native thread",
    ),
    (
        "thread_bound_hits",
        Counter,
        "times that `max_threads` made a call wait",
    ),
    ("idle_waits", Counter, "waits of the program in the system"),
    (
        "descriptor_waits",
        Counter,
        "waits of processes for descriptors",
    ),
    (
        "descriptors_registered",
        Counter,
        "descriptors registered for these waits, each once",
    ),
    ("spins_hit", Counter, "spins in which the event came"),
    ("spins_failed", Counter, "spins in vain"),
    (
        "parks_long",
        Counter,
        "waits without a spin that were longer than a spin",
    ),
    (
        "parks_short",
        Counter,
        "waits without a spin that a spin would have met",
    ),
    ("spin_time", Counter, "seconds spun in all"),
    (
        "spin_budget_left",
        Gauge,
        "seconds that `\"learned\"` may spin in vain now",
    ),
    (
        "park_cost",
        Gauge,
        "seconds from a wake-up until the program runs, in nearly all cases",
    ),
    (
        "handovers",
        Counter,
        "times that a native thread gave the VM lock to another one; retakes are not counted",
    ),
    ("threads", Gauge, "native threads"),
    (
        "threads_named",
        Gauge,
        "native threads with names, \"main\" not counted",
    ),
    ("threads_started", Counter, "native threads started"),
    (
        "threads_retired",
        Counter,
        "native threads that ended for want of work",
    ),
    ("stacks_in_use", Gauge, "C stacks in use"),
    ("stacks_free", Gauge, "C stacks kept for new processes"),
];

/// The counters that are times, in seconds.
const TIMES: [&str; 3] = ["spin_time", "spin_budget_left", "park_cost"];

pub(super) fn run(options: &MetricsOptions) -> Result<(), String> {
    let mut program = attach(&options.common, false).map_err(|error| error.to_string())?;
    let answer = program.ask("metrics", Value::Null, &mut |_| Ok(()))?;
    if options.common.json {
        return print_json(&answer);
    }
    print(&text(&answer).map_err(|problem| problem.to_string())?)
}

/// The counters of an answer as OpenMetrics text.
fn text(answer: &Value) -> Result<String, MetricProblem> {
    let mut metrics = Metrics::default();
    let counters = answer.get("counters").and_then(Value::as_object);
    for (name, value) in counters.into_iter().flatten() {
        metrics.add(family(name, value)?)?;
    }
    Ok(metrics.into_text())
}

fn family(name: &str, value: &Value) -> Result<Family, MetricProblem> {
    // A program of a later version may have more.
    let known = COUNTERS.iter().find(|&&(known, ..)| known == name);
    let (kind, help) = known.map_or((Gauge, ""), |&(_, kind, help)| (kind, help));
    let mut family = Family::new(kind, &format!("baton_{name}"), help)?;
    if TIMES.contains(&name) {
        family = family.in_unit("seconds")?;
    }
    match value.as_u64() {
        Some(number) => family.add(&[], number)?,
        None => family.add(&[], value.as_f64().unwrap_or_default())?,
    }
    Ok(family)
}
