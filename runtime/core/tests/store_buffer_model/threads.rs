//! What the two threads do, one memory access at a time.

use super::machine::{Memory, Place};
use super::{Forbidden, Protocol};
use std::fmt;

/// How often the watchdog reads the gate.
const LOOKS: u8 = 3;

/// The position of the thread: `GateWords::{leave, begin_enter, own, disown}`,
/// `ForeignCall::enter_cold`, and the guest's note of its call's object (`baton_gate_is_revoked`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Thread {
    /// Inside, before it reads and writes the guest's state.
    Inside,
    /// Inside, about to leave.
    Leaving,
    /// In a foreign call, before it notes the call's object.
    Outside,
    /// In a foreign call, after the note.
    Noted,
    /// Using the object.
    Using,
    /// The even gate is stored.
    Entering,
    /// `REVOKED` was seen.
    WantsMutex,
    /// It has the mutex.
    HasMutex,
    /// Another thread owns the VM; it waits on its condition variable.
    AwaitsGrant,
    /// All calls are made.
    Finished,
}

/// The position of the watchdog, and of the owner that it makes: `Vm::retake` and
/// `GateWords::take_fence_free`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Watchdog {
    /// Between two reads of the gate.
    Idle,
    /// Has the mutex and this value of the gate, which is odd.
    HasSeen(u8),
    /// `REVOKED` is set.
    HasRevoked(u8),
    /// The other processor has executed the barrier.
    BarrierIsDone(u8),
    /// The VM was taken; the guest's retake policy is called.
    HasTaken,
    /// The new owner is inside, without the mutex.
    HeirInside,
    /// The new owner is done; it wants the mutex to give the VM back.
    HeirLeaves,
}

/// The owner of the VM, under the mutex.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Owner {
    Thread,
    Heir,
}

/// The thread that has the mutex.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Mutex {
    Free,
    OfThread,
    OfWatchdog,
}

/// A state of the model.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    memory: Memory,
    thread: Thread,
    watchdog: Watchdog,
    owner: Owner,
    mutex: Mutex,
    calls: u8,
    looks: u8,
    /// How often the guest's state was written; a thread inside must read this value.
    writes: u8,
    /// The note of the last retaken call, as the watchdog saw it.
    told: u8,
    /// The guest's state, if the thread has read it before its enter.
    early: Option<u8>,
    /// Whether the new owner has read an older state than the last one written; and the same of the
    /// thread.
    heir_saw_old: bool,
    thread_saw_old: bool,
}

/// A step of one of the two threads, in words.
pub(crate) type Step = &'static str;

impl State {
    pub(super) fn first() -> State {
        State {
            memory: Memory::new(2),
            thread: Thread::Inside,
            watchdog: Watchdog::Idle,
            owner: Owner::Thread,
            mutex: Mutex::Free,
            calls: 0,
            looks: 0,
            writes: 0,
            told: 0,
            early: None,
            heir_saw_old: false,
            thread_saw_old: false,
        }
    }

    pub(super) fn is_finished(&self) -> bool {
        self.thread == Thread::Finished
    }

    pub(super) fn what_is_wrong(&self) -> Option<Forbidden> {
        let thread_is_inside = matches!(
            self.thread,
            Thread::Inside | Thread::Leaving | Thread::Finished
        );
        let heir_is_inside = matches!(self.watchdog, Watchdog::HasTaken | Watchdog::HeirInside);
        if thread_is_inside && heir_is_inside {
            Some(Forbidden::BothInside)
        } else if self.heir_saw_old {
            Some(Forbidden::HeirSeesOldState)
        } else if self.thread_saw_old {
            Some(Forbidden::ThreadSeesOldState)
        } else if self.thread == Thread::Using && self.is_taken() && self.told != self.calls {
            Some(Forbidden::UsedUnnoticed)
        } else {
            None
        }
    }

    /// Whether the VM was taken from the thread, and others run.
    fn is_taken(&self) -> bool {
        matches!(
            self.watchdog,
            Watchdog::HasTaken | Watchdog::HeirInside | Watchdog::HeirLeaves
        )
    }

