//! What is no message of the protocol ends `baton debug` with a plain error.
#![cfg(target_os = "linux")]

mod harness;

use harness::debugger::{Session, script};
use harness::{Outcome, Run, baton_path};
use serde_json::json;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

/// What `baton debug` does with this input.
fn given(input: &str) -> Outcome {
    Run::of(baton_path()).arg("debug").stdin(input).run()
}

#[track_caller]
fn is_refused(input: &str, why: &str) {
    let outcome = given(input);
    outcome.ends_with(1).without_panic();
    assert!(
        outcome.stderr.starts_with("baton: ") && outcome.stderr.contains(why),
        "{}",
        outcome.stderr
    );
    assert_eq!(outcome.stderr.lines().count(), 1, "{}", outcome.stderr);
}

#[test]
fn input_that_is_no_message_is_refused_with_a_sentence() {
    is_refused(
        "hello\n",
        "a header such as 'Content-Length: 119' expected, got 'hello'",
    );
    is_refused("hello", "a line of a header expected");
    is_refused(
        "Content-Length: 5\r\n\r\n{\"a\"",
        "a message of 5 bytes expected, got 4",
    );
    is_refused(
        "Content-Length: 5\r\n\r\nhello",
        "a message in JSON expected",
    );
    is_refused("Content-Type: x\r\n\r\n{}", "'Content-Length' expected");
    is_refused(&"X: y\r\n".repeat(100), "at most 16 lines expected");
    is_refused(&"x".repeat(100_000), "of at most 1024 bytes");
    let deep = "[".repeat(100_000);
    is_refused(
        &format!("Content-Length: {}\r\n\r\n{deep}", deep.len()),
        "a message in JSON expected",
    );
    is_refused(
        "Content-Length: 18\r\n\r\n{\"type\":\"request\"}",
        "a request expected",
    );
}

#[test]
fn lengths_that_no_memory_could_hold_are_refused() {
    for length in ["99999999999", "18446744073709551616", "-1", "1e9", ""] {
        is_refused(
            &format!("Content-Length: {length}\r\n\r\n"),
            "a message of at most 16777216 bytes expected",
        );
    }
}

#[test]
fn no_input_ends_it_quietly() {
    given("").succeeds().quietly();
}

#[test]
fn requests_before_there_is_a_program_are_answered_with_a_reason() {
    let mut session = Session::start(&[]);
    for request in [
        "setBreakpoints",
        "setExceptionBreakpoints",
        "continue",
        "next",
        "pause",
        "stackTrace",
        "scopes",
        "variables",
        "setVariable",
        "evaluate",
        "exceptionInfo",
        "source",
        "terminate",
        "launch",
        "nonsense",
    ] {
        let why = session.try_ask(request, json!(null)).expect_err(request);
        assert!(why.len() > 10, "{request}: {why}");
    }
    let strange = json!({ "threadId": "x", "frameId": -1, "variablesReference": 1e300 });
    session
        .try_ask("variables", strange)
        .expect_err("no such reference");
    let threads = session.ask("threads", json!({}));
    assert_eq!(threads["threads"], json!([]));
    assert!(session.disconnect().success());
}

#[test]
fn arguments_of_a_wrong_type_are_refused_and_the_session_goes_on() {
    let code = script("local x = 1\nprint(x)\n").display().to_string();
    let mut session = Session::start(&[]);
    let why = session
        .try_ask("launch", json!({ "program": 7 }))
        .expect_err("a path");
    assert!(why.contains("are wrong"), "{why}");
    let why = session.try_ask("launch", json!({ "program": code, "simulate": "x" }));
    assert!(why.expect_err("a seed").contains("one seed"), "no reason");
    for wrong in ["1-5", "1:p5@62", "1:p5@62=6,", "-1", ""] {
        let why = session.try_ask("launch", json!({ "program": code, "simulate": wrong }));
        let why = why.expect_err("no run");
        assert!(why.contains("such as 1:p5@62=6"), "{wrong}: {why}");
    }
    for wrong in ["x", "-1", "4294967296"] {
        let why = session.try_ask("attach", json!({ "pid": wrong }));
        let why = why.expect_err("no process id");
        assert!(why.contains("such as 4711"), "{why}");
    }
    session.begin(json!({ "program": code }));
    let why = session
        .try_ask("launch", json!({ "program": code }))
        .expect_err("one runs");
    assert!(why.contains("already"), "{why}");
    session
        .try_ask("setBreakpoints", json!({ "source": {}, "breakpoints": [] }))
        .expect_err("no path");
    let huge = json!({ "source": { "path": code },
        "breakpoints": [{ "line": i64::MAX }, { "line": -5 }] });
    session
        .try_ask("setBreakpoints", huge)
        .expect_err("no line");
    session.set_breakpoints(&code, json!([{ "line": 2, "condition": "x ==" }]));
    session.configured();
    let stop = session.stopped(); // with the mistake in the output
    session.await_output("syntax error near '=='");
    for expression in [
        "x ==",
        "error()",
        "error({})",
        "string.rep('x', 1 << 60)",
        ")",
    ] {
        let with = json!({ "expression": expression, "frameId": stop.ids[0] });
        session.try_ask("evaluate", with).expect_err(expression);
    }
    let long = format!("#'{}'", "x".repeat(1 << 20));
    assert_eq!(session.evaluate(stop.ids[0], &long), "1048576");
    session.resume("continue", stop.thread);
    assert_eq!(session.exit_code(), 0);
}

#[test]
fn a_script_that_is_not_there_ends_as_the_interpreter_says() {
    let mut session = Session::start(&[]);
    session.begin(json!({ "program": "/nonexistent.lua" }));
    session.configured();
    assert_eq!(session.exit_code(), 1);
    assert!(
        session.output.contains("cannot open /nonexistent.lua"),
        "{}",
        session.output
    );
}

#[test]
fn closing_the_input_ends_the_program_that_was_started() {
    let code = script("while true do end\n").display().to_string();
    let mut session = Session::launch(&code, &[]);
    let pid = session.program();
    session.close();
    assert!(session.wait().success());
    assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
}

#[test]
fn a_wrong_descriptor_in_the_environment_is_passed_over() {
    for value in ["x", "-1", "0", "9999", "99999999999999999999"] {
        Run::of(baton_path())
            .arg("-e")
            .arg("print(os.getenv('BATON_DEBUGGER'))")
            .env("BATON_DEBUGGER", value)
            .run()
            .wrote("nil\n");
    }
}

/// A program that has this end of a connection for its debugger.
fn started_by(theirs: &UnixStream) -> Run {
    rustix::io::fcntl_setfd(theirs, rustix::io::FdFlags::empty()).expect("it is open");
    Run::of(baton_path())
        .arg("-e")
        .arg("print 'begun'")
        .env("BATON_DEBUGGER", theirs.as_raw_fd().to_string())
}

#[test]
fn a_debugger_that_goes_before_it_is_attached_lets_the_program_begin() {
    for said in ["", "{\"version\":999}\n", "{\"version\":1}\n", "nonsense\n"] {
        let (mut ours, theirs) = UnixStream::pair().expect("a pair");
        let program = started_by(&theirs);
        ours.write_all(said.as_bytes()).expect("it has room");
        drop(ours);
        program.run().wrote("begun\n");
    }
}
