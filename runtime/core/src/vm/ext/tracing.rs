//! Notes what happens in a traced VM (see [`crate::trace`]).
//!
//! A VM is traced while the parameter `flight` is not zero, or somebody reads its trace. Each
//! switch has one reading of the clock and two events. The fast path knows why it leaves a process;
//! the slow path finds that out.
//!
//! The scheduler notes waits that end. They are taken before the next event, so that all events are
//! in the order of their times. One exception: that a call has come back is noted later, by the
//! owner.

use crate::sched::{CarrierId, Handoff, NotedWake, ProcessId, State, WakeReason, Wording};
use crate::trace::ring::Ring;
use crate::trace::{Left, Letters, Reading, ShortName, TraceEvent, What};
use crate::vm::{Inner, Inside, View, Vm, slow_reason};
use baton_sys::clock::Instant;
use baton_sys::ticks::{self, Ticks};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// What is kept of a traced VM. The owner's.
#[derive(Debug)]
pub(in crate::vm) struct Tracer {
    ring: Ring,
    /// The scheduler's counts at the last switch: yields, ends of slices, and preemptions by more
    /// urgent processes.
    counts: [u64; 3],
}

impl Tracer {
    #[inline]
    fn push(&mut self, at: Ticks, what: What) {
        self.ring.push(at, what);
    }

    fn push_name(&mut self, at: Ticks, name: &ShortName) {
        for letters in Letters::parts(name.as_bytes()) {
            self.push(at, What::Name(letters));
        }
    }
}

impl Inner {
    /// Notes what happens now, if the VM is traced.
    #[inline]
    pub(in crate::vm) fn trace(&mut self, what: impl FnOnce() -> What) {
        if self.tracer.is_some() {
            self.note(Ticks::now(), what());
        }
    }

    /// Notes which process runs, for those who have not seen how it began.
    fn trace_current(&mut self) {
        let (current, carrier) = (self.sched.current(), self.carrier);
        if let Some(process) = current {
            self.trace(|| What::Runs { process, carrier });
        }
    }

    /// As [`Inner::trace`], at a known time.
    #[inline]
    pub(in crate::vm) fn trace_at(&mut self, at: Ticks, what: impl FnOnce() -> What) {
        if self.tracer.is_some() {
            self.note(at, what());
        }
    }

    /// Notes a switch on the fast path.
    #[cold]
    #[inline(never)]
    pub(in crate::vm) fn trace_handoff(&mut self, handoff: Handoff, cause: Left) {
        let [process, to] = self.sched.processes_of_handoff(handoff);
        let blocker = match cause {
            Left::Waits => self.sched.blocker(process),
            _ => None,
        };
        let (now, carrier) = (Ticks::now(), self.carrier);
        self.note(
            now,
            What::Left {
                process,
                cause,
                blocker,
            },
        );
        let counts = self.counts_of_switches();
        if let Some(tracer) = &mut self.tracer {
            tracer.counts = counts;
            let process = to;
            tracer.push(now, What::Runs { process, carrier });
        }
    }

    /// Notes that the suspension of a process has ended, to which a handoff leads.
    #[cold]
    #[inline(never)]
    pub(in crate::vm) fn trace_resumed(&mut self, handoff: Handoff) {
        let [by, process] = self.sched.processes_of_handoff(handoff);
        self.trace(|| What::Wakes {
            process,
            by: Some(by),
            reason: WakeReason::Done,
        });
    }

    /// Notes a switch from `from` to `to`, or to the loop of the owner's thread.
    #[inline(never)]
    pub(in crate::vm) fn trace_switch(&mut self, from: ProcessId, to: Option<ProcessId>) {
        let now = Ticks::now();
        let left = What::Left {
            process: from,
            cause: self.cause_of_switch(from),
            blocker: self.sched.blocker(from),
        };
        self.note(now, left);
        if let Some(process) = to {
            let carrier = self.carrier;
            self.note(now, What::Runs { process, carrier });
        }
    }

    /// Why `from` is left, by its state and by what the scheduler has counted.
    fn cause_of_switch(&mut self, from: ProcessId) -> Left {
        let counts = self.counts_of_switches();
        let before = match &mut self.tracer {
            Some(tracer) => std::mem::replace(&mut tracer.counts, counts),
            None => counts,
        };
        match self.sched.state(from) {
            State::Waiting | State::Sleeping => return Left::Waits,
            State::Suspended => return Left::Suspended,
            State::Foreign => return Left::Calls,
            State::Dead => return Left::Ended,
            State::Running | State::Runnable => {}
        }
        let grown = (0..counts.len()).find(|&place| counts[place] != before[place]);
        match grown {
            Some(0) => Left::Yielded,
            Some(1) => Left::SliceOver,
            Some(_) => Left::Outranked,
            None => Left::Moves,
        }
    }

