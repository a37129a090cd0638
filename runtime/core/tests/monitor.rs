//! The cost of the monitor, and when it polls. Its time is measured and it serves all VMs of a
//! program, so the tests run one after another.

mod mock_guest;

use baton_core::sched::{Deadline, Priority, Readiness, SpawnOptions, Watch};
use baton_core::vm::Vm;
use baton_sys::clock::{self, Instant};
use mock_guest::{
    Killed, Mock, MockGuest, Process, Running, ThreadTimes, run_unbound, run_with, start,
    thread_named, times_of,
};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Allows one test at a time, as there is one monitor.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

const MONITOR: &str = "baton-monitor";

/// How often the monitor went to sleep; `None` if there is none.
fn sleeps_of_monitor() -> Option<u64> {
    let status = std::fs::read_to_string(thread_named(MONITOR)?.join("status"))
        .expect("a thread has a status");
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.and_then(|count| count.trim().parse().ok())
}

/// Its times; `None` if there is none.
fn times_of_monitor() -> Option<ThreadTimes> {
    thread_named(MONITOR).map(|directory| times_of(&directory))
}

/// Returns once the monitor's thread exists: it starts with the first need.
fn await_monitor(main: &Process) -> Result<PathBuf, Killed> {
    main.spin_until(|| thread_named(MONITOR).is_some())?;
    Ok(thread_named(MONITOR).expect("it does not end"))
}

/// Time for which the machine has kept the calling thread and the monitor from a processor. The
/// calling thread never waits by itself.
struct Kept {
    monitor: PathBuf,
    began: Instant,
    used: Duration,
    waited: Duration,
}

impl Kept {
    fn from_now_on(monitor: PathBuf) -> Kept {
        Kept {
            waited: times_of(&monitor).waited,
            monitor,
            began: Instant::now(),
            used: clock::thread_cpu_time(),
        }
    }

    fn so_far(&self) -> Duration {
        let passed = Instant::now() - self.began;
        let used = clock::thread_cpu_time() - self.used;
        passed.saturating_sub(used) + (times_of(&self.monitor).waited - self.waited)
    }
}

