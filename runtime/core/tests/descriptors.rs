//! Processes wait for descriptors in the owner's wait, and no wake-up is lost.

mod mock_guest;

use baton_core::sched::{Deadline, KillOutcome, Readiness, State, Wake, WakeReason, Watch};
use baton_core::spin::PolicyName;
use baton_core::vm::{Keep, Vm};
use baton_sys::clock::Instant;
use mock_guest::{Life, Process, native_thread, run, run_with};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(3600);

fn pair() -> (UnixStream, UnixStream) {
    let (a, b) = UnixStream::pair().expect("a socket pair opens");
    for end in [&a, &b] {
        end.set_nonblocking(true)
            .expect("sockets can be made non-blocking");
    }
    (a, b)
}

/// Returns a new pair whose first end has the descriptor number of `old`. `old` is closed and its
/// number is given to the pair in one step, so that no other thread gets the number in between.
fn pair_in_place_of(old: UnixStream) -> (UnixStream, UnixStream) {
    let (a, b) = pair();
    let mut place = OwnedFd::from(old);
    nix::unistd::dup2(&a, &mut place).expect("both are open");
    (UnixStream::from(place), b)
}

fn number(fd: RawFd) -> u32 {
    u32::try_from(fd).expect("it is open")
}

fn watch(fd: RawFd, wants: Readiness) -> Watch {
    Watch {
        descriptor: number(fd),
        wants,
    }
}

/// Reads what is there; waits if there is nothing.
fn read(
    process: &Process,
    stream: &UnixStream,
    deadline: Deadline,
) -> io::Result<Result<Vec<u8>, Wake>> {
    let watches = [watch(stream.as_raw_fd(), Readiness::READ)];
    let mut outcome = None;
    let mut stream = stream;
    let wake = process.vm.wait_ready(&watches, deadline, |_| {
        let mut bytes = [0; 64];
        let came = stream.read(&mut bytes);
        let would_block = came
            .as_ref()
            .is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock);
        outcome = Some(came.map(|count| bytes[..count].to_vec()));
        !would_block
    })?;
    match outcome {
        Some(outcome) if wake.reason == WakeReason::Done => outcome.map(Ok),
        _ => Ok(Err(wake)),
    }
}

fn read_some(process: &Process, stream: &UnixStream) -> Vec<u8> {
    let came = read(process, stream, Deadline::Never).expect("a socket can be waited for");
    came.expect("the wait ends with an event")
}

/// As `read`, with a kept registration.
fn read_kept(
    process: &Process,
    mut stream: &UnixStream,
    deadline: Deadline,
) -> Result<Vec<u8>, Wake> {
    let watches = [watch(stream.as_raw_fd(), Readiness::READ)];
    loop {
        let harvests = process.vm.harvests();
        let mut bytes = [0; 64];
        match stream.read(&mut bytes) {
            Ok(count) => return Ok(bytes[..count].to_vec()),
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
        }
        let wake = process
            .vm
            .await_ready(&watches, Keep::UntilClosed, harvests, deadline);
        let wake = wake.expect("a socket can be waited for");
        if wake.reason != WakeReason::Done {
            return Err(wake);
        }
    }
}

fn write(mut stream: &UnixStream, bytes: &[u8]) {
    stream.write_all(bytes).expect("there is room");
}

fn await_waiters(process: &Process, count: u32) -> Life {
    process.yield_until(|| process.vm.sched(|sched| sched.watching()) == count)
}

/// Writes a byte once the owner sleeps, from another thread.
fn write_to_sleeper(vm: &Arc<Vm>, stream: UnixStream) -> JoinHandle<UnixStream> {
    let vm = Arc::clone(vm);
    let before = vm.counters.idle_waits.get();
    std::thread::spawn(move || {
        mock_guest::await_event("the owner sleeps", || vm.counters.idle_waits.get() > before);
        write(&stream, b"x");
        stream
    })
}

#[test]
fn a_process_sleeps_until_its_descriptor_is_ready() {
    run(|main| {
        let (a, b) = pair();
        let writer = write_to_sleeper(&main.vm.to_arc(), b);
        assert_eq!(read_some(main, &a), b"x");
        writer.join().expect("it has written");
        Ok(())
    });
}

