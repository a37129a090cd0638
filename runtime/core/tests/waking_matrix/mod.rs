//! Waking a process, in all combinations of these:
//!
//! - what interrupts the waker;
//! - the priority of the target;
//! - which of the two is preemptible;
//! - a critical section around it;
//! - what the waker does next.
//!
//! Modelled on Zephyr's tests/kernel/sched/preempt, through the executor. src/sched/tests/waking.rs
//! tests the scheduler alone, and tests/lua/processes/waking.lua of `tools/baton` tests from Lua.
//!
//! The expectations follow from the rules. The most urgent process runs; among equals, the one that
//! has waited longest. A newly runnable process interrupts less urgent ones, and never an equal. A
//! process that is not preemptible gives way only where it waits or yields.

#![allow(dead_code, reason = "each test program uses a part of it")]

use super::mock_guest::{Killed, Life, Process, run_with};
use baton_core::sched::{
    Deadline, Priority, ProcessId, ResumeOutcome, SemaphoreId, SpawnOptions, State,
};
use baton_core::vm::{Vm, WakeAction, Waker};
use baton_sys::clock::Instant;
use baton_sys::signals;
use nix::sys::signal::{Signal, raise};
use std::cmp::Reverse;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// The priority of the waker.
const WAKER: u8 = 40;

/// What wakes the target.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Interrupt {
    /// The waker itself, by an operation, without an interrupt.
    None,
    /// A signal handler, which interrupts the waker on its own native thread.
    Signal,
    /// A native thread unknown to the VM.
    Thread,
}

/// What keeps the target from running.
#[derive(Clone, Copy, Debug)]
enum Obstacle {
    Semaphore,
    Suspension,
}

/// What the waker does after it has woken the target.
#[derive(Clone, Copy, Debug)]
enum Then {
    Nothing,
    Yield,
    Sleep,
}

#[derive(Clone, Copy, Debug)]
struct Case {
    interrupt: Interrupt,
    obstacle: Obstacle,
    level: u8,
    target_is_preemptible: bool,
    waker_is_preemptible: bool,
    is_locked: bool,
    then: Then,
}

/// A phase of the waker.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Phase {
    #[default]
    Before,
    Waking,
    /// It leaves its critical section.
    Leaving,
    /// It does its next action.
    Acting,
    Ended,
}

impl Case {
    fn all(interrupt: Interrupt) -> Vec<Case> {
        let mut all = Vec::new();
        let flags = [false, true];
        for obstacle in [Obstacle::Semaphore, Obstacle::Suspension] {
            for level in [WAKER - 1, WAKER, WAKER + 1] {
                for (target_is_preemptible, waker_is_preemptible) in flags
                    .iter()
                    .flat_map(|&target| flags.map(|waker| (target, waker)))
                {
                    for is_locked in flags {
                        all.extend([Then::Nothing, Then::Yield, Then::Sleep].map(|then| Case {
                            interrupt,
                            obstacle,
                            level,
                            target_is_preemptible,
                            waker_is_preemptible,
                            is_locked,
                            then,
                        }));
                    }
                }
            }
        }
        all
    }

    /// The phase of the waker in which the target must run, by the rules.
    fn wanted(&self) -> Phase {
        let interrupts = self.level > WAKER && self.waker_is_preemptible;
        let waker_gives_way = match self.then {
            Then::Nothing => false,
            Then::Yield => self.level >= WAKER,
            Then::Sleep => true,
        };
        match (interrupts, self.is_locked) {
            (true, false) => Phase::Waking,
            (true, true) => Phase::Leaving,
            (false, _) if waker_gives_way => Phase::Acting,
            (false, _) => Phase::Ended,
        }
    }
}

fn options(level: u8, preemptible: bool) -> SpawnOptions {
    SpawnOptions {
        priority: Priority::new(level).expect("a level of the scale"),
        preemptible,
        ..SpawnOptions::default()
    }
}

/// What happened in one case.
#[derive(Clone, Copy, Default)]
struct Course {
    phase: Phase,
    /// The phase in which the target ran.
    ran_in: Option<Phase>,
}

/// The record of a case, for both of its processes.
#[derive(Clone, Default)]
struct Record(Arc<Mutex<Course>>);

impl Record {
    fn enter(&self, phase: Phase) {
        self.0.lock().expect("no thread panics").phase = phase;
    }

    fn note_run(&self) {
        let mut course = self.0.lock().expect("no thread panics");
        course.ran_in = Some(course.phase);
    }

    fn ran_in(&self) -> Option<Phase> {
        self.0.lock().expect("no thread panics").ran_in
    }

    fn has_run(&self) -> bool {
        self.ran_in().is_some()
    }
}

/// Equals switch only where they yield.
fn without_slices(vm: &Vm) {
    vm.parameters.slice.set(Duration::from_secs(3600));
}

/// Runs all cases with this interrupt, one after the other, by a process that is less urgent than
/// all others.
pub(crate) fn all_run_when_they_must(interrupt: Interrupt) {
    all_run_when_they_must_in(|_| {}, interrupt);
}

