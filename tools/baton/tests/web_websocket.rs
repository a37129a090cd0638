//! Tests WebSocket over connections of baton.net: both sides, and peers that break the protocol.

mod harness;

use harness::{baton, certificates, check_case};

const FILE: &str = "web/websocket.lua";

fn run_case(name: &str) {
    let Some(directory) = certificates::directory() else {
        return;
    };
    let run = baton().script(FILE).arg(name);
    check_case(FILE, name, &run.env("CERTIFICATES", directory).run());
}

macro_rules! cases {
    ($($name:ident),+ $(,)?) => {
        $(#[test]
        fn $name() {
            run_case(stringify!($name));
        })+

        #[test]
        fn no_case_of_the_file_is_left_out() {
            harness::assert_all_cases_named(FILE, &[$(stringify!($name)),+]);
        }
    };
}

cases! {
    messages_come_back,
    a_close_has_a_code_and_a_reason,
    a_request_is_known_to_the_server,
    a_receive_ends_by_its_timeout_and_goes_on,
    a_silent_peer_is_asked_and_given_up,
    a_peer_that_answers_pings_is_not_given_up,
    a_request_that_was_read_elsewhere_is_upgraded,
    a_variable_that_goes_closes_without_a_wait,
    a_close_is_answered_while_another_process_receives,
    a_client_and_a_server_speak_over_tls,
    the_frames_are_those_of_the_rfc,
    a_ping_is_answered_while_another_message_is_received,
    frames_may_come_byte_by_byte,
    messages_over_the_limit_are_refused,
    broken_frames_are_refused,
    a_text_that_is_not_utf8_is_refused,
    an_end_without_a_close_is_told,
    a_peer_that_does_not_read_fills_no_memory_by_pings,
    a_process_is_killed_in_each_wait_and_no_frame_is_torn,
    several_processes_send_whole_messages,
    other_requests_get_an_answer_that_says_why,
    a_head_without_an_end_is_bounded,
    a_head_that_does_not_go_on_ends_by_its_timeout,
    a_client_checks_the_answer,
    a_wrong_argument_is_refused,
}
