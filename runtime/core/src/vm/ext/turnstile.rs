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
//! | a -> a | a halts b, which is never released again | `Turnstile::remove` |
//!
//! **A run repeats itself.** A VM changes nothing that another one can see, but while it is
//! released. Its beginning and its end are no exceptions: the thread that starts a home thread waits
//! until that waits here, and a thread that has ended is joined before the next VM goes on, so that
//! they do not use the program's allocator beside it. The choice depends on what VMs are ready to
//! do, on the virtual time and on the seed, and all of them are the same in each run. Time advances
//! by the steps of the released VM, and jumps to the earliest deadline of all VMs when none can go
//! on.
//!
//! **No wake-up is lost.** What is posted to a VM that waits here is in its inbox, and the next
//! choice reads all inboxes. Only if no VM can go on before something comes from outside (a signal,
//! say), the released VM waits in its poller. It looks at the others every [`OUTSIDE`], since what
//! comes may be for one of them.
//!
//! The mutex is a leaf: its holder takes no other lock. (`order.rs` is pure.)

mod order;

use self::order::{Choice, Order, Standing};
use super::simulation::{STEP, first_number};
use crate::recording::Recording;
use crate::vm::{Inside, Vm, request};
use baton_sys::clock::{self, Instant};
use baton_sys::forking::{Child, ForkMutex};
use baton_sys::gate;
use baton_sys::thread::{self, Joinable};
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, MutexGuard, PoisonError, Weak};
use std::time::Duration;

/// How long a VM waits for something from outside before it looks at the other VMs.
const OUTSIDE: Duration = Duration::from_millis(10);

/// A VM's place in the turnstile of its run.
#[derive(Debug)]
pub(in crate::vm) struct Seat {
    turnstile: Arc<Turnstile>,
    number: u64,
}

#[derive(Debug)]
struct Turnstile {
    seed: u64,
    state: ForkMutex<State>,
}

#[derive(Debug)]
struct State {
    order: Order,
    members: Vec<Member>,
    /// The number of the VM that is released.
    released: u64,
    /// The VM that has released another one only for a look.
    lender: Option<u64>,
    /// Threads of VMs that have ended. The next VM that goes on joins them.
    ended: Vec<Joinable>,
    /// What records the first VM.
    recording: Option<Recording>,
}

/// A VM that has not ended.
#[derive(Debug)]
struct Member {
    number: u64,
    vm: Weak<Vm>,
    standing: Standing,
    /// Another VM's posts make it ready.
    takes_posts: bool,
    /// It has begun, so its thread waits where its state may be read.
    has_begun: bool,
    /// Its thread waits, or has waited, for its turn.
    has_come: bool,
    released: Arc<Condvar>,
    thread: Option<Joinable>,
}

/// What has become of the wait of an idle VM.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::vm) enum Idled {
    /// There is no other VM. It waits by itself.
    Alone,
    /// It is over.
    Over,
    /// It is for something from outside. The VM waits for that up to this time.
    Outside(Instant),
}

impl Member {
    fn new(number: u64, vm: Weak<Vm>) -> Member {
        Member {
            number,
            vm,
            standing: Standing::MayRun,
            takes_posts: false,
            has_begun: false,
            has_come: false,
            released: Arc::default(),
            thread: None,
        }
    }

    fn standing(&self) -> Standing {
        let has_news = || self.vm.upgrade().is_some_and(|vm| vm.has_news());
        if self.takes_posts && has_news() {
            return Standing::MayRun;
        }
        self.standing
    }
}

impl State {
    fn find(&mut self, number: u64) -> Option<&mut Member> {
        self.members.iter_mut().find(|member| member.number == number)
    }

    fn remove(&mut self, number: u64) -> Option<Member> {
        let mut all = self.members.iter();
        let place = all.position(|member| member.number == number)?;
        Some(self.members.remove(place))
    }