    pub(super) fn successors(&self, protocol: Protocol) -> Vec<(Step, State)> {
        let mut successors = Vec::new();
        for (place, memory) in self.memory.after_one_store(protocol.stores_in_order) {
            let step = match place {
                Place::Gate => "  (the thread's gate becomes visible)",
                Place::Revoked => "  (the thread's flag becomes visible)",
                Place::Guest => "  (the thread's write to the guest becomes visible)",
                Place::Note => "  (the thread's note becomes visible)",
            };
            successors.push((
                step,
                State {
                    memory,
                    ..self.clone()
                },
            ));
        }
        successors.extend(self.of_thread(protocol));
        successors.extend(self.early_read(protocol));
        successors.extend(self.of_watchdog(protocol));
        successors
    }

    fn with(&self, step: Step, change: impl FnOnce(&mut State)) -> Option<(Step, State)> {
        let mut state = self.clone();
        change(&mut state);
        Some((step, state))
    }

    /// The thread reads the guest's state before its turn: a processor may execute a load before
    /// earlier stores and plain loads.
    fn early_read(&self, protocol: Protocol) -> Option<(Step, State)> {
        let is_before_enter = matches!(
            self.thread,
            Thread::Outside | Thread::Noted | Thread::Using | Thread::Entering
        );
        if protocol.slow_is_acquire || !is_before_enter || self.early.is_some() {
            return None;
        }
        self.with("thread: reads the guest's state early", |state| {
            state.early = Some(state.memory.seen_by_thread(Place::Guest));
        })
    }

    fn of_thread(&self, protocol: Protocol) -> Option<(Step, State)> {
        let gate = self.memory.seen_by_thread(Place::Gate);
        match self.thread {
            Thread::Inside => self.with("thread: reads and writes the guest's state", |state| {
                let early = state.early.take();
                let seen = early.unwrap_or_else(|| state.memory.seen_by_thread(Place::Guest));
                state.thread_saw_old = seen != state.writes;
                state.writes += 1;
                state.memory.store(Place::Guest, state.writes, false);
                state.thread = if state.calls == protocol.calls {
                    Thread::Finished
                } else {
                    Thread::Leaving
                };
            }),
            Thread::Leaving => self.with("thread: leaves (stores the odd gate)", |state| {
                state
                    .memory
                    .store(Place::Gate, (gate + 1) | 1, protocol.leave_is_release);
                state.calls += 1;
                state.thread = Thread::Outside;
            }),
            Thread::Outside => self.with("thread: notes what its call is about", |state| {
                state.memory.store(Place::Note, state.calls, false);
                state.thread = Thread::Noted;
            }),
            Thread::Noted => self.with("thread: reads REVOKED, having noted", |state| {
                let is_revoked = state.memory.seen_by_thread(Place::Revoked) == 1;
                let enters = is_revoked && protocol.checks_noted;
                if enters {
                    state.memory.store(Place::Gate, (gate | 1) + 1, false);
                    state.thread = Thread::WantsMutex;
                } else {
                    state.thread = Thread::Using;
                }
            }),
            Thread::Using => self.with("thread: enters (stores the even gate)", |state| {
                state.memory.store(Place::Gate, (gate | 1) + 1, false);
                state.thread = Thread::Entering;
            }),
            Thread::Entering => self.with("thread: reads REVOKED", |state| {
                let is_revoked = state.memory.seen_by_thread(Place::Revoked) == 1;
                let is_cold = is_revoked && protocol.checks_revoked;
                state.thread = if is_cold {
                    Thread::WantsMutex
                } else {
                    Thread::Inside
                };
            }),
            Thread::WantsMutex if self.mutex == Mutex::Free => {
                self.with("thread: locks the mutex", |state| {
                    state.memory.drain();
                    if protocol.lock_is_acquire {
                        state.early = None;
                    }
                    state.mutex = Mutex::OfThread;
                    state.thread = Thread::HasMutex;
                })
            }
            Thread::HasMutex => self.with_mutex(),
            Thread::AwaitsGrant if self.mutex == Mutex::Free && self.owner == Owner::Thread => self
                .with("thread: wakes with the mutex, as the owner", |state| {
                    state.mutex = Mutex::OfThread;
                    state.thread = Thread::HasMutex;
                }),
            Thread::WantsMutex | Thread::AwaitsGrant | Thread::Finished => None,
        }
    }

