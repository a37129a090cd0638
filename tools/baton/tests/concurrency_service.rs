//! Tests what a service needs: deadlines and cancelling, signals, links and monitors, supervision,
//! and messages between a service and its manager.

mod harness;

use harness::{Run, baton, baton_path, cases};
use std::path::Path;

cases! {
    mod deadlines from "service/deadlines.lua":
        a_function_that_ends_in_time_returns_its_results,
        a_late_function_is_killed_and_has_closed_when_the_call_returns,
        an_endless_loop_is_ended,
        no_time_is_no_time,
        an_error_is_raised_in_the_caller,
        the_traceback_goes_on_in_the_child,
        it_goes_on_through_several_processes,
        a_child_does_not_outlive_its_caller,
        a_scope_returns_the_reason_of_a_killed_child,
        timeouts_nest_and_the_shorter_one_counts,
        a_timeout_may_be_used_in_a_coroutine,
        many_at_once_do_not_mix,
        wrong_arguments_of_timeout_are_refused,
        a_scope_with_a_timeout_ends_its_processes_and_its_function,
        a_scope_that_ends_in_time_gives_its_results,
        a_failure_in_a_scope_with_options_is_raised,
        a_cancelled_scope_returns_the_reason,
        without_options_the_function_goes_on_after_a_cancel,
        a_scope_that_has_ended_cannot_be_cancelled,
        a_failure_before_a_cancel_is_raised_and_one_after_it_is_not,
        a_name_names_the_processes_of_a_scope,
        a_scope_with_a_timeout_does_not_outlive_its_caller,
        wrong_options_of_a_scope_are_refused,
        a_function_with_a_deadline_has_the_data_of_its_caller,
        simultaneous_deadlines_kills_and_ends_leave_no_process;
    mod signals from "service/signals.lua":
        names_come_in_the_order_of_arrival,
        each_name_is_queued_once_until_it_is_received,
        a_wait_for_a_signal_is_no_deadlock,
        a_select_and_a_loop_receive_signals,
        every_channel_of_a_name_gets_it,
        values_sent_before_the_close_are_still_received,
        sigint_does_not_raise_while_a_channel_is_open,
        a_collected_channel_restores_the_action,
        an_ignored_signal_is_ignored_again_after_the_close,
        an_endless_loop_does_not_hold_signals_up,
        a_call_that_blocks_does_not_hold_signals_up,
        nothing_can_be_sent_to_a_channel_of_signals,
        reports_show_the_names,
        wrong_names_are_refused,
        real_time_signals_have_names_too,
        a_forks_child_gets_its_own_signals_and_none_of_its_parents,
        a_thousand_channels_come_and_go;
    mod links from "service/links.lua":
        a_monitor_tells_how_a_process_has_ended,
        a_message_comes_also_of_one_that_has_ended,
        a_full_channel_does_not_hold_the_dying_up,
        a_closed_channel_receives_no_message,
        a_channel_that_is_collected_is_forgotten,
        a_kill_before_the_start_is_reported_to_monitors,
        a_select_takes_messages_too,
        the_messages_name_the_owner_of_each_value,
        a_linked_process_is_killed_when_the_other_fails,
        a_link_works_both_ways_and_closes_what_is_open,
        a_return_or_a_kill_does_not_kill_linked_processes,
        a_kill_by_a_link_goes_on_to_the_next,
        a_ring_of_links_ends_as_a_whole,
        the_dead_cannot_be_linked,
        many_linked_processes_end_together,
        wrong_arguments_are_refused;
    mod supervise from "service/supervise.lua":
        it_runs_until_all_have_ended_by_their_rules,
        failed_children_start_again_and_others_do_not,
        always_restarts_after_any_end,
        too_many_restarts_fail_with_the_last_error,
        restarts_outside_of_the_time_do_not_count,
        a_kill_stops_the_children_in_reverse_order,
        one_that_does_not_close_in_its_grace_is_ended_nevertheless,
        the_strategy_decides_which_children_restart,
        delays_double_up_to_the_most,
        children_can_be_restarted_stopped_and_added,
        a_child_may_restart_and_stop_itself,
        a_lasting_supervisor_waits_for_children_and_forgets_ended_ones,
        supervisors_nest,
        it_is_an_object_like_a_process,
        a_kill_at_any_time_leaves_no_process,
        wrong_descriptions_are_refused;
    mod manager from "service/manager.lua":
        a_text_goes_to_the_socket_as_one_datagram,
        the_socket_may_have_an_abstract_name,
        without_a_manager_nothing_happens,
        a_missing_manager_is_reported,
        a_manager_that_does_not_read_delays_only_the_caller,
        nothing_is_passed_to_others,
        passed_descriptors_that_are_not_open_are_refused,
        wrong_texts_are_refused;
}

