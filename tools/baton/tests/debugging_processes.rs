//! The debugger beside many processes: the others go on, time goes on or stands still, and a
//! program that runs already is debugged.
#![cfg(target_os = "linux")]

mod harness;

use harness::debugger::{Session, Stop, script};
use harness::observed;
use harness::{Run, Started, baton_path};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

fn path(code: &str) -> String {
    script(&format!("local process = require 'baton.process'\n{code}"))
        .display()
        .to_string()
}

/// The stacks of all processes. On a busy machine the first answer may say that there was no moment
/// for a look.
fn stacks(pid: u32) -> String {
    loop {
        let outcome = Run::of(baton_path())
            .arg("stacks")
            .arg(pid.to_string())
            .run();
        outcome.succeeds();
        if !outcome.stdout.starts_with("held: ") {
            return outcome.stdout;
        }
    }
}

/// Evaluates a number in the innermost frame.
fn number(session: &mut Session, stop: &Stop, expression: &str) -> f64 {
    let text = session.evaluate(stop.ids[0], expression);
    text.parse()
        .unwrap_or_else(|_| panic!("{expression} is '{text}'"))
}

const COUNTERS: &str = "\
local counts = {}
local function total()
  local sum = 0
  for _, count in pairs(counts) do sum = sum + count end
  return sum
end
for i = 1, 999 do
  process.spawn(function()
    while true do
      counts[i] = (counts[i] or 0) + 1
      process.sleep(0.002)
    end
  end)
end
local function probe()
  local own = 0
  while true do
    own = own + total() * 0 + 1
    process.sleep(0.001)
  end
end
probe()
";

#[test]
fn the_other_999_processes_go_on_while_one_has_stopped() {
    let mut session = Session::launch(&path(COUNTERS), &[19]);
    let stop = session.stopped();
    assert_eq!(stop.event["allThreadsStopped"], false);
    let threads = session.ask("threads", json!({}));
    assert_eq!(threads["threads"].as_array().map(Vec::len), Some(1000));
    let before = number(&mut session, &stop, "total()");
    let own = number(&mut session, &stop, "own");
    // They count on while it stands.
    while number(&mut session, &stop, "total()") < before + 2000.0 {}
    assert_eq!(number(&mut session, &stop, "own"), own);
    let stop = session.step("next", stop.thread);
    assert_eq!(number(&mut session, &stop, "own"), own + 1.0);
    let answer = session.ask("continue", json!({ "threadId": stop.thread }));
    assert_eq!(answer["allThreadsContinued"], false);
    session.disconnect();
}

#[test]
fn a_process_that_has_stopped_is_no_deadlock_and_is_shown_as_holder() {
    let code = path(
        "local mutex = process.mutex { name = 'accounts' }
         local holder = process.spawn({ name = 'holder' }, function()
           mutex:lock()
           local held = true
           mutex:unlock()
         end)
         process.sleep(0)
         local function wait() mutex:lock() mutex:unlock() end
         local waiter = process.spawn({ name = 'waiter' }, wait)
         waiter:join()
         print 'done'",
    );
    let mut session = Session::start(&[]);
    session.begin(json!({ "program": code }));
    let pid = session.program();
    session.set_breakpoints(&code, json!([{ "line": 6 }]));
    session.configured();
    let stop = session.stopped();
    let shown = loop {
        let shown = stacks(pid);
        if shown.contains("'waiter': waiting") {
            break shown;
        }
    };
    assert!(
        shown.contains("for the mutex 'accounts', held by process 2 'holder'"),
        "{shown}"
    );
    assert!(
        shown.contains("'holder': waiting, for the semaphore 'of the debugger'"),
        "{shown}"
    );
    // Longer than the time after which a program without a debugger is reported.
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(1500) {
        let shown = stacks(pid);
        assert!(shown.contains("'waiter': waiting"), "{shown}");
    }
    session.resume("continue", stop.thread);
    assert_eq!(session.exit_code(), 0);
    assert_eq!(session.output, "done\n");
}

