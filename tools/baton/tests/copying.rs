//! Tests values on their way from one heap to another, and frozen values.
//!
//! A program of Lua cannot copy a message alone. This test program can: it starts itself with a
//! file of Lua, whose cases find the functions of `tests/linked/copying.c` as globals.

mod harness;

use harness::{Run, assert_all_cases_named, baton, cases, lua_dir};
use std::ffi::{c_int, c_void};

/// What the executable runs in place of the tests.
const FILE: &str = "COPYING_FILE";

#[link(name = "baton_copying_host", kind = "static")]
unsafe extern "C-unwind" {
    /// Runs the file, with functions that copy values as globals.
    fn copying_host(state: *mut c_void) -> c_int;
}

unsafe extern "C" {
    /// Registers a kind of userdata that is sent.
    fn copying_register();
    /// Prints the error on the top of the stack, and pops it.
    fn copying_report(state: *mut c_void);
}

/// No test: the program that the tests start.
#[test]
fn copying_program() {
    if std::env::var_os(FILE).is_none() {
        return;
    }
    // SAFETY: there is no Lua state yet.
    unsafe { copying_register() };
    // SAFETY: there are no arguments. `copying_host` is a lua_CFunction that takes none, and
    // `copying_report` pops the error that it prints.
    let status = unsafe {
        baton_lua::run_program(copying_host, copying_report, 0, std::ptr::null_mut(), None)
    };
    std::process::exit(status);
}

/// A run of a case of a file under `tests/lua/copying`.
fn program(file: &str, case: &str) -> Run {
    let program = std::env::current_exe().expect("the path of this program");
    Run::of(&program)
        .arg("copying_program")
        .arg("--exact")
        .arg("--nocapture")
        .env(FILE, lua_dir().join(file))
        .env("COPYING_CASE", case)
}

fn run_case(file: &str, case: &str) {
    let outcome = program(file, case).run();
    outcome.succeeds().quietly();
    assert!(
        outcome.stdout.ends_with(&format!("passed {case}\n")),
        "the case did not come to its end\n{outcome}"
    );
}

/// As `cases!` of the harness, but this program runs the cases.
macro_rules! copying {
    ($(mod $module:ident from $file:literal: $($name:ident),+ $(,)?;)+) => {$(
        mod $module {
            $(#[test]
            fn $name() {
                super::run_case($file, stringify!($name));
            })+

            #[test]
            fn no_case_of_the_file_is_left_out() {
                super::assert_all_cases_named($file, &[$(stringify!($name)),+]);
            }
        }
    )+};
}

