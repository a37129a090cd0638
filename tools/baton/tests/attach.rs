//! Other programs look into a running one: `baton stacks`, `baton metrics` and `baton set`.
#![cfg(target_os = "linux")]

mod harness;

use harness::observed::{WAITERS, ask, assert_has, directory, observed, ready, stacks};
use harness::{Outcome, Run, Started, baton, baton_path};
use std::fs;
use std::time::{Duration, Instant};

#[test]
fn stacks_say_where_each_process_is_and_what_it_waits_for() {
    let program = ready(observed(WAITERS));
    let text = stacks(&program, &[]);
    assert_has(
        &text,
        "'clerk': waiting, for the mutex 'accounts', held by process 1 'main', since ",
    );
    assert_has(&text, "\t[C]: in method 'lock'\n");
    assert_has(&text, "in upvalue 'inner'\n");
    assert_has(&text, "process 5 'sleeper': sleeping, until a time");
    assert_has(&text, "\t[C]: in field 'sleep'\n");
    assert_has(
        &text,
        "process 1 'main': waiting, to receive from a channel",
    );
    assert_has(&text, "(spawned at (command line):");
    program.signal_until_it_ends("KILL");
}

#[test]
fn equal_stacks_are_merged_and_counted() {
    let program = ready(observed(WAITERS));
    let text = stacks(&program, &["--group"]);
    assert_has(&text, "3 processes: waiting, for the mutex 'accounts'");
    assert_has(&text, "numbers 2, 3, 4\n");
    program.signal_until_it_ends("KILL");
}

#[test]
fn stacks_as_json_have_frames_with_lines() {
    let program = ready(observed(WAITERS));
    let text = stacks(&program, &["--json"]);
    let all: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let processes = all["processes"].as_array().expect("a list");
    assert_eq!(processes.len(), 5, "{text}");
    let clerk = &processes[1];
    assert_eq!(clerk["state"], "waiting");
    let frames = clerk["stacks"][0].as_array().expect("a stack");
    assert_eq!(frames[0]["kind"], "c");
    assert_eq!(frames[1]["name"], "inner");
    assert_eq!(frames[1]["line"], 4, "{text}");
    let sleeper = &processes[4];
    assert_eq!(sleeper["stacks"].as_array().map(Vec::len), Some(2));
    program.signal_until_it_ends("KILL");
}

#[test]
fn a_process_that_computes_is_seen_and_goes_on() {
    let program = ready(observed(
        "local function compute() while true do end end
         print 'ready'
         io.stdout:flush()
         compute()",
    ));
    for _ in 0..5 {
        let text = stacks(&program, &[]);
        assert_has(&text, "process 1 'main': running");
        assert_has(&text, "in local 'compute'");
    }
    program.signal_until_it_ends("KILL");
}

#[test]
fn ten_thousand_processes_are_seen_in_parts() {
    let program = ready(observed(
        "for _ = 1, 10000 do process.spawn(process.sleep, 3600) end
         process.sleep(0)
         print 'ready'
         io.stdout:flush()
         process.sleep(3600)",
    ));
    let text = stacks(&program, &["--group"]);
    assert_has(&text, "10000 processes: sleeping, until a time");
    program.signal_until_it_ends("KILL");
}

/// The other process makes the monitor start before the call.
#[test]
fn an_exclusive_call_is_named_within_its_time() {
    let program = ready(observed(
        "local blocker = require 'blocker'
         process.concurrent('blocker', 'exclusive')
         process.params.warn_blocked = 3600
         process.spawn({ name = 'other' }, function() while true do process.sleep(0.001) end end)
         process.sleep(0.01)
         print 'ready'
         io.stdout:flush()
         blocker.spin_ms(3600000)",
    ));
    await_processor_time(&program);
    let text = stacks(&program, &[]);
    assert_has(&text, "process 1 'main': running");
    assert_has(&text, "\t[C]: in field 'spin_ms' (blocker.so)\n");
    assert_has(&text, "process 2 'other': ");
    program.signal_until_it_ends("KILL");
}