/// A process computes, and a less urgent one waits until the first yields. A third one waits for a
/// descriptor, whose readiness is found by a poll. It begins to wait when the monitor polls more
/// rarely already. Between two polls the monitor sleeps for 2 ms, however long it then waits for a
/// processor; otherwise it sleeps for 8 ms.
#[test]
fn a_descriptor_wait_keeps_the_monitor_polling_each_tick() {
    let _alone = alone();
    const BUSY: Duration = Duration::from_millis(500);
    const LONGEST: Duration = Duration::from_millis(4);
    run_with(
        |vm| vm.parameters.set_preemptive(false),
        |main| {
            let (near, _far) = std::os::unix::net::UnixStream::pair().expect("a pair of sockets");
            let (descriptor, kept) = (near.as_raw_fd() as u32, near);
            let rival = main.spawn(|process| process.yield_until(|| false));
            compute(BUSY);
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
            let slept = sleep_between_looks(BUSY);
            assert!(slept < LONGEST, "{slept:?} from look to look");
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

/// How long the monitor sleeps between two polls, on average, while the calling thread computes for
/// this time or longer.
fn sleep_between_looks(time: Duration) -> Duration {
    let look = || {
        // Until it sleeps again: only then the system counts its waits for a processor.
        let before = sleeps_of_monitor();
        while sleeps_of_monitor() == before {}
        let times = times_of_monitor().expect("it does not end");
        (
            sleeps_of_monitor().expect("it does not end"),
            Instant::now(),
            times,
        )
    };
    let (looks, began, before) = look();
    compute(time);
    let (looks_by_now, ended, after) = look();
    let busy = (after.ran - before.ran) + (after.waited - before.waited);
    (ended - began).saturating_sub(busy) / (looks_by_now - looks) as u32
}

/// The VM does not run, so there is nothing to poll for.
#[test]
fn the_monitor_rests_while_a_vm_is_not_run_yet() {
    let _alone = alone();
    const WHILE: Duration = Duration::from_millis(300);
    let waiting = Vm::new(Arc::new(MockGuest(Mock::new()))).expect("the system gives it a poller");
    run_with(
        |_| {},
        |main| {
            // The monitor's thread starts.
            let rival = main.spawn(|process| process.checkpoint());
            await_monitor(main)?;
            main.join(rival)?;
            main.sleep_until(Instant::now() + Duration::from_millis(20))?;
            let wake_ups = || sleeps_of_monitor().expect("it does not end");
            loop {
                let before = wake_ups();
                let until = Instant::now() + WHILE;
                main.sleep_until(until)?;
                let late = Instant::now() - until;
                let made = wake_ups() - before;
                if made < 20 {
                    return Ok(());
                }
                // A thread that is stopped between its wake-up and its deadline gets more requests:
                // then try again.
                assert!(
                    late > Duration::from_micros(500),
                    "the monitor woke up {made} times in {WHILE:?}"
                );
            }
        },
    );
    drop(waiting);
}

/// With many timers some are due whenever others have been taken in. The monitor asks for them at
/// its pace, at most once per millisecond; without the pace it would ask more than three times as
/// often. A more urgent process is still woken in time. The test checks its median wake-up, less
/// the time for which the machine kept the threads from a processor since the deadline.
#[test]
fn the_monitor_takes_its_time_with_many_deadlines() {
    let _alone = alone();
    const SLEEPERS: u64 = 100;
    const PERIOD: Duration = Duration::from_millis(3);
    const WAKES: usize = 101;
    const MOST_IN_A_MILLISECOND: f64 = 2.0;
    const LATEST: Duration = Duration::from_micros(1500);
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
            let kept = Arc::new(Kept::from_now_on(await_monitor(main)?));
            // The time kept before the urgent process was due.
            let (due, before) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
            let late = Arc::new(Mutex::new(Vec::new()));
            let urgent = SpawnOptions {
                priority: Priority::new(60).expect("a level of the scale"),
                ..SpawnOptions::default()
            };
            let shared = (Arc::clone(&kept), Arc::clone(&due), Arc::clone(&before));
            let times = Arc::clone(&late);
            others.push(main.spawn_with(urgent, move |process| {
                let (kept, due, before) = shared;
                loop {
                    let at = Instant::now() + 2 * PERIOD;
                    due.store(at.as_nanos(), Ordering::Relaxed);
                    process.sleep_until(at)?;
                    let late = Instant::now() - at;
                    let before = Duration::from_nanos(before.load(Ordering::Relaxed));
                    let kept = kept.so_far().saturating_sub(before);
                    let mut times = times.lock().expect("no thread panics with it");
                    times.push(late.saturating_sub(kept));
                }
            }));
            let (began, asked) = (Instant::now(), main.vm.counters.beats.get());
            main.spin_until(|| {
                let so_far = kept.so_far().as_nanos() as u64;
                if Instant::now().as_nanos() < due.load(Ordering::Relaxed) {
                    before.store(so_far, Ordering::Relaxed);
                }
                late.lock().expect("no thread panics with it").len() >= WAKES
            })?;
            let passed = (Instant::now() - began).as_secs_f64() * 1e3;
            let asked = (main.vm.counters.beats.get() - asked) as f64 / passed;
            assert!(turns.load(Ordering::Relaxed) > 0, "no process was woken");
            assert!(
                asked <= MOST_IN_A_MILLISECOND,
                "{asked:.2} questions in a millisecond"
            );
            let mut late = std::mem::take(&mut *late.lock().expect("no thread panics with it"));
            late.sort_unstable();
            let usual = late[late.len() / 2];
            assert!(
                usual <= LATEST,
                "an urgent process is {usual:?} late: {late:?}"
            );
            for other in others {
                let _ = main.vm.kill(other);
            }
            Ok(())
        },
    );
}

/// Work that needs the monitor before the next periodic request wakes it.
#[test]
fn a_long_periodic_request_delays_no_process() {
    let _alone = alone();
    let rare_beat = |vm: &Vm| {
        vm.parameters.beat.set(Duration::from_secs(3600));
        vm.parameters.slice.set(Duration::from_millis(1));
    };
    run_with(rare_beat, |main| {
        main.vm.beat_changed();
        // The monitor finds nothing to do for a while.
        main.sleep_until(Instant::now() + Duration::from_millis(20))?;
        let begin = clock::thread_cpu_time();
        main.spin_until(|| clock::thread_cpu_time() - begin >= Duration::from_millis(20))?;
        wait_for_a_turn(main).map(drop)
    });
}

/// How long a new process waits for its first run beside one that computes.
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

/// The VMs run in turn, each so long that the monitor rests at its end. Time for which the machine
/// kept the computing thread and the monitor from a processor does not count. Interrupts and
/// another thread on the same core cannot be measured, so four of twelve must be in time. If the
/// monitor were not woken, or were woken a tick late, all of them would be late.
#[test]
fn the_first_preemption_after_all_vms_have_idled_comes_in_time() {
    let _alone = alone();
    const VMS: u32 = 4;
    const TURN: Duration = Duration::from_millis(40);
    // A tick of the monitor: its first poll is no sooner.
    const SLICE: Duration = Duration::from_millis(2);
    const LATEST: Duration = Duration::from_millis(3);
    const ROUNDS: u32 = 12;
    const IN_TIME: usize = 4;
    let begin = Instant::now();
    let preempt_in_time = move |main: &Process, number: u32| {
        wait_for_a_turn(main)?;
        let monitor = await_monitor(main)?;
        let mut all = Vec::new();
        for round in 1..=ROUNDS {
            main.sleep_until(begin + TURN * (round * VMS + number))?;
            let kept = Kept::from_now_on(monitor.clone());
            let waited = wait_for_a_turn(main)?;
            all.push(waited.saturating_sub(kept.so_far()));
        }
        let in_time = all.iter().filter(|&&waited| waited <= LATEST).count();
        assert!(in_time >= IN_TIME, "VM {number}: {all:?}");
        Ok(())
    };
    let short_slices = |vm: &Vm| vm.parameters.slice.set(SLICE);
    let start_one = |number| start(short_slices, move |main| preempt_in_time(main, number));
    let running: Vec<Running> = (0..VMS).map(start_one).collect();
    for vm in running {
        vm.finish();
    }
}
