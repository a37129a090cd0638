//! Metrics as text, with the meanings of the counters.

use FamilyKind::{Counter, Gauge};
pub use baton_formats::metrics::TextFormat;
use baton_formats::metrics::{Family, FamilyKind, Histogram, MetricProblem, Metrics};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The counters: name, kind and meaning. `process.stats` in the definitions for the language server
/// has the same meanings.
const COUNTERS: &[(&str, FamilyKind, &str)] = &[
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
    (
        "kills_held",
        Counter,
        "of these: held back by a shield, a section or a `__close` method",
    ),
    (
        "holds_cut",
        Counter,
        "of these: second ones, which ended what held the first one back",
    ),
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
        "seconds that `learned` may spin in vain now",
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

/// The histograms: name, and meaning. Their times are in seconds.
const HISTOGRAMS: [(&str, &str); 3] = [
    (
        "lateness",
        "from a deadline until a wait or sleep ended for it, or a timer fired",
    ),
    (
        "slice_overrun",
        "by how much a slice was too long while an equal was runnable",
    ),
    (
        "foreign_call",
        "how long others ran beside a foreign call, by its function",
    ),
];

/// An answer.
#[derive(Deserialize)]
struct Answer {
    counters: Map<String, Value>,
    #[serde(default)]
    histograms: Map<String, Value>,
    #[serde(default)]
    families: Vec<Family>,
    /// The same of the VMs beside the first one, by name.
    #[serde(default)]
    vms: BTreeMap<String, OfVm>,
}

/// What an answer has of a VM beside the first one.
#[derive(Deserialize)]
struct OfVm {
    counters: Map<String, Value>,
    #[serde(default)]
    histograms: Map<String, Value>,
}

/// The value of this name of each VM: of the first one without a label, of the others with `vm`.
fn of_all_vms<'a>(
    first: &'a Value,
    others: impl Iterator<Item = (&'a String, Option<&'a Value>)>,
) -> Vec<(Option<&'a str>, &'a Value)> {
    let others = others.filter_map(|(vm, value)| Some((Some(vm.as_str()), value?)));
    [(None, first)].into_iter().chain(others).collect()
}

/// A histogram of an answer.
#[derive(Deserialize)]
struct Times {
    /// In seconds, as the sum.
    bounds: Vec<f64>,
    /// By labels: one label, or none.
    series: Vec<Series>,
}

/// The times with one label.
#[derive(Deserialize)]
struct Series {
    #[serde(default)]
    function: Option<String>,
    counts: Vec<u64>,
    sum: f64,
}

/// The answer to the question `metrics` as text.
///
/// # Errors
/// The answer is not one, of this or an earlier version.
pub fn text(answer: &Value, format: TextFormat) -> Result<String, String> {
    let answer = Answer::deserialize(answer).map_err(|error| format!("a wrong answer: {error}"))?;
    let mut metrics = Metrics::default();
    let mut add = |family: Result<Family, MetricProblem>| {
        let added = family.and_then(|family| metrics.add(family));
        added.map_err(|problem| problem.to_string())
    };
    for (name, value) in &answer.counters {
        let others = answer.vms.iter();
        let others = others.map(|(vm, its)| (vm, its.counters.get(name)));
        add(counter(name, &of_all_vms(value, others)))?;
    }
    for (name, value) in &answer.histograms {
        let others = answer.vms.iter();
        let others = others.map(|(vm, its)| (vm, its.histograms.get(name)));
        let read = |(vm, value)| Ok((vm, Times::deserialize(value)?));
        let times: Result<Vec<_>, serde_json::Error> =
            of_all_vms(value, others).into_iter().map(read).collect();
        add(histogram(
            name,
            times.map_err(|error| format!("a wrong answer: {error}"))?,
        ))?;
    }
    for family in answer.families {
        add(Ok(family))?;
    }
    Ok(metrics.text(format))
}

/// Whether a counter or histogram of an answer has this name.
pub(crate) fn has(name: &str) -> bool {
    let names = COUNTERS.iter().map(|&(name, ..)| name);
    let mut names = names.chain(HISTOGRAMS.iter().map(|&(name, _)| name));
    let Some(name) = name.strip_prefix("baton_") else {
        return false;
    };
    names.any(|known| name == known || name.strip_suffix("_seconds") == Some(known))
}

/// The label of a VM beside the first one.
fn label_of(vm: Option<&str>) -> Option<(&'static str, &[u8])> {
    vm.map(|vm| ("vm", vm.as_bytes()))
}

fn counter(name: &str, values: &[(Option<&str>, &Value)]) -> Result<Family, MetricProblem> {
    // A program of a later version may have more.
    let known = COUNTERS.iter().find(|&&(known, ..)| known == name);
    let (kind, help) = known.map_or((Gauge, ""), |&(_, kind, help)| (kind, help));
    let mut family = Family::new(kind, &format!("baton_{name}"), help)?;
    if TIMES.contains(&name) {
        family = family.in_unit("seconds")?;
    }
    for &(vm, value) in values {
        let label = label_of(vm);
        match value.as_u64() {
            Some(number) => family.add(label.as_slice(), number)?,
            None => family.add(label.as_slice(), value.as_f64().unwrap_or_default())?,
        }
    }
    Ok(family)
}

fn histogram(name: &str, all: Vec<(Option<&str>, Times)>) -> Result<Family, MetricProblem> {
    let known = HISTOGRAMS.iter().find(|&&(known, _)| known == name);
    let help = known.map_or("", |&(_, help)| help);
    let family = Family::new(FamilyKind::Histogram, &format!("baton_{name}"), help)?;
    let mut family = family.in_unit("seconds")?;
    for (vm, times) in all {
        for Series {
            function,
            counts,
            sum,
        } in times.series
        {
            let function = function.as_deref();
            let of_function = function.map(|name| ("function", name.as_bytes()));
            let labels: Vec<_> = of_function.into_iter().chain(label_of(vm)).collect();
            let bounds = times.bounds.clone();
            family.add_histogram(
                &labels,
                Histogram {
                    bounds,
                    counts,
                    sum,
                },
            )?;
        }
    }
    Ok(family)
}
