//! The deliberate faults: each is one of those that a scheduler is likely to have, put into the kernel or the executor.

/// One fault: in a file of `runtime/core/src`, a text that stands there once gives way to another.
#[derive(Debug)]
pub(super) struct Mutant {
    /// What is wrong then.
    pub(super) fault: &'static str,
    pub(super) file: &'static str,
    pub(super) original: &'static str,
    pub(super) replacement: &'static str,
}

const fn mutant(fault: &'static str, file: &'static str, original: &'static str, replacement: &'static str) -> Mutant {
    Mutant {
        fault,
        file,
        original,
        replacement,
    }
}

pub(super) const MUTANTS: &[Mutant] = &[
    // Who runs
    mutant(
        "a woken process goes to the front of its level",
        "kernel/scheduling.rs",
        "            self.run_queue.push_back(&mut self.processes.slots, index);\n        }\n    }\n\n    /// Takes a process in the phase",
        "            self.run_queue.push_front(&mut self.processes.slots, index);\n        }\n    }\n\n    /// Takes a process in the phase",
    ),
    mutant(
        "a yield keeps the process at the head of its level",
        "kernel/scheduling.rs",
        "        self.run_queue.turn_to(level, next);\n        self.run(next)",
        "        let _ = next;\n        Next::Same",
    ),
    mutant(
        "the end of a slice does not turn the ring",
        "kernel/scheduling.rs",
        "            Preemption::SliceExpired => self.rotate(),",
        "            Preemption::SliceExpired => self.schedule(),",
    ),
    mutant(
        "an equal preempts",
        "kernel/scheduling.rs",
        "        self.run_queue.top() > self.processes[self.current].priority.get()",
        "        self.run_queue.top() >= self.processes[self.current].priority.get()",
    ),
    mutant(
        "nobody is more urgent than who runs",
        "kernel/scheduling.rs",
        "        self.run_queue.top() > self.processes[self.current].priority.get()",
        "        false",
    ),
    mutant(
        "a directed yield goes to the less urgent",
        "kernel/scheduling.rs",
        "process.phase != Phase::Ready || process.priority.get() < self.run_queue.top()",
        "process.phase != Phase::Ready",
    ),
    mutant(
        "a directed yield goes to the next in turn",
        "kernel/scheduling.rs",
        "        self.counters.yields += 1;\n        self.run_out_of_turn(pid.index)",
        "        self.counters.yields += 1;\n        self.schedule()",
    ),
    mutant(
        "the most urgent level is not found again when it has become empty",
        "kernel/run_queue.rs",
        "            self.top = (128 - self.levels.leading_zeros()) as u8;\n        }\n    }\n}",
        "        }\n    }\n}",
    ),
    mutant(
        "a process without a due time comes before one that has one",
        "kernel/run_queue.rs",
        "processes[place as usize].due <= due",
        "processes[place as usize].due > due",
    ),
    // Turns, sections, due times
    mutant(
        "a yield goes the straight way past due times",
        "kernel/turn.rs",
        "            && self.with_due_time == 0\n",
        "",
    ),
    mutant(
        "a yield goes the straight way past the more urgent",
        "kernel/turn.rs",
        "            && self.run_queue.top() == level\n",
        "",
    ),
    mutant(
        "a turn among equals does not turn the ring",
        "kernel/turn.rs",
        "        self.run_queue.turn_to(level, to);\n",
        "",
    ),
    mutant(
        "a turn leads from a preemptible process to one that is not",
        "kernel/turn.rs",
        "\n            && self.processes[to].preemptible == process.preemptible;",
        ";",
    ),
    mutant(
        "who gives way straight way does so to the less urgent",
        "kernel/turn.rs",
        "level <= process.priority.get()",
        "level >= process.priority.get()",
    ),
    mutant(
        "who is not preemptible gives way straight way",
        "kernel/turn.rs",
        " || !process.preemptible {",
        " {",
    ),
    mutant(
        "a turn goes to a process that belongs to another thread",
        "kernel/turn.rs",
        " || !may_run_at_home(self.processes[to].carrier) {",
        " {",
    ),
    mutant(
        "a wait is followed by a turn though somebody is current",
        "kernel/turn.rs",
        "        if self.current != NIL || level == 0 {",
        "        if level == 0 {",
    ),
    mutant(
        "who suspended itself in a section is outside of it when it goes on",
        "kernel/critical.rs",
        "            self.set_critical(|critical| critical + left);",
        "            let _ = left;",
    ),
    mutant(
        "whoever suspends itself keeps its section",
        "kernel/critical.rs",
        "        if process.critical > 0 {\n            process.critical_left",
        "        if false {\n            process.critical_left",
    ),
    mutant(
        "a due time that changes moves nobody",
        "kernel/due_time.rs",
        "        if self.processes[index].phase == Phase::Ready && index != self.current {",
        "        if false {",
    ),
    mutant(
        "the latest of due times is none",
        "kernel/due_time.rs",
        "due.as_nanos().min(NO_DUE_TIME - 1)",
        "due.as_nanos()",
    ),
    mutant(
        "a process that suspends itself stays in its ring",
        "kernel/turn.rs",
        "        self.run_queue.remove(&mut self.processes.slots, from);\n",
        "",
    ),
    mutant(
        "a critical section is left by a suspension, and never entered again",
        "kernel/turn.rs",
        "            && process.critical == 0\n",
        "",
    ),
    mutant(
        "a process that was killed suspends itself",
        "kernel/turn.rs",
        "            && process.kills == 0;",
        ";",
    ),
    mutant(
        "a suspension goes to an equal past a more urgent one",
        "kernel/turn.rs",
        "        let is_simple = self.run_queue.top() == level\n            && self.run_queue.head(level) == from\n            && process.critical == 0",
        "        let is_simple = self.run_queue.head(level) == from\n            && process.critical == 0",
    ),
    mutant(
        "a suspension that hands over to one that is preempted otherwise is kept from the monitor",
        "kernel/turn.rs",
        "        if self.processes.slots.get(to as usize)?.preemptible != process.preemptible {",
        "        if self.processes.slots.get(to as usize).is_none() {",
    ),
    // Wait queues
    mutant(
        "the more urgent waiter does not come first",
        "kernel/waiters.rs",
        "        let (before, first_of_level) = if self.node(back).priority > priority {",
        "        let (before, first_of_level) = if back != sentinel {",
    ),
    mutant(
        "waiters of one priority are served last come first",
        "kernel/waiters.rs",
        "            (self.after_level(first), first)\n        } else {",
        "            (first, first)\n        } else {",
    ),
    mutant(
        "a waiter whose priority changes keeps its place",
        "kernel/waiters.rs",
        "        self.unlink(index);\n        self.link(index, priority);\n    }\n\n    fn link",
        "        self.node_mut(index).priority = priority;\n    }\n\n    fn link",
    ),
    // How waits end
    mutant(
        "a wake-up of a suspended process is lost",
        "kernel/blocking.rs",
        "        if process.suspended {\n            self.set_phase(index, Phase::Halted);\n        } else {\n            self.make_ready(index);\n        }",
        "        if process.suspended {\n            return;\n        }\n        self.make_ready(index);",
    ),
    mutant(
        "a wake-up lets a suspended process run",
        "kernel/blocking.rs",
        "        if process.suspended {\n            self.set_phase(index, Phase::Halted);\n        } else {",
        "        if false {\n        } else {",
    ),
    mutant(
        "a wait that ended leaves its deadline behind",
        "kernel/blocking.rs",
        "        self.deadlines.cancel(Owner::Process(index));\n        self.leave_queues(index);",
        "        self.leave_queues(index);",
    ),
    mutant(
        "a process that was killed waits once more",
        "kernel/blocking.rs",
        "        if self.processes[self.current].kill_is_due() {",
        "        if false {",
    ),
    mutant(
        "a wait without time blocks",
        "kernel/blocking.rs",
        "        if deadline == Deadline::Now {",
        "        if false {",
    ),
    mutant(
        "a wait inside of a critical section blocks",
        "kernel/blocking.rs",
        "        (self.processes[me].critical > 0).then(|| Attempt::because(WakeReason::Forbidden))",
        "        let _ = me;\n        None",
    ),
    // Time
    mutant(
        "a deadline is missed by a nanosecond",
        "kernel/deadlines.rs",
        "        if first.at > now {",
        "        if first.at >= now {",
    ),
    mutant(
        "equal deadlines come in any order",
        "kernel/deadlines.rs",
        "        (self.at, self.turn) < (other.at, other.turn)",
        "        (self.at, other.turn) < (other.at, self.turn)",
    ),
    mutant(
        "the heap of deadlines looks at three children of four",
        "kernel/deadlines.rs",
        "            let last = (first + 4).min(self.heap.len());",
        "            let last = (first + 3).min(self.heap.len());",
    ),
    mutant(
        "an entry that takes the place of a removed one does not rise",
        "kernel/deadlines.rs",
        "            let place = self.rise(place);\n            self.sink(place);",
        "            self.sink(place);",
    ),
    mutant(
        "a wait that timed out is told that it is done",
        "kernel/join.rs",
        "            self.wake_process(index, Wake::because(WakeReason::TimedOut));",
        "            self.wake_process(index, Wake::because(WakeReason::Done));",
    ),
    mutant(
        "a periodic timer drifts",
        "kernel/timer.rs",
        "        let mut next = timer.due.saturating_add(period);",
        "        let mut next = now.saturating_add(period);",
    ),
    mutant(
        "a timer fires while its last process lives",
        "kernel/timer.rs",
        "            .is_some_and(|last| self.processes.find_alive(last).is_some());",
        "            .is_some_and(|last| self.processes.find_alive(last).is_none());",
    ),
    mutant(
        "a cancelled timer fires",
        "kernel/timer.rs",
        "        self.deadlines.cancel(Owner::Timer(id.0.index));\n        self.end_timer(id.0.index);\n        let prepared = prepared?;",
        "        let prepared = prepared?;",
    ),
    // Semaphores, mutexes, conditions, events, barriers
    mutant(
        "a signal is counted and wakes nobody",
        "kernel/semaphore.rs",
        "        while left > 0 && self.wake_first",
        "        while left > n && self.wake_first",
    ),
    mutant(
        "a signal wakes and is counted as well",
        "kernel/semaphore.rs",
        "            left -= 1;\n            woken += 1;",
        "            woken += 1;\n            if woken as u64 >= n {\n                break;\n            }",
    ),
    mutant(
        "the last permit of a semaphore cannot be had",
        "kernel/semaphore.rs",
        "        if semaphore.count > 0 {\n            semaphore.count -= 1;",
        "        if semaphore.count > 1 {\n            semaphore.count -= 1;",
    ),
    mutant(
        "an owner inherits nothing from who waits",
        "kernel/mutex.rs",
        "        let attempt = self.wait_in(me, waiters, ticket, deadline);\n        self.inherit(owner);\n        Ok(attempt)",
        "        let attempt = self.wait_in(me, waiters, ticket, deadline);\n        Ok(attempt)",
    ),
    mutant(
        "inheritance ends after one mutex",
        "kernel/priority.rs",
        "                Some(owner) => index = owner,\n                None => return,",
        "                Some(_) | None => return,",
    ),
    mutant(
        "an inherited priority is kept after the unlock",
        "kernel/mutex.rs",
        "            self.wake_process(next, Wake::because(reason));\n        }\n        self.inherit(owner);",
        "            self.wake_process(next, Wake::because(reason));\n        }\n        let _ = owner;",
    ),
    mutant(
        "anybody may unlock a mutex",
        "kernel/mutex.rs",
        "            Some(mutex) if mutex.owner == self.current && mutex.owner != NIL => {",
        "            Some(mutex) if mutex.owner != NIL => {",
    ),
    mutant(
        "the mutexes of a dead process stay locked",
        "kernel/lifetime.rs",
        "        self.abandon_mutexes(index);\n",
        "",
    ),
    mutant(
        "who gets a mutex of a dead owner is not told",
        "kernel/mutex.rs",
        "            mutex.is_abandoned = reason == WakeReason::Abandoned;",
        "            mutex.is_abandoned = false;",
    ),
    mutant(
        "a condition's wait ends without the mutex",
        "kernel/condition.rs",
        "            self.processes[me].relock = Some(mutex);\n",
        "",
    ),
    mutant(
        "a condition's wait keeps the mutex",
        "kernel/condition.rs",
        "            self.hand_over(mutex.0.index, WakeReason::Done);\n",
        "",
    ),
    mutant(
        "a broadcast wakes one",
        "kernel/condition.rs",
        "            Some(waiters) => self.wake_each(waiters, Wake::because(WakeReason::Done)),",
        "            Some(waiters) => usize::from(self.wake_first(waiters, Wake::because(WakeReason::Done)).is_some()),",
    ),
    mutant(
        "an event that is set wakes nobody",
        "kernel/event.rs",
        "        event.is_set = true;\n        let waiters = event.waiters;\n        self.wake_each(waiters, Wake::because(WakeReason::Done))",
        "        event.is_set = true;\n        0",
    ),
    mutant(
        "a barrier lets one too few wait",
        "kernel/barrier.rs",
        "        if barrier.waiting + 1 == barrier.size {",
        "        if barrier.waiting + 2 >= barrier.size {",
    ),
    mutant(
        "who gives up at a barrier is counted on",
        "kernel/barrier.rs",
        "            barrier.waiting -= 1;",
        "            barrier.waiting -= 0;",
    ),
    mutant(
        "readers go past a writer that waits",
        "kernel/rwlock.rs",
        "        if passes && self.admits(id.0.index, kind) {",
        "        if (passes || kind == Kind::Read) && self.admits(id.0.index, kind) {",
    ),
    mutant(
        "a writer goes in beside readers",
        "kernel/rwlock.rs",
        "lock.holds == NIL || (kind == Kind::Read && !lock.is_written)",
        "lock.holds == NIL || !lock.is_written",
    ),
    // Channels and select
    mutant(
        "a channel holds one value too many",
        "kernel/channel.rs",
        "        if channel.buffer.len() < channel.capacity {\n            channel.buffer.push_back(value);",
        "        if channel.buffer.len() <= channel.capacity {\n            channel.buffer.push_back(value);",
    ),
    mutant(
        "a sender's value overtakes those in the buffer",
        "kernel/channel.rs",
        "                channel.buffer.push_back(ticket.value);\n                value",
        "                channel.buffer.push_back(value);\n                ticket.value",
    ),
    mutant(
        "a close loses what is in the buffer",
        "kernel/channel.rs",
        "        let is_closed = channel.is_closed;\n        let buffered",
        "        let is_closed = channel.is_closed;\n        if is_closed {\n            channel.buffer.clear();\n        }\n        let buffered",
    ),
    mutant(
        "a close leaves senders waiting",
        "kernel/channel.rs",
        "        self.tell_closed(receivers);\n        self.tell_closed(senders);",
        "        self.tell_closed(receivers);",
    ),
    mutant(
        "a select takes the first case that is ready, always",
        "kernel/select.rs",
        "            let turn = (random % ready as u64) as usize;",
        "            let turn = (random % 1) as usize;",
    ),
    mutant(
        "a select that was woken tells the first case",
        "kernel/select.rs",
        "                case: number,\n                value,",
        "                case: number & 0,\n                value,",
    ),
    // Life
    mutant(
        "joiners are not woken",
        "kernel/lifetime.rs",
        "        self.abandon_rwlocks(index);\n        self.release_joiners(index);",
        "        self.abandon_rwlocks(index);",
    ),
    mutant(
        "a kill does not wake who waits",
        "kernel/kill.rs",
        "                self.end_wait_by_kill(index);\n                KillOutcome::Woken",
        "                let _ = index;\n                KillOutcome::Woken",
    ),
    mutant(
        "a kill leaves a suspended process suspended",
        "kernel/kill.rs",
        "                self.end_suspension(index);\n                KillOutcome::Woken",
        "                KillOutcome::Woken",
    ),
    mutant(
        "a hold does not put a kill off",
        "kernel/kill.rs",
        "        if !self.processes[index].kill_is_due() {\n            return KillOutcome::Held;\n        }\n",
        "",
    ),
    mutant(
        "a kill that was put off is forgotten when the hold ends",
        "kernel/kill.rs",
        "        if process.kill_is_due() && index != self.current {",
        "        if false {",
    ),
    mutant(
        "a runnable process that is suspended runs on",
        "kernel/suspend.rs",
        "        if matches!(self.processes[index].phase, Phase::Ready | Phase::Aside) {",
        "        if index == self.current {",
    ),
    mutant(
        "a program does not wait for its pending timers",
        "kernel/join.rs",
        "        if self.pending_timers > 0 {\n            return false;\n        }\n",
        "",
    ),
    mutant(
        "a sleeping process counts as a deadlock",
        "kernel/join.rs",
        "            && self.deadlines.is_empty()\n",
        "",
    ),
    // The executor
    mutant(
        "what other threads post is taken in only when nobody runs",
        "vm/switching.rs",
        "        gate::here().clear_attention();\n        self.harvest();",
        "        gate::here().clear_attention();",
    ),
    mutant(
        "a program that is cooperative is preempted",
        "vm/switching.rs",
        "            if !self.parameters.preemptive() || !inner.kernel.is_preemptible(me) {",
        "            if !inner.kernel.is_preemptible(me) {",
    ),
    mutant(
        "a cooperative program is interrupted by whom it wakes",
        "vm/straight.rs",
        " || !self.parameters.preemptive() {",
        " {",
    ),
    mutant(
        "nobody is charged for the time before a turn",
        "vm/straight.rs",
        "        left.busy += now.saturating_sub(inner.run_started);\n",
        "",
    ),
    mutant(
        "a switch goes the straight way on any thread",
        "vm/straight.rs",
        "self.exceptions() == 0 && inner.carrier == HOME",
        "self.exceptions() == 0",
    ),
    mutant(
        "who suspended itself in a section does not take it again",
        "vm/operations.rs",
        "        if left {\n            self.kernel(Kernel::reenter_critical);\n        }\n",
        "        let _ = left;\n",
    ),
    mutant(
        "a stack is made where only one that is ready was asked for",
        "vm/spawning.rs",
        "                return Err(SpawnError::NonePremade);\n            }\n            self.spawn_in",
        "            }\n            self.spawn_in",
    ),
    mutant(
        "a bell that was answered is answered again",
        "vm/bell.rs",
        "bell.rung.swap(0, Ordering::Acquire)",
        "bell.rung.load(Ordering::Acquire)",
    ),
    mutant(
        "several rings are answered as one",
        "vm/bell.rs",
        "kernel.semaphore_signal(semaphore, times);",
        "kernel.semaphore_signal(semaphore, times.min(1));",
    ),
    mutant(
        "a bell that was rung and taken down is not heard",
        "vm/bell.rs",
        "        is_hung || bell.rung.load(Ordering::Relaxed) != 0",
        "        is_hung",
    ),
    mutant(
        "the monitor thinks that nobody could run after a suspension",
        "vm/publishing.rs",
        "        let bits = bits_of(inner.kernel.standing(), preemptible);",
        "        let bits = preemptible;",
    ),
    mutant(
        "readiness for what nobody wants ends a wait",
        "vm/descriptors.rs",
        "                woken += kernel.descriptor_is_ready(descriptor, readiness_of(event));",
        "                woken += 1 + kernel.descriptor_is_ready(descriptor, readiness_of(event));",
    ),
    mutant(
        "a process's own slices are as long as all others'",
        "vm/slices.rs",
        "            micros => Duration::from_micros(micros.into()),\n        }\n    }\n\n    /// For the monitor",
        "            _ => self.parameters.slice.get(),\n        }\n    }\n\n    /// For the monitor",
    ),
    mutant(
        "what a scheduler chooses is not heeded",
        "vm/consulting.rs",
        "        chosen.unwrap_or(suggested)",
        "        let _ = chosen;\n        suggested",
    ),
    mutant(
        "hooks of the process that will run are not called",
        "vm/consulting.rs",
        "[from, to].into_iter().flatten()",
        "[from].into_iter().flatten()",
    ),
    mutant(
        "a scheduler is not asked if who runs would go on",
        "vm/consulting.rs",
        "        self.consulting.chooses && self.must_consult(Some(me), None)",
        "        let _ = me;\n        false",
    ),
    mutant(
        "equals keep their order in a simulated run",
        "vm/simulation.rs",
        "        if choices > 1 && !is_first {",
        "        if choices > 1000 && !is_first {",
    ),
    mutant(
        "who was interrupted in a simulated run loses its place",
        "vm/simulation.rs",
        "        if choices > 1 && !is_first {",
        "        let _ = is_first;\n        if choices > 1 {",
    ),
];