    /// The scheduler's counts of yields, ends of slices, and preemptions by more urgent processes.
    fn counts_of_switches(&self) -> [u64; 3] {
        let counters = self.sched.counters();
        [
            counters.yields,
            counters.preemptions_by_slice,
            counters.preemptions_by_urgency,
        ]
    }

    /// Notes that others run beside a foreign call of `process` from now on.
    #[cold]
    pub(in crate::vm) fn trace_call(
        &mut self,
        process: ProcessId,
        carrier: CarrierId,
        wording: &Wording,
    ) {
        let now = Ticks::now();
        let left = What::Left {
            process,
            cause: Left::Calls,
            blocker: None,
        };
        self.note(now, left);
        self.note(now, What::CallBegins { process, carrier });
        let mut name = ShortName::new();
        if let Some(user_data) = self.sched.user_data(process) {
            // What does not fit is left out.
            let _ = (wording.call)(user_data, &mut name);
        }
        self.note_name(now, &name);
    }

    /// Notes that the running process ends.
    #[cold]
    pub(in crate::vm) fn trace_end(&mut self, process: ProcessId, wording: &Wording) {
        let now = Ticks::now();
        let Some(user_data) = self.sched.user_data(process) else {
            return;
        };
        let number = (wording.number)(user_data);
        self.note(now, What::Ended { process, number });
        let mut name = ShortName::new();
        // What does not fit is left out.
        let _ = (wording.name)(user_data, &mut name);
        self.note_name(now, &name);
    }

    /// Notes which process is continued after one that has ended, at the time of the latest event:
    /// it was noted just before.
    #[inline]
    pub(in crate::vm) fn trace_after_end(&mut self, process: ProcessId) {
        if self.tracer.is_none() {
            return;
        }
        self.take_noted_wakes();
        let carrier = self.carrier;
        if let Some(tracer) = &mut self.tracer {
            let at = tracer.ring.last_time().unwrap_or_else(Ticks::now);
            tracer.push(at, What::Runs { process, carrier });
        }
    }

    fn note(&mut self, at: Ticks, what: What) {
        if self.sched.has_noted_wakes() {
            self.take_noted_wakes();
        }
        if let Some(tracer) = &mut self.tracer {
            tracer.push(at, what);
        }
    }

    fn note_name(&mut self, at: Ticks, name: &ShortName) {
        if let Some(tracer) = &mut self.tracer {
            tracer.push_name(at, name);
        }
    }

    /// See [`View::read_trace`].
    pub(in crate::vm) fn read_trace(
        &mut self,
        from: u64,
        most: usize,
        into: &mut Vec<TraceEvent>,
    ) -> Reading {
        self.take_noted_wakes();
        match &self.tracer {
            Some(tracer) => tracer.ring.read(from, most, into),
            None => Reading {
                next: from,
                lost: 0,
                has_more: false,
            },
        }
    }

    #[inline(never)]
    fn take_noted_wakes(&mut self) {
        let Some(tracer) = &mut self.tracer else {
            return;
        };
        self.sched
            .take_noted_wakes(|wake| tracer.push(wake.at, what_of(wake)));
    }
}

fn what_of(wake: &NotedWake) -> What {
    let &NotedWake {
        process,
        by,
        reason,
        due,
        ..
    } = wake;
    match due {
        Some(due) => What::Due {
            process,
            due: Instant::from_nanos(due),
        },
        None => What::Wakes {
            process,
            by,
            reason,
        },
    }
}

impl Vm {
    /// Begins to note events, or ends that, by the parameter `flight` and the number of readers.
    pub(in crate::vm) fn update_tracing(&self, inner: &mut Inner) {
        let keep = match inner.trace_readers {
            0 => self.parameters.flight.get(),
            _ => Duration::MAX,
        };
        if keep.is_zero() {
            self.stop_tracing(inner);
        } else if let Some(tracer) = &mut inner.tracer {
            tracer.ring.keep_for(keep);
        } else {
            self.start_tracing(inner, keep);
        }
    }

