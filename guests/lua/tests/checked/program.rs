//! Runs one of the scenarios in Lua: `program SCENARIO`. With the variable SEED, simulated.
//! Compiled by `tools/conformance/tests/checked_lua.rs`, for a checker.

#![no_main]

use std::ffi::{c_char, c_int, c_void};

use baton_lua::{ReservingAllocator, Simulation, run_program};

#[global_allocator]
static ALLOCATOR: ReservingAllocator = ReservingAllocator;

unsafe extern "C-unwind" {
    fn scenario_host(state: *mut c_void) -> c_int;
}

unsafe extern "C" {
    fn scenario_report(state: *mut c_void);
}

// SAFETY: the only definition of this symbol, which C's start-up calls.
#[unsafe(no_mangle)]
extern "C" fn main(argc: c_int, argv: *mut *mut c_char) -> c_int {
    let seed = std::env::var("SEED").ok();
    let simulation = seed.map(|seed| Simulation {
        seed: seed.parse().expect("a number"),
        recording: None,
        trace: None,
        failed: None,
    });
    // SAFETY: argv is that of the program. The first function is a lua_CFunction, and the second
    // one pops the error that it writes.
    unsafe { run_program(scenario_host, scenario_report, argc, argv, simulation) }
}
