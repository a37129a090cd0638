//! `baton profile`: where a program spends its processor time.
#![cfg(target_os = "linux")]

mod harness;

use harness::observed;
use harness::{Outcome, Run, Started, baton_path};
use serde_json::Value;
use std::fs;

/// Three functions with 60, 30 and 10 % of the processor time: in C, in a coroutine, and in a
/// callback of `sort`.
const SHARES: &str = "
    local blocker = require 'blocker'
    local clock = blocker.thread_clock
    local function burn(ms)
      local until_then, sum = clock() + ms / 1000, 0
      while clock() < until_then do for i = 1, 200 do sum = sum + i end end
    end
    local function sixty() blocker.burn_ms(90) return 1 end
    local function thirty() coroutine.wrap(function() burn(45) end)() return 1 end
    local function ten()
      local done
      table.sort({ 1, 2 }, function(a, b)
        if not done then done = true burn(15) end
        return a < b
      end)
      return 1
    end
    print 'ready'
    io.stdout:flush()
    while true do sixty() thirty() ten() end";

fn ready(code: &str) -> Started {
    observed::ready(observed::observed(code))
}

fn profile(program: &Started, more: &[&str]) -> Outcome {
    let run = Run::of(baton_path()).arg("profile");
    let run = more.iter().fold(run, |run, argument| run.arg(argument));
    run.arg(program.pid().to_string()).run()
}

/// The share of a function, with what it calls, in percent.
fn share(summary: &Value, function: &str) -> f64 {
    let number = |value: &Value| value.as_f64().expect("a number");
    let functions = summary["functions"].as_array().expect("a list");
    let found = functions.iter().find(|found| found["function"] == function);
    let found = found.unwrap_or_else(|| panic!("no {function} in {summary:#}"));
    100.0 * number(&found["total"]) / number(&summary["total"])
}

/// So many samples that chance moves no share by two points.
const ENOUGH: u64 = 4_000;

fn count(summary: &Value) -> u64 {
    let functions = summary["functions"].as_array().expect("a list");
    let counts = functions.iter().map(|function| &function["count"]);
    counts.map(|count| count.as_u64().expect("a number")).sum()
}

#[test]
fn known_shares_are_found_within_two_points() {
    let program = ready(SHARES);
    // On a machine without a free processor, samples come late and are few. Then it takes longer.
    let mut seconds = 6;
    let summary = loop {
        let duration = seconds.to_string();
        let outcome = profile(&program, &["-r", "997", "-d", &duration, "--json"]);
        outcome.succeeds();
        let summary: Value = serde_json::from_str(&outcome.stdout).expect("JSON");
        if count(&summary) >= ENOUGH || seconds > 60 {
            break summary;
        }
        seconds *= 2;
    };
    program.signal_until_it_ends("KILL");
    let shares = [
        ("sixty", 60.0),
        ("burn_ms", 60.0),
        ("thirty", 30.0),
        ("ten", 10.0),
    ];
    for (function, expected) in shares {
        let found = share(&summary, function);
        assert!(
            (found - expected).abs() <= 2.0,
            "{function}: {expected} % expected, got {found:.1} %\n{summary:#}"
        );
    }
}

/// The collector cannot be interrupted. Its time is not that of the line that allocates.
#[test]
fn the_collectors_time_is_a_frame_of_its_own() {
    let program = ready(
        "local kept = {}
         for i = 1, 20000 do kept[i] = { i } end
         local function collect() collectgarbage() return kept end
         setmetatable(kept, { __gc = function() end })
         print 'ready'
         io.stdout:flush()
         while true do collect() end",
    );
    let outcome = profile(&program, &["-r", "499", "-d", "1", "--json"]);
    program.signal_until_it_ends("KILL");
    outcome.succeeds();
    let summary: Value = serde_json::from_str(&outcome.stdout).expect("JSON");
    assert!(share(&summary, "collect") > 90.0, "{summary:#}");
    assert!(share(&summary, "(garbage collector)") > 80.0, "{summary:#}");
}

#[test]
fn a_program_without_garbage_has_no_collector_in_its_profile() {
    let program = ready("print 'ready' io.stdout:flush() while true do end");
    let outcome = profile(&program, &["-d", "0.5", "--json"]);
    program.signal_until_it_ends("KILL");
    assert!(
        !outcome.succeeds().stdout.contains("collector"),
        "{outcome}"
    );
}

