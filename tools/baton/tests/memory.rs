//! Tests memory: processes and objects that have ended leave nothing behind.

mod harness;

use harness::cases;

cases! {
    mod memory from "memory.lua":
        twenty_thousand_failing_processes_five_times,
        twenty_thousand_unjoined_failures_five_times,
        ten_thousand_processes_spawned_and_killed_five_times,
        ten_thousand_processes_killed_before_their_start_five_times,
        a_hundred_thousand_objects_five_times,
        ten_thousand_timers_five_times,
        a_long_lived_process_that_waits_often_grows_nothing,
        deep_recursion_in_many_processes_gives_its_stack_back,
        commands_and_pipes_leave_no_descriptors,
        values_held_by_the_dead_are_collected;
}
