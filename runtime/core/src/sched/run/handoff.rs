//! Handoffs: direct switches from one process to another, in the common case. Most switches are
//! these.
//!
//! The next process runs on home, where the caller is, and there is no scheduler hook. A handoff
//! omits checks whose result is then known. If a handoff is not possible, nothing changes, and
//! [`Scheduler::yield_current`], [`Scheduler::preempt_current`], [`Scheduler::suspend`],
//! [`Scheduler::wait_at`] or [`Scheduler::schedule`] decides.

use crate::sched::process::Phase;
use crate::sched::slab::NIL;
use crate::sched::{Deadline, ProcessId, RunQueueSummary, Scheduler, WaitPlace, Wake, WakeReason};

/// A switch that was made between two processes, by their indices.
#[must_use]
#[derive(Debug, Clone, Copy)]
pub struct Handoff {
    from: u32,
    to: u32,
}

/// Whether a process may run at home. `carrier` is the carrier that it needs, or `NIL`; home is 0.
#[inline]
pub(in crate::sched) fn may_run_at_home(carrier: u32) -> bool {
    const { assert!(NIL.wrapping_add(1) == 0) };
    carrier.wrapping_add(1) <= 1
}

impl<C> Scheduler<C> {
    /// Moves the current process to the back of its level and runs an equal one, if there is one
    /// and none is more urgent. Both are equally preemptible.
    #[inline]
    pub fn yield_by_handoff(&mut self) -> Option<Handoff> {
        let from = self.current;
        let process = self.processes.slots.get(from as usize)?;
        let (level, to) = (self.run_queue.top(), process.next);
        // The head of a ring has the ring's level, so no process is more urgent than `from`.
        let is_simple = self.run_queue.head(level) == from
            && to != from
            && self.with_due_time == 0
            && self.processes[to].preemptible == process.preemptible;
        if !is_simple {
            return None;
        }
        let handoff = self.hand_off_to(from, to)?;
        self.run_queue.rotate_to(level, to);
        self.counters.yields += 1;
        Some(handoff)
    }

    /// Makes the current process, if it is preemptible, give way to a more urgent one.
    #[inline]
    pub fn give_way_by_handoff(&mut self) -> Option<Handoff> {
        let from = self.current;
        let process = self.processes.slots.get(from as usize)?;
        let level = self.run_queue.top();
        if level <= process.priority.get() || !process.preemptible {
            return None;
        }
        let handoff = self.hand_off_to(from, self.run_queue.head(level))?;
        self.counters.preemptions_by_urgency += 1;
        Some(handoff)
    }

    /// Runs the most urgent process, after the one that was current has begun to wait.
    #[inline]
    pub fn succeed_by_handoff(&mut self) -> Option<Handoff> {
        let level = self.run_queue.top();
        if self.current != NIL || level == 0 {
            return None;
        }
        self.hand_off_to(self.last, self.run_queue.head(level))
    }

    /// Suspends the current process, and runs the most urgent of the others, if both are equally
    /// preemptible. The current process is in no critical section, was not killed, and has no
    /// foreign frames, for which its thread may be kept.
    #[inline]
    pub fn suspend_by_handoff(&mut self) -> Option<Handoff> {
        let process = self.processes.slots.get(self.current as usize)?;
        if process.kills != 0 || process.pinned.is_some() {
            return None;
        }
        let preemptible = process.preemptible;
        let handoff = self.leave_by_handoff(Phase::Halted, |next| next == preemptible)?;
        let process = &mut self.processes[handoff.from];
        process.suspended = true;
        process.wake = Wake::because(WakeReason::Done);
        process.has_wake = false;
        Some(handoff)
    }

    /// Makes the current process wait at a place that a first look has found, and runs the most
    /// urgent of the others. The current process is in no critical section.
    #[inline]
    pub fn wait_by_handoff(
        &mut self,
        place: WaitPlace,
        value: u64,
        deadline: Deadline,
    ) -> Option<Handoff> {
        if deadline == Deadline::Now {
            return None;
        }
        let handoff = self.leave_by_handoff(Phase::Waiting, |_| true)?;
        self.processes[handoff.from].has_wake = false;
        self.enter_at(handoff.from, place, value);
        self.set_deadline(handoff.from, deadline);
        Some(handoff)
    }