#[test]
fn a_program_that_waits_uses_next_to_nothing() {
    let program = ready("print 'ready' io.stdout:flush() process.sleep(3600)");
    let outcome = profile(&program, &["-d", "1", "--json"]);
    program.signal_until_it_ends("KILL");
    outcome.succeeds();
    let summary: Value = serde_json::from_str(&outcome.stdout).expect("JSON");
    let total = summary["total"].as_u64().expect("a number");
    assert!(
        total < 50_000_000,
        "{total} ns of CPU in a program that sleeps"
    );
}

#[test]
fn each_suffix_gives_its_format() {
    let program = ready(SHARES);
    observed::assert_each_suffix_gives_its_format(&program, &[]);
    profile(&program, &["-d", "0.3", "-o", "x.png"])
        .ends_with(1)
        .complained(".svg");
    program.signal_until_it_ends("KILL");
}

#[test]
fn a_script_is_started_and_profiled_to_its_end() {
    let run = Run::of(baton_path()).arg("profile");
    let script = run.scratch().join("work.lua");
    fs::write(
        &script,
        "local function work()
           local x = 0
           while os.clock() < 2 do for i = 1, 10000 do x = x + i end end
           return x
         end
         print(work() > 0, ...)",
    )
    .expect("it can be written");
    let outcome = run.arg(&script).arg("-x").arg("7").run();
    outcome.succeeds();
    let out = &outcome.stdout;
    assert!(out.starts_with("true\t-x\t7\n"), "{out}");
    assert!(out.contains("work ("), "{out}");
}

/// Guards against "has ended before it could be looked into": the script waits for its observer.
#[test]
fn a_script_of_some_milliseconds_is_profiled() {
    for seconds in [0.015, 0.05] {
        let run = Run::of(baton_path()).arg("profile").arg("--json");
        let script = run.scratch().join("short.lua");
        fs::write(
            &script,
            format!(
                "local began, x = os.clock(), 0
                 local function work()
                   while os.clock() < began + {seconds} do for i = 1, 100 do x = x + i end end
                   return x
                 end
                 assert(work() > 0)"
            ),
        )
        .expect("it can be written");
        let outcome = run.arg(&script).run();
        outcome.succeeds();
        let summary: Value = serde_json::from_str(&outcome.stdout).expect("JSON");
        let total = summary["total"].as_f64().expect("a number") / 1e9;
        assert!(
            (0.5 * seconds..0.2).contains(&total),
            "{seconds}: {summary:#}"
        );
        assert!(share(&summary, "work") > 50.0, "{seconds}: {summary:#}");
    }
}

#[test]
fn a_script_that_fails_is_reported() {
    let run = Run::of(baton_path()).arg("profile");
    let script = run.scratch().join("fails.lua");
    fs::write(&script, "error 'no'").expect("it can be written");
    run.arg(&script)
        .run()
        .ends_with(1)
        .complained("the script has ended");
}

#[test]
fn wrong_details_are_explained() {
    let program = ready(SHARES);
    profile(&program, &["-r", "0"])
        .ends_with(1)
        .complained("a rate from 1 to 1000 samples a second expected, got 0");
    profile(&program, &["-d", "0"])
        .ends_with(1)
        .complained("from 0.01 to 3600 seconds expected, got 0");
    profile(&program, &["-d", "nan"]).ends_with(1);
    program.signal_until_it_ends("KILL");
}

