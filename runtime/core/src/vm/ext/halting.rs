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

use super::fork::{Asks, PATIENCE};
use crate::vm::Vm;
use baton_sys::clock::Instant;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

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