/// Waits until the program has computed for longer than its start takes: so it is in its long call.
fn await_processor_time(program: &Started) {
    const TICKS: u64 = 50; // of 10 ms
    let path = format!("/proc/{}/stat", program.pid());
    let used = || {
        let stat = fs::read_to_string(&path).expect("it lives");
        let after_name = stat.rsplit(") ").next().expect("it has fields");
        let utime = after_name.split(' ').nth(11).expect("a time");
        utime.parse::<u64>().expect("a number")
    };
    while used() < TICKS {
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Nobody can answer but the handler of the signal: the thread that serves the metrics looks after
/// these alone.
#[test]
fn without_a_monitor_a_call_leaves_a_note() {
    let home = tempfile::tempdir().expect("a directory");
    let metrics = format!("unix:{}", home.path().join("metrics").display());
    for metrics in ["", &metrics] {
        let program = ready(
            observed(
                "local blocker = require 'blocker'
                 print 'ready'
                 io.stdout:flush()
                 blocker.spin_ms(3600000)",
            )
            .env("BATON_METRICS", metrics),
        );
        await_processor_time(&program);
        let text = stacks(&program, &[]);
        assert_eq!(text, "held: process 1 'main' is in 'spin_ms'\n");
        let json = stacks(&program, &["--json"]);
        assert_has(&json, "\"held\": \"process 1 'main' is in 'spin_ms'\"");
        let left: Vec<_> = fs::read_dir(directory(&program))
            .expect("the directory")
            .collect();
        assert!(left.is_empty(), "{left:?}");
        program.signal_until_it_ends("KILL");
    }
}

#[test]
fn a_call_that_lets_others_run_is_foreign() {
    let program = ready(observed(
        "process.concurrent('blocker', 'concurrent')
         local blocker = require 'blocker'
         process.spawn({ name = 'out' }, function() blocker.block_ms(3600000) end)
         process.sleep(0.1)
         print 'ready'
         io.stdout:flush()
         process.sleep(3600)",
    ));
    let text = stacks(&program, &[]);
    assert_has(&text, "process 2 'out': foreign");
    assert_has(&text, "'block_ms'");
    program.signal_until_it_ends("KILL");
}

#[test]
fn a_parameter_is_set_while_the_program_runs() {
    let mut program = ready(
        observed(
            "print 'ready'
             io.stdout:flush()
             while process.params.slice ~= 0.005 do process.sleep(0.001) end
             print 'changed'
             io.stdout:flush()
             io.read()",
        )
        .env("BATON_ATTACH", "all")
        .open_stdin(),
    );
    let all = ask("set", &program, &[]);
    assert_has(&all.succeeds().stdout, "slice ");
    ask("set", &program, &["slice", "fast"])
        .ends_with(1)
        .complained("slice: number expected, got 'fast'");
    ask("set", &program, &["speed", "1"])
        .ends_with(1)
        .complained("unknown parameter 'speed': one of slice, ");
    ask("set", &program, &["slice", "0.005"])
        .succeeds()
        .wrote("slice = 0.005\n");
    program.await_stdout("changed\n");
    program.write_stdin("\n");
    program.finish().succeeds();
}

#[test]
fn counters_are_written_for_prometheus() {
    let program = ready(observed(WAITERS));
    let outcome = ask("metrics", &program, &[]);
    let text = &outcome.succeeds().stdout;
    assert_has(text, "# TYPE baton_spawned_total counter\n");
    assert_has(text, "# HELP baton_spawned_total processes spawned");
    assert_has(text, "baton_spawned_total 5\n");
    assert_has(text, "# TYPE baton_live gauge\n");
    assert_has(text, "baton_live 5\n");
    assert_has(text, "# TYPE baton_park_cost_seconds gauge\n");
    program.signal_until_it_ends("KILL");
}

/// The meanings of counters are also in the definitions for the language server.
#[test]
fn every_counter_has_its_meaning() {
    let definitions = include_str!("../../../editor/lua-language-server/library/baton/process.lua");
    let stats = definitions
        .find("---@field switches ")
        .expect("it is the first of the class");
    let definitions = &definitions[stats..];
    let program = ready(observed(WAITERS));
    let text = ask("metrics", &program, &[]).stdout;
    let json = ask("metrics", &program, &["--json"]).stdout;
    program.signal_until_it_ends("KILL");
    let answer: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let counters = answer["counters"].as_object().expect("an object");
    assert!(counters.len() > 30, "{json}");
    for name in counters.keys() {
        let field = format!("---@field {name} ");
        let line = definitions
            .lines()
            .find_map(|line| line.strip_prefix(&field));
        let (_, meaning) = line
            .and_then(|line| line.split_once(' '))
            .expect("a definition");
        assert_has(&text, &format!(" {meaning}"));
    }
}

#[test]
fn a_forks_child_answers_for_itself() {
    let mut program = ready(observed(
        "local ffi = require 'baton.ffi'
         ffi.cdef 'int fork(void); int getpid(void);'
         print 'ready'
         io.stdout:flush()
         process.sleep(0.3)
         if ffi.C.fork() == 0 then
           process.spawn({ name = 'in the child' }, process.sleep, 3600)
           process.sleep(0)
           print('child ' .. ffi.C.getpid())
           io.stdout:flush()
           process.sleep(3600)
         end
         process.spawn({ name = 'in the parent' }, process.sleep, 3600)
         process.sleep(3600)",
    ));
    stacks(&program, &[]); // the parent has an observer when it forks
    program.await_stdout("child ");
    program.await_stdout("\n");
    let name = "in the parent";
    let until = Instant::now() + Duration::from_secs(10);
    while !stacks(&program, &[]).contains(name) && Instant::now() < until {}
    assert_has(&stacks(&program, &[]), name);
    let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", program.pid()))
        .expect("the kernel lists them");
    let child = children.trim();
    let outcome = Run::of(baton_path()).arg("stacks").arg(child).run();
    outcome.succeeds();
    assert_has(&outcome.stdout, "in the child");
    harness::signals::send(child.parse().expect("a number"), "KILL");
    program.signal_until_it_ends("KILL");
}

#[test]
fn a_script_may_have_the_name_of_a_command() {
    for first in [&["./stacks"][..], &["--", "stacks"]] {
        let run = baton();
        let scratch = run.scratch().to_owned();
        fs::write(scratch.join("stacks"), "print('a script', ...)").expect("a script");
        let run = first.iter().fold(run, |run, word| run.arg(word));
        run.in_dir(&scratch)
            .arg("1")
            .run()
            .succeeds()
            .wrote("a script\t1\n");
    }
}

/// What a command says of a script that says "begun", sleeps and says "over".
fn ask_of_script(command: &str, more: &[&str]) -> Outcome {
    let run = Run::of(baton_path());
    let script = run.scratch().join("script.lua");
    let code = "local process = require 'baton.process'
                process.spawn({ name = 'sleeper' }, process.sleep, 2.5)
                print('begun', ...)
                io.stdout:flush()
                process.sleep(2)
                print 'over'";
    fs::write(&script, code).expect("a script");
    let run = more
        .iter()
        .fold(run.arg(command), |run, word| run.arg(word));
    let outcome = run.arg(&script).arg("--with").arg("it").run();
    outcome.succeeds();
    assert_has(&outcome.stdout, "begun\t--with\tit\n");
    assert_has(&outcome.stdout, "over\n");
    outcome
}

#[test]
fn each_command_can_start_a_script_and_runs_it_to_its_end() {
    let stacks = ask_of_script("stacks", &[]);
    assert_has(&stacks.stdout, "process 2 'sleeper': sleeping");
    let metrics = ask_of_script("metrics", &["--after", "0.5"]);
    assert_has(&metrics.stdout, "baton_spawned_total 2");
    let heap = ask_of_script("heap", &["--after", "0.5", "--json"]);
    assert_has(&heap.stdout, "\"classes\"");
    let top = ask_of_script("top", &["-d", "0.5"]);
    assert_has(&top.stdout, "sleeper");
}

#[test]
fn a_script_that_ends_too_early_is_reported() {
    let run = Run::of(baton_path());
    let script = run.scratch().join("script.lua");
    fs::write(&script, "os.exit(3)").expect("a script");
    run.arg("stacks")
        .arg(&script)
        .run()
        .ends_with(1)
        .complained("the script has ended with the status 3 before it could be looked into");
}

#[test]
fn help_and_mistakes_are_explained() {
    Run::of(baton_path())
        .arg("stacks")
        .arg("--help")
        .run()
        .succeeds();
    Run::of(baton_path())
        .arg("stacks")
        .run()
        .ends_with(2)
        .complained("PID or SCRIPT");
    Run::of(baton_path())
        .arg("stacks")
        .arg("seven")
        .run()
        .ends_with(1)
        .complained("cannot open seven");
    Run::of(baton_path())
        .arg("stacks")
        .arg("7")
        .arg("8")
        .run()
        .ends_with(1)
        .complained("nothing expected after the process id 7, got '8'");
}
