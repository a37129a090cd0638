//! What the monitor costs, and when it looks. Its time is measured, and it serves all VMs of a program: the tests run one after another.

mod mock_guest;

use baton_core::kernel::{Deadline, Priority, Readiness, SpawnOptions, Watch};
use baton_core::vm::Vm;
use baton_sys::clock::{self, Instant};
use mock_guest::{Killed, Mock, MockGuest, Process, Running, run_unbound, run_with, start};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
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
            let begin = clock::thread_cpu_time();
            let used = || clock::thread_cpu_time() - begin;
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

/// A process computes and another one waits, which is not its turn before the first has yielded: there is nothing to do but to notice foreign calls.
#[test]
fn the_longer_a_process_computes_the_more_rarely_the_monitor_looks() {
    let _alone = alone();
    const BUSY: Duration = Duration::from_millis(200);
    run_with(
        |vm| vm.parameters.set_preemptive(false),
        |main| {
            let rival = main.spawn(Process::checkpoint);
            main.spin_until(|| time_of_thread("baton-monitor").is_some())?;
            let looks = looks_while_computing(BUSY);
            // Each 2 ms at first, and each 8 ms after a while.
            assert!(looks < 50, "{looks} looks in {BUSY:?}");
            main.join(rival)
        },
    );
}

/// As before, but a third one waits for a descriptor: that it is ready, a look finds. It begins to wait when the monitor looks more rarely already.
#[test]
fn who_waits_for_a_descriptor_is_looked_for_as_often_as_ever() {
    let _alone = alone();
    const BUSY: Duration = Duration::from_millis(100);
    run_with(
        |vm| vm.parameters.set_preemptive(false),
        |main| {
            let (near, _far) = std::os::unix::net::UnixStream::pair().expect("a pair of sockets");
            let (descriptor, kept) = (near.as_raw_fd() as u32, near);
            let rival = main.spawn(|process| process.yield_until(|| false));
            compute(2 * BUSY);
            let waiting = main.spawn(move |process| {
                let watch = Watch {
                    descriptor,
                    wants: Readiness::READ,
                };
                let wake = process.vm.wait_ready(&[watch], Deadline::Never, |_| false);
                drop(kept);
                wake.map(drop).map_err(|_| Killed)
            });
            main.yield_now()?;
            main.yield_now()?;
            let most = (0..20).map(|_| looks_while_computing(BUSY)).find(|&looks| looks >= 30);
            assert!(most.is_some(), "seldom or never 30 looks in {BUSY:?}");
            for process in [rival, waiting] {
                let _ = main.vm.kill(process);
            }
            Ok(())
        },
    );
}

fn compute(time: Duration) {
    let begin = Instant::now();
    while Instant::now() - begin < time {}
}

fn looks_while_computing(time: Duration) -> u64 {
    let looks = || voluntary_switches_of_thread("baton-monitor").expect("it does not end");
    let before = looks();
    compute(time);
    looks() - before
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

/// With many timers some are due whenever others have been taken in. The monitor asks for them at its pace; who is more urgent than who runs is
/// met all the same.
#[test]
fn the_monitor_takes_its_time_with_many_deadlines() {
    let _alone = alone();
    const BUSY: Duration = Duration::from_millis(100);
    const SLEEPERS: u64 = 100;
    const PERIOD: Duration = Duration::from_millis(3);
    // Questions in a millisecond of the owner's: one is needed, and without a pace there are more than three. Who is stopped between is asked more often for the
    // time that it has, hence the tries.
    const MOST: f64 = 2.0;
    const LATEST: Duration = Duration::from_micros(1500);
    const TRIES: u32 = 300;
    run_unbound(
        |_| {},
        |main| {
            let turns = Arc::new(AtomicU64::new(0));
            let mut others: Vec<_> = (0..SLEEPERS)
                .map(|i| {
                    let turns = Arc::clone(&turns);
                    main.spawn(move |process| {
                        let mut at = Instant::now() + Duration::from_micros(30 * i);
                        loop {
                            at += PERIOD;
                            process.sleep_until(at)?;
                            turns.fetch_add(1, Ordering::Relaxed);
                        }
                    })
                })
                .collect();
            let late = Arc::new(Mutex::new(Vec::new()));
            let times = Arc::clone(&late);
            let urgent = SpawnOptions {
                priority: Priority::new(60).expect("a level of the scale"),
                ..SpawnOptions::default()
            };
            others.push(main.spawn_with(urgent, move |process| {
                loop {
                    let at = Instant::now() + 2 * PERIOD;
                    process.sleep_until(at)?;
                    times.lock().expect("nobody panics with it").push(Instant::now() - at);
                }
            }));
            let asked = || main.vm.counters.beats.get();
            let (mut least, mut earliest) = (f64::INFINITY, Duration::MAX);
            for _ in 0..TRIES {
                let (begin, before, turns_before) = (clock::thread_cpu_time(), asked(), turns.load(Ordering::Relaxed));
                main.spin_until(|| clock::thread_cpu_time() - begin >= BUSY)?;
                let used = (clock::thread_cpu_time() - begin).as_secs_f64() * 1e3;
                assert!(turns.load(Ordering::Relaxed) > turns_before, "nobody was woken");
                least = least.min((asked() - before) as f64 / used);
                let mut late = std::mem::take(&mut *late.lock().expect("nobody panics with it"));
                late.sort_unstable();
                earliest = earliest.min(late.get(late.len() / 2).copied().unwrap_or(Duration::MAX));
                if least <= MOST && earliest <= LATEST {
                    break;
                }
            }
            assert!(least <= MOST, "{least:.2} questions in a millisecond");
            assert!(
                earliest <= LATEST,
                "an urgent process is {earliest:?} late in the median, at best"
            );
            for other in others {
                let _ = main.vm.kill(other);
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
        let begin = clock::thread_cpu_time();
        main.spin_until(|| clock::thread_cpu_time() - begin >= Duration::from_millis(20))?;
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
