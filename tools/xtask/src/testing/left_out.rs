//! The tests that an emulator cannot run, each with its reason.

/// A test that is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LeftOut {
    /// The test program, if not all of the suite leave it out.
    pub(super) program: Option<&'static str>,
    /// The test's whole name, without that of its program.
    pub(super) test: &'static str,
    /// What the emulator lacks.
    pub(super) why: &'static str,
}

/// Tests of a suite that are left out for the same reason.
struct Group {
    /// The name of the suite.
    suite: &'static str,
    /// See [`LeftOut::program`].
    program: Option<&'static str>,
    why: &'static str,
    tests: &'static [&'static str],
}

/// All of them. `qemu` stands for qemu-user 7.2, which Debian 12 has.
const LEFT_OUT: &[Group] = &[
    Group {
        suite: "sys",
        program: None,
        why: COPIES,
        tests: &[
            "a_copy_has_no_descriptor_but_its_pipe",
            "a_copy_ends_at_its_limit_of_time",
            "a_copy_is_no_fork",
            "a_copy_sees_the_memory_of_its_moment",
            "a_copy_that_is_dropped_ends_and_is_no_zombie",
            "a_wait_for_any_child_does_not_find_a_copy",
            "an_end_is_found_while_others_have_the_pipe",
        ],
    },
    Group {
        suite: "sys",
        program: None,
        why: "qemu ignores limits on address space (RLIMIT_AS)",
        tests: &["a_reservation_that_is_refused_in_the_middle_leaves_as_many_stacks_as_before"],
    },
    Group {
        suite: "sys",
        program: None,
        why: RECORDS,
        tests: &["a_reservation_beyond_the_processors_address_space_makes_nothing"],
    },
    Group {
        suite: "large pages",
        program: None,
        why: RECORDS,
        tests: &["a_reservation_beyond_the_processors_address_space_makes_nothing"],
    },
    Group {
        suite: "large pages",
        program: None,
        why: RESIDENCY,
        tests: &[
            "a_stack_has_the_reported_bounds",
            "another_default_size_has_slots_and_the_former_one_keeps_its_own",
            "sizes_beyond_the_eighth_have_mappings_of_their_own",
            "the_last_recycled_stack_is_the_first_used_again_with_its_memory",
            "trimming_gives_back_the_memory_of_free_stacks",
        ],
    },
    of_baton(
        "allocation_profile",
        OTHER_PROGRAM,
        &[
            "a_forks_child_goes_on_without_the_profile",
            "a_growing_stack_is_counted_where_it_grows",
            "a_script_is_profiled_to_its_end",
            "buffers_of_calls_that_run_beside_others_are_counted",
            "each_line_gets_its_own_bytes",
            "each_suffix_gives_its_format",
            "known_shares_are_found_within_two_points",
            "two_profiles_at_once_see_the_same",
        ],
    ),
    of_baton(
        "attach",
        OTHER_PROGRAM,
        &[
            "a_call_that_lets_others_run_is_foreign",
            "a_forks_child_answers_for_itself",
            "a_parameter_is_set_while_the_program_runs",
            "a_process_that_computes_is_seen_and_goes_on",
            "an_exclusive_call_is_named_within_its_time",
            "counters_are_written_for_prometheus",
            "each_command_can_start_a_script_and_runs_it_to_its_end",
            "equal_stacks_are_merged_and_counted",
            "every_counter_has_its_meaning",
            "stacks_as_json_have_frames_with_lines",
            "stacks_say_where_each_process_is_and_what_it_waits_for",
            "ten_thousand_processes_are_seen_in_parts",
            "the_only_thread_in_a_call_leaves_a_note",
        ],
    ),
    of_baton(
        "attach_clients",
        OTHER_PROGRAM,
        &[
            "a_client_that_is_killed_leaves_the_program_as_it_was",
            "a_forks_child_does_not_keep_a_clients_connection",
            "a_forks_child_does_not_keep_a_debuggers_connection",
            "a_program_that_receives_sigquit_does_not_receive_that_of_observers",
            "a_thousand_attaches_in_a_row_leave_nothing_behind",
            "a_wrong_or_hostile_client_harms_nobody",
            "several_clients_are_served_at_once",
        ],
    ),
    of_baton(
        "attach_heap",
        OTHER_PROGRAM,
        &[
            "a_coroutine_of_a_process_and_a_variable_of_a_function_are_named",
            "a_heap_that_changes_is_consistent",
            "a_leak_is_found_with_what_keeps_it",
            "a_local_variable_of_a_process_is_named",
            "a_table_shows_the_largest_classes",
            "a_weak_table_keeps_nothing_but_values_of_living_keys",
            "chromes_loader_reads_a_snapshot",
            "files_are_for_their_owner_and_mistakes_cost_the_program_nothing",
            "the_sizes_add_up_to_what_lua_has_allocated",
            "what_lies_above_the_top_of_a_stack_is_not_read",
        ],
    ),
    of_baton(
        "attach_heap_copies",
        OTHER_PROGRAM,
        &[
            "a_client_that_is_killed_leaves_no_copy_behind",
            "a_copy_ends_with_its_program",
            "a_copy_that_is_killed_is_reported",
            "a_program_that_waits_for_its_children_is_not_disturbed",
            "a_second_client_at_the_same_time_is_refused",
            "a_simulated_run_is_not_interrupted",
            "many_snapshots_in_a_row_leave_nothing_behind",
            "the_heap_is_read_beside_an_exclusive_call",
            "the_program_stands_still_only_while_it_is_copied",
            "values_are_not_shown_unless_the_program_allows_that",
        ],
    ),
    of_baton(
        "attach_heap_copies",
        FILTERS,
        &["a_system_that_refuses_a_copy_is_named"],
    ),
    of_baton(
        "attach_rights",
        OTHER_PROGRAM,
        &[
            "a_program_may_be_read_but_not_changed_unless_it_allows_that",
            "a_program_may_refuse_everything",
            "another_user_is_refused",
        ],
    ),
    of_baton(
        "attach_rights",
        ONE_USER,
        &["root_attaches_to_the_program_of_another_user"],
    ),
    of_baton(
        "attach_top",
        OTHER_PROGRAM,
        &[
            "a_process_is_killed_beside_a_foreign_call",
            "a_process_is_killed_by_a_person",
            "a_process_that_computes_is_killed_in_the_middle",
            "a_program_that_ends_ends_the_printed_tables",
            "a_program_that_is_held_is_shown_as_such_until_it_answers",
            "any_size_will_do",
            "keys_work_while_the_program_is_stopped",
            "nothing_is_killed_without_write_or_without_a_terminal",
            "other_orders_and_filters_choose_the_rows",
            "shares_are_those_of_the_interval",
            "ten_thousand_processes_are_listed_by_need",
            "the_last_table_stays_when_the_program_is_killed",
            "the_live_table_answers_keys_and_puts_the_terminal_back",
            "the_plain_table_has_the_vm_and_the_first_processes",
        ],
    ),
    of_baton(
        "debugging_processes",
        OTHER_PROGRAM,
        &[
            "a_process_that_has_stopped_is_no_deadlock_and_is_shown_as_holder",
            "a_program_that_allows_only_to_be_seen_is_not_debugged",
            "a_running_program_is_debugged_and_let_go",
            "only_one_debugger_is_attached_at_once",
            "when_the_debugger_is_killed_all_goes_on_without_breakpoints",
        ],
    ),
    of_baton(
        "metrics_served",
        OTHER_PROGRAM,
        &[
            "curl_reads_the_metrics_from_a_unix_socket",
            "the_counters_mean_what_the_definitions_say",
        ],
    ),
    of_baton(
        "modules",
        FORKED,
        &["a_child_of_fork_has_only_the_process_that_forked"],
    ),
];

