//! What `--json` writes, and the book's page about it.
#![cfg(target_os = "linux")]

mod harness;

use harness::observed::{WAITERS, ask, observed, ready};
use harness::{Outcome, Run, Started, baton_path};
use serde_json::Value;
use std::collections::BTreeSet;

/// Fields whose objects have names of the program's as keys.
const WITH_NAMES: [&str; 5] = ["counters", "histograms", "labels", "parameters", "vms"];

/// The names in code of a section of the book's page. `baton.stacks` has what others refer to.
fn documented(format: &str) -> BTreeSet<String> {
    let page = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/book/src/reference-json.md"
    );
    let page = std::fs::read_to_string(page).expect("the page is there");
    let sections = page.split("\n## `").skip(1);
    let sections: Vec<(&str, &str)> = sections.filter_map(|text| text.split_once('`')).collect();
    let section = |name: &str| sections.iter().find(|&&(heading, _)| heading == name);
    let (_, own) = section(format).unwrap_or_else(|| panic!("the page has no section {format}"));
    let others = match format {
        "baton.top" => section("baton.stacks").map_or("", |&(_, text)| text),
        _ => "",
    };
    // Every second part is in code.
    let own = own.split('`').skip(1).step_by(2);
    own.chain(others.split('`').skip(1).step_by(2))
        .map(|word| word.trim_end_matches('?').to_owned())
        .chain(["format", "version"].map(str::to_owned))
        .collect()
}

/// The names of all fields.
fn fields(value: &Value, into: &mut BTreeSet<String>) {
    match value {
        Value::Array(list) => list.iter().for_each(|one| fields(one, into)),
        Value::Object(object) => {
            for (name, value) in object {
                into.insert(name.clone());
                match (WITH_NAMES.contains(&name.as_str()), value) {
                    (true, Value::Object(named)) => {
                        named.values().for_each(|one| fields(one, into));
                    }
                    _ => fields(value, into),
                }
            }
        }
        _ => {}
    }
}

fn assert_is_documented(outcome: &Outcome, format: &str) {
    outcome.succeeds();
    let value: Value = serde_json::from_str(&outcome.stdout).expect("JSON");
    assert_eq!(value["format"], format, "{value}");
    assert_eq!(value["version"], 1, "{value}");
    let mut found = BTreeSet::new();
    fields(&value, &mut found);
    let documented = documented(format);
    let missing: Vec<_> = found.difference(&documented).collect();
    assert!(
        missing.is_empty(),
        "{missing:?} of {format} are not in docs/book/src/reference-json.md"
    );
}

fn program() -> Started {
    ready(observed(WAITERS).env("BATON_ATTACH", "all"))
}

#[test]
fn every_field_of_stacks_and_of_tables_is_in_the_book() {
    let program = program();
    for more in [&["--json"][..], &["--json", "--group"]] {
        assert_is_documented(&ask("stacks", &program, more), "baton.stacks");
        let more = [more, &["-d", "0.1"]].concat();
        assert_is_documented(&ask("top", &program, &more), "baton.top");
    }
    program.signal_until_it_ends("KILL");
}

#[test]
fn every_field_of_servers_is_in_the_book() {
    let code = "
        local http = require 'baton.http'
        assert(http.serve('127.0.0.1:0', function() return 200, 'x' end))
        print 'ready'
        io.stdout:flush()
        process.sleep(3600)";
    let program = ready(observed(code));
    let table = ask("top", &program, &["--json", "-d", "0.1"]);
    assert!(table.stdout.contains("\"servers\""), "{table}");
    assert_is_documented(&table, "baton.top");
    program.signal_until_it_ends("KILL");
}

#[test]
fn every_field_of_profiles_traces_and_metrics_is_in_the_book() {
    let program = program();
    let profile = ask("profile", &program, &["--json", "--waits", "-d", "0.2"]);
    assert_is_documented(&profile, "baton.profile");
    let file = program.scratch().join("x.pftrace");
    let file = file.to_string_lossy();
    let trace = ask("trace", &program, &["--json", "-d", "0.1", "-o", &file]);
    assert_is_documented(&trace, "baton.trace");
    assert_is_documented(&ask("metrics", &program, &["--json"]), "baton.metrics");
    program.signal_until_it_ends("KILL");
}

#[test]
fn every_field_of_heaps_and_parameters_is_in_the_book() {
    let program = program();
    let files = ["before", "after"].map(|name| {
        let file = program.scratch().join(format!("{name}.heapsnapshot"));
        let path = file.to_string_lossy().into_owned();
        let heap = ask("heap", &program, &["--json", "-o", &path]);
        assert_is_documented(&heap, "baton.heap");
        file
    });
    let diff = Run::of(baton_path()).arg("heap").arg("--diff");
    let diff = files.iter().fold(diff, |run, file| run.arg(file));
    assert_is_documented(&diff.arg("--json").run(), "baton.heap-diff");
    assert_is_documented(&ask("set", &program, &["--json"]), "baton.set");
    let set = ask("set", &program, &["slice", "0.005", "--json"]);
    assert_is_documented(&set, "baton.set");
    program.signal_until_it_ends("KILL");
}