#[test]
fn two_processes_talk_thousands_of_times_by_two_kept_registrations() {
    const ROUNDS: u32 = 5000;
    let finished = run(|main| {
        let (a, b) = pair();
        let read = |process: &Process, stream: &UnixStream| {
            read_kept(process, stream, Deadline::Never).expect("it comes")
        };
        let echo = main.spawn(move |process| {
            for _ in 0..ROUNDS {
                write(&b, &read(process, &b));
            }
            Ok(())
        });
        for round in 0..ROUNDS {
            let bytes = round.to_le_bytes();
            write(&a, &bytes);
            assert_eq!(read(main, &a), bytes);
        }
        main.join(echo)
    });
    let counters = &finished.vm.counters;
    assert_eq!(counters.descriptors_registered.get(), 2);
    assert!(counters.descriptor_waits.get() >= u64::from(ROUNDS));
}

/// The owner takes the event of data that comes between an attempt and the wait out of the poller,
/// while no process waits for it.
#[test]
fn an_event_that_is_taken_between_the_attempt_and_the_wait_is_not_lost() {
    run(|main| {
        let (a, b) = pair();
        let soon = || Vm::deadline(Some(Duration::from_millis(1)));
        assert!(
            read_kept(main, &a, soon()).is_err(),
            "from here on it is registered"
        );
        for keep in [Keep::UntilClosed, Keep::ForThisWait] {
            let harvests = main.vm.harvests();
            write(&b, b"x");
            while main.vm.harvests() == harvests {
                main.vm
                    .sleep_until(Instant::now() + Duration::from_millis(1));
            }
            let watches = [watch(a.as_raw_fd(), Readiness::READ)];
            let wake = main
                .vm
                .await_ready(&watches, keep, harvests, Vm::deadline(Some(LONG)));
            assert_eq!(wake.expect("it can be waited for").reason, WakeReason::Done);
            assert_eq!(read_some(main, &a), b"x");
        }
        Ok(())
    });
}

#[test]
fn events_of_a_kept_registration_are_counted_without_a_waiter() {
    run(|main| {
        let (a, b) = pair();
        let soon = || Vm::deadline(Some(Duration::from_millis(1)));
        assert_eq!(main.vm.descriptor_news(number(a.as_raw_fd())), None);
        assert!(read_kept(main, &a, soon()).is_err());
        let before = main.vm.descriptor_news(number(a.as_raw_fd()));
        assert!(before.is_some());
        write(&b, b"x");
        let harvests = main.vm.harvests();
        while main.vm.harvests() == harvests {
            main.vm
                .sleep_until(Instant::now() + Duration::from_millis(1));
        }
        assert_ne!(main.vm.descriptor_news(number(a.as_raw_fd())), before);
        main.vm.descriptor_closes(number(a.as_raw_fd()));
        assert_eq!(main.vm.descriptor_news(number(a.as_raw_fd())), None);
        Ok(())
    });
}

#[test]
#[cfg(all(target_os = "linux", not(baton_portable)))]
fn news_say_that_an_event_told_of_the_end() {
    run(|main| {
        let (a, b) = pair();
        let of_more = || {
            let news = main.vm.descriptor_news(number(a.as_raw_fd()));
            news.expect("the registration is kept").of_more
        };
        let soon = || Vm::deadline(Some(Duration::from_millis(1)));
        assert!(read_kept(main, &a, soon()).is_err());
        write(&b, b"x");
        let never = || Vm::deadline(Some(LONG));
        assert!(read_kept(main, &a, never()).is_ok());
        assert!(read_kept(main, &a, soon()).is_err());
        assert!(!of_more());
        b.shutdown(std::net::Shutdown::Write)
            .expect("it is connected");
        assert!(read_kept(main, &a, never()).is_ok());
        let harvests = main.vm.harvests();
        while main.vm.harvests() == harvests {
            main.vm
                .sleep_until(Instant::now() + Duration::from_millis(1));
        }
        assert!(of_more());
        main.vm.descriptor_closes(number(a.as_raw_fd()));
        Ok(())
    });
}

