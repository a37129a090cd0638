//! Runs every experiment as quickly as possible, so that none stops working unnoticed. The tests
//! check that figures exist, and not their values.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use serde_json::Value;

const BENCH: &str = env!("CARGO_BIN_EXE_baton-bench");

/// The `baton` of the same build as the program under test. Cargo does not build the programs of
/// another package, so this builds it, with the features that it has in the whole workspace.
fn baton() -> &'static Path {
    static BATON: OnceLock<PathBuf> = OnceLock::new();
    BATON.get_or_init(|| {
        let profile = Path::new(BENCH)
            .parent()
            .expect("the program to be in a directory");
        let target = profile.parent().expect("that directory to be in cargo's");
        let mut build = baton_harness::cargo();
        build
            .args(["build", "--quiet", "--workspace", "--bin", "baton"])
            .arg("--target-dir")
            .arg(target);
        if !profile.ends_with("debug") {
            let name = profile.file_name().expect("the directory of a profile");
            build.arg("--profile").arg(name);
        }
        let status = build.status().expect("cargo to start");
        assert!(status.success(), "baton was not built: {status}");
        profile.join("baton")
    })
}

/// The program under test, with the `baton` of this build, and with the peers of one directory
/// only.
fn bench(words: &[&str], peers: &Path) -> Command {
    let mut command = Command::new(BENCH);
    command
        .args(words)
        .arg("--baton")
        .arg(baton())
        .arg("--peers")
        .arg(peers);
    command.stdin(Stdio::null());
    command
}

fn run(command: &mut Command) -> Output {
    command.output().expect("the program to start")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn shown(output: &Output) -> String {
    format!(
        "{}\n{}\n{}",
        output.status,
        text(&output.stdout),
        text(&output.stderr)
    )
}

/// The documents that a run wrote with `--json`.
fn documents(file: &Path) -> Vec<Value> {
    let text = fs::read_to_string(file).expect("the JSON file to be there");
    match serde_json::from_str(&text).expect("the file to be JSON") {
        Value::Array(documents) => documents,
        document => vec![document],
    }
}

fn list<'a>(document: &'a Value, name: &str) -> &'a Vec<Value> {
    document[name]
        .as_array()
        .unwrap_or_else(|| panic!("no list '{name}' in {document:#}"))
}

/// Installs a script in the place of Go's program, with the interface of a peer.
fn pretend_peer(peers: &Path) {
    let directory = peers.join("go");
    fs::create_dir(&directory).expect("a directory for the peer");
    let server = concat!(env!("CARGO_MANIFEST_DIR"), "/programs/net/baton.lua");
    let script = "#!/bin/sh\n\
        case $1 in\n\
        version) echo go0.0 ;;\n\
        thread-metric) echo '{\"counts\": 1000, \"seconds\": 0.5, \"cpu\": 0.5}' ;;\n\
        switch) echo '{\"ns\": 100}' ;;\n\
        scale) echo '{\"spawn_us\": 1, \"end_us\": 2, \"base_kib\": 100, \"rss_kib\": \
        900, \"pte_kib\": 100}' ;;\n\
        net) shift; exec BATON SERVER \"$@\" ;;\n\
        cores) shift; case $1 in net) shift; exec BATON SERVER \"$@\" ;; esac; \
        echo '{\"us\": 1, \"cpu_us\": 1, \"speedup\": 2, \"cpu\": 1}' ;;\n\
        esac\n";
    let script = script
        .replace("BATON", &baton().display().to_string())
        .replace("SERVER", server);
    let file = directory.join("peer");
    fs::write(&file, script).expect("the peer to be written");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755))
        .expect("the peer to be made executable");
}

