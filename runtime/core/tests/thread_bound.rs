//! The bound on native threads: as many calls are out as there are threads, and the others wait in
//! order.

mod mock_guest;

use baton_core::sched::{ProcessId, WakeReason};
use baton_core::vm::Vm;
use mock_guest::{Block, Killed, Process, await_event, run_unbound, start};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Calls that did not wait in the queue may take a few more threads.
const MOST_ABOVE_THE_BOUND: usize = 5;

/// Equals switch only where the test says so.
fn two_threads_without_slices(vm: &Vm) {
    vm.parameters.set_max_threads(2);
    vm.parameters.slice.set(Duration::from_secs(3600));
}

/// Calls of many processes at once. Each ends when all of the first `wanted` are out.
fn calls_at_once(processes: usize, wanted: usize, bound: usize) -> Arc<Vm> {
    let out = Arc::new(AtomicU64::new(0));
    let (releases, released): (Vec<Sender<()>>, Vec<Receiver<()>>) =
        (0..processes).map(|_| channel()).unzip();
    let of_calls = Arc::clone(&out);
    let released = Mutex::new(released);
    let running = start(
        |vm| vm.parameters.set_max_threads(bound),
        move |main| {
            let released = released.into_inner().expect("no thread panics");
            let callers: Vec<_> = released
                .into_iter()
                .map(|released| {
                    let out = Arc::clone(&of_calls);
                    main.spawn(move |process| {
                        process.foreign(|| {
                            out.fetch_add(1, Ordering::Relaxed);
                            let _ = released.recv();
                        })
                    })
                })
                .collect();
            main.join_all(callers)
        },
    );
    await_event("enough calls are out", || {
        out.load(Ordering::Relaxed) >= wanted as u64
    });
    if processes > bound {
        let hits = &running.vm.counters.thread_bound_hits;
        await_event("the bound is hit", || hits.get() > 0);
    }
    assert!(running.vm.threads() <= bound + MOST_ABOVE_THE_BOUND);
    releases
        .iter()
        .for_each(|release| release.send(()).expect("the calls wait"));
    running.finish().vm
}

#[test]
fn as_many_calls_are_out_at_once_as_there_are_threads() {
    let vm = calls_at_once(40, 40, 40);
    // The last call keeps no process waiting.
    assert!(vm.counters.retakes.get() >= 39);
    assert_eq!(vm.counters.thread_bound_hits.get(), 0);
}

#[test]
fn calls_beyond_the_bound_of_threads_wait_and_are_counted() {
    let vm = calls_at_once(30, 4, 4);
    assert!(vm.counters.thread_bound_hits.get() > 0);
    assert!(vm.counters.threads_started.get() <= 3 + MOST_ABOVE_THE_BOUND as u64);
}

/// Starts two processes that are out in calls until the blocks end.
fn two_calls(main: &Process) -> Result<(Vec<Block>, Vec<ProcessId>), Killed> {
    let (blocks, calls): (Vec<_>, Vec<_>) = (0..2).map(|_| Block::new()).unzip();
    let out = calls
        .into_iter()
        .map(|call| main.spawn(move |process| process.foreign(call)));
    let out = out.collect();
    main.yield_until(|| main.vm.sched(|sched| sched.foreign_count()) == 2)?;
    Ok((blocks, out))
}

#[test]
fn waiters_for_a_thread_get_it_in_order_though_their_calls_end_at_once() {
    run_unbound(two_threads_without_slices, |main| {
        let (blocks, out) = two_calls(main)?;
        let order: Arc<Mutex<Vec<usize>>> = Arc::default();
        let brief = |number| {
            let order = Arc::clone(&order);
            main.spawn(move |process| {
                assert_eq!(process.vm.wait_for_thread().reason, WakeReason::Done);
                order.lock().expect("no thread panics").push(number);
                process.foreign(|| ())
            })
        };
        let first = brief(0);
        main.yield_until(|| main.vm.counters.thread_bound_hits.get() >= 1)?;
        blocks[0].end();
        // Processes that ask after the first one was woken, but before it continues, do not
        // overtake it.
        let late: Vec<_> = (1..20).map(brief).collect();
        main.spin_until(|| main.vm.sched(|sched| sched.foreign_count()) == 1)?;
        main.join(first)?;
        main.join_all(late)?;
        assert!(
            order.lock().expect("no thread panics").is_sorted(),
            "{order:?}"
        );
        blocks[1].end();
        main.join_all(out)
    });
}

#[test]
fn a_woken_waiter_that_finds_no_thread_keeps_its_place() {
    run_unbound(two_threads_without_slices, |main| {
        let (blocks, calls): (Vec<_>, Vec<_>) = (0..4).map(|_| Block::new()).unzip();
        let mut out = calls
            .into_iter()
            .map(|call| main.spawn(move |process| process.foreign(call)));
        let are_out = |count: usize| move || main.vm.sched(|sched| sched.foreign_count()) == count;
        let have_waited = |times: u64| move || main.vm.counters.thread_bound_hits.get() >= times;
        let first_two: Vec<_> = out.by_ref().take(2).collect();
        main.yield_until(are_out(2))?;
        let order: Arc<Mutex<Vec<usize>>> = Arc::default();
        let [one, two] = [1, 2].map(|number| {
            let order = Arc::clone(&order);
            main.spawn(move |process| {
                assert_eq!(process.vm.wait_for_thread().reason, WakeReason::Done);
                order.lock().expect("no thread panics").push(number);
                process.foreign(|| ())
            })
        });
        main.yield_until(have_waited(2))?;
        // Both are woken. Before they recheck, two other processes, which need not ask, take the
        // threads.
        blocks[..2].iter().for_each(Block::end);
        main.spin_until(are_out(0))?;
        for called in [one, two] {
            let _ = main.vm.suspend(called);
        }
        let last_two: Vec<_> = out.collect();
        main.yield_until(are_out(2))?;
        let resume = |pid| main.vm.with_sched(|sched| sched.resume(pid));
        let _ = resume(one);
        main.yield_until(have_waited(3))?;
        // The second one rechecks before the first one, which is woken again.
        let _ = resume(two);
        blocks[2].end();
        main.spin_until(are_out(1))?;
        main.join_all([one, two])?;
        assert_eq!(*order.lock().expect("no thread panics"), [1, 2]);
        blocks[3].end();
        main.join_all(first_two)?;
        main.join_all(last_two)
    });
}

#[test]
fn a_waiter_for_a_thread_continues_when_the_bound_is_raised() {
    run_unbound(two_threads_without_slices, |main| {
        let (blocks, out) = two_calls(main)?;
        let waiting: Vec<_> = (0..3)
            .map(|_| {
                main.spawn(|process| {
                    assert_eq!(process.vm.wait_for_thread().reason, WakeReason::Done);
                    process.foreign(|| ())
                })
            })
            .collect();
        main.yield_until(|| main.vm.counters.thread_bound_hits.get() >= 3)?;
        main.vm.parameters.set_max_threads(8);
        main.vm.parameters_changed();
        main.join_all(waiting)?;
        blocks.iter().for_each(Block::end);
        main.join_all(out)
    });
}
