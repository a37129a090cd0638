//! Ids of processes that are dead, forgotten or another VM's, given to whatever takes one: an answer each, no panic, and nobody else is disturbed.
//!
//! An id of another VM is told from this VM's own by its slot and generation alone: here it names a slot that this VM has not used.

mod mock_guest;

use baton_core::kernel::{
    CarrierId, Deadline, KillOutcome, Next, NotCritical, Priority, ProcessId, ResumeOutcome, SpawnOptions, State,
    SuspendOutcome, WakeReason,
};
use baton_core::vm::Ring;
use baton_sys::clock::Instant;
use mock_guest::{Life, Process, run};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// An id of a VM with so many processes that this slot is far beyond what the tests here use.
fn foreign_id() -> ProcessId {
    let (send, receive) = std::sync::mpsc::channel();
    run(move |main| {
        let all: Vec<_> = (0..200).map(|_| main.spawn(|_| Ok(()))).collect();
        let _ = send.send(all[199]);
        main.join_all(all)
    });
    receive.recv().expect("it was sent")
}

/// One that has ended, one that was forgotten too, and one of another VM.
fn strangers(main: &Process, foreign: ProcessId) -> Result<[(&'static str, ProcessId); 3], mock_guest::Killed> {
    let [dead, forgotten] = [(); 2].map(|()| main.spawn(|_| Ok(())));
    main.join_all([dead, forgotten])?;
    main.vm.forget(forgotten);
    Ok([("dead", dead), ("forgotten", forgotten), ("foreign", foreign)])
}

/// What could be disturbed: two who take turns, one that waits, one that sleeps, one that is suspended.
struct Others {
    over: Arc<AtomicBool>,
    rounds: Arc<AtomicU64>,
    all: Vec<ProcessId>,
}

impl Others {
    fn new(main: &Process) -> Result<Others, mock_guest::Killed> {
        let over = Arc::new(AtomicBool::new(false));
        let rounds = Arc::new(AtomicU64::new(0));
        let queue = main.vm.kernel(|kernel| kernel.wait_queue_new());
        let mut all: Vec<_> = (0..2)
            .map(|_| {
                let (over, rounds) = (Arc::clone(&over), Arc::clone(&rounds));
                main.spawn(move |process| {
                    process.yield_until(|| {
                        rounds.fetch_add(1, Ordering::Relaxed);
                        over.load(Ordering::Relaxed)
                    })
                })
            })
            .collect();
        all.push(main.spawn(move |process| process.wait(|kernel| kernel.wait(queue, Deadline::Never)).map(|_| ())));
        all.push(main.spawn(|process| process.sleep_until(Instant::now() + Duration::from_secs(3600))));
        all.push(main.spawn_with(
            SpawnOptions {
                suspended: true,
                ..SpawnOptions::default()
            },
            |_| Ok(()),
        ));
        main.yield_now()?;
        Ok(Others { over, rounds, all })
    }

    fn seen(&self, main: &Process) -> Vec<(State, Priority, Option<Instant>, bool, Duration)> {
        let look = |&pid: &ProcessId| {
            let slice = main.vm.slice(pid);
            main.vm.kernel(|kernel| {
                (
                    kernel.state(pid),
                    kernel.effective_priority(pid),
                    kernel.due_time(pid),
                    kernel.is_preemptible(pid),
                    slice,
                )
            })
        };
        self.all.iter().map(look).collect()
    }

    /// They still take turns, and end when they are let.
    fn end(self, main: &Process) -> Life {
        let before = self.rounds.load(Ordering::Relaxed);
        main.yield_until(|| self.rounds.load(Ordering::Relaxed) > before + 10)?;
        self.over.store(true, Ordering::Relaxed);
        for &pid in &self.all[2..] {
            let _ = main.vm.kill(pid);
        }
        main.join_all(self.all)
    }
}

/// Calls `f` with each of them, twice, and compares what there is before and after.
fn with_strangers(f: impl Fn(&Process, &str, ProcessId) + Send + 'static) {
    let foreign = foreign_id();
    run(move |main| {
        let strangers = strangers(main, foreign)?;
        let others = Others::new(main)?;
        // Nobody's turn ends here by itself.
        main.vm.parameters.slice.set(Duration::from_secs(3600));
        for (what, stranger) in strangers.into_iter().chain(strangers) {
            let before = others.seen(main);
            f(main, what, stranger);
            assert_eq!(others.seen(main), before, "{what}");
            assert_eq!(main.vm.kernel(|kernel| kernel.current()), Some(main.id), "{what}");
            main.vm.safepoint();
        }
        others.end(main)
    });
}

#[test]
fn what_the_vm_is_asked_about_strangers_has_answers() {
    with_strangers(|main, what, stranger| {
        let vm = &main.vm;
        assert_eq!(vm.stack_high_water(stranger), None, "{what}");
        assert_eq!(vm.stack_bounds(stranger), None, "{what}");
        assert_eq!(vm.stack_guard(stranger), None, "{what}");
        assert_eq!(vm.slice(stranger), Duration::from_secs(3600), "{what}");
        let cpu = vm.cpu_time(stranger);
        assert!(what == "dead" || cpu == Duration::ZERO, "{what}: {cpu:?}");
    });
}

#[test]
fn what_the_vm_is_told_to_do_to_strangers_changes_nothing_and_it_says_so() {
    with_strangers(|main, what, stranger| {
        let vm = &main.vm;
        assert!(!vm.set_slice(stranger, Some(Duration::from_millis(1))), "{what}");
        assert!(!vm.set_hooked(stranger, true), "{what}");
        assert!(!vm.prefer_home(stranger), "{what}");
        assert_eq!(vm.kill(stranger), KillOutcome::AlreadyDead, "{what}");
        assert_eq!(vm.suspend(stranger), SuspendOutcome::Dead, "{what}");
        vm.set_word(stranger, 7);
        vm.set_pinned(stranger, true);
        vm.set_pinned(stranger, false);
        vm.bind_to_thread(stranger, Some("another"))
            .expect("there is room for a thread");
        vm.bind_to_thread(stranger, None).expect("nothing is asked for");
        assert!(!vm.thread_names().values().any(|name| name == "another"), "{what}");
        vm.resume_from_outside(stranger);
        let bell = vm.hang_bell(Ring::Resume(stranger));
        bell.ring();
        drop(bell);
    });
}

#[test]
fn a_directed_yield_to_a_stranger_is_a_yield_and_it_says_so() {
    let foreign = foreign_id();
    run(move |main| {
        for (what, stranger) in strangers(main, foreign)? {
            let ran = Arc::new(AtomicBool::new(false));
            let flag = Arc::clone(&ran);
            let other = main.spawn(move |_| {
                flag.store(true, Ordering::Relaxed);
                Ok(())
            });
            assert!(!main.vm.yield_to(stranger), "{what}");
            assert!(ran.load(Ordering::Relaxed), "{what}");
            main.join(other)?;
        }
        let lives = main.spawn(|_| Ok(()));
        assert!(main.vm.yield_to(lives));
        main.join(lives)
    });
}

#[test]
fn what_the_kernel_is_asked_about_strangers_has_answers() {
    with_strangers(|main, what, stranger| {
        main.vm.kernel(|kernel| {
            assert_eq!(kernel.state(stranger), State::Dead, "{what}");
            assert_eq!(kernel.is_started(stranger), what == "dead", "{what}");
            assert_eq!(kernel.blocker(stranger), None, "{what}");
            assert_eq!(kernel.due_time(stranger), None, "{what}");
            assert_eq!(kernel.effective_carrier(stranger), None, "{what}");
            assert_eq!((kernel.pin(stranger), kernel.pinned(stranger)), (None, None), "{what}");
            assert_eq!(
                (kernel.kill_count(stranger), kernel.joiner_count(stranger)),
                (0, 0),
                "{what}"
            );
            for answer in [
                kernel.is_alive(stranger),
                kernel.is_foreign(stranger),
                kernel.is_daemon(stranger),
                kernel.is_quiet(stranger),
                kernel.is_suspended(stranger),
                kernel.has_left_critical(stranger),
                kernel.kill_is_due(stranger),
                kernel.holds_kills(stranger),
            ] {
                assert!(!answer, "{what}");
            }
            let _ = (kernel.priority(stranger), kernel.effective_priority(stranger));
            let _ = (kernel.is_preemptible(stranger), kernel.guest(stranger));
            assert_eq!(kernel.payload(stranger).is_some(), what == "dead", "{what}");
            assert_eq!(kernel.payload_mut(stranger).is_some(), what == "dead", "{what}");
        });
    });
}

#[test]
fn what_the_kernel_is_told_to_do_to_strangers_changes_nothing() {
    with_strangers(|main, what, stranger| {
        let (soon, carrier) = (Instant::now(), Some(CarrierId(0)));
        main.vm.kernel(|kernel| {
            let queue = kernel.wait_queue_new();
            assert!(!kernel.set_due_time(stranger, Some(soon)), "{what}");
            assert!(!kernel.set_priority(stranger, Priority::HIGHEST), "{what}");
            assert!(!kernel.interrupt(stranger), "{what}");
            assert!(!kernel.end_unstarted(stranger), "{what}");
            assert!(!kernel.begin_foreign(stranger, CarrierId(0)), "{what}");
            assert!(!kernel.end_foreign(stranger), "{what}");
            assert!(!kernel.wake_this(queue, stranger, WakeReason::Done, 0), "{what}");
            assert_eq!(kernel.kill(stranger), KillOutcome::AlreadyDead, "{what}");
            assert_eq!(kernel.suspend(stranger), SuspendOutcome::Dead, "{what}");
            assert_eq!(kernel.resume(stranger), ResumeOutcome::Dead, "{what}");
            kernel.set_kill_hold(stranger, true);
            kernel.set_kill_hold(stranger, false);
            kernel.pardon(stranger);
            kernel.set_pin(stranger, carrier);
            kernel.set_pinned(stranger, carrier);
            kernel.occupy(CarrierId(0), stranger);
            assert_eq!(kernel.occupant(CarrierId(0)), None, "{what}");
            kernel.set_preemptible(stranger, false);
            kernel.mark_started(stranger);
            kernel.release_joiners_of(stranger);
            let _ = kernel.take_wake(stranger);
            kernel.wait_queue_free(queue);
            let timer = kernel.timer_new(soon, None, stranger);
            assert!(!kernel.timer_prepare(timer, stranger), "{what}");
            kernel.timer_cancel(timer);
            kernel.timer_free(timer);
            assert_eq!(kernel.pending_timers(), 0, "{what}");
            assert_eq!(kernel.switch_to(stranger), Next::Same, "{what}");
        });
        let wake = main.vm.attempt(|kernel| kernel.join(stranger, Deadline::Never));
        assert!(
            matches!(wake.reason, WakeReason::Done | WakeReason::Dead),
            "{what}: {wake:?}"
        );
    });
}

/// Last, as the dead one is forgotten then.
#[test]
fn a_stranger_is_forgotten_twice() {
    with_strangers(|main, what, stranger| {
        main.vm.forget(stranger);
        main.vm.forget(stranger);
        assert!(!main.vm.kernel(|kernel| kernel.forget(stranger)), "{what}");
        assert!(
            main.vm.kernel(|kernel| kernel.take_payload(stranger)).is_none(),
            "{what}"
        );
        assert_eq!(main.vm.cpu_time(stranger), Duration::ZERO, "{what}");
    });
}

#[test]
fn the_end_of_a_section_that_was_not_begun_is_refused() {
    run(|main| {
        assert_eq!(main.vm.leave_critical(), Err(NotCritical));
        main.vm.enter_critical();
        assert_eq!(main.vm.leave_critical(), Ok(()));
        assert_eq!(main.vm.leave_critical(), Err(NotCritical));
        Ok(())
    });
}
