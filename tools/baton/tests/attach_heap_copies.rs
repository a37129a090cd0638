//! `baton heap`: the copy of the program that is read, and what the program notices of it.
#![cfg(target_os = "linux")]

mod harness;

use harness::heap::{MANY, await_that, children, heap, json, shown, step, stepwise};
use harness::observed::{assert_has, ready};
use harness::skip::skip;
use harness::{Started, baton, baton_path};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The process that ticks goes on while the copy is read.
#[test]
fn the_program_stands_still_only_while_it_is_copied() {
    let mut program = ready(shown(&format!(
        "{MANY}
         local ticks, gap = 0, 0
         process.spawn({{ daemon = true }}, function()
           local last = process.now()
           while true do
             process.sleep(0.001)
             local now = process.now()
             if ticks > 0 then gap = math.max(gap, now - last) end
             ticks, last = ticks + 1, now
           end
         end)
         collectgarbage()
         process.sleep(0)
         print 'ready'
         io.stdout:flush()
         io.read()
         ticks, gap = 0, 0
         io.read()
         print(('ticks %d gap %d us'):format(ticks, math.floor(gap * 1e6)))"
    )));
    heap(&program, &[]).succeeds(); // the observer runs
    program.write_stdin("\n");
    let began = Instant::now();
    let all = json(&heap(&program, &["--json"]));
    let lasted = began.elapsed();
    program.write_stdin("\n");
    let outcome = program.finish();
    outcome.succeeds();
    let numbers: Vec<u64> = outcome
        .stdout
        .split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect();
    let [ticks, gap] = numbers[..] else {
        panic!("two numbers expected\n{outcome}");
    };
    let gap = Duration::from_micros(gap);
    println!(
        "{lasted:?} in all, {ticks} ticks, largest gap {gap:?}, pause {}",
        all["pause"]
    );
    assert!(ticks > 20, "{ticks} ticks in {lasted:?}");
    assert!(gap < lasted / 2, "a gap of {gap:?} in {lasted:?}");
}

