//! Who runs next.

use super::process::{NO_DUE_TIME, Phase};
use super::slab::NIL;
use super::{Kernel, Next, Preemption, Priority, ProcessId};

/// Who could run instead of the current process, or at all if there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// Somebody.
    pub runnable: bool,
    /// One that is as urgent, or more: a yield would let it run.
    pub rivals: bool,
    /// One that is more urgent.
    pub outranked: bool,
}

/// So many processes may pass before one is found whose turn it is.
const MOST_PASSED: usize = 1000;

/// So many processes at the front are chosen from: to find one takes as many steps.
const MOST_STIRRED: usize = 1000;

impl<C> Kernel<C> {
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

    /// The current process goes to the back of its level. `Same` if no other is as urgent.
    ///
    /// ```
    /// use baton_core::kernel::{Kernel, Next, SpawnOptions};
    ///
    /// let mut kernel: Kernel<()> = Kernel::new(10);
    /// let first = kernel.spawn(SpawnOptions::default(), ())?;
    /// assert_eq!(kernel.schedule(), Next::Other(first));
    /// assert_eq!(kernel.yield_current(), Next::Same);
    /// let second = kernel.spawn(SpawnOptions::default(), ())?;
    /// assert_eq!(kernel.yield_current(), Next::Other(second));
    /// assert_eq!(kernel.yield_current(), Next::Other(first));
    /// # Ok::<(), baton_core::kernel::ProcessLimit>(())
    /// ```
    #[inline]
    pub fn yield_current(&mut self) -> Next {
        let next = self.rotate();
        if matches!(next, Next::Other(_)) {
            self.counters.yields += 1;
        }
        next
    }

    /// The process that runs next if the current one gives way now.
    pub fn next_in_turn(&self) -> Option<ProcessId> {
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

    /// How many could be brought to their turn by [`Kernel::stir`]: the runnable of the most urgent level, the current one left out; at most a thousand
    /// are counted. Where processes have due times, these say who is next, and there is none.
    pub fn stirred_count(&self) -> usize {
        let level = self.run_queue.top();
        if level == 0 || self.with_due_time > 0 {
            return 0;
        }
        let head = self.run_queue.head(level);
        let mut index = head;
        let mut count = 0;
        while count < MOST_STIRRED {
            count += usize::from(index != self.current);
            index = self.processes[index].next;
            if index == head {
                break;
            }
        }
        count
    }

    /// Brings a runnable process of the most urgent level to its turn: of those that [`Kernel::stirred_count`] counts, the one that has so many others before it.
    /// For runs in which the order of equals is to be another one each time.
    pub fn stir(&mut self, before: usize) {
        if before >= self.stirred_count() {
            return;
        }
        let level = self.run_queue.top();
        let head = self.run_queue.head(level);
        let runs = head == self.current;
        let first = if runs { self.processes[head].next } else { head };
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
            self.run_queue.push_before(&mut self.processes.slots, chosen, first);
        } else {
            self.run_queue.push_front(&mut self.processes.slots, chosen);
        }
    }

    /// The current process is made to give way.
    ///
    /// ```
    /// use baton_core::kernel::{Kernel, Next, Preemption, Priority, SpawnOptions};
    ///
    /// let mut kernel: Kernel<()> = Kernel::new(10);
    /// let first = kernel.spawn(SpawnOptions::default(), ())?;
    /// let second = kernel.spawn(SpawnOptions::default(), ())?;
    /// let options = SpawnOptions { priority: Priority::HIGHEST, ..SpawnOptions::default() };
    /// assert_eq!(kernel.schedule(), Next::Other(first));
    /// let urgent = kernel.spawn(options, ())?;
    /// assert_eq!(kernel.preempt_current(Preemption::MoreUrgent), Next::Other(urgent));
    /// kernel.exit_current();
    /// assert_eq!(kernel.schedule(), Next::Other(first)); // it has kept its place
    /// assert_eq!(kernel.preempt_current(Preemption::SliceExpired), Next::Other(second));
    /// # Ok::<(), baton_core::kernel::ProcessLimit>(())
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