/// As [`all_run_when_they_must`], in a VM that `configure` has prepared.
pub(crate) fn all_run_when_they_must_in(configure: impl FnOnce(&Vm), interrupt: Interrupt) {
    let configure = |vm: &Vm| {
        configure(vm);
        without_slices(vm);
    };
    run_with(configure, move |main| {
        main.vm
            .sched(|sched| sched.set_priority(main.id, Priority::LOWEST));
        for case in Case::all(interrupt) {
            assert_eq!(ran_in(main, case)?, Some(case.wanted()), "{case:?}");
        }
        Ok(())
    });
}

/// The phase of the waker in which the target ran.
fn ran_in(main: &Process, case: Case) -> Result<Option<Phase>, Killed> {
    let record = Record::default();
    let semaphore = main.vm.sched(|sched| sched.semaphore_new(0));
    let of_target = record.clone();
    let target = main.spawn_with(
        options(case.level, case.target_is_preemptible),
        move |process| be_target(process, case, semaphore, &of_target),
    );
    // It is more urgent than this process, and runs until it waits.
    main.yield_now()?;
    let (waits, action) = match case.obstacle {
        Obstacle::Semaphore => (State::Waiting, WakeAction::Signal(semaphore)),
        Obstacle::Suspension => (State::Suspended, WakeAction::Resume(target)),
    };
    assert_eq!(
        main.vm.sched(|sched| sched.state(target)),
        waits,
        "{case:?}"
    );
    let waking = Waking::new(main, case.interrupt, action);
    let of_waker = record.clone();
    let waker = main.spawn_with(options(WAKER, case.waker_is_preemptible), move |process| {
        be_waker(process, case, target, waking, &of_waker)
    });
    main.join_all([waker, target])?;
    Ok(record.ran_in())
}

fn be_target(process: &Process, case: Case, semaphore: SemaphoreId, record: &Record) -> Life {
    match case.obstacle {
        Obstacle::Semaphore => {
            process.wait(|sched| sched.semaphore_wait(semaphore, Deadline::Never))?;
        }
        Obstacle::Suspension => {
            let _ = process.vm.suspend(process.id);
        }
    }
    record.note_run();
    // Whether it is preemptible does not affect whether it interrupts.
    let intruder = process.spawn_with(options(80, true), |_| Ok(()));
    let has_come = || process.vm.sched(|sched| sched.state(intruder)) == State::Dead;
    process.vm.safepoint();
    assert_eq!(
        has_come(),
        case.target_is_preemptible,
        "{case:?}: it is interrupted"
    );
    process.yield_now()?;
    assert!(has_come(), "{case:?}: it gives way when it yields");
    Ok(())
}

fn be_waker(
    process: &Process,
    case: Case,
    target: ProcessId,
    waking: Waking,
    record: &Record,
) -> Life {
    record.enter(Phase::Waking);
    if case.is_locked {
        process.vm.enter_critical();
    }
    waking.make(process, 1);
    if case.wanted() == Phase::Waking {
        await_interruption(process, case.interrupt, record)?;
    } else {
        // More instructions than it needs to notice it.
        for _ in 0..100 {
            process.vm.safepoint();
            process.checkpoint()?;
        }
        let state = process.vm.sched(|sched| sched.state(target));
        assert_eq!(state, State::Runnable, "{case:?}: the target was woken");
    }
    if case.is_locked {
        record.enter(Phase::Leaving);
        process.vm.leave_critical().expect("it is inside");
    }
    record.enter(Phase::Acting);
    match case.then {
        Then::Nothing => {}
        Then::Yield => process.yield_now()?,
        Then::Sleep => loop {
            process.sleep_until(Instant::now() + Duration::from_micros(100))?;
            // If the machine stands still before the sleep, the sleep's time is over when it
            // begins.
            if record.has_run() {
                break;
            }
        },
    }
    record.enter(Phase::Ended);
    Ok(())
}

/// Waits until the target is runnable, for each kind of interrupt.
fn await_interruption(process: &Process, interrupt: Interrupt, record: &Record) -> Life {
    match interrupt {
        // The operation itself gave way.
        Interrupt::None => {}
        // The handler ran on this thread: the next instruction notices it.
        Interrupt::Signal => process.checkpoint()?,
        Interrupt::Thread => process.spin_until(|| record.has_run())?,
    }
    assert!(record.has_run(), "{interrupt:?} is not heard of in time");
    Ok(())
}

/// How to wake a process, for every kind of interrupt.
enum Waking {
    Operation(WakeAction),
    Signal(Waker),
    Thread(Waker),
}

impl Waking {
    fn new(process: &Process, interrupt: Interrupt, action: WakeAction) -> Waking {
        match interrupt {
            Interrupt::None => Waking::Operation(action),
            Interrupt::Signal => Waking::Signal(process.vm.new_waker(action)),
            Interrupt::Thread => Waking::Thread(process.vm.new_waker(action)),
        }
    }

