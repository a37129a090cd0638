//! What libraries and commands see of Baton's native threads: their signals, their masks, their
//! ends, and the executable's symbols.
#![cfg(target_os = "linux")]

mod harness;

use harness::observed::{observed, ready, stacks};
use harness::skip::is_missing;
use harness::{baton, baton_path};
use std::process::Command;

/// How many waits of a library in C are interrupted while others look at the program. It has had a
/// second process, so it has a monitor. A program without one has no other thread for the signal.
fn interrupted_waits(before: &str) -> String {
    let mut program = ready(
        observed(&format!(
            "local breaker = require 'breaker'
             {before}
             print 'ready' io.stdout:flush()
             print(breaker.interrupted())"
        ))
        .open_stdin(),
    );
    for _ in 0..5 {
        stacks(&program, &[]);
    }
    program.write_stdin("\n");
    let outcome = program.finish();
    outcome.succeeds();
    outcome.stdout
}

#[test]
fn looking_at_a_program_interrupts_no_wait_of_its_libraries() {
    let second = "process.spawn(process.yield):join()";
    assert_eq!(interrupted_waits(second), "ready\n0\n");
}

#[test]
fn looking_interrupts_no_wait_beside_other_processes() {
    let others = "process.params.warn_blocked = 60
         process.concurrent('breaker', 'concurrent')
         process.spawn({ daemon = true }, function() while true do process.sleep(0.005) end end)";
    assert_eq!(interrupted_waits(others), "ready\n0\n");
}

#[test]
fn a_command_of_a_call_with_a_timeout_has_the_programs_signal_mask() {
    let code = "local ffi = require 'baton.ffi'
         local system = ffi.timeout(ffi.fn 'int system(const char *)', 60)
         local command = 'exec grep SigBlk /proc/self/status >&2'
         os.execute(command)
         system(command)
         io.popen(command):close()
         process.spawn(function() system(command) end):join()";
    let outcome = baton().process_code(code).run();
    outcome.succeeds();
    let masks: Vec<&str> = outcome.stderr.lines().collect();
    assert_eq!(masks, ["SigBlk:\t0000000000000000"; 4], "{outcome}");
}

/// Starts a command on a native thread that ends before the command. `start` returns what the
/// command writes or how it ends, after it was told to go on.
fn outlives_its_thread(start: &str) {
    if is_missing(
        &["setpriv", "--pdeathsig", "TERM", "true"],
        "util-linux",
        "setpriv",
    ) {
        return;
    }
    let code = format!(
        "process.params.thread_idle = 0.01
         process.concurrent('latch', 'object')
         local up, go_on = os.getenv 'SCRATCH' .. '/up', os.getenv 'SCRATCH' .. '/go_on'
         local command = ([[exec setpriv --pdeathsig KILL sh -c \
             'touch %s; until [ -e %s ]; do sleep 0.01; done; echo alive']]):format(up, go_on)
         local function exists(name)
           local file = io.open(name)
           return file ~= nil and file:close()
         end
         local latch, path = require('latch').new()
         local result
         local starter = process.spawn(function() result = {start} end)
         process.spawn(function()
           repeat process.sleep(0.005) until exists(up)
           io.open(path, 'w'):write('x'):close()
         end)
         latch:wait() -- so the others run on another native thread
         repeat process.sleep(0.01) until process.threads() == 1
         io.open(go_on, 'w'):close()
         starter:join()
         io.stdout:flush()
         print(result)"
    );
    let outcome = baton().process_code(&code).run();
    outcome.succeeds().wrote("alive\ntrue\n").quietly();
}

#[test]
fn a_command_outlives_the_native_thread_of_its_process() {
    outlives_its_thread("os.execute(command)");
}

#[test]
fn a_command_at_a_pipe_outlives_the_native_thread_of_its_process() {
    outlives_its_thread(
        "(function()
           local pipe = io.popen(command)
           io.write(pipe:read 'a')
           return pipe:close()
         end)()",
    );
}

/// A module that is linked with the system's libffi would otherwise call ours.
#[test]
fn the_executable_exports_the_interfaces_for_modules_and_nothing_else() {
    if is_missing(&["nm", "--version"], "binutils", "the executable's symbols") {
        return;
    }
    let nm = Command::new("nm")
        .args(["-D", "--defined-only"])
        .arg(baton_path())
        .output()
        .expect("it starts");
    let text = String::from_utf8_lossy(&nm.stdout);
    let names: Vec<&str> = text
        .lines()
        .filter_map(|line| line.split_whitespace().last())
        .collect();
    let headers = concat!(
        include_str!("../../../bindings/capi/include/baton.h"),
        include_str!("../../../bindings/capi/include/baton/guest.h"),
        include_str!("../../../bindings/capi/include/baton/inline.h"),
        include_str!("../../../guests/lua/include/baton_module.h"),
        include_str!("../../../guests/lua/include/baton_net.h")
    );
    let is_declared = |name: &str| {
        let is_other = |letter: char| !letter.is_ascii_alphanumeric() && letter != '_';
        headers.split(is_other).any(|word| word == name)
    };
    let is_interface = |name: &str| {
        ["lua_", "luaL_", "luaopen_"]
            .iter()
            .any(|of_lua| name.starts_with(of_lua))
            || name.starts_with("baton_") && is_declared(name)
    };
    let others: Vec<&&str> = names.iter().filter(|name| !is_interface(name)).collect();
    assert!(others.is_empty(), "{others:?}");
    for name in [
        "lua_callk",
        "luaL_ref",
        "luaopen_base",
        "baton_enter",
        "baton_gate",
        "baton_net_fill",
    ] {
        assert!(names.contains(&name), "{name}");
    }
}