    /// As [`Kernel::preempt_current`] at the end of a slice, but those of whom `owes` says so pass: each has its turn without running, and pays for it with `pass`. The
    /// current process is the last to be asked: `Same` if all others pass, and it does not. At most a thousand pass, then the next one runs. Nobody passes whose
    /// priority is raised, as somebody waits for it; nor where a more urgent process is next, or due times say who is.
    ///
    /// ```
    /// use baton_core::kernel::{Kernel, Next, SpawnOptions};
    ///
    /// let mut kernel: Kernel<u32> = Kernel::new(10);
    /// let [a, b] = [0, 2].map(|owed| kernel.spawn(SpawnOptions::default(), owed).unwrap());
    /// assert_eq!(kernel.schedule(), Next::Other(a));
    /// let turns = [0; 4].map(|_| kernel.end_slice(|owed| *owed > 0, |owed| *owed -= 1));
    /// assert_eq!(turns, [Next::Same, Next::Same, Next::Other(b), Next::Other(a)]);
    /// ```
    pub fn end_slice(&mut self, owes: impl FnMut(&C) -> bool, pass: impl FnMut(&mut C)) -> Next {
        let current = self.current;
        if self.current_should_yield() {
            self.turn_current_to_back();
            return self.preempt_current(Preemption::MoreUrgent);
        }
        if current == NIL || !self.takes_turns(current) {
            return self.preempt_current(Preemption::SliceExpired);
        }
        let next = self.processes[current].next;
        match self.first_that_does_not_pass(next, owes, pass) {
            chosen if chosen == current => Next::Same,
            chosen => {
                self.counters.preemptions_by_slice += 1;
                self.run(chosen)
            }
        }
    }

    /// The current process has been chosen, but has not run yet: it passes, and others after it, as at [the end of a slice](Kernel::end_slice). Answers who is current then.
    ///
    /// ```
    /// use baton_core::kernel::{Kernel, SpawnOptions};
    ///
    /// let mut kernel: Kernel<u32> = Kernel::new(10);
    /// let [_, b] = [1, 0].map(|owed| kernel.spawn(SpawnOptions::default(), owed).unwrap());
    /// kernel.schedule();
    /// assert_eq!(kernel.pass_over(|owed| *owed > 0, |owed| *owed -= 1), Some(b));
    /// ```
    pub fn pass_over(&mut self, owes: impl FnMut(&C) -> bool, pass: impl FnMut(&mut C)) -> Option<ProcessId> {
        let current = self.current;
        if current != NIL && self.takes_turns(current) {
            self.current = self.first_that_does_not_pass(current, owes, pass);
            self.counters.switches += u64::from(self.current != current);
        }
        self.current()
    }

    /// Whether its turn would simply go to the next in its ring.
    fn takes_turns(&self, current: u32) -> bool {
        let process = &self.processes[current];
        let level = process.priority.get();
        self.with_due_time == 0
            && process.next != current
            && self.run_queue.top() == level
            && self.run_queue.head(level) == current
    }

    /// From `first` on, round and round; it is the head of its level then.
    fn first_that_does_not_pass(
        &mut self,
        first: u32,
        mut owes: impl FnMut(&C) -> bool,
        mut pass: impl FnMut(&mut C),
    ) -> u32 {
        let mut chosen = first;
        for _ in 0..MOST_PASSED {
            let process = &self.processes[chosen];
            let is_raised = process.priority != process.own_priority;
            match &mut self.payloads[chosen as usize] {
                Some(payload) if !is_raised && owes(payload) => pass(payload),
                _ => break,
            }
            chosen = process.next;
        }
        self.run_queue.turn_to(self.processes[chosen].priority.get(), chosen);
        chosen
    }

