//! Tests `require "baton.cluster"`: each case with a real NATS server, and once more in a simulated
//! run with the server in memory.

mod harness;

use harness::nats::Server;
use harness::{assert_all_cases_named, baton, cases, check_case};

/// Makes two tests of each named case of a Lua file, and one that fails if a case is missing here.
macro_rules! served {
    ($(mod $module:ident from $file:literal: $($name:ident),+ $(,)?;)+) => {$(
        mod $module {
            mod over_nats {$(
                #[test]
                fn $name() {
                    crate::with_a_server($file, stringify!($name));
                }
            )+}

            mod simulated {$(
                #[test]
                fn $name() {
                    crate::in_simulated_runs($file, stringify!($name));
                }
            )+}

            #[test]
            fn no_case_of_the_file_is_left_out() {
                crate::assert_all_cases_named($file, &[$(stringify!($name)),+]);
            }
        }
    )+};
}

fn with_a_server(file: &str, name: &str) {
    let Some(server) = Server::start() else {
        return;
    };
    let run = baton().env("NATS_URL", server.url()).script(file).arg(name);
    check_case(file, name, &run.run());
}

/// Tests of the network's faults, which only simulated runs have.
mod faults {
    const FILE: &str = "cluster/faults.lua";

    macro_rules! faulty {
        ($($name:ident),+ $(,)?) => {
            $(#[test]
            fn $name() {
                crate::in_simulated_runs(FILE, stringify!($name));
            })+

            #[test]
            fn no_case_of_the_file_is_left_out() {
                crate::assert_all_cases_named(FILE, &[$(stringify!($name)),+]);
            }
        };
    }

    faulty! {
        messages_are_lost,
        messages_come_twice,
        a_call_over_a_lossy_network_may_time_out,
        no_job_is_lost_whatever_the_network_does,
        a_partition_makes_it_offline_for_a_while,
        a_holder_that_is_cut_off_loses_its_job,
        wrong_faults_are_refused,
    }

    #[test]
    fn the_same_seed_gives_the_same_faults() {
        let run = |seed: &str| {
            let run = crate::baton().arg("--simulate").arg(seed).script(FILE);
            let outcome = run.arg("no_job_is_lost_whatever_the_network_does").run();
            outcome.succeeds().quietly();
            outcome.stdout
        };
        assert_eq!(run("11"), run("11"));
        assert_ne!(run("11"), run("12"));
    }
}

fn in_simulated_runs(file: &str, name: &str) {
    for seed in ["1", "2", "3"] {
        let run = baton().arg("--simulate").arg(seed).script(file).arg(name);
        check_case(file, name, &run.run());
    }
}

cases! {
    mod values from "cluster/values.lua":
        values_come_back_as_they_were,
        the_bytes_are_messagepack,
        strings_that_are_not_utf8_are_bytes,
        what_cannot_be_sent_is_named_with_its_path,
        a_table_may_be_there_twice,
        every_truncated_message_is_refused,
        what_is_no_value_is_refused,
        mutated_messages_are_values_or_refused,
        keys_that_share_one_place_of_a_table_are_refused,
        large_maps_with_other_keys_are_read,
        others_run_while_a_large_message_is_read,
        a_map_before_a_value_is_left_out,
        lists_keep_nil;
}

served! {
    mod messages from "cluster/messages.lua":
        a_message_goes_to_all_that_listen,
        a_message_goes_to_one_of_a_group,
        a_subscription_can_give_the_subjects,
        a_full_subscription_counts_what_it_loses,
        values_of_a_loop_end_with_the_subscription,
        a_closed_connection_says_so,
        misuse_is_an_error,
        a_killed_process_leaves_nothing_behind;
    mod services from "cluster/services.lua":
        a_call_returns_what_the_method_returns,
        nobody_serves_is_known_at_once,
        an_error_travels_with_its_traceback,
        requests_run_beside_each_other_up_to_the_concurrency,
        a_busy_instance_passes_calls_to_a_free_one,
        a_caller_may_give_up,
        a_killed_request_is_an_error_of_the_caller,
        a_closed_service_finishes_what_it_has_begun,
        a_call_has_the_context_and_the_deadline_of_its_caller;
    mod queues from "cluster/queues.lua":
        a_job_is_stored_and_comes_to_one,
        a_job_has_the_context_of_its_sender,
        false_and_large_values_are_jobs_too,
        a_second_job_with_the_same_id_is_dropped,
        a_delayed_job_comes_later,
        a_full_queue_makes_senders_wait,
        a_job_that_is_tried_again_counts_its_tries,
        a_retry_may_wait,
        a_rejected_job_goes_to_the_dead_with_the_reason,
        a_job_of_a_process_that_ends_is_given_back,
        a_job_that_comes_too_late_is_not_lost,
        a_job_for_which_nobody_waits_any_more_was_not_tried,
        a_job_is_kept_as_long_as_its_holder_lives,
        workers_do_the_jobs,
        a_worker_that_is_killed_is_replaced,
        all_workers_end_with_their_connection,
        jobs_that_are_fetched_ahead_keep_their_order,
        nothing_is_fetched_ahead_without_prefetch,
        what_a_receiver_has_fetched_goes_to_others_when_it_stops,
        what_a_closed_connection_has_fetched_goes_to_others,
        a_queue_that_is_opened_again_loses_nothing,
        a_killed_process_gives_back_a_job_that_was_fetched_ahead,
        a_job_that_fails_always_does_not_hinder_the_others,
        misuse_is_an_error;
    mod tables from "cluster/tables.lua":
        entries_have_revisions,
        a_change_by_revision_is_made_once,
        a_watch_sees_what_is_there_and_then_changes,
        a_watch_ends_with_its_connection,
        a_lease_has_one_holder,
        a_lease_is_extended_while_its_holder_lives,
        a_lease_of_a_closed_connection_passes_on,
        a_child_with_a_lease_runs_once_at_a_time,
        misuse_is_an_error;
}
