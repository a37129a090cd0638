//! Programs whose heap is read by `baton heap`.

use super::observed::{ask, observed, ready};
use super::{Outcome, Run, Started};
use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// A run that shows its values, and has its requests and its socket in its own scratch directory.
///
/// While another process could run, a read of stdin does not hold the program's thread.
pub(crate) fn shown(code: &str) -> Run {
    let another = "process.spawn({ daemon = true }, process.sleep, 3600)";
    observed(&format!("{another}\n{code}"))
        .env("BATON_ATTACH", "all")
        .open_stdin()
}

/// A program that says "ready", and after each line that it reads calls `step()` and says "done".
pub(crate) fn stepwise(code: &str) -> Started {
    ready(shown(&format!(
        "{code}
         print 'ready'
         io.stdout:flush()
         while io.read() do
           step()
           print 'done'
           io.stdout:flush()
         end"
    )))
}

pub(crate) fn step(program: &mut Started) {
    program.write_stdin("\n");
    program.await_stdout("done\n");
}

pub(crate) fn heap(program: &Started, more: &[&str]) -> Outcome {
    ask("heap", program, more)
}

pub(crate) fn json(outcome: &Outcome) -> Value {
    outcome.succeeds();
    serde_json::from_str(&outcome.stdout).expect("JSON")
}

/// Writes a snapshot to a file of the program's scratch directory.
pub(crate) fn snapshot(program: &Started, name: &str) -> PathBuf {
    let path = program.scratch().join(format!("{name}.heapsnapshot"));
    heap(program, &["-o", &path.display().to_string()])
        .succeeds()
        .quietly();
    path
}

/// The processes that the program has started and not waited for.
pub(crate) fn children(program: &Started) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{}/task", program.pid())).expect("it lives");
    let of_task = |task: fs::DirEntry| fs::read_to_string(task.path().join("children"));
    let lists = tasks.filter_map(|task| of_task(task.ok()?).ok());
    lists
        .collect::<Vec<_>>()
        .join(" ")
        .split_whitespace()
        .map(|number| number.parse().expect("a number"))
        .collect()
}

/// Returns once `is_so`.
#[track_caller]
pub(crate) fn await_that(what: &str, is_so: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < until, "never happened: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// So many tables that a client needs a while for them.
pub(crate) const MANY: &str = "
    kept = {}
    for i = 1, 200000 do kept[i] = { i, tostring(i) } end";

/// The bytes of all objects in a summary.
pub(crate) fn sum(summary: &Value) -> u64 {
    let number = |value: &Value| value.as_u64().expect("a number");
    number(&summary["bytes"]) + number(&summary["garbage"]["bytes"])
}
