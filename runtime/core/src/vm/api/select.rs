//! Selects whose cases may be descriptors.
//!
//! The scheduler knows that a descriptor has become ready, not that it is. So the owner asks the
//! system first, and has the process wait only for those that are not ready. A wait that such a
//! descriptor ends is followed by another attempt at all cases.
//!
//! **No wake-up is lost**: a descriptor is asked about, then its registration is renewed, which
//! reports what it is ready for by then, and then it is waited for, all of it inside the VM and
//! without a switch.

use crate::sched::{Case, Deadline, Readiness, Wake, WakeReason, Watch};
use crate::vm::Vm;
use crate::vm::idle::descriptors::{interest_of, readiness_of};
use baton_sys::poller::readiness_now;
use std::io;

impl Vm {
    /// Completes exactly one of the cases, as
    /// [`Scheduler::select`](crate::sched::Scheduler::select) does: a random one among those that
    /// are ready, or the first to become so. The cases at the places that `watches` names are
    /// descriptors: whatever stands there is replaced.
    ///
    /// `Wake::value` says what a descriptor is ready for. One that is closed, or not open, is ready
    /// with [`WakeReason::Closed`]. One of a kind that never blocks, like a file, is always ready.
    ///
    /// # Errors
    /// When one of the descriptors cannot be waited for. Nothing has been completed then.
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

    /// What the scheduler is told of a descriptor: what it is ready for, or that the process waits
    /// for it. Inside the VM.
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