#[test]
fn a_real_deadlock_is_reported_when_none_has_stopped() {
    let code = path("local x = 1\nprocess.channel():receive()");
    let mut session = Session::launch(&code, &[2]);
    let stop = session.stopped();
    session.resume("continue", stop.thread);
    assert_eq!(session.exit_code(), 1);
    assert!(session.output.contains("deadlock"), "{}", session.output);
}

#[test]
fn a_process_that_has_stopped_can_be_killed() {
    let code = path(
        "local victim
         process.spawn({ daemon = true }, function()
           while not victim do process.sleep(0.001) end
           victim:kill('enough')
         end)
         local prey = process.spawn({ name = 'prey' }, function()
           local closes <close> = setmetatable({}, { __close = function() print 'closed' end })
           local x = 1
           x = x + 1
           print 'not reached'
         end)
         process.spawn({ daemon = true }, function()
           process.sleep(0.2)
           victim = prey
         end)
         print(prey:join())",
    );
    let mut session = Session::launch(&code, &[10]);
    let stop = session.stopped();
    let continued = session.event("continued");
    assert_eq!(continued["threadId"], stop.thread);
    assert_eq!(session.exit_code(), 0);
    assert_eq!(session.output, "closed\nfalse\tenough\n");
}

const SLEEPER: &str = "\
local began = process.now()
local fired = 0
process.every(0.05, function() fired = fired + 1 end)
local sleeper = process.spawn(function()
  process.sleep(0.3)
  return process.now() - began
end)
local function stop_here()
  local before = fired
  return before
end
process.sleep(0.12)
local before, now = fired, stop_here()
print(fired - before <= 1 and 'stood' or 'ran')
local ok, slept = sleeper:join()
print(slept > 0.9 and 'postponed' or 'in time', slept)
os.exit(true, true)
";

/// Runs it with a stop of 0.8 s.
fn stand_still(all_stop: bool) -> String {
    let code = path(SLEEPER);
    let mut session = Session::start(&[]);
    session.begin(json!({ "program": code, "allStop": all_stop }));
    session.set_breakpoints(&code, json!([{ "line": 10 }]));
    session.configured();
    let stop = session.stopped();
    assert_eq!(stop.event["allThreadsStopped"], all_stop);
    let before = number(&mut session, &stop, "fired");
    let began = Instant::now();
    let mut after = before;
    while began.elapsed() < Duration::from_millis(800) {
        after = number(&mut session, &stop, "fired");
    }
    assert_eq!(after == before, all_stop, "{before} {after}");
    session.resume("continue", stop.thread);
    assert_eq!(session.exit_code(), 0);
    std::mem::take(&mut session.output)
}

#[test]
fn timers_stand_still_with_all_stop() {
    let output = stand_still(true);
    assert!(output.starts_with("stood\npostponed"), "{output}");
}

#[test]
fn timers_go_on_otherwise() {
    let output = stand_still(false);
    assert!(output.starts_with("ran\nin time"), "{output}");
}

const LOST_UPDATE: &str = "\
local balance = 0
local function deposit(amount)
  local seen = balance
  for _ = 1, 3 do end
  balance = seen + amount
end
local clerks = {}
for i = 1, 4 do clerks[i] = process.spawn(deposit, 10) end
for i = 1, 4 do clerks[i]:join() end
print(balance, process.now())
assert(balance == 40)
";

#[test]
fn a_failing_seed_fails_in_the_same_way_under_the_debugger() {
    let code = path(LOST_UPDATE);
    let run = |seed: u64| {
        Run::of(baton_path())
            .arg("--simulate")
            .arg(seed.to_string())
            .arg("--explain")
            .arg("0")
            .arg(&code)
            .run()
    };
    let failing: Vec<(u64, String)> = (1..50)
        .map(|seed| (seed, run(seed)))
        .filter(|(_, outcome)| !outcome.status.success())
        .map(|(seed, outcome)| (seed, outcome.stdout))
        .take(3)
        .collect();
    assert_eq!(failing.len(), 3);
    for (seed, expected) in failing {
        let mut session = Session::start(&["--simulate", &seed.to_string(), &code]);
        session.begin(json!({}));
        session.set_breakpoints(&code, json!([{ "line": 6 }]));
        session.configured();
        let mut seen = Vec::new();
        for _ in 0..4 {
            let stop = session.stopped();
            assert_eq!(stop.event["allThreadsStopped"], true);
            seen.push(session.evaluate(stop.ids[0], "seen"));
            session.resume("continue", stop.thread);
        }
        assert_eq!(session.exit_code(), 1);
        assert!(session.output.contains(&expected), "{}", session.output);
        seen.sort();
        seen.dedup();
        assert!(seen.len() < 4, "two saw the same balance: {seen:?}");
    }
}