    /// The current process goes to the back of its level, and `pid` runs: if it is runnable and
    /// nobody is more urgent than it; else as [`Kernel::yield_current`].
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
        self.turn_current_to_back();
        self.counters.yields += 1;
        self.run_out_of_turn(pid.index)
    }

    /// Runs `pid` instead of the current process, which keeps its place, whatever their priorities:
    /// for a scheduler that the user wrote. If `pid` is not runnable, as [`Kernel::schedule`].
    pub fn switch_to(&mut self, pid: ProcessId) -> Next {
        match self.processes.find(pid) {
            Some(index) if index == self.current => Next::Same,
            Some(index) if self.processes[index].phase == Phase::Ready => self.run_out_of_turn(index),
            _ => self.schedule(),
        }
    }

    /// Nobody is current any more; the one that was stays at the head of its level. For handing the
    /// VM over.
    pub fn relinquish_current(&mut self) {
        self.clear_current();
    }

    /// Whether a process more urgent than the current one is runnable (or any, if nobody is
    /// current). Whether the current one lets itself be preempted is the caller's to ask.
    #[inline]
    pub fn current_should_yield(&self) -> bool {
        if self.current == NIL {
            return self.run_queue.top() != 0;
        }
        self.run_queue.top() > self.processes[self.current].priority.get()
    }

    /// Who could run instead of the current process.
    #[inline]
    pub fn standing(&self) -> Standing {
        let top = self.run_queue.top();
        if self.current == NIL {
            let anybody = top != 0;
            return Standing {
                runnable: anybody,
                rivals: anybody,
                outranked: anybody,
            };
        }
        let process = &self.processes[self.current];
        let level = process.priority.get();
        let is_ready = process.phase == Phase::Ready;
        Standing {
            runnable: self.census[Phase::Ready as usize] > u32::from(is_ready),
            rivals: top > level || (top == level && process.next != self.current),
            outranked: top > level,
        }
    }

    /// A number that stays the same as long as nothing changes by which others decide when the current process is to be interrupted: who is
    /// runnable, the deadlines, who may be preempted.
    #[inline]
    pub fn changes(&self) -> u64 {
        self.run_queue.changes() + self.deadlines.changes() + self.preemptible_changes
    }

    /// How many processes could be chosen now, the current one not counted.
    #[inline]
    pub fn runnable_count(&self) -> usize {
        let is_ready = self.current != NIL && self.processes[self.current].phase == Phase::Ready;
        self.count_of(Phase::Ready) - usize::from(is_ready)
    }

    /// The priority of the most urgent process that could be chosen, the current one not counted.
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

    /// Turns the ring of the current process, and chooses.
    #[inline]
    fn rotate(&mut self) -> Next {
        let current = self.current;
        if current == NIL {
            return self.schedule();
        }
        let process = &self.processes[current];
        let (level, next) = (process.priority.get(), process.next);
        if self.run_queue.top() != level || self.run_queue.head(level) != current {
            return self.rotate_among_unequals();
        }
        if next == current {
            return Next::Same;
        }
        if process.due != NO_DUE_TIME {
            return self.rotate_among_unequals();
        }
        self.run_queue.turn_to(level, next);
        self.run(next)
    }

    /// Somebody is more urgent than the current process, or it is kept aside, or has a due time.
    #[cold]
    fn rotate_among_unequals(&mut self) -> Next {
        self.turn_current_to_back();
        self.schedule()
    }

    fn turn_current_to_back(&mut self) {
        if self.current != NIL && self.processes[self.current].phase == Phase::Ready {
            let process = &self.processes[self.current];
            if process.due != NO_DUE_TIME {
                self.run_queue.remove(&mut self.processes.slots, self.current);
                self.run_queue
                    .push_by_due_time(&mut self.processes.slots, self.current, NIL);
                return;
            }
            self.run_queue.turn_to(process.priority.get(), process.next);
        }
    }

    /// Puts a runnable process at the head of its level, and runs it.
    fn run_out_of_turn(&mut self, index: u32) -> Next {
        self.run_queue.remove(&mut self.processes.slots, index);
        self.run_queue.push_front(&mut self.processes.slots, index);
        self.run(index)
    }

    /// Makes the head of a level current.
    #[inline]
    fn run(&mut self, index: u32) -> Next {
        let last = if self.current == NIL { self.last } else { self.current };
        self.counters.switches += u64::from(index != last);
        self.current = index;
        Next::Other(self.processes.id(index))
    }

    /// Nobody is current.
    #[inline]
    pub(super) fn clear_current(&mut self) {
        if self.current != NIL {
            self.last = self.current;
            self.current = NIL;
        }
    }

    /// Makes a process runnable, at the back of its level, or of those kept aside.
    #[inline]
    pub(super) fn make_ready(&mut self, index: u32) {
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
    pub(super) fn leave_run_queue(&mut self, index: u32) {
        if self.processes[index].phase == Phase::Ready {
            self.run_queue.remove(&mut self.processes.slots, index);
        } else {
            self.leave_aside(index);
        }
    }
}
