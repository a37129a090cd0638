//! Several VMs in a simulated run: one goes on at a time, and the seed chooses it. The virtual
//! clock is the whole program's, so this is the only test of its program.

mod mock_guest;

use baton_core::sched::{Deadline, WakeReason};
use baton_core::shared::SharedChannel;
use baton_core::shared::channel::Message;
use baton_core::vm::{HaltOutcome, Sleeper, StintRefused, Vm};
use baton_sys::clock::Instant;
use mock_guest::{Life, Process, hosted, run_with, start_beside};
use std::cell::Cell;
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const VMS: u64 = 4;
const ROUNDS: u64 = 10;

/// What a VM did: its number, the round, and the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Did(u64, u64, u64);

impl Message for Did {
    fn size(&self) -> u64 {
        8
    }
}

type Log = Arc<SharedChannel<Did, Sleeper>>;

/// Counts steps, as an interpreter does.
#[derive(Default)]
struct Counter {
    made: Cell<u32>,
    left: Cell<u32>,
}

impl Counter {
    /// Makes a step. Returns whether a safepoint is due.
    fn step(&self, process: &Process) -> bool {
        if self.left.get() > 1 {
            self.left.set(self.left.get() - 1);
            return false;
        }
        let counted = process.vm.count_steps(self.made.get());
        self.made.set(counted.until_next);
        self.left.set(counted.until_next);
        counted.is_safepoint_due
    }
}

/// What all VMs of a run use.
#[derive(Clone)]
struct Shared {
    log: Log,
    /// In the order in which it happened.
    order: Arc<Mutex<Vec<Did>>>,
    /// A VM is between two safepoints.
    is_busy: Arc<AtomicBool>,
}

impl Shared {
    fn new() -> Shared {
        Shared {
            log: Arc::new(SharedChannel::new(2, 1 << 20, "log")),
            order: Arc::default(),
            is_busy: Arc::default(),
        }
    }

    /// Makes so many steps. No other VM goes on between two safepoints.
    fn steps(&self, process: &Process, count: u32, counter: &Counter) {
        for _ in 0..count {
            let was_busy = self.is_busy.swap(true, Ordering::Relaxed);
            assert!(!was_busy, "two VMs go on at once");
            let is_due = counter.step(process);
            self.is_busy.store(false, Ordering::Relaxed);
            if is_due {
                process.vm.safepoint();
            }
        }
    }

    fn work(&self, process: &Process, number: u64) -> Life {
        let counter = Counter::default();
        for round in 0..ROUNDS {
            self.steps(process, 20 + number as u32, &counter);
            let did = Did(number, round, Instant::now().as_nanos());
            self.order.lock().expect("no process panics").push(did);
            let (reason, _) = process.vm.send_shared(&self.log, did, Deadline::Never);
            assert_eq!(reason, WakeReason::Done);
            if round % 3 == 0 {
                process.sleep_until(Instant::now() + Duration::from_micros(50 * number))?;
            }
        }
        Ok(())
    }
}

/// Never ends. It waits, or it makes steps, until it is halted.
fn endless(process: &Process, shared: &Shared) -> Life {
    let counter = Counter::default();
    loop {
        shared.steps(process, 100, &counter);
        process.sleep_until(Instant::now() + Duration::from_micros(10))?;
    }
}

/// The first VM: starts the others, and receives what they did. Returns who tells of their ends.
fn lead(main: &Process, shared: &Shared) -> Vec<Receiver<()>> {
    let start = |number| {
        let shared = shared.clone();
        start_beside(&main.vm, number, move |process| {
            shared.work(process, number)
        })
    };
    let others: Vec<(Arc<Vm>, Receiver<()>)> = (2..2 + VMS).map(start).collect();
    let of_endless = shared.clone();
    let (halted, _) = start_beside(&main.vm, 99, move |process| endless(process, &of_endless));
    let mut received = HashSet::new();
    for _ in 0..VMS * ROUNDS {
        let (reason, did) = main.vm.receive_shared(&shared.log, Deadline::Never);
        assert_eq!(reason, WakeReason::Done);
        received.extend(did);
    }
    assert_eq!(received.len() as u64, VMS * ROUNDS);
    let processes = halted.look(Duration::ZERO, |view| view.sched().iter().count());
    assert_eq!(processes, Ok(1));
    assert_eq!(halted.halt(Duration::ZERO, || {}), HaltOutcome::Halted);
    assert!(halted.is_stopped());
    let ended = Did(0, 0, Instant::now().as_nanos());
    shared.order.lock().expect("no process panics").push(ended);
    others.into_iter().map(|(_, ended)| ended).collect()
}

fn run(seed: u64) -> Vec<Did> {
    let shared = Shared::new();
    let (of_main, ends) = (shared.clone(), Arc::new(Mutex::new(Vec::new())));
    let to_keep = Arc::clone(&ends);
    run_with(
        |vm| vm.simulate(seed),
        move |main| {
            *to_keep.lock().expect("nobody panics") = lead(main, &of_main);
            Ok(())
        },
    );
    for ended in &*ends.lock().expect("nobody panics") {
        ended.recv().expect("the VM ends by itself");
    }
    let order = shared.order.lock().expect("no process panics");
    order.clone()
}

#[test]
fn one_vm_goes_on_at_a_time_and_the_seed_repeats_their_order() {
    let mut orders = HashSet::new();
    for seed in 1..=30 {
        let order = run(seed);
        assert_eq!(order.len() as u64, VMS * ROUNDS + 1);
        for _ in 0..3 {
            assert_eq!(run(seed), order, "the seed {seed}");
        }
        orders.insert(order);
    }
    assert_eq!(orders.len(), 30);
    // A host's loop goes by the real time.
    let simulated = hosted(|vm| vm.simulate(1), |_| Ok(())).vm;
    let refused = simulated.run_until(Instant::FAR_FUTURE);
    assert_eq!(refused, Err(StintRefused::Simulated));
}
