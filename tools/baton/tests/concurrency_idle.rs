//! Tests idle programs: parameters, spinning, sleeps and timers.

mod harness;

use harness::{Run, Work, baton, cases};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

cases! {
    mod parameters from "idle/parameters.lua":
        every_parameter_has_its_default,
        every_parameter_can_be_set_to_what_it_is,
        a_value_out_of_range_is_refused_with_the_range_and_changes_nothing,
        a_beat_and_a_window_are_zero_or_not_too_short,
        an_unknown_policy_is_refused_and_the_known_ones_are_named,
        values_of_another_type_are_refused,
        a_fixed_beat_beats_and_stops,
        deadlines_within_the_slack_are_met_together;
    mod spinning from "idle/spinning.lua":
        off_parks_for_every_wait_and_spins_for_none,
        ema_spins_for_waits_that_are_shorter_than_its_limit,
        ema_with_a_limit_of_zero_parks,
        learned_does_not_spin_for_timers,
        learned_without_a_budget_does_not_spin,
        every_spin_and_every_park_is_counted_once;
    mod delays from "idle/delays.lua":
        sleeps_of_a_millisecond_are_late_by_little,
        sleeps_of_every_length_are_late_by_less_than_half_a_millisecond,
        an_urgent_sleeper_wakes_in_time_beside_busy_processes,
        a_sleep_shorter_than_a_millisecond_is_one_wait,
        an_overdue_deadline_needs_no_wait_in_the_system,
        a_wait_of_an_hour_does_not_delay_earlier_deadlines,
        after_a_long_idle_the_first_slice_ends_in_time,
        the_clock_is_fresh_after_an_idle,
        a_thousand_timers_that_are_set_and_cancelled_leave_no_wake_up;
}

#[test]
fn the_environment_sets_parameters_of_every_kind() {
    let outcome = baton()
        .env("BATON_SPIN", "ema")
        .env("BATON_SPIN_BUDGET", "0.25")
        .env("BATON_MAX_THREADS", "3")
        .env("BATON_BEAT", "0.5")
        .process_code(
            "local p = process.params
             print(p.spin, p.spin_budget, p.max_threads, p.beat)",
        )
        .run();
    outcome.succeeds().wrote("ema\t0.25\t3\t0.5\n").quietly();
}

#[test]
fn a_wrong_parameter_in_the_environment_is_named_with_what_it_may_be() {
    let complaint = |name: &str, value: &str, expected: &str| {
        let outcome = baton().env(name, value).process_code("").run();
        outcome
            .without_panic()
            .complained(&format!("{name}: {expected}"));
    };
    complaint(
        "BATON_SPIN",
        "always",
        "'off', 'ema' or 'learned' expected, got 'always'",
    );
    complaint(
        "BATON_SPIN_BUDGET",
        "nan",
        "value out of range: from 0 to 1 expected, got NaN",
    );
    complaint(
        "BATON_BUSY_LOOP_FOR",
        "2",
        "value out of range: from 0 to 1 seconds expected, got 2",
    );
    complaint(
        "BATON_TIMER_SLACK",
        "-1",
        "value out of range: from 0 to 3600 seconds expected, got -1",
    );
    complaint("BATON_BEAT", "soon", "number expected, got 'soon'");
}

/// Each signal interrupts the wait in the system. Signals come until the program ends, so a wait
/// that restarted with its full length would never end.
#[test]
fn signals_do_not_lengthen_a_sleep() {
    let mut sleeper = baton()
        .process_code(
            "local start = process.now()
             print 'asleep' io.stdout:flush()
             process.sleep(0.5)
             local slept = process.now() - start
             print(slept >= 0.5, slept < 60)",
        )
        .start();
    sleeper.await_stdout("asleep\n");
    let outcome = sleeper.signal_until_it_ends("URG");
    outcome.succeeds().wrote("asleep\ntrue\ttrue\n").quietly();
}

/// Fails unless all threads of a program, the monitor's included, fall asleep after the program has
/// said that it is idle, and stay asleep. On a busy machine remaining work may come late, so a
/// program counts as asleep once it has done nothing for a second. A thread that works after that
/// does so for no reason, however busy the machine is.
fn stays_asleep(code: &str) {
    let idle_threads_stay = baton().env("BATON_THREAD_IDLE", "3600");
    let mut program = idle_threads_stay.process_code(code).start();
    program.await_stdout("idle\n");
    let mut work_in =
        |seconds| program.work_while(|_| std::thread::sleep(Duration::from_secs(seconds)));
    let mut seen = Vec::new();
    loop {
        let work = work_in(1);
        if work == Work::default() {
            break;
        }
        seen.push(work);
        assert!(
            seen.len() < 60,
            "the program does not fall asleep: {seen:#?}"
        );
    }
    let work = work_in(3);
    assert_eq!(work, Work::default(), "it woke up; before: {seen:#?}");
}

