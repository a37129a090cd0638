//! Property tests: a switch on the fast path leaves the same accounts, hints and events as on the
//! slow path.
//!
//! Two VMs with the same processes make the same switch on different paths. No process runs,
//! because the tests only decide the switch. `sched/tests/twins` compares the scheduler's own
//! twins.

use crate::guest::{Guest, RetakePolicy};
use crate::sched::{
    Attempt, Deadline, FirstLook, Priority, ProcessId, ResumeOutcome, SpawnOptions, SuspendOutcome,
};
use crate::vm::inside::{Jump, NO_PROCESS};
use crate::vm::preempt::monitor::Monitor;
use crate::vm::{Inner, Inside, Spawned, Vm};
use baton_sys::clock::Instant;
use baton_sys::fiber::ThreadFiber;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

struct NoGuest;

impl Guest for NoGuest {
    fn run<'vm>(&self, inside: Inside<'vm>, _: ProcessId, _: usize) -> Inside<'vm> {
        inside
    }
    fn switched(&self, _: Option<usize>, _: Option<usize>) {}
    fn retake_policy(&self, _: usize) -> RetakePolicy {
        RetakePolicy::Stay
    }
    fn warn_blocked(&self, _: usize) {}
    fn request_safepoint(&self, _: usize) {}
    fn deadlocked(&self, _: &Inside<'_>) -> Option<Duration> {
        None
    }
    fn signalled(&self, _: &Inside<'_>) {}
}

/// A process, and what it has used. Times are in nanoseconds.
#[derive(Debug, Clone, Copy)]
struct Account {
    level: u8,
    busy: u64,
    slice_used: u64,
    has_run: bool,
    is_preemptible: bool,
}

fn account() -> impl Strategy<Value = Account> {
    let parts = (
        39..42_u8,
        1_000..10_000_u64,
        0..1_000_u64,
        any::<bool>(),
        0..8,
    );
    parts.prop_map(|(level, busy, slice_used, has_run, chance)| Account {
        level,
        busy,
        slice_used,
        has_run,
        is_preemptible: chance != 0,
    })
}

/// What the hints of a switch depend on.
#[derive(Debug, Clone, Copy)]
struct Hinted {
    /// How long the first process has run.
    run: Duration,
    /// The monitor polls once a tick. Otherwise it rests, and the hints take the slow path.
    ticks: bool,
    /// 1: there is a deadline, and it is hinted. 2: it is not hinted yet.
    deadline: u8,
    /// The switch is also noted as events.
    is_traced: bool,
}

fn hinted() -> impl Strategy<Value = Hinted> {
    let parts = (0..1_000_u64, any::<bool>(), 0..3_u8, any::<bool>());
    parts.prop_map(|(micros, ticks, deadline, is_traced)| Hinted {
        run: Duration::from_micros(micros),
        ticks,
        deadline,
        is_traced,
    })
}

/// A VM whose first process, by the order of the scheduler, has run for a while.
struct World {
    vm: Arc<Vm>,
    processes: Vec<ProcessId>,
    /// When the run began, in nanoseconds.
    began: u64,
    base: ThreadFiber,
}

impl World {
    fn new(accounts: &[Account], hinted: Hinted) -> World {
        let mut vm = Vm::new(Arc::new(NoGuest)).expect("there is room");
        if hinted.ticks {
            Arc::get_mut(&mut vm).expect("nobody else has it").monitor = Monitor::that_ticks();
        }
        let spawn = |(number, account): (usize, &Account)| {
            let options = SpawnOptions {
                priority: Priority::new(account.level).expect("a level from 1 to 80"),
                preemptible: account.is_preemptible,
                user_data: number,
                ..SpawnOptions::default()
            };
            let stack_size = Some(64 * 1024);
            let spawned = vm.spawn_first(options, stack_size, Spawned::Now);
            spawned.expect("there is room")
        };
        let processes: Vec<_> = accounts.iter().enumerate().map(spawn).collect();
        let mut world = World {
            vm,
            processes,
            began: 0,
            base: ThreadFiber::new(NO_PROCESS),
        };
        if hinted.is_traced {
            world.vm.trace_from_start();
        }
        let now = Instant::now();
        let began = (now - hinted.run).as_nanos();
        world.began = began;
        // Relaxed: one thread.
        let coarse_now = &world.vm.hints.coarse_now;
        coarse_now.store(now.as_nanos(), Ordering::Relaxed);
        world.with(|world, inner| {
            inner.base = Some(world.base.fiber());
            inner.cpu.turn_off();
            for (&pid, account) in world.processes.iter().zip(accounts) {
                if account.has_run {
                    inner.fiber_of(pid);
                }
                let context = inner.context_mut(pid);
                context.busy = account.busy;
                context.slice_began = account.busy - account.slice_used;
            }
            let _ = inner.sched.schedule();
            let first = inner.sched.current().expect("there are some");
            inner.fiber_of(first);
            inner.run_started = began;
            if hinted.deadline != 0 {
                inner.sched.alarm_new(LATER);
            }
            if hinted.deadline != 2 {
                world.vm.update_hints(inner);
            }
        });
        world
    }

    fn with<R>(&self, f: impl FnOnce(&World, &mut Inner) -> R) -> R {
        self.vm.before_run(|inner| f(self, inner))
    }

