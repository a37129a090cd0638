//! Without memory for one more object there is an error, which a program can catch and continue
//! after.

#![cfg(target_os = "linux")] // other systems have no limit on address space that holds

mod harness;

use harness::{Run, baton_path};
use std::path::Path;

/// Runs `out_of_memory.lua` with a limit on its address space, in KiB.
fn fills_memory(kind: &str, limit: u32) {
    let run = Run::of(Path::new("/bin/sh"))
        .arg("-c")
        .arg(format!("ulimit -v {limit}; exec \"$0\" \"$@\""))
        .arg(baton_path())
        .script("out_of_memory.lua")
        .arg(kind);
    let outcome = run.run();
    assert_eq!(
        outcome.succeeds().stdout,
        format!("passed\t{kind}\n"),
        "{outcome}"
    );
}

macro_rules! kinds {
    ($($kind:ident),+ $(,)?) => {
        $(#[test]
        fn $kind() {
            fills_memory(stringify!($kind), 100_000);
        })+

        const KINDS: &[&str] = &[$(stringify!($kind)),+];
    };
}

kinds! {
    alarm,
    array,
    barrier,
    callback,
    callback_in_its_place,
    channel,
    channel_with_a_value,
    condition,
    constant,
    declared_structure,
    event,
    frozen_value,
    function_type,
    further_arguments,
    large_declaration,
    large_frozen_value,
    large_heap,
    library,
    linked_process,
    monitored_process,
    mutex,
    object_with_a_name,
    periodic_timer,
    pointer_type,
    prepared_function,
    process,
    process_in_a_long_select,
    process_that_is_joined,
    process_that_waits,
    process_with_a_small_stack,
    process_with_many_arguments,
    rwlock,
    semaphore,
    structure,
    suspended_process,
    thawed_value,
    timer,
    value_in_a_channel,
}

#[test]
fn finalizers_get_what_little_memory_is_left() {
    // With some of these limits, less is left than the runtime's reserve needs.
    for limit in (75_000..76_400).step_by(40) {
        fills_memory("library", limit);
    }
}

#[test]
fn no_kind_is_left_out() {
    let outcome = harness::baton()
        .script("out_of_memory.lua")
        .arg("kinds")
        .run();
    let mut kinds: Vec<&str> = outcome.succeeds().stdout.lines().collect();
    kinds.sort_unstable();
    assert_eq!(kinds, KINDS);
}

#[test]
fn with_more_memory_the_tables_are_larger_and_the_same_holds() {
    for kind in ["channel", "structure", "process", "large_heap"] {
        fills_memory(kind, 400_000);
    }
}
