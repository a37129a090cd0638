//! What the monitor costs, and when it looks. Its time is measured, and it serves all VMs of a program: the tests run one after another.

mod mock_guest;

use baton_core::kernel::SpawnOptions;
use baton_core::vm::Vm;
use baton_sys::clock::Instant;
use mock_guest::{Killed, Mock, MockGuest, Process, Running, run_unbound, run_with, start};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The monitor is one, so is who measures it.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where the system tells of the thread with this name; `None` if there is none.
fn directory_of_thread(name: &str) -> Option<PathBuf> {
    let tasks = std::fs::read_dir("/proc/self/task").expect("the system lists threads");
    let mut directories = tasks.flatten().map(|task| task.path());
    directories.find(|directory| std::fs::read_to_string(directory.join("comm")).is_ok_and(|comm| comm.trim() == name))
}

/// How often it went to sleep; `None` if there is none.
fn voluntary_switches_of_thread(name: &str) -> Option<u64> {
    let status = std::fs::read_to_string(directory_of_thread(name)?.join("status")).expect("a thread has a status");
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.and_then(|count| count.trim().parse().ok())
}

/// Its time on the processor; `None` if there is none.
fn time_of_thread(name: &str) -> Option<Duration> {
    let wanted = directory_of_thread(name)?;
    // The first number: nanoseconds on the processor.
    let times = std::fs::read_to_string(wanted.join("schedstat")).expect("a thread has times");
    let nanoseconds = times.split(' ').next().and_then(|first| first.parse().ok());
    nanoseconds.map(Duration::from_nanos)
}

/// Processes that cannot be preempted have used up their slices, and others wait: nothing can be done about it, and so nothing is
/// done. The monitor still looks once a tick, however little of the processor a loaded machine gives to the process: its time is compared with the clock's.
#[test]
fn the_monitor_rests_while_a_process_cannot_be_preempted() {
    let _alone = alone();
    const BUSY: Duration = Duration::from_millis(100);
    let short_slices = |vm: &Vm| vm.parameters.slice.set(Duration::from_micros(100));
    run_with(short_slices, |main| {
        let options = SpawnOptions {
            preemptible: false,
            ..SpawnOptions::default()
        };
        let cooperative = main.spawn_with(options, |process| {
            let began = Instant::now();
            // Its thread starts with the first need.
            let before = time_of_thread("baton-monitor").unwrap_or_default();
            let begin = baton_sys::clock::thread_cpu_time();
            let used = || baton_sys::clock::thread_cpu_time() - begin;
            process.spin_until(|| used() >= BUSY)?;
            // A busy machine may not have let it begin.
            process.spin_until(|| time_of_thread("baton-monitor").is_some())?;
            let after = time_of_thread("baton-monitor").expect("it does not end");
            let (spent, passed) = (after - before, Instant::now() - began);
            assert!(spent < passed / 4, "the monitor took {spent:?} of {passed:?}");
            Ok(())
        });
        let rival = main.spawn(Process::checkpoint);
        main.join_all([cooperative, rival])
    });
}

/// Nobody runs it, so there is nothing to look at.
#[test]
fn the_monitor_rests_while_a_vm_is_not_run_yet() {
    let _alone = alone();
    const WHILE: Duration = Duration::from_millis(300);
    let waiting = Vm::new(Arc::new(MockGuest(Mock::new()))).expect("the system gives it a poller");
    run_with(
        |_| {},
        |main| {
            // The monitor's thread starts.
            let rival = main.spawn(Process::checkpoint);
            main.spin_until(|| time_of_thread("baton-monitor").is_some())?;
            main.join(rival)?;
            main.sleep_until(Instant::now() + Duration::from_millis(20))?;
            let wake_ups = || voluntary_switches_of_thread("baton-monitor").expect("it does not end");
            loop {
                let before = wake_ups();
                let until = Instant::now() + WHILE;
                main.sleep_until(until)?;
                let late = Instant::now() - until;
                let made = wake_ups() - before;
                if made < 20 {
                    return Ok(());
                }
                // Who is stopped between its wake-up and what is due is asked for it again and again: then once more.
                assert!(
                    late > Duration::from_micros(500),
                    "the monitor woke up {made} times in {WHILE:?}"
                );
            }
        },
    );
    drop(waiting);
}

