//! Explores the compare-and-swap variant of the VM lock: a native thread that leaves and enters,
//! and a watchdog that takes the VM from it for a new owner. Loom fails if two threads access the
//! guest state at once, or if an owner never gets the VM back. Run with `RUSTFLAGS="--cfg loom"
//! LOOM_MAX_PREEMPTIONS=2 cargo test -p baton-sys --release --test loom_gate`.
#![cfg(loom)]

use baton_sys::gate::{CAS, Claim, GateWords, OwnGate, REVOKED, Take};
use loom::cell::UnsafeCell;
use loom::sync::{Arc, Condvar, Mutex, MutexGuard};
use loom::thread;

const ROUNDS: usize = 2;

/// The owner of the VM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    /// The thread that leaves and enters.
    Caller,
    /// The thread that runs the VM after a take.
    Heir,
}

struct Vm {
    gate: GateWords,
    owner: Mutex<Owner>,
    granted: Condvar,
    /// Used only by the owner, without a lock: loom fails when two threads use it at once.
    guest: UnsafeCell<usize>,
}

// SAFETY: only the owner of the VM uses `guest`; loom checks that here.
unsafe impl Sync for Vm {}
// SAFETY: as above.
unsafe impl Send for Vm {}

impl Vm {
    /// A VM whose caller is inside, on the thread that will call [`Vm::call_out`].
    fn new() -> Vm {
        let vm = Vm {
            gate: GateWords::new(),
            owner: Mutex::new(Owner::Caller),
            granted: Condvar::new(),
            guest: UnsafeCell::new(0),
        };
        vm.callers_gate().use_claims();
        // SAFETY: the caller is the owner, and no other thread knows the VM.
        unsafe { vm.callers_gate().own() };
        vm
    }

    /// The gate, on the thread that will call [`Vm::call_out`].
    fn callers_gate(&self) -> OwnGate<'_> {
        // SAFETY: only that thread calls this.
        unsafe { OwnGate::of(&self.gate) }
    }

    fn lock(&self) -> MutexGuard<'_, Owner> {
        self.owner.lock().expect("no panics")
    }

    fn touch_guest(&self) {
        // SAFETY: the caller is inside; loom checks that no other thread is.
        self.guest.with_mut(|guest| unsafe { *guest += 1 });
    }

    /// One foreign call: leaves and enters.
    fn call_out(&self) {
        let gate = self.callers_gate();
        // SAFETY: the guest is touched after the enter; loom checks that.
        unsafe { gate.leave() };
        assert_ne!(gate.begin_enter() & CAS, 0);
        let claim = gate.claim_enter();
        if claim == Claim::Kept && gate.slow() & REVOKED == 0 {
            return;
        }
        let mut owner = self.lock();
        if *owner != Owner::Caller {
            // SAFETY: as for `leave`.
            unsafe { gate.disown() };
        }
        while *owner != Owner::Caller {
            owner = self.granted.wait(owner).expect("no panics");
        }
        // SAFETY: the mutex is held, and the caller is the owner.
        unsafe { gate.own() };
    }

    /// The watchdog tries once to take the VM from a call that is out.
    fn take(&self) -> Option<Take> {
        let mut owner = self.lock();
        let seen = self.gate.value();
        if *owner != Owner::Caller || seen & 1 == 0 {
            return None;
        }
        let take = self.gate.take_by_claim(seen);
        if take == Take::Taken {
            *owner = Owner::Heir;
        }
        Some(take)
    }

    /// The new owner runs, and gives the VM back.
    fn run_and_give_back(&self) {
        self.touch_guest();
        *self.lock() = Owner::Caller;
        self.granted.notify_one();
    }
}

fn explore(watchdog: impl Fn(&Vm) -> usize + Copy + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        let vm = Arc::new(Vm::new());
        let watcher = {
            let vm = Arc::clone(&vm);
            thread::spawn(move || watchdog(&vm))
        };
        vm.touch_guest();
        for _ in 0..ROUNDS {
            vm.call_out();
            vm.touch_guest();
        }
        let heirs = watcher.join().expect("the watchdog does not panic");
        assert_eq!(*vm.lock(), Owner::Caller);
        // SAFETY: the other thread has ended.
        let touches = vm.guest.with(|guest| unsafe { *guest });
        assert_eq!(touches, ROUNDS + 1 + heirs);
    });
}

#[test]
fn a_call_that_is_taken_waits_until_it_is_given_the_vm_again() {
    explore(|vm| {
        let taken = vm.take() == Some(Take::Taken);
        if taken {
            vm.run_and_give_back();
        }
        usize::from(taken)
    });
}

#[test]
fn two_takes_in_a_row_never_let_two_threads_inside() {
    explore(|vm| {
        let mut heirs = 0;
        for _ in 0..2 {
            if vm.take() == Some(Take::Taken) {
                vm.run_and_give_back();
                heirs += 1;
            }
        }
        heirs
    });
}

#[test]
fn a_take_that_gave_up_leaves_the_caller_inside() {
    explore(|vm| {
        let first = vm.take();
        let second = if first == Some(Take::GaveUp) {
            vm.take()
        } else {
            None
        };
        let heirs = [first, second]
            .into_iter()
            .filter(|&take| take == Some(Take::Taken));
        let heirs = heirs.count();
        if heirs > 0 {
            vm.run_and_give_back();
        }
        heirs
    });
}

/// Takes the VM and leaves it to the call, as the retake policy says that the call keeps it.
fn take_and_undo(vm: &Vm) -> bool {
    let owner = vm.lock();
    let seen = vm.gate.value();
    let is_out = *owner == Owner::Caller && seen & 1 == 1;
    let taken = is_out && vm.gate.take_by_claim(seen) == Take::Taken;
    if taken {
        vm.touch_guest(); // the retake policy reads the guest's state
    }
    taken
}

#[test]
fn a_take_that_is_undone_keeps_the_caller_out_for_its_duration() {
    explore(|vm| usize::from(take_and_undo(vm)));
}

#[test]
fn after_an_undone_take_the_vm_can_be_taken_again() {
    explore(|vm| {
        let owner = vm.lock();
        let seen = vm.gate.value();
        let mut judgements = 0;
        if *owner == Owner::Caller && seen & 1 == 1 && vm.gate.take_by_claim(seen) == Take::Taken {
            vm.touch_guest();
            judgements += 1;
            match vm.gate.take_by_claim(seen) {
                Take::Taken => {
                    vm.touch_guest();
                    judgements += 1;
                }
                // Only because the caller is entering, and has got as far as the mutex.
                Take::GaveUp => assert_ne!(vm.gate.value(), seen),
            }
        }
        judgements
    });
}
