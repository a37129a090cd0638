//! Tests the server of `require "baton.http"` with clients of HTTP/2: Node's, curl, and h2spec,
//! which breaks the protocol in all ways that it knows.

mod harness;

use harness::readers::readers;
use harness::{baton, certificates, check_case, skip};
use std::path::Path;

const FILE: &str = "own_http/http2.lua";

/// Runs a case with certificates, if there are any.
fn run_secure_case(name: &str, h2spec: &Path) {
    if let Some(directory) = certificates::directory() {
        let run = baton().script(FILE).arg(name);
        let run = run.env("CERTIFICATES", directory).env("H2SPEC", h2spec);
        check_case(FILE, name, &run.run());
    }
}

/// Whether a program is there; if not, that is reported.
fn has(program: &str, package: &str) -> bool {
    let what = format!("HTTP/2 with {program}");
    !skip::is_missing(&[program, "--version"], package, &what)
}

macro_rules! cases {
    (node: $($node:ident),+; bytes: $($bytes:ident),+; others: $($other:ident),+) => {
        $(#[test]
        fn $node() {
            if has("node", "nodejs") {
                harness::run_case(FILE, stringify!($node));
            }
        })+

        $(#[test]
        fn $bytes() {
            harness::run_case(FILE, stringify!($bytes));
        })+

        #[test]
        fn no_case_of_the_file_is_left_out() {
            harness::assert_all_cases_named(
                FILE,
                &[$(stringify!($node),)+ $(stringify!($bytes),)+ $(stringify!($other)),+],
            );
        }
    };
}

cases! {
    node:
    requests_have_all_fields_and_replies_theirs,
    requests_of_one_connection_run_at_once,
    large_bodies_pass_the_windows,
    handlers_that_do_not_read_hold_no_other_body_up,
    a_client_that_waits_with_its_body_is_asked_for_it,
    a_client_that_resets_a_request_ends_its_writes,
    handlers_that_fail_are_told_apart,
    limits_hold_for_each_request,
    a_client_that_opens_no_window_has_a_time,
    an_idle_connection_ends,
    events_are_sent,
    stopping_answers_open_requests,
    stopping_under_load_loses_no_request,
    stopping_kills_what_does_not_end,
    handlers_that_are_killed_lose_no_other_request;
    bytes:
    a_client_that_resets_a_request_ends_its_reads,
    requests_that_are_taken_back_do_not_pile_up,
    both_versions_have_one_port,
    a_head_that_does_not_go_on_ends_the_connection,
    a_client_that_breaks_the_protocol_is_told_so,
    floods_are_ended,
    a_client_that_does_not_read_is_given_up,
    options_are_checked;
    others:
    curl_chooses_it_with_tls,
    curl_begins_with_it,
    h2spec_finds_no_fault
}

#[test]
fn curl_chooses_it_with_tls() {
    if has("curl", "curl") {
        run_secure_case("curl_chooses_it_with_tls", Path::new(""));
    }
}

#[test]
fn curl_begins_with_it() {
    if has("curl", "curl") {
        harness::run_case(FILE, "curl_begins_with_it");
    }
}

#[test]
fn h2spec_finds_no_fault() {
    let program = readers("h2spec").join("h2spec");
    if !program.exists() {
        skip::skip("HTTP/2 with h2spec", "run cargo xtask readers");
        return;
    }
    run_secure_case("h2spec_finds_no_fault", &program);
}
