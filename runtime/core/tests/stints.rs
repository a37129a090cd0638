//! VMs in a loop that the program owns.
#![cfg(not(loom))]

mod mock_guest;

use baton_core::sched::{Deadline, Readiness, SemaphoreId, SpawnOptions, WakeReason, Watch};
use baton_core::vm::{HaltOutcome, Offloaded, StintEnd, StintRefused, Vm};
use baton_sys::clock::Instant;
use baton_sys::poller::{Interest, readiness_now};
use mock_guest::{Block, Finished, await_event, hosted, native_thread, run};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const WITHOUT_LIMIT: Instant = Instant::FAR_FUTURE;

fn in_millis(millis: u64) -> Instant {
    Instant::now() + Duration::from_millis(millis)
}

#[track_caller]
fn stint(vm: &Arc<Vm>, until: Instant) -> StintEnd {
    vm.run_until(until).expect("the test's thread is the host")
}

/// Whether the descriptor says that a stint has something to do.
fn is_readable(vm: &Vm) -> bool {
    readiness_now(vm.descriptor(), Interest::READABLE).is_some_and(|event| event.readable)
}

/// Watches the descriptor, as a host does.
fn watch(vm: &Vm) {
    await_event("the descriptor is readable", || is_readable(vm));
}

/// Calls stints whenever the descriptor asks for one, until the VM has ended. Returns how many.
fn serve(vm: &Arc<Vm>) -> usize {
    for count in 1.. {
        match stint(vm, in_millis(50)) {
            StintEnd::Ended => return count,
            StintEnd::Idle(_) => await_event("there is something to do", || {
                is_readable(vm) || vm.next_stint().is_some_and(|at| at <= Instant::now())
            }),
            StintEnd::TimeIsUp => assert!(is_readable(vm)),
        }
    }
    unreachable!("the VM ends")
}

#[test]
fn a_stint_returns_when_all_sleep_and_says_until_when() {
    let Finished { vm, .. } = hosted(|_| {}, |main| main.sleep_until(in_millis(500)));
    let began = Instant::now();
    let StintEnd::Idle(Some(deadline)) = stint(&vm, WITHOUT_LIMIT) else {
        panic!("it sleeps");
    };
    assert!(deadline > began);
    assert_eq!(vm.next_stint(), Some(deadline));
    if vm.descriptor_has_deadlines() {
        watch(&vm);
    } else {
        await_event("the deadline is past", || Instant::now() >= deadline);
    }
    assert!(Instant::now() >= deadline, "it is readable too early");
    assert_eq!(stint(&vm, WITHOUT_LIMIT), StintEnd::Ended);
    assert_eq!(stint(&vm, WITHOUT_LIMIT), StintEnd::Ended);
    assert_eq!(vm.next_stint(), None);
}

#[test]
#[cfg(all(target_os = "linux", not(baton_portable)))]
fn the_descriptor_has_deadlines_on_linux() {
    let Finished { vm, .. } = hosted(|_| {}, |main| main.sleep_until(in_millis(1)));
    let _ = stint(&vm, WITHOUT_LIMIT);
    assert!(vm.descriptor_has_deadlines());
}

#[test]
fn deadlines_one_after_the_other_are_all_told() {
    let Finished { vm, .. } = hosted(
        |_| {},
        |main| {
            for _ in 0..20 {
                main.sleep_until(in_millis(1))?;
            }
            Ok(())
        },
    );
    serve(&vm);
}

#[test]
fn a_process_that_computes_is_interrupted_at_the_end_of_the_stint_and_continues() {
    let count = Arc::new(AtomicU64::new(0));
    let (counts, may_end) = (Arc::clone(&count), Arc::new(AtomicBool::new(false)));
    let ends = Arc::clone(&may_end);
    let Finished { vm, .. } = hosted(
        |_| {},
        move |main| {
            main.spin_until(|| {
                counts.fetch_add(1, Ordering::Relaxed);
                ends.load(Ordering::Relaxed)
            })
        },
    );
    let mut before = 0;
    for _ in 0..50 {
        let until = in_millis(2);
        assert_eq!(stint(&vm, until), StintEnd::TimeIsUp);
        assert!(Instant::now() >= until);
        assert!(is_readable(&vm));
        assert_eq!(vm.next_stint(), Some(Instant::from_nanos(0)));
        let now = count.load(Ordering::Relaxed);
        assert!(now >= before);
        std::thread::sleep(Duration::from_millis(1));
        assert_eq!(now, count.load(Ordering::Relaxed), "it runs between stints");
        before = now;
    }
    assert!(before > 0, "it has run");
    may_end.store(true, Ordering::Relaxed);
    assert_eq!(stint(&vm, WITHOUT_LIMIT), StintEnd::Ended);
}

