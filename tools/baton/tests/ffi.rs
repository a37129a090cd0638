//! Tests `require "baton.ffi"`: calls of C functions, and callbacks.

mod harness;

use harness::{baton, cases};

cases! {
    mod values from "ffi/values.lua":
        the_name_ffi_is_found_only_if_the_program_gives_it,
        the_module_names_its_system,
        sizes_alignments_and_offsets_are_those_of_c,
        bit_fields_are_read_and_written,
        numbers_wrap_as_in_c,
        unsigned_64_bit_numbers_above_the_middle_are_cdata,
        structures_are_initialized_by_lists_tables_and_copies,
        unions_share_their_memory,
        arrays_are_initialized_and_filled,
        too_many_initializers_change_nothing,
        structures_of_variable_length_have_room_for_their_tail,
        an_object_of_variable_length_has_the_size_that_it_was_made_with,
        enumerations_are_numbers_and_take_names,
        a_type_that_was_used_before_its_definition_is_known_after_it,
        a_predeclared_name_is_declared_by_the_program,
        a_type_without_a_definition_is_refused_where_a_size_is_needed,
        pointers_are_compared_moved_and_subtracted,
        a_pointer_to_a_structure_is_indexed_like_it,
        conversions_between_pointers_are_checked,
        pointers_to_integers_of_one_size_convert_whatever_their_signs,
        constants_are_not_written_to,
        strings_are_copied_between_lua_and_c,
        lengths_may_be_integers_of_c,
        types_are_values,
        istype_ignores_qualifiers_and_follows_pointers_to_structures,
        a_type_may_be_derived_any_number_of_times,
        metatypes_give_methods_and_operators,
        metamethods_that_are_called_by_hand_check_what_they_are_given,
        a_metamethod_for_new_members_gets_three_arguments,
        a_library_that_was_closed_explicitly_is_not_searched,
        finalizers_run_once_and_may_be_taken_back,
        a_finalizer_can_be_called,
        a_member_keeps_its_structure_alive,
        complex_numbers_have_parts,
        complex_numbers_and_their_types_are_written_as_by_luajit,
        a_number_is_no_address_of_memory,
        wrong_declarations_are_reported_with_line_and_column,
        misuse_is_reported;
    mod types from "ffi/types.lua":
        a_text_without_tags_stands_for_one_type,
        a_text_defines_a_new_type_once_the_first_one_has_a_metatable,
        a_text_with_a_tag_or_constants_defines_once,
        members_of_a_constant_object_are_constant,
        references_lead_to_other_memory,
        a_structure_with_an_open_end_takes_a_length,
        a_string_of_lua_is_a_string_of_c,
        a_pointer_is_null_or_not,
        metatypes_close_their_objects_and_have_a_name;
    mod calls from "ffi/calls.lua":
        integers_of_all_widths_go_in_and_out,
        booleans_and_floating_point_numbers_go_in_and_out,
        a_library_is_found_by_its_short_name,
        enumerations_take_names,
        structures_and_unions_go_by_value,
        more_arguments_than_registers_are_passed,
        variable_arguments_have_the_types_of_their_values,
        null_is_passed_as_nil_and_comes_back_as_a_pointer,
        variables_and_constants_of_a_library_are_its_members,
        errno_is_kept_for_each_process,
        one_function_is_prepared_from_its_prototype,
        functions_are_called_through_pointers,
        wrong_calls_raise_clear_errors,
        a_string_argument_lives_as_long_as_the_call,
        memory_that_only_the_call_knows_is_not_collected;
    mod libraries from "ffi/libraries.lua":
        sqlite_hands_its_rows_to_a_callback,
        sqlite_reports_errors_and_takes_an_abort,
        a_long_query_does_not_stop_a_ticker,
        curl_hands_what_it_reads_to_a_callback,
        curl_is_stopped_by_a_callback_and_tells_its_error,
        zlib_compresses_and_expands;
}

#[test]
fn a_thread_calls_back_100000_times() {
    let run = baton()
        .script("ffi/crowd.lua")
        .arg("a_thread_calls_back_100000_times");
    run.patiently(10).run().succeeds().quietly();
}
