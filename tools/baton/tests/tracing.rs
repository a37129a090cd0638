//! `baton trace`, the flight recorder, and traces of simulated runs.
#![cfg(target_os = "linux")]

mod harness;

use harness::observed;
use harness::trace::{Piece, Trace};
use harness::{Outcome, Run, Started, baton, baton_path};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Two processes that pass a value to and fro, one that sleeps, and one in a C call that lasts.
const BUSY: &str = "
    local blocker = require 'blocker'
    process.concurrent('blocker', 'concurrent')
    local there, back = process.channel(0), process.channel(0)
    process.spawn({ name = 'server', daemon = true }, function()
      while true do back:send(there:receive() + 1) end
    end)
    process.spawn({ name = 'client', daemon = true }, function()
      while true do there:send(1) back:receive() process.sleep(0.002) end
    end)
    process.spawn({ name = 'caller', daemon = true }, function()
      while true do blocker.block_ms(5) process.sleep(0.001) end
    end)
    process.spawn({ name = 'idler', daemon = true }, process.sleep, 3600)";

fn ready(code: &str) -> Started {
    observed::ready(observed::observed(&format!(
        "{code}
         print 'ready'
         io.stdout:flush()
         process.sleep(3600)"
    )))
}

fn trace(program: &Started, more: &[&str]) -> Outcome {
    observed::ask("trace", program, more)
}

/// A directory for files, which is removed with it.
fn directory() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory can be made")
}

/// A Lua expression that is true when something was written to a file, as a trace that has begun.
fn is_written(file: &Path) -> String {
    format!(
        "(function() local f = io.open('{}') return f and f:seek('end') > 0 end)()",
        file.display()
    )
}

/// The only trace file in a directory, and its name.
fn file_in(directory: &Path) -> PathBuf {
    let entries = fs::read_dir(directory).expect("there is the directory");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let mut traces = paths.filter(|path| path.extension().is_some_and(|it| it == "pftrace"));
    let only = traces.next().expect("a trace was written");
    assert_eq!(traces.next(), None, "only one");
    only
}

fn with<'a>(trace: &'a Trace, track: &'a str, part: &str) -> Vec<&'a Piece> {
    trace
        .of(track)
        .filter(|piece| piece.name.contains(part))
        .collect()
}

#[test]
fn a_running_program_shows_runs_waits_calls_and_arrows() {
    let program = ready(BUSY);
    let directory = directory();
    let file = directory.path().join("x.pftrace");
    let path = file.to_string_lossy().into_owned();
    let outcome = trace(&program, &["-d", "0.5", "-o", &path, "--json"]);
    program.signal_until_it_ends("KILL");
    outcome.succeeds();
    let trace = Trace::read(&file);

    let (client, server) = ("client #3", "server #2");
    let sends = trace.find(client, "wakes process 2 'server'");
    assert_eq!(
        (sends.depth, sends.category.as_str()),
        (1, "wake"),
        "it runs meanwhile"
    );
    let woken = trace.of(server).find(|piece| Trace::leads(sends, piece));
    let woken = woken.expect("an arrow leads to the server");
    assert_eq!(
        (woken.name.as_str(), woken.begin),
        ("runnable", sends.begin)
    );
    let runs = trace
        .of(server)
        .find(|piece| piece.name == "runs" && piece.begin >= woken.begin);
    assert_eq!(runs.expect("it runs then").begin, woken.end);
    assert!(!with(&trace, server, "waits to receive from a channel").is_empty());

    // The last sleep may be cut by the end of the trace, and the first one by its beginning.
    let sleeps = with(&trace, client, "sleeps");
    assert!(sleeps.len() > 2, "{sleeps:#?}");
    // One is shorter if the system lets the thread wait between the deadline and the event.
    let whole = &sleeps[1..sleeps.len() - 1];
    let long = whole.iter().filter(|it| it.nanoseconds() >= 1_900_000);
    assert!(long.count() * 2 > whole.len(), "{sleeps:#?}");
    let late = trace.of(client).flat_map(|piece| &piece.arguments);
    assert!(late.filter(|(name, _)| name == "late (ns)").count() > 2);

    let calls = with(&trace, "caller #4", "calls 'block_ms'");
    assert!(!calls.is_empty(), "{:?}", trace.names("caller #4"));
    let is_on_home = |piece: &&Piece| piece.name == "process 4 'caller': 'block_ms'";
    let threads = trace.pieces.iter().filter(is_on_home);
    assert!(threads.count() >= calls.len());
    assert!(trace.pieces.iter().any(|piece| piece.name == "idle"));

    let idler: Vec<&Piece> = trace.of("idler #5").collect();
    assert_eq!(idler.len(), 1, "{idler:?}");
    assert_eq!(idler[0].name, "sleeps");
    assert!(idler[0].nanoseconds() >= 450_000_000, "{idler:?}");

    let answer: Value = serde_json::from_str(&outcome.stdout).expect("JSON");
    let summary = &answer["summary"];
    assert_eq!(summary["lost"], 0, "{answer:#}");
    assert!(
        summary["calls"].as_u64() >= Some(calls.len() as u64),
        "{answer:#}"
    );
    assert!(summary["seconds"].as_f64() >= Some(0.5), "{answer:#}");
}

