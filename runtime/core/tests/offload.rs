//! Foreign calls that are known to be long: the caller moves, and the VM stays.

mod mock_guest;

use baton_core::sched::ProcessId;
use baton_core::vm::Offloaded;
use baton_sys::gate;
use mock_guest::{native_thread, run};
use std::sync::mpsc::channel;

#[test]
fn a_call_that_moves_leaves_the_vm_where_it_is() {
    run(|main| {
        let home = native_thread();
        let processes: Vec<ProcessId> = (0..8)
            .map(|_| {
                main.spawn(move |process| {
                    for _ in 0..50 {
                        let (inside, offloaded) = process.foreign_elsewhere(native_thread)?;
                        assert_eq!(offloaded, Offloaded::Moved);
                        assert_ne!(inside, home);
                        assert_eq!(native_thread(), home);
                    }
                    Ok(())
                })
            })
            .collect();
        main.join_all(processes)?;
        assert_eq!(main.vm.counters.moves.get(), 400);
        assert_eq!(main.vm.counters.handovers.get(), 0);
        Ok(())
    });
}

#[test]
fn an_abandoned_retake_does_not_delay_an_offload() {
    run(|main| {
        let process = main.spawn(|process| {
            gate::here().revoke();
            assert_eq!(process.foreign_elsewhere(|| ())?.1, Offloaded::Moved);
            Ok(())
        });
        main.join(process)
    });
}

#[test]
fn a_process_that_is_bound_does_not_move() {
    run(|main| {
        let (_, offloaded) = main.foreign_elsewhere(|| ())?;
        assert_eq!(offloaded, Offloaded::Stays, "the main process prefers home");
        Ok(())
    });
}

#[test]
fn without_a_free_thread_no_call_is_offloaded() {
    run(|main| {
        main.vm.parameters.set_max_threads(2);
        let (entered, is_entered) = channel();
        let (leave, may_leave) = channel::<()>();
        let first = main.spawn(move |process| {
            let call = || {
                entered.send(()).expect("there is a receiver");
                may_leave.recv().expect("there is a sender");
            };
            assert_eq!(process.foreign_elsewhere(call)?.1, Offloaded::Moved);
            Ok(())
        });
        main.yield_now()?;
        main.foreign(|| is_entered.recv().expect("the first call has begun"))?;
        let second = main.spawn(move |process| {
            assert_eq!(process.foreign_elsewhere(|| ())?.1, Offloaded::NoThread);
            leave.send(()).expect("the first call waits");
            Ok(())
        });
        main.join_all([first, second])
    });
}
