//! Tests typical network programs with Debian's libraries and real servers: several processes at
//! once, kills, timeouts.

use crate::harness::{self, Run, baton};
use crate::server::Server;
use crate::{is_file, is_installed};

/// A run that finds the libraries and its server.
struct Setup {
    run: Run,
    _server: Option<Server>,
}

/// Makes one `#[test]` of each named case of a Lua file, and a test that fails if a case of the
/// file is missing here. `$setup` prepares each run.
macro_rules! cases {
    ($(mod $module:ident from $file:literal with $setup:ident: $($name:ident),+ $(,)?;)+) => {$(
        mod $module {
            $(#[test]
            fn $name() {
                if let Some(setup) = super::$setup() {
                    let outcome = setup.run.script($file).arg(stringify!($name)).run();
                    outcome.succeeds().wrote(concat!("passed ", stringify!($name), "\n")).quietly();
                }
            })+

            #[test]
            fn no_case_of_the_file_is_left_out() {
                crate::harness::assert_all_cases_named($file, &[$(stringify!($name)),+]);
            }
        }
    )+};
}

cases! {
    mod redis from "network/redis.lua" with redis_setup:
        many_processes_use_the_server_at_once,
        transactions_go_on_beside_each_other,
        waiting_for_an_element_stops_no_process,
        a_message_reaches_all_subscribers,
        a_process_that_waits_for_the_server_can_be_killed,
        a_timeout_ends_the_wait_of_its_process_only;
    mod postgres from "network/postgres.lua" with postgres_setup:
        many_processes_connect_and_ask_at_once,
        a_statement_timeout_ends_the_query_of_its_connection_only,
        a_killed_process_ends_when_its_query_has;
    mod smtp from "network/smtp.lua" with smtp_setup:
        many_processes_send_at_once,
        a_large_message_stops_no_process,
        a_process_that_waits_for_a_silent_server_can_be_killed_or_times_out;
    mod tls from "network/tls.lua" with tls_setup:
        many_clients_talk_to_a_server_that_they_trust,
        an_untrusted_certificate_is_refused,
        waits_end_by_kills_and_timeouts,
        a_handshake_without_an_answer_stops_no_other_process,
        closing_ends_the_handshake_of_another_process,
        a_timeout_of_a_handshake_holds,
        requests_by_https_trust_one_server_and_refuse_another,
        a_request_by_https_can_be_killed_and_times_out;
    mod copas from "network/copas.lua" with copas_setup:
        processes_talk_to_a_server_of_copas,
        others_run_while_the_loop_waits,
        a_handler_may_wait_for_another_process,
        threads_of_copas_and_processes_share_the_program,
        the_loop_can_be_killed_and_begun_again,
        clients_that_time_out_or_are_killed_leave_the_loop_alone,
        a_step_can_time_out_while_other_processes_run;
    mod cqueues from "network/cqueues.lua" with cqueues_setup:
        loops_of_several_processes_do_not_meet,
        others_run_while_a_loop_waits,
        a_loop_that_waits_keeps_no_thread,
        a_function_wrapped_while_the_loop_waits_runs_at_once,
        servers_and_clients_are_processes_of_one_program,
        waits_outside_of_loops_do_not_end_each_other,
        a_process_that_waits_in_a_loop_can_be_killed,
        a_process_killed_inside_a_coroutine_leaves_the_loops_of_others_alone,
        a_timeout_of_a_loop_holds,
        one_controller_may_be_stepped_by_two_processes,
        a_step_of_the_only_process_with_a_loop_calls_little_else,
        a_second_process_waits_until_the_first_has_left_its_step,
        a_first_process_that_is_killed_in_its_step_leaves_it,
        errors_are_those_of_the_module,
        in_a_critical_section_the_system_waits,
        finalizers_may_run_loops;
    mod http from "network/http.lua" with http_setup:
        requests_of_many_processes_go_on_beside_each_other,
        a_request_in_a_loop_of_ones_own,
        a_timeout_ends_one_request,
        a_request_can_be_killed;
    mod luv from "network/luv.lua" with luv_setup:
        others_run_while_the_loop_waits,
        processes_talk_to_a_server_of_the_loop,
        a_callback_may_wait_for_another_process,
        stopping_ends_the_run_and_leaves_the_rest,
        once_and_nowait_are_as_ever,
        a_callback_knows_that_it_may_not_yield_and_how_the_loop_runs,
        another_process_can_run_the_loop_after_a_kill,
        the_pool_of_threads_wakes_the_loop,
        two_runners_take_turns,
        a_callback_that_computes_is_preempted,
        a_kill_waits_for_the_callback,
        timers_count_from_now_after_a_long_callback,
        a_timer_gives_up_a_connection_that_is_silent,
        callbacks_nest_without_a_word;
}

/// A run that also finds pure Lua libraries that Debian has for older versions of Lua only.
fn with_older_libraries() -> Run {
    let own = harness::lua_dir().join("?.lua");
    let system = "/usr/share/lua/5.4/?.lua;/usr/share/lua/5.4/?/init.lua;\
                  /usr/share/lua/5.3/?.lua;/usr/share/lua/5.2/?.lua";
    baton().env("LUA_PATH_5_4", format!("{};{system};;", own.display()))
}

fn alone(run: Run) -> Setup {
    Setup { run, _server: None }
}

fn redis_setup() -> Option<Setup> {
    if !is_installed("socket", "lua-socket")
        || !is_file("/usr/share/lua/5.3/redis.lua", "lua-redis")
    {
        return None;
    }
    let server = Server::redis()?;
    let run = with_older_libraries().env("PORT", server.port().to_string());
    let _server = Some(server);
    Some(Setup { run, _server })
}

fn postgres_setup() -> Option<Setup> {
    if !is_installed("luasql.postgres", "lua-sql-postgres") {
        return None;
    }
    let server = Server::postgres()?;
    let run = baton().env("SERVER", server.dir());
    let _server = Some(server);
    Some(Setup { run, _server })
}

fn smtp_setup() -> Option<Setup> {
    if !is_installed("socket.smtp", "lua-socket") {
        return None;
    }
    let server = Server::mail()?;
    let run = baton()
        .env("PORT", server.port().to_string())
        .env("MAIL", server.dir().join("mail"));
    let _server = Some(server);
    Some(Setup { run, _server })
}

fn tls_setup() -> Option<Setup> {
    let installed = is_installed("ssl", "lua-sec") && is_installed("openssl", "lua-luaossl");
    installed.then(|| alone(baton()))
}

fn copas_setup() -> Option<Setup> {
    let installed = is_installed("socket", "lua-socket")
        && is_file("/usr/share/lua/5.2/copas.lua", "lua-copas");
    installed.then(|| alone(with_older_libraries()))
}

fn cqueues_setup() -> Option<Setup> {
    is_installed("cqueues", "lua-cqueues").then(|| alone(baton()))
}

fn http_setup() -> Option<Setup> {
    let installed = is_installed("cqueues", "lua-cqueues")
        && is_file("/usr/share/lua/5.3/http/server.lua", "lua-http");
    installed.then(|| alone(with_older_libraries()))
}

fn luv_setup() -> Option<Setup> {
    let installed = is_installed("luv", "lua-luv") && is_installed("socket", "lua-socket");
    installed.then(|| alone(baton()))
}
