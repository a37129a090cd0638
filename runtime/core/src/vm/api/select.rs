//! Selects that may include descriptors.
//!
//! The scheduler learns that a descriptor has *become* ready, not that it *is* ready. So the owner
//! first asks the system about each descriptor. The process waits only for those that are not
//! ready. When such a wait ends, all cases are tried again.
//!
//! **No wake-up is lost.** The owner asks the system about a descriptor. Then it renews the
//! registration, which reports everything that the descriptor is ready for by then. Then the
//! process begins to wait. All of this happens inside the VM without a switch.

use crate::sched::{Case, Deadline, Readiness, Wake, WakeReason, Watch};
use crate::vm::Inside;
use crate::vm::idle::descriptors::{interest_of, readiness_of};
use baton_sys::poller::readiness_now;
use std::io;

impl Inside<'_> {
    /// Completes exactly one of the cases, as
    /// [`Scheduler::select`](crate::sched::Scheduler::select) does: a random one of those that are
    /// ready, or the first to become ready. Each entry of `watches` gives an index and a
    /// descriptor; the case at that index is replaced by the descriptor.
    ///
    /// `Wake::value` says what a descriptor is ready for. A descriptor that is closed is ready with
    /// [`WakeReason::Closed`]. A descriptor of a kind that never blocks, like a file, is always
    /// ready.
    ///
    /// # Errors
    /// When one of the descriptors cannot be waited for. Then no case has been completed.
    // A frame of its own would be one more between C and the switch: see `Inside::await_wake`.
    #[inline(always)]
    pub fn select(
        &self,
        cases: &mut [Case],
        watches: &[(usize, Watch)],
        deadline: Deadline,
    ) -> io::Result<Wake> {
        loop {
            for &(place, watch) in watches {
                cases[place] = self.case_of(watch)?;
            }
            let wake = self.block_on_random(|sched, random| sched.select(cases, deadline, random));
            let case = cases.get(wake.case as usize);
            if wake.reason != WakeReason::Done || !matches!(case, Some(Case::Descriptor(..))) {
                return Ok(wake);
            }
        }
    }

    /// The case for a descriptor: ready already, or to be waited for. Inside the VM.
    fn case_of(&self, watch: Watch) -> io::Result<Case> {
        let Some(ready) = readiness_now(watch.descriptor.cast_signed(), interest_of(watch.wants))
            .map(readiness_of)
        else {
            return Ok(Case::Ready(WakeReason::Closed, 0));
        };
        if ready.intersects(watch.wants | Readiness::FAILED) {
            return Ok(Case::Ready(WakeReason::Done, u64::from(ready.bits())));
        }
        let edition = self.renew(watch)?;
        self.counters.descriptor_waits.increment();
        Ok(Case::Descriptor(watch, edition))
    }
}