/// A client that goes ends its profile: the program is not interrupted any more.
#[test]
fn a_client_that_is_killed_ends_its_profile() {
    let program = ready(SHARES);
    let mut client = std::process::Command::new(baton_path())
        .args(["profile", "-d", "3600", &program.pid().to_string()])
        .spawn()
        .expect("it starts");
    let threads = || {
        fs::read_dir(format!("/proc/{}/task", program.pid()))
            .expect("it lives")
            .count()
    };
    let wait_while = |holds: &dyn Fn() -> bool| {
        let until = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while holds() && std::time::Instant::now() < until {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    };
    // The observer's thread says that the client is there.
    wait_while(&|| threads() < 2);
    std::thread::sleep(std::time::Duration::from_millis(200));
    client.kill().expect("it can be killed");
    client.wait().expect("it ends");
    // Its own thread and the observer are left.
    wait_while(&|| threads() > 2);
    assert_eq!(threads(), 2);
    program.signal_until_it_ends("KILL");
}

/// One process waits for a mutex, a channel, a socket and a call in C, with 40, 30, 20 and 10 % of
/// its time. The holder of the mutex sleeps: half of the whole.
#[test]
fn known_shares_of_waits_are_found_within_two_points() {
    let program = ready(
        "process.concurrent('blocker', 'concurrent')
         local blocker = require 'blocker'
         local ffi = require 'baton.ffi'
         ffi.cdef 'int socketpair(int, int, int, int *);'
         local ends = ffi.new 'int[2]'
         assert(ffi.C.socketpair(1, 1, 0, ends) == 0)
         local reading = { { fd = ends[0], 'r' } }
         local mutex = process.mutex { name = 'held' }
         local channel = process.channel { 0, name = 'silent' }
         process.spawn({ name = 'holder', daemon = true }, function()
           mutex:lock()
           process.sleep(3600)
         end)
         process.sleep(0)
         print 'ready'
         io.stdout:flush()
         while true do
           mutex:lock(0.08)
           channel:receive(0.06)
           process.select(reading, 0.04)
           blocker.block_ms(20)
         end",
    );
    let outcome = profile(&program, &["--waits", "-r", "997", "-d", "6", "--json"]);
    program.signal_until_it_ends("KILL");
    outcome.succeeds();
    let summary: Value = serde_json::from_str(&outcome.stdout).expect("JSON");
    let total = summary["total"].as_f64().expect("a number");
    let waits = summary["waits"].as_array().expect("a list");
    for (object, expected) in [
        ("until a time", 50.0),
        ("the mutex 'held'", 20.0),
        ("the channel 'silent' (to receive)", 15.0),
        ("descriptor ", 10.0),
        ("the end of a call of 'block_ms'", 5.0),
    ] {
        let is_it = |wait: &&Value| {
            let name = wait["object"].as_str().expect("a text");
            name.starts_with(object)
        };
        let found = waits.iter().find(is_it);
        let found = found.unwrap_or_else(|| panic!("no '{object}' in {summary:#}"));
        let found = 100.0 * found["total"].as_f64().expect("a number") / total;
        assert!(
            (found - expected).abs() <= 2.0,
            "{object}: {expected} % expected, got {found:.1} %\n{summary:#}"
        );
    }
}

#[test]
fn a_wait_for_a_lock_names_its_holder() {
    let program = ready(
        "local mutex = process.mutex { name = 'accounts' }
         process.spawn({ name = 'owner' }, function() mutex:lock() process.sleep(3600) end)
         process.sleep(0)
         process.spawn({ name = 'other' }, function() mutex:lock() end)
         print 'ready'
         io.stdout:flush()
         process.sleep(3600)",
    );
    let outcome = profile(&program, &["--waits", "-d", "0.5", "--json"]);
    program.signal_until_it_ends("KILL");
    outcome.succeeds();
    let summary: Value = serde_json::from_str(&outcome.stdout).expect("JSON");
    let waits = summary["waits"].as_array().expect("a list");
    let lock = waits
        .iter()
        .find(|wait| wait["object"] == "the mutex 'accounts'")
        .unwrap_or_else(|| panic!("no mutex in {summary:#}"));
    assert_eq!(lock["holder"], "process 2 'owner'");
}

/// Only some are looked at in each tick, and stand for the others.
#[test]
fn ten_thousand_processes_are_counted_by_samples() {
    let program = ready(
        "for _ = 1, 9000 do process.spawn(function() process.sleep(3600) return 1 end) end
         local channel = process.channel()
         for _ = 1, 1000 do process.spawn(function() channel:receive() end) end
         process.sleep(0)
         print 'ready'
         io.stdout:flush()
         process.sleep(3600)",
    );
    let outcome = profile(&program, &["--wall", "-d", "2", "--json"]);
    program.signal_until_it_ends("KILL");
    outcome.succeeds();
    let summary: Value = serde_json::from_str(&outcome.stdout).expect("JSON");
    let seconds = summary["total"].as_f64().expect("a number") / 1e9;
    assert!((15_000.0..25_000.0).contains(&seconds), "{seconds} s");
    let sleeping = share(&summary, "sleep");
    assert!((87.0..93.0).contains(&sleeping), "{sleeping} %");
}
