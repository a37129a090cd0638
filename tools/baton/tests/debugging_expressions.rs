//! Expressions under the debugger: they can be ended, and they see processes that wait.
#![cfg(target_os = "linux")]

mod harness;

use harness::debugger::{Session, script};
use harness::observed;
use harness::{Run, Started, baton_path};
use serde_json::{Value, json};

/// Two processes: one computes in `work`, and one waits for it in `await`.
const PROGRAM: &str = "\
local channel = process.channel(nil, 'results')
rounds = 0
local function await(name)
  local wanted = { 'a result' }
  local got = channel:receive()
  print(name, wanted[1], got)
end
local function work()
  local n = 0
  while rounds < 1000000 do
    rounds = rounds + 1
    n = n + 1
    process.sleep(0.001)
  end
end
process.spawn({ name = 'waiter' }, function() await('ann') end)
process.spawn({ name = 'worker' }, work)
process.yield()
print 'all wait'
process.sleep(1000)
";

/// A script in a file. The module is loaded in its first line.
fn path(code: &str) -> String {
    let code = format!("process = require 'baton.process' {code}");
    script(&code).display().to_string()
}

/// The number of the process with this name.
fn thread_named(session: &mut Session, name: &str) -> i64 {
    let threads = session.ask("threads", json!({}));
    let mut all = threads["threads"].as_array().expect("a list").iter();
    let found = all.find(|thread| thread["name"].as_str().is_some_and(|it| it.contains(name)));
    let found = found.unwrap_or_else(|| panic!("no {name} in {threads}"));
    found["id"].as_i64().expect("a number")
}

/// The id of the first frame in a process whose function has a name that begins so.
fn frame_in(session: &mut Session, process: i64, function: &str) -> i64 {
    let stack = session.ask("stackTrace", json!({ "threadId": process }));
    let mut frames = stack["stackFrames"].as_array().expect("a list").iter();
    let frame = frames.find(|frame| {
        frame["name"]
            .as_str()
            .is_some_and(|name| name.starts_with(function))
    });
    let frame = frame.unwrap_or_else(|| panic!("no {function} in {stack}"));
    frame["id"].as_i64().expect("a number")
}

fn endless(frame: i64, expression: &str, context: &str) -> Value {
    json!({ "expression": expression, "frameId": frame, "context": context })
}

/// Waits for the answer of a request that fails, and returns why.
fn why(session: &mut Session, request: i64) -> String {
    let answer = session.answer(request);
    answer.expect_err("it has not ended by itself")
}

const RUNAWAYS: [&str; 4] = [
    "while true do end",
    "while true do pcall(function() while true do end end) end",
    "while true do pcall(process.sleep, 1000) end",
    "process.channel():receive()",
];

/// At a breakpoint, with or without the other processes, or in a simulated run.
fn runaways_end(with: Value) {
    let code = path(PROGRAM);
    let mut session = Session::start(&[]);
    let mut all = with;
    all["program"] = code.clone().into();
    session.begin(all);
    session.set_breakpoints(&code, json!([{ "line": 12 }]));
    session.configured();
    let stop = session.stopped();
    for (n, runaway) in RUNAWAYS.iter().enumerate() {
        let request = session.send("evaluate", endless(stop.ids[0], runaway, "repl"));
        match n % 2 {
            0 => session.ask("pause", json!({ "threadId": stop.thread })),
            _ => session.ask("cancel", json!({ "requestId": request })),
        };
        let why = why(&mut session, request);
        assert_eq!(
            why,
            ["the expression was ended", "cancelled"][n % 2],
            "{runaway}"
        );
        // The process is where it was, and nothing of the end is left.
        assert_eq!(session.evaluate(stop.ids[0], "n"), "0");
        assert_eq!(session.evaluate(stop.ids[0], "(pcall(error))"), "false");
    }
    session.resume("continue", stop.thread);
    let stop = session.stopped();
    assert_eq!(session.evaluate(stop.ids[0], "n"), "1");
    session.disconnect();
}

#[test]
fn an_expression_that_does_not_end_is_ended_by_a_pause_or_cancelled() {
    runaways_end(json!({}));
}

#[test]
fn with_all_stop_it_is_ended_too() {
    runaways_end(json!({ "allStop": true }));
}

#[test]
fn in_a_simulated_run_it_is_ended_too() {
    runaways_end(json!({ "simulate": 3 }));
}

