//! Clients of all kinds: many, several at once, hostile ones, and those that are killed.
#![cfg(target_os = "linux")]

mod harness;

use harness::observed::{WAITERS, assert_has, observed, ready, socket, stacks};
use harness::{Run, Started, baton_path};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

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

/// The memory of a program, in KiB.
fn resident_kib(program: &Started) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", program.pid()));
    let status = status.expect("it lives");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    number.expect("the system tells it")
}

/// By how much memory may grow because parts of it are not used again at once, in KiB.
const MOST_GROWTH: u64 = 512;

#[test]
fn a_thousand_attaches_in_a_row_leave_nothing_behind() {
    let program = ready(observed(WAITERS));
    stacks(&program, &[]); // starts the observer
    let before = resources(&program);
    for _ in 0..100 {
        stacks(&program, &[]);
    }
    let resident = resident_kib(&program);
    for _ in 0..900 {
        stacks(&program, &[]);
    }
    let now = resident_kib(&program);
    assert!(now <= resident + MOST_GROWTH, "{resident} KiB, then {now}");
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
    for with in [
        "null",
        "[]",
        "7",
        "\"x\"",
        "{\"seconds\":true}",
        "{\"seconds\":1e400}",
        "{\"seconds\":-1}",
        "{\"seconds\":1e300}",
        "{\"seconds\":[[]]}",
        "{}",
    ] {
        let question = format!("{hello}{{\"ask\":\"trace\",\"with\":{with}}}\n");
        let answer = answer_to(&program, question.as_bytes());
        assert!(!answer.contains("summary"), "{with}: {answer}");
    }
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

/// A program that forks on a line from its input, and then has a child that only sleeps.
fn forking() -> Started {
    ready(
        observed(
            "local ffi = require 'baton.ffi'
             ffi.cdef 'int fork(void); int getpid(void);'
             process.spawn({ daemon = true }, process.sleep, 3600)
             print 'ready'
             io.stdout:flush()
             io.read()
             if ffi.C.fork() == 0 then
               print('child ' .. ffi.C.getpid())
               io.stdout:flush()
             end
             process.sleep(3600)",
        )
        .open_stdin(),
    )
}

/// Otherwise a client would wait for the end of the child, too.
fn check_that_a_child_does_not_keep(question: &str, answers: &[&str]) {
    let mut program = forking();
    stacks(&program, &[]); // starts the observer
    let mut client = UnixStream::connect(socket(&program)).expect("the observer listens");
    let limit = Some(Duration::from_secs(30));
    client.set_read_timeout(limit).expect("it can be set");
    let all = format!("{{\"version\":1,\"write\":true}}\n{question}");
    client.write_all(all.as_bytes()).expect("it reads");
    let mut lines = BufReader::new(client);
    for answer in answers {
        let mut line = String::new();
        lines.read_line(&mut line).expect("it answers");
        assert_has(&line, answer);
    }
    program.write_stdin("\n");
    program.await_stdout("child ");
    program.await_stdout("\n");
    let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", program.pid()))
        .expect("the kernel lists them");
    let child: u32 = children.trim().parse().expect("one child");
    harness::signals::send(program.pid(), "KILL");
    let ended = lines.read_to_end(&mut Vec::new());
    harness::signals::send(child, "KILL");
    program.signal_until_it_ends("KILL"); // its output ends with the child
    ended.expect("the connection ends with the program");
}

#[test]
fn a_forks_child_does_not_keep_a_clients_connection() {
    check_that_a_child_does_not_keep("", &["hello"]);
}

#[test]
fn a_forks_child_does_not_keep_a_debuggers_connection() {
    check_that_a_child_does_not_keep(
        "{\"ask\":\"debug\",\"with\":{\"version\":1}}\n",
        &["hello", "attached"],
    );
}