#[test]
fn the_slices_of_a_process_follow_each_other_without_gaps() {
    let program = ready(BUSY);
    let directory = directory();
    let file = directory.path().join("x.pftrace");
    let path = file.to_string_lossy().into_owned();
    trace(&program, &["-d", "0.3", "-o", &path]).succeeds();
    program.signal_until_it_ends("KILL");
    let trace = Trace::read(&file);
    for track in ["server #2", "client #3", "caller #4"] {
        let slices: Vec<&Piece> = trace
            .of(track)
            .filter(|piece| piece.depth == 0 && piece.category != "wake")
            .collect();
        assert!(slices.len() > 10, "{track}: {slices:?}");
        for pair in slices.windows(2) {
            assert_eq!(pair[0].end, pair[1].begin, "{track}: {pair:#?}");
        }
    }
}

#[test]
fn a_script_is_traced_from_its_start_to_its_end() {
    let run = Run::of(baton_path()).arg("trace");
    let directory = directory();
    let script = directory.path().join("work.lua");
    let file = directory.path().join("x.pftrace");
    let is_written = is_written(&file);
    fs::write(
        &script,
        format!(
            "local process = require 'baton.process'
         repeat process.sleep(0.01) until {is_written}
         local child = process.spawn({{ name = 'child' }}, function()
           local garbage = {{}}
           for i = 1, 200000 do garbage[i % 10] = {{}} end
         end)
         child:join()
         process.spawn({{ name = 'last' }}, function() end):join()"
        ),
    )
    .expect("a file in its own directory");
    let outcome = run
        .arg("-o")
        .arg(&file)
        .arg("-d")
        .arg("30")
        .arg(&script)
        .run();
    outcome.succeeds();
    assert!(outcome.stdout.contains("events in "), "{outcome}");
    let trace = Trace::read(&file);
    let child = trace.find("child #2", "spawned");
    let spawns = trace.find("main #1", "spawns process 2 'child'");
    assert!(Trace::leads(spawns, child), "{child:?}");
    let garbage = trace.find("child #2", "collects garbage");
    assert_eq!((garbage.depth, garbage.category.as_str()), (1, "garbage"));
    trace.find("last #3", "runs");
    trace.find("main #1", "waits for the end of process 3 'last'");
}

#[test]
fn a_program_that_exits_at_once_has_sent_its_last_events() {
    for end in [
        "os.exit(0)",
        "os.exit(0, true)",
        "error 'oops'",
        "process.main:join()",
    ] {
        let run = Run::of(baton_path()).arg("trace");
        let directory = directory();
        let script = directory.path().join("work.lua");
        let file = directory.path().join("x.pftrace");
        let is_written = is_written(&file);
        let text = format!(
            "local process = require 'baton.process'
             repeat process.sleep(0.01) until {is_written}
             process.spawn({{ name = 'last' }}, function() end):join()
             {end}"
        );
        fs::write(&script, text).expect("a file in its own directory");
        let outcome = run.arg("-o").arg(&file).arg(&script).run();
        assert!(outcome.stdout.contains("events in "), "{end}: {outcome}");
        Trace::read(&file).find("last #2", "runs");
    }
}

