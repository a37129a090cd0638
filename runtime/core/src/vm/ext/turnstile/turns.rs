//! The VMs of a simulated run, and the one that is released.

use super::order::{Choice, Order, Standing, first_number};
use crate::recording::Recording;
use crate::vm::{Inside, Vm, request};
use baton_sys::clock::{self, Instant};
use baton_sys::forking::ForkMutex;
use baton_sys::thread::Joinable;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, MutexGuard, PoisonError, Weak};
use std::time::Duration;

/// How long a VM waits for something from outside before it looks at the other VMs.
const OUTSIDE: Duration = Duration::from_millis(10);

#[derive(Debug)]
pub(super) struct Turnstile {
    pub(super) seed: u64,
    pub(super) state: ForkMutex<Turns>,
    /// Whether there are several members. Written with the mutex held, by the VM that is released.
    has_several: AtomicBool,
}

#[derive(Debug)]
pub(super) struct Turns {
    pub(super) order: Order,
    pub(super) members: Vec<Member>,
    /// The number of the VM that is released.
    pub(super) released: u64,
    /// The VM that has released another one only for a look.
    lender: Option<u64>,
    /// Threads of VMs that have ended. The next VM that goes on joins them.
    ended: Vec<Joinable>,
    /// What records the first VM.
    pub(super) recording: Option<Recording>,
}

/// A VM that has not ended.
#[derive(Debug)]
pub(super) struct Member {
    number: u64,
    vm: Weak<Vm>,
    standing: Standing,
    /// Another VM's posts make it ready.
    pub(super) takes_posts: bool,
    /// It has begun, so its thread waits where its state may be read.
    has_begun: bool,
    /// Its thread waits, or has waited, for its turn.
    pub(super) has_come: bool,
    pub(super) released: Arc<Condvar>,
    pub(super) thread: Option<Joinable>,
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
    pub(super) fn new(number: u64, vm: Weak<Vm>) -> Member {
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

impl Turns {
    pub(super) fn find(&mut self, number: u64) -> Option<&mut Member> {
        self.members
            .iter_mut()
            .find(|member| member.number == number)
    }

    pub(super) fn remove(&mut self, number: u64) -> Option<Member> {
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
    pub(super) fn new(seed: u64) -> Turnstile {
        Turnstile {
            seed,
            state: ForkMutex::new(Turns::new(seed)),
            has_several: AtomicBool::new(false),
        }
    }

    /// Whether there are other VMs than that of the calling thread, which is released.
    pub(super) fn has_several(&self) -> bool {
        // Relaxed: only the VM that is released writes it, and the mutex orders the next one's
        // read after that.
        self.has_several.load(Ordering::Relaxed)
    }

    pub(super) fn note_members(&self, state: &Turns) {
        let has_several = state.members.len() > 1;
        // Relaxed: as in `has_several`.
        self.has_several.store(has_several, Ordering::Relaxed);
    }

    /// Waits until a VM is released. If it is halted, that never happens.
    pub(super) fn await_release<'a>(
        &'a self,
        mut state: MutexGuard<'a, Turns>,
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
    pub(super) fn hand_on<'a>(
        &'a self,
        mut state: MutexGuard<'a, Turns>,
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
    pub(super) fn leave(&self, number: u64) {
        let mut state = self.state.lock();
        let Some(member) = state.remove(number) else {
            return;
        };
        self.note_members(&state);
        let Member { thread, vm, .. } = member;
        drop(vm); // this frees the VM's memory
        state.ended.extend(thread);
        let Some(first) = state.members.first().map(|member| member.number) else {
            // No VM goes on that could join them. A halted VM may keep this for ever.
            state.ended.clear();
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
    pub(super) fn lend(&self, number: u64) {
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

impl Turns {
    pub(super) fn new(seed: u64) -> Turns {
        Turns {
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

impl Vm {
    /// Something has come for this VM that its owner has not taken in.
    fn has_news(&self) -> bool {
        !self.inbox.is_empty() || self.signal_is_due()
    }
}

impl Inside<'_> {
    /// Serves looks in a turn that was lent for that.
    fn serve_lent_turn(&self) {
        // AcqRel: pairs with the release in `request`.
        let requests = self.requests.fetch_and(!request::LOOK, Ordering::AcqRel);
        self.serve_looks_if_asked(requests);
    }
}
