//! Tests files, forms, parts, cookies and gzip of `require "baton.http"` over HTTP/2, with curl.

mod harness;

use harness::skip;

const FILE: &str = "own_http/http2_files.lua";

macro_rules! cases {
    ($($name:ident),+) => {
        $(#[test]
        fn $name() {
            if !skip::is_missing(&["curl", "--version"], "curl", "HTTP/2 with curl") {
                harness::run_case(FILE, stringify!($name));
            }
        })+

        #[test]
        fn no_case_of_the_file_is_left_out() {
            harness::assert_all_cases_named(FILE, &[$(stringify!($name)),+]);
        }
    };
}

cases! {
    files_are_sent_whole_in_part_or_not_at_all,
    large_files_pass_the_windows_and_shorter_ones_are_cut_off,
    forms_parts_and_cookies_are_read,
    texts_are_packed_for_clients_that_take_it,
    the_type_that_was_set_is_sent_once
}