/// Starts a client, and returns it when there is a copy for it. While the end of an earlier client
/// is being noticed, a client is refused; then another one is started.
fn client_with_a_copy(program: &Started) -> Child {
    let until = Instant::now() + Duration::from_secs(60);
    while Instant::now() < until {
        let mut client = Command::new(baton_path())
            .args(["heap", &program.pid().to_string()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        while client.try_wait().expect("it can be asked").is_none() {
            if !children(program).is_empty() {
                return client;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    panic!("no client has got a copy");
}

#[test]
fn a_client_that_is_killed_leaves_no_copy_behind() {
    let mut program = ready(shown(&format!(
        "{MANY} print 'ready' io.stdout:flush() io.read() print 'bye'"
    )));
    heap(&program, &[]).succeeds(); // the observer runs
    for _ in 0..5 {
        let mut client = client_with_a_copy(&program);
        client.kill().expect("it can be killed");
        client.wait().expect("it ends");
        await_that("the copy is gone", || children(&program).is_empty());
    }
    program.write_stdin("\n");
    program.await_stdout("bye\n");
    program.finish().succeeds();
}

/// A program that is killed takes its copy with it, even if the client does not read.
#[test]
fn a_copy_ends_with_its_program() {
    let program = ready(shown(&format!(
        "{MANY} print 'ready' io.stdout:flush() io.read()"
    )));
    heap(&program, &[]).succeeds(); // the observer runs
    let _client = deaf_client(&program);
    await_that("there is a copy", || !children(&program).is_empty());
    let copies = children(&program);
    program.signal_until_it_ends("KILL");
    let lives = |&copy: &u32| {
        let state = fs::read_to_string(format!("/proc/{copy}/stat")).unwrap_or_default();
        state.contains("(baton-heap)") && !state.contains(") Z ")
    };
    await_that("the copy is gone", || !copies.iter().any(lives));
}

/// A client that asks for the heap and reads nothing.
fn deaf_client(program: &Started) -> UnixStream {
    let directory = program.scratch().join("baton");
    let socket = directory.join(format!("{}.socket", program.pid()));
    let mut client = UnixStream::connect(socket).expect("the observer listens");
    client
        .write_all(b"{\"version\":1}\n{\"ask\":\"heap\"}\n")
        .expect("it is read");
    client
}

#[test]
fn a_second_client_at_the_same_time_is_refused() {
    let program = ready(shown(&format!(
        "{MANY} print 'ready' io.stdout:flush() io.read()"
    )));
    heap(&program, &[]).succeeds(); // the observer runs
    let first = deaf_client(&program);
    await_that("there is a copy", || !children(&program).is_empty());
    heap(&program, &[])
        .ends_with(1)
        .complained("another client reads the heap at the moment; try later");
    drop(first);
    await_that("the copy is gone", || children(&program).is_empty());
    await_that("the heap can be read", || {
        heap(&program, &[]).status.success()
    });
    program.signal_until_it_ends("KILL");
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
fn many_snapshots_in_a_row_leave_nothing_behind() {
    let program = ready(shown("print 'ready' io.stdout:flush() io.read()"));
    heap(&program, &[]).succeeds(); // starts the observer
    await_that("the client is gone", || resources(&program).1 <= 3);
    let before = resources(&program);
    for _ in 0..50 {
        heap(&program, &[]).succeeds();
    }
    await_that("all is given back", || resources(&program) == before);
    assert!(children(&program).is_empty());
    program.signal_until_it_ends("KILL");
}

/// The other process makes the monitor start before the call.
#[test]
fn the_heap_is_read_beside_an_exclusive_call() {
    let program = ready(shown(
        "local blocker = require 'blocker'
         process.concurrent('blocker', 'exclusive')
         process.params.warn_blocked = 3600
         held = setmetatable({}, { __name = 'Held' })
         process.spawn({ name = 'other' }, function() while true do process.sleep(0.001) end end)
         process.sleep(0.01)
         print 'ready'
         io.stdout:flush()
         blocker.spin_ms(3600000)",
    ));
    let all = heap(&program, &["--json"]);
    all.succeeds();
    assert_has(&all.stdout, "\"Held\"");
    program.signal_until_it_ends("KILL");
}

/// The programs' own children, and its handler for SIGCHLD, have nothing to do with copies.
#[test]
fn a_program_that_waits_for_its_children_is_not_disturbed() {
    let mut program = stepwise(
        "local ffi = require 'baton.ffi'
         ffi.cdef 'int waitpid(int pid, int *status, int options); int fork(void); void _exit(int);'
         process.signals('CHLD') -- a handler
         local WNOHANG = 1
         function step()
           local child = ffi.C.fork()
           if child == 0 then ffi.C._exit(7) end
           local status = ffi.new('int[1]')
           local waited
           repeat
             waited = ffi.C.waitpid(-1, status, WNOHANG)
             process.sleep(0)
           until waited ~= 0
           assert(waited == child, waited)
           assert(status[0] == 7 << 8, status[0])
           assert(ffi.C.waitpid(-1, status, WNOHANG) == -1)
         end",
    );
    for _ in 0..10 {
        heap(&program, &[]).succeeds();
        step(&mut program);
    }
    program.close_stdin();
    program.finish().succeeds();
}

#[test]
fn values_are_not_shown_unless_the_program_allows_that() {
    let program =
        ready(shown("print 'ready' io.stdout:flush() io.read()").env("BATON_ATTACH", "observe"));
    heap(&program, &[])
        .ends_with(1)
        .complained("this shows values of the program, but the program lets others only see");
    heap(&program, &["--write"])
        .ends_with(1)
        .complained("--write is for a person on a terminal");
    program.signal_until_it_ends("KILL");
}

#[test]
fn a_simulated_run_is_not_interrupted() {
    let mut run = baton().arg("--simulate").arg("3");
    let own = run.scratch().to_owned();
    run = run
        .env("XDG_RUNTIME_DIR", own)
        .env("BATON_ATTACH", "all")
        .process_code("print 'ready' io.stdout:flush() while true do process.sleep(0) end");
    let program = ready(run);
    heap(&program, &[])
        .ends_with(1)
        .complained("the heap of a simulated run is not read");
    program.signal_until_it_ends("KILL");
}

/// A program in which a filter of system calls lets threads start, but refuses copies with this
/// error. None where the numbers of the calls are not known.
fn program_without_copies(error: u32) -> Option<Started> {
    let (clone, seccomp) = match std::env::consts::ARCH {
        "x86_64" => (56, 317),
        "aarch64" => (220, 277),
        _ => return None,
    };
    let program = ready(shown(&format!(
        "local ffi = require 'baton.ffi'
         ffi.cdef [[
           struct filter {{ unsigned short count; const void *code; }};
           int prctl(int option, long a, long b, long c, long d);
           long syscall(long number, long operation, long flags, void *filter);
         ]]
         local LOAD, EQUAL, RETURN, ALLOW, ERROR = 0x20, 0x15, 0x06, 0x7fff0000, 0x50000
         local function op(code, yes, no, k) return string.pack('=HBBI4', code, yes, no, k) end
         local code = op(LOAD, 0, 0, 0) .. op(EQUAL, 0, 3, {clone}) .. op(LOAD, 0, 0, 16)
           .. op(EQUAL, 0, 1, 0) .. op(RETURN, 0, 0, ERROR | {error}) .. op(RETURN, 0, 0, ALLOW)
         local bytes = ffi.new('char[?]', #code)
         ffi.copy(bytes, code, #code)
         local filter = ffi.new('struct filter')
         filter.count, filter.code = #code // 8, bytes
         local NO_NEW_PRIVILEGES, ALL_THREADS = 38, 1
         assert(ffi.C.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0) == 0)
         assert(ffi.C.syscall({seccomp}, 1, ALL_THREADS, filter) == 0)
         print 'ready'
         io.stdout:flush()
         io.read()"
    )));
    Some(program)
}

#[test]
fn a_system_that_refuses_a_copy_is_named() {
    const EPERM: u32 = 1;
    const EAGAIN: u32 = 11;
    const ENOMEM: u32 = 12;
    for (error, why) in [
        (EPERM, "a filter of system calls (seccomp) may forbid clone"),
        (EAGAIN, "too many processes"),
        (ENOMEM, "not enough memory"),
    ] {
        let Some(program) = program_without_copies(error) else {
            return skip("a refused copy", "run the tests on x86-64 or AArch64");
        };
        heap(&program, &[])
            .ends_with(1)
            .complained("the system refuses to make one")
            .complained(why);
        program.signal_until_it_ends("KILL");
    }
}

/// As the system does for want of memory.
#[test]
fn a_copy_that_is_killed_is_reported() {
    let program = ready(shown(&format!(
        "{MANY} print 'ready' io.stdout:flush() io.read()"
    )));
    heap(&program, &[]).succeeds(); // the observer runs
    let client = deaf_client(&program);
    await_that("there is a copy", || !children(&program).is_empty());
    for copy in children(&program) {
        harness::signals::send(copy, "KILL");
    }
    let mut lines = BufReader::new(client).lines();
    let end = lines.find_map(|line| line.ok().filter(|line| line.starts_with("{\"error\"")));
    let end = end.expect("the answer has an end");
    assert_has(&end, "was killed, perhaps as memory is short");
    program.signal_until_it_ends("KILL");
}
