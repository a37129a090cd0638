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
    let whole = |own: &str, all: &str| (own.to_owned(), all.to_owned());
    assert_eq!(own_and_all("json.lua:3"), whole("600ms", "600ms"));
    assert_eq!(own_and_all("server.lua:12"), whole("400ms", "1000ms"));
}

/// pprof merges what has the same name.
#[test]
fn pprof_tells_functions_apart_that_have_no_name_or_the_same() {
    let mut profile = Profile::new(Measure::CpuTime, "a.lua");
    let at = |name: &str, line| Frame::lua(name, "a.lua", line + 1).beginning_at(line);
    let main = || Frame::lua("main chunk", "a.lua", 60);
    for (inner, value) in [
        (at("", 31), 1_000_000),
        (at("", 35), 2_000_000),
        (at("f", 49), 3_000_000),
        (at("f", 50), 4_000_000),
        (Frame::c("execute", "sqlite3.so"), 5_000_000),
        (Frame::c("execute", "mysql.so"), 6_000_000),
    ] {
        let stack = profile.stack([inner, main()]);
        profile.add(stack, value, 1, Labels::default());
    }
    let Some(top) = pprof(&profile, &["-top", "-unit=ms"]) else {
        return;
    };
    for (name, own) in [
        ("  a.lua:31", "1ms"),
        ("  a.lua:35", "2ms"),
        ("  f a.lua:49", "3ms"),
        ("  f a.lua:50", "4ms"),
        ("  execute sqlite3.so", "5ms"),
        ("  execute mysql.so", "6ms"),
        ("  main chunk a.lua", "0"),
    ] {
        let mut lines = top.lines().filter(|line| line.ends_with(name));
        let line = lines
            .next()
            .unwrap_or_else(|| panic!("no '{name}' in {top}"));
        assert_eq!(line.split_whitespace().next(), Some(own), "{name}: {top}");
        assert_eq!(lines.next(), None, "{top}");
    }
}

#[test]
fn pprof_selects_by_vm() {
    let mut profile = Profile::new(Measure::CpuTime, "a.lua");
    let stack = profile.stack([Frame::lua("f", "a.lua", 3).beginning_at(2)]);
    profile.add(stack, 4_000_000, 1, Labels::default().in_vm("main"));
    profile.add(stack, 3_000_000, 1, Labels::default().in_vm("worker"));
    let Some(top) = pprof(&profile, &["-top", "-unit=ms", "-tagfocus=vm=worker"]) else {
        return;
    };
    assert_eq!(lines_of(&top, "a.lua:2")[0][0], "3ms", "{top}");
}

#[test]
fn pprof_knows_lines_and_counts() {
    let options = ["-top", "-lines", "-sample_index=samples"];
    let Some(top) = pprof(&f_and_g(), &options) else {
        return;
    };
    let lines = lines_of(&top, "json.lua:7");
    assert_eq!(lines.len(), 1, "{top}");
    assert_eq!(
        (lines[0][0], lines[0][5], lines[0][6]),
        ("60", "g", "json.lua:3"),
        "{top}"
    );
    assert_eq!(lines_of(&top, "server.lua:14").len(), 1, "{top}");
}

#[test]
fn pprof_selects_by_process() {
    let options = ["-top", "-unit=ms", "-tagfocus=process_id=5"];
    let Some(top) = pprof(&f_and_g(), &options) else {
        return;
    };
    assert_eq!(lines_of(&top, "server.lua:12").len(), 1, "{top}");
    assert!(lines_of(&top, "json.lua:3").is_empty(), "{top}");
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
    // The head has the name of the file, too.
    let line = lines_of(&top, "server.lua").pop().expect("a line");
    assert_eq!((line[0], line[5]), ("3MB", "grow"), "{top}");
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