/// The run that an explanation says to repeat has fewer switches than that of the seed.
#[test]
fn the_run_that_an_explanation_prints_is_replayed_under_the_debugger() {
    let code = path(LOST_UPDATE);
    let found = Run::of(baton_path())
        .arg("--simulate")
        .arg("1-50")
        .arg(&code)
        .run();
    let told = found.stderr.split("--simulate ").find_map(|rest| {
        let (run, after) = rest.split_once(' ')?;
        after.starts_with("repeats these").then_some(run)
    });
    let run = told.unwrap_or_else(|| panic!("no run in {}", found.stderr));
    assert!(run.contains(":p"), "{run}");
    let alone = Run::of(baton_path())
        .arg("--simulate")
        .arg(run)
        .arg("--explain")
        .arg("0")
        .arg(&code)
        .run();
    for from_editor in [false, true] {
        let (arguments, with) = match from_editor {
            true => (vec![], json!({ "program": code, "simulate": run })),
            false => (vec!["--simulate", run, &code], json!({})),
        };
        let mut session = Session::start(&arguments);
        session.begin(with);
        session.set_breakpoints(&code, json!([{ "line": 6 }]));
        session.configured();
        for _ in 0..4 {
            let stop = session.stopped();
            session.resume("continue", stop.thread);
        }
        assert_eq!(session.exit_code(), 1);
        assert!(session.output.contains(&alone.stdout), "{}", session.output);
    }
}

const SERVICE: &str = "\
local work = 0
local function serve()
  while true do
    work = work + 1
    process.sleep(0.001)
  end
end
process.spawn({ name = 'server' }, serve)
process.spawn({ name = 'spinner' }, function()
  local spins = 0
  while true do spins = spins + 1 end
end)
print 'ready'
local rounds = 0
for line in io.lines() do
  local before = work
  repeat process.sleep(0.001) until work > before
  rounds = rounds + 1
  print('worked ' .. rounds .. '.')
  io.stdout:flush()
end
os.exit()
";

fn service(attach: &str) -> (Started, String) {
    let code = path(SERVICE);
    let run = Run::of(baton_path()).arg(&code).env("BATON_ATTACH", attach);
    let program = observed::ready(observed::in_own_directory(run).open_stdin());
    (program, code)
}

fn attach(program: &Started, code: &str) -> Session {
    let mut session = Session::start(&[]);
    session.ask("attach", json!({ "pid": program.pid().to_string() }));
    session.event("initialized");
    let set = session.set_breakpoints(code, json!([{ "line": 5 }]));
    assert_eq!(set[0]["verified"], true);
    session.configured();
    session
}

/// Asks the program to work on, for the n-th time, and waits until it has.
fn works(program: &mut Started, n: u32) {
    program.write_stdin("\n");
    program.await_stdout(&format!("worked {n}."));
}