#[test]
fn a_program_that_sleeps_makes_no_wake_ups() {
    stays_asleep(
        "print 'idle' io.stdout:flush()
         process.sleep(3600)",
    );
}

#[test]
fn a_program_that_waits_for_a_connection_makes_no_wake_ups() {
    stays_asleep(
        "local server = assert(require 'socket'.bind('127.0.0.1', 0))
         local acceptor = process.spawn(server.accept, server)
         repeat process.yield() until acceptor:status() == 'waiting'
         print 'idle' io.stdout:flush()
         acceptor:join()",
    );
}

/// Signals that arrived before the wait have had their effects already.
#[test]
fn a_program_that_waits_for_signals_makes_no_wake_ups() {
    stays_asleep(
        "local ffi = require 'baton.ffi'
         ffi.cdef 'int raise(int);'
         local signals = process.signals('TERM', 'HUP')
         local waiter = process.spawn(function() for _ in signals:values() do end end)
         for _ = 1, 100 do ffi.C.raise(1) process.yield() end
         repeat process.yield() until waiter:status() == 'waiting'
         print 'idle' io.stdout:flush()
         waiter:join()",
    );
}

#[test]
fn a_program_of_a_thousand_waiting_processes_makes_no_wake_ups() {
    stays_asleep(
        "local channel, semaphore, all = process.channel(0), process.semaphore(0), {}
         for i = 1, 250 do
           all[#all + 1] = process.spawn(process.sleep, 3600 + i)
           all[#all + 1] = process.spawn(channel.receive, channel)
           all[#all + 1] = process.spawn(semaphore.wait, semaphore, 3600 + i)
           all[#all + 1] = process.spawn(process.main.join, process.main)
         end
         for _, each in ipairs(all) do
           repeat process.yield() until each:status() == 'waiting' or each:status() == 'sleeping'
         end
         print 'idle' io.stdout:flush()
         process.sleep(3600)",
    );
}

/// After preemptions and blocking calls. Both have started everything that could keep ticking.
#[test]
fn a_program_makes_no_wake_ups_after_a_busy_spell() {
    stays_asleep(
        "local function work()
           local till = process.now() + 0.3
           repeat until process.now() >= till
           io.popen 'sleep 0.1':close()
         end
         repeat -- the monitor may not be let run in one spell
           local all = {}
           for i = 1, 4 do all[i] = process.spawn(work) end
           for _, each in ipairs(all) do each:join() end
         until process.stats().beats > 0 and process.stats().retakes > 0
         print 'idle' io.stdout:flush()
         process.sleep(3600)",
    );
}

/// Returns the first CPU that the tests may use.
fn one_cpu() -> String {
    let status =
        std::fs::read_to_string("/proc/self/status").expect("Linux tells of every process");
    let list = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let list = list.expect("the CPUs are in it").trim();
    list.split([',', '-']).next().unwrap_or(list).to_owned()
}

/// Returns `spin_time` after a run under `policy` on one CPU. No wait is longer than the limit of
/// Chromium's rule.
fn spin_time_on_one_cpu(policy: &str) -> f64 {
    let outcome = Run::of(Path::new("taskset"))
        .arg("-c")
        .arg(one_cpu())
        .arg(harness::baton_path())
        .env("BATON_SPIN", policy)
        .env("BATON_BUSY_LOOP_FOR", "1")
        .process_code("require 'idle.short_waits'(200) print(process.stats().spin_time)")
        .run();
    outcome.succeeds().quietly();
    outcome.stdout.trim().parse().expect("a number is printed")
}

#[test]
fn learned_never_spins_on_one_cpu_where_chromiums_rule_does() {
    assert!(
        Command::new("taskset").arg("--version").output().is_ok(),
        "taskset is needed (util-linux)"
    );
    assert_eq!(spin_time_on_one_cpu("learned"), 0.0);
    assert!(spin_time_on_one_cpu("ema") > 0.0);
}
