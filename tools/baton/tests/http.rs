//! Tests `require "baton.http"`.

mod harness;

use harness::{baton, cases, check_case};

cases! {
    mod requests from "own_http/requests.lua":
        a_handler_returns_status_body_and_fields,
        a_request_has_method_path_query_fields_and_peer,
        bodies_are_read_whole_or_in_parts,
        requests_in_one_write_are_answered_in_their_order,
        a_body_that_nobody_reads_does_not_become_a_request,
        a_client_that_expects_is_told_to_go_on_if_the_body_is_wanted,
        heads_and_empty_replies_have_no_body,
        version_1_0_ends_unless_it_is_asked_to_stay,
        a_stream_is_sent_as_it_is_written,
        events_have_their_form_and_a_heartbeat,
        a_failing_handler_gives_500_and_others_go_on,
        what_bad_clients_send_reaches_no_handler,
        a_body_that_is_wrong_in_its_middle_gives_its_status,
        slow_heads_are_ended_in_one_time_and_hold_nobody_up,
        idle_connections_end_without_a_word,
        a_head_without_end_takes_no_memory,
        too_many_handlers_are_refused_with_503,
        a_handler_that_takes_too_long_is_ended_with_504,
        an_exchange_that_is_kept_cannot_answer_another_request,
        the_access_log_is_a_function_or_lines,
        the_access_log_may_be_lines_of_the_programs_log,
        misuse_is_refused;
    mod client from "own_http/client.lua":
        a_reply_has_status_fields_and_a_body,
        requests_have_fields_and_bodies_of_each_kind,
        a_connection_is_used_again_and_a_stale_one_replaced,
        a_pool_is_bounded_and_forgets_old_connections,
        bodies_are_read_in_parts_whatever_ends_them,
        redirects_are_followed_and_secrets_stay_behind,
        retries_wait_for_a_server_that_comes,
        hostile_servers_are_refused_and_bounded,
        a_killed_process_leaves_no_request_open,
        a_server_that_refuses_a_body_early_is_heard,
        misuse_of_the_client_is_refused;
    mod routing from "own_http/routing.lua":
        a_router_finds_handlers_and_their_parameters,
        a_path_without_a_handler_gets_404_and_a_method_without_one_405,
        functions_around_handlers_are_called_in_their_order,
        a_mounted_router_answers_what_is_below_its_prefix,
        wrong_patterns_and_handlers_are_refused;
    mod files from "own_http/files.lua":
        a_file_has_its_type_its_length_and_what_tells_it_from_others,
        a_client_that_has_the_file_gets_304_and_one_that_wants_a_range_gets_it,
        a_directory_has_an_index_and_a_slash_at_its_end,
        nothing_leads_out_of_the_directory,
        where_the_system_cannot_confine_a_path_no_link_is_followed,
        a_large_file_takes_no_memory_and_holds_nobody_up,
        a_file_that_shrinks_cuts_the_reply_off,
        a_handler_that_is_killed_or_a_client_that_goes_leaves_no_file_open,
        misuse_of_files_is_refused;
    mod forms from "own_http/forms.lua":
        a_form_has_first_values_and_all_of_them,
        a_form_is_bounded,
        parts_are_found_wherever_chunks_end,
        parts_that_nobody_reads_are_passed_over,
        an_upload_takes_no_memory,
        hostile_parts_are_refused,
        a_part_is_bounded_and_ends_with_its_turn,
        cookies_come_and_go,
        no_cookie_adds_a_field_or_an_attribute;
    mod packing from "own_http/packing.lua":
        a_text_of_some_length_is_packed_if_the_client_takes_it,
        what_is_packed_already_or_no_text_is_left_alone,
        a_packed_reply_is_another_one_for_caches,
        a_stream_is_packed_and_sent_as_it_is_written,
        several_processes_may_write_one_packed_stream,
        files_are_packed_and_their_ranges_are_not,
        a_packed_file_that_shrinks_is_cut_off,
        packing_holds_nobody_up;
    mod vms from "own_http/vms.lua":
        each_vm_answers_and_figures_are_sums,
        one_socket_serves_all_vms,
        limits_count_in_each_vm,
        stopping_waits_for_requests_in_all_vms_and_kills_the_rest,
        a_vm_that_dies_leaves_the_others_serving,
        a_simulated_run_has_one_server_in_its_own_vm,
        a_start_that_is_killed_leaves_no_vm,
        what_cannot_be_served_by_vms_is_told;
    mod stopping from "own_http/stopping.lua":
        stopping_ends_idle_connections_and_waits_for_open_requests,
        stopping_kills_what_does_not_end_and_says_how_many,
        stopping_under_load_loses_no_request,
        stopping_ends_handlers_that_read_or_write,
        a_killed_connection_counts_no_more;
    mod json from "own_http/json.lua":
        json_comes_and_goes_as_values,
        what_is_no_json_is_told_with_its_place,
        a_large_value_comes_and_goes_whole_and_a_larger_one_gives_413,
        a_value_that_json_does_not_have_gives_500;
    mod figures from "own_http/figures.lua":
        metrics_have_the_figures_of_all_servers;
    mod busy from "own_http/busy.lua":
        handlers_that_compute_hold_up_no_request;
}

#[test]
fn several_vms_are_one_in_a_simulated_run() {
    let (file, name) = (
        "own_http/vms.lua",
        "a_simulated_run_has_one_server_in_its_own_vm",
    );
    for seed in ["1", "2", "3"] {
        let run = baton().arg("--simulate").arg(seed).script(file).arg(name);
        check_case(file, name, &run.run());
    }
}

#[test]
fn random_and_mutated_bytes_harm_neither_server_nor_client() {
    let run = baton().arg("--simulate").arg("1");
    let run = run.script("own_http/random_bytes.lua");
    let file = run.scratch().join("input");
    let run = run.arg("make").arg("1").arg("200").arg(&file);
    run.run().succeeds();
    // The last input, by itself.
    let run = baton().arg("--simulate").arg("1");
    let run = run.script("own_http/random_bytes.lua").arg("try");
    let input = run.scratch().join("input");
    std::fs::write(&input, b"request\nGET / HTTP/1.1\r\nHost: a\r\n\r\n").expect("it is written");
    run.arg(&input).run().succeeds();
}
