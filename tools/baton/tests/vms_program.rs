//! Tests programs with several VMs from outside: how they end, what they report, and forks.
#![cfg(target_os = "linux")]

mod harness;

use harness::{Outcome, Run, baton};

/// Runs code that has the modules as the locals `process` and `vm`.
fn program(code: &str) -> Run {
    baton().process_code(&format!("local vm = require 'baton.vm'\n{code}"))
}

fn run(code: &str) -> Outcome {
    let outcome = program(code).run();
    outcome.without_panic();
    outcome
}

/// A regression test: the warning was about a `send` inside process.critical, and the program has
/// neither.
#[test]
fn a_large_value_that_is_copied_is_warned_of_as_such() {
    let mut program = baton()
        .process_code(
            "process.params.warn_blocked = 0.02
             local vm = require 'baton.vm'
             local w = vm.spawn(function() require('baton.process').event():wait() end)
             local big = {} for i = 1, 300000 do big[i] = { i } end
             process.spawn({ daemon = true }, function() while true do process.sleep(0.001) end end)
             while true do w:call(function(list) return #list end, big) end",
        )
        .start();
    program.await_stderr("a large value is being copied for another VM (at (command line):");
}

#[test]
fn the_program_waits_for_a_vm_that_is_no_daemon() {
    run("vm.spawn(function() require('baton.process').sleep(0.1) print 'the VM has ended' end)")
        .succeeds()
        .wrote("the VM has ended\n")
        .quietly();
}

#[test]
fn the_program_does_not_wait_for_a_daemon() {
    run("vm.spawn({ daemon = true }, function() require('baton.process').sleep(3600) end)")
        .succeeds()
        .quietly();
}

#[test]
fn the_program_does_not_wait_for_a_vm_that_only_serves_calls() {
    run("print(vm.spawn('vms.modules.functions'):call('double', 2))")
        .succeeds()
        .wrote("4\n")
        .quietly();
}

#[test]
fn a_daemons_close_variables_run_at_the_end_of_the_program() {
    run("local ready = vm.channel()
         vm.spawn({ daemon = true }, function(ready)
           local guard <close> = setmetatable({}, { __close = function() print 'closed' end })
           ready:send(true)
           require('baton.process').sleep(3600)
         end, ready)
         ready:receive()")
    .succeeds()
    .wrote("closed\n")
    .quietly();
}

#[test]
fn an_error_that_nobody_joins_is_printed_with_both_tracebacks_and_is_the_status() {
    let outcome = run("vm.spawn({ name = 'faulty' }, function() error 'this is wrong' end)");
    outcome
        .ends_with(1)
        .complained("this is wrong")
        .complained("in VM 'faulty':\nstack traceback:");
}

#[test]
fn an_error_of_a_quiet_vm_is_not_printed() {
    run("vm.spawn({ quiet = true }, function() error 'this is wrong' end)")
        .succeeds()
        .quietly();
}

#[test]
fn os_exit_in_a_vm_ends_the_program() {
    run("vm.spawn(function() print 'last words' os.exit(3) end) process.sleep(3600)")
        .ends_with(3)
        .wrote("last words\n")
        .quietly();
    run("vm.spawn(function() os.exit(4, true) end) process.sleep(3600)")
        .ends_with(4)
        .quietly();
}

#[test]
fn the_program_ends_beside_busy_vms() {
    let busy = "for _ = 1, 3 do vm.spawn(function() while true do end end) end\n";
    run(&format!("{busy} os.exit(5)")).ends_with(5).quietly();
    run(&format!("{busy} os.exit(6, true)"))
        .ends_with(6)
        .quietly();
    run(&format!("{busy} error 'enough'"))
        .ends_with(1)
        .complained("enough");
}

#[test]
fn sigint_ends_a_program_whose_vms_compute() {
    let mut program = program(
        "vm.spawn(function() print 'busy' io.stdout:flush() while true do end end) \
         process.sleep(3600)",
    )
    .start();
    program.await_stdout("busy");
    program.signal("INT");
    let outcome = program.finish();
    outcome.ends_with(1).complained("interrupted!");
}

#[test]
fn a_deadlock_across_vms_is_reported_with_the_processes_of_all() {
    let outcome = run(
        "local requests, answers = vm.channel { name = 'requests' }, vm.channel { \
         name = 'answers' }
         vm.spawn({ name = 'server' }, function(requests, answers)
           answers:send(requests:receive())
         end, requests, answers)
         answers:receive()",
    );
    outcome
        .ends_with(1)
        .complained("deadlock: no process can ever run again")
        .complained("to receive from the channel between VMs 'answers'")
        .complained("to receive from the channel between VMs 'requests'")
        .complained("VM 'server'");
}

#[test]
fn a_wait_that_another_vm_will_end_is_no_deadlock() {
    run("local answers = vm.channel()
         vm.spawn(function(answers)
           for i = 1, 20 do require('baton.process').sleep(0.005) answers:send(i) end
         end, answers)
         for i = 1, 20 do assert(answers:receive() == i) end")
    .succeeds()
    .quietly();
}

#[test]
fn vms_that_pass_a_token_around_are_never_taken_for_deadlocked() {
    run("local ring = {}
         for i = 1, 4 do ring[i] = vm.channel(1) end
         local all = {}
         for i = 1, 4 do
           all[i] = vm.spawn(function(from, to)
             for _ = 1, 2000 do to:send(from:receive()) end
           end, ring[i], ring[i % 4 + 1])
         end
         ring[1]:send('token')
         for _, w in ipairs(all) do assert(w:join()) end")
    .succeeds()
    .quietly();
}

#[test]
fn a_report_on_request_has_the_processes_of_all_vms() {
    let mut program = program(
        "local w = vm.spawn({ name = 'other' }, function()
           require('baton.process').sleep(3600)
         end)
         print 'ready' io.stdout:flush()
         io.read()
         os.exit(0)",
    )
    .open_stdin()
    .start();
    program.await_stdout("ready");
    program.signal("QUIT");
    program.await_stderr("baton: processes of VM 'other'");
    program.write_stdin("\n");
    program.finish().complained("baton: processes\n");
}

#[test]
fn a_vm_that_does_not_end_in_its_grace_is_halted() {
    let outcome = run(
        "local w = vm.spawn({ quiet = true, name = 'stuck' }, function()
           local ffi = require 'baton.ffi'
           ffi.cdef 'int usleep(unsigned);'
           ffi.C.usleep(900000000)
         end)
         process.sleep(0.05)
         w:kill('enough', 0.1)
         print((w:join()))",
    );
    outcome
        .succeeds()
        .wrote("false\n")
        .complained("VM 'stuck' was halted after its grace")
        .complained("they keep its heap and their native threads (1 now, 1 in all VMs)")
        .complained("process 1 'main'");
}

/// If the second process of the halted VM computes, its call is retaken before the halt.
const HALTS_IN_CALLS: &str = "local ffi = require 'baton.ffi'
     ffi.cdef 'int pipe(int *); long write(int, const void *, unsigned long);'
     local function halt_in_a_call(computes)
       local ends = ffi.new 'int[2]'
       assert(ffi.C.pipe(ends) == 0)
       local ready = vm.channel(1)
       local w = vm.spawn({ quiet = true, name = 'reader' }, function(ready, descriptor, computes)
         local process, ffi = require 'baton.process', require 'baton.ffi'
         ffi.cdef 'long read(int, void *, unsigned long);'
         local held, byte = ('x'):rep(100000), ffi.new 'char[1]'
         local function sleep_and(f, ready)
           local guard <close> = setmetatable({}, { __close = f })
           if ready then ready:send(1) end
           process.sleep(3600)
         end
         process.spawn(sleep_and, function() while computes do end end)
         process.yield()
         sleep_and(function()
           ffi.C.read(descriptor, byte, 1)
           while held do end
         end, ready)
       end, ready, ends[0], computes)
       ready:receive()
       w:kill('enough', 0.05)
       assert(w:join(30) == false)
       return function()
         ffi.C.write(ends[1], 'x', 1)
         return ends
       end
     end
     local function count(what)
       for line in io.lines '/proc/self/status' do
         local number = line:match('^' .. what .. ':%s*(%d+)')
         if number then return tonumber(number) end
       end
     end\n";

#[test]
fn calls_of_halted_vms_give_their_threads_back_when_they_return() {
    for computes in [false, true] {
        let outcome = run(&format!(
            "{HALTS_IN_CALLS}
             local before, lets_return = count 'Threads', {{}}
             for i = 1, 11 do lets_return[i] = halt_in_a_call({computes}) end
             assert(count 'Threads' >= before + 11)
             for i = 1, 11 do lets_return[i]() end
             -- the first VM may have some more by now
             while count 'Threads' > before + 3 do process.sleep(0.001) end
             print 'all threads have ended'"
        ));
        outcome
            .succeeds()
            .wrote("all threads have ended\n")
            .complained("VM 'reader' was halted after its grace")
            .complained("(1 now, 11 in all VMs) until they do. The heap has ");
    }
}

/// The time while the program is stopped is no part of the grace, but for a tenth of it.
#[test]
fn a_program_that_was_stopped_goes_on_with_the_rest_of_a_grace() {
    let mut program = program(
        "local closing, go_on = vm.channel(1), vm.channel(1)
         local w = vm.spawn({ quiet = true }, function(closing, go_on)
           local guard <close> = setmetatable({}, { __close = function()
             closing:send(true)
             print(go_on:receive())
           end })
           closing:send(true)
           require('baton.process').sleep(3600)
         end, closing, go_on)
         closing:receive()
         w:kill('enough', 1.5)
         closing:receive()
         print 'closing'
         io.stdout:flush()
         go_on:send(io.read())
         print(w:join())",
    )
    .open_stdin()
    .start();
    program.await_stdout("closing");
    program.signal("STOP");
    std::thread::sleep(std::time::Duration::from_millis(1800));
    program.write_stdin("closed in time\n");
    program.signal("CONT");
    let outcome = program.finish();
    outcome
        .succeeds()
        .wrote("closing\nclosed in time\nfalse\tenough\n")
        .quietly();
}

#[test]
fn signals_are_refused_to_a_vm_that_is_not_the_first() {
    run("local w = vm.spawn({ quiet = true }, function()
           return require('baton.process').signals 'HUP'
         end)
         local ok, why = w:join()
         print(ok, (why:match \"signals arrive in the program's first VM\"))")
    .succeeds()
    .wrote("false\tsignals arrive in the program's first VM\n");
}

const FORKS: &str = "local forker = require 'forker'
     process.params.warn_blocked = 3600
     local function child_of(f)
       local pid = forker.fork()
       if pid == 0 then f() os.exit(7) end
       local status
       repeat process.sleep(0.001) status = forker.reap(pid) until status
       return status
     end\n";

#[test]
fn a_forks_child_has_one_vm_and_can_start_others() {
    let outcome = run(&format!(
        "{FORKS}
         for _ = 1, 3 do vm.spawn({{ daemon = true }}, function() while true do end end) end
         print(child_of(function()
           local w = vm.spawn(function(n) return n + 1 end, 41)
           assert(select(2, w:join()) == 42)
         end))"
    ));
    outcome.succeeds().wrote("7\n");
}

#[test]
fn a_vm_that_is_not_the_first_may_fork() {
    let outcome = run(&format!(
        "local w = vm.spawn(function()
           local process = require 'baton.process'
           {FORKS}
           local vm = require 'baton.vm'
           return child_of(function()
             local w = vm.spawn(function(n) return n + 1 end, 41)
             assert(select(2, w:join()) == 42)
           end)
         end)
         print(w:join())"
    ));
    outcome.succeeds().wrote("true\t7\n");
}
