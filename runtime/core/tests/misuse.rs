//! Process ids that are dead, forgotten or another VM's, passed to every function that takes one.
//! Each call returns an answer, none panics, and no other process is affected. Also calls from a
//! native thread that is not inside the VM.
//!
//! An id of another VM differs from this VM's ids only by its slot and generation: here it names a
//! slot that this VM has not used.

mod mock_guest;

use baton_core::sched::{
    CarrierId, Deadline, KillOutcome, Next, NotCritical, Priority, ProcessId, ResumeOutcome,
    SpawnOptions, State, SuspendOutcome, WakeReason,
};
use baton_core::vm::{Inside, Spawned, WakeAction};
use baton_sys::clock::Instant;
use mock_guest::{Life, Process, run};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// An id of a VM with so many processes that this slot is far beyond those used here.
fn foreign_id() -> ProcessId {
    let (send, receive) = std::sync::mpsc::channel();
    run(move |main| {
        let all: Vec<_> = (0..200).map(|_| main.spawn(|_| Ok(()))).collect();
        let _ = send.send(all[199]);
        main.join_all(all)
    });
    receive.recv().expect("it was sent")
}

/// The id of a process that has ended, of a forgotten one, and of one of another VM.
fn strangers(
    main: &Process,
    foreign: ProcessId,
) -> Result<[(&'static str, ProcessId); 3], mock_guest::Killed> {
    let [dead, forgotten] = [(); 2].map(|()| main.spawn(|_| Ok(())));
    main.join_all([dead, forgotten])?;
    main.vm.forget(forgotten);
    Ok([
        ("dead", dead),
        ("forgotten", forgotten),
        ("foreign", foreign),
    ])
}

/// Processes that could be affected: two that alternate, one that waits, one that sleeps, one that
/// is suspended.
struct Others {
    over: Arc<AtomicBool>,
    rounds: Arc<AtomicU64>,
    all: Vec<ProcessId>,
}

impl Others {
    fn new(main: &Process) -> Result<Others, mock_guest::Killed> {
        let over = Arc::new(AtomicBool::new(false));
        let rounds = Arc::new(AtomicU64::new(0));
        let queue = main.vm.sched(|sched| sched.wait_queue_new());
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
        all.push(main.spawn(move |process| {
            process
                .wait(|sched| sched.wait(queue, Deadline::Never))
                .map(|_| ())
        }));
        all.push(
            main.spawn(|process| process.sleep_until(Instant::now() + Duration::from_secs(3600))),
        );
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
            main.vm.sched(|sched| {
                (
                    sched.state(pid),
                    sched.effective_priority(pid),
                    sched.due_time(pid),
                    sched.is_preemptible(pid),
                    slice,
                )
            })
        };
        self.all.iter().map(look).collect()
    }

    /// Checks that they still alternate, and lets them end.
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

/// Calls `f` twice with each of these ids, and compares the state before and after.
fn with_strangers(f: impl Fn(&Process, &str, ProcessId) + Send + 'static) {
    let foreign = foreign_id();
    run(move |main| {
        let strangers = strangers(main, foreign)?;
        let others = Others::new(main)?;
        // No slice ends by itself.
        main.vm.parameters.slice.set(Duration::from_secs(3600));
        for (what, stranger) in strangers.into_iter().chain(strangers) {
            let before = others.seen(main);
            f(main, what, stranger);
            assert_eq!(others.seen(main), before, "{what}");
            assert_eq!(
                main.vm.sched(|sched| sched.current()),
                Some(main.id),
                "{what}"
            );
            main.vm.safepoint();
        }
        others.end(main)
    });
}

#[test]
fn queries_of_the_vm_about_strange_ids_have_answers() {
    with_strangers(|main, what, stranger| {
        let vm = &main.vm;
        assert_eq!(vm.stack_high_water(stranger), None, "{what}");
        assert_eq!(vm.stack_bounds(stranger), None, "{what}");
        assert_eq!(vm.stack_guard(stranger), None, "{what}");
        assert_eq!(vm.stack_pointer(stranger), None, "{what}");
        assert_eq!(vm.slice(stranger), Duration::from_secs(3600), "{what}");
        let cpu = vm.running_time(stranger);
        assert!(what == "dead" || cpu == Duration::ZERO, "{what}: {cpu:?}");
    });
}

#[test]
fn operations_of_the_vm_on_strange_ids_change_nothing_and_say_so() {
    with_strangers(|main, what, stranger| {
        let vm = &main.vm;
        assert!(
            !vm.set_slice(stranger, Some(Duration::from_millis(1))),
            "{what}"
        );
        assert!(!vm.set_switch_hook(stranger, true), "{what}");
        assert_eq!(vm.kill(stranger), KillOutcome::AlreadyDead, "{what}");
        assert_eq!(vm.suspend(stranger), SuspendOutcome::Dead, "{what}");
        vm.set_user_data(stranger, 7);
        vm.set_pinned(stranger, true);
        vm.set_pinned(stranger, false);
        vm.bind_to_thread(stranger, Some("another"))
            .expect("there is room for a thread");
        vm.bind_to_thread(stranger, None)
            .expect("nothing is asked for");
        assert!(
            !vm.thread_names().values().any(|name| name == "another"),
            "{what}"
        );
        vm.resume_from_outside(stranger);
        let waker = vm.new_waker(WakeAction::Resume(stranger));
        waker.wake();
        drop(waker);
    });
}

#[test]
fn a_directed_yield_to_a_strange_id_is_a_yield_and_says_so() {
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
fn queries_of_the_scheduler_about_strange_ids_have_answers() {
    with_strangers(|main, what, stranger| {
        main.vm.sched(|sched| {
            assert_eq!(sched.state(stranger), State::Dead, "{what}");
            assert_eq!(sched.is_started(stranger), what == "dead", "{what}");
            assert_eq!(sched.blocker(stranger), None, "{what}");
            assert_eq!(sched.due_time(stranger), None, "{what}");
            assert_eq!(sched.effective_carrier(stranger), None, "{what}");
            assert_eq!(
                (sched.pin(stranger), sched.pinned(stranger)),
                (None, None),
                "{what}"
            );
            assert_eq!(
                (sched.kill_count(stranger), sched.joiner_count(stranger)),
                (0, 0),
                "{what}"
            );
            for answer in [
                sched.is_alive(stranger),
                sched.is_foreign(stranger),
                sched.is_daemon(stranger),
                sched.is_quiet(stranger),
                sched.is_suspended(stranger),
                sched.has_left_critical(stranger),
                sched.kill_is_due(stranger),
                sched.holds_kills(stranger),
            ] {
                assert!(!answer, "{what}");
            }
            let _ = (sched.priority(stranger), sched.effective_priority(stranger));
            let _ = (sched.is_preemptible(stranger), sched.user_data(stranger));
            assert_eq!(sched.payload(stranger).is_some(), what == "dead", "{what}");
            assert_eq!(
                sched.payload_mut(stranger).is_some(),
                what == "dead",
                "{what}"
            );
        });
    });
}

#[test]
fn operations_of_the_scheduler_on_strange_ids_change_nothing() {
    with_strangers(|main, what, stranger| {
        let (soon, carrier) = (Instant::now(), Some(CarrierId(0)));
        main.vm.sched(|sched| {
            let queue = sched.wait_queue_new();
            assert!(!sched.set_due_time(stranger, Some(soon)), "{what}");
            assert!(!sched.set_priority(stranger, Priority::HIGHEST), "{what}");
            assert!(!sched.interrupt(stranger), "{what}");
            assert!(!sched.end_unstarted(stranger), "{what}");
            assert!(!sched.begin_foreign(stranger, CarrierId(0)), "{what}");
            assert!(!sched.end_foreign(stranger), "{what}");
            assert!(
                !sched.wake_this(queue, stranger, WakeReason::Done, 0),
                "{what}"
            );
            assert_eq!(sched.kill(stranger), KillOutcome::AlreadyDead, "{what}");
            assert_eq!(sched.suspend(stranger), SuspendOutcome::Dead, "{what}");
            assert_eq!(sched.resume(stranger), ResumeOutcome::Dead, "{what}");
            sched.set_kill_hold(stranger, true);
            sched.set_kill_hold(stranger, false);
            sched.pardon(stranger);
            sched.set_pin(stranger, carrier);
            sched.set_pinned(stranger, carrier);
            sched.occupy(CarrierId(0), stranger);
            assert_eq!(sched.occupant(CarrierId(0)), None, "{what}");
            sched.set_preemptible(stranger, false);
            sched.mark_started(stranger);
            sched.release_joiners_of(stranger);
            let _ = sched.take_wake(stranger);
            sched.wait_queue_free(queue);
            let timer = sched.timer_new(soon, None, stranger);
            assert!(!sched.timer_prepare(timer, stranger), "{what}");
            sched.timer_cancel(timer);
            sched.timer_free(timer);
            assert_eq!(sched.pending_timers(), 0, "{what}");
            assert_eq!(sched.switch_to(stranger), Next::Same, "{what}");
        });
        let wake = main
            .vm
            .block_on(|sched| sched.join(stranger, Deadline::Never));
        assert!(
            matches!(wake.reason, WakeReason::Done | WakeReason::Dead),
            "{what}: {wake:?}"
        );
    });
}

/// Last, as it forgets the dead process.
#[test]
fn a_strange_id_can_be_forgotten_twice() {
    with_strangers(|main, what, stranger| {
        main.vm.forget(stranger);
        main.vm.forget(stranger);
        assert!(!main.vm.sched(|sched| sched.forget(stranger)), "{what}");
        let has_payload = main.vm.sched(|sched| sched.payload(stranger).is_some());
        assert!(!has_payload, "{what}");
        assert_eq!(main.vm.running_time(stranger), Duration::ZERO, "{what}");
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

/// The message with which a call is refused on a native thread that is not inside the VM; `None` if
/// it is not refused.
fn refusal(
    main: &Process,
    call: impl FnOnce(&Inside<'_>, ProcessId) + Send + 'static,
) -> Option<String> {
    let (vm, me) = (main.vm.to_arc(), main.id);
    let call = move || {
        // SAFETY: the token is a wrong one, as C code could make it. Builds with debug assertions
        // find that out before the VM is touched; calls for any thread need no token.
        call(&unsafe { Inside::assume(&vm) }, me);
    };
    let refused = std::thread::spawn(call).join().err()?;
    let text = refused.downcast_ref::<String>().cloned();
    let text = text.or_else(|| refused.downcast_ref::<&str>().map(|&text| text.to_owned()));
    Some(text.unwrap_or_default())
}

type Call = (&'static str, fn(&Inside<'_>, ProcessId));

/// Calls that may block or switch.
const SWITCHES: [Call; 13] = [
    ("yield_now", |vm, _| vm.yield_now()),
    ("yield_to", |vm, me| _ = vm.yield_to(me)),
    ("sleep_until", |vm, _| {
        _ = vm.sleep_until(Instant::now() + Duration::from_secs(3600));
    }),
    ("suspend", |vm, me| _ = vm.suspend(me)),
    ("kill", |vm, me| _ = vm.kill(me)),
    ("with_sched", |vm, _| vm.with_sched(|_| ())),
    ("block_on", |vm, me| {
        _ = vm.block_on(|sched| sched.join(me, Deadline::Now));
    }),
    ("block_on_random", |vm, me| {
        _ = vm.block_on_random(|sched, _| sched.join(me, Deadline::Now));
    }),
    ("select", |vm, _| _ = vm.select(&mut [], &[], Deadline::Now)),
    ("wait_ready", |vm, _| {
        _ = vm.wait_ready(&[], Deadline::Now, |_| false);
    }),
    ("wait_for_thread", |vm, _| _ = vm.wait_for_thread()),
    ("enter_critical", |vm, _| vm.enter_critical()),
    ("leave_critical", |vm, _| _ = vm.leave_critical()),
];

/// Calls that create or end something.
const CHANGES: [Call; 12] = [
    ("spawn", |vm, _| {
        _ = vm.spawn(SpawnOptions::default(), None, Spawned::Now);
    }),
    ("spawn_premade", |vm, _| {
        _ = vm.spawn_premade(SpawnOptions::default(), None, Spawned::Now);
    }),
    ("reserve_stacks", |vm, _| _ = vm.reserve_stacks(1, None)),
    ("forget", |vm, me| vm.forget(me)),
    ("set_slice", |vm, me| {
        _ = vm.set_slice(me, Some(Duration::from_millis(1)));
    }),
    ("set_user_data", |vm, me| vm.set_user_data(me, 7)),
    ("set_pinned", |vm, me| vm.set_pinned(me, true)),
    ("set_switch_hook", |vm, me| _ = vm.set_switch_hook(me, true)),
    ("set_scheduler_hook", |vm, _| vm.set_scheduler_hook(true)),
    ("bind_to_thread", |vm, me| _ = vm.bind_to_thread(me, None)),
    ("new_waker", |vm, me| {
        drop(vm.new_waker(WakeAction::Resume(me)));
    }),
    ("parameters_changed", |vm, _| vm.parameters_changed()),
];

/// Queries.
const QUESTIONS: [Call; 16] = [
    ("sched", |vm, _| _ = vm.sched(|sched| sched.current())),
    ("slice", |vm, me| _ = vm.slice(me)),
    ("time_used", |vm, me| _ = vm.time_used(me)),
    ("running_time", |vm, me| _ = vm.running_time(me)),
    ("cpu_time", |vm, me| _ = vm.cpu_time(me)),
    ("idle_for", |vm, me| _ = vm.idle_for(me)),
    ("stack_high_water", |vm, me| _ = vm.stack_high_water(me)),
    ("stack_bounds", |vm, me| _ = vm.stack_bounds(me)),
    ("stack_guard", |vm, me| _ = vm.stack_guard(me)),
    ("stack_pointer", |vm, me| _ = vm.stack_pointer(me)),
    ("choose", |vm, _| _ = vm.choose(3)),
    ("stack_stats", |vm, _| _ = vm.stack_stats()),
    ("premade_stacks", |vm, _| _ = vm.premade_stacks(None)),
    ("current_carrier", |vm, _| _ = vm.current_carrier()),
    ("thread_names", |vm, _| _ = vm.thread_names()),
    ("spin_tally", |vm, _| _ = vm.spin_tally()),
];

/// Only builds with debug assertions check this, as the check would slow each switch. The refused
/// call changes nothing in the VM.
#[test]
fn what_a_process_does_is_refused_on_a_thread_that_is_not_inside_the_vm() {
    if cfg!(not(debug_assertions)) {
        return;
    }
    run(|main| {
        let others = Others::new(main)?;
        main.vm.parameters.slice.set(Duration::from_secs(3600));
        let before = others.seen(main);
        for (name, call) in SWITCHES.into_iter().chain(CHANGES).chain(QUESTIONS) {
            let refusal = refusal(main, call);
            assert!(
                refusal
                    .as_ref()
                    .is_some_and(|text| text.contains("touched from outside the VM")),
                "{name}: {refusal:?}"
            );
            assert_eq!(others.seen(main), before, "{name}");
            assert_eq!(main.vm.sched(|sched| sched.current()), Some(main.id));
        }
        others.end(main)
    });
}

/// Among the VM's objects, channels and semaphores have calls of their own.
#[test]
fn an_object_is_not_used_on_a_thread_that_is_not_inside_the_vm() {
    if cfg!(not(debug_assertions)) {
        return;
    }
    run(|main| {
        let (semaphore, channel) = main
            .vm
            .sched(|sched| (sched.semaphore_new(1), sched.channel_new(1)));
        type CallOfObject = Box<dyn FnOnce(&Inside<'_>, ProcessId) + Send>;
        let calls: [(&str, CallOfObject); 4] = [
            (
                "semaphore_wait",
                Box::new(move |vm, _| {
                    _ = vm.semaphore_wait(semaphore, Deadline::Now);
                }),
            ),
            (
                "semaphore_signal",
                Box::new(move |vm, _| {
                    _ = vm.semaphore_signal(semaphore, 1);
                }),
            ),
            (
                "channel_send",
                Box::new(move |vm, _| {
                    _ = vm.channel_send(channel, 7, Deadline::Now);
                }),
            ),
            (
                "channel_receive",
                Box::new(move |vm, _| {
                    _ = vm.channel_receive(channel, Deadline::Now);
                }),
            ),
        ];
        for (name, call) in calls {
            assert!(refusal(main, call).is_some(), "{name}");
        }
        let taken = [(); 2].map(|()| main.vm.semaphore_wait(semaphore, Deadline::Now).reason);
        assert_eq!(taken, [WakeReason::Done, WakeReason::TimedOut]);
        let received = main.vm.channel_receive(channel, Deadline::Now).reason;
        assert_eq!(received, WakeReason::TimedOut);
        Ok(())
    });
}

/// Calls for any thread.
const FROM_ANYWHERE: [Call; 9] = [
    ("kick", |vm, _| vm.kick()),
    ("request_signalled", |vm, _| vm.request_signalled()),
    ("resume_from_outside", |vm, me| vm.resume_from_outside(me)),
    ("beat_changed", |vm, _| vm.beat_changed()),
    ("threads", |vm, _| _ = vm.threads()),
    ("own_threads", |vm, _| _ = vm.own_threads()),
    ("threads_for_calls", |vm, _| _ = vm.threads_for_calls()),
    ("is_stopped", |vm, _| assert!(!vm.is_stopped())),
    ("is_simulated", |vm, _| assert!(!vm.is_simulated())),
];

#[test]
fn calls_for_any_thread_are_not_refused_and_affect_no_process() {
    run(|main| {
        let others = Others::new(main)?;
        main.vm.parameters.slice.set(Duration::from_secs(3600));
        let before = others.seen(main);
        for (name, call) in FROM_ANYWHERE {
            assert_eq!(refusal(main, call), None, "{name}");
            assert_eq!(others.seen(main), before, "{name}");
        }
        main.vm.safepoint();
        others.end(main)
    });
}
