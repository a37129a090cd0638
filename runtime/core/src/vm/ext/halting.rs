//! The end of a VM by another thread, wherever its processes are.
//!
//! The calling thread stops the owner as a fork does (`ext/fork.rs`): out in a call, the VM is
//! taken from it; inside, it waits at a safepoint. Then nobody owns the VM, and nobody ever does
//! again:
//!
//! | where the owner is | what becomes of its thread |
//! |---|---|
//! | out in a call | the call goes on. At its end the thread sleeps for ever |
//! | at a safepoint of a process | it sleeps for ever |
//! | in its own loop, or idle | the loop ends |
//! | in code that reaches no safepoint | the VM is not halted |
//!
//! If the VM abandons calls ([`Vm::abandon_calls_at_end`]), no thread sleeps for ever: it leaves
//! the process's stack for its own loop, which ends.

use super::fork::{Asks, PATIENCE};
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
    /// unwind, and their memory stays. Gives up, and returns `false`, if the owner does not come to
    /// a safepoint within `patience`. When nobody can run any more, calls `then`. Until that has
    /// returned, the VM counts as one that may wake others. In a simulated run it is at a
    /// safepoint, or idle, and its thread sleeps for ever.
    pub fn halt(self: &Arc<Vm>, patience: Duration, then: impl FnOnce()) -> bool {
        if let Some(seat) = self.seat.get() {
            self.halt_in_turnstile(seat);
            then();
            self.runs_no_more();
            return true;
        }
        let until = Instant::now() + patience;
        let mut asks = Asks::default();
        loop {
            if let Some(mut state) = self.try_with_nobody_inside(None, &mut asks) {
                self.note_end();
                state.owner = None;
                state.wake_all();
                self.thawed.notify_all();
                drop(state);
                then();
                self.runs_no_more();
                return true;
            }
            if Instant::now() >= until {
                let _state = self.lock_state();
                // Relaxed: guarded by the mutex.
                self.fork_waits.store(false, Ordering::Relaxed);
                self.thawed.notify_all();
                return false;
            }
            std::thread::sleep(PATIENCE);
        }
    }
}
