//! Tests `require "baton.http"` with what `baton.web` adds: TLS and WebSocket.

mod harness;

use harness::{baton, cases, certificates, check_case};

const SECURE: &str = "own_http/secure.lua";

fn run_secure_case(name: &str) {
    let Some(directory) = certificates::directory() else {
        return;
    };
    let run = baton().script(SECURE).arg(name);
    check_case(SECURE, name, &run.env("CERTIFICATES", directory).run());
}

macro_rules! secure_cases {
    ($($name:ident),+ $(,)?) => {
        $(#[test]
        fn $name() {
            run_secure_case(stringify!($name));
        })+

        #[test]
        fn no_case_of_the_file_is_left_out() {
            harness::assert_all_cases_named(SECURE, &[$(stringify!($name)),+]);
        }
    };
}

secure_cases! {
    requests_and_replies_are_encrypted,
    files_and_packed_streams_are_encrypted,
    several_vms_have_the_certificates,
    one_context_may_serve_several_servers,
    bad_handshakes_harm_nobody,
    stopping_ends_handshakes_and_counts_none_of_them,
    certificates_that_cannot_be_read_are_told_at_once,
    a_client_chooses_the_version,
}

cases! {
    mod websockets from "own_http/websocket.lua":
        a_request_becomes_a_websocket_and_others_are_answered,
        frames_that_come_with_the_head_are_received,
        what_asks_for_something_else_gets_its_answer,
        a_websocket_may_outlive_its_handler,
        stopping_ends_websockets_by_a_close_frame,
        stopping_waits_for_no_client_that_does_not_answer,
        a_handler_that_fails_closes_its_websocket,
        misuse_is_refused;
}
