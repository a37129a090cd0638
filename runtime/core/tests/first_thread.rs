//! A VM on the program's first thread, which gets the signals. Tests run on threads of their own,
//! so this program has no harness.

mod mock_guest;

use baton_core::vm::Vm;
use mock_guest::run_here;
use std::sync::atomic::Ordering;

fn main() {
    a_vm_that_spawns_nothing_has_one_thread();
    what_a_handler_asked_for_before_the_run_is_heard();
    println!("2 passed");
}

fn a_vm_that_spawns_nothing_has_one_thread() {
    run_here(
        |_| {},
        |main| {
            main.yield_now()?;
            assert_eq!(main.vm.own_threads(), 1);
            Ok(())
        },
    );
}

fn what_a_handler_asked_for_before_the_run_is_heard() {
    run_here(Vm::request_signalled, |main| {
        main.spin_until(|| main.mock.signals.load(Ordering::Relaxed) > 0)
    });
}
