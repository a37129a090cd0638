//! SIGINT while a chunk runs and while the prompt waits, in both programs.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::Child;
use std::thread;
use std::time::Duration;

use crate::interpreter;
use crate::run::signals::send;
use crate::run::{baton, describe, finish, reference, spawn};

/// Starts the program, sends SIGINT once it has printed `ready` and `go` returns true, and returns
/// its stderr and status.
fn interrupted(
    program: &Path,
    arguments: &[&str],
    ready: &str,
    go: fn(&Child),
) -> (String, String) {
    let mut child = spawn(&mut interpreter(program, arguments));
    let mut stdout = child.stdout.take().expect("a pipe");
    let mut seen = Vec::new();
    while !seen.ends_with(ready.as_bytes()) {
        let mut byte = [0];
        stdout
            .read_exact(&mut byte)
            .unwrap_or_else(|_| panic!("{arguments:?} ended before it was ready: {seen:?}"));
        seen.push(byte[0]);
    }
    go(&child);
    send(child.id(), "INT");
    let output = finish(child, b"");
    (
        String::from_utf8_lossy(&output.stderr).into_owned(),
        describe(output.status),
    )
}

/// Waits until the program has computed for a while from now on, so that it is in its loop.
fn in_its_loop(child: &Child) {
    let start = ticks(child);
    while ticks(child) < start + 3 {
        thread::sleep(Duration::from_millis(1));
    }
}

/// The processor time of the program, in clock ticks (proc_pid_stat(5), field 14).
fn ticks(child: &Child) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).expect("/proc");
    let (_, fields) = stat.rsplit_once(')').expect("the name in parentheses");
    let utime = fields.split_whitespace().nth(11).expect("utime");
    utime.parse().expect("a number")
}

fn compare(code: &str) {
    let Some(reference) = reference() else {
        return;
    };
    let arguments = ["-e", code];
    let expected = interrupted(&reference, &arguments, "ready\n", in_its_loop);
    assert!(expected.0.contains("interrupted!"), "{expected:?}");
    let found = interrupted(baton(), &arguments, "ready\n", in_its_loop);
    assert_eq!(found, expected);
}

#[test]
fn an_interrupt_raises_in_an_endless_loop() {
    compare("print('ready') while true do end");
}

#[test]
fn an_interrupt_raises_in_nested_calls() {
    compare("local function f() print('ready') while true do end end f()");
}

#[test]
fn an_interrupt_raises_in_a_callback() {
    compare("print('ready') string.gsub('a', '.', function() while true do end end)");
}

#[test]
fn an_interrupt_can_be_caught() {
    compare(
        "print('ready') io.stderr:write(select(2, pcall(function() while true do end end)), '\\n')",
    );
}

#[test]
fn an_interrupt_closes_variables() {
    compare(
        "local x <close> = setmetatable({}, {__close = function(_, e) io.stderr:write('closed ', \
         e, '\\n') end})
        print('ready') while true do end",
    );
}

#[test]
fn an_interrupt_at_the_prompt_ends_the_program() {
    let Some(reference) = reference() else {
        return;
    };
    let expected = interrupted(&reference, &["-i"], "> ", |_| ());
    assert_eq!(expected.1, "signal 2");
    assert_eq!(interrupted(baton(), &["-i"], "> ", |_| ()), expected);
}