#[test]
fn processes_that_only_switch_are_interrupted_too() {
    let may_end = Arc::new(AtomicBool::new(false));
    let ends = Arc::clone(&may_end);
    let Finished { vm, .. } = hosted(
        |_| {},
        move |main| {
            let (first, second) = (Arc::clone(&ends), ends);
            let ping = main.spawn(move |process| {
                while !first.load(Ordering::Relaxed) {
                    process.vm.yield_now();
                }
                Ok(())
            });
            while !second.load(Ordering::Relaxed) {
                main.vm.yield_now();
            }
            main.join(ping)
        },
    );
    for _ in 0..20 {
        assert_eq!(stint(&vm, in_millis(1)), StintEnd::TimeIsUp);
    }
    may_end.store(true, Ordering::Relaxed);
    assert_eq!(stint(&vm, WITHOUT_LIMIT), StintEnd::Ended);
}

#[test]
fn one_process_that_only_yields_is_interrupted_too() {
    let may_end = Arc::new(AtomicBool::new(false));
    let ends = Arc::clone(&may_end);
    let Finished { vm, .. } = hosted(
        |_| {},
        move |main| {
            while !ends.load(Ordering::Relaxed) {
                main.vm.yield_now();
            }
            Ok(())
        },
    );
    assert_eq!(stint(&vm, in_millis(1)), StintEnd::TimeIsUp);
    may_end.store(true, Ordering::Relaxed);
    assert_eq!(stint(&vm, WITHOUT_LIMIT), StintEnd::Ended);
}

#[test]
fn a_stint_whose_time_is_past_takes_in_what_has_happened_and_runs_nothing() {
    let has_run = Arc::new(AtomicBool::new(false));
    let runs = Arc::clone(&has_run);
    let Finished { vm, .. } = hosted(
        |_| {},
        move |_| {
            runs.store(true, Ordering::Relaxed);
            Ok(())
        },
    );
    assert_eq!(stint(&vm, Instant::from_nanos(0)), StintEnd::TimeIsUp);
    assert!(is_readable(&vm) && !has_run.load(Ordering::Relaxed));
    assert_eq!(stint(&vm, WITHOUT_LIMIT), StintEnd::Ended);
}

#[test]
fn a_more_urgent_process_runs_first_in_the_next_stint() {
    let order = Arc::new(std::sync::Mutex::new(Vec::new()));
    let (of_urgent, of_main) = (Arc::clone(&order), Arc::clone(&order));
    let may_end = Arc::new(AtomicBool::new(false));
    let ends = Arc::clone(&may_end);
    let semaphore = Arc::new(AtomicU64::new(0));
    let known = Arc::clone(&semaphore);
    let Finished { vm, .. } = hosted(
        |_| {},
        move |main| {
            let semaphore = main.vm.sched(|sched| sched.semaphore_new(0));
            let urgent = SpawnOptions {
                priority: baton_core::sched::Priority::HIGHEST,
                ..SpawnOptions::default()
            };
            // It runs at once, until it waits.
            let urgent = main.spawn_with(urgent, move |process| {
                process.wait(|sched| sched.semaphore_wait(semaphore, Deadline::Never))?;
                of_urgent.lock().expect("no panics").push("urgent");
                Ok(())
            });
            known.store(semaphore.to_bits(), Ordering::Release);
            main.spin_until(|| ends.load(Ordering::Relaxed))?;
            of_main.lock().expect("no panics").push("main");
            main.join(urgent)
        },
    );
    while semaphore.load(Ordering::Acquire) == 0 {
        assert_eq!(stint(&vm, in_millis(1)), StintEnd::TimeIsUp);
    }
    let semaphore = SemaphoreId::from_bits(semaphore.load(Ordering::Acquire)).expect("it exists");
    vm.signal_from_outside(semaphore);
    may_end.store(true, Ordering::Relaxed);
    serve(&vm);
    assert_eq!(*order.lock().expect("no panics"), ["urgent", "main"]);
}

#[test]
fn what_other_threads_post_makes_the_descriptor_readable() {
    const POSTERS: u64 = 3;
    const POSTS: u64 = 2_000;
    let semaphore = Arc::new(AtomicU64::new(0));
    let known = Arc::clone(&semaphore);
    let Finished { vm, .. } = hosted(
        |_| {},
        move |main| {
            let semaphore = main.vm.sched(|sched| sched.semaphore_new(0));
            known.store(semaphore.to_bits(), Ordering::Release);
            for _ in 0..POSTERS * POSTS {
                main.wait(|sched| sched.semaphore_wait(semaphore, Deadline::Never))?;
            }
            Ok(())
        },
    );
    assert_eq!(stint(&vm, WITHOUT_LIMIT), StintEnd::Idle(None));
    assert!(!is_readable(&vm));
    assert_eq!(vm.next_stint(), None);
    let semaphore = SemaphoreId::from_bits(semaphore.load(Ordering::Acquire)).expect("it exists");
    let threads: Vec<_> = (0..POSTERS)
        .map(|number| {
            let vm = Arc::clone(&vm);
            std::thread::spawn(move || {
                for post in 0..POSTS {
                    vm.signal_from_outside(semaphore);
                    if post % (7 + number) == 0 {
                        std::thread::yield_now();
                    }
                }
            })
        })
        .collect();
    // Only the descriptor leads to a stint.
    loop {
        watch(&vm);
        match stint(&vm, in_millis(1)) {
            StintEnd::Ended => break,
            StintEnd::Idle(deadline) => assert_eq!(deadline, None),
            StintEnd::TimeIsUp => {}
        }
    }
    for thread in threads {
        thread.join().expect("it posts, and ends");
    }
}