#[test]
fn more_events_than_are_read_are_lost_and_the_rest_is_whole() {
    let program = ready(
        "for _ = 1, 2 do
           process.spawn({ daemon = true }, function() while true do process.yield() end end)
         end",
    );
    let directory = directory();
    let file = directory.path().join("x.pftrace");
    let path = file.to_string_lossy().into_owned();
    // Beside other programs it may take longer until there are many.
    let has_many = ["0.2", "1", "5"].into_iter().any(|seconds| {
        let outcome = trace(&program, &["-d", seconds, "-o", &path, "--json"]);
        outcome.succeeds();
        let answer: Value = serde_json::from_str(&outcome.stdout).expect("JSON");
        answer["summary"]["events"].as_u64() > Some(10_000)
    });
    program.signal_until_it_ends("KILL");
    assert!(has_many);
    let trace = Trace::read(&file);
    let left = trace.of("process #2").filter(|piece| {
        let yielded = ("left".to_owned(), "it yielded".to_owned());
        piece.arguments.contains(&yielded)
    });
    assert!(left.count() > 1000);
}

#[test]
fn a_program_that_was_traced_is_as_it_was() {
    let program = ready(BUSY);
    let directory = directory();
    let file = directory.path().join("x.pftrace");
    let path = file.to_string_lossy().into_owned();
    for _ in 0..3 {
        trace(&program, &["-d", "0.05", "-o", &path]).succeeds();
    }
    // It keeps no events now.
    trace(&program, &["--flight", "-o", &path])
        .ends_with(1)
        .complained("set its parameter flight");
    program.signal_until_it_ends("KILL");
}

#[test]
fn a_client_that_goes_ends_the_trace() {
    let program = ready(BUSY);
    for _ in 0..3 {
        let directory = directory();
        let file = directory.path().join("x.pftrace");
        let mut client = std::process::Command::new(baton_path())
            .args(["trace", "-d", "60", "-o"])
            .arg(&file)
            .arg(program.pid().to_string())
            .spawn()
            .expect("it starts");
        harness::heap::await_that("the trace is being written", || {
            fs::metadata(&file).is_ok_and(|file| file.len() > 0)
        });
        client.kill().expect("it can be killed");
        client.wait().expect("it ends");
    }
    let directory = directory();
    let file = directory.path().join("x.pftrace");
    let path = file.to_string_lossy().into_owned();
    harness::heap::await_that("nobody traces it", || {
        !trace(&program, &["--flight", "-o", &path])
            .stderr
            .is_empty()
    });
    program.signal_until_it_ends("KILL");
}

#[test]
fn wrong_details_of_the_question_are_refused() {
    let program = ready(BUSY);
    let directory = directory();
    let file = directory.path().join("x.pftrace");
    let path = file.to_string_lossy().into_owned();
    for duration in ["0", "1e9", "nan", "-1", "inf"] {
        trace(&program, &[&format!("--duration={duration}"), "-o", &path])
            .ends_with(1)
            .complained("seconds expected, got");
    }
    trace(&program, &["-o", "/nonexistent/x.pftrace"])
        .ends_with(1)
        .complained("cannot write /nonexistent/x.pftrace");
    program.signal_until_it_ends("KILL");
}

