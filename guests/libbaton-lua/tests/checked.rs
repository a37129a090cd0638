//! Programs in C that embed Lua have no mistake in their memory that AddressSanitizer or Valgrind's
//! memcheck finds.

mod embedding;
mod library;

use baton_harness::{Checker, Program};
use embedding::Example;
use library::LIBRARY;

static WITH_ASAN: Program = Program::checked("host", &LIBRARY, Checker::AddressSanitizer);
static FOR_MEMCHECK: Program = Program::checked("host", &LIBRARY, Checker::Memcheck);

/// The cases of `host.c` that end well. Left out are `closed`, which counts memory by itself, and
/// `called_back`: libraries and callbacks stay after `lua_close`, as C may still use them. The last
/// three expect sleeps to end in time, which memcheck is too slow for.
const CASES: [&str; 8] = [
    "plain",
    "loop",
    "spawned_later",
    "nested",
    "replaced",
    "two",
    "calls",
    "frames",
];

#[test]
fn hosts_are_clean_under_address_sanitizer() {
    for case in CASES {
        WITH_ASAN.succeeds(case);
    }
}

#[test]
fn hosts_are_clean_under_memcheck() {
    if Checker::Memcheck.is_missing("programs that embed Lua, under memcheck") {
        return;
    }
    for case in &CASES[..5] {
        FOR_MEMCHECK.succeeds(case);
    }
}

/// Runs an example under a checker for a second. Its scripts have computed at the end. The example
/// `window` is left out: Mesa's compiler of shaders locks itself out under AddressSanitizer.
fn is_clean(name: &'static str, checker: Checker) {
    let what = format!("the example {name} under {checker:?}");
    let Some(program) = Example::make(name, Some(checker), &what) else {
        return;
    };
    let said = program.numbers("1", None);
    assert!(said.last().is_some_and(|&steps| steps > 0.0), "{said:?}");
}

#[test]
fn a_games_loop_is_clean() {
    is_clean("frames", Checker::AddressSanitizer);
    is_clean("frames", Checker::Memcheck);
}

#[test]
fn a_loop_of_libuv_is_clean() {
    is_clean("uv", Checker::AddressSanitizer);
    is_clean("uv", Checker::Memcheck);
}
