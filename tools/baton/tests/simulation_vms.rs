//! Tests `baton --simulate` with several VMs: their seed repeats the whole run.
#![cfg(target_os = "linux")]

mod harness;

use harness::{Outcome, Run, baton, baton_path};
use std::collections::HashSet;
use std::path::Path;
use std::time::{Duration, Instant};

fn simulated(seeds: &str) -> Run {
    baton().arg("--simulate").arg(seeds)
}

/// Runs code that has the modules as the locals `process` and `vm`.
fn run(seed: u64, code: &str) -> Outcome {
    let code = format!("local vm = require 'baton.vm'\n{code}");
    simulated(&seed.to_string()).process_code(&code).run()
}

/// What a run has written.
fn all_of(outcome: Outcome) -> (String, String) {
    outcome.without_panic();
    (outcome.stdout, outcome.stderr)
}

/// The message of the seed that was found, and the seed.
fn found(program: &str) -> (String, String) {
    let search = simulated("1-500").script(program).run();
    search
        .ends_with(1)
        .complained("has several VMs: the seed ")
        .complained("repeats it, and its switches are not explained");
    let after = search.stderr.rsplit("--simulate ").next();
    let seed = after.and_then(|rest| rest.split(' ').next());
    let seed = seed.expect("the seed is told").to_owned();
    (search.stderr, seed)
}

fn assert_is_found(program: &str, message: &str) {
    let program = format!("simulation/vms/{program}.lua");
    let (told, seed) = found(&program);
    assert!(told.contains(message), "{told}");
    let repeat = || all_of(simulated(&seed).script(&program).run());
    let first = repeat();
    assert!(first.1.contains(message), "{}", first.1);
    for _ in 0..5 {
        assert_eq!(repeat(), first);
    }
}

#[test]
fn the_same_seed_gives_the_same_run_twenty_times() {
    let program = |seed: &str| all_of(simulated(seed).script("simulation/vms/random.lua").run());
    let firsts = ["1", "2", "3"].map(program);
    for first in &firsts {
        assert!(first.0.lines().count() > 150, "{}{}", first.0, first.1);
        assert!(first.0.contains("was stopped"), "{}", first.0);
    }
    for _ in 0..20 {
        assert_eq!(program("1"), firsts[0]);
    }
    assert_eq!(program("2"), firsts[1]);
    assert_eq!(program("3"), firsts[2]);
    let different: HashSet<_> = firsts.into_iter().collect();
    assert_eq!(different.len(), 3);
}

/// The program fills the pipe first. Its warnings come later, and allocate memory beside VMs.
#[test]
fn a_late_reader_of_stderr_changes_nothing() {
    let stdout_of = |reader: &str| {
        let line = format!("{{ \"$0\" \"$@\" 2>&1 >&3 | {{ {reader}; }} >&2; }} 3>&1");
        let shell = Run::of(Path::new("/bin/sh")).arg("-c").arg(line);
        let run = shell.arg(baton_path()).arg("--simulate").arg("1");
        let outcome = run.script("simulation/vms/full_stderr.lua").run();
        outcome.without_panic();
        assert!(outcome.stderr.contains("was halted"), "{outcome}");
        outcome.stdout
    };
    let at_once = stdout_of("cat");
    assert!(at_once.lines().count() > 150, "{at_once}");
    assert_eq!(stdout_of("sleep 0.5; cat"), at_once);
}

#[test]
fn a_lost_update_of_a_shared_word_is_found() {
    assert_is_found("lost_word", "an update is lost");
}

#[test]
fn a_lost_update_of_a_dictionary_is_found() {
    assert_is_found("lost_entry", "an update is lost");
}

#[test]
fn a_check_before_an_act_is_found() {
    assert_is_found("check_then_act", "the task is done twice");
}

#[test]
fn a_deadlock_across_vms_is_found_and_names_what_each_waits_for() {
    assert_is_found("abba", "deadlock: no process can ever run again");
    let (told, _) = found("simulation/vms/abba.lua");
    assert!(
        told.contains("processes of VM 'one'") || told.contains("(VM 'one')"),
        "{told}"
    );
    assert!(
        told.contains("processes of VM 'two'") || told.contains("(VM 'two')"),
        "{told}"
    );
}

