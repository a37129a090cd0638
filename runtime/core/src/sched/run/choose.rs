//! Choosing the next process.

use crate::sched::process::{NO_DUE_TIME, Phase};
use crate::sched::slab::NIL;
use crate::sched::{Next, Preemption, Priority, ProcessId, Scheduler};

/// Whether other processes could run instead of the current one, or at all if there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunQueueSummary {
    /// At least one process is runnable.
    pub runnable: bool,
    /// A process that is as urgent or more urgent is runnable: a yield would run it.
    pub rivals: bool,
    /// A more urgent process is runnable.
    pub outranked: bool,
    /// There are no rivals, and the current process is in no critical section, where it only keeps
    /// them waiting.
    pub is_alone: bool,
    /// Whether the current process may be preempted; `None` if none is current.
    pub preemptible: Option<bool>,
}

/// The most processes that one decision skips.
const MOST_SKIPPED: usize = 1000;

/// The most processes at the front of a level that a shuffle chooses from. A choice takes as many
/// steps.
const MOST_SHUFFLED: usize = 1000;

impl<C> Scheduler<C> {
    /// Chooses the most urgent runnable process, the current one if no other is more urgent.
    #[inline]
    pub fn schedule(&mut self) -> Next {
        let level = self.run_queue.top();
        if level == 0 {
            self.clear_current();
            return Next::Nothing;
        }
        let head = self.run_queue.head(level);
        if head == self.current {
            return Next::Same;
        }
        self.run(head)
    }

    /// Moves the current process to the back of its level, and chooses. `Same` if no other process
    /// is as urgent.
    ///
    /// ```
    /// use baton_core::sched::{Scheduler, Next, SpawnOptions};
    ///
    /// let mut sched: Scheduler<()> = Scheduler::new(10);
    /// let first = sched.spawn(SpawnOptions::default(), ())?;
    /// assert_eq!(sched.schedule(), Next::Other(first));
    /// assert_eq!(sched.yield_current(), Next::Same);
    /// let second = sched.spawn(SpawnOptions::default(), ())?;
    /// assert_eq!(sched.yield_current(), Next::Other(second));
    /// assert_eq!(sched.yield_current(), Next::Other(first));
    /// # Ok::<(), baton_core::sched::ProcessLimit>(())
    /// ```
    #[inline]
    pub fn yield_current(&mut self) -> Next {
        let next = self.rotate();
        if matches!(next, Next::Other(_)) {
            self.counters.yields += 1;
        }
        next
    }

    /// The process that would run next if the current one gave way now.
    pub fn next_in_ring(&self) -> Option<ProcessId> {
        let level = self.run_queue.top();
        if level == 0 {
            return None;
        }
        let head = self.run_queue.head(level);
        let next = if head == self.current {
            self.processes[head].next
        } else {
            head
        };
        Some(self.processes.id(next))
    }

    /// The number of processes that [`Scheduler::shuffle`] can choose from, at most a thousand.
    /// These are the runnable ones of the most urgent level, without the current one. 0 if
    /// processes have due times, which decide the order.
    pub fn shuffle_count(&self) -> usize {
        let level = self.run_queue.top();
        if level == 0 || self.with_due_time > 0 {
            return 0;
        }
        let head = self.run_queue.head(level);
        let mut index = head;
        let mut count = 0;
        while count < MOST_SHUFFLED {
            count += usize::from(index != self.current);
            index = self.processes[index].next;
            if index == head {
                break;
            }
        }
        count
    }