#[test]
fn a_running_program_is_debugged_and_let_go() {
    let (mut program, code) = service("all");
    let mut session = attach(&program, &code);
    let stop = session.stopped();
    assert_eq!(stop.frames[0].1, 5);
    let threads = session.ask("threads", json!({}));
    let spinner = threads["threads"].as_array().expect("a list").iter();
    let spinner = spinner
        .filter(|thread| {
            thread["name"]
                .as_str()
                .is_some_and(|it| it.contains("spinner"))
        })
        .find_map(|thread| thread["id"].as_i64())
        .expect("it is there");
    session.ask("pause", json!({ "threadId": spinner }));
    let paused = session.stopped();
    assert_eq!((paused.reason.as_str(), paused.thread), ("pause", spinner));
    assert!(number(&mut session, &paused, "spins") > 0.0);
    session.ask("disconnect", json!({ "terminateDebuggee": true }));
    assert!(session.output.contains("It goes on"), "{}", session.output);
    assert!(session.wait().success());
    works(&mut program, 1); // it is not ended, and goes on without breakpoints
    program.close_stdin();
    program.finish().succeeds();
}

#[test]
fn when_the_debugger_is_killed_all_goes_on_without_breakpoints() {
    let (mut program, code) = service("all");
    for n in 1..=3 {
        let mut session = attach(&program, &code);
        session.stopped();
        session.kill();
        works(&mut program, n);
    }
    program.close_stdin();
    program.finish().succeeds();
}

#[test]
fn a_program_that_allows_only_to_be_seen_is_not_debugged() {
    let (program, _) = service("observe");
    let mut session = Session::start(&[&program.pid().to_string()]);
    let why = session
        .try_ask("attach", json!({}))
        .expect_err("it may not");
    assert!(why.contains("BATON_ATTACH=all"), "{why}");
    program.signal_until_it_ends("KILL");
}

#[test]
fn only_one_debugger_is_attached_at_once() {
    let (program, code) = service("all");
    let mut first = attach(&program, &code);
    first.stopped();
    let mut second = Session::start(&[&program.pid().to_string()]);
    let why = second
        .try_ask("attach", json!({}))
        .expect_err("there is one");
    assert!(why.contains("another debugger"), "{why}");
    first.disconnect();
    program.signal_until_it_ends("KILL");
}

#[test]
fn a_stop_in_a_critical_section_keeps_the_vm() {
    let code = path(
        "local x = 0
         local function count() while true do x = x + 1 process.yield() end end
         process.spawn({ daemon = true }, count)
         process.sleep(0.01)
         process.critical(function()
           local here = x
           return here
         end)
         print 'done'",
    );
    let mut session = Session::launch(&code, &[7]);
    let stop = session.stopped();
    assert_eq!(stop.event["allThreadsStopped"], true);
    let before = number(&mut session, &stop, "x");
    for _ in 0..20 {
        assert_eq!(number(&mut session, &stop, "x"), before);
    }
    // What is asked of another process, which waits for this one, is for this one.
    session.resume("next", 2);
    let stop = session.stopped();
    assert_eq!((stop.thread, stop.frames[0].1), (1, 8));
    let answer = session.ask("continue", json!({ "threadId": 2 }));
    assert_eq!(answer["allThreadsContinued"], true);
    assert_eq!(session.exit_code(), 0);
}

#[test]
fn a_fork_of_the_program_is_not_debugged() {
    // Without a library that forks, os.execute starts a program, which must not be disturbed.
    let code = path("local x = 1\nprint(os.execute('echo child'))\nprint(x)");
    let mut session = Session::launch(&code, &[4]);
    let stop = session.stopped();
    session.resume("continue", stop.thread);
    assert_eq!(session.exit_code(), 0);
    assert!(session.output.contains("child\n"), "{}", session.output);
}

fn values(all: &Value) -> usize {
    all.as_array().map_or(0, Vec::len)
}

#[test]
fn pausing_is_answered_for_a_process_that_has_ended() {
    let code = path("local p = process.spawn(function() end)\np:join()\nlocal x = 1\nprint(x)");
    let mut session = Session::launch(&code, &[4]);
    let stop = session.stopped();
    let threads = session.ask("threads", json!({}));
    assert_eq!(values(&threads["threads"]), 1);
    let why = session.try_ask("pause", json!({ "threadId": 2 }));
    assert!(why.expect_err("it has ended").contains("has ended"));
    session.resume("continue", stop.thread);
    assert_eq!(session.exit_code(), 0);
}

