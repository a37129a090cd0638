//! `require "baton.inspect"`: a program looks into itself. And the symbols of C functions.
#![cfg(target_os = "linux")]

mod harness;

use baton_formats::heap::Snapshot;
use harness::observed;
use harness::{Outcome, Run, Started, baton, baton_path};
use serde_json::Value;
use std::fs;
use std::process::Command;

/// Runs code with `inspect` and `process`.
fn inspecting(code: &str) -> Outcome {
    let code = format!("local inspect = require 'baton.inspect' {code}");
    baton().process_code(&code).run()
}

#[test]
fn a_process_that_asks_waits_and_others_go_on() {
    inspecting(
        "local count = 0
         process.spawn({ daemon = true }, function()
           while true do count = count + 1 process.sleep(0.001) end
         end)
         local profile = inspect.profile(0.5)
         assert(count > 10, count)
         assert(profile.measure == 'cpu' and profile.unit == 'nanoseconds')
         assert(profile.duration > 400000000)",
    )
    .succeeds()
    .quietly();
}

#[test]
fn known_shares_are_found_within_two_points() {
    inspecting(
        "local clock = os.clock
         local function burn(ms)
           local until_then, sum = clock() + ms / 1000, 0
           while clock() < until_then do for i = 1, 200 do sum = sum + i end end
         end
         local function sixty() burn(6) return 1 end
         local function forty() burn(4) return 1 end
         local function work() while clock() < 5 do sixty() forty() end return 'done', nil, 7 end
         local results = table.pack(inspect.profile(work, { rate = 997 }))
         local profile = results[1]
         assert(results.n == 4 and results[2] == 'done' and results[4] == 7)
         local function share(name)
           for _, found in ipairs(profile.functions) do
             if found['function'] == name then return 100 * found.total / profile.total end
           end
           error('no ' .. name)
         end
         assert(math.abs(share 'sixty' - 60) <= 2, share 'sixty')
         assert(math.abs(share 'forty' - 40) <= 2, share 'forty')",
    )
    .succeeds()
    .quietly();
}

/// Its thread is the parent's. The parent gets its answers as if there were no child.
#[test]
fn a_forks_child_gets_no_answer_to_a_question_of_its_parent() {
    inspecting(
        "local forker = require 'forker'
         local path = os.getenv 'SCRATCH' .. '/forked.json'
         local child
         local function fork() child = forker.fork() return child end
         local function await()
           local status
           repeat process.sleep(0.001) status = forker.reap(child) until status
           assert(status == 7, status)
         end
         for _, kind in ipairs { 'cpu', 'wall', 'waits', 'alloc' } do
           local fine, profile = pcall(inspect.profile, fork, { kind = kind })
           if child == 0 then
             local expected = 'the question was asked before a fork'
             collectgarbage()
             os.exit(not fine and profile:find(expected, 1, true) and 7 or 1, false)
           end
           assert(fine and profile.unit, profile)
           await()
         end
         local pid = inspect.trace(fork, path)
         if child == 0 then os.exit(pid == 0 and 7 or 1, false) end
         assert(pid == child and os.remove(path))
         await()
         assert(not io.open(path), 'the child has written')
         local wrong = 'wrong'
         local fine, why = pcall(inspect.trace, function() fork() error(wrong, 0) end, path)
         if child == 0 then os.exit(why == wrong and 7 or 1, false) end
         await()
         assert(not fine and why == wrong)
         -- The child can ask questions of its own.
         if fork() == 0 then
           local mine = inspect.profile(function() end)
           inspect.trace(function() end, path)
           os.exit(mine.unit and os.remove(path) and 7 or 1, false)
         end
         await()",
    )
    .succeeds()
    .quietly();
}

