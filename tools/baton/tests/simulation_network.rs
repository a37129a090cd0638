//! Tests the network of a simulated run: baton.net and LuaSocket in memory.

mod harness;

use harness::{Run, baton, missing};

fn simulated(seeds: &str) -> Run {
    baton().arg("--simulate").arg(seeds)
}

/// Runs the named cases of a Lua file with some seeds each.
macro_rules! cases {
    ($file:literal: $($name:ident),+ $(,)?) => {
        $(#[test]
        fn $name() {
            simulated("1-5").script($file).arg(stringify!($name)).run().succeeds();
        })+

        #[test]
        fn no_case_of_the_file_is_left_out() {
            harness::assert_all_cases_named($file, &[$(stringify!($name)),+]);
        }
    };
}

cases! {
    "simulation/network/cases.lua":
        connections_have_addresses_and_ends,
        delays_and_slow_peers_take_virtual_time,
        a_writer_waits_for_a_reader_that_does_not_read,
        small_pieces_arrive_one_by_one,
        lost_connections_are_lost_at_both_ends,
        limits_backlogs_closes_and_kills_end_waits,
        a_killed_process_connects_no_longer,
        datagrams_have_addresses_and_ends,
        datagrams_overtake_each_other_get_lost_and_come_twice,
        a_socket_that_is_not_read_keeps_so_many_datagrams,
        a_reply_of_http_has_the_virtual_date,
        what_a_simulated_run_has_not_is_refused,
}

mod vms {
    use super::{harness, simulated};

    cases! {
        "simulation/network/vms.lua":
            a_server_in_another_vm_is_reached,
            who_waits_before_there_are_several_vms_is_woken,
            large_bodies_go_both_ways_between_vms,
            datagrams_go_between_vms,
            the_end_of_a_vm_loses_its_connections,
            a_halted_vm_loses_its_connections,
    }
}

const SHOP: &str = "simulation/network/shop.lua";

fn shop(seed: u32, style: &str) -> String {
    let run = simulated(&seed.to_string()).script(SHOP).arg(style).run();
    run.stdout.clone() + &run.stderr
}

/// A range of seeds finds the shop that sells too much, and each seed repeats its run.
fn finds_the_fault_of_a_shop(style: &str) {
    let outcome = simulated("1-100").script(SHOP).arg(style).run();
    outcome.ends_with(1).complained("sold ");
    let seed = outcome.stderr.split("--simulate ").nth(1);
    let seed = seed.and_then(|rest| rest.split_whitespace().next());
    let seed: u32 = seed
        .and_then(|seed| seed.parse().ok())
        .expect("a seed is named");
    assert_eq!(shop(seed, style), shop(seed, style));
    assert_ne!(shop(seed, style), shop(seed + 1, style));
}

#[test]
fn seeds_find_a_race_of_a_service_over_baton_net() {
    finds_the_fault_of_a_shop("net");
}

#[test]
fn seeds_find_a_race_of_a_service_over_luasocket() {
    if missing::is_luasocket("LuaSocket in a simulated run") {
        return;
    }
    finds_the_fault_of_a_shop("socket");
}

#[test]
fn luasockets_methods_return_the_same_in_a_simulated_run() {
    if missing::is_luasocket("LuaSocket in a simulated run") {
        return;
    }
    const PROGRAM: &str = "simulation/network/luasocket.lua";
    let real = baton().script(PROGRAM).run();
    real.succeeds();
    let virtually = simulated("1").script(PROGRAM).run();
    virtually.succeeds().wrote(&real.stdout);
}

#[test]
fn luasockets_http_works_in_a_simulated_run() {
    if missing::is_luasocket("LuaSocket in a simulated run") {
        return;
    }
    let run = simulated("1-5").process_code(
        "local socket, http = require 'socket', require 'socket.http'
         require('baton.net').simulated { delay = 0.1, piece = 10 }
         local server = assert(socket.bind('shop.example', 80))
         process.spawn({ daemon = true }, function()
           local client = server:accept()
           while client:receive() ~= '' do end
           client:send 'HTTP/1.1 200 OK\\r\\nContent-Length: 5\\r\\n\\r\\nhello'
           client:close()
         end)
         local body, status = http.request 'http://shop.example/'
         assert(body == 'hello' and status == 200, status)",
    );
    run.run().succeeds();
}
