//! The counters.

use super::PATIENCE;
use crate::settings::{Count, NamedCount, counters, of_executor};
use baton_core::vm::Vm;
use serde_json::{Map, Value, json};

/// Numbers and times in seconds, by name. While a process keeps the VM, only those that any thread
/// can read.
pub(super) fn answer(vm: &Vm) -> Value {
    let threads = vm.threads();
    let (all, is_whole) = match vm.look(PATIENCE, move |view| counters(view, threads)) {
        Ok(all) => (all, true),
        Err(_) => (of_executor(vm), false),
    };
    values(all, is_whole)
}

/// Counters by name. `is_whole` says whether they are all.
pub(super) fn values(all: Vec<NamedCount>, is_whole: bool) -> Value {
    let values: Map<String, Value> = all.into_iter().map(named).collect();
    json!({ "counters": values, "is_whole": is_whole })
}

fn named((name, count): NamedCount) -> (String, Value) {
    let value = match count {
        Count::Number(number) | Count::OfThreads(number) => number.into(),
        Count::Time(time) => time.as_secs_f64().into(),
    };
    (name.to_string_lossy().into_owned(), value)
}
