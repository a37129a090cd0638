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
struct LeftOutGroup {
    /// The name of the suite.
    suite: &'static str,
    /// See [`LeftOut::program`].
    program: Option<&'static str>,
    why: &'static str,
    tests: &'static [&'static str],
}

/// All of them. `qemu` stands for qemu-user 7.2, which Debian 12 has.
const LEFT_OUT: &[LeftOutGroup] = &[
    LeftOutGroup {
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
    LeftOutGroup {
        suite: "sys",
        program: None,
        why: "qemu ignores limits on address space (RLIMIT_AS)",
        tests: &["a_reservation_that_is_refused_in_the_middle_leaves_as_many_stacks_as_before"],
    },
    LeftOutGroup {
        suite: "sys",
        program: None,
        why: RECORDS,
        tests: &["a_reservation_beyond_the_processors_address_space_makes_nothing"],
    },
    LeftOutGroup {
        suite: "large pages",
        program: None,
        why: RECORDS,
        tests: &["a_reservation_beyond_the_processors_address_space_makes_nothing"],
    },
    LeftOutGroup {
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
        "attach",
        OTHER_CODE,
        &["an_exclusive_call_is_named_within_its_time"],
    ),
    of_baton(
        "attach",
        COPIES,
        &["each_command_can_start_a_script_and_runs_it_to_its_end"],
    ),
    of_baton(
        "attach",
        OWN_THREAD,
        &["without_a_monitor_a_call_leaves_a_note"],
    ),
    of_baton(
        "attach_clients",
        ENDED_THREADS,
        &["a_thousand_attaches_in_a_row_leave_nothing_behind"],
    ),
    of_baton(
        "attach_clients",
        FORKED_BESIDE_OTHERS,
        &["several_clients_are_served_at_once"],
    ),
    of_baton(
        "attach_heap",
        COPIES,
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
        COPIES,
        &[
            "a_client_that_is_killed_leaves_no_copy_behind",
            "a_copy_ends_with_its_program",
            "a_copy_that_is_killed_is_reported",
            "a_program_that_waits_for_its_children_is_not_disturbed",
            "a_second_client_at_the_same_time_is_refused",
            "many_snapshots_in_a_row_leave_nothing_behind",
            "the_heap_is_read_beside_an_exclusive_call",
            "the_program_stands_still_only_while_it_is_copied",
        ],
    ),
    of_baton(
        "attach_heap_copies",
        FILTERS,
        &["a_system_that_refuses_a_copy_is_named"],
    ),
    of_baton(
        "attach_top",
        OWN_THREAD,
        &["a_program_that_ends_ends_the_printed_tables"],
    ),
    of_baton(
        "attach_top",
        TERMINALS,
        &[
            "a_process_is_killed_beside_a_foreign_call",
            "a_process_is_killed_by_a_person",
            "a_process_that_computes_is_killed_in_the_middle",
            "a_program_that_is_held_is_shown_as_such_until_it_answers",
            "any_size_will_do",
            "keys_work_while_the_program_is_stopped",
            "nothing_is_killed_without_write_or_without_a_terminal",
            "ten_thousand_processes_are_listed_by_need",
            "the_last_table_stays_when_the_program_is_killed",
            "the_live_table_answers_keys_and_puts_the_terminal_back",
        ],
    ),
    of_baton(
        "cluster_failures",
        FORKED,
        &["a_forks_child_has_a_closed_connection_and_its_parent_goes_on"],
    ),
    of_baton(
        "concurrency_ffi",
        OWN_THREAD,
        &[
            "a_deadlock_is_reported_although_callbacks_exist_if_no_thread_can_call_them",
            "a_deadlock_is_reported_once_the_last_thread_that_could_call_back_has_ended",
        ],
    ),
    of_baton(
        "definitions",
        COPIES,
        &["the_definitions_of_inspect_have_its_names"],
    ),
    of_baton(
        "ffi",
        "libm.so is a file for development, which the emulator's root does not have",
        &["calls::a_library_is_found_by_its_short_name"],
    ),
    of_baton(
        "forking",
        FORKED,
        &[
            "a_deadlock_of_the_child_is_reported",
            "a_kill_of_the_process_that_forked_is_no_failure",
            "any_process_of_the_child_may_end_it",
            "children::a_child_may_fork_again",
            "children::a_child_of_a_bound_process_is_bound_to_its_only_thread",
            "children::a_retaken_call_may_fork_beside_loops",
            "children::a_retaken_call_may_fork_while_the_others_sleep",
            "children::a_retaken_call_may_fork_while_the_owner_cannot_be_preempted",
            "children::a_retaken_call_may_fork_while_the_owner_is_out",
            "children::fifty_forks_in_a_row_beside_loops_and_calls",
            "children::many_processes_fork_at_once",
            "children::the_child_can_do_everything",
            "children::the_child_of_an_idle_program_can_do_everything",
            "children::the_others_are_dead_in_the_child",
            "joining_the_process_that_forked_returns_its_results",
            "the_child_waits_for_what_it_has_spawned_and_closes_its_daemons",
            "the_main_process_of_a_child_goes_on_to_the_end_of_the_script",
        ],
    ),
    of_baton("inspecting", COPIES, &["files_are_written_by_their_suffix"]),
    of_baton(
        "metrics_served",
        OWN_RIGHTS,
        &["a_setuid_program_ignores_the_variable"],
    ),
    of_baton(
        "modules",
        FORKED,
        &["a_child_of_fork_has_only_the_process_that_forked"],
    ),
    of_baton(
        "out_of_memory",
        LITTLE_MEMORY,
        &[
            "alarm",
            "array",
            "barrier",
            "callback",
            "callback_in_its_place",
            "channel",
            "channel_with_a_value",
            "condition",
            "constant",
            "declared_structure",
            "event",
            "finalizers_get_what_little_memory_is_left",
            "frozen_value",
            "function_type",
            "further_arguments",
            "large_declaration",
            "large_frozen_value",
            "large_heap",
            "library",
            "linked_process",
            "monitored_process",
            "mutex",
            "object_with_a_name",
            "periodic_timer",
            "pointer_type",
            "prepared_function",
            "process",
            "process_in_a_long_select",
            "process_that_is_joined",
            "process_that_waits",
            "process_with_a_small_stack",
            "process_with_many_arguments",
            "rwlock",
            "semaphore",
            "structure",
            "suspended_process",
            "thawed_value",
            "timer",
            "value_in_a_channel",
            "with_more_memory_the_tables_are_larger_and_the_same_holds",
        ],
    ),
    of_baton("packages", OUTSIDE_ROOT, &["sql_odbc"]),
    of_baton(
        "simulation_vms",
        FORKED,
        &["a_forks_child_starts_vms_of_its_own"],
    ),
    of_baton(
        "vms",
        ENDED_THREADS,
        &["ending::nothing_is_left_of_five_hundred_vms"],
    ),
    of_baton(
        "vms_program",
        FORKED,
        &["a_forks_child_has_one_vm_and_can_start_others"],
    ),
    of_baton(
        "worked_cases",
        COPIES,
        &["the_sessions_that_grow_are_kept_by_listeners"],
    ),
];

const COPIES: &str = "a copy of the program is a child that sends no signal at its end, and qemu's \
                      clone(2) makes children with SIGCHLD only";

const RESIDENCY: &str =
    "qemu keeps to large pages, but its mincore(2) answers for those of the machine";

const RECORDS: &str = "qemu keeps a record of each mapped page, which takes too much memory here";

const OTHER_CODE: &str =
    "baton names the modules whose code a process has mapped, and qemu maps its own only";

const FORKED: &str = "qemu ends with an assertion where the child of a fork starts threads";

const LITTLE_MEMORY: &str =
    "qemu ends with the program if a limit on address space leaves it no memory (ulimit -v)";

const ENDED_THREADS: &str =
    "qemu 7.2 keeps 280 KiB of each thread that has ended, also in a program of ten lines";

const FORKED_BESIDE_OTHERS: &str = "a child of qemu's fork can wait for ever for a lock of another \
                                    thread, and here several threads start programs";

const OUTSIDE_ROOT: &str = "qemu 7.2 does not look in its root for what faccessat(2) asks for, so \
                            unixODBC finds no driver";

const OWN_RIGHTS: &str = "an emulated program has no rights of its file (setuid); with the flag C \
                          of binfmt_misc it has, but then a closed stdin is the file";

const FILTERS: &str = "qemu has no seccomp(2)";

const OWN_THREAD: &str = "qemu has a thread of its own, so a program never has one thread only";

const TERMINALS: &str = "qemu does not know the ioctl that asks for a terminal's modes (ENOSYS)";

/// Tests of a test program of the interpreter.
const fn of_baton(
    program: &'static str,
    why: &'static str,
    tests: &'static [&'static str],
) -> LeftOutGroup {
    LeftOutGroup {
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

    #[test]
    fn each_test_is_listed_once_and_has_a_reason() {
        for suite in ["sys", "large pages", "interpreter"] {
            let all: Vec<_> = of(suite).collect();
            for (number, one) in all.iter().enumerate() {
                assert!(one.why.len() > 10, "{one:?}");
                let is_again =
                    |other: &LeftOut| (one.program, one.test) == (other.program, other.test);
                assert!(!all[number + 1..].iter().any(is_again), "{one:?}");
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