#[test]
fn a_descriptor_that_a_process_waits_for_makes_it_readable() {
    let (mut near, mut far) = UnixStream::pair().expect("a pair of sockets");
    near.set_nonblocking(true).expect("a socket may be so");
    let Finished { vm, .. } = hosted(
        |_| {},
        move |main| {
            let watch = Watch {
                descriptor: near.as_raw_fd() as u32,
                wants: Readiness::READ,
            };
            let mut byte = [0];
            let read = |_| near.read_exact(&mut byte).is_ok();
            let wake = main.vm.wait_ready(&[watch], Deadline::Never, read);
            assert_eq!(wake.expect("a socket").reason, WakeReason::Done);
            Ok(())
        },
    );
    assert_eq!(stint(&vm, WITHOUT_LIMIT), StintEnd::Idle(None));
    assert!(!is_readable(&vm));
    far.write_all(b"x").expect("there is a receiver");
    watch(&vm);
    assert_eq!(stint(&vm, WITHOUT_LIMIT), StintEnd::Ended);
}

#[test]
fn an_offloaded_call_keeps_the_host_from_nothing() {
    let (block, call) = Block::new();
    let Finished { vm, .. } = hosted(
        |_| {},
        move |main| {
            let caller = main.spawn(move |process| {
                let ((), offloaded) = process.foreign_elsewhere(call)?;
                assert_eq!(offloaded, Offloaded::Moved);
                Ok(())
            });
            main.join(caller)
        },
    );
    assert_eq!(stint(&vm, WITHOUT_LIMIT), StintEnd::Idle(None));
    await_event("the call has begun", || block.has_begun());
    assert_eq!(stint(&vm, WITHOUT_LIMIT), StintEnd::Idle(None));
    assert!(!is_readable(&vm));
    block.end();
    watch(&vm);
    serve(&vm);
}

#[test]
fn during_a_call_on_the_hosts_thread_others_run_and_the_stint_ends_after_it() {
    let (block, call) = Block::new();
    let Finished { vm, .. } = hosted(
        |_| {},
        move |main| {
            let home = native_thread();
            let other = main.spawn(move |process| {
                process.spin_until(|| block.has_begun())?;
                assert_ne!(native_thread(), home);
                // The stint's time is used up. The others run on beside the call.
                let begin = std::time::Instant::now();
                process.spin_until(|| begin.elapsed() > Duration::from_millis(20))?;
                block.end();
                process.spin_until(|| native_thread() == home)
            });
            main.foreign(call)?;
            main.join(other)
        },
    );
    let _ = stint(&vm, in_millis(5));
    serve(&vm);
}

#[test]
fn a_bound_process_on_another_thread_gives_the_vm_back_at_the_end_of_the_stint() {
    let may_end = Arc::new(AtomicBool::new(false));
    let ends = Arc::clone(&may_end);
    let Finished { vm, .. } = hosted(
        |_| {},
        move |main| {
            let bound = main.spawn(move |process| {
                process
                    .vm
                    .bind_to_thread(process.id, Some("other"))
                    .expect("there is room for a thread");
                process.yield_now()?;
                process.spin_until(|| ends.load(Ordering::Relaxed))
            });
            main.join(bound)
        },
    );
    for _ in 0..10 {
        assert_eq!(stint(&vm, in_millis(3)), StintEnd::TimeIsUp);
    }
    may_end.store(true, Ordering::Relaxed);
    serve(&vm);
}

#[test]
fn a_call_of_a_bound_process_does_not_keep_the_host() {
    let (block, call) = Block::new();
    let Finished { vm, .. } = hosted(
        |_| {},
        move |main| {
            let bound = main.spawn(move |process| {
                process
                    .vm
                    .bind_to_thread(process.id, Some("other"))
                    .expect("there is room for a thread");
                process.yield_now()?;
                process.foreign(call)
            });
            main.join(bound)
        },
    );
    assert_eq!(stint(&vm, WITHOUT_LIMIT), StintEnd::Idle(None));
    assert!(block.has_begun());
    block.end();
    watch(&vm);
    serve(&vm);
}