#[test]
fn processes_that_never_ran_are_paused_and_killed() {
    let code = path(
        "local unborn = {}
         for i = 1, 3 do unborn[i] = process.spawn(function() end) end
         local here = 1
         for i = 1, 3 do unborn[i]:kill() end
         collectgarbage()
         collectgarbage()
         local there = 2
         return there",
    );
    let mut session = Session::start(&["--all-stop", &code]);
    session.begin(json!({}));
    session.set_breakpoints(&code, json!([{ "line": 4 }, { "line": 9 }]));
    session.configured();
    let stop = session.stopped();
    for thread in 2..5 {
        session.ask("pause", json!({ "threadId": thread }));
    }
    session.resume("next", stop.thread);
    let stop = session.stopped();
    session.resume("continue", stop.thread);
    loop {
        let stop = session.stopped();
        if stop.frames[0].1 == 9 {
            session.resume("continue", stop.thread);
            break;
        }
        session.resume("continue", stop.thread);
    }
    assert_eq!(session.exit_code(), 0);
}

#[test]
fn a_breakpoint_in_a_finalizer_at_the_programs_end_stops() {
    let code = path(
        "setmetatable({}, { __gc = function()
           local last = 'last'
           print(last)
         end })
         print 'done'",
    );
    let mut session = Session::launch(&code, &[4]);
    let stop = session.stopped();
    assert_eq!(session.evaluate(stop.ids[0], "last"), "\"last\"");
    session.resume("continue", stop.thread);
    session.await_output("last\n");
    assert_eq!(session.exit_code(), 0);
}

#[test]
fn breakpoints_are_set_and_threads_listed_while_all_have_stopped() {
    let code = path(
        "local function step(n) return n + 1 end
         process.spawn({ name = 'other' }, process.sleep, 0.01)
         local n = step(1)
         n = step(n)
         print(n)",
    );
    for more in [&["--all-stop"][..], &["--simulate", "5"]] {
        let mut session = Session::start(&[more, &[&code]].concat());
        session.begin(json!({}));
        session.set_breakpoints(&code, json!([{ "line": 4 }]));
        session.configured();
        let stop = session.stopped();
        assert_eq!(stop.event["allThreadsStopped"], true);
        let threads = session.ask("threads", json!({}));
        assert_eq!(values(&threads["threads"]), 2);
        let set = session.set_breakpoints(&code, json!([{ "line": 5 }]));
        assert_eq!(set[0]["verified"], true);
        session.resume("continue", stop.thread);
        let stop = session.stopped();
        assert_eq!(stop.frames[0].1, 5);
        assert_eq!(session.step("stepIn", stop.thread).frames[0].1, 2);
        session.set_breakpoints(&code, json!([]));
        session.resume("continue", stop.thread);
        assert_eq!(session.exit_code(), 0);
        assert!(session.output.ends_with("3\n"), "{}", session.output);
    }
}

#[test]
fn a_process_that_waits_shows_its_stack_and_stops_after_its_wait() {
    let code = path(
        "local channel = process.channel()
         local function take()
           local value = channel:receive()
           return value
         end
         local taker = process.spawn({ name = 'taker' }, take)
         process.sleep(0)
         local here = 1
         channel:send(here)
         taker:join()",
    );
    let mut session = Session::launch(&code, &[9]);
    let stop = session.stopped();
    session.ask("pause", json!({ "threadId": 2 }));
    let stack = session.ask("stackTrace", json!({ "threadId": 2 }));
    assert_eq!(stack["stackFrames"][1]["line"], 4, "{stack}");
    session.resume("continue", stop.thread);
    let paused = session.stopped();
    assert_eq!((paused.thread, paused.reason.as_str()), (2, "pause"));
    session.resume("continue", 2);
    assert_eq!(session.exit_code(), 0);
}

#[test]
fn terminate_ends_a_program_by_a_signal() {
    let code = path("print 'ready'\nprocess.sleep(1000)");
    let mut session = Session::launch(&code, &[]);
    session.await_output("ready\n");
    session.ask("terminate", json!({}));
    assert_eq!(session.exit_code(), 128 + 15);
}