#[test]
fn a_watch_and_a_hover_have_a_limit() {
    let code = path(PROGRAM);
    let mut session = Session::start(&[]);
    session.begin(json!({ "program": code, "watchLimit": 0.1 }));
    session.set_breakpoints(&code, json!([{ "line": 12 }]));
    session.configured();
    let stop = session.stopped();
    for context in ["watch", "hover"] {
        let with = endless(stop.ids[0], "(function() while true do end end)()", context);
        let why = session.try_ask("evaluate", with).expect_err("no end");
        assert!(why.contains("within 0.1 s"), "{why}");
    }
    assert_eq!(session.evaluate(stop.ids[0], "n"), "0");
    session.disconnect();
}

/// What was cancelled before it has begun does not begin.
#[test]
fn a_question_that_waits_behind_another_one_is_cancelled() {
    let code = path(PROGRAM);
    let mut session = Session::launch(&code, &[12]);
    let stop = session.stopped();
    let first = session.send("evaluate", endless(stop.ids[0], RUNAWAYS[0], "repl"));
    let second = session.send("evaluate", endless(stop.ids[0], "rounds = -1", "repl"));
    session.ask("cancel", json!({ "requestId": second }));
    assert_eq!(why(&mut session, second), "cancelled");
    session.ask("cancel", json!({ "requestId": first }));
    assert_eq!(why(&mut session, first), "cancelled");
    assert_eq!(session.evaluate(stop.ids[0], "rounds"), "1");
    session.disconnect();
}

#[test]
fn a_condition_that_does_not_end_is_ended_by_a_pause() {
    let code = path(PROGRAM);
    let mut session = Session::start(&[]);
    session.begin(json!({ "program": code }));
    let condition = "(function() io.write('tested\\n') while true do end end)()";
    session.set_breakpoints(&code, json!([{ "line": 12, "condition": condition }]));
    session.configured();
    session.await_output("tested");
    let worker = thread_named(&mut session, "worker");
    session.ask("pause", json!({ "threadId": worker }));
    let stop = session.stopped();
    assert_eq!((stop.thread, stop.frames[0].1), (worker, 12));
    session.await_output("script.lua:12: the condition of the breakpoint: the expression was");
    session.disconnect();
}

/// A program that is attached to, and its path.
fn attached(code: &str, all_stop: bool) -> (Started, Session, String) {
    let code = path(code);
    let run = Run::of(baton_path()).arg(&code).env("BATON_ATTACH", "all");
    let program = observed::ready(observed::in_own_directory(run).open_stdin());
    let mut session = Session::start(&[]);
    session.ask(
        "attach",
        json!({ "pid": program.pid(), "allStop": all_stop }),
    );
    session.event("initialized");
    (program, session, code)
}

const SERVICE: &str = "\
count = 0
local function serve(line)
  count = count + 1
  print('served ' .. count .. '.')
  io.stdout:flush()
end
local asked = process.channel()
process.spawn({ name = 'server' }, function()
  for line in function() return asked:receive() end do serve(line) end
end)
print 'ready'
for line in io.lines() do asked:send(line) end
os.exit()
";

fn is_served(program: &mut Started, n: u32) {
    program.write_stdin("\n");
    program.await_stdout(&format!("served {n}."));
}

#[test]
fn an_expression_does_not_outlive_the_debugger() {
    for all_stop in [false, true] {
        let (mut program, mut session, code) = attached(SERVICE, all_stop);
        session.set_breakpoints(&code, json!([{ "line": 3 }]));
        session.configured();
        program.write_stdin("\n");
        let stop = session.stopped();
        session.send("evaluate", endless(stop.ids[0], RUNAWAYS[1], "repl"));
        session.disconnect();
        program.await_stdout("served 1.");
        is_served(&mut program, 2);
        program.close_stdin();
        program.finish().succeeds();
    }
}