/// What `f` allocates is known, and next to nothing is allocated beside it.
#[test]
fn what_a_function_allocates_is_measured() {
    inspecting(
        "local function work()
           local last
           for _ = 1, 20000 do last = string.rep('x', 10000) end
           return last
         end
         local profile, last = inspect.profile(work, { kind = 'alloc' })
         assert(#last == 10000)
         -- Each string is a buffer, too.
         local expected = 20000 * 2 * 10000
         local ratio = profile.total / expected
         assert(ratio > 0.98 and ratio < 1.02, ratio)
         assert(profile.unit == 'bytes' and profile.functions[1]['function'] == 'rep')",
    )
    .succeeds()
    .quietly();
}

#[test]
fn waits_are_profiled() {
    inspecting(
        "local event = process.event { name = 'never' }
         process.spawn({ daemon = true }, function() event:wait() end)
         local profile = inspect.profile(0.5, { kind = 'waits' })
         for _, wait in ipairs(profile.waits) do
           if wait.object == \"the event 'never'\" then return end
         end
         error('it was not seen')",
    )
    .succeeds()
    .quietly();
}

#[test]
fn stacks_are_those_that_observers_see() {
    inspecting(
        "local channel = process.channel { name = 'silent' }
         local function listen() channel:receive() return 1 end
         for _ = 1, 500 do process.spawn({ name = 'listener', daemon = true }, listen) end
         process.sleep(0.01)
         local listeners, own = 0, nil
         for _, one in ipairs(inspect.stacks()) do
           if one.title:find 'listener' then
             listeners = listeners + 1
             assert(one.state == 'waiting' and one.waits:find \"channel 'silent'\", one.waits)
             local frame = one.stacks[1][2]
             assert(frame.kind == 'guest' and frame.defined == 3, frame.defined)
           elseif one.id == 1 then
             own = one
           end
         end
         assert(listeners == 500, listeners)
         assert(own.title == \"process 1 'main'\", own.title)",
    )
    .succeeds()
    .quietly();
}

#[test]
fn metrics_are_those_of_stats() {
    inspecting(
        "local stats, metrics = process.stats(), inspect.metrics()
         assert(metrics.is_whole)
         for name in pairs(stats) do assert(metrics.counters[name] ~= nil, name) end
         for name in pairs(metrics.counters) do assert(stats[name] ~= nil, name) end
         assert(math.type(metrics.counters.switches) == 'integer')
         local lateness = metrics.histograms.lateness
         assert(#lateness.series[1].counts == #lateness.bounds + 1)
         local text = inspect.metrics 'text'
         assert(text:find '\\nbaton_live 1\\n' and not text:find 'EOF')
         assert(inspect.metrics 'openmetrics':sub(-6) == '# EOF\\n')",
    )
    .succeeds()
    .quietly();
}

#[test]
fn files_are_written_by_their_suffix() {
    let home = tempfile::tempdir().expect("a directory");
    baton()
        .process_code(
            "local inspect = require 'baton.inspect'
             local place = os.getenv 'PLACE' .. '/x.'
             for _, suffix in ipairs { 'svg', 'pb.gz', 'json', 'folded' } do
               inspect.profile(function()
                 local until_then = os.clock() + 0.2
                 while os.clock() < until_then do end
               end, { path = place .. suffix })
             end
             leak = {}
             for i = 1, 1000 do leak[i] = { i } end
             local heap = inspect.heap(place .. 'heapsnapshot')
             assert(heap.objects > 1000 and heap.bytes > 56 * 1000)
             assert(inspect.heap().objects > 1000)",
        )
        .env("PLACE", home.path())
        .run()
        .succeeds()
        .quietly();
    let home = home.path();
    let begins: [(&str, &[u8]); 4] = [
        ("x.svg", b"<"),
        ("x.pb.gz", &[0x1f, 0x8b]),
        ("x.json", b"{"),
        ("x.folded", b"main chunk"),
    ];
    for (name, beginning) in begins {
        let written = fs::read(home.join(name)).expect("it was written");
        assert!(written.starts_with(beginning), "{name} begins otherwise");
    }
    let file = fs::File::open(home.join("x.heapsnapshot")).expect("it was written");
    Snapshot::read(file).expect("a snapshot");
}

#[test]
fn wrong_use_is_explained() {
    for (call, expected) in [
        (
            "profile()",
            "bad argument #1 to 'profile' (seconds or a function expected, got nil)",
        ),
        ("profile(0)", "(from 0.01 to 3600 seconds expected, got 0)"),
        (
            "profile(0 / 0)",
            "(from 0.01 to 3600 seconds expected, got ",
        ),
        (
            "profile(1, 7)",
            "bad argument #2 to 'profile' (table expected, got number)",
        ),
        (
            "profile(1, { kind = 'x' })",
            "(a kind 'cpu', 'wall', 'waits' or 'alloc' expected, got 'x')",
        ),
        (
            "profile(1, { rate = 0 })",
            "(a rate from 1 to 1000 samples a second expected, got '0')",
        ),
        (
            "profile(1, { seconds = 1 })",
            "(the options 'kind', 'rate' and 'path' expected, got 'seconds')",
        ),
        (
            "profile(1, { path = 7 })",
            "(a path as a string expected, got number)",
        ),
        (
            "profile(1, { path = 'x.png' })",
            "expected a file name that ends with .svg",
        ),
        (
            "profile(1, { path = '/no/x.svg' })",
            "cannot write /no/x.svg",
        ),
        (
            "metrics(1)",
            "(nothing, 'text' or 'openmetrics' expected, got '1')",
        ),
        (
            "heap(1)",
            "(a path that ends with .heapsnapshot expected, got number)",
        ),
        (
            "heap('x')",
            "a file that ends with .heapsnapshot expected, as Chrome expects it, got x",
        ),
    ] {
        let outcome = inspecting(&format!("inspect.{call}"));
        outcome.ends_with(1).complained(expected);
        // The error is the caller's.
        outcome.complained("(command line):");
    }
}

#[test]
fn an_error_of_the_function_is_raised_after_the_profile() {
    inspecting(
        "local ok, why = pcall(inspect.profile, function() error({ 7 }) end)
         assert(not ok and why[1] == 7)
         -- A question that is given up ends, and the next one is answered.
         local asker = process.spawn(function() inspect.profile(3600) end)
         process.sleep(0.01)
         asker:kill()
         asker:join()
         collectgarbage()
         assert(inspect.profile(0.05))",
    )
    .succeeds()
    .quietly();
}

#[test]
fn a_simulated_run_is_not_asked() {
    let run = baton().arg("--simulate").arg("1").arg("-e");
    run.arg("require 'baton.inspect'.stacks()")
        .run()
        .ends_with(1)
        .complained("baton.inspect has no answer in a simulated run");
}

fn ready(code: &str) -> Started {
    observed::ready(observed::observed(code))
}

fn ask(command: &[&str], program: &Started) -> Outcome {
    let run = Run::of(baton_path());
    let run = command.iter().fold(run, |run, word| run.arg(word));
    run.arg(program.pid().to_string()).run()
}

/// The symbol where the library exports one; else its name alone, and the caller's.
#[test]
fn functions_in_c_are_shown_with_their_symbols() {
    let program = ready(
        "process.concurrent('blocker', 'concurrent')
         local blocker = require 'blocker'
         process.spawn(function() while true do blocker.exported_ms(1000) end end)
         process.spawn(function() while true do blocker.block_ms(1000) end end)
         process.sleep(0.2)
         print 'ready'
         io.stdout:flush()
         process.sleep(3600)",
    );
    let stacks = ask(&["stacks"], &program);
    let profile = ask(&["profile", "--wall", "-d", "0.5", "--json"], &program);
    program.signal_until_it_ends("KILL");
    stacks.succeeds();
    let text = &stacks.stdout;
    assert!(
        text.contains("'exported_ms' (blocker_exported in blocker.so)"),
        "{text}"
    );
    assert!(text.contains("'block_ms' (blocker.so)"), "{text}");
    profile.succeeds();
    let summary: Value = serde_json::from_str(&profile.stdout).expect("JSON");
    let functions = summary["functions"].as_array().expect("a list");
    let has = |name: &str| functions.iter().any(|found| found["function"] == name);
    assert!(has("exported_ms (blocker_exported)"), "{summary:#}");
    assert!(has("block_ms"), "{summary:#}");
}

/// The linker's lock is held while a library's constructors run. Nobody waits for it.
#[test]
fn a_library_that_is_being_loaded_keeps_no_observer_waiting() {
    let run = baton().process_code(
        "process.spawn(function() require 'slow_to_load' end)
         process.sleep(0.1)
         print 'ready'
         io.stdout:flush()
         process.sleep(3600)",
    );
    let home = run.scratch().to_owned();
    let fifo = home.join("fifo");
    let made = Command::new("mkfifo").arg(&fifo).status();
    assert!(made.is_ok_and(|status| status.success()));
    let run = run.env("XDG_RUNTIME_DIR", &home);
    let mut program = run.env("SLOW_TO_LOAD", &fifo).start();
    program.await_stdout("ready\n");
    let outcome = ask(&["stacks"], &program);
    outcome.succeeds();
    // The constructor still waits: only a writer lets it go on.
    assert!(
        outcome.stdout.contains("in global 'require'"),
        "{}",
        outcome.stdout
    );
    assert!(outcome.stdout.contains("foreign"), "{}", outcome.stdout);
    program.signal_until_it_ends("KILL");
}

#[test]
fn stacks_and_profiles_have_the_fields_of_the_context() {
    inspecting(
        "process.spawn({ name = 'clerk', daemon = true }, function()
           process.set_context { tenant = 'acme corp', request = 17 }
           while true do end
         end)
         local function clerk()
           for _, one in ipairs(inspect.stacks()) do
             if one.title:find 'clerk' then return one end
           end
         end
         repeat process.sleep(0.001) until clerk().context
         assert(clerk().context.tenant == 'acme corp' and clerk().context.request == '17')
         local path = os.getenv 'SCRATCH' .. '/profile.pb.gz'
         inspect.profile(0.3, { path = path })
         local texts = io.popen('gzip -dc ' .. path):read 'a'
         assert(texts:find('acme corp', 1, true) and texts:find 'tenant' and texts:find 'request')",
    )
    .succeeds()
    .quietly();
}
