//! Tests TLS over connections of baton.net, with openssl and between programs of ours.

mod harness;

use harness::{baton, certificates, check_case};

const FILE: &str = "web/tls.lua";

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
    a_client_of_openssl_gets_its_line_back,
    a_server_of_openssl_gives_a_line_back,
    both_sides_exchange_much_at_once,
    what_was_negotiated_is_known,
    net_has_tls_and_connects_with_it,
    http_requests_are_made_over_tls,
    a_plain_connection_has_no_facts,
    bytes_that_came_before_tls_begins_are_part_of_it,
    a_server_chooses_its_certificate_by_the_name,
    an_expired_certificate_is_refused_with_its_day,
    a_certificate_for_another_name_is_refused_with_its_names,
    a_certificate_of_an_unknown_authority_is_refused_with_what_to_do,
    a_certificate_that_is_an_authoritys_own_is_refused_with_what_to_do,
    any_certificate_is_accepted_if_the_program_says_so,
    a_client_needs_a_certificate_of_the_authority_that_the_server_names,
    a_clients_certificate_may_be_optional,
    a_client_of_openssl_may_have_a_certificate,
    texts_are_as_good_as_files,
    files_that_cannot_be_used_are_named,
    a_session_is_resumed_by_a_second_connection,
    certificates_are_read_again_without_a_restart,
    a_client_that_leaves_in_the_handshake_is_told,
    what_is_not_tls_is_told,
    a_record_that_is_too_large_is_told,
    a_server_that_speaks_no_tls_is_told,
    a_handshake_that_does_not_go_on_ends_by_its_timeout,
    bytes_may_come_one_by_one,
    the_parts_of_a_write_share_a_record,
    an_end_that_the_peer_has_not_announced_is_no_end,
    an_end_that_the_peer_announces_is_one,
    a_connection_with_tls_moves_to_another_vm,
    a_byte_that_was_changed_on_its_way_is_told,
    a_renegotiation_is_refused,
    an_old_version_is_refused,
    a_process_is_killed_in_each_wait,
    others_run_while_files_are_read,
    a_wrong_option_is_refused,
}
