//! A process that is woken by an operation, a signal handler or a foreign thread runs when the
//! rules say: see `waking_matrix`. In virtual time: `waking_in_virtual_time.rs`.

mod mock_guest;
mod waking_matrix;

use waking_matrix::{Interrupt, all_run_when_they_must, several_run_in_order, with_handler};

#[test]
fn a_process_woken_by_an_operation_runs_when_the_rules_say() {
    all_run_when_they_must(Interrupt::None);
}

#[test]
fn a_process_woken_by_a_signal_handler_runs_when_the_rules_say() {
    with_handler(all_run_when_they_must);
}

#[test]
fn a_process_woken_by_a_foreign_thread_runs_when_the_rules_say() {
    all_run_when_they_must(Interrupt::Thread);
}

#[test]
fn processes_woken_by_operations_run_by_priority_and_then_in_order() {
    several_run_in_order(Interrupt::None);
}

#[test]
fn processes_woken_by_a_signal_handler_run_by_priority_and_then_in_order() {
    with_handler(several_run_in_order);
}

#[test]
fn processes_woken_by_a_foreign_thread_run_by_priority_and_then_in_order() {
    several_run_in_order(Interrupt::Thread);
}