/// With many timers some are due whenever others have been taken in. The monitor asks for them at its pace, and is not called for each.
#[test]
fn the_monitor_takes_its_time_with_many_deadlines() {
    let _alone = alone();
    const BUSY: Duration = Duration::from_millis(200);
    const SLEEPERS: u64 = 300;
    // A look in a millisecond meets what is due; two or more are made where the pace never slackens, or the owner calls all the same. Who is stopped is asked
    // more often, hence the tries.
    const MOST: f64 = 1.5;
    const TRIES: u32 = 50;
    run_unbound(
        |_| {},
        |main| {
            let sleepers: Vec<_> = (0..SLEEPERS)
                .map(|i| {
                    main.spawn(move |process| {
                        let mut at = Instant::now() + Duration::from_micros(10 * i);
                        loop {
                            at = at + Duration::from_micros(3000);
                            process.sleep_until(at)?;
                        }
                    })
                })
                .collect();
            let looks = || voluntary_switches_of_thread("baton-monitor").unwrap_or(0);
            let mut least = f64::INFINITY;
            for _ in 0..TRIES {
                let (begin, before) = (Instant::now(), looks());
                main.spin_until(|| Instant::now() >= begin + BUSY)?;
                let elapsed = (Instant::now() - begin).as_secs_f64() * 1e3;
                least = least.min((looks() - before) as f64 / elapsed);
                if least <= MOST {
                    break;
                }
            }
            assert!(least <= MOST, "the monitor looks {least:.2} times in a millisecond");
            for sleeper in sleepers {
                let _ = main.vm.kill(sleeper);
            }
            Ok(())
        },
    );
}

/// What needs the monitor before the next beat calls it.
#[test]
fn a_beat_that_comes_seldom_keeps_nobody_waiting() {
    let _alone = alone();
    let rare_beat = |vm: &Vm| {
        vm.parameters.beat.set(Duration::from_secs(3600));
        vm.parameters.slice.set(Duration::from_millis(1));
    };
    run_with(rare_beat, |main| {
        main.vm.heed_beat();
        // The monitor finds nothing to do for a while.
        main.sleep_until(Instant::now() + Duration::from_millis(20))?;
        let begin = baton_sys::clock::thread_cpu_time();
        main.spin_until(|| baton_sys::clock::thread_cpu_time() - begin >= Duration::from_millis(20))?;
        wait_for_a_turn(main).map(drop)
    });
}

/// How long a new process waits for its first turn beside one that computes.
fn wait_for_a_turn(main: &Process) -> Result<Duration, Killed> {
    let begin = Instant::now();
    let has_run = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&has_run);
    let rival = main.spawn(move |_| {
        flag.store(true, Ordering::Relaxed);
        Ok(())
    });
    main.spin_until(|| has_run.load(Ordering::Relaxed))?;
    let waited = Instant::now() - begin;
    main.join(rival)?;
    Ok(waited)
}

/// The VMs take turns, each long enough for the monitor to have parked at its end. A busy machine makes some preemptions late, a very busy
/// one nearly all; a monitor that nobody calls any more, or that is called a tick late, makes all of them late.
#[test]
fn the_first_preemption_after_all_vms_have_idled_comes_in_time() {
    let _alone = alone();
    const VMS: u32 = 4;
    const TURN: Duration = Duration::from_millis(40);
    // Some two minutes.
    const ROUNDS: u32 = 800;
    let begin = Instant::now();
    let preempt_in_time = move |main: &Process, number: u32| {
        let bound = main.vm.parameters.slice.get() + Duration::from_millis(1);
        let mut least = Duration::MAX;
        for round in 1..=ROUNDS {
            main.sleep_until(begin + TURN * (round * VMS + number))?;
            least = least.min(wait_for_a_turn(main)?);
            if least <= bound {
                return Ok(());
            }
        }
        panic!("VM {number}: at most {bound:?} expected, got {least:?} at best");
    };
    let start_one = |number| start(|_| {}, move |main| preempt_in_time(main, number));
    let running: Vec<Running> = (0..VMS).map(start_one).collect();
    for vm in running {
        vm.finish();
    }
}
