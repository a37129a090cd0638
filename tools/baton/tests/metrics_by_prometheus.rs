//! The metrics as Prometheus and its tool see them.
#![cfg(target_os = "linux")]

mod harness;

use harness::observed::ask;
use harness::scraped::{BUSY, OPEN_METRICS, scrape, serving_at_a_socket};
use harness::skip::is_missing;
use std::io::Write;
use std::process::{Command, Stdio};

/// What `promtool check metrics` finds wrong.
fn lint(text: &str) -> String {
    let mut promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut stdin = promtool.stdin.take().expect("a pipe");
    stdin.write_all(text.as_bytes()).expect("it reads");
    drop(stdin);
    let output = promtool.wait_with_output().expect("it ends");
    let mut all = String::from_utf8_lossy(&output.stdout).into_owned();
    all += &String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.success(), all.is_empty(), "{all}");
    all
}

fn promtool_is_missing(what: &str) -> bool {
    is_missing(&["promtool", "--version"], "prometheus", what)
}

#[test]
fn promtool_finds_nothing_wrong() {
    if promtool_is_missing("metrics, by promtool") {
        return;
    }
    let (program, path, _home) = serving_at_a_socket(BUSY);
    let served = scrape(&path, "*/*");
    let written = ask("metrics", &program, &[]);
    program.signal_until_it_ends("KILL");
    assert_eq!(lint(&served), "", "{served}");
    assert_eq!(lint(&written.succeeds().stdout), "");
}

/// Node exporter's textfile collector and its like read only Prometheus' own format.
#[test]
fn both_formats_have_the_same_values() {
    let (program, path, _home) = serving_at_a_socket(BUSY);
    let one = scrape(&path, "*/*");
    let other = scrape(&path, OPEN_METRICS);
    let written = ask("metrics", &program, &["--openmetrics"]);
    program.signal_until_it_ends("KILL");
    let names = |text: &str| {
        // Who waits, and who is in a call, differs from moment to moment.
        const OTHERS: [&str; 3] = ["#", "baton_waiting_", "baton_foreign_calls_"];
        let lines = text.lines();
        lines
            .filter(|line| !OTHERS.iter().any(|other| line.starts_with(other)))
            .map(|line| line.rsplit_once(' ').expect("a value").0.to_owned())
            .collect::<Vec<_>>()
    };
    assert!(names(&one).len() > 40, "{one}");
    assert_eq!(names(&one), names(&other));
    let written = written.succeeds().stdout.clone();
    assert_eq!(names(&one), names(&written));
    assert!(
        one.contains("# TYPE baton_switches_total counter\n"),
        "{one}"
    );
    for text in [&other, &written] {
        assert!(text.contains("# TYPE baton_switches counter\n"), "{text}");
        assert!(text.ends_with("# EOF\n"), "{text}");
    }
}
