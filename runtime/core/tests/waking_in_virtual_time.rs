//! A process that is woken by an operation runs when the rules say in simulated runs, too: see
//! `waking_matrix`. In real time: `waking.rs`. The virtual clock is the whole program's, so this is
//! the only test of its program.

mod mock_guest;
mod waking_matrix;

use waking_matrix::{Interrupt, all_run_when_they_must_in};

/// No event comes from outside of a simulated run, so the other interrupts do not apply.
#[test]
fn a_process_woken_by_an_operation_runs_when_the_rules_say_with_every_seed() {
    for seed in 1..=20 {
        all_run_when_they_must_in(|vm| vm.simulate(seed), Interrupt::None);
    }
}
