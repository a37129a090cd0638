//! Tests `baton.log`.

mod harness;

use harness::{baton, cases};

cases! {
    mod files from "logging/log.lua":
        a_line_has_time_level_message_and_sorted_fields,
        a_line_of_json_is_an_object,
        lines_below_the_level_are_left_out,
        fields_of_the_context_and_of_a_logger_are_in_each_line,
        a_renamed_file_is_made_anew_at_a_hangup,
        a_renamed_file_is_made_anew_on_request,
        a_path_with_a_date_has_the_name_of_today,
        nobody_waits_for_a_reader_and_what_is_dropped_is_counted,
        lines_of_many_processes_do_not_mix,
        two_vms_write_to_one_file,
        a_writer_takes_texts_and_tables,
        misuse_raises;
}

#[test]
fn lines_go_to_stderr_at_first() {
    let run = baton()
        .code("require('baton.log').info('hello', {n = 1})")
        .run();
    run.succeeds();
    let line = run.stderr.trim_end();
    assert!(line.starts_with("time=2"), "{run}");
    assert!(line.ends_with("Z level=info msg=hello n=1"), "{run}");
}

#[test]
fn a_simulated_run_has_the_times_of_its_own_clock() {
    let code = "local log, process = require 'baton.log', require 'baton.process'
                log.info 'one' process.sleep(1.5) log.info 'two'";
    let run = || baton().arg("--simulate").arg("7").code(code).run();
    let (first, second) = (run(), run());
    first.succeeds();
    assert_eq!(first.stderr, second.stderr);
    let seconds: Vec<f64> = (first.stderr.lines())
        .map(|line| line[22..28].parse().expect("seconds"))
        .collect();
    let late = (seconds[1] - seconds[0] - 1.5 + 30.0).rem_euclid(60.0) - 30.0;
    assert!(late.abs() < 0.01, "{first}");
}