/// The closing is not announced: a registration that is renewed for each wait does not need that.
#[test]
fn a_number_that_goes_to_another_file_without_notice_works_for_it() {
    run(|main| {
        let (mut a, mut b) = pair();
        for _ in 0..100 {
            write(&b, b"x");
            assert_eq!(read_some(main, &a), b"x");
            let fd = a.as_raw_fd();
            (a, b) = pair_in_place_of(a);
            assert_eq!(a.as_raw_fd(), fd);
            let writer = write_to_sleeper(&main.vm.to_arc(), b);
            assert_eq!(read_some(main, &a), b"x");
            b = writer.join().expect("it has written");
        }
        Ok(())
    });
}

#[test]
fn data_left_by_the_last_read_is_found_by_the_next() {
    run(|main| {
        let (a, b) = pair();
        write(&b, &[7; 100]);
        assert_eq!(read_some(main, &a).len(), 64);
        assert_eq!(read_some(main, &a).len(), 36);
        Ok(())
    });
}

#[test]
fn waits_for_reading_and_for_writing_end_each_for_its_own_reason() {
    run(|main| {
        let (a, b) = pair();
        while (&a).write(&[0; 4096]).is_ok() {}
        let a = Arc::new(a);
        let of_reader = Arc::clone(&a);
        let reader = main.spawn(move |process| {
            assert_eq!(read_some(process, &of_reader), b"x");
            Ok(())
        });
        let writer = main.spawn(move |process| {
            let watches = [watch(a.as_raw_fd(), Readiness::WRITE)];
            let wrote = process
                .vm
                .wait_ready(&watches, Deadline::Never, |_| (&*a).write(b"y").is_ok());
            assert_eq!(
                wrote.expect("it can be waited for").reason,
                WakeReason::Done
            );
            Ok(())
        });
        await_waiters(main, 2)?;
        write(&b, b"x");
        main.join(reader)?;
        assert_eq!(main.vm.sched(|sched| sched.state(writer)), State::Waiting);
        while (&b).read(&mut [0; 4096]).is_ok() {}
        main.join(writer)
    });
}

#[test]
fn every_process_that_waits_for_one_descriptor_tries() {
    run(|main| {
        let (a, b) = pair();
        let a = Arc::new(a);
        let read = Arc::new(AtomicU64::new(0));
        let readers: Vec<_> = (0..20)
            .map(|_| {
                let (a, read) = (Arc::clone(&a), Arc::clone(&read));
                main.spawn(move |process| {
                    let watches = [watch(a.as_raw_fd(), Readiness::READ)];
                    let took = |_| (&*a).read(&mut [0]).is_ok();
                    let wake = process.vm.wait_ready(&watches, Deadline::Never, took);
                    assert_eq!(wake.expect("it can be waited for").reason, WakeReason::Done);
                    read.fetch_add(1, Ordering::Relaxed);
                    Ok(())
                })
            })
            .collect();
        await_waiters(main, 20)?;
        for expected in [3, 20] {
            let missing = expected - read.load(Ordering::Relaxed);
            write(&b, &vec![0; missing as usize]);
            main.yield_until(|| read.load(Ordering::Relaxed) == expected)?;
        }
        main.join_all(readers)
    });
}

#[test]
fn a_wait_times_out_and_is_killed() {
    run(|main| {
        let (a, b) = pair();
        let soon = Vm::deadline(Some(Duration::from_millis(1)));
        for deadline in [soon, Deadline::Now] {
            let wake = read(main, &a, deadline).expect("it can be waited for");
            assert_eq!(wake.map_err(|wake| wake.reason), Err(WakeReason::TimedOut));
        }
        let victim = main.spawn(move |process| {
            let wake = read(process, &b, Deadline::Never).expect("it can be waited for");
            assert_eq!(wake.map_err(|wake| wake.reason), Err(WakeReason::Killed));
            Ok(())
        });
        await_waiters(main, 1)?;
        assert_eq!(main.vm.kill(victim), KillOutcome::Woken);
        main.join(victim)?;
        assert_eq!(main.vm.sched(|sched| sched.watching()), 0);
        Ok(())
    });
}

