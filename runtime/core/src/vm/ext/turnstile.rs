//! Several VMs in a simulated run: one of them goes on at a time, and the seed chooses it.
//!
//! Each VM keeps its home thread, and other native threads if it has them. The turnstile *releases*
//! one VM. The owner's thread of any other VM waits in one of three places:
//!
//! | place | left when the VM is released again |
//! |---|---|
//! | before its beginning ([`Vm::run_in_turn`]) | it begins |
//! | at a safepoint, after the steps of its turn ([`Inside::end_turn_if_due`]) | it goes on |
//! | idle ([`Inside::idle_among_vms`]) | it takes in what has come for it |
//!
//! | the VM that is released | edge | function |
//! |---|---|---|
//! | a -> b | a's turn is over, or a is idle; the seed chooses b | `hand_on` |
//! | a -> b | a has ended | `Turnstile::leave` |
//! | a -> b -> a | a looks at the state of b, which does nothing else | `Turnstile::lend` |
//! | a -> a | a halts b, which is never released again | `Seat::remove` |
//!
//! **A run repeats itself.** A VM changes nothing that another one can see, but while it is
//! released. Its beginning and its end are no exceptions. The thread that starts a home thread
//! waits until that waits here, and a thread that has ended is joined before the next VM goes on.
//! So they do not use the program's allocator beside another VM. The choice depends on what VMs are
//! ready to do, on the virtual time and on the seed, and all of them are the same in each run. Time
//! advances by the steps of the released VM, and jumps to the earliest deadline of all VMs when
//! none can go on.
//!
//! **No wake-up is lost.** What is posted to a VM that waits here is in its inbox, and the next
//! choice reads all inboxes. Only if no VM can go on before something comes from outside (a signal,
//! say), the released VM waits in its poller. It looks at the others every `OUTSIDE`, since what
//! comes may be for one of them.
//!
//! The mutex is a leaf: its holder takes no other lock. `turnstile/turns.rs` has the VMs and who is
//! released, and `turnstile/order.rs` chooses: it is pure.

mod order;
mod turns;

pub(in crate::vm) use self::order::first_number;
pub(in crate::vm) use self::turns::Idled;

use self::order::Standing;
use self::turns::{Member, Turns, Turnstile};
use crate::recording::Recording;
use crate::vm::{Inside, Vm};
use baton_sys::clock::{self, Instant};
use baton_sys::forking::Child;
use baton_sys::{gate, thread};
use std::io;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// A VM's place in the turnstile of its run.
#[derive(Debug)]
pub(in crate::vm) struct Seat {
    turnstile: Arc<Turnstile>,
    number: u64,
}

impl Seat {
    /// The seat of the first VM of a run.
    pub(super) fn first(seed: u64) -> Seat {
        Seat {
            turnstile: Arc::new(Turnstile::new(seed)),
            number: 1,
        }
    }

    /// Takes the place of a VM that runs on a thread of its own choice, as the first one does. It
    /// is released. Not if the VM has its place already.
    pub(in crate::vm) fn take(&self, vm: &Arc<Vm>) -> bool {
        let mut state = self.turnstile.state.lock();
        if state.find(self.number).is_some() {
            return false;
        }
        state
            .members
            .push(Member::new(self.number, Arc::downgrade(vm)));
        state.released = self.number;
        true
    }

    /// The end of a VM that has taken its place so.
    pub(in crate::vm) fn leave(&self) {
        self.turnstile.leave(self.number);
    }

    /// A halted VM is never released again.
    pub(in crate::vm) fn remove(&self) {
        let mut state = self.turnstile.state.lock();
        let removed = state.remove(self.number);
        self.turnstile.note_members(&state);
        drop(state);
        drop(removed);
    }

    pub(super) fn note_recording(&self, recording: Recording) {
        self.turnstile.state.lock().recording = Some(recording);
    }

    pub(super) fn recording(&self) -> Option<Recording> {
        self.turnstile.state.lock().recording
    }

    /// In a fork's child, this VM is alone.
    pub(in crate::vm) fn renew_in_child(&self, child: &Child, vm: &Arc<Vm>) {
        let mut state = Turns::new(self.turnstile.seed);
        state
            .members
            .push(Member::new(self.number, Arc::downgrade(vm)));
        state.released = self.number;
        self.turnstile.note_members(&state);
        self.turnstile.state.renew_in_child(child, state);
    }
}

impl Vm {
    /// Makes this VM one of the simulated run of another VM. Its `number` makes its random numbers
    /// others than those of the other VMs. Before its first process.
    ///
    /// # Panics
    /// If the run of `other` is not simulated.
    pub fn simulate_beside(&self, other: &Vm, number: u64) {
        let Some(seat) = other.seat.get() else {
            panic!("the other VM is in no simulated run");
        };
        let turnstile = Arc::clone(&seat.turnstile);
        let seed = turnstile.seed;
        let _ = self.seat.set(Seat { turnstile, number });
        self.begin_simulation(seed.wrapping_add(number.wrapping_mul(0xD1B5_4A32_D192_ED03)));
    }

