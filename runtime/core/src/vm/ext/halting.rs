//! The end of a VM by another thread, wherever its processes are.
//!
//! The calling thread stops the owner as a fork does (`ext/fork.rs`): out in a call, the VM is
//! taken from it; inside, it waits at a safepoint. Then nobody owns the VM, and nobody ever does
//! again:
//!
//! | where the owner is | what becomes of its thread |
//! |---|---|
//! | out in a call | the call goes on, as one that was retaken. At its end the thread's loop ends |
//! | at a safepoint of a process | it sleeps for ever |
//! | in its own loop, or idle | the loop ends |
//! | in code that reaches no safepoint | the VM is not halted |
//!
//! If the VM abandons calls ([`Vm::abandon_calls_at_end`]), no thread sleeps for ever: it leaves
//! the process's stack for its own loop, which ends.
//!
//! **The end is told once.** A VM may end by itself while another thread halts it. Whoever comes
//! first tells the others ([`Vm::tell_of_end`]):
//!
//! | the end | edge | function |
//! |---|---|---|
//! | not told -> being told | the loop of home has ended, or nobody can run any more | [`Vm::run_and_then`], [`Vm::halt`] |
//! | being told -> told | the function `then` has returned | the same thread |
//!
//! Until the end is told, the VM counts as one that may act. Who comes second does nothing: it
//! knows that somebody tells of the end, not that this is done.

use super::fork::{Asks, PATIENCE};
use crate::vm::lock::state::{LockState, Outside};
use crate::vm::{Inside, Vm};
use baton_sys::clock::Instant;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How the VM ends.
#[derive(Debug, Default)]
pub(in crate::vm) struct Endings {
    /// Threads end that come back from a call after the end.
    abandons_calls: AtomicBool,
    /// It has ended as no process could ever run again.
    has_deadlocked: AtomicBool,
    /// A thread tells others of the end, or has done so.
    is_told: AtomicBool,
}

/// What has become of a VM that was to be halted.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HaltOutcome {
    /// It is halted.
    Halted,
    /// It had ended by itself, or was halted before. Others may not have been told yet.
    HadEnded,
    /// It goes on: its owner did not come to a safepoint in time.
    GoesOn,
}

impl Vm {
    /// From now on, a thread that comes back from a foreign call after the end of the VM abandons
    /// its process, and ends. Otherwise it sleeps for ever, and keeps the VM. For programs that
    /// free the VM and go on. Nothing of the process is unwound, and its stack goes with the VM. So
    /// foreign code must not leave pointers to that stack behind.
    pub fn abandon_calls_at_end(&self) {
        // Relaxed: set before the VM runs.
        self.endings.abandons_calls.store(true, Ordering::Relaxed);
    }

    pub(in crate::vm) fn abandons_calls(&self) -> bool {
        // Relaxed: as above.
        self.endings.abandons_calls.load(Ordering::Relaxed)
    }

    /// Whether the VM has ended by [`Inside::stop_in_deadlock`].
    pub fn has_deadlocked(&self) -> bool {
        // Relaxed: what is read after the end of a run is ordered by that.
        self.endings.has_deadlocked.load(Ordering::Relaxed)
    }
}

impl Inside<'_> {
    /// As [`Inside::stop`], because no process can ever run again. For
    /// [`Guest::deadlocked`](crate::guest::Guest::deadlocked): the run ends.
    pub fn stop_in_deadlock(&self) {
        // Relaxed: as above.
        self.endings.has_deadlocked.store(true, Ordering::Relaxed);
        self.stop();
    }
}

impl Vm {
    /// Stops the VM for good, from a thread that is none of its carriers. Its processes do not
    /// unwind, and their memory stays. Gives up if the owner does not come to a safepoint within
    /// `patience`. When nobody can run any more, calls `then`, unless the VM has ended by itself.
    /// Until that has returned, the VM counts as one that may wake others. In a simulated run it is
    /// at a safepoint, or idle, and its thread sleeps for ever.
    pub fn halt(self: &Arc<Vm>, patience: Duration, then: impl FnOnce()) -> HaltOutcome {
        if let Some(seat) = self.seat.get() {
            self.halt_in_turnstile(seat);
            self.tell_of_end(then);
            return HaltOutcome::Halted;
        }
        let until = Instant::now() + patience;
        let mut asks = Asks::default();
        loop {
            if let Some(mut state) = self.try_with_nobody_inside(None, &mut asks) {
                let had_ended = self.has_ended() && state.owner.is_none();
                self.note_end();
                self.note_halted_call(&mut state);
                state.owner = None;
                state.wake_all();
                self.thawed.notify_all();
                drop(state);
                self.tell_of_end(then);
                return match had_ended {
                    true => HaltOutcome::HadEnded,
                    false => HaltOutcome::Halted,
                };
            }
            if Instant::now() >= until {
                let _state = self.lock_state();
                // Relaxed: guarded by the mutex.
                self.fork_waits.store(false, Ordering::Relaxed);
                self.thawed.notify_all();
                return HaltOutcome::GoesOn;
            }
            std::thread::sleep(PATIENCE);
        }
    }

    /// Makes the call that had the halted VM like one that the VM was retaken from. The VM's mutex
    /// is held, and nobody is inside.
    fn note_halted_call(&self, state: &mut LockState) {
        let Some(owner) = state.owner.filter(|_| state.owner_has_come) else {
            return;
        };
        let gate = state.entry(owner).and_then(|entry| entry.gate);
        if gate.is_none_or(|gate| gate.value() & 1 == 0) {
            return; // at a safepoint
        }
        let out = self.with_mutex_held(state, |inner, _| {
            let process = inner.process_on_stack()?;
            let fiber = inner.context(process).fiber?;
            Some(Outside {
                process,
                fiber,
                began: None,
            })
        });
        if let Some(entry) = state.entry(owner) {
            entry.out = out;
        }
    }

    /// How many calls of the VM go on: for a VM that has ended, how many of its threads cannot end
    /// yet.
    pub fn calls_in_progress(&self) -> usize {
        let state = self.lock_state();
        let entries = state.carriers.iter().flatten();
        entries.filter(|entry| entry.out.is_some()).count()
    }

    /// Nobody runs the VM any more: tells others by `then`, if nobody has yet.
    pub(in crate::vm) fn tell_of_end(self: &Arc<Vm>, then: impl FnOnce()) {
        // Relaxed: it only chooses one of the threads that come here. What `then` uses is ordered
        // by the VM's mutex.
        if !self.endings.is_told.swap(true, Ordering::Relaxed) {
            then();
            self.runs_no_more();
        }
    }
}