#[test]
fn one_process_waits_for_many_descriptors_and_is_told_which_is_ready() {
    run(|main| {
        let pairs: Vec<_> = (0..100).map(|_| pair()).collect();
        let watches: Vec<_> = pairs
            .iter()
            .map(|(a, _)| watch(a.as_raw_fd(), Readiness::READ))
            .collect();
        let others = pairs[41].1.try_clone().expect("a descriptor is left");
        let writer = write_to_sleeper(&main.vm.to_arc(), others);
        let mut told = None;
        let ready = main.vm.wait_ready(&watches, Deadline::Never, |last| {
            told = last;
            last.is_some()
        });
        assert_eq!(
            ready.expect("sockets can be waited for").reason,
            WakeReason::Done
        );
        assert_eq!(told.map(|wake| wake.case), Some(41));
        writer.join().expect("it has written");
        Ok(())
    });
}

#[test]
fn closing_wakes_waiters_and_the_number_works_for_its_next_file() {
    run(|main| {
        for _ in 0..100 {
            let (a, _b) = pair();
            let (fd, of_waiter) = (a.as_raw_fd(), Arc::new(a));
            let stays = Arc::clone(&of_waiter);
            let waiter = main.spawn(move |process| {
                let wake =
                    read(process, &of_waiter, Deadline::Never).expect("it can be waited for");
                assert_eq!(wake.map_err(|wake| wake.reason), Err(WakeReason::Closed));
                Ok(())
            });
            await_waiters(main, 1)?;
            main.vm.descriptor_closes(number(fd));
            main.join(waiter)?;
            let old = Arc::into_inner(stays).expect("the waiter has ended");
            let (c, d) = pair_in_place_of(old);
            assert_eq!(c.as_raw_fd(), fd);
            write(&d, b"x");
            assert_eq!(read_some(main, &c), b"x");
            let writer = write_to_sleeper(&main.vm.to_arc(), d);
            assert_eq!(read_some(main, &c), b"x");
            writer.join().expect("it has written");
            main.vm.descriptor_closes(number(fd));
        }
        Ok(())
    });
}

#[test]
fn events_of_a_closed_descriptor_with_a_duplicate_wake_no_process() {
    run(|main| {
        let (a, b) = pair();
        let fd = a.as_raw_fd();
        write(&b, b"x");
        assert_eq!(read_some(main, &a), b"x");
        let duplicate = a.try_clone().expect("a descriptor is left");
        main.vm.descriptor_closes(number(fd));
        let (c, d) = pair_in_place_of(a);
        assert_eq!(c.as_raw_fd(), fd);
        write(&b, b"for the duplicate");
        let wake = read(main, &c, Vm::deadline(Some(Duration::from_millis(20))))
            .expect("it can be waited for");
        assert_eq!(wake.map_err(|wake| wake.reason), Err(WakeReason::TimedOut));
        write(&d, b"y");
        assert_eq!(read_some(main, &c), b"y");
        drop(duplicate);
        Ok(())
    });
}

#[test]
fn what_cannot_be_waited_for_is_an_error_unless_the_attempt_succeeds() {
    run(|main| {
        let file = File::open("/proc/self/exe").expect("the test's own file is readable");
        let watches = [watch(file.as_raw_fd(), Readiness::READ)];
        let refused = main.vm.wait_ready(&watches, Deadline::Never, |_| false);
        assert_eq!(
            refused.expect_err("files never block").kind(),
            io::ErrorKind::PermissionDenied
        );
        let done = main.vm.wait_ready(&watches, Deadline::Never, |_| true);
        assert_eq!(done.expect("it is done").reason, WakeReason::Done);
        let beyond = Watch {
            descriptor: u32::try_from(baton_core::vm::MOST_DESCRIPTORS).expect("it is small"),
            wants: Readiness::READ,
        };
        let refused = main.vm.wait_ready(&[beyond], Deadline::Never, |_| false);
        assert!(
            refused
                .expect_err("the table ends")
                .to_string()
                .contains("1048576")
        );
        Ok(())
    });
}

/// A process computes without end while another one waits: the monitor makes the owner poll.
#[test]
fn a_process_that_computes_does_not_starve_one_that_waits_for_a_descriptor() {
    const ROUNDS: u64 = 20;
    run(|main| {
        let (a, b) = pair();
        let came = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&came);
        let reader = main.spawn(move |process| {
            for _ in 0..ROUNDS {
                assert_eq!(read_some(process, &a), b"x");
                count.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        });
        await_waiters(main, 1)?;
        for round in 1..=ROUNDS {
            write(&b, b"x");
            main.spin_until(|| came.load(Ordering::Relaxed) == round)?;
        }
        main.join(reader)
    });
}