    /// Starts the home thread of a VM of a simulated run ([`Vm::simulate_beside`]), which calls
    /// `live` when the seed first chooses this VM. `live` runs the VM ([`Vm::run`]). The VM has
    /// ended when it returns. Called by a process of the run, outside of its VM.
    ///
    /// # Errors
    /// The system's, if it has no room for another thread.
    ///
    /// # Panics
    /// If the VM is in no simulated run.
    pub fn run_in_turn(
        self: Arc<Vm>,
        name: &str,
        stack_size: usize,
        live: impl FnOnce(Arc<Vm>) + Send + 'static,
    ) -> io::Result<()> {
        let Some(Seat { turnstile, number }) = self.seat.get() else {
            panic!("the VM is in no simulated run");
        };
        let (turnstile, number) = (Arc::clone(turnstile), *number);
        {
            let mut state = turnstile.state.lock();
            if state.members.len() == 1 {
                state.order.begin_turn();
            }
            if let Some(recording) = state.recording {
                recording.note_several_vms();
            }
            state
                .members
                .push(Member::new(number, Arc::downgrade(&self)));
            turnstile.note_members(&state);
        }
        let of_thread = Arc::clone(&turnstile);
        let started = thread::start_joinable(name, stack_size, move || {
            of_thread.await_release(of_thread.state.lock(), number, None);
            live(self);
            of_thread.leave(number);
        });
        let mut state = turnstile.state.lock();
        let thread = started.inspect_err(|_| {
            drop(state.remove(number));
            turnstile.note_members(&state);
        })?;
        let Some(released) = state.find(number).map(|member| {
            member.thread = Some(thread);
            Arc::clone(&member.released)
        }) else {
            return Ok(());
        };
        while state.find(number).is_some_and(|member| !member.has_come) {
            state = released.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        Ok(())
    }

    /// The place of this VM, if there are other ones.
    fn shared_seat(&self) -> Option<&Seat> {
        self.seat.get().filter(|seat| seat.turnstile.has_several())
    }

    /// Counts steps that this VM has made.
    pub(super) fn count_for_turn(&self, steps: u32) {
        if let Some(seat) = self.shared_seat() {
            seat.turnstile.state.lock().order.count(steps);
        }
    }

    /// The most steps until the next safepoint, so that the turn ends when its steps are made.
    pub(super) fn steps_of_turn(&self) -> u32 {
        self.shared_seat().map_or(u32::MAX, |seat| {
            let state = seat.turnstile.state.lock();
            state.order.steps_left()
        })
    }

    /// Halts this VM, which waits in its turnstile.
    pub(in crate::vm) fn halt_in_turnstile(&self, seat: &Seat) {
        seat.remove();
        self.note_end();
        self.lock_state().owner = None;
    }

    /// Lets this VM serve looks, if it waits for its turn, and the calling thread's VM has it.
    pub(in crate::vm) fn lend_turn(&self) {
        let is_of_a_vm = gate::here().carrier().is_some();
        if let Some(seat) = self.seat.get().filter(|_| is_of_a_vm) {
            seat.turnstile.lend(seat.number);
        }
    }
}

impl Inside<'_> {
    /// At a safepoint of a simulated run: other VMs go on, if this one has made the steps of its
    /// turn.
    #[cold]
    pub(in crate::vm) fn end_turn_if_due(&self) {
        let Some(seat) = self.shared_seat() else {
            return;
        };
        let state = seat.turnstile.state.lock();
        if state.order.is_over() {
            let _ = seat
                .turnstile
                .hand_on(state, seat.number, Standing::MayRun, self);
        }
    }

    /// Lets other VMs of a simulated run go on, as no process of this one can. Its earliest
    /// deadline takes effect at `until`. Without one, `is_dead` says that nothing from outside can
    /// wake a process.
    pub(in crate::vm) fn idle_among_vms(&self, until: Option<Instant>, is_dead: bool) -> Idled {
        let standing = match until {
            None if !is_dead => Standing::WaitsForOutside,
            _ => Standing::Waits(until),
        };
        self.wait_among_vms(standing, true)
    }

    /// In a simulated run, lets time pass and other VMs go on: a pause for a thread that waits for
    /// another VM without letting other processes run.
    pub fn pause_among_vms(&self, duration: Duration) {
        let until = Instant::now() + duration;
        if self.wait_among_vms(Standing::Waits(Some(until)), false) == Idled::Alone {
            clock::advance(duration);
        }
    }

    fn wait_among_vms(&self, standing: Standing, takes_posts: bool) -> Idled {
        let Some(seat) = self.shared_seat() else {
            return Idled::Alone;
        };
        let mut state = seat.turnstile.state.lock();
        if let Some(member) = state.find(seat.number) {
            member.takes_posts = takes_posts;
        }
        let idled = seat.turnstile.hand_on(state, seat.number, standing, self);
        if let Some(member) = seat.turnstile.state.lock().find(seat.number) {
            member.takes_posts = false;
        }
        idled
    }
}