#[test]
fn every_experiment_runs_and_is_written_as_json_charts_and_page() {
    let directory = tempfile::tempdir().expect("a directory");
    let at = |name: &str| directory.path().join(name);
    fs::create_dir(at("peers")).expect("a directory for peers");
    pretend_peer(&at("peers"));
    let mut command = bench(&["all", "--quick"], &at("peers"));
    command.arg("--json").arg(at("all.json"));
    command.arg("--html").arg(at("all.html"));
    command.arg("--charts").arg(at("charts"));
    let output = run(&mut command);
    // Peers are missing, which is always a failure.
    assert_eq!(output.status.code(), Some(1), "{}", shown(&output));

    let documents = documents(&at("all.json"));
    let page = fs::read_to_string(at("all.html")).expect("the page to be there");
    assert_eq!(documents.len(), 21, "{}", shown(&output));
    let mut charts = 0;
    for document in &documents {
        let name = document["experiment"].as_str().expect("a name");
        assert!(!list(document, "tables").is_empty(), "{name} has no table");
        assert!(!list(document, "charts").is_empty(), "{name} has no chart");
        charts += list(document, "charts").len();
        assert!(
            page.contains(&format!("<h2>{name}</h2>")),
            "{name} is not on the page"
        );
        for verdict in list(document, "verdicts") {
            if verdict["outcome"] == "unmet" {
                let reason = verdict["reason"].as_str().expect("a reason");
                let is_absence = reason.contains("cargo xtask peers")
                    || reason.contains("cargo xtask install")
                    || reason.contains("apt-get install lua5.4")
                    || reason.contains("apt-get install --no-install-recommends squeak-vm")
                    || (name == "gate" && reason == "nothing was measured");
                assert!(is_absence, "{name}: {verdict}");
            }
        }
    }
    assert_eq!(page.matches("<svg").count(), charts);
    let files = fs::read_dir(at("charts"))
        .expect("the charts' directory to be there")
        .count();
    assert_eq!(files, charts);
}

/// The operations that `thread-metric --count` gives to valgrind.
#[test]
fn every_operation_comes_to_its_end() {
    let names = [
        "switch",
        "yield",
        "hand-off",
        "preemption",
        "once-yield",
        "once-suspend",
        "once-suspend-in-general",
        "once-wait",
    ];
    for name in names {
        let mut limited = Command::new("timeout");
        let output = limited
            .args(["60", BENCH, "operation", name, "100"])
            .output();
        let output = output.expect("the program to start");
        assert!(output.status.success(), "{name}: {}", shown(&output));
    }
}

/// Whether `baton` finds LuaSec.
fn has_tls() -> bool {
    let mut command = Command::new(baton());
    let output = command
        .args(["-e", "require 'ssl'"])
        .output()
        .expect("baton to start");
    output.status.success()
}

#[test]
fn round_trips_beside_calls_are_measured_from_both_sides() {
    let transports: &[&str] = if has_tls() {
        &["plain", "tls"]
    } else {
        &["plain"]
    };
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("beside.json");
    let words = "blocking --beside sockets --seconds 0.1 --runs 1 --connections 2 --only \
                 nothing,fifo_open,require";
    let mut command = bench(&words.split(' ').collect::<Vec<_>>(), directory.path());
    command.args(["--transport", &transports.join(",")]);
    let output = run(command.arg("--json").arg(&file));
    assert!(output.status.success(), "{}", shown(&output));
    let document = &documents(&file)[0];
    let settings = list(document, "samples");
    assert_eq!(settings.len(), 2 * transports.len());
    for sample in settings.iter().flat_map(|setting| list(setting, "runs")) {
        let figure = |name: &str| {
            let found = sample["rounds"][0][name][0].as_f64();
            found.unwrap_or_else(|| panic!("no {name} in {sample}"))
        };
        assert!(figure("asked") > 10.0, "{sample}");
        assert!(figure("lasted_s") >= 0.09, "{sample}");
        assert!(figure("worst_ms") >= figure("median_ms"), "{sample}");
    }
    assert_eq!(list(document, "tables").len(), 2 * transports.len());
    // The case 'nothing' has no verdict, because it is only there for comparison.
    assert_eq!(list(document, "verdicts").len(), 2 * 2 * transports.len());
}

#[test]
fn waits_in_a_callback_are_measured_beside_calls() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("callbacks.json");
    let words = "blocking --beside callbacks --seconds 0.1 --runs 1 --only nothing,fifo_open";
    let mut command = bench(&words.split(' ').collect::<Vec<_>>(), directory.path());
    let output = run(command.arg("--json").arg(&file));
    assert!(output.status.success(), "{}", shown(&output));
    let document = &documents(&file)[0];
    assert_eq!(list(document, "verdicts").len(), 2);
    for run in list(&document["samples"], "runs") {
        let waits = run["rounds"][0]["waits"][0].as_f64();
        assert!(waits.is_some_and(|waits| waits > 5.0), "{run}");
    }
}

