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
];

const COPIES: &str = "a copy of the program is a child that sends no signal at its end, and qemu's \
                      clone(2) makes children with SIGCHLD only";

const RESIDENCY: &str =
    "qemu keeps to large pages, but its mincore(2) answers for those of the machine";

const RECORDS: &str = "qemu keeps a record of each mapped page, which takes too much memory here";

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