const COPIES: &str = "a copy of the program is a child that sends no signal at its end, and qemu's \
                      clone(2) makes children with SIGCHLD only";

const RESIDENCY: &str =
    "qemu keeps to large pages, but its mincore(2) answers for those of the machine";

const RECORDS: &str = "qemu keeps a record of each mapped page, which takes too much memory here";

const OTHER_PROGRAM: &str =
    "baton looks for itself in what a process has mapped as code, and qemu maps only itself so";

const FORKED: &str = "qemu ends with an assertion where the child of a fork starts threads";

const FILTERS: &str = "qemu has no seccomp(2)";

const ONE_USER: &str = "the emulator is registered in a user namespace, which has one user only";

/// Tests of a test program of the interpreter.
const fn of_baton(
    program: &'static str,
    why: &'static str,
    tests: &'static [&'static str],
) -> Group {
    Group {
        suite: "interpreter",
        program: Some(program),
        why,
        tests,
    }
}

/// Those of a suite.
pub(super) fn of(suite: &str) -> impl Iterator<Item = LeftOut> {
    let groups = LEFT_OUT.iter().filter(move |group| group.suite == suite);
    groups.flat_map(|group| {
        group.tests.iter().map(|test| LeftOut {
            program: group.program,
            test,
            why: group.why,
        })
    })
}

/// Those that a test program of a suite leaves out.
pub(super) fn of_program(suite: &str, program: &str) -> impl Iterator<Item = LeftOut> {
    of(suite).filter(move |test| test.program.is_none_or(|its| its == program))
}

#[cfg(test)]
mod checks {
    use super::*;
    use crate::{test_programs, workspace};

    /// The test runner leaves out each test whose name contains that of a listed one.
    #[test]
    fn no_name_is_part_of_another_and_each_has_a_reason() {
        for suite in ["sys", "large pages", "interpreter"] {
            let all: Vec<_> = of(suite).collect();
            for (number, one) in all.iter().enumerate() {
                assert!(one.why.len() > 10, "{one:?}");
                for other in &all[number + 1..] {
                    let is_same = one.program == other.program;
                    assert!(
                        !is_same || !one.test.contains(other.test),
                        "{one:?}, {other:?}"
                    );
                    assert!(
                        !is_same || !other.test.contains(one.test),
                        "{one:?}, {other:?}"
                    );
                }
            }
        }
        assert!(LEFT_OUT.iter().all(|group| of(group.suite).count() > 0));
    }

    #[test]
    fn the_named_programs_exist() {
        let programs = test_programs::names_in(&workspace::root().join("tools/baton"));
        for test in of("interpreter") {
            let program = test.program.expect("each names its program");
            assert!(programs.iter().any(|name| name == program), "{program}");
        }
    }

    #[test]
    fn a_program_leaves_out_its_own_tests_and_those_of_the_whole_suite() {
        let all = of("interpreter").count();
        let of_attach = of_program("interpreter", "attach").count();
        assert!(0 < of_attach && of_attach < all);
        assert_eq!(of_program("interpreter", "tour").count(), 0);
        assert_eq!(of_program("sys", "stacks").count(), of("sys").count());
    }
}