    fn start_tracing(&self, inner: &mut Inner, keep: Duration) {
        ticks::prepare();
        let Some(ring) = Ring::new(keep) else {
            return; // memory is short
        };
        let counts = [0; 3];
        inner.tracer = Some(Tracer { ring, counts });
        inner.sched.note_wakes(Some(Ticks::now));
        // Relaxed: only the owner writes it, except the bits `ENDED` and
        // `STINT_OVER`.
        self.slow_reasons
            .fetch_or(slow_reason::TRACED, Ordering::Relaxed);
        inner.trace_current();
    }

    fn stop_tracing(&self, inner: &mut Inner) {
        inner.tracer = None;
        inner.sched.note_wakes(None);
        // Relaxed: as above.
        self.slow_reasons
            .fetch_and(!slow_reason::TRACED, Ordering::Relaxed);
    }

    /// Forgets what happened before a fork, in the child. Those who read are not there.
    pub(in crate::vm) fn begin_trace_anew(&self, inner: &mut Inner) {
        inner.trace_readers = 0;
        if inner.tracer.is_some() {
            self.stop_tracing(inner);
            self.update_tracing(inner);
        }
    }

    /// Traces this VM from its beginning. Before [`Vm::run`]. Nothing ends that.
    pub fn trace_from_start(&self) {
        self.before_run(|inner| {
            inner.trace_readers += 1;
            self.update_tracing(inner);
        });
    }
}

impl View<'_> {
    /// Begins to trace the VM for one more reader, who calls [`View::end_trace`] later. Returns the
    /// number of the next event, which says which process runs, if one does.
    ///
    /// ```
    /// use baton_core::trace::What;
    /// # mod closures { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doctests/closures.rs")); }
    /// closures::run(|main| {
    ///     let begin = main.vm.view(|view| view.begin_trace());
    ///     let child = main.spawn(|_| {});
    ///     main.vm.yield_now();
    ///     let mut events = Vec::new();
    ///     let read = main.vm.view(|view| view.read_trace(begin, usize::MAX, &mut events));
    ///     main.vm.view(|view| view.end_trace());
    ///     assert_eq!((read.lost, read.has_more), (0, false));
    ///     let ends = |what: What| matches!(what, What::Ended { process, .. } if process == child);
    ///     assert!(events.iter().any(|event| ends(event.what)));
    /// });
    /// ```
    pub fn begin_trace(&mut self) -> u64 {
        let begin = self.trace_end();
        let was_traced = self.is_traced();
        self.inner.trace_readers += 1;
        self.vm.update_tracing(self.inner);
        if was_traced {
            self.inner.trace_current(); // for the new reader
        }
        begin
    }

    /// Ends what [`View::begin_trace`] began. The VM is not traced any more if nobody else reads,
    /// and `flight` is zero.
    pub fn end_trace(&mut self) {
        // In a fork's child, there may be no readers any more.
        self.inner.trace_readers = self.inner.trace_readers.saturating_sub(1);
        self.vm.update_tracing(self.inner);
    }

    /// Appends the events from number `from` on to `into`, at most `most`, and the rest of a
    /// name that follows. About 10 ns for each.
    pub fn read_trace(&mut self, from: u64, most: usize, into: &mut Vec<TraceEvent>) -> Reading {
        self.inner.read_trace(from, most, into)
    }

    /// Whether the VM is traced.
    pub fn is_traced(&self) -> bool {
        self.inner.tracer.is_some()
    }

    /// The number of the next event; 0 if the VM is not traced.
    pub fn trace_end(&self) -> u64 {
        self.inner
            .tracer
            .as_ref()
            .map_or(0, |tracer| tracer.ring.end())
    }
}

impl Inside<'_> {
    /// Notes when the owner begins to wait in the system, and when that wait ends.
    pub(in crate::vm) fn trace_idle(&self, begins: bool) {
        self.with_inner(|inner| {
            let carrier = inner.carrier;
            inner.trace(|| match begins {
                true => What::IdleBegins { carrier },
                false => What::IdleEnds,
            });
        });
    }

    /// Notes that the running process begins to collect garbage, or ends that; also while a
    /// finalizer runs. For the guest.
    #[inline]
    pub fn trace_garbage(&self, begins: bool) {
        self.collecting.set(begins);
        // Relaxed: the owner's own.
        if self.slow_reasons.load(Ordering::Relaxed) & slow_reason::TRACED == 0 {
            return;
        }
        self.with_inner(|inner| {
            inner.trace(|| match begins {
                true => What::GarbageBegins,
                false => What::GarbageEnds,
            });
        });
    }
}
