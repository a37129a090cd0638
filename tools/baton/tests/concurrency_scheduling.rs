//! Who runs: critical sections, directed yields.

mod harness;

use harness::cases;

cases! {
    mod critical from "processes/critical.lua":
        critical_passes_arguments_and_results,
        nobody_else_runs_inside_a_critical_section,
        critical_sections_nest,
        an_error_ends_the_section,
        only_a_wait_that_would_block_raises,
        a_mutex_of_another_cannot_be_waited_for_inside,
        timers_that_are_due_inside_fire_after,
        suspending_oneself_leaves_the_section_and_takes_it_again,
        a_kill_is_held_back_inside_a_section,
        a_process_suspended_out_of_its_section_can_be_killed,
        a_foreign_call_inside_a_section_is_not_retaken,
        a_coroutine_cannot_leave_a_section_by_a_yield,
        an_interrupt_that_comes_inside_is_raised_after,
        exit_from_inside_a_section_closes_the_others,
        misuse_of_critical_and_yield_to_raises,
        a_directed_yield_goes_to_an_equal_out_of_turn,
        a_directed_yield_falls_back_to_the_next,
        a_process_that_is_not_preemptible_runs_until_it_waits;
}
