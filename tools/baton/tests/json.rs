//! Tests `baton.json`.

mod harness;

use harness::cases;

cases! {
    mod as_lua_cjson from "json/as_lua_cjson.lua":
        results_and_messages_are_those_of_lua_cjson,
        the_installed_lua_cjson_reads_what_is_written;
    mod decode from "json/decode.lua":
        values_of_all_kinds_come_with_their_types,
        an_integer_that_does_not_fit_is_a_float,
        floats_are_those_that_lua_reads,
        floats_do_not_depend_on_the_locale,
        escapes_become_bytes,
        other_bytes_stay_as_they_are,
        of_equal_keys_the_last_one_stays,
        large_containers_are_whole,
        what_is_no_json_is_refused_with_the_place,
        what_only_javascript_has_is_refused_on_request,
        comments_are_white_space_on_request,
        depth_is_bounded,
        size_is_bounded_on_request,
        a_long_number_is_refused,
        arrays_are_marked_on_request,
        null_is_sent_to_other_vms,
        misuse_raises,
        no_text_breaks_it,
        others_run_during_a_large_text,
        a_kill_ends_it_in_the_middle;
    mod encode from "json/encode.lua":
        scalars_are_written_as_lua_cjson_does,
        floats_have_the_digits_of_the_c_library,
        seventeen_digits_give_the_same_number_again,
        long_strings_are_whole,
        a_table_with_positive_integers_is_an_array,
        metatables_tell_arrays_from_objects,
        what_json_does_not_have_is_refused,
        numbers_that_json_does_not_have_are_written_on_request,
        unsupported_values_are_left_out_on_request,
        an_indentation_makes_lines,
        depth_is_bounded,
        size_is_bounded_on_request,
        each_table_of_the_module_has_settings_of_its_own,
        others_run_during_a_large_value,
        tables_may_change_in_the_middle,
        a_kill_ends_it_in_the_middle,
        memory_that_runs_out_leaves_nothing_behind;
}