    /// The thread has the mutex: it owns the VM again, or waits for it. The unlock makes all its
    /// stores visible.
    fn with_mutex(&self) -> Option<(Step, State)> {
        let gate = self.memory.seen_by_thread(Place::Gate);
        if self.owner == Owner::Thread {
            return self.with("thread: is the owner (clears REVOKED, unlocks)", |state| {
                state.memory.drain();
                state
                    .memory
                    .write(Place::Gate, if gate & 1 == 1 { gate + 1 } else { gate });
                state.memory.write(Place::Revoked, 0);
                state.mutex = Mutex::Free;
                state.thread = Thread::Inside;
            });
        }
        self.with(
            "thread: is not the owner (odd gate, unlocks, waits)",
            |state| {
                state.memory.drain();
                state.memory.write(Place::Revoked, 1);
                state.memory.write(Place::Gate, gate | 1);
                state.mutex = Mutex::Free;
                state.thread = Thread::AwaitsGrant;
            },
        )
    }

    fn of_watchdog(&self, protocol: Protocol) -> Vec<(Step, State)> {
        let gate = self.memory.visible(Place::Gate);
        let steps = match self.watchdog {
            Watchdog::Idle => [self.look(gate), None],
            Watchdog::HasSeen(seen) => [
                self.with("watchdog: sets REVOKED", |state| {
                    state.memory.write(Place::Revoked, 1);
                    state.watchdog = Watchdog::HasRevoked(seen);
                }),
                None,
            ],
            Watchdog::HasRevoked(seen) => [
                if protocol.membarrier {
                    self.with(
                        "watchdog: membarrier (the thread's stores are visible)",
                        |state| {
                            state.memory.drain();
                            state.early = None;
                            state.watchdog = Watchdog::BarrierIsDone(seen);
                        },
                    )
                } else {
                    self.decide(gate, seen)
                },
                None,
            ],
            Watchdog::BarrierIsDone(seen) => [self.decide(gate, seen), None],
            Watchdog::HasTaken => [
                self.with(
                    "watchdog: hands the VM to another thread, unlocks",
                    |state| {
                        state.owner = Owner::Heir;
                        state.mutex = Mutex::Free;
                        state.watchdog = Watchdog::HeirInside;
                    },
                ),
                self.with("watchdog: leaves the VM with the call, unlocks", |state| {
                    state.mutex = Mutex::Free;
                    state.watchdog = Watchdog::Idle;
                }),
            ],
            Watchdog::HeirInside => [
                self.with("heir: reads and writes the guest's state", |state| {
                    state.heir_saw_old = state.memory.visible(Place::Guest) != state.writes;
                    state.writes += 1;
                    state.memory.write(Place::Guest, state.writes);
                    state.watchdog = Watchdog::HeirLeaves;
                }),
                None,
            ],
            Watchdog::HeirLeaves => [self.give_back(), None],
        };
        steps.into_iter().flatten().collect()
    }

    fn look(&self, gate: u8) -> Option<(Step, State)> {
        if self.looks == LOOKS || self.mutex != Mutex::Free || self.owner != Owner::Thread {
            return None;
        }
        self.with("watchdog: locks the mutex, reads the gate", |state| {
            state.looks += 1;
            if gate & 1 == 1 {
                state.mutex = Mutex::OfWatchdog;
                state.watchdog = Watchdog::HasSeen(gate);
            }
        })
    }

    fn decide(&self, gate: u8, seen: u8) -> Option<(Step, State)> {
        if gate == seen {
            self.with("watchdog: reads the same gate (the VM is taken)", |state| {
                state.told = state.memory.visible(Place::Note);
                state.watchdog = Watchdog::HasTaken;
            })
        } else {
            self.with(
                "watchdog: reads another gate (gives up, unlocks)",
                |state| {
                    state.mutex = Mutex::Free;
                    state.watchdog = Watchdog::Idle;
                },
            )
        }
    }

    fn give_back(&self) -> Option<(Step, State)> {
        if self.mutex != Mutex::Free {
            return None;
        }
        self.with("heir: gives the VM back, under the mutex", |state| {
            state.owner = Owner::Thread;
            state.watchdog = Watchdog::Idle;
        })
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let drained = if self.memory.is_drained() {
            ""
        } else {
            ", stores pending"
        };
        write!(
            f,
            "gate {} (thread sees {}), revoked {}{drained}",
            self.memory.visible(Place::Gate),
            self.memory.seen_by_thread(Place::Gate),
            self.memory.visible(Place::Revoked),
        )
    }
}
