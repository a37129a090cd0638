//! Features for embedders in Rust beyond those of the guest: reserved stacks, slices of a process's
//! own, due times, wakers.

mod mock_guest;

use baton_core::sched::{Deadline, KillOutcome, Priority, ProcessId, SpawnOptions, State};
use baton_core::vm::{SpawnError, Spawned, WakeAction};
use baton_sys::clock::Instant;
use mock_guest::{Life, Process, await_event, run, run_with};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

const SIZE: Option<usize> = Some(256 * 1024);

fn premade(main: &Process) -> usize {
    main.vm.premade_stacks(SIZE).expect("a size in bounds")
}

fn spawn_premade(main: &Process) -> Result<ProcessId, SpawnError> {
    let user_data = main.mock.add(|_| Ok(()));
    let options = SpawnOptions {
        user_data,
        ..SpawnOptions::default()
    };
    main.vm.spawn_premade(options, SIZE, Spawned::Now)
}

#[test]
fn reserved_stacks_are_used_and_come_back() {
    run(|main| {
        assert_eq!(premade(main), 0);
        assert!(matches!(spawn_premade(main), Err(SpawnError::NonePremade)));
        main.vm.reserve_stacks(2, SIZE).expect("there is room");
        assert_eq!(premade(main), 2);
        let all =
            [spawn_premade(main), spawn_premade(main)].map(|spawned| spawned.expect("it is ready"));
        assert!(matches!(spawn_premade(main), Err(SpawnError::NonePremade)));
        main.join_all(all)?;
        assert_eq!(premade(main), 2);
        assert!(main.vm.reserve_stacks(1, Some(usize::MAX)).is_err());
        assert!(main.vm.premade_stacks(Some(usize::MAX)).is_err());
        Ok(())
    });
}

/// Which of two processes runs.
#[derive(Default)]
struct Runner {
    running: AtomicU64,
    /// Both ids, by number.
    ids: OnceLock<[ProcessId; 2]>,
}

/// Computes until it is stopped. After each run of the other process, it reports how long that
/// process has run in all, by its account.
fn tell_runs_of_other(
    process: &Process,
    me: u64,
    runner: &Runner,
    mut goes_on: impl FnMut(Duration) -> bool,
) -> Life {
    let ids = runner.ids.get().expect("they run after it was set");
    let other = ids[1 - me as usize];
    loop {
        runner.running.store(me, Ordering::Relaxed);
        while runner.running.load(Ordering::Relaxed) == me {
            process.checkpoint()?;
        }
        if !goes_on(process.vm.running_time(other)) {
            return Ok(());
        }
    }
}

/// A loaded machine makes runs longer in the accounts, never shorter. A process that is stopped
/// before it reads the clock would measure less.
#[test]
fn a_process_may_have_slices_of_its_own() {
    const STOPPED: u64 = 3;
    run_with(
        |vm| vm.parameters.slice.set(Duration::from_millis(1)),
        |main| {
            let runner = Arc::new(Runner::default());
            let (of_short, of_long) = (Arc::clone(&runner), Arc::clone(&runner));
            let short = main.spawn(move |process| {
                let mut runs_of_long = 0_u32;
                tell_runs_of_other(process, 0, &of_short, |total| {
                    let is_over = of_short.running.load(Ordering::Relaxed) == STOPPED;
                    runs_of_long += 1;
                    let least = Duration::from_millis(15) * runs_of_long;
                    assert!(is_over || total > least, "{total:?} in {runs_of_long} runs");
                    !is_over
                })
            });
            let long = main.spawn(move |process| {
                let mut before = Duration::ZERO;
                let mut brief = 0_u32;
                tell_runs_of_other(process, 1, &of_long, |total| {
                    brief += u32::from(total - before < Duration::from_millis(10));
                    before = total;
                    brief < 3
                })?;
                of_long.running.store(STOPPED, Ordering::Relaxed);
                Ok(())
            });
            runner.ids.set([short, long]).expect("it is set once");
            main.vm.set_slice(long, Some(Duration::from_millis(20)));
            assert_eq!(main.vm.slice(long), Duration::from_millis(20));
            assert_eq!(main.vm.slice(short), Duration::from_millis(1));
            main.join_all([short, long])?;
            assert_eq!(
                main.vm.slice(long),
                Duration::from_millis(1),
                "forgotten with the process"
            );
            Ok(())
        },
    );
}

/// Computes for this long, by its account.
fn compute(process: &Process, time: Duration) -> Life {
    let begin = process.vm.running_time(process.id);
    process.spin_until(|| process.vm.running_time(process.id) - begin >= time)
}

