//! Other programs look into a running one: `baton stacks`, `baton set`, and clients of all kinds.
#![cfg(target_os = "linux")]

mod harness;

use harness::skip::skip;
use harness::{Outcome, Run, Started, baton, baton_path};
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A run that has its requests and its socket in its own scratch directory.
fn observed(code: &str) -> Run {
    let run = baton().process_code(code);
    let own = run.scratch().to_owned();
    run.env("XDG_RUNTIME_DIR", own)
}

/// A program that has written "ready".
fn ready(run: Run) -> Started {
    let mut program = run.start();
    program.await_stdout("ready\n");
    program
}

fn ask(command: &str, program: &Started, more: &[&str]) -> Outcome {
    let run = Run::of(baton_path())
        .arg(command)
        .arg(program.pid().to_string());
    more.iter()
        .fold(run, |run, argument| run.arg(argument))
        .run()
}

fn stacks(program: &Started, more: &[&str]) -> String {
    let outcome = ask("stacks", program, more);
    outcome.succeeds();
    outcome.stdout
}

fn directory(program: &Started) -> PathBuf {
    program.scratch().join("baton")
}

fn socket(program: &Started) -> PathBuf {
    directory(program).join(format!("{}.socket", program.pid()))
}

#[track_caller]
fn assert_has(text: &str, part: &str) {
    assert!(text.contains(part), "no '{part}' in:\n{text}");
}

const WAITERS: &str = "
    local mutex = process.mutex { name = 'accounts' }
    local function inner() mutex:lock() end
    local function outer() inner() return 1 end
    mutex:lock()
    for _ = 1, 3 do process.spawn({ name = 'clerk' }, outer) end
    process.spawn({ name = 'sleeper' }, function()
      coroutine.wrap(function() process.sleep(3600) end)()
    end)
    process.sleep(0)
    print 'ready'
    io.stdout:flush()
    process.channel():receive()";

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
    assert_has(&text, "\t[C]: in field 'spin_ms'\n");
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

/// Nobody can answer but the handler of the signal, as there is no other thread.
#[test]
fn the_only_thread_in_a_call_leaves_a_note() {
    let program = ready(observed(
        "local blocker = require 'blocker'
         print 'ready'
         io.stdout:flush()
         blocker.spin_ms(3600000)",
    ));
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
    assert_has(text, "# TYPE baton_spawned counter\n");
    assert_has(text, "# HELP baton_spawned processes spawned");
    assert_has(text, "baton_spawned_total 5\n");
    assert_has(text, "# TYPE baton_live gauge\n");
    assert_has(text, "baton_live 5\n");
    assert_has(text, "# UNIT baton_park_cost_seconds seconds\n");
    assert!(text.ends_with("# EOF\n"), "{text}");
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
        let escaped = meaning.replace('\\', "\\\\").replace('"', "\\\"");
        assert_has(&text, &format!(" {escaped}"));
    }
}

#[test]
fn a_program_may_be_read_but_not_changed_unless_it_allows_that() {
    let program = ready(observed(WAITERS));
    ask("set", &program, &["slice", "0.005"])
        .ends_with(1)
        .complained("use --write, or start the program with BATON_ATTACH=all");
    ask("set", &program, &["slice", "0.005", "--write"])
        .ends_with(1)
        .complained("--write is for a person on a terminal");
    program.signal_until_it_ends("KILL");
}

#[test]
fn a_program_may_refuse_everything() {
    let program = ready(observed(WAITERS).env("BATON_ATTACH", "off"));
    ask("stacks", &program, &[])
        .ends_with(1)
        .complained("refuses: this program was started with BATON_ATTACH=off");
    assert!(!socket(&program).exists());
    program.signal_until_it_ends("KILL");
}

