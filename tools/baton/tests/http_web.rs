//! Tests `require "baton.http"` over TLS.

mod harness;

use harness::{baton, certificates, check_case};

const SECURE: &str = "http/secure.lua";

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
    one_context_may_serve_several_servers,
    bad_handshakes_harm_nobody,
    stopping_ends_handshakes_and_counts_none_of_them,
    certificates_that_cannot_be_read_are_told_at_once,
}