/// Even a short time is not charged to another process.
#[test]
fn computing_between_two_sleeps_is_charged_to_the_sleeping_process() {
    run(|main| {
        let ends = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&ends);
        let busy = main.spawn(move |process| process.spin_until(|| seen.load(Ordering::Relaxed)));
        let options = SpawnOptions {
            priority: Priority::HIGHEST,
            ..SpawnOptions::default()
        };
        let urgent = main.spawn_with(options, |process| {
            let mut worked = Duration::ZERO;
            for _ in 0..100 {
                let begin = Instant::now();
                while Instant::now() < begin + Duration::from_micros(300) {}
                worked += Instant::now() - begin;
                process.sleep_until(Instant::now() + Duration::from_micros(500))?;
            }
            let charged = process.vm.running_time(process.id);
            assert!(charged >= worked, "{charged:?} for {worked:?}");
            Ok(())
        });
        main.join(urgent)?;
        ends.store(true, Ordering::Relaxed);
        main.join(busy)
    });
}

/// Switches take the slow path while any process has slices of its own length. A machine that
/// stands still ends any slice. The account of the process shows that, and only the other slices
/// are checked.
#[test]
fn a_process_that_yielded_has_a_whole_slice_next() {
    const SLICE: Duration = Duration::from_millis(100);
    run_with(
        |vm| vm.parameters.slice.set(SLICE),
        |main| {
            main.vm.set_slice(main.id, Some(SLICE));
            let turns = Arc::new(AtomicU64::new(0));
            let counted = Arc::clone(&turns);
            let rival = main.spawn(move |process| {
                loop {
                    // Relaxed: both run on one thread.
                    counted.fetch_add(1, Ordering::Relaxed);
                    process.yield_now()?;
                }
            });
            let mut judged = 0;
            while judged < 5 {
                main.yield_now()?;
                main.yield_now()?;
                compute(main, Duration::from_millis(60))?;
                main.yield_now()?;
                let before = turns.load(Ordering::Relaxed);
                let began = main.vm.running_time(main.id);
                compute(main, Duration::from_millis(60))?;
                let used = main.vm.running_time(main.id) - began;
                let is_over = turns.load(Ordering::Relaxed) > before;
                assert!(
                    !is_over || used >= SLICE * 9 / 10,
                    "it ended after {used:?}"
                );
                judged += u32::from(!is_over);
            }
            assert_eq!(main.vm.kill(rival), KillOutcome::Pending);
            main.join(rival)
        },
    );
}

#[test]
fn equals_run_in_the_order_of_their_due_times() {
    run(|main| {
        let order = Arc::new(Mutex::new(Vec::new()));
        let all = [3, 1, 2].map(|due| {
            let order = Arc::clone(&order);
            let pid = main.spawn(move |_| {
                order.lock().expect("no thread panics").push(due);
                Ok(())
            });
            let due = Some(Instant::from_nanos(due));
            main.vm.sched(|sched| assert!(sched.set_due_time(pid, due)));
            pid
        });
        main.join_all(all)?;
        assert_eq!(*order.lock().expect("no thread panics"), [1, 2, 3]);
        Ok(())
    });
}

#[test]
fn a_waker_used_by_a_thread_resumes_a_process_of_an_idle_vm() {
    run(|main| {
        let suspended = main.spawn(|process| {
            let _ = process.vm.suspend(process.id);
            Ok(())
        });
        main.yield_now()?;
        assert_eq!(
            main.vm.sched(|sched| sched.state(suspended)),
            State::Suspended
        );
        let waker = main.vm.new_waker(WakeAction::Resume(suspended));
        let thread = std::thread::spawn(move || waker.wake());
        main.join(suspended)?;
        main.foreign(|| thread.join())?
            .expect("a thread that ends well");
        Ok(())
    });
}

/// The waker is dropped right after the wake, perhaps before the VM, which is about to idle, has
/// served it.
#[test]
fn a_wake_is_served_although_its_waker_is_dropped_at_once() {
    const ROUNDS: usize = 3000;
    run(|main| {
        let semaphore = main.vm.sched(|sched| sched.semaphore_new(0));
        let (give, take) = std::sync::mpsc::channel::<baton_core::vm::Waker>();
        let thread = std::thread::spawn(move || take.into_iter().for_each(|waker| waker.wake()));
        for _ in 0..ROUNDS {
            give.send(main.vm.new_waker(WakeAction::Signal(semaphore)))
                .expect("the thread takes wakers");
            main.wait(|sched| sched.semaphore_wait(semaphore, Deadline::Never))?;
        }
        drop(give);
        main.foreign(|| thread.join())?
            .expect("a thread that ends well");
        Ok(())
    });
}

