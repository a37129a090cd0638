//! How programs that the debugger has started end, or do not; and processes that go on while they
//! are asked.
#![cfg(target_os = "linux")]

mod harness;

use harness::LIMIT;
use harness::debugger::{Session, script};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// A program that counts on in a file, and the file.
fn counting() -> (String, PathBuf) {
    let code = script(
        "local file = io.open(arg[0]:gsub('script.lua$', 'counts'), 'w')
         while true do
           file:write('x')
           file:flush()
           require 'baton.process'.sleep(0.001)
         end",
    );
    let file = code.with_file_name("counts");
    (code.display().to_string(), file)
}

#[track_caller]
fn await_size(file: &Path, size: u64) {
    let began = Instant::now();
    while fs::metadata(file).map_or(0, |data| data.len()) < size {
        assert!(began.elapsed() < LIMIT, "it does not go on");
    }
}

/// Waits for the end of a program, which its parent may not have seen: then it has no command line.
#[track_caller]
fn await_end(pid: u32) {
    let line = format!("/proc/{pid}/cmdline");
    let began = Instant::now();
    while fs::read(&line).is_ok_and(|line| !line.is_empty()) {
        assert!(began.elapsed() < LIMIT, "it goes on");
    }
}

#[test]
fn a_program_that_was_started_ends_when_the_debugger_is_killed() {
    for stops in [&[][..], &[4]] {
        let (code, file) = counting();
        let mut session = Session::launch(&code, stops);
        let pid = session.program();
        match stops {
            [] => await_size(&file, 1),
            _ => drop(session.stopped()),
        }
        session.kill();
        await_end(pid);
    }
}

#[test]
fn a_program_that_was_started_may_be_left_running() {
    for stops in [&[][..], &[4]] {
        let (code, file) = counting();
        let mut session = Session::launch(&code, stops);
        let pid = session.program();
        match stops {
            [] => await_size(&file, 1),
            _ => drop(session.stopped()),
        }
        session.ask("disconnect", json!({ "terminateDebuggee": false }));
        assert!(session.wait().success());
        let size = fs::metadata(&file).map_or(0, |data| data.len());
        await_size(&file, size + 100);
        kill(Pid::from_raw(pid.cast_signed()), Signal::SIGKILL).expect("it runs");
    }
}

#[test]
fn questions_to_a_process_that_goes_on_are_answered() {
    let code = script("local x = 1\nprint(x)\nwhile true do end\n")
        .display()
        .to_string();
    let mut session = Session::launch(&code, &[2]);
    let stop = session.stopped();
    // While it is busy, it is told twice to go on. It does so the first time.
    let busy = "(function() for _ = 1, 2e7 do end end)()";
    let busy = json!({ "expression": busy, "frameId": stop.ids[0] });
    let thread = json!({ "threadId": stop.thread });
    let all = [
        session.send("evaluate", busy),
        session.send("continue", thread.clone()),
        session.send("continue", thread),
    ];
    session.answers(&all);
    session.await_output("1\n"); // it runs
}

#[test]
fn a_program_that_is_started_without_debugging_stops_nowhere() {
    let code = script("local x = 1\nprint(pcall(error, 'caught'))\nprint(x)\n");
    let code = code.display().to_string();
    let mut session = Session::start(&[]);
    session.begin(json!({ "program": code, "noDebug": true, "stopOnEntry": true }));
    let set = session.set_breakpoints(&code, json!([{ "line": 3 }]));
    assert_eq!(set[0]["verified"], false);
    session.stop_at_errors(&["all"]);
    session.configured();
    assert_eq!(session.exit_code(), 0);
    assert_eq!(session.output, "false\tcaught\n1\n");
}

#[test]
fn a_client_that_goes_while_the_last_output_is_awaited_ends_the_session() {
    // The program that it starts keeps its output open.
    let code = script("os.execute('sleep 4 &')\n").display().to_string();
    let mut session = Session::launch(&code, &[]);
    let pid = session.program();
    await_end(pid);
    session.close();
    assert!(session.wait().success());
}