#[test]
fn an_unknown_value_is_reported_and_refuses() {
    let mut program = ready(observed(WAITERS).env("BATON_ATTACH", "yes"));
    program.await_stderr("BATON_ATTACH: 'observe', 'all' or 'off' expected, got 'yes'");
    ask("stacks", &program, &[]).ends_with(1);
    program.signal_until_it_ends("KILL");
}

#[test]
fn what_is_no_program_of_ours_gets_no_signal() {
    let mut other = std::process::Command::new("sleep")
        .arg("3600")
        .spawn()
        .expect("it starts");
    let outcome = Run::of(baton_path())
        .arg("stacks")
        .arg(other.id().to_string())
        .run();
    let lives = other.try_wait().expect("it can be asked").is_none();
    other.kill().expect("it can be killed");
    other.wait().expect("it ends");
    outcome.ends_with(1).complained("is no program of Baton");
    assert!(lives, "the signal ended it");
}

/// Databases and servers end at a SIGQUIT.
#[test]
fn a_program_that_handles_sigquit_and_is_not_ours_gets_no_signal() {
    let mut other = std::process::Command::new("/bin/bash")
        .args([
            "-c",
            "trap 'exit 3' QUIT; echo ready; while :; do sleep 0.01; done",
        ])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut ready = [0; 6];
    let out = other.stdout.as_mut().expect("a pipe");
    out.read_exact(&mut ready).expect("it writes");
    let outcome = Run::of(baton_path())
        .arg("stacks")
        .arg(other.id().to_string())
        .run();
    std::thread::sleep(Duration::from_millis(100));
    let lives = other.try_wait().expect("it can be asked").is_none();
    other.kill().expect("it can be killed");
    other.wait().expect("it ends");
    outcome.ends_with(1).complained("It was not signalled");
    assert!(lives, "the signal ended it");
}

#[test]
fn a_stopped_program_is_named_as_such() {
    let program = ready(observed(WAITERS));
    program.signal("STOP");
    let path = format!("/proc/{}/stat", program.pid());
    while !fs::read_to_string(&path)
        .expect("it lives")
        .contains(") T ")
    {
        std::thread::sleep(Duration::from_millis(1));
    }
    ask("stacks", &program, &[])
        .ends_with(1)
        .complained("is stopped, by a signal or a debugger");
    program.signal_until_it_ends("KILL");
}

#[test]
fn a_directory_that_others_can_use_is_refused() {
    let program = ready(observed(WAITERS));
    // The second place is not tried if it belongs to somebody: here it is the user's own.
    fs::create_dir(directory(&program)).expect("a directory");
    let open = fs::Permissions::from_mode(0o777);
    fs::set_permissions(directory(&program), open).expect("its owner may");
    let outcome = ask("stacks", &program, &[]);
    assert!(!socket(&program).exists(), "{outcome}");
    program.signal_until_it_ends("KILL");
}

#[test]
fn a_planted_link_is_not_followed() {
    let program = ready(observed(WAITERS));
    let elsewhere = program.scratch().join("elsewhere");
    fs::create_dir(&elsewhere).expect("a directory");
    fs::set_permissions(&elsewhere, fs::Permissions::from_mode(0o700)).expect("its owner may");
    symlink(&elsewhere, directory(&program)).expect("a link");
    ask("stacks", &program, &[]);
    assert_eq!(fs::read_dir(&elsewhere).expect("a directory").count(), 0);
    program.signal_until_it_ends("KILL");
}

/// A service may end gracefully by SIGQUIT. An observer must not end it.
#[test]
fn a_program_that_receives_sigquit_does_not_receive_that_of_observers() {
    let mut program = ready(observed(
        "local quit = process.signals 'QUIT'
         print 'ready'
         io.stdout:flush()
         print(quit:receive())",
    ));
    let pid = program.pid().to_string();
    std::thread::scope(|threads| {
        for _ in 0..6 {
            threads.spawn(|| {
                let outcome = Run::of(baton_path()).arg("stacks").arg(&pid).run();
                outcome.succeeds();
                assert_has(
                    &outcome.stdout,
                    "waiting, to receive from the channel 'signals QUIT'",
                );
            });
        }
    });
    program.signal("QUIT");
    program.await_stdout("QUIT\n");
    let outcome = program.finish();
    outcome.succeeds();
    assert_eq!(outcome.stderr, "");
}