    /// Takes the current process out of the run queue into `phase`, and runs the most urgent of the
    /// others, if `suits` of whether that one is preemptible. The current process is in no critical
    /// section.
    #[inline(always)]
    fn leave_by_handoff(&mut self, phase: Phase, suits: impl Fn(bool) -> bool) -> Option<Handoff> {
        let from = self.current;
        let process = self.processes.slots.get(from as usize)?;
        let level = self.run_queue.top();
        // As in `yield_by_handoff`: no process is more urgent than `from`.
        if self.run_queue.head(level) != from || process.critical != 0 || process.decay.has_sunk() {
            return None;
        }
        // If it is alone in its level, the next one is in the most urgent of the other levels.
        let others = (process.next == from).then(|| self.run_queue.levels_below_top());
        let to = match others {
            Some(others) => self.run_queue.head(others.top()),
            None => process.next,
        };
        if !suits(self.processes.slots.get(to as usize)?.preemptible) {
            return None;
        }
        let handoff = self.hand_off_to(from, to)?;
        match others {
            Some(others) => self.run_queue.empty_top(others),
            None => self
                .run_queue
                .remove_head(&mut self.processes.slots, from, level),
        }
        // It was in a ring, so its phase was `Ready`.
        self.census[Phase::Ready as usize] -= 1;
        self.census[phase as usize] += 1;
        let process = &mut self.processes[from];
        process.next = NIL;
        process.prev = NIL;
        process.phase = phase;
        Some(handoff)
    }

    /// Resumes a suspended process that is more urgent than all that could run, and runs it. The
    /// current process is preemptible.
    #[inline]
    pub fn resume_by_handoff(&mut self, pid: ProcessId) -> Option<Handoff> {
        let from = self.current;
        let to = pid.index;
        let process = self.processes.slots.get(to as usize)?;
        let current = self.processes.slots.get(from as usize)?;
        let level = process.priority.get();
        // The current process may be in no ring.
        let is_simple = process.generation == pid.generation
            && process.phase == Phase::Halted
            && process.suspended
            && level > self.run_queue.top()
            && level > current.priority.get()
            && (process.carrier == NIL || !self.must_stay_aside(to))
            && current.preemptible;
        if !is_simple {
            return None;
        }
        let handoff = self.hand_off_to(from, to)?;
        self.counters.preemptions_by_urgency += 1;
        self.run_queue.push_alone(level, to);
        self.census[Phase::Halted as usize] -= 1;
        self.census[Phase::Ready as usize] += 1;
        let process = &mut self.processes[to];
        process.phase = Phase::Ready;
        process.suspended = false;
        process.next = to;
        process.prev = to;
        Some(handoff)
    }

    /// The executor's data of the two processes of a handoff: the one that was left, and the one
    /// that runs.
    #[inline]
    pub fn payloads_of_handoff(&mut self, handoff: Handoff) -> Option<[&mut C; 2]> {
        let both = [handoff.from as usize, handoff.to as usize];
        self.payloads.get_disjoint_mut(both).ok()
    }

    /// The two processes of a handoff: the one that was left, and the one that runs.
    pub(crate) fn processes_of_handoff(&self, handoff: Handoff) -> [ProcessId; 2] {
        [handoff.from, handoff.to].map(|index| self.processes.id(index))
    }

    /// As [`Scheduler::run_queue_summary`], right after a handoff to the most urgent process.
    #[inline]
    pub fn summary_after_handoff(&self, handoff: Handoff) -> RunQueueSummary {
        let process = &self.processes[handoff.to];
        let rivals = process.next != handoff.to;
        RunQueueSummary {
            runnable: self.census[Phase::Ready as usize] > 1,
            rivals,
            outranked: false,
            is_alone: !rivals & (process.critical == 0),
            preemptible: Some(process.preemptible),
        }
    }

    #[inline(always)]
    fn hand_off_to(&mut self, from: u32, to: u32) -> Option<Handoff> {
        if from == to || !may_run_at_home(self.processes[to].carrier) {
            return None;
        }
        self.current = to;
        self.counters.switches += 1;
        Some(Handoff { from, to })
    }
}