#[test]
fn two_vms_share_a_thread() {
    let make = || hosted(|_| {}, |main| main.sleep_until(in_millis(500))).vm;
    let (first, second) = (make(), make());
    assert!(matches!(stint(&first, WITHOUT_LIMIT), StintEnd::Idle(_)));
    assert!(matches!(stint(&second, WITHOUT_LIMIT), StintEnd::Idle(_)));
    serve(&first);
    serve(&second);
}

#[test]
fn what_cannot_be_a_stint_is_refused() {
    let hosted_here = hosted(|_| {}, |main| main.sleep_until(WITHOUT_LIMIT)).vm;
    let _ = stint(&hosted_here, WITHOUT_LIMIT);
    std::thread::scope(|scope| {
        let elsewhere = scope.spawn(|| hosted_here.run_until(WITHOUT_LIMIT));
        let outcome = elsewhere.join().expect("it is refused");
        assert_eq!(outcome, Err(StintRefused::OtherThread));
    });
    let third = Arc::clone(&hosted_here);
    run(move |main| {
        assert_eq!(third.run_until(WITHOUT_LIMIT), Err(StintRefused::InsideVm));
        let this = main.vm.to_arc();
        let outside = std::thread::spawn(move || this.run_until(WITHOUT_LIMIT));
        let outcome = main.foreign(|| outside.join().expect("it is refused"))?;
        assert_eq!(outcome, Err(StintRefused::Run));
        Ok(())
    });
    assert!(hosted_here.end_between_stints());
}

#[test]
fn a_vm_that_its_host_drops_between_two_stints_goes_whole() {
    let Finished { vm, mock } = hosted(
        |_| {},
        |main| {
            let others: Vec<_> = (0..5)
                .map(|_| main.spawn(|process| process.sleep_until(WITHOUT_LIMIT)))
                .collect();
            main.join_all(others)
        },
    );
    assert_eq!(vm.next_stint(), Some(Instant::from_nanos(0)));
    assert!(!vm.end_between_stints(), "it has not begun");
    assert_eq!(stint(&vm, WITHOUT_LIMIT), StintEnd::Idle(None));
    assert!(vm.end_between_stints());
    assert!(!vm.end_between_stints(), "it has ended");
    assert_eq!(stint(&vm, WITHOUT_LIMIT), StintEnd::Ended);
    let last = Arc::downgrade(&vm);
    drop(vm);
    await_event("nobody holds it", || last.strong_count() == 0);
    drop(mock);
}

#[test]
fn a_vm_that_is_halted_between_two_stints_has_ended() {
    let Finished { vm, .. } = hosted(|_| {}, |main| main.sleep_until(WITHOUT_LIMIT));
    assert!(matches!(stint(&vm, WITHOUT_LIMIT), StintEnd::Idle(_)));
    assert_eq!(vm.halt(Duration::from_secs(60), || {}), HaltOutcome::Halted);
    assert_eq!(stint(&vm, WITHOUT_LIMIT), StintEnd::Ended);
}

#[test]
fn the_vm_ends_with_its_last_process() {
    let Finished { vm, mock } = hosted(|_| {}, |_| Ok(()));
    let user_data = mock.add(|_| Ok(()));
    let Finished { vm: other, .. } = hosted(|_| {}, |_| Ok(()));
    assert_eq!(stint(&other, WITHOUT_LIMIT), StintEnd::Ended);
    assert_eq!(stint(&vm, WITHOUT_LIMIT), StintEnd::Ended);
    assert!(user_data > 0);
}

#[test]
fn a_deadlock_is_reported_once_not_in_each_stint() {
    let Finished { vm, mock } = hosted(
        |_| {},
        |main| {
            let semaphore = main.vm.sched(|sched| sched.semaphore_new(0));
            main.wait(|sched| sched.semaphore_wait(semaphore, Deadline::Never))?;
            Ok(())
        },
    );
    for _ in 0..5 {
        assert_eq!(stint(&vm, WITHOUT_LIMIT), StintEnd::Idle(None));
    }
    assert_eq!(mock.deadlocks.load(Ordering::Relaxed), 1);
    assert!(vm.end_between_stints());
}

#[test]
fn an_observer_sees_a_vm_between_two_stints_although_its_host_is_busy() {
    let Finished { vm, .. } = hosted(|_| {}, |main| main.sleep_until(WITHOUT_LIMIT));
    assert!(matches!(stint(&vm, WITHOUT_LIMIT), StintEnd::Idle(_)));
    let observed = Arc::clone(&vm);
    let observer = std::thread::spawn(move || {
        observed.look(Duration::from_secs(60), |view| view.sched().iter().count())
    });
    assert_eq!(observer.join().expect("it looks, and ends"), Ok(1));
    assert!(vm.end_between_stints());
}
