//! The guests in C have no mistake in their memory that AddressSanitizer or Valgrind's memcheck
//! finds. The tests of bindings/libbaton show that they find mistakes.

mod installed;

use baton_harness::Checker;
use installed::{Copy, Linked, is_missing};

/// A guest: its directory, its program, and what its scenarios' names end with.
const GUESTS: [(&str, &str, &str); 2] = [("template", "guest", "tiny"), ("forth", "forth", "fs")];

/// The scenarios that memcheck is given. It makes a program some fifty times slower, and lets one
/// thread run at a time. So those are left out that differ from these in number or time alone,
/// those that end a program before its processes, and `turns`, whose processes may use up their
/// slices.
const FOR_MEMCHECK: [&str; 11] = [
    "hello",
    "sleep",
    "preempt",
    "levels",
    "kill_wait",
    "kill_loop",
    "call",
    "callback",
    "wake",
    "ready",
    "simulated",
];

/// Makes a copy of a guest for a checker.
fn made(guest: &str, program: &str, checker: Checker) -> Copy {
    let copy = Copy::of(guest);
    let flags = format!("CFLAGS=-O1 -g {}", checker.flags().join(" "));
    copy.make(Linked::Static, &["-B", program, &flags]);
    copy
}

#[test]
fn the_guests_are_clean_under_address_sanitizer() {
    if is_missing("guests under AddressSanitizer") {
        return;
    }
    for (guest, program, ending) in GUESTS {
        let checker = Checker::AddressSanitizer;
        made(guest, program, checker).play_with(checker, &[], program, ending);
    }
}

#[test]
fn the_guests_are_clean_under_memcheck() {
    let what = "guests under memcheck";
    if is_missing(what) || Checker::Memcheck.is_missing(what) {
        return;
    }
    for (guest, program, ending) in GUESTS {
        let checker = Checker::Memcheck;
        made(guest, program, checker).play_with(checker, &FOR_MEMCHECK, program, ending);
    }
}
