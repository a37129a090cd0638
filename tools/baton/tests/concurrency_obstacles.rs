//! Preemption where other code, a sandbox or the program's starter has broken what it depends on.
//!
//! An emulator has masks and sandboxes of its own: under one, the tests of those are left out.
#![cfg(target_os = "linux")]

mod harness;

use harness::observed::{assert_has, observed, stacks};
use harness::skip::{is_missing, skip};
use harness::{Run, baton, baton_path, program, with_process};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// `computes()` computes until another process has preempted it. If that never comes, it ends after
/// a while, and returns nil.
const COMPUTES: &str = "local function computes()
   local is_done
   process.spawn(function() process.sleep(0.02) is_done = true end)
   for _ = 1, 1e9 do if is_done then break end end
   return is_done
 end\n";

/// Computes for ever, while another process wants to run.
const FOR_EVER: &str = "process.spawn(process.yield)
 while true do end";

fn computing(code: &str) -> String {
    format!("{COMPUTES}{code}")
}

/// A run of baton by a command that prepares it.
fn started_by(command: &[&str]) -> Run {
    let run = Run::of(Path::new(command[0]));
    let run = command[1..].iter().fold(run, |run, word| run.arg(word));
    run.arg(baton_path())
        .arg("-e")
        .arg(with_process(&computing("print(computes())")))
}

#[test]
fn a_program_that_is_started_with_the_signal_blocked_is_preempted() {
    if program::is_emulated() {
        return;
    }
    let starter = ["env", "--block-signal=URG"];
    if is_missing(
        &[starter[0], starter[1], "true"],
        "coreutils",
        "a blocked signal",
    ) {
        return;
    }
    let outcome = started_by(&starter).run();
    outcome.succeeds().wrote("true\n").quietly();
}

/// The build for other systems knows of no policies of threads.
#[cfg(not(baton_portable))]
#[test]
fn a_program_under_a_real_time_policy_is_preempted_on_one_cpu() {
    for policy in ["-f", "-r"] {
        let starter = ["chrt", policy, "10", "taskset", "-c", "0"];
        let probe: Vec<&str> = starter.into_iter().chain(["true"]).collect();
        if program::is_emulated() || is_missing(&probe, "util-linux, and be root", "chrt") {
            return;
        }
        let outcome = started_by(&starter).run();
        outcome.succeeds().wrote("true\n").quietly();
    }
}

#[test]
fn a_library_that_takes_the_signal_keeps_its_handler_beside_ours() {
    let outcome = baton()
        .process_code(&computing(
            "local breaker = require 'breaker'
             for _ = 1, 2 do
               breaker.take()
               print(computes())
             end
             print(breaker.calls() > 0)",
        ))
        .run();
    outcome.succeeds().wrote("true\ntrue\ntrue\n");
    let warnings = outcome
        .stderr
        .matches("had taken the signal SIGURG")
        .count();
    assert_eq!(warnings, 1, "{outcome}");
    assert_eq!(outcome.stderr.lines().count(), 1, "{outcome}");
}

#[test]
fn a_signal_that_is_ignored_is_taken_back() {
    let code = computing("require('breaker').ignore() print(computes())");
    let outcome = baton().process_code(&code).run();
    outcome.succeeds().wrote("true\n");
    outcome.complained("baton: warning: processes that compute were not preempted: ");
}

#[test]
fn a_sandbox_that_refuses_one_system_call_leaves_another() {
    if program::is_emulated() {
        return;
    }
    let code = computing("require('breaker').refuse(false) print(computes())");
    let outcome = baton().process_code(&code).run();
    outcome.succeeds().wrote("true\n").quietly();
}

/// What is said of a process that computes after `code`: a warning, and `baton stacks`.
fn assert_says(code: &str, why: &str) {
    if program::is_emulated() {
        return;
    }
    let mut program = observed(&format!("{code}\n{FOR_EVER}")).start();
    program.await_stderr(why);
    let held = stacks(&program, &[]);
    assert_has(&held, "held: a process computes, and is not preempted: ");
    assert_has(&held, why);
    let outcome = program.signal_until_it_ends("KILL");
    outcome.complained("baton: warning: processes that compute are not preempted: ");
    assert_eq!(outcome.stderr.matches(why).count(), 1, "{outcome}");
}

#[test]
fn a_sandbox_that_refuses_signals_is_reported() {
    assert_says(
        "require('breaker').refuse(true)",
        "the system refuses the signal SIGURG, which preempts processes: Operation not permitted",
    );
}

/// The build for other systems cannot see another thread's mask.
#[cfg(not(baton_portable))]
#[test]
fn a_signal_that_is_blocked_later_is_reported() {
    assert_says(
        "require('breaker').block()",
        "the signal SIGURG, which preempts processes, is blocked on the native thread",
    );
}

/// Nobody else wants to run, so that no monitor has looked.
#[test]
fn stacks_of_a_process_alone_takes_the_signal_back() {
    let mut program = observed(
        "require('breaker').take()
         local function compute() while true do end end
         print 'ready' io.stdout:flush()
         compute()",
    )
    .start();
    program.await_stdout("ready\n");
    // The first look takes the signal back, but may not wait until the process gets a CPU.
    let mut looks = (0..50).map(|_| stacks(&program, &[]));
    assert!(looks.any(|text| text.contains("in local 'compute'")));
    program.signal_until_it_ends("KILL");
}

/// The library, built once; `None` if Go is missing, which is reported.
fn library_in_go() -> Option<PathBuf> {
    let go = ["/usr/local/go/bin/go", "go"]
        .into_iter()
        .find(|go| Command::new(go).arg("version").output().is_ok());
    let Some(go) = go else {
        skip("a library in Go", "install golang-go");
        return None;
    };
    let scratch = Path::new(env!("CARGO_TARGET_TMPDIR")).join("go");
    fs::create_dir_all(&scratch).expect("a directory can be made");
    let library = scratch.join("libadding.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/go/adding.go");
    let built = Command::new(go)
        .args(["build", "-buildmode=c-shared", "-o"])
        .arg(&library)
        .arg(&source)
        .env("CGO_ENABLED", "1")
        .env("GOCACHE", scratch.join("cache"))
        .env("GOFLAGS", "-mod=mod")
        .env("GOPATH", scratch.join("path"))
        .env("GOTOOLCHAIN", "local")
        .output()
        .expect("go starts");
    assert!(built.status.success(), "{built:?}");
    Some(library)
}

/// Go's runtime handles SIGURG, and does not call the handler before its own.
#[test]
fn a_library_in_go_leaves_preemption_as_it_is() {
    if program::is_emulated() {
        return;
    }
    let Some(library) = library_in_go() else {
        return;
    };
    let outcome = baton()
        .env("LIBRARY", library)
        .process_code(&computing(
            "local ffi = require 'baton.ffi'
             ffi.cdef 'int go_add(int a, int b);'
             local library = ffi.load(os.getenv 'LIBRARY')
             for _ = 1, 3 do
               assert(library.go_add(40, 2) == 42)
               print(computes())
             end
             os.exit(true, false)",
        ))
        .run();
    outcome.succeeds().wrote("true\ntrue\ntrue\n");
    let warnings = outcome
        .stderr
        .matches("had taken the signal SIGURG")
        .count();
    assert_eq!(warnings, 1, "{outcome}");
}
