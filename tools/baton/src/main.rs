//! `baton`: runs Lua 5.4 programs as preemptive processes; a drop-in for the standalone `lua`.
//!
//! The entry is C's `main`, not Rust's: Rust's start-up ignores SIGPIPE and opens /dev/null in place of closed
//! standard streams, and a Lua program must see both as its parent left them. All that the command line does is in
//! `c/standalone.c`, called by the runtime in the main process.

#![no_main]

use std::ffi::{c_char, c_int, c_void};

unsafe extern "C-unwind" {
    /// Interprets the command line on the given `lua_State`; see `c/standalone.h`.
    fn baton_standalone(state: *mut c_void) -> c_int;
}

/// The program's entry, called by the C runtime. Returns the exit status.
// SAFETY: the only definition of `main` in the program, with the signature that C gives it.
#[unsafe(no_mangle)]
extern "C" fn main(argc: c_int, argv: *mut *mut c_char) -> c_int {
    // SAFETY: argc and argv are as the C runtime passed them: argc strings and a NULL, valid until the program ends.
    // `baton_standalone` is a lua_CFunction that takes these two as its arguments.
    unsafe { baton_lua::run_program(baton_standalone, argc, argv) }
}