    /// Chooses a VM, after the time has passed that none can use. `Err`: it waits for the world.
    fn choose(&mut self) -> Result<u64, u64> {
        loop {
            let now = Instant::now();
            let standings: Vec<_> = self.members.iter().map(Member::standing).collect();
            let number = |place: usize| self.members[place].number;
            match self.order.choose(&standings, now) {
                Choice::GoesOn(place) => return Ok(number(place)),
                Choice::Later(until) => clock::advance(until - now),
                Choice::Outside(Some(place)) => return Err(number(place)),
                Choice::Outside(None) => return Err(self.released),
            }
        }
    }

    /// Lets a VM go on.
    fn release(&mut self, number: u64) {
        self.released = number;
        if let Some(member) = self.find(number) {
            member.released.notify_all();
        }
    }
}

impl Turnstile {
    fn new(seed: u64) -> Turnstile {
        Turnstile {
            seed,
            state: ForkMutex::new(State::new(seed)),
        }
    }

    /// Waits until a VM is released. If it is halted, that never happens.
    fn await_release<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        number: u64,
        at: Option<&Inside<'_>>,
    ) {
        let Some(member) = state.find(number) else {
            return;
        };
        member.has_come = true;
        member.has_begun = at.is_some();
        let released = Arc::clone(&member.released);
        released.notify_all(); // the thread that started this one may wait for it
        loop {
            while state.released != number {
                state = released.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            let Some((lender, inside)) = state.lender.take().zip(at) else {
                break;
            };
            drop(state);
            inside.serve_lent_turn();
            state = self.state.lock();
            state.release(lender);
        }
        let ended = std::mem::take(&mut state.ended);
        drop(state);
        ended.into_iter().for_each(Joinable::join);
    }

    /// Ends the turn of a VM that stands so, until it is released again.
    fn hand_on<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        number: u64,
        standing: Standing,
        inside: &Inside<'_>,
    ) -> Idled {
        if let Some(member) = state.find(number) {
            member.standing = standing;
        }
        let chosen = state.choose();
        state.order.begin_turn();
        if chosen == Err(number) {
            return Idled::Outside(Instant::now() + OUTSIDE);
        }
        let (Ok(next) | Err(next)) = chosen;
        state.release(next);
        self.await_release(state, number, Some(inside));
        Idled::Over
    }

    /// The VM has ended. Called last by its home thread.
    fn leave(&self, number: u64) {
        let mut state = self.state.lock();
        let Some(member) = state.remove(number) else {
            return;
        };
        let Member { thread, vm, .. } = member;
        drop(vm); // this frees the VM's memory
        state.ended.extend(thread);
        let Some(first) = state.members.first().map(|member| member.number) else {
            return;
        };
        let next = match state.choose() {
            Ok(next) => next,
            // It looks again whether this is a deadlock.
            Err(none) if none == number => first,
            Err(next) => next,
        };
        state.order.begin_turn();
        state.release(next);
    }

    /// Lets a VM that waits here serve looks, and waits until it has. Called by a process of the
    /// VM that is released.
    fn lend(&self, number: u64) {
        let mut state = self.state.lock();
        let me = state.released;
        let may_look = state.find(number).is_some_and(|member| member.has_begun);
        let Some(released) = state.find(me).map(|me| Arc::clone(&me.released)) else {
            return;
        };
        if !may_look || me == number {
            return;
        }
        state.lender = Some(me);
        state.release(number);
        while state.released != me {
            state = released.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl State {
    fn new(seed: u64) -> State {
        State {
            // Another sequence than that of the first VM.
            order: Order::new(first_number(!seed)),
            members: Vec::new(),
            released: 0,
            lender: None,
            ended: Vec::new(),
            recording: None,
        }
    }
}

impl Seat {
    /// The seat of the first VM of a run.
    pub(super) fn first(seed: u64) -> Seat {
        Seat {
            turnstile: Arc::new(Turnstile::new(seed)),
            number: 1,
        }
    }

    /// Takes the place of a VM that runs on a thread of its own choice, as the first one does. It is
    /// released. Not if the VM has its place already.
    pub(in crate::vm) fn take(&self, vm: &Arc<Vm>) -> bool {
        let mut state = self.turnstile.state.lock();
        if state.find(self.number).is_some() {
            return false;
        }
        state.members.push(Member::new(self.number, Arc::downgrade(vm)));
        state.released = self.number;
        true
    }

    /// The end of a VM that has taken its place so.
    pub(in crate::vm) fn leave(&self) {
        self.turnstile.leave(self.number);
    }

    /// A halted VM is never released again.
    pub(in crate::vm) fn remove(&self) {
        let removed = self.turnstile.state.lock().remove(self.number);
        drop(removed);
    }

    pub(super) fn note_recording(&self, recording: Recording) {
        self.turnstile.state.lock().recording = Some(recording);
    }

    /// In a fork's child, this VM is alone.
    pub(in crate::vm) fn renew_in_child(&self, child: &Child, vm: &Arc<Vm>) {
        let mut state = State::new(self.turnstile.seed);
        state.members.push(Member::new(self.number, Arc::downgrade(vm)));
        state.released = self.number;
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
            state.members.push(Member::new(number, Arc::downgrade(&self)));
        }
        let of_thread = Arc::clone(&turnstile);
        let started = thread::start_joinable(name, stack_size, move || {
            of_thread.await_release(of_thread.state.lock(), number, None);
            live(self);
            of_thread.leave(number);
        });
        let mut state = turnstile.state.lock();
        let thread = started.inspect_err(|_| drop(state.remove(number)))?;
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

    /// Counts steps that this VM has made.
    pub(super) fn count_for_turn(&self, steps: u32) {
        if let Some(seat) = self.seat.get() {
            seat.turnstile.state.lock().order.count(steps);
        }
    }

    /// The most steps until the next safepoint, so that the turn ends when its steps are made.
    pub(super) fn steps_of_turn(&self) -> u32 {
        let Some(seat) = self.seat.get() else {
            return u32::MAX;
        };
        let state = seat.turnstile.state.lock();
        match state.members.len() {
            0 | 1 => u32::MAX,
            _ => state.order.steps_left(),
        }
    }

    /// Something has come for this VM that its owner has not taken in.
    fn has_news(&self) -> bool {
        !self.inbox.is_empty() || self.signal_is_due()
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
        let Some(seat) = self.seat.get() else {
            return;
        };
        let state = seat.turnstile.state.lock();
        if state.members.len() > 1 && state.order.is_over() {
            let _ = seat.turnstile.hand_on(state, seat.number, Standing::MayRun, self);
        }
    }

    /// Lets other VMs of a simulated run go on, as no process of this one can. Its earliest deadline
    /// is `deadline`. Without one, `is_dead` says that nothing from outside can wake a process.
    pub(in crate::vm) fn idle_among_vms(&self, deadline: Option<Instant>, is_dead: bool) -> Idled {
        let standing = match deadline {
            None if !is_dead => Standing::WaitsForOutside,
            _ => Standing::Waits(deadline.map(|deadline| deadline + STEP)),
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
        let Some(seat) = self.seat.get() else {
            return Idled::Alone;
        };
        let mut state = seat.turnstile.state.lock();
        if state.members.len() < 2 {
            return Idled::Alone;
        }
        if let Some(member) = state.find(seat.number) {
            member.takes_posts = takes_posts;
        }
        let idled = seat.turnstile.hand_on(state, seat.number, standing, self);
        if let Some(member) = seat.turnstile.state.lock().find(seat.number) {
            member.takes_posts = false;
        }
        idled
    }

    /// Serves looks in a turn that was lent for that.
    fn serve_lent_turn(&self) {
        // AcqRel: pairs with the release in `request`.
        let requests = self.requests.fetch_and(!request::LOOK, Ordering::AcqRel);
        self.serve_looks_if_asked(requests);
    }
}
