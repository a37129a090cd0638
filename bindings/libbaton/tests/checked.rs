//! Programs in C under AddressSanitizer and Valgrind's memcheck: those of the other tests have no
//! mistake in their memory, and those with one are found.

mod library;

use baton_harness::{Checker, Program};
use library::LIBRARY;

static GUEST_WITH_ASAN: Program = Program::checked("guest", &LIBRARY, Checker::AddressSanitizer);
static HOST_WITH_ASAN: Program = Program::checked("host", &LIBRARY, Checker::AddressSanitizer);
static SIMULATED_WITH_ASAN: Program =
    Program::checked("simulated", &LIBRARY, Checker::AddressSanitizer);
static ENGINE_WITH_ASAN: Program = Program::checked("engine", &LIBRARY, Checker::AddressSanitizer);
static MISTAKES_WITH_ASAN: Program =
    Program::checked("mistakes", &LIBRARY, Checker::AddressSanitizer);
static GUEST_FOR_MEMCHECK: Program = Program::checked("guest", &LIBRARY, Checker::Memcheck);
static HOST_FOR_MEMCHECK: Program = Program::checked("host", &LIBRARY, Checker::Memcheck);
static SIMULATED_FOR_MEMCHECK: Program = Program::checked("simulated", &LIBRARY, Checker::Memcheck);
static ENGINE_FOR_MEMCHECK: Program = Program::checked("engine", &LIBRARY, Checker::Memcheck);
static MISTAKES_FOR_MEMCHECK: Program = Program::checked("mistakes", &LIBRARY, Checker::Memcheck);

/// The cases of `guest.c` that end well.
const OF_GUEST: [&str; 9] = [
    "everything",
    "call",
    "loop",
    "ask_in_loop",
    "be_woken",
    "wait_for_ever",
    "wait_in_section",
    "change_slices",
    "ask_in_call",
];

/// The cases of `host.c`, without those of its last test, and those that measure time.
const OF_HOST: [&str; 8] = [
    "by_descriptor",
    "by_timeout",
    "woken",
    "left_alone",
    "deadlock",
    "last_process",
    "refusals",
    "two",
];

/// The cases of `engine.c` that end well and free their VM.
const OF_ENGINE: [&str; 4] = ["calls", "ends", "names", "hooks"];

/// The cases of `simulated.c`, without those that differ from these in number or time alone.
const OF_SIMULATED: [&str; 3] = ["choices", "calls", "refusals"];

#[test]
fn guests_are_clean_under_address_sanitizer() {
    for case in OF_GUEST {
        GUEST_WITH_ASAN.succeeds(case);
    }
    for case in OF_ENGINE {
        ENGINE_WITH_ASAN.succeeds(case);
    }
    for case in OF_SIMULATED {
        SIMULATED_WITH_ASAN.succeeds(case);
    }
}

#[test]
fn hosts_are_clean_under_address_sanitizer() {
    for case in OF_HOST {
        HOST_WITH_ASAN.succeeds(case);
    }
}

#[test]
fn address_sanitizer_finds_mistakes_on_the_stacks_of_processes() {
    MISTAKES_WITH_ASAN.succeeds("none");
    for (mistake, message) in [
        ("write_behind_block", "heap-buffer-overflow"),
        ("write_behind_array", "stack-buffer-overflow"),
        ("use_after_free", "heap-use-after-free"),
        ("lose_blocks", "detected memory leaks"),
    ] {
        MISTAKES_WITH_ASAN.ends_with(mistake, message);
    }
}

#[test]
fn guests_are_clean_under_memcheck() {
    if Checker::Memcheck.is_missing("guests in C under memcheck") {
        return;
    }
    for case in OF_GUEST {
        GUEST_FOR_MEMCHECK.succeeds(case);
    }
    for case in OF_ENGINE {
        ENGINE_FOR_MEMCHECK.succeeds(case);
    }
    for case in OF_SIMULATED {
        SIMULATED_FOR_MEMCHECK.succeeds(case);
    }
}

#[test]
fn hosts_are_clean_under_memcheck() {
    if Checker::Memcheck.is_missing("hosts in C under memcheck") {
        return;
    }
    for case in OF_HOST {
        HOST_FOR_MEMCHECK.succeeds(case);
    }
}

#[test]
fn memcheck_finds_mistakes_on_the_stacks_of_processes() {
    if Checker::Memcheck.is_missing("mistakes in C under memcheck") {
        return;
    }
    MISTAKES_FOR_MEMCHECK.succeeds("none");
    for (mistake, message) in [
        ("write_behind_block", "Invalid write of size 1"),
        ("use_after_free", "Invalid read of size 1"),
        (
            "use_unset",
            "Conditional jump or move depends on uninitialised value",
        ),
        ("lose_blocks", "definitely lost"),
    ] {
        MISTAKES_FOR_MEMCHECK.ends_with(mistake, message);
    }
}