#[test]
fn each_wake_signals_a_semaphore_once_however_they_come_together() {
    const WAKES: u64 = 2000;
    run(|main| {
        let semaphore = main.vm.sched(|sched| sched.semaphore_new(0));
        let waker = main.vm.new_waker(WakeAction::Signal(semaphore));
        let threads = [(); 2].map(|()| {
            let waker = waker.clone();
            std::thread::spawn(move || (0..WAKES).for_each(|_| waker.wake()))
        });
        drop(waker);
        for _ in 0..2 * WAKES {
            main.wait(|sched| sched.semaphore_wait(semaphore, Deadline::Never))?;
        }
        for thread in threads {
            main.foreign(|| thread.join())?
                .expect("a thread that ends well");
        }
        assert_eq!(main.vm.sched(|sched| sched.semaphore_count(semaphore)), 0);
        Ok(())
    });
}

#[test]
fn a_waker_used_while_a_process_computes_lets_a_more_urgent_one_preempt_it() {
    run(|main| {
        let woken = Arc::new(AtomicU64::new(0));
        let seen = Arc::clone(&woken);
        let options = SpawnOptions {
            priority: Priority::HIGHEST,
            suspended: true,
            ..SpawnOptions::default()
        };
        let urgent = main.spawn_with(options, move |_| {
            seen.store(1, Ordering::Relaxed);
            Ok(())
        });
        let waker = main.vm.new_waker(WakeAction::Resume(urgent));
        let thread = std::thread::spawn(move || waker.wake());
        main.spin_until(|| woken.load(Ordering::Relaxed) == 1)?;
        main.foreign(|| thread.join())?
            .expect("a thread that ends well");
        main.join(urgent)
    });
}

#[test]
fn a_waker_used_on_the_owners_own_thread_as_by_a_signal_handler_is_noticed_at_the_next_instruction()
{
    run(|main| {
        let options = SpawnOptions {
            priority: Priority::HIGHEST,
            suspended: true,
            ..SpawnOptions::default()
        };
        let urgent = main.spawn_with(options, |_| Ok(()));
        main.vm.new_waker(WakeAction::Resume(urgent)).wake();
        main.checkpoint()?;
        assert_eq!(main.vm.sched(|sched| sched.state(urgent)), State::Dead);
        Ok(())
    });
}

#[test]
fn a_vm_with_a_waker_is_not_deadlocked_and_one_whose_waker_is_gone_is() {
    let finished = run(|main| {
        let semaphore = main.vm.sched(|sched| sched.semaphore_new(0));
        let waker = main.vm.new_waker(WakeAction::Signal(semaphore));
        let mock = Arc::clone(&main.mock);
        let vm = main.vm.to_arc();
        let thread = std::thread::spawn(move || {
            await_event("the VM waits", || vm.counters.idle_waits.get() > 0);
            assert_eq!(mock.deadlocks.load(Ordering::Relaxed), 0);
            waker.wake();
        });
        main.wait(|sched| sched.semaphore_wait(semaphore, Deadline::Never))?;
        main.foreign(|| thread.join())?
            .expect("a thread that ends well");
        main.mock.on_deadlock(move |vm| {
            vm.sched(|sched| sched.semaphore_signal(semaphore, 1));
        });
        main.wait(|sched| sched.semaphore_wait(semaphore, Deadline::Never))?;
        Ok(())
    });
    assert_eq!(finished.mock.deadlocks.load(Ordering::Relaxed), 1);
}

#[test]
fn time_and_stack_are_accounted_to_each_process() {
    const TRIES: usize = 10;
    run(|main| {
        let mut accounts = Vec::new();
        for _ in 0..TRIES {
            let busy = main.spawn(|process| {
                let end = Instant::now() + Duration::from_millis(20);
                process.spin_until(|| Instant::now() >= end)
            });
            let semaphore = main.vm.sched(|sched| sched.semaphore_new(0));
            let idle = main.spawn(move |process| {
                process.wait(|sched| sched.semaphore_wait(semaphore, Deadline::Never))?;
                Ok(())
            });
            main.yield_until(|| main.vm.sched(|sched| sched.state(idle)) == State::Waiting)?;
            let used = main.vm.stack_high_water(idle).expect("it has run");
            let (low, high) = main.vm.stack_bounds(idle).expect("it lives");
            assert!(used > 0 && used < high - low);
            main.join(busy)?;
            main.vm
                .with_sched(|sched| sched.semaphore_signal(semaphore, 1));
            main.join(idle)?;
            accounts.push([busy, idle].map(|pid| main.vm.running_time(pid)));
            // It is running time: the system may have stopped the thread just while the idle
            // process was on it.
            if accounts
                .last()
                .is_some_and(|[of_busy, of_idle]| of_busy > of_idle)
            {
                return Ok(());
            }
        }
        panic!("busy and idle: {accounts:?}");
    });
}
