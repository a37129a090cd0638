//! Without memory for one more object there is an error, which a program can catch and continue
//! after.

#![cfg(target_os = "linux")] // other systems have no limit on address space that holds

mod harness;

use harness::{Outcome, Run, baton_path};
use std::path::Path;

/// Runs `out_of_memory.lua` with a limit on its address space, in KiB.
fn fills_memory(kind: &str, limit: u32) {
    let run = Run::of(Path::new("/bin/sh"))
        .arg("-c")
        .arg(format!("ulimit -v {limit}; exec \"$0\" \"$@\""))
        .arg(baton_path())
        .script("out_of_memory.lua")
        .arg(kind);
    let outcome = run.run();
    assert_eq!(
        outcome.succeeds().stdout,
        format!("passed\t{kind}\n"),
        "{outcome}"
    );
}

macro_rules! kinds {
    ($($kind:ident),+ $(,)?) => {
        $(#[test]
        fn $kind() {
            fills_memory(stringify!($kind), 100_000);
        })+

        const KINDS: &[&str] = &[$(stringify!($kind)),+];
    };
}

kinds! {
    alarm,
    array,
    barrier,
    callback,
    callback_in_its_place,
    channel,
    channel_with_a_value,
    condition,
    constant,
    declared_structure,
    event,
    frozen_value,
    function_type,
    further_arguments,
    large_declaration,
    large_frozen_value,
    large_heap,
    library,
    linked_process,
    monitored_process,
    mutex,
    object_with_a_name,
    periodic_timer,
    pointer_type,
    prepared_function,
    process,
    process_in_a_long_select,
    process_that_is_joined,
    process_that_waits,
    process_with_a_small_stack,
    process_with_many_arguments,
    rwlock,
    semaphore,
    structure,
    suspended_process,
    thawed_value,
    timer,
    value_in_a_channel,
}

#[test]
fn finalizers_get_what_little_memory_is_left() {
    // With some of these limits, less is left than the runtime's reserve needs.
    for limit in (75_000..76_400).step_by(40) {
        fills_memory("library", limit);
    }
}

/// A run in which one call of malloc fails, if it is given.
fn with_failing_malloc(failing: Option<u64>, code: &str) -> Outcome {
    let preloaded = harness::modules::dir().join("failing_malloc.so");
    let run = harness::baton().env("LD_PRELOAD", preloaded).code(code);
    match failing {
        Some(call) => run.env("FAIL_AT", call.to_string()).run(),
        None => run.env("SHOW_CALLS", "1").run(),
    }
}

/// How many calls of malloc a run makes.
fn calls_of(code: &str) -> u64 {
    let outcome = with_failing_malloc(None, code);
    let calls = outcome.succeeds().stderr.trim().parse();
    calls.expect("the preloaded library writes a number")
}

/// The program ends, whichever call fails. A program that hangs is ended by the harness, and that
/// fails.
#[test]
#[cfg(target_env = "gnu")]
fn a_program_ends_if_one_allocation_of_its_start_fails() {
    let code = "print 'began'";
    for call in 1..=calls_of(code).min(160) {
        let outcome = with_failing_malloc(Some(call), code);
        assert!(
            outcome.stdout == "began\n" || !outcome.status.success(),
            "call {call} fails: {outcome}"
        );
    }
}

#[test]
#[cfg(target_env = "gnu")]
fn a_vm_begins_or_its_start_is_refused_if_one_allocation_fails() {
    let module = "local vm = require 'baton.vm' io.stdout:setvbuf 'no'";
    let code = format!(
        "{module}
         local w, why = vm.spawn({{ quiet = true }}, function() end)
         if w then w:join() end
         print('began', w ~= nil or why)"
    );
    // Steps that share no factor with what the start repeats.
    for call in (calls_of(module)..=calls_of(&code)).step_by(41) {
        let outcome = with_failing_malloc(Some(call), &code);
        assert!(
            outcome.stdout.starts_with("began\t") || !outcome.status.success(),
            "call {call} fails: {outcome}"
        );
    }
}

#[test]
fn no_kind_is_left_out() {
    let outcome = harness::baton()
        .script("out_of_memory.lua")
        .arg("kinds")
        .run();
    let mut kinds: Vec<&str> = outcome.succeeds().stdout.lines().collect();
    kinds.sort_unstable();
    assert_eq!(kinds, KINDS);
}