/// Nothing runs in the program: all its processes wait.
#[test]
fn an_idle_program_stops_with_all_stop_and_goes_on() {
    let (mut program, mut session, _) = attached(SERVICE, true);
    session.configured();
    let server = thread_named(&mut session, "server");
    for n in 1..=2 {
        session.ask("pause", json!({ "threadId": server }));
        let event = session.event("stopped");
        assert_eq!(
            (&event["reason"], &event["threadId"]),
            (&json!("pause"), &json!(server))
        );
        assert_eq!(event["allThreadsStopped"], true);
        program.write_stdin("\n");
        // Its own frames, and those of another process that waits.
        let frame = frame_in(&mut session, server, "function <");
        let count = (n - 1).to_string();
        assert_eq!(session.evaluate(frame, "count"), count);
        let frame = frame_in(&mut session, 1, "main chunk");
        assert_eq!(session.evaluate(frame, "count"), count);
        assert_eq!(session.shown(frame, "Locals").len(), 2);
        session.ask("continue", json!({ "threadId": server }));
        program.await_stdout(&format!("served {n}."));
    }
    // A step ends where the wait has ended.
    session.ask("pause", json!({ "threadId": server }));
    session.event("stopped");
    session.ask("next", json!({ "threadId": server }));
    program.write_stdin("\n");
    let stop = session.stopped();
    assert_eq!(stop.thread, server);
    // The pause may have come before the server waited. Then it has stopped, and makes a step.
    assert!(
        ["pause", "step"].contains(&stop.reason.as_str()),
        "{}",
        stop.reason
    );
    session.disconnect();
    program.await_stdout("served 3.");
    program.close_stdin();
    program.finish().succeeds();
}

/// Evaluates in the frame of `await`, which waits all the time.
fn see_the_waiter(session: &mut Session) {
    let waiter = thread_named(session, "waiter");
    let frame = frame_in(session, waiter, "await");
    assert_eq!(
        session.evaluate(frame, "name .. ', ' .. wanted[1]"),
        "\"ann, a result\""
    );
    let hover = endless(frame, "wanted", "hover");
    let hover = session.ask("evaluate", hover);
    assert_eq!(hover["result"], "{\"a result\"}");
    let reference = hover["variablesReference"].as_i64().expect("a number");
    assert_eq!(session.variables(reference)[0]["value"], "\"a result\"");
    assert_eq!(session.shown(frame, "Locals")[..1], ["name=\"ann\""]);
    // An expression that would wait does not, and one that does not end is ended.
    let with = endless(frame, "process.sleep(1)", "repl");
    let why = session
        .try_ask("evaluate", with)
        .expect_err("it may not wait");
    assert!(why.contains("process.critical"), "{why}");
    let request = session.send("evaluate", endless(frame, RUNAWAYS[1], "repl"));
    session.ask("cancel", json!({ "requestId": request }));
    assert_eq!(session.answer(request), Err("cancelled".to_owned()));
    let locals = session.scope(frame, "Locals");
    let set = json!({ "variablesReference": locals, "name": "wanted", "value": "{ name }" });
    session.ask("setVariable", set);
    assert_eq!(session.evaluate(frame, "wanted[1]"), "\"ann\"");
    session.evaluate(frame, "wanted = { 'a result' }");
}

#[test]
fn expressions_see_the_frames_of_processes_that_wait() {
    for all_stop in [false, true] {
        let code = path(PROGRAM);
        let mut session = Session::start(&[]);
        session.begin(json!({ "program": code, "allStop": all_stop }));
        session.set_breakpoints(&code, json!([{ "line": 12, "hitCondition": "5" }]));
        session.configured();
        let stop = session.stopped();
        see_the_waiter(&mut session);
        session.resume("continue", stop.thread);
        if !all_stop {
            // None has stopped, and the worker runs on.
            see_the_waiter(&mut session);
        }
        // Nothing was changed: the waiter gets its result.
        let waiter = thread_named(&mut session, "waiter");
        session.ask("pause", json!({ "threadId": waiter }));
        if all_stop {
            session.event("stopped");
            session.ask("continue", json!({ "threadId": waiter }));
        }
        session.disconnect();
    }
}

#[test]
fn the_frame_of_a_process_that_has_run_is_gone() {
    let code = path(PROGRAM);
    let mut session = Session::launch(&code, &[]);
    session.await_output("all wait");
    let waiter = thread_named(&mut session, "waiter");
    let frame = frame_in(&mut session, waiter, "await");
    session.evaluate(frame, "channel.send(channel, 'x')");
    session.await_output("ann\ta result\tx");
    let with = endless(frame, "name", "repl");
    let why = session.try_ask("evaluate", with).expect_err("it has ended");
    assert!(why.contains("has ended"), "{why}");
    session.disconnect();
}
