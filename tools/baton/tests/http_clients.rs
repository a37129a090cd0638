//! Tests the server of `require "baton.http"` with clients of other projects: curl, and those of
//! Python's library.

mod harness;

use harness::skip;

const FILE: &str = "own_http/clients.lua";

/// Runs a case if the program is there that it uses; if not, that is reported.
fn run_case_with(program: &str, name: &str) {
    let what = format!("baton.http, by {program}");
    if !skip::is_missing(&[program, "--version"], program, &what) {
        harness::run_case(FILE, name);
    }
}

macro_rules! cases {
    ($($program:literal: $($name:ident),+;)+) => {
        $($(#[test]
        fn $name() {
            run_case_with($program, stringify!($name));
        })+)+

        #[test]
        fn no_case_of_the_file_is_left_out() {
            harness::assert_all_cases_named(FILE, &[$($(stringify!($name)),+),+]);
        }
    };
}

cases! {
    "curl":
    curl_gets_what_handlers_return,
    curl_keeps_its_connection,
    curl_sends_a_body_in_chunks,
    curl_waits_until_it_may_send,
    curl_asks_for_heads,
    curl_gets_parts_of_a_file,
    curl_unpacks_what_was_packed;
    "python3":
    the_clients_of_pythons_library_understand_it;
}