/// Guards the monitor's rest: it sleeps while a process computes for long, and still gets the event
/// of the descriptor.
#[test]
fn a_descriptor_is_noticed_after_a_process_has_computed_for_long() {
    run(|main| {
        let (a, b) = pair();
        let reader = main.spawn(move |process| {
            assert_eq!(read_some(process, &a), b"x");
            Ok(())
        });
        await_waiters(main, 1)?;
        let begin = std::time::Instant::now();
        // Longer than the monitor keeps polling.
        main.spin_until(|| begin.elapsed() > Duration::from_millis(100))?;
        write(&b, b"x");
        main.spin_until(|| !main.vm.sched(|sched| sched.is_alive(reader)))
    });
}

/// Processes that only yield to each other reach no safepoint by themselves.
#[test]
fn processes_that_yield_to_each_other_do_not_starve_one_that_waits_for_a_descriptor() {
    run(|main| {
        let (a, b) = pair();
        let reader = main.spawn(move |process| {
            assert_eq!(read_some(process, &a), b"x");
            Ok(())
        });
        await_waiters(main, 1)?;
        let done = Arc::new(AtomicU64::new(0));
        let others: Vec<_> = (0..2)
            .map(|_| {
                let done = Arc::clone(&done);
                main.spawn(move |process| process.yield_until(|| done.load(Ordering::Relaxed) == 1))
            })
            .collect();
        write(&b, b"x");
        main.join(reader)?;
        done.store(1, Ordering::Relaxed);
        main.join_all(others)
    });
}

#[test]
fn an_owner_that_spins_polls_descriptors() {
    let spin = |vm: &Vm| {
        vm.parameters.set_spin(PolicyName::Ema);
        vm.parameters.busy_loop_for.set(LONG);
    };
    let finished = run_with(spin, |main| {
        let (a, b) = pair();
        let (tell, told) = channel();
        let writer = std::thread::spawn(move || {
            for () in told {
                write(&b, b"x");
            }
        });
        for _ in 0..100 {
            tell.send(()).expect("it listens");
            assert_eq!(read_some(main, &a), b"x");
        }
        drop(tell);
        writer.join().expect("it has written");
        Ok(())
    });
    assert_eq!(
        finished.vm.counters.idle_waits.get(),
        0,
        "it has never parked"
    );
}

/// The VM is retaken from a call, and the waiting processes continue on another thread.
#[test]
fn a_foreign_call_does_not_keep_the_others_from_their_descriptors() {
    run(|main| {
        let (a, b) = pair();
        let home = native_thread();
        let reader = main.spawn(move |process| {
            assert_eq!(read_some(process, &a), b"x");
            assert_ne!(native_thread(), home);
            write(&a, b"y");
            Ok(())
        });
        await_waiters(main, 1)?;
        b.set_nonblocking(false)
            .expect("sockets can be made blocking");
        main.foreign(|| {
            write(&b, b"x");
            (&b).read_exact(&mut [0]).expect("the reader answers");
        })?;
        main.join(reader)
    });
}

/// No process waits for the event: the owner's wait goes on, and no policy learns that a spin was
/// right.
#[test]
fn unwanted_readiness_ends_no_spin() {
    let endless_spins = |vm: &Vm| {
        vm.parameters.set_spin(PolicyName::Ema);
        vm.parameters.busy_loop_for.set(LONG);
    };
    run_with(endless_spins, |main| {
        let (a, b) = pair();
        while (&a).write(&[0; 4096]).is_ok() {}
        let spins_were_right = || main.vm.spin_tally().accuracy.true_positives;
        let before = spins_were_right();
        let peer = std::thread::spawn(move || {
            // Each read makes room, so that the other end can be written to again and again.
            while (&b).read(&mut [0; 4096]).is_ok() {
                std::thread::sleep(Duration::from_millis(1));
            }
            write(&b, b"x");
            b
        });
        assert_eq!(read_some(main, &a), b"x");
        assert!(spins_were_right() <= before + 1);
        peer.join().expect("it has written");
        Ok(())
    });
}
