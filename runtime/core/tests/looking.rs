//! Looks: other threads read the state of a VM, whatever its owner does at the moment.

mod mock_guest;

use baton_core::sched::{Deadline, State};
use baton_core::vm::{NoLook, View, Vm};
use baton_sys::clock;
use mock_guest::{Block, Policy, Running, await_event, interruptions, start};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

/// Longer than any look may take on a loaded machine.
const LONG: Duration = Duration::from_secs(60);

fn states(view: &mut View<'_>) -> Vec<State> {
    let sched = view.sched();
    sched.iter().map(|process| sched.state(process)).collect()
}

fn seen(vm: &Vm) -> Vec<State> {
    vm.look(LONG, states).expect("there is a moment for it")
}

/// Has `look` called beside a running VM, and then ends it by the flag.
fn beside(running: Running, flag: &AtomicBool, look: impl FnOnce(&Vm)) {
    look(&running.vm);
    flag.store(true, Ordering::Relaxed);
    running.finish();
}

#[test]
fn a_process_that_computes_is_seen_at_a_safepoint_without_a_monitor() {
    let (began, ends) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicBool::new(false)),
    );
    let (begins, ended) = (Arc::clone(&began), Arc::clone(&ends));
    let running = start(
        |_| {},
        move |main| {
            begins.store(true, Ordering::Relaxed);
            main.spin_until(|| ended.load(Ordering::Relaxed))
        },
    );
    await_event("the process runs", || began.load(Ordering::Relaxed));
    let before = running.vm.own_threads();
    beside(running, &ends, |vm| {
        for _ in 0..100 {
            assert_eq!(seen(vm), [State::Running]);
        }
        assert_eq!(vm.own_threads(), before, "a look started a thread");
    });
}

#[test]
fn an_idle_vm_is_seen() {
    let running = start(
        |_| {},
        |main| {
            let queue = main.vm.sched(|sched| sched.wait_queue_new());
            main.spawn(move |process| {
                process.wait(|sched| sched.wait(queue, Deadline::Never))?;
                Ok(())
            });
            main.sleep_until(clock::Instant::now() + Duration::from_millis(300))?;
            main.vm
                .sched(|sched| sched.wake_one(queue, baton_core::sched::WakeReason::Done, 0));
            Ok(())
        },
    );
    await_event("both wait", || {
        seen(&running.vm) == [State::Sleeping, State::Waiting]
    });
    running.finish();
}

#[test]
fn an_idle_vm_is_woken_once_for_a_look_and_not_by_a_signal_as_well() {
    const LOOKS: u64 = 100;
    let (hand_out, queues) = channel();
    let running = start(
        |_| {},
        move |main| {
            let queue = main.vm.sched(|sched| sched.wait_queue_new());
            hand_out.send(queue).expect("the test waits for it");
            let before = interruptions();
            main.wait(|sched| sched.wait(queue, Deadline::Never))?;
            let signals = interruptions() - before;
            // On a loaded machine, a look that has waited for some time asks again by a signal.
            assert!(signals < LOOKS / 2, "{signals} signals for {LOOKS} looks");
            Ok(())
        },
    );
    let queue = queues.recv().expect("the process runs");
    for _ in 0..LOOKS {
        await_event("the owner waits", || running.vm.is_idle());
        assert_eq!(seen(&running.vm), [State::Waiting]);
    }
    running.vm.wake_from_outside(queue, 0);
    running.finish();
}

#[test]
fn an_exclusive_call_is_looked_past_and_keeps_the_vm() {
    let (block, call) = Block::new();
    let running = start(
        |_| {},
        move |main| {
            main.foreign_as(Policy::Stay, call)?;
            main.yield_now()
        },
    );
    await_event("the call has begun", || block.has_begun());
    for _ in 0..20 {
        assert_eq!(seen(&running.vm), [State::Running]);
    }
    block.end();
    let finished = running.finish();
    assert_eq!(finished.vm.counters.retakes.get(), 0);
}

#[test]
fn looks_beside_short_calls_disturb_none_of_them() {
    let ends = Arc::new(AtomicBool::new(false));
    let ended = Arc::clone(&ends);
    let running = start(
        |_| {},
        move |main| {
            let other = main.spawn({
                let ended = Arc::clone(&ended);
                move |process| process.yield_until(|| ended.load(Ordering::Relaxed))
            });
            while !ended.load(Ordering::Relaxed) {
                main.foreign_as(Policy::Stay, || ())?;
                main.foreign(|| ())?;
                main.yield_now()?;
            }
            main.join(other)
        },
    );
    beside(running, &ends, |vm| {
        for _ in 0..200 {
            let count = vm.look(LONG, |view| view.sched().iter().count());
            assert!(matches!(count, Ok(1 | 2)), "{count:?}");
        }
    });
}

