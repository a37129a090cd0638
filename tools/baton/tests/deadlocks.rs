//! Tests reports about processes that wait: what each waits for, which process holds it, since
//! when, and where they were spawned.

mod harness;

use harness::{Outcome, baton};

/// Runs a program in real time and in virtual time.
fn in_both_times(code: &str) -> [Outcome; 2] {
    let real = baton().process_code(code).run();
    let virtual_time = baton().arg("--simulate").arg("3").process_code(code).run();
    [real, virtual_time]
}

const HELD: &str = "local accounts, cache = process.mutex { name = 'accounts' }, process.rwlock { \
                    name = 'cache' }
     local jobs = process.channel { name = 'jobs' }
     process.spawn({ name = 'clerk' }, function() accounts:lock() cache:read() jobs:receive() end)
     process.spawn({ name = 'auditor' }, function() process.sleep(0.02) accounts:lock() end)
     process.spawn(function() process.sleep(0.02) cache:write() end)
     process.spawn(function() process.sleep(0.02) process.select { jobs, accounts, process.main } \
     end)";

fn tells_who_holds_what(outcome: &Outcome) {
    let clerk = "process 2 'clerk'";
    for wanted in [
        format!("{clerk}: waiting, to receive from the channel 'jobs', since "),
        format!("process 3 'auditor': waiting, for the mutex 'accounts', held by {clerk}, since "),
        format!("process 4: waiting, to write under the lock 'cache', held by {clerk}, since "),
        format!(
            "process 5: waiting, in a select of 3 cases: the channel 'jobs'; the mutex 'accounts', \
             held by {clerk}; \
             the end of process 1 'main' (join), since "
        ),
    ] {
        outcome.complained(&wanted);
    }
    let line = outcome.stderr.lines().find(|line| line.contains("auditor"));
    let line = line.expect("the auditor is told of");
    assert!(line.ends_with(" s (spawned at (command line):5)"), "{line}");
}

#[test]
fn a_deadlock_report_names_holders_waiting_times_and_spawn_places() {
    for outcome in in_both_times(HELD) {
        outcome.ends_with(1);
        outcome.complained("deadlock: no process can ever run again");
        tells_who_holds_what(&outcome);
    }
}

#[test]
fn a_report_on_request_says_the_same_of_a_running_program() {
    let code = format!(
        "{HELD}\nprocess.sleep(0.1) os.execute('kill -QUIT $PPID') process.sleep(0.1) os.exit(0)"
    );
    let outcome = baton().process_code(&code).run();
    outcome.succeeds();
    outcome.complained("baton: processes");
    tells_who_holds_what(&outcome);
}

/// Two processes that each lock the mutex that the other holds, while a third one runs.
fn crossing(lock_of_second: &str) -> String {
    format!(
        "local a, b, first_has, second_has = process.mutex {{ name = 'a' }}, process.mutex {{ name \
         = 'b' }}, process.event(), process.event()
         local goes_on = process.spawn({{ daemon = true }}, function() while true do \
         process.sleep(0.001) end end)
         local first = process.spawn({{ name = 'first' }}, function()
           a:lock() first_has:set() second_has:wait()
           local locked = b:lock()
           b:unlock() a:unlock()
           return locked
         end)
         local second = process.spawn({{ name = 'second' }}, function()
           b:lock() second_has:set() first_has:wait()
           while first:status() ~= 'waiting' do process.sleep(0.001) end
           local outcome = table.pack({lock_of_second})
           if outcome[1] == true then a:unlock() end
           b:unlock()
           return table.unpack(outcome, 1, outcome.n)
         end)\n"
    )
}

const CYCLE: &str = "deadlock: process 4 'second' waits for the mutex 'a', held by process 3 \
                     'first'; \
                     process 3 'first' waits for the mutex 'b', held by process 4 'second'";

#[test]
fn a_cycle_of_mutexes_is_warned_of_once_when_it_closes_while_others_run() {
    let code = crossing("a:lock()")
        + "while second:stats().waits_for ~= \"for the mutex 'a', held by process 3 'first'\" do \
           process.sleep(0.001) end
           process.spawn({ daemon = true }, function() a:lock() end) -- waits for the cycle, and \
           is in none
           process.sleep(0.05)
           assert(goes_on:status() ~= 'dead')
           second:kill() -- that resolves it
           print(first:join())";
    for outcome in in_both_times(&code) {
        outcome.succeeds();
        outcome.wrote("true\ttrue\n");
        assert_eq!(outcome.stderr, format!("baton: warning: {CYCLE}\n"));
    }
}

#[test]
fn the_lock_that_closes_a_cycle_raises_if_the_program_says_so() {
    let code = "process.params.deadlock = 'raise' ".to_owned()
        + &crossing("pcall(a.lock, a)")
        + "print(second:join()) print(first:join()) print(process.params.deadlock)";
    for outcome in in_both_times(&code) {
        outcome.succeeds().quietly();
        outcome.wrote(&format!("true\tfalse\t{CYCLE}\ntrue\ttrue\nraise\n"));
    }
    let code =
        crossing("pcall(a.with, a, print)") + "print(select('#', second:join())) first:join()";
    let outcome = baton()
        .env("BATON_DEADLOCK", "raise")
        .process_code(&code)
        .run();
    outcome.succeeds().quietly();
    outcome.wrote("3\n");
}

#[test]
fn a_cycle_with_a_timeout_resolves_itself_and_is_not_reported() {
    for lock in ["a:lock(0.02)", "pcall(a.lock, a, 0.02)"] {
        let code = "process.params.deadlock = 'raise' ".to_owned()
            + &crossing(&format!("select(-2, {lock})"))
            + "print(second:join()) print(first:join())";
        for outcome in in_both_times(&code) {
            outcome.succeeds().quietly();
            outcome.wrote("true\tnil\ttimeout\ntrue\ttrue\n");
        }
    }
}

#[test]
fn readers_and_writers_close_cycles_too() {
    let code =
        "local cache, log = process.rwlock { name = 'cache' }, process.mutex { name = 'log' }
         local reader = process.spawn({ name = 'reader' }, function() cache:read() \
         process.sleep(0.01) log:lock() end)
         log:lock()
         while reader:status() ~= 'waiting' do process.sleep(0.001) end
         print(pcall(cache.write, cache))
         log:unlock()";
    let expected = "false\tdeadlock: process 1 'main' waits for the lock 'cache', held by process \
                    2 'reader'; \
                    process 2 'reader' waits for the mutex 'log', held by process 1 'main'\n";
    for outcome in in_both_times(&format!("process.params.deadlock = 'raise' {code}")) {
        outcome.succeeds().quietly();
        outcome.wrote(expected);
    }
}

#[test]
fn the_parameter_takes_only_warn_or_raise() {
    let outcome = baton()
        .process_code(
            "print(process.params.deadlock, pcall(function() process.params.deadlock = 'die' end))
             print(pcall(function() process.params.deadlock = true end))",
        )
        .run();
    outcome.succeeds();
    for wanted in [
        "warn\tfalse",
        "'warn' or 'raise' expected, got 'die'",
        "string expected",
    ] {
        assert!(outcome.stdout.contains(wanted), "{wanted}\n{outcome}");
    }
    baton()
        .env("BATON_DEADLOCK", "die")
        .code("")
        .run()
        .ends_with(1)
        .complained("BATON_DEADLOCK: 'warn' or 'raise' expected, got 'die'");
}