    /// Wakes `times` times. It is done when this returns, though the VM may notice it later.
    fn make(&self, process: &Process, times: usize) {
        match self {
            Waking::Operation(action) => {
                (0..times).for_each(|_| do_as_waker_does(process, *action))
            }
            Waking::Signal(waker) => {
                set_waker_of_handler(waker);
                (0..times).for_each(|_| raise(Signal::SIGUSR1).expect("a signal that exists"));
            }
            Waking::Thread(waker) => {
                let waker = waker.clone();
                let thread = std::thread::spawn(move || (0..times).for_each(|_| waker.wake()));
                thread.join().expect("a thread that ends well");
            }
        }
    }
}

fn do_as_waker_does(process: &Process, action: WakeAction) {
    match action {
        WakeAction::Signal(semaphore) => {
            process
                .vm
                .with_sched(|sched| sched.semaphore_signal(semaphore, 1));
        }
        WakeAction::Resume(target) => {
            let resumed = process.vm.with_sched(|sched| sched.resume(target));
            assert_eq!(resumed, ResumeOutcome::Resumed);
        }
    }
}

/// More wakers than the tests make for the handler.
const MOST_WAKERS: usize = 200;

/// The handler's wakers. They live as long as it is installed.
static WAKERS: [OnceLock<Waker>; MOST_WAKERS] = [const { OnceLock::new() }; MOST_WAKERS];

/// How many of them exist; the handler uses the last one.
static MADE: AtomicUsize = AtomicUsize::new(0);

/// Allows one test at a time to use the handler.
static HANDLER: Mutex<()> = Mutex::new(());

extern "C" fn use_last_waker(_signal: i32) {
    let last = MADE.load(Ordering::Acquire).wrapping_sub(1);
    if let Some(waker) = WAKERS.get(last).and_then(OnceLock::get) {
        waker.wake();
    }
}

fn set_waker_of_handler(waker: &Waker) {
    let next = MADE.load(Ordering::Relaxed);
    WAKERS[next]
        .set(waker.clone())
        .expect("no other test makes wakers");
    MADE.store(next + 1, Ordering::Release);
}

/// Runs a test that has the handler to itself.
pub(crate) fn with_handler(test: impl FnOnce(Interrupt)) {
    let _mine = HANDLER.lock().unwrap_or_else(PoisonError::into_inner);
    signals::watch(Signal::SIGUSR1 as i32, use_last_waker).expect("a signal that can be caught");
    test(Interrupt::Signal);
}

/// Several processes wait for one semaphore, and are woken together in a critical section. They run
/// by priority, and equals in the order in which they began to wait. The waker is among them,
/// before its equals.
pub(crate) fn several_run_in_order(interrupt: Interrupt) {
    for waker_is_preemptible in [true, false] {
        assert_eq!(
            order_of_several(interrupt, waker_is_preemptible),
            wanted_order(waker_is_preemptible),
            "{interrupt:?}, the waker is preemptible: {waker_is_preemptible}"
        );
    }
}

/// The levels of the waiting processes, in the order in which they began to wait.
const LEVELS: [u8; 6] = [WAKER, WAKER - 1, WAKER + 1, WAKER, WAKER + 2, WAKER + 1];

/// The number of the waker. The waiting processes are numbered from 0.
const OF_WAKER: usize = LEVELS.len();

fn wanted_order(waker_is_preemptible: bool) -> Vec<usize> {
    let mut targets: Vec<usize> = (0..LEVELS.len()).collect();
    targets.sort_by_key(|&number| Reverse(LEVELS[number]));
    let before_the_waker = if waker_is_preemptible {
        targets
            .iter()
            .filter(|&&number| LEVELS[number] > WAKER)
            .count()
    } else {
        0
    };
    targets.insert(before_the_waker, OF_WAKER);
    targets
}

fn order_of_several(interrupt: Interrupt, waker_is_preemptible: bool) -> Vec<usize> {
    let order = Arc::new(Mutex::new(Vec::new()));
    let of_all = Arc::clone(&order);
    run_with(without_slices, move |main| {
        main.vm
            .sched(|sched| sched.set_priority(main.id, Priority::LOWEST));
        let semaphore = main.vm.sched(|sched| sched.semaphore_new(0));
        let noting = |number: usize| {
            let order = Arc::clone(&of_all);
            move || order.lock().expect("no thread panics").push(number)
        };
        let mut all = Vec::new();
        for (number, level) in LEVELS.into_iter().enumerate() {
            let note = noting(number);
            all.push(main.spawn_with(options(level, true), move |process| {
                process.wait(|sched| sched.semaphore_wait(semaphore, Deadline::Never))?;
                note();
                Ok(())
            }));
            // It waits before the next one begins to wait.
            main.yield_now()?;
        }
        let waking = Waking::new(main, interrupt, WakeAction::Signal(semaphore));
        let note = noting(OF_WAKER);
        all.push(
            main.spawn_with(options(WAKER, waker_is_preemptible), move |process| {
                process.vm.enter_critical();
                waking.make(process, LEVELS.len());
                // It notices all of them inside the section.
                process.vm.safepoint();
                process.vm.leave_critical().expect("it is inside");
                note();
                Ok(())
            }),
        );
        main.join_all(all)
    });
    order.lock().expect("no thread panics").clone()
}