#[test]
fn a_look_fails_while_a_process_reaches_no_safepoint_and_is_then_forgotten() {
    let (began, ends) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicBool::new(false)),
    );
    let (begins, ended) = (Arc::clone(&began), Arc::clone(&ends));
    let running = start(
        |_| {},
        move |main| {
            begins.store(true, Ordering::Relaxed);
            while !ended.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
            main.checkpoint()
        },
    );
    await_event("the process runs", || began.load(Ordering::Relaxed));
    let ran = Arc::new(AtomicBool::new(false));
    let runs = Arc::clone(&ran);
    let patience = Duration::from_millis(20);
    beside(running, &ends, |vm| {
        let began = Instant::now();
        let look = vm.look(patience, move |_| runs.store(true, Ordering::Relaxed));
        assert_eq!(look, Err(NoLook::KeptInside));
        assert!(began.elapsed() >= patience);
    });
    assert!(
        !ran.load(Ordering::Relaxed),
        "a look ran after it had failed"
    );
}

#[test]
fn a_look_at_a_vm_that_has_ended_fails() {
    let running = start(|_| {}, |_| Ok(()));
    let vm = Arc::clone(&running.vm);
    running.finish();
    assert_eq!(vm.look(LONG, |_| ()), Err(NoLook::Ended));
}

/// Computes until the calling thread has used so much processor time.
fn burn(time: Duration) {
    let until = clock::thread_cpu_time() + time;
    while clock::thread_cpu_time() < until {
        std::hint::spin_loop();
    }
}

/// Guards against time that nobody is charged with: its thread does not have the VM. Other systems
/// do not tell a thread how much another one has used.
#[test]
#[cfg(all(target_os = "linux", not(baton_portable)))]
fn a_call_has_its_processor_time_while_others_run_and_afterwards() {
    const ENOUGH: Duration = Duration::from_millis(20);
    let ends = Arc::new(AtomicBool::new(false));
    let ended = Arc::clone(&ends);
    let running = start(
        |_| {},
        move |main| {
            let ticks = Arc::clone(&ended);
            let other = main.spawn(move |process| {
                while !ticks.load(Ordering::Relaxed) {
                    process.sleep_until(clock::Instant::now() + Duration::from_millis(1))?;
                }
                Ok(())
            });
            main.foreign(|| {
                while !ended.load(Ordering::Relaxed) {
                    burn(Duration::from_millis(1));
                }
            })?;
            let used = main.vm.time_used(main.id);
            assert!(used.cpu >= ENOUGH, "{used:?}");
            main.join(other)
        },
    );
    let of_call = |view: &mut View<'_>| {
        let mut all = view.sched().iter();
        let is_in_call = |&process: &_| view.sched().state(process) == State::Foreign;
        all.find(is_in_call).map(|process| {
            let listed = view.times().find(|times| times.process == process);
            let listed = listed.expect("it lives").used.cpu;
            (view.time_used(process).cpu, listed)
        })
    };
    beside(running, &ends, |vm| {
        let in_call = || {
            vm.thread_times()
                .into_iter()
                .find(|time| time.call.is_some())
        };
        await_event("the call has used enough beside others", || {
            let used = vm.look(LONG, of_call).expect("there is a moment for it");
            used.is_some_and(|(used, listed)| used.min(listed) >= ENOUGH)
                && in_call().is_some_and(|time| time.in_calls >= ENOUGH)
        });
        let time = in_call().expect("a thread is in the call");
        assert!(time.cpu >= Some(time.in_calls), "{time:?}");
    });
}

#[test]
fn an_offloaded_call_has_its_processor_time() {
    const ENOUGH: Duration = Duration::from_millis(5);
    let running = start(
        |_| {},
        |main| {
            let ((), _) = main.foreign_elsewhere(|| burn(ENOUGH))?;
            let used = main.vm.time_used(main.id);
            assert!(used.cpu >= ENOUGH, "{used:?}");
            Ok(())
        },
    );
    running.finish();
}

#[test]
fn many_threads_look_at_once() {
    let ends = Arc::new(AtomicBool::new(false));
    let ended = Arc::clone(&ends);
    let running = start(
        |_| {},
        move |main| {
            let spinners: Vec<_> = (0..3)
                .map(|_| {
                    let ended = Arc::clone(&ended);
                    main.spawn(move |process| process.spin_until(|| ended.load(Ordering::Relaxed)))
                })
                .collect();
            main.join_all(spinners)
        },
    );
    beside(running, &ends, |vm| {
        std::thread::scope(|threads| {
            for _ in 0..4 {
                threads.spawn(|| (0..50).for_each(|_| assert!(!seen(vm).is_empty())));
            }
        });
    });
}

#[test]
fn parameters_that_another_thread_changes_take_effect() {
    let (block, call) = Block::new();
    let running = start(|_| {}, move |main| main.foreign_as(Policy::Stay, call));
    await_event("the call has begun", || block.has_begun());
    running.vm.parameters.set_max_threads(7);
    assert_eq!(running.vm.parameters_changed_outside(LONG), Ok(()));
    assert_eq!(running.vm.threads_for_calls(), 7);
    block.end();
    running.finish();
}
