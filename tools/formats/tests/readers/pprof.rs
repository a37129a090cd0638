//! `go tool pprof` reads pprof's format.

use std::process::Command;
use std::sync::Mutex;

use baton_formats::profile::{Format, Frame, Labels, Measure, Profile};

use crate::{f_and_g, file, hostile, output, readers, skip};

/// The first run builds the program. Others wait for it.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// What pprof says of a profile. None if Go is missing, which is reported.
fn pprof(profile: &Profile, options: &[&str]) -> Option<String> {
    let _one = ONE_AT_A_TIME
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    if Command::new("go").arg("version").output().is_err() {
        skip::skip("profiles, by go tool pprof", "install golang-go");
        return None;
    }
    let mut bytes = Vec::new();
    profile
        .write(Format::Pprof, &mut bytes)
        .expect("a vector takes everything");
    let file = file(".pb.gz", &bytes);
    let mut command = Command::new("go");
    command
        .args(["tool", "pprof"])
        .args(options)
        .arg(file.path())
        .env("GOCACHE", readers().join("go"))
        .env("GOTOOLCHAIN", "local")
        .env("PPROF_TMPDIR", readers().join("go"));
    Some(output(&mut command))
}

/// The words of each line that ends with this function.
fn lines_of<'a>(text: &'a str, function: &str) -> Vec<Vec<&'a str>> {
    let words = text
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>());
    words
        .filter(|words| words.last() == Some(&function))
        .collect()
}

#[test]
fn pprof_finds_the_costs_of_functions() {
    let Some(top) = pprof(&f_and_g(), &["-top", "-unit=ms"]) else {
        return;
    };
    assert!(top.contains("Type: cpu"), "{top}");
    assert!(top.contains("File: server.lua"), "{top}");
    let own_and_all = |function| {
        let lines = lines_of(&top, function);
        assert_eq!(lines.len(), 1, "{top}");
        (lines[0][0].to_owned(), lines[0][3].to_owned())
    };
    assert_eq!(own_and_all("g"), ("600ms".to_owned(), "600ms".to_owned()));
    assert_eq!(own_and_all("f"), ("400ms".to_owned(), "1000ms".to_owned()));
}

#[test]
fn pprof_knows_lines_and_counts() {
    let options = ["-top", "-lines", "-sample_index=samples"];
    let Some(top) = pprof(&f_and_g(), &options) else {
        return;
    };
    let lines = lines_of(&top, "json.lua:7");
    assert_eq!(lines.len(), 1, "{top}");
    assert_eq!((lines[0][0], lines[0][5]), ("60", "g"), "{top}");
    assert_eq!(lines_of(&top, "server.lua:14").len(), 1, "{top}");
}

#[test]
fn pprof_selects_by_process() {
    let options = ["-top", "-unit=ms", "-tagfocus=process_id=5"];
    let Some(top) = pprof(&f_and_g(), &options) else {
        return;
    };
    assert_eq!(lines_of(&top, "f").len(), 1, "{top}");
    assert!(lines_of(&top, "g").is_empty(), "{top}");
}

#[test]
fn pprof_knows_what_was_waited_for() {
    let mut profile = Profile::new(Measure::Waits, "server.lua");
    let stack = profile.stack([Frame::c("lock", "")]);
    let labels = Labels::of_process("p", 1).waiting_for("mutex 'accounts'", "q");
    profile.add(stack, 4_000_000, 2, labels);
    let Some(tags) = pprof(&profile, &["-tags"]) else {
        return;
    };
    for expected in ["mutex 'accounts'", "holder: Total 4ms", "object: Total 4ms"] {
        assert!(tags.contains(expected), "{tags}");
    }
}

#[test]
fn pprof_reads_memory_as_bytes() {
    let mut profile = Profile::new(Measure::Allocation, "server.lua");
    profile.period = 512 * 1024;
    let stack = profile.stack([Frame::lua("grow", "server.lua", 3)]);
    profile.add(stack, 3 << 20, 6, Labels::default());
    let Some(top) = pprof(&profile, &["-top", "-unit=mb"]) else {
        return;
    };
    assert!(top.contains("Type: alloc_space"), "{top}");
    assert_eq!(lines_of(&top, "grow")[0][0], "3MB", "{top}");
}

#[test]
fn pprof_reads_hostile_names() {
    for measure in [Measure::WallTime, Measure::Waits] {
        let Some(raw) = pprof(&hostile(measure), &["-raw"]) else {
            return;
        };
        assert!(raw.contains("(anonymous)"), "{raw}");
        assert!(
            raw.contains("\u{fffd}\u{fffd}\u{fffd} no text \u{fffd}"),
            "{raw}"
        );
    }
}