copying! {
    mod values from "copying/values.lua":
        plain_values_arrive_as_they_are,
        nil_is_kept_among_the_arguments,
        numbers_keep_their_kind_and_their_bits,
        strings_arrive_with_all_their_bytes,
        tables_arrive_with_their_array_and_their_hash_part,
        holes_stay_holes,
        a_table_that_is_shared_arrives_as_one,
        cycles_arrive_as_cycles,
        a_table_can_be_its_own_key_and_value,
        keys_of_every_kind_arrive,
        a_copy_is_independent,
        a_million_tables_in_each_other_arrive,
        a_table_with_a_million_entries_arrives,
        no_metamethod_is_called,
        a_copy_can_become_a_metatable,
        the_size_of_a_block_is_that_of_the_message,
        a_block_that_nobody_reads_is_freed;
    mod functions from "copying/functions.lua":
        a_function_arrives_with_its_upvalues,
        functions_of_one_message_share_their_variables,
        open_variables_are_copied_by_value,
        a_function_may_refer_to_itself,
        inner_functions_and_constants_arrive,
        the_globals_are_the_readers,
        names_and_lines_arrive,
        a_stripped_function_arrives,
        functions_of_the_libraries_arrive_by_name,
        a_library_function_is_known_whatever_the_program_has_done,
        other_c_functions_are_refused,
        an_upvalue_that_cannot_be_sent_is_named;
    mod classes from "copying/classes.lua":
        a_table_arrives_with_the_class_of_its_name,
        a_class_that_the_reader_does_not_know_is_an_error,
        a_metatable_that_is_no_class_is_refused,
        a_name_stands_for_one_metatable,
        what_is_no_class_is_refused,
        finalizers_of_copies_run,
        a_weak_class_stays_weak,
        a_class_can_be_sent_itself;
    mod refusals from "copying/refusals.lua":
        the_path_leads_to_the_value,
        keys_that_are_no_names_are_quoted,
        keys_that_cannot_be_sent_are_named,
        the_argument_is_numbered_if_there_are_several,
        a_userdata_has_the_name_of_its_metatable,
        the_table_of_globals_is_refused,
        a_long_path_is_cut_in_the_middle,
        a_refused_value_in_a_cycle_is_found,
        nothing_is_changed_by_a_refusal;
    mod kinds from "copying/kinds.lua":
        a_userdata_of_a_kind_arrives_as_a_reference,
        a_userdata_that_is_shared_arrives_as_one,
        another_heap_receives_it,
        what_cannot_be_held_is_refused_with_the_reason,
        a_block_that_is_not_read_gives_its_references_back,
        without_memory_references_are_given_back,
        processes_send_them_beside_each_other;
    mod shapes from "copying/shapes.lua":
        tables_of_a_shape_arrive_each_time,
        all_numbers_of_keys_arrive,
        long_names_arrive,
        fields_that_were_removed_are_not_sent,
        a_shape_stands_beside_an_array_part_and_other_keys,
        what_arrived_can_be_changed,
        objects_of_classes_have_shapes,
        many_tables_of_some_shapes_arrive_in_one_message,
        a_block_is_smaller_if_its_tables_have_a_shape,
        references_are_kept_in_tables_of_a_shape,
        many_shapes_push_each_other_out,
        strings_that_were_collected_come_again,
        pairs_has_the_same_order_each_time,
        frozen_values_have_no_shapes,
        without_memory_there_is_luas_error_and_the_next_copy_arrives,
        another_heap_reads_shapes;
    mod fuzz from "copying/fuzz.lua":
        random_graphs_arrive_as_they_are,
        random_graphs_with_a_bad_value_are_refused_with_its_path;
    mod pressure from "copying/pressure.lua":
        the_collector_finds_nothing_amiss_in_any_mode,
        processes_copy_beside_each_other,
        a_killed_process_leaves_nothing_behind,
        without_memory_for_a_copy_there_is_luas_error,
        without_memory_for_a_frozen_value_there_is_luas_error,
        too_many_values_are_a_stack_overflow;
    mod frozen_sent from "copying/frozen_sent.lua":
        a_message_has_a_reference_to_it,
        another_heap_reads_it,
        it_outlives_the_heap_that_made_it,
        a_block_that_nobody_reads_releases_it;
}

cases! {
    mod frozen from "copying/frozen.lua":
        every_kind_of_value_is_read,
        keys_of_every_kind_are_found,
        nested_values_are_the_same_each_time,
        shared_tables_and_cycles_are_kept,
        a_frozen_value_is_iterated,
        holes_are_nil,
        a_change_is_refused_with_the_name_of_the_field,
        the_original_may_change_afterwards,
        plain_and_frozen_values_are_returned_as_they_are,
        what_cannot_be_frozen_is_refused_with_its_path,
        a_thawed_copy_is_plain,
        a_frozen_value_in_another_is_a_reference,
        a_class_gives_its_methods,
        a_million_tables_in_each_other_are_frozen,
        a_long_chain_of_frozen_values_is_freed,
        a_million_entries_are_read,
        random_tables_read_the_same_frozen_and_plain,
        memory_of_frozen_values_is_given_back,
        the_collector_may_run_at_any_read,
        finalizers_may_read_in_the_middle_of_a_collection,
        a_finalizer_reads_a_frozen_value_that_dies_with_it,
        a_frozen_value_that_a_finalizer_keeps_is_lost,
        processes_read_beside_each_other,
        the_library_debug_cannot_break_it;
}

#[test]
fn finalizers_at_the_end_read_frozen_values() {
    baton()
        .code(
            "local vm = require 'baton.vm'
             first = setmetatable({}, { __gc = function() print('first', frozen.list[1]) end })
             frozen = vm.freeze { list = { 'read', 'later' } }
             last = setmetatable({}, { __gc = function() print('last', frozen.list[2]) end })",
        )
        .run()
        .succeeds()
        .wrote("last\tlater\nfirst\tread\n");
}