    /// What the switch has left, but for the moment of the switch.
    fn outcome(&self, inner: &mut Inner, jump: Jump) -> impl PartialEq + std::fmt::Debug + use<> {
        let elapsed = inner.run_started - self.began;
        let mut events = Vec::new();
        let _ = inner.read_trace(0, usize::MAX, &mut events);
        let events: Vec<_> = events.iter().map(|event| event.what).collect();
        let contexts: Vec<_> = self
            .processes
            .iter()
            .map(|&pid| inner.context(pid))
            .collect();
        let accounts: Vec<_> = contexts
            .iter()
            .map(|context| {
                let is_left = context.left_at == inner.run_started;
                let charged = if is_left { elapsed } else { 0 };
                let is_new = context.slice_began == context.busy;
                let slice_began = (!is_new).then_some(context.slice_began);
                let has_begun = context.fiber.is_some();
                (
                    context.busy - charged,
                    is_left,
                    slice_began,
                    context.absent,
                    has_begun,
                )
            })
            .collect();
        // Relaxed (all): one thread.
        let hints = &self.vm.hints;
        let shown = (
            format!("{:?}", hints.summary()),
            hints.deadline.load(Ordering::Relaxed),
            hints.run_number(),
            hints.slice_used.load(Ordering::Relaxed),
            inner.has_changed(),
            inner.alone_in_run == inner.sched.counters().switches,
        );
        let fibers = jump.user_data();
        (fibers, inner.sched.current(), accounts, shown, events)
    }
}

/// A deadline that the tests do not reach.
const LATER: Instant = Instant::from_nanos(1 << 60);

/// Makes a switch on one path; `None` if that path may not be taken.
type Path = fn(&Vm, &mut Inner) -> Option<Jump>;

/// The switch is made by `fast` in one VM and by `slow` in another.
fn agree(fast: Path, slow: Path) {
    let config = ProptestConfig {
        cases: 64,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let taken = std::cell::Cell::new(0);
    let strategy = (vec(account(), 2..5), hinted());
    let outcome = TestRunner::new(config).run(&strategy, |(accounts, hinted)| {
        let worlds = [(); 2].map(|()| World::new(&accounts, hinted));
        let [one, other] = worlds.each_ref();
        let jump = one.with(|world, inner| {
            let jump = fast(&world.vm, inner)?;
            Some(world.outcome(inner, jump))
        });
        if jump.is_some() {
            taken.set(taken.get() + 1);
            let expected = other.with(|world, inner| {
                let jump = slow(&world.vm, inner)?;
                Some(world.outcome(inner, jump))
            });
            prop_assert_eq!(jump, expected);
        }
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
    assert!(taken.get() > 5, "taken {} times", taken.get());
}

#[test]
fn a_fast_yield_keeps_the_accounts_of_a_slow_one() {
    agree(Vm::yield_fast, Vm::plan_slow_yield);
}

#[test]
fn a_process_that_gives_way_fast_keeps_its_slice_as_on_the_slow_path() {
    agree(
        |vm, inner| {
            make_urgent(inner);
            vm.give_way_fast(inner)
        },
        |vm, inner| {
            make_urgent(inner);
            vm.plan_to_give_way(inner)
        },
    );
}

#[test]
fn a_fast_resumption_leaves_the_accounts_of_a_slow_one() {
    agree(
        |vm, inner| {
            let last = suspend_last(inner)?;
            vm.update_hints(inner);
            vm.resume_fast(inner, last)
        },
        |vm, inner| {
            let last = suspend_last(inner)?;
            vm.update_hints(inner);
            assert_eq!(inner.sched.resume(last), ResumeOutcome::Resumed);
            vm.plan_to_give_way(inner)
        },
    );
}

/// The process that was spawned last is suspended, and outranks all others; `None` if it runs.
fn suspend_last(inner: &mut Inner) -> Option<ProcessId> {
    let last = inner.sched.iter().last()?;
    inner.sched.set_priority(last, Priority::HIGHEST);
    (inner.sched.suspend(last) == SuspendOutcome::Suspended).then_some(last)
}

/// The process that was spawned last outranks all others.
fn make_urgent(inner: &mut Inner) {
    if let Some(last) = inner.sched.iter().last() {
        inner.sched.set_priority(last, Priority::HIGHEST);
    }
}

#[test]
fn a_fast_successor_leaves_the_accounts_of_a_slow_one() {
    agree(
        |vm, inner| {
            wait(inner);
            vm.succeed_fast(inner)
        },
        |vm, inner| {
            let me = wait(inner);
            vm.plan_successor(inner, me)
        },
    );
}

fn wait(inner: &mut Inner) -> ProcessId {
    let me = inner.sched.current().expect("it runs");
    let event = inner.sched.event_new();
    let attempt = inner.sched.event_wait(event, Deadline::Never);
    assert_eq!(attempt, Attempt::Blocked);
    me
}

#[test]
fn a_fast_wait_leaves_the_accounts_of_a_slow_one() {
    agree(
        |vm, inner| {
            let event = inner.sched.event_new();
            let FirstLook::Waits(place) = inner.sched.event_begin_wait(event) else {
                panic!("it is not set")
            };
            vm.wait_fast(inner, place, 0, Deadline::Never)
        },
        |vm, inner| {
            let me = wait(inner);
            vm.plan_successor(inner, me)
        },
    );
}

#[test]
fn a_fast_suspension_keeps_the_accounts_of_a_slow_one() {
    agree(Vm::suspend_fast, |vm, inner| {
        let me = inner.sched.current()?;
        assert_eq!(inner.sched.suspend(me), SuspendOutcome::CurrentMustSwitch);
        vm.plan_successor(inner, me)
    });
}
