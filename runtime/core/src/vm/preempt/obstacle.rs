//! What keeps signals from preempting a process, and warnings of it.
//!
//! Preemption depends on what is the whole program's: the signal's handler and its mask, the system
//! call that sends it, and the monitor's turn on a CPU. Other code changes them, a sandbox or the
//! program's starter. So who finds that a process does not answer looks at each.

use crate::vm::Vm;
use baton_sys::promptness;
use baton_sys::signals::{Obstacle, ThreadHandle};
use std::sync::atomic::{AtomicU32, Ordering};

/// What has been warned of: a bit for each kind of obstacle. They are the program's.
static WARNED: AtomicU32 = AtomicU32::new(0);

impl Vm {
    /// Looks why the process on the owner's thread does not answer signals, mends what it can, and
    /// warns of what it finds. On the monitor.
    pub(super) fn look_why_unanswered(&self, owner: ThreadHandle) {
        let found = owner.obstacle().or_else(|| promptness::outrank(owner));
        if let Some(obstacle) = found {
            self.warn_of(obstacle);
        }
    }

    /// As [`Vm::look_why_unanswered`], on a thread that has asked for a look and has no answer yet.
    pub(in crate::vm) fn look_why_kept(&self) {
        if let Some(obstacle) = self.obstacle_to_preemption() {
            self.warn_of(obstacle);
        }
    }

    /// Gives the monitor, which has come late, a higher priority than the owner's. On the monitor.
    pub(super) fn outrank_owner(&self) {
        let owner = self.owner_seen();
        if let Some(obstacle) = owner.and_then(|(_, owner)| promptness::outrank(owner)) {
            self.warn_of(obstacle);
        }
    }

    fn warn_of(&self, obstacle: Obstacle) {
        let bit = 1 << obstacle.number();
        // Relaxed: it orders nothing.
        if WARNED.fetch_or(bit, Ordering::Relaxed) & bit == 0 {
            self.guest.warn_unpreempted(obstacle);
        }
    }

    /// What keeps signals from preempting the running process. `None`: nothing does, no process
    /// runs, or the system does not say. What can be mended is mended then. On any thread.
    pub fn obstacle_to_preemption(&self) -> Option<Obstacle> {
        if self.is_simulated() {
            return None; // its safepoints are counted
        }
        let (gate, owner) = self.owner_seen()?;
        (gate & 1 == 0).then_some(owner)?.obstacle()
    }

    /// The value of the owner's gate, and its thread.
    fn owner_seen(&self) -> Option<(u64, ThreadHandle)> {
        let mut state = self.lock_state();
        let owner = state.owner.filter(|_| state.owner_has_come)?;
        let entry = state.entry(owner)?;
        Some((entry.gate?.value(), entry.thread?))
    }
}