#[test]
fn a_flight_has_the_last_seconds_and_no_more() {
    let program = ready(&format!(
        "process.params.flight = 0.5 {BUSY} process.sleep(4)"
    ));
    let directory = directory();
    let file = directory.path().join("x.pftrace");
    let path = file.to_string_lossy().into_owned();
    let outcome = trace(&program, &["--flight", "-o", &path, "--json"]);
    program.signal_until_it_ends("KILL");
    outcome.succeeds();
    let answer: Value = serde_json::from_str(&outcome.stdout).expect("JSON");
    let summary = &answer["summary"];
    assert_eq!(summary["lost"], 0, "{answer:#}");
    // It has run for four seconds. Half a second is kept, and what happens while that is read.
    let most = if harness::program::is_emulated() {
        3.9
    } else {
        1.9
    };
    assert!(summary["seconds"].as_f64() < Some(most), "{answer:#}");
    let trace = Trace::read(&file);
    assert!(!with(&trace, "client #3", "sleeps").is_empty());
}

/// Runs a program with the recorder on, in a directory of its own. Returns the result, and the
/// trace that it has left.
fn recorded(code: &str) -> (Outcome, Trace, String) {
    let run = baton().env("BATON_FLIGHT", "5");
    let directory = directory();
    let outcome = run.in_dir(directory.path()).process_code(code).run();
    let file = file_in(directory.path());
    let name = file
        .file_name()
        .expect("a file")
        .to_string_lossy()
        .into_owned();
    assert!(outcome.stderr.contains(&name), "{outcome}");
    (outcome, Trace::read(&file), name)
}

#[test]
fn a_deadlock_leaves_what_led_to_it() {
    let (outcome, trace, name) = recorded(
        "local a, b = process.mutex(), process.mutex()
         local function locker(first, second)
           return function() first:lock() process.sleep(0.01) second:lock() end
         end
         process.spawn({ name = 'one' }, locker(a, b))
         process.spawn({ name = 'two' }, locker(b, a)):join()",
    );
    outcome.ends_with(1).complained("deadlock");
    assert!(name.ends_with("-deadlock.pftrace"), "{name}");
    for track in ["one #2", "two #3"] {
        let names = trace.names(track);
        assert_eq!(names[..2], ["spawned", "runs"], "{names:?}");
        assert_eq!(names.last(), Some(&"waits for a mutex"), "{names:?}");
    }
}

#[test]
fn an_error_that_ends_the_program_leaves_what_led_to_it() {
    let (outcome, trace, name) = recorded(
        "process.spawn({ name = 'child' }, process.sleep, 0.01):join()
         error 'it went wrong'",
    );
    outcome.ends_with(1).complained("it went wrong");
    assert!(name.ends_with("-error.pftrace"), "{name}");
    trace.find("child #2", "sleeps");
    // A slow write of the message is a call of its own, and garbage can be collected before it.
    let all = trace.names("main #1");
    let last = all
        .iter()
        .rfind(|name| !name.starts_with("calls") && **name != "collects garbage");
    assert_eq!(last, Some(&"runs"), "{all:?}");
}

#[test]
fn a_stall_leaves_what_led_to_it_while_the_program_goes_on() {
    let (outcome, trace, name) = recorded(
        "local blocker = require 'blocker'
         process.spawn({ name = 'other', daemon = true }, function()
           while true do process.sleep(0.001) end
         end)
         process.sleep(0.05)
         blocker.block_ms(600)
         process.sleep(0.5)
         print 'bye'",
    );
    outcome
        .succeeds()
        .wrote("bye\n")
        .complained("keeps all other processes waiting");
    assert!(name.ends_with("-stall.pftrace"), "{name}");
    let stall = trace.find("main #1", "keeps all others waiting");
    let runs = trace.of("main #1").find(|piece| {
        piece.name == "runs" && piece.begin < stall.begin && piece.end >= stall.begin
    });
    assert!(
        runs.is_some_and(|runs| runs.nanoseconds() > 90_000_000),
        "{runs:?}"
    );
    assert!(!with(&trace, "other #2", "sleeps").is_empty());
}

#[test]
fn without_the_parameter_nothing_is_left() {
    let run = baton();
    let directory = directory();
    let outcome = run
        .in_dir(directory.path())
        .process_code("error 'it went wrong'")
        .run();
    outcome.ends_with(1);
    assert!(!outcome.stderr.contains("pftrace"), "{outcome}");
    assert_eq!(
        fs::read_dir(directory.path()).expect("it is there").count(),
        0
    );
}