/// Counts of descriptors and threads.
fn resources(program: &Started) -> (usize, usize) {
    let count = |what: &str| {
        fs::read_dir(format!("/proc/{}/{what}", program.pid()))
            .expect("it lives")
            .count()
    };
    (count("fd"), count("task"))
}

#[test]
fn many_attaches_in_a_row_leave_nothing_behind() {
    let program = ready(observed(WAITERS));
    stacks(&program, &[]); // starts the observer
    let before = resources(&program);
    for _ in 0..100 {
        stacks(&program, &[]);
    }
    // The first client's thread may have been counted before.
    let has_more = || {
        let (descriptors, threads) = resources(&program);
        descriptors > before.0 || threads > before.1
    };
    let until = Instant::now() + Duration::from_secs(10);
    while has_more() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(!has_more(), "{before:?}, then {:?}", resources(&program));
    program.signal_until_it_ends("KILL");
}

#[test]
fn several_clients_are_served_at_once() {
    let program = ready(observed(WAITERS));
    let pid = program.pid().to_string();
    std::thread::scope(|threads| {
        for _ in 0..8 {
            threads.spawn(|| {
                for _ in 0..10 {
                    let outcome = Run::of(baton_path()).arg("stacks").arg(&pid).run();
                    outcome.succeeds();
                    assert_has(&outcome.stdout, "process 5 'sleeper'");
                }
            });
        }
    });
    program.signal_until_it_ends("KILL");
}

/// What the program answers to these bytes, until it closes the connection.
fn answer_to(program: &Started, bytes: &[u8]) -> String {
    let mut stream = UnixStream::connect(socket(program)).expect("the observer listens");
    // The program may close it before it has read all.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn a_wrong_or_hostile_client_harms_nobody() {
    let program = ready(observed(WAITERS));
    stacks(&program, &[]); // starts the observer
    assert_eq!(answer_to(&program, b""), "");
    assert_eq!(answer_to(&program, b"GET / HTTP/1.1\r\n\r\n"), "");
    assert_eq!(answer_to(&program, &vec![b'{'; 1 << 20]), "");
    assert_has(
        &answer_to(&program, b"{\"version\":99}\n"),
        "version 1 of the protocol expected, got 99",
    );
    let hello = "{\"version\":1}\n";
    assert_has(
        &answer_to(
            &program,
            format!("{hello}{{\"ask\":\"\\u0000\"}}\n").as_bytes(),
        ),
        "does not know the question",
    );
    assert_has(
        &answer_to(&program, format!("{hello}{{\"ask\":\"set\"}}\n").as_bytes()),
        "this changes the program",
    );
    let deep = format!(
        "{hello}{{\"ask\":\"stacks\",\"with\":{}\n",
        "[".repeat(60_000)
    );
    answer_to(&program, deep.as_bytes());
    // Some that say nothing at all, and one that asks and does not read.
    let silent: Vec<_> = (0..10)
        .map(|_| UnixStream::connect(socket(&program)).expect("the observer listens"))
        .collect();
    let mut deaf = UnixStream::connect(socket(&program)).expect("the observer listens");
    let questions = hello.to_owned() + &"{\"ask\":\"stacks\"}\n".repeat(1000);
    let _ = deaf.set_nonblocking(true);
    let _ = deaf.write(questions.as_bytes());
    assert_has(&stacks(&program, &[]), "process 5 'sleeper'");
    drop((silent, deaf));
    program.signal_until_it_ends("KILL");
}

