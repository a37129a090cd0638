//! The programs with faults in `examples`: what the guide tells to type finds each fault.
#![cfg(target_os = "linux")]

mod harness;

use harness::observed;
use harness::{Outcome, Run, Started, baton, baton_path};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

fn example(name: &str) -> PathBuf {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    examples.join(name).canonicalize().expect("it is there")
}

/// An example that runs, and lets observers read its values.
fn started(name: &str, argument: &str) -> Started {
    let run = baton().arg(example(name)).arg(argument);
    let run = observed::in_own_directory(run);
    run.env("BATON_ATTACH", "all").start()
}

fn ask(words: &[&str]) -> Outcome {
    let run = words
        .iter()
        .fold(Run::of(baton_path()), |run, word| run.arg(word));
    run.run()
}

/// Asks again until the answer shows the fault. The program needs a moment to get there.
#[track_caller]
fn ask_until(words: &[&str], is_there: impl Fn(&Outcome) -> bool) -> Outcome {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let outcome = ask(words);
        if is_there(&outcome) {
            return outcome;
        }
        assert!(Instant::now() < until, "{outcome}");
    }
}

#[test]
fn the_shop_that_hangs_waits_for_its_archive() {
    let program = started("shop_hangs.lua", "3600");
    let pid = program.pid().to_string();
    let outcome = ask_until(&["stacks", "--group", &pid], |outcome| {
        outcome.stdout.contains("for the event 'archive open'")
            && outcome.stdout.contains("8 processes: waiting, to send")
    });
    outcome.succeeds();
    assert!(
        outcome
            .stdout
            .contains("process 2 'journal': waiting, for the event 'archive open'"),
        "{outcome}"
    );
    program.signal_until_it_ends("KILL");
}

#[test]
fn the_slow_report_compares_and_joins_texts() {
    let script = example("report_slow.lua");
    let outcome = ask(&[
        "profile",
        "--json",
        script.to_str().expect("a path in UTF-8"),
    ]);
    outcome.succeeds();
    let lines = outcome.stdout.lines();
    // The script's own output comes first.
    let text: String = lines.skip_while(|line| !line.starts_with('{')).collect();
    let profile: Value = serde_json::from_str(&text).expect("JSON");
    let functions = profile["functions"].to_string();
    for slow in ["by_name", "to_text"] {
        assert!(functions.contains(slow), "no {slow} in {functions}");
    }
}

#[test]
fn the_sessions_that_grow_are_kept_by_listeners() {
    let mut program = started("sessions_grow.lua", "3600");
    let pid = program.pid().to_string();
    let at = |name: &str| -> String {
        let path = program.scratch().join(name);
        path.to_str().expect("a path in UTF-8").to_owned()
    };
    let (before, after) = (at("before.heapsnapshot"), at("after.heapsnapshot"));
    program.await_stdout("1000 visitors");
    ask(&["heap", &pid, "-o", &before]).succeeds();
    program.await_stdout("3000 visitors");
    let way = "<variable news>.listeners[";
    let mut attempts = 0;
    let outcome = loop {
        attempts += 1;
        ask(&["heap", &pid, "-o", &after]).succeeds();
        let outcome = ask(&["heap", "--diff", &before, &after]);
        outcome.succeeds();
        // While the process 'news' goes through the listeners, its stack is a shorter way to them.
        // It does so ten times a second, and rests in between.
        let is_between = !outcome.stdout.contains("[\"process 2 'news'\"]");
        if is_between || attempts == 20 {
            break outcome;
        }
        std::fs::remove_file(&after).expect("it was written");
    };
    let lines = outcome.stdout.lines();
    let mut of_tables = lines.skip_while(|line| !line.ends_with("  table"));
    let way_to_tables = of_tables.nth(1).expect("a way to tables");
    assert!(
        way_to_tables.contains(way) && way_to_tables.contains("]<variable session>"),
        "{outcome}"
    );
    program.signal_until_it_ends("KILL");
}