#[test]
fn a_peer_that_is_missing_stays_in_the_table_and_one_that_is_there_is_compared() {
    let directory = tempfile::tempdir().expect("a directory");
    pretend_peer(directory.path());
    let words = ["switch", "--rounds", "1", "--iterations", "1000"];
    let output = run(&mut bench(&words, directory.path()));
    let said = text(&output.stdout);
    let row = |name: &str| {
        said.lines()
            .find(|line| line.starts_with(name))
            .unwrap_or_default()
            .to_string()
    };
    assert!(row("Go").contains("100.0"), "{}", shown(&output));
    assert!(row("Boost.Fiber").contains("missing"), "{}", shown(&output));
    // Only baton has the last cases.
    let of_go = row("Go");
    let chain: Vec<&str> = of_go.split_whitespace().rev().take(2).collect();
    assert_eq!(chain, ["-", "-"], "{}", shown(&output));
    let goal = "a switch of the chain / stock's resume and yield <= 1";
    assert!(said.contains(goal), "{}", shown(&output));
    let unmet = "UNMET   beside Boost.Fiber  (missing: run cargo xtask peers)";
    assert!(said.contains(unmet), "{}", shown(&output));
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn reports_of_several_runs_become_one_page() {
    let directory = tempfile::tempdir().expect("a directory");
    let at = |name: &str| directory.path().join(name);
    for name in ["one.json", "two.json"] {
        let little = "fairness --runs 1 --work 0.02 --most 2 --rounds 1 --seconds 0.2";
        let words: Vec<&str> = little.split(' ').collect();
        let mut command = bench(&words, directory.path());
        let output = run(command.arg("--json").arg(at(name)));
        assert!(output.status.success(), "{}", shown(&output));
    }
    let output = Command::new(BENCH)
        .arg("report")
        .args([at("one.json"), at("two.json")])
        .arg("--html")
        .arg(at("page.html"))
        .output()
        .expect("the program to start");
    assert!(output.status.success(), "{}", shown(&output));
    let page = fs::read_to_string(at("page.html")).expect("the page to be there");
    assert_eq!(page.matches("<section").count(), 2);
}

#[test]
fn a_closed_standard_output_ends_the_program_silently() {
    let mut child = Command::new(BENCH)
        .args(["lua", "--list"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program to start");
    // The program may already have written into the pipe, which must not disturb it either.
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("the program to end");
    assert_eq!(text(&output.stderr), "");
    assert!(output.status.success(), "{}", output.status);
}

#[test]
fn an_error_is_one_line_that_names_the_cause() {
    let nowhere = Path::new("/nonexistent");
    let refused = |words: &[&str], expected: &str| {
        let output = run(&mut bench(words, nowhere));
        assert_eq!(output.status.code(), Some(1), "{}", shown(&output));
        assert!(
            text(&output.stderr).contains(expected),
            "{}",
            shown(&output)
        );
    };
    refused(
        &["lua", "--programs", "nothing"],
        "no program is named 'nothing'; there are binary_trees,",
    );
    refused(
        &["report", "/nonexistent/file.json"],
        "cannot read /nonexistent/file.json",
    );
    let directory = tempfile::tempdir().expect("a directory");
    let old = directory.path().join("baton");
    fs::write(&old, "#!/bin/sh\n[ \"$1\" = -v ] && echo Lua 5.4\n").expect("it to be written");
    fs::set_permissions(&old, fs::Permissions::from_mode(0o755)).expect("it to be executable");
    let output = Command::new(BENCH)
        .args(["cores", "--only", "spawn", "--baton"])
        .arg(&old)
        .output()
        .expect("the program to start");
    assert_eq!(output.status.code(), Some(1), "{}", shown(&output));
    let said = text(&output.stderr);
    assert!(said.contains("this baton has no baton.vm"), "{said}");
    let output = Command::new(BENCH)
        .args(["switch", "--baton", "/nonexistent/baton"])
        .output()
        .expect("the program to start");
    let said = text(&output.stderr);
    assert!(
        said.contains("/nonexistent/baton") && said.contains("cargo build --profile dist"),
        "{said}"
    );
}