#[test]
fn sleeps_of_all_vms_take_virtual_time_only() {
    let began = Instant::now();
    run(
        3,
        "local all, begin = {}, process.now()
         for n = 1, 5 do
           all[n] = vm.spawn(function(n)
             local process = require 'baton.process'
             local begin = process.now()
             process.sleep(n * 86400)
             return process.now() - begin
           end, n)
         end
         process.sleep(3600)
         for n = 1, 5 do
           local _, slept = all[n]:join()
           assert(slept >= n * 86400 and slept < n * 86400 + 1, slept)
         end
         print((process.now() - begin) // 86400)",
    )
    .succeeds()
    .wrote("5.0\n")
    .quietly();
    assert!(began.elapsed() < Duration::from_secs(3600));
}

#[test]
fn a_deadline_comes_while_another_vm_computes() {
    run(
        1,
        "local busy = vm.spawn({ daemon = true }, function() while true do end end)
         process.sleep(0.5)
         print 'woken'
         os.exit(0)",
    )
    .succeeds()
    .wrote("woken\n");
}

#[test]
fn each_vm_draws_other_numbers() {
    let program = "local function draw() return math.random(1 << 40) end
                   local seen, count = {}, 0
                   for i = 1, 5 do
                     local _, number = vm.spawn(draw):join()
                     if not seen[number] then count = count + 1 end
                     seen[number] = true
                   end
                   if not seen[draw()] then count = count + 1 end
                   print(count)";
    run(1, program).succeeds().wrote("6\n");
}

#[test]
fn a_vm_ends_the_program() {
    for how in ["7", "7, true"] {
        let outcome = run(
            1,
            &format!("vm.spawn(function() os.exit({how}) end) process.sleep(1) print 'never'"),
        );
        outcome.ends_with(7).wrote("");
    }
}

#[test]
fn the_program_ends_beside_busy_and_waiting_vms() {
    for how in ["0", "0, true"] {
        run(
            1,
            &format!(
                "vm.spawn(function() while true do end end)
                 vm.spawn(function() require('baton.process').event():wait() end)
                 process.sleep(1)
                 print 'over'
                 os.exit({how})"
            ),
        )
        .succeeds()
        .wrote("over\n");
    }
}

#[test]
fn a_vm_that_was_halted_takes_no_message() {
    for seed in 1..=5 {
        run(
            seed,
            "local channel = vm.channel(1)
             local halted = vm.spawn({ quiet = true }, function(channel)
               local process = require 'baton.process'
               process.spawn(function() channel:receive() end)
               process.sleep(0.1)
               process.critical(function() while true do end end)
             end, channel)
             process.sleep(1)
             halted:kill('enough', 2)
             halted:join()
             channel:send 'for the living'
             print(channel:receive(1))",
        )
        .succeeds()
        .wrote("for the living\n");
    }
}

/// While a VM closes its state, its thread waits for a module that another VM is in.
#[test]
fn a_vm_that_is_closed_waits_for_a_module_in_virtual_time() {
    for seed in 1..=5 {
        run(
            seed,
            "local ready, go = vm.channel(1), vm.channel(1)
             local other = vm.spawn(function(ready, go)
               kept = require('fragile').object()
               ready:send(true)
               go:receive()
             end, ready, go)
             ready:receive()
             require('fragile').call(function() go:send(true) process.sleep(1) end)
             other:join()
             print(require('fragile').overlaps())",
        )
        .succeeds()
        .wrote("0\n");
    }
}

#[test]
fn a_forks_child_starts_vms_of_its_own() {
    run(
        1,
        "local ffi = require 'baton.ffi'
         ffi.cdef 'int fork(void); int waitpid(int, int *, int);'
         local other = vm.spawn(function() require('baton.process').sleep(1) return 'other' end)
         local pid = ffi.C.fork()
         if pid == 0 then
           print(vm.spawn(function() return 'of the child' end):join())
           process.sleep(10)
           os.exit(0)
         end
         ffi.C.waitpid(pid, nil, 0)
         print(other:join())",
    )
    .succeeds()
    .wrote("true\tof the child\ntrue\tother\n");
}

#[test]
fn a_signal_comes_while_all_vms_wait() {
    let code = "local vm = require 'baton.vm'
                vm.spawn({ daemon = true }, function() require('baton.process').event():wait() end)
                local signals = process.signals 'USR1'
                print 'ready' io.stdout:flush()
                print(signals:receive())
                os.exit(0)";
    let mut program = simulated("1").process_code(code).start();
    program.await_stdout("ready\n");
    program.signal("USR1");
    program.finish().succeeds().wrote("ready\nUSR1\n");
}