#[test]
fn a_failing_seed_is_written_with_its_fewest_preemptions_in_virtual_time() {
    let run = baton();
    let directory = directory();
    let file = directory.path().join("x.pftrace");
    let outcome = run
        .arg("--simulate")
        .arg("1-1000")
        .arg("--trace")
        .arg(&file)
        .script("simulation/bugs/lost_update.lua")
        .run();
    outcome
        .ends_with(1)
        .complained("has this run, in virtual time");
    let trace = Trace::read(&file);
    let preempted = trace.pieces.iter().filter(|piece| {
        let over = ("left".to_owned(), "its slice was over".to_owned());
        piece.arguments.contains(&over)
    });
    assert_eq!(preempted.count(), 1, "{trace:#?}");
    assert!(
        trace
            .pieces
            .iter()
            .all(|piece| piece.begin >= 1_000_000_000)
    );
    assert!(trace.pieces.iter().all(|piece| piece.end < 2_000_000_000));
}

#[test]
fn a_simulated_run_is_the_same_with_and_without_a_trace() {
    let code = "
        local set = {}
        for i = 1, 50 do set[{}] = i end
        local order = {}
        for i = 1, 5 do
          process.spawn(function()
            for _, v in pairs(set) do order[#order + 1] = i * 1000 + v process.sleep(0.001) end
          end)
        end
        process.sleep(5)
        print(table.concat(order, ' '))";
    let simulated = |traced: bool| {
        let run = baton();
        let directory = directory();
        let file = directory.path().join("x.pftrace");
        let run = run.arg("--simulate").arg("11");
        let run = match traced {
            true => run.arg("--trace").arg(&file),
            false => run,
        };
        let outcome = run.process_code(code).run();
        outcome.succeeds();
        if traced {
            Trace::read(&file).find("main #1", "sleeps");
        }
        outcome.stdout
    };
    assert_eq!(simulated(true), simulated(false));
}

#[test]
fn a_function_is_traced_from_within() {
    let run = baton();
    let directory = directory();
    let outcome = run
        .in_dir(directory.path())
        .process_code(
            "local inspect = require 'baton.inspect'
             print(inspect.trace(function()
               process.spawn({ name = 'child' }, process.sleep, 0.01):join()
               return 1, nil, 3
             end, 'x.pftrace'))
             print(pcall(inspect.trace, function() error('oops', 0) end, 'y.pftrace'))
             print(pcall(inspect.trace, function() end, '/nonexistent/z.pftrace'))
             print(pcall(inspect.trace, 1, 'x'))",
        )
        .run();
    outcome.succeeds().wrote(
        "1\tnil\t3\n\
         false\toops\n\
         false\tcannot write /nonexistent/z.pftrace: No such file or directory (os error 2)\n\
         false\tbad argument #1 to 'baton.inspect.trace' (function expected, got number)\n",
    );
    let trace = Trace::read(&directory.path().join("x.pftrace"));
    trace.find("child #2", "sleeps");
    Trace::read(&directory.path().join("y.pftrace"));
}

#[test]
fn a_simulated_run_with_several_vms_is_written_whichever_vm_ends_it() {
    for (ending, status) in [
        ("other:join()", 0),
        ("os.exit(7)", 7),
        ("process.sleep(9)", 8),
    ] {
        let code = format!(
            "local other = require('baton.vm').spawn(function()
               require('baton.process').sleep(2)
               os.exit(8)
             end)
             if {status} == 0 then other:kill() end
             process.sleep(1)
             {ending}"
        );
        let run = baton();
        let directory = directory();
        let file = directory.path().join("x.pftrace");
        let run = run.arg("--simulate").arg("1").arg("--trace").arg(&file);
        run.process_code(&code).run().ends_with(status);
        Trace::read(&file).find("main #1", "sleeps");
    }
}
