//! The tests that an emulator cannot run, each with its reason.

/// A test that is left out.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LeftOut {
    /// The name of its suite.
    pub(super) suite: &'static str,
    /// The test's whole name, without that of its program.
    pub(super) test: &'static str,
    /// What the emulator lacks.
    pub(super) why: &'static str,
}

/// All of them. `qemu` stands for qemu-user 7.2, which Debian 12 has.
const LEFT_OUT: &[LeftOut] = &[
    sys("a_copy_has_no_descriptor_but_its_pipe", COPIES),
    sys("a_copy_ends_at_its_limit_of_time", COPIES),
    sys("a_copy_is_no_fork", COPIES),
    sys("a_copy_sees_the_memory_of_its_moment", COPIES),
    sys("a_copy_that_is_dropped_ends_and_is_no_zombie", COPIES),
    sys("a_wait_for_any_child_does_not_find_a_copy", COPIES),
    sys("an_end_is_found_while_others_have_the_pipe", COPIES),
    sys(
        "a_reservation_that_is_refused_in_the_middle_leaves_as_many_stacks_as_before",
        "qemu ignores limits on address space (RLIMIT_AS)",
    ),
    sys(
        "a_reservation_beyond_the_processors_address_space_makes_nothing",
        RECORDS,
    ),
    stacks(
        "a_reservation_beyond_the_processors_address_space_makes_nothing",
        RECORDS,
    ),
    stacks("a_stack_has_the_reported_bounds", RESIDENCY),
    stacks(
        "another_default_size_has_slots_and_the_former_one_keeps_its_own",
        RESIDENCY,
    ),
    stacks(
        "sizes_beyond_the_eighth_have_mappings_of_their_own",
        RESIDENCY,
    ),
    stacks(
        "the_last_recycled_stack_is_the_first_used_again_with_its_memory",
        RESIDENCY,
    ),
    stacks("trimming_gives_back_the_memory_of_free_stacks", RESIDENCY),
    attached("a_forks_child_answers_for_itself"),
    attached("a_call_that_lets_others_run_is_foreign"),
    attached("a_process_that_computes_is_seen_and_goes_on"),
    attached("a_parameter_is_set_while_the_program_runs"),
    attached("counters_are_written_for_prometheus"),
    attached("an_exclusive_call_is_named_within_its_time"),
    attached("equal_stacks_are_merged_and_counted"),
    attached("each_command_can_start_a_script_and_runs_it_to_its_end"),
    attached("every_counter_has_its_meaning"),
    attached("stacks_as_json_have_frames_with_lines"),
    attached("stacks_say_where_each_process_is_and_what_it_waits_for"),
    attached("ten_thousand_processes_are_seen_in_parts"),
    attached("the_only_thread_in_a_call_leaves_a_note"),
    attached("a_process_is_killed_beside_a_foreign_call"),
    attached("a_process_is_killed_by_a_person"),
    attached("a_program_that_ends_ends_the_printed_tables"),
    attached("a_process_that_computes_is_killed_in_the_middle"),
    attached("a_program_that_is_held_is_shown_as_such_until_it_answers"),
    attached("any_size_will_do"),
    attached("keys_work_while_the_program_is_stopped"),
    attached("nothing_is_killed_without_write_or_without_a_terminal"),
    attached("other_orders_and_filters_choose_the_rows"),
    attached("shares_are_those_of_the_interval"),
    attached("the_last_table_stays_when_the_program_is_killed"),
    attached("ten_thousand_processes_are_listed_by_need"),
    attached("the_live_table_answers_keys_and_puts_the_terminal_back"),
    attached("the_plain_table_has_the_vm_and_the_first_processes"),
];

const COPIES: &str = "a copy of the program is a child that sends no signal at its end, and qemu's \
                      clone(2) makes children with SIGCHLD only";

const RESIDENCY: &str =
    "qemu keeps to large pages, but its mincore(2) answers for those of the machine";

const RECORDS: &str = "qemu keeps a record of each mapped page, which takes too much memory here";

const OTHER_PROGRAM: &str =
    "baton looks for itself in what a process has mapped as code, and qemu maps only itself so";

/// A test of `baton-sys`.
const fn sys(test: &'static str, why: &'static str) -> LeftOut {
    LeftOut {
        suite: "sys",
        test,
        why,
    }
}

/// A test of stacks, with larger pages than the machine's.
const fn stacks(test: &'static str, why: &'static str) -> LeftOut {
    LeftOut {
        suite: "large pages",
        test,
        why,
    }
}

/// A test that asks another program of Baton by its number.
const fn attached(test: &'static str) -> LeftOut {
    LeftOut {
        suite: "interpreter",
        test,
        why: OTHER_PROGRAM,
    }
}

/// Those of a suite.
pub(super) fn of(suite: &str) -> impl Iterator<Item = &'static LeftOut> {
    LEFT_OUT.iter().filter(move |test| test.suite == suite)
}

#[cfg(test)]
mod checks {
    use super::*;

    /// The test runner leaves out each test whose name contains that of a listed one.
    #[test]
    fn no_name_is_part_of_another_and_each_has_a_reason() {
        for (number, one) in LEFT_OUT.iter().enumerate() {
            assert!(one.why.len() > 10, "{one:?}");
            for other in &LEFT_OUT[number + 1..] {
                let is_same = one.suite == other.suite;
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
}
