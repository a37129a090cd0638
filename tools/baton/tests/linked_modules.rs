//! C modules that are linked into the executable: their functions count as those of a loaded
//! module, and not as Lua's own.
//!
//! This test program is such an executable, too. It starts itself with a chunk of Lua to run.

mod harness;

use harness::{Run, baton, with_process};
use std::ffi::{c_int, c_void};

/// What the executable runs in place of the tests.
const CHUNK: &str = "LINKED_CHUNK";

#[link(name = "baton_linked_modules", kind = "static")]
unsafe extern "C-unwind" {
    /// Runs the chunk, with two modules in `package.preload` (`tests/linked/host.c`).
    fn linked_host(state: *mut c_void) -> c_int;
}

unsafe extern "C" {
    /// Prints the error on the top of the stack, and pops it.
    fn linked_report(state: *mut c_void);
}

/// No test: the program that the tests start.
#[test]
fn linked_program() {
    if std::env::var_os(CHUNK).is_none() {
        return;
    }
    // SAFETY: there are no arguments. `linked_host` is a lua_CFunction that takes none, and
    // `linked_report` pops the error that it prints.
    let status = unsafe {
        baton_lua::run_program(linked_host, linked_report, 0, std::ptr::null_mut(), None)
    };
    std::process::exit(status);
}

/// A run of `code` with the modules linked in.
fn linked(code: &str) -> Run {
    let program = std::env::current_exe().expect("the path of this program");
    Run::of(&program)
        .arg("linked_program")
        .arg("--exact")
        .arg("--nocapture")
        .env(CHUNK, with_process(code))
}

/// A run of `code` with the modules loaded.
fn loaded(code: &str) -> Run {
    baton().process_code(code)
}

/// The two ways for a module to come into a program.
const WAYS: [fn(&str) -> Run; 2] = [loaded, linked];

/// Runs `code` in both ways. It writes a line with this text each time.
fn writes_in_both_ways(code: &str, line: &str) {
    for way in WAYS {
        let outcome = way(code).run();
        outcome.succeeds().quietly();
        assert!(
            outcome.stdout.contains(line),
            "{line:?} expected\n{outcome}"
        );
    }
}

#[test]
fn the_modules_are_linked() {
    let outcome = linked("print('from ' .. select(2, require 'latch'))").run();
    outcome.succeeds().quietly();
    assert!(outcome.stdout.contains("from :preload:"), "{outcome}");
}

#[test]
fn the_warning_about_a_linked_module_names_it() {
    for way in WAYS {
        let mut program = way("process.params.warn_blocked = 0.02
             local blocker = require 'blocker'
             process.spawn({ daemon = true }, function() while true do process.sleep(0.001) end end)
             process.yield()
             while true do blocker.block_ms(400) end")
        .start();
        program.await_stderr("'block_ms' of the module 'blocker' keeps all other processes");
        program.await_stderr("process.concurrent('blocker', 'object')");
    }
}

#[test]
fn a_policy_is_for_all_functions_of_a_linked_module() {
    writes_in_both_ways(
        "local check = require 'check'
         process.concurrent('latch', 'object')
         local latch = require 'latch'
         local first, path = latch.new()
         local method = process.spawn(first.wait, first)
         local second, other_path = latch.new()
         local closure = process.spawn(second:waiter())
         check.eventually('both are inside', function() return latch.most() == 2 end)
         check.write_file(path, 'm')
         check.write_file(other_path, 'c')
         print('results', select(2, method:join()) .. select(2, closure:join()))",
        "results\tmc\n",
    );
}

/// Guards: one linked module had the policy of another.
#[test]
fn a_policy_is_for_one_linked_module_only() {
    for way in WAYS {
        let mut program = way("process.params.warn_blocked = 0.02
             process.concurrent('latch', 'object')
             local latch, blocker = require 'latch', require 'blocker'
             process.spawn({ daemon = true }, function() while true do process.sleep(0.001) end end)
             process.yield()
             while true do blocker.block_ms(400) end")
        .start();
        program.await_stderr("of the module 'blocker' keeps all other processes waiting");
    }
}

/// Guards: a process with frames of a linked module continued on another native thread, or waited
/// for a call that another process made on its thread.
#[test]
fn a_process_with_frames_of_a_linked_module_stays_on_its_thread() {
    writes_in_both_ways(
        "local check = require 'check'
         process.concurrent('latch', 'object')
         local latch, blocker = require 'latch', require 'blocker'
         local gate, object, path = process.event(), latch.new()
         local p = process.spawn(blocker.call_and_return, function()
           local before = process.thread()
           gate:wait()
           return before == process.thread()
         end)
         check.becomes(p, 'waiting')
         local holder = process.spawn(object.wait, object)
         check.becomes(holder, 'foreign')
         gate:set()
         print('joined', p:join())
         print('holder', holder:status())
         check.write_file(path, 'x')
         print('holder', (holder:join()))",
        "joined\ttrue\ttrue\nholder\tforeign\nholder\ttrue\n",
    );
}

/// Guards: a function of Lua's library that a module pushed anew was taken for the module's own.
#[test]
fn a_function_of_lua_that_a_linked_module_pushes_stays_lua_s() {
    let outcome = linked(
        "local check = require 'check'
         local path = check.fifo()
         local file
         local p = process.spawn(function() file = push_again(io.open)(path) end)
         check.becomes(p, 'foreign')
         check.write_file(path, 'x')
         p:join()
         print('read', file:read 'a')",
    )
    .run();
    outcome.succeeds().quietly();
    assert!(outcome.stdout.contains("read\tx\n"), "{outcome}");
}
