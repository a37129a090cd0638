//! Idle: parameters, spinning, sleeps and timers.

mod harness;

use harness::{Run, baton, cases};
use std::path::Path;
use std::process::Command;

cases! {
    mod parameters from "idle/parameters.lua":
        every_parameter_has_its_default,
        every_parameter_can_be_set_to_what_it_is,
        what_is_out_of_range_is_refused_with_the_range_and_changes_nothing,
        a_beat_and_a_window_are_zero_or_not_too_short,
        an_unknown_policy_is_refused_and_the_known_ones_are_named,
        what_is_of_another_type_is_refused,
        a_fixed_beat_beats_and_stops,
        deadlines_within_the_slack_are_met_together;
    mod spinning from "idle/spinning.lua":
        off_parks_for_every_wait_and_spins_for_none,
        ema_spins_for_waits_that_are_shorter_than_its_limit,
        ema_with_a_limit_of_zero_parks,
        learned_does_not_spin_for_timers,
        learned_without_a_budget_does_not_spin,
        every_spin_and_every_park_is_counted_once;
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
        outcome.without_panic().complained(&format!("{name}: {expected}"));
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

/// The first CPU that the tests may use.
fn one_cpu() -> String {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux tells of every process");
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let list = list.expect("the CPUs are in it").trim();
    list.split([',', '-']).next().unwrap_or(list).to_owned()
}

/// What `spin_time` comes to under `policy` on one CPU.
fn spin_time_on_one_cpu(policy: &str) -> f64 {
    let outcome = Run::of(Path::new("taskset"))
        .arg("-c")
        .arg(one_cpu())
        .arg(harness::baton_path())
        .env("BATON_SPIN", policy)
        .process_code("require 'idle.short_waits'(2000) print(process.stats().spin_time)")
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
