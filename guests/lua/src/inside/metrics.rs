//! Counters and histograms, and what there is at the moment.

mod of_program;
mod of_servers;
mod present;

use super::PATIENCE;
use crate::vms::list;
use crate::{answers, call_times, own_metrics};
use baton_capi::settings::{Count, NamedCount, counters, of_executor};
use baton_core::time_buckets::{BOUNDS, TimeBuckets};
use baton_core::vm::Vm;
use baton_formats::metrics::{Family, MetricProblem};
use present::{Present, PresentFamilies};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

/// The names of the histograms, as `answers/metrics.rs` has them.
const LATENESS: &str = "lateness";
const SLICE_OVERRUN: &str = "slice_overrun";
const FOREIGN_CALL: &str = "foreign_call";

/// The numbers of the first VM, and in `vms` those of each VM beside it, by their names; and
/// families of metrics of all VMs and of the program.
pub(super) fn answer() -> Value {
    let mut all = list::observed().into_iter();
    let mut answer = match all.next() {
        Some(first) => of_vm(&first.vm),
        None => json!({ "counters": {}, "is_whole": false, "histograms": {} }),
    };
    let calls = call_times::all().into_iter();
    let calls = calls.map(|(name, times)| (Some(name), times));
    answer["histograms"][FOREIGN_CALL] = histogram(calls);
    let beside: Map<String, Value> = all.map(|seen| (seen.name, of_vm(&seen.vm))).collect();
    answer["vms"] = beside.into();
    answer["families"] = json!(families().unwrap_or_default());
    answer
}

/// Numbers and times in seconds, by name, and histograms of times. While a process keeps the VM,
/// only what any thread can read.
fn of_vm(vm: &Vm) -> Value {
    let threads = vm.threads();
    let seen = vm.look(PATIENCE, move |view| {
        let times = (*view.sched().lateness(), *view.slice_overruns());
        (counters(view, threads), times)
    });
    let mut histograms = Map::new();
    let (all, is_whole) = match seen {
        Ok((all, (lateness, overruns))) => {
            histograms.insert(LATENESS.to_owned(), histogram([(None, lateness)]));
            histograms.insert(SLICE_OVERRUN.to_owned(), histogram([(None, overruns)]));
            (all, true)
        }
        Err(_) => (of_executor(vm), false),
    };
    json!({ "counters": Counters(all), "is_whole": is_whole, "histograms": histograms })
}

/// All that is no counter or histogram of a VM. The names are ours, so there is no problem.
fn families() -> Result<Vec<Family>, MetricProblem> {
    let mut families = of_program::families()?;
    let mut present = PresentFamilies::new()?;
    for (number, observed) in list::observed().into_iter().enumerate() {
        let label = [("vm", observed.name.as_bytes())];
        let labels = if number == 0 { &[][..] } else { &label[..] };
        if let Some(seen) = Present::read(&observed.vm) {
            present.add(labels, &seen)?;
        }
    }
    families.extend(present.into_families());
    families.extend(of_servers::families()?);
    families.extend(own_metrics::families()?);
    Ok(families)
}

/// Whether a metric of ours has this name.
pub(super) fn has(name: &str) -> bool {
    let Ok(present) = PresentFamilies::new() else {
        return false;
    };
    let present = present.into_families();
    let ours = of_program::families().unwrap_or_default().into_iter();
    let servers = of_servers::all().unwrap_or_default();
    let mut ours = ours.chain(present).chain(servers);
    answers::metrics::has(name) || ours.any(|family| family.name() == name)
}

/// Counters by name. Written as text at once: a tree of values would cost several times as much.
#[derive(Clone)]
pub(super) struct Counters(pub(super) Vec<NamedCount>);

impl Serialize for Counters {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let named = |(name, count): &NamedCount| (name.to_string_lossy(), Shown(*count));
        serializer.collect_map(self.0.iter().map(named))
    }
}

/// A number, or a time in seconds.
struct Shown(Count);

impl Serialize for Shown {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Count::Number(number) | Count::OfThreads(number) => serializer.serialize_u64(number),
            Count::Time(time) => serializer.serialize_f64(time.as_secs_f64()),
        }
    }
}

/// A histogram: times by the name of a function, if there is one.
fn histogram(series: impl IntoIterator<Item = (Option<String>, TimeBuckets)>) -> Value {
    let series: Vec<Value> = series
        .into_iter()
        .map(|(function, times)| {
            let mut one = json!({
                "counts": times.counts().as_slice(),
                "sum": seconds(times.sum()),
            });
            if let (Some(name), Some(fields)) = (function, one.as_object_mut()) {
                fields.insert("function".to_owned(), name.into());
            }
            one
        })
        .collect();
    let bounds: Vec<f64> = BOUNDS.iter().map(|&bound| seconds(bound)).collect();
    json!({ "bounds": bounds, "series": series })
}

fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}