#[test]
fn a_client_that_is_killed_leaves_the_program_as_it_was() {
    let mut program = ready(
        observed(
            "for _ = 1, 20000 do process.spawn({ daemon = true }, process.sleep, 3600) end
         print 'ready'
         io.stdout:flush()
         io.read()
         print 'bye'",
        )
        .open_stdin(),
    );
    for delay in 0..20 {
        let mut client = std::process::Command::new(baton_path())
            .args(["stacks", &program.pid().to_string()])
            .stdout(std::process::Stdio::null())
            .spawn()
            .expect("it starts");
        std::thread::sleep(Duration::from_millis(delay));
        client.kill().expect("it can be killed");
        client.wait().expect("it ends");
    }
    assert_has(&stacks(&program, &["--group"]), "20000 processes: sleeping");
    program.write_stdin("\n");
    program.await_stdout("bye\n");
    program.finish().succeeds();
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

/// Copies the program under test to where every user may run it. Another program does that: a child
/// that another test starts at the same time would inherit our open file, and nobody can run a file
/// that is open for writing.
fn copy_for_others(to: &Path) {
    let copied = std::process::Command::new("install")
        .args(["-m", "755"])
        .args([baton_path(), to])
        .status()
        .expect("install starts");
    assert!(copied.success());
}

/// Only root can try as another user.
#[test]
fn another_user_is_refused() {
    use std::os::unix::process::CommandExt;
    const NOBODY: u32 = 65534;
    if fs::metadata("/proc/self").expect("it is there").uid() != 0 {
        return skip("attaching as another user", "run the tests as root");
    }
    let program = ready(observed(WAITERS));
    stacks(&program, &[]);
    let copy = std::env::temp_dir().join(format!("baton-of-nobody-{}", program.pid()));
    copy_for_others(&copy);
    let outcome = std::process::Command::new(&copy)
        .uid(NOBODY)
        .gid(NOBODY)
        .args(["stacks", &program.pid().to_string()])
        .output();
    fs::remove_file(&copy).expect("it can be removed");
    let outcome = outcome.expect("it starts");
    let said = String::from_utf8_lossy(&outcome.stderr);
    assert_eq!(outcome.status.code(), Some(1), "{said}");
    assert_has(&said, "only that user and root may attach");
    program.signal_until_it_ends("KILL");
}

/// Root looks into a program of another user, with that user's rights.
#[test]
fn root_attaches_to_the_program_of_another_user() {
    use std::os::unix::process::CommandExt;
    const NOBODY: u32 = 65534;
    if fs::metadata("/proc/self").expect("it is there").uid() != 0 {
        return skip("attaching as root", "run the tests as root");
    }
    let copy = std::env::temp_dir().join(format!("baton-for-nobody-{}", std::process::id()));
    copy_for_others(&copy);
    let mut program = std::process::Command::new(&copy)
        .uid(NOBODY)
        .gid(NOBODY)
        .current_dir("/")
        .env_remove("XDG_RUNTIME_DIR")
        .args(["-e", "print 'ready' io.stdout:flush() while true do end"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut ready = [0; 6];
    let out = program.stdout.as_mut().expect("a pipe");
    out.read_exact(&mut ready).expect("it writes");
    let outcome = Run::of(baton_path())
        .arg("stacks")
        .arg(program.id().to_string())
        .run();
    let place = fs::metadata(format!("/tmp/baton-{NOBODY}"));
    program.kill().expect("it can be killed");
    program.wait().expect("it ends");
    fs::remove_file(&copy).expect("it can be removed");
    outcome.succeeds();
    assert_has(&outcome.stdout, "process 1 'main': running");
    let place = place.expect("the directory of its requests");
    assert_eq!((place.uid(), place.mode() & 0o777), (NOBODY, 0o700));
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
        .complained("<PID>");
    Run::of(baton_path())
        .arg("stacks")
        .arg("seven")
        .run()
        .ends_with(2)
        .complained("invalid value 'seven'");
}