#[test]
fn with_more_memory_the_tables_are_larger_and_the_same_holds() {
    for kind in ["channel", "structure", "process", "large_heap"] {
        fills_memory(kind, 400_000);
    }
}

/// Runs Lua code with a limit on the program's address space, in KiB.
fn with_limit(limit: u32, code: &str) -> harness::Outcome {
    Run::of(Path::new("/bin/sh"))
        .arg("-c")
        .arg(format!("ulimit -v {limit}; exec \"$0\" \"$@\""))
        .arg(baton_path())
        .arg("-e")
        .arg(code)
        .run()
}

/// Guards against a heap that keeps what was freed: there was no address space for a stack.
#[test]
fn processes_can_be_made_after_memory_ran_out() {
    for fill in [
        "for i = 1, math.huge do t[i] = ('x'):rep(1000 + i) end",
        "for i = 1, math.huge do t[i] = ('x'):rep(100000) .. i end",
        "for i = 1, math.huge do t = { t } end",
    ] {
        let code = format!(
            "local process = require 'baton.process'
            local ok, why = pcall(function() local t = {{}} {fill} end)
            assert(not ok and why == 'not enough memory', why)
            for i = 1, 3 do
                assert(process.spawn(function() return i end):join())
            end
            local large = process.spawn({{ stack_size = 1 << 21 }}, function() return 'large' end)
            print(select(2, large:join()))"
        );
        // It may say that there is no room for the monitor's thread yet.
        with_limit(100_000, &code).succeeds().wrote("large\n");
    }
}

/// Guards against stacks of ended processes that keep all address space.
#[test]
fn memory_can_be_had_after_a_wave_of_processes() {
    let code = "local process = require 'baton.process'
        local all, done = {}, process.event()
        local ok = pcall(function()
            while true do
                all[#all + 1] = process.spawn(function() done:wait() end)
            end
        end)
        assert(not ok)
        done:set()
        for _, one in ipairs(all) do one:join() end
        assert(#all > 20, #all)
        print(#('x'):rep(10000000))
        local t = {}
        for i = 1, 1000 do t[i] = ('y'):rep(10000) .. i end
        print(process.spawn(function() return #t end):join())";
    with_limit(200_000, code)
        .succeeds()
        .wrote("10000000\ntrue\t1000\n")
        .quietly();
}

/// What a program does while allocations fail: processes, another VM, types of C.
const PROGRAM: &str = "local process, vm = require 'baton.process', require 'baton.vm'
    local ffi = require 'baton.ffi'
    ffi.cdef 'struct p { int x; double y; }; int abs(int);'
    assert(ffi.C.abs(-3) == 3)
    local function work()
        local process = require 'baton.process'
        local all = {}
        for i = 1, 10 do all[i] = process.spawn({ quiet = true }, process.sleep, 0.001) end
        for _, one in ipairs(all) do one:join() end
    end
    work()
    local d = vm.dict()
    for i = 1, 50 do d:set(i, { i }) end
    local w = vm.spawn({ quiet = true }, work)
    if w then w:join() end";

/// Runs the program with allocations that fail: so many, from the one of this number on.
#[cfg(target_env = "gnu")]
fn with_failing_allocations(from: usize, count: usize, code: &str) -> harness::Outcome {
    let library = harness::modules::dir().join("failing_malloc.so");
    harness::baton()
        .env("LD_PRELOAD", library)
        .env("FAIL_AT", from.to_string())
        .env("FAIL_COUNT", count.to_string())
        .code(code)
        .run()
}

/// Guards against allocations of the runtime that end the program: no attempt was left then.
#[cfg(target_env = "gnu")]
#[test]
fn twenty_failing_allocations_in_a_row_are_an_error_and_no_abort() {
    let mut failures = 0;
    // From where the program's own code runs.
    for from in (2500..9000).step_by(217) {
        let outcome = with_failing_allocations(from, 20, PROGRAM);
        assert!(
            outcome.status.code().is_some(),
            "from allocation {from} on: {outcome}"
        );
        failures += usize::from(!outcome.status.success());
    }
    assert!(failures > 0, "no allocation of the program has failed");
}

#[cfg(target_env = "gnu")]
#[test]
fn a_program_that_cannot_begin_says_so() {
    for from in 1..=30 {
        let outcome = with_failing_allocations(from, 1, "");
        assert!(
            outcome.status.success() || outcome.stderr.contains("memory"),
            "at allocation {from}: {outcome}"
        );
    }
}