/// Sends one signal 100,000 times, and other signals in between. Each of those must arrive before
/// the next one is sent.
#[test]
fn a_storm_of_one_signal_hides_no_other() {
    let outcome = baton().script("service/storm.lua").run();
    outcome.succeeds().quietly();
    assert!(
        outcome.stdout.starts_with("all 200 others came, and "),
        "{outcome}"
    );
}

#[test]
fn after_the_close_a_signal_ends_the_program_as_before() {
    for close in ["signals:close()", "signals = nil collectgarbage()"] {
        let mut program = baton()
            .process_code(&format!(
                "local signals = process.signals('TERM', 'HUP')
                 print 'open' io.stdout:flush()
                 print(signals:receive()) io.stdout:flush()
                 {close}
                 process.sleep(3600)"
            ))
            .start();
        program.await_stdout("open\n");
        program.signal("TERM");
        program.await_stdout("TERM\n");
        program.signal_until_it_ends("HUP").ended_by_signal(1);
    }
}

/// A signal loop in a daemon does not keep the program running.
#[test]
fn a_daemon_that_waits_for_signals_ends_with_the_program() {
    baton()
        .process_code(
            "process.spawn({ daemon = true }, function() for _ in process.signals('TERM'):values() \
             do end end)
             process.yield()
             print 'end'",
        )
        .run()
        .succeeds()
        .wrote("end\n")
        .quietly();
}

/// No process waits for the signal, so it cannot wake the program.
#[test]
fn an_unused_channel_of_signals_does_not_hide_a_deadlock() {
    baton()
        .process_code("local signals = process.signals('TERM') process.channel():receive()")
        .run()
        .ends_with(1)
        .complained("deadlock");
}

/// SIGQUIT reports all processes, unless the program receives it.
#[test]
fn sigquit_can_be_received_and_reports_again_afterwards() {
    let mut program = baton()
        .process_code(
            "local signals = process.signals('QUIT')
             print 'open' io.stdout:flush()
             print(signals:receive()) io.stdout:flush()
             signals:close()
             print 'closed' io.stdout:flush()
             process.sleep(3600)",
        )
        .start();
    program.await_stdout("open\n");
    program.signal("QUIT");
    program.await_stdout("QUIT\nclosed\n");
    program.signal("QUIT");
    program.await_stderr("baton: processes");
}

/// The main process only waits for the others.
#[test]
fn a_monitor_of_the_main_process_receives_its_kill() {
    baton()
        .process_code(
            "local channel = process.channel()
             process.main:monitor(channel)
             process.spawn(function()
               process.main:kill('gone')
               local message = channel:receive()
               print(message.process == process.main, message.ended, message.reason)
             end)
             process.sleep(3600)",
        )
        .run()
        .ends_with(1)
        .wrote("true\tkilled\tgone\n")
        .complained("the main process was killed: gone");
}

/// The failure is reported and sets the status, as that of any process that is not joined.
#[test]
fn a_link_with_the_main_process_ends_it() {
    baton()
        .process_code(
            "process.spawn(function() process.main:link() error('fatal', 0) end)
             local _ <close> = setmetatable({}, { __close = function() print 'closed' end })
             process.sleep(3600)",
        )
        .run()
        .ends_with(1)
        .wrote("closed\n")
        .complained("failed: fatal");
}

/// Starts, ends and the final result must equal those of a model of the rules.
#[test]
fn a_thousand_random_trees_of_supervisors_do_what_the_rules_say() {
    let run = baton()
        .arg("--simulate")
        .arg("1-1000")
        .script("service/random_trees.lua");
    run.patiently(10)
        .run()
        .succeeds()
        .wrote("")
        .complained("1000 seeds, none failed");
}

/// A shell passes them, as a service manager does. The program replaces the shell and so has its
/// process number.
#[test]
fn descriptors_of_a_manager_are_found_with_their_names_and_are_not_inherited() {
    Run::of(Path::new("/bin/sh"))
        .arg("-c")
        .arg(
            "LISTEN_PID=$$ LISTEN_FDS=3 LISTEN_FDNAMES=web::admin exec \"$0\" \"$@\" 3</dev/null \
              4</dev/null 5</dev/null",
        )
        .arg(baton_path())
        .script("service/passed.lua")
        .run()
        .succeeds()
        .wrote("3\tweb\n4\tunknown\n5\tadmin\nclosed\n");
}