    /// The processes that [`Scheduler::shuffle_count`] counts, in their order.
    pub(crate) fn shuffle_choices(&self) -> impl Iterator<Item = ProcessId> + '_ {
        let level = self.run_queue.top();
        let head = match level {
            0 => self.current,
            _ => self.run_queue.head(level),
        };
        let mut index = head;
        let ring = std::iter::from_fn(move || {
            let this = index;
            index = self.processes[this].next;
            Some(this)
        });
        ring.filter(|&index| index != self.current)
            .take(self.shuffle_count())
            .map(|index| self.processes.id(index))
    }

    /// Moves a process to the front of the most urgent level: the one with `before` others before
    /// it, among those that [`Scheduler::shuffle_count`] counts. For runs that vary the order of
    /// equals.
    pub fn shuffle(&mut self, before: usize) {
        if before >= self.shuffle_count() {
            return;
        }
        let level = self.run_queue.top();
        let head = self.run_queue.head(level);
        let runs = head == self.current;
        let first = if runs {
            self.processes[head].next
        } else {
            head
        };
        let mut chosen = first;
        for _ in 0..before {
            chosen = self.processes[chosen].next;
            if chosen == self.current {
                chosen = self.processes[chosen].next;
            }
        }
        if chosen == first {
            return;
        }
        self.run_queue.remove(&mut self.processes.slots, chosen);
        if runs {
            self.run_queue
                .push_before(&mut self.processes.slots, chosen, first);
        } else {
            self.run_queue.push_front(&mut self.processes.slots, chosen);
        }
    }

    /// Makes the current process give way, for the given cause.
    ///
    /// ```
    /// use baton_core::sched::{Scheduler, Next, Preemption, Priority, SpawnOptions};
    ///
    /// let mut sched: Scheduler<()> = Scheduler::new(10);
    /// let first = sched.spawn(SpawnOptions::default(), ())?;
    /// let second = sched.spawn(SpawnOptions::default(), ())?;
    /// let options = SpawnOptions { priority: Priority::HIGHEST, ..SpawnOptions::default() };
    /// assert_eq!(sched.schedule(), Next::Other(first));
    /// let urgent = sched.spawn(options, ())?;
    /// assert_eq!(sched.preempt_current(Preemption::MoreUrgent), Next::Other(urgent));
    /// sched.exit_current();
    /// assert_eq!(sched.schedule(), Next::Other(first)); // it has kept its place
    /// assert_eq!(sched.preempt_current(Preemption::SliceExpired), Next::Other(second));
    /// # Ok::<(), baton_core::sched::ProcessLimit>(())
    /// ```
    pub fn preempt_current(&mut self, cause: Preemption) -> Next {
        let next = match cause {
            Preemption::MoreUrgent => self.schedule(),
            Preemption::SliceExpired => self.rotate(),
        };
        if matches!(next, Next::Other(_)) {
            match cause {
                Preemption::MoreUrgent => self.counters.preemptions_by_urgency += 1,
                Preemption::SliceExpired => self.counters.preemptions_by_slice += 1,
            }
        }
        next
    }

    /// Passes over the current process, which has been chosen but has not run yet, while `skips`
    /// says so of it, and runs the next one of its ring instead. `gave_way` is the process that
    /// gave way, if it did not wait or end; it is the last one of the ring.
    ///
    /// - At most a thousand are skipped, then the next one runs.
    /// - A process with a raised priority is not skipped, as another process waits for it.
    /// - A process without an equal is not skipped, nor any if due times order the processes.
    ///
    /// ```
    /// use baton_core::sched::{Scheduler, SpawnOptions};
    ///
    /// let mut sched: Scheduler<u32> = Scheduler::new(10);
    /// let [_, b] = [1, 0].map(|deficit| sched.spawn(SpawnOptions::default(), deficit).unwrap());
    /// sched.schedule();
    /// sched.skip_while(None, |deficit| std::mem::take(deficit) > 0);
    /// assert_eq!(sched.current(), Some(b));
    /// ```
    pub fn skip_while(
        &mut self,
        gave_way: Option<ProcessId>,
        mut skips: impl FnMut(&mut C) -> bool,
    ) {
        let first = self.current;
        if first == NIL || !self.may_rotate(first) {
            return;
        }
        for _ in 0..MOST_SKIPPED {
            let process = &self.processes[self.current];
            let is_raised = process.priority != process.own_priority;
            if is_raised || !skips(&mut self.payloads[self.current as usize]) {
                break;
            }
            self.current = process.next;
        }
        // The switch to `first` was counted. What counts is whether there is a switch in the end.
        let last = gave_way.map_or(self.last, |pid| pid.index);
        self.counters.switches += u64::from(self.current != last);
        self.counters.switches -= u64::from(first != last);
        self.run_queue
            .rotate_to(self.processes[self.current].priority.get(), self.current);
    }

    /// Whether the next process is simply the next one in the ring of `current`.
    fn may_rotate(&self, current: u32) -> bool {
        let process = &self.processes[current];
        let level = process.priority.get();
        self.with_due_time == 0
            && process.next != current
            && self.run_queue.top() == level
            && self.run_queue.head(level) == current
    }

    /// Moves the current process to the back of its level, and runs `pid`. If `pid` is not
    /// runnable, or another process is more urgent than it, this acts like
    /// [`Scheduler::yield_current`].
    pub fn yield_to(&mut self, pid: ProcessId) -> Next {
        match self.processes.find(pid) {
            Some(index) if self.current == NIL || index != self.current => {
                let process = &self.processes[index];
                if process.phase != Phase::Ready || process.priority.get() < self.run_queue.top() {
                    return self.yield_current();
                }
            }
            _ => return self.yield_current(),
        }
        self.move_current_to_back();
        self.counters.yields += 1;
        self.run_directly(pid.index)
    }

    /// Runs `pid` instead of the current process, whatever their priorities; the latter keeps its
    /// place. For schedulers that users write. If `pid` is not runnable, this acts like
    /// [`Scheduler::schedule`].
    pub fn switch_to(&mut self, pid: ProcessId) -> Next {
        match self.processes.find(pid) {
            Some(index) if index == self.current => Next::Same,
            Some(index) if self.processes[index].phase == Phase::Ready => self.run_directly(index),
            _ => self.schedule(),
        }
    }

    /// Leaves no process current. The process that was current stays at the head of its level. For
    /// a hand-over of the VM.
    pub fn relinquish_current(&mut self) {
        self.clear_current();
    }

    /// Whether a process more urgent than the current one is runnable (or any, if none is current).
    /// The caller checks whether the current one may be preempted.
    #[inline]
    pub fn current_should_yield(&self) -> bool {
        if self.current == NIL {
            return self.run_queue.top() != 0;
        }
        self.run_queue.top() > self.processes[self.current].priority.get()
    }

    /// The run-queue summary: whether other processes could run.
    #[inline]
    pub fn run_queue_summary(&self) -> RunQueueSummary {
        let top = self.run_queue.top();
        let Some(process) = self.processes.slots.get(self.current as usize) else {
            let is_any = top != 0;
            return RunQueueSummary {
                runnable: is_any,
                rivals: is_any,
                outranked: is_any,
                is_alone: !is_any,
                preemptible: None,
            };
        };
        let level = process.priority.get();
        let is_ready = process.phase == Phase::Ready;
        let has_equal = (top == level) & (process.next != self.current);
        let rivals = (top > level) | has_equal;
        RunQueueSummary {
            runnable: self.census[Phase::Ready as usize] > u32::from(is_ready),
            rivals,
            outranked: top > level,
            is_alone: !rivals & (process.critical == 0),
            preemptible: Some(process.preemptible),
        }
    }

    /// A number that changes whenever a preemption decision may change: with the runnable
    /// processes, the deadlines, and the preemptible flags.
    #[inline]
    pub fn changes(&self) -> u64 {
        self.run_queue.changes() + self.deadlines.changes()
    }

    /// The part of [`Scheduler::changes`] that counts changes of deadlines.
    #[inline]
    pub fn deadline_changes(&self) -> u64 {
        self.deadlines.changes()
    }

    /// How many processes could be chosen now, without the current one.
    #[inline]
    pub fn runnable_count(&self) -> usize {
        let is_ready = self.current != NIL && self.processes[self.current].phase == Phase::Ready;
        self.count_of(Phase::Ready) - usize::from(is_ready)
    }

    /// The priority of the most urgent process that could be chosen, without the current one.
    pub fn most_urgent_runnable(&self) -> Option<Priority> {
        let top = self.run_queue.top();
        if self.current == NIL {
            return Priority::new(top);
        }
        let process = &self.processes[self.current];
        let is_alone = process.phase == Phase::Ready && process.next == self.current;
        if top != process.priority.get() || !is_alone {
            return Priority::new(top);
        }
        Priority::new(self.run_queue.top_below(top))
    }

    /// The current process goes to the back of its level, and the most urgent one runs.
    fn rotate(&mut self) -> Next {
        self.move_current_to_back();
        self.schedule()
    }

    fn move_current_to_back(&mut self) {
        if self.current != NIL && self.processes[self.current].phase == Phase::Ready {
            let process = &self.processes[self.current];
            if process.due != NO_DUE_TIME {
                self.run_queue
                    .remove(&mut self.processes.slots, self.current);
                self.run_queue
                    .push_by_due_time(&mut self.processes.slots, self.current, NIL);
                return;
            }
            self.run_queue
                .rotate_to(process.priority.get(), process.next);
        }
    }

    /// Moves a runnable process to the head of its level, and runs it.
    fn run_directly(&mut self, index: u32) -> Next {
        self.run_queue.remove(&mut self.processes.slots, index);
        self.run_queue.push_front(&mut self.processes.slots, index);
        self.run(index)
    }

    /// Makes the head of a level current.
    #[inline]
    fn run(&mut self, index: u32) -> Next {
        let last = if self.current == NIL {
            self.last
        } else {
            self.current
        };
        self.counters.switches += u64::from(index != last);
        self.current = index;
        Next::Other(self.processes.id(index))
    }

    /// The process that was current last, while none is: the one that has begun to wait.
    #[inline]
    pub fn last_current(&self) -> Option<ProcessId> {
        let process = self.processes.slots.get(self.last as usize)?;
        Some(ProcessId {
            index: self.last,
            generation: process.generation,
        })
    }

    /// Leaves no process current.
    #[inline]
    pub(in crate::sched) fn clear_current(&mut self) {
        if self.current != NIL {
            self.last = self.current;
            self.current = NIL;
        }
    }

    /// Makes a process runnable: at the back of its level, or kept aside.
    #[inline]
    pub(in crate::sched) fn make_ready(&mut self, index: u32) {
        if self.processes[index].carrier != NIL && self.must_stay_aside(index) {
            self.put_aside(index);
            return;
        }
        self.set_phase(index, Phase::Ready);
        if index == self.current {
            self.run_queue.push_front(&mut self.processes.slots, index);
        } else if self.processes[index].due != NO_DUE_TIME {
            self.run_queue
                .push_by_due_time(&mut self.processes.slots, index, self.current);
        } else {
            self.run_queue.push_back(&mut self.processes.slots, index);
        }
    }

    /// Takes a process in the phase `Ready` or `Aside` out of its ring. The caller sets the phase.
    #[inline]
    pub(in crate::sched) fn leave_run_queue(&mut self, index: u32) {
        if self.processes[index].phase == Phase::Ready {
            self.run_queue.remove(&mut self.processes.slots, index);
        } else {
            self.leave_aside(index);
        }
    }
}
