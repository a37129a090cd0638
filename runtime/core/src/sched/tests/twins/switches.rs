//! Switches: handoffs, the end of a slice, and directed yields.

use super::*;
use crate::sched::process::Phase;
use crate::sched::{Handoff, Preemption, ResumeOutcome, RunQueueSummary, SuspendOutcome};
use baton_sys::clock::Instant;

/// The payloads of the process that was left and of the one that runs.
type Switch = Option<[u32; 2]>;

/// The switch of a handoff, which must be known to the scheduler as well.
fn handed_off(world: &mut World, handoff: Handoff) -> Switch {
    let running = running(world);
    let payloads = world.sched.payloads_of_handoff(handoff)?;
    let [left, run] = payloads.map(|payload| *payload);
    (Some(run) == running).then_some([left, run])
}

/// The switch from `left` to the process that was chosen.
fn chosen(world: &World, left: Option<u32>, next: Next) -> Switch {
    match next {
        Next::Other(pid) => Some([left?, *world.sched.payload(pid)?]),
        Next::Same | Next::Nothing => None,
    }
}

fn running(world: &World) -> Option<u32> {
    let current = world.sched.current()?;
    world.sched.payload(current).copied()
}

/// All that the monitor is shown.
type Hints = (RunQueueSummary, Option<Instant>, usize, u32);

fn hints(world: &World) -> Hints {
    let sched = &world.sched;
    (
        sched.run_queue_summary(),
        sched.next_deadline(),
        sched.kept_aside_count(),
        sched.watching(),
    )
}

/// The fast path leaves the hints as they are, and the slow path computes them anew.
#[test]
fn a_fast_yield_is_a_slow_one_and_changes_no_hint() {
    let fast = |world: &mut World, _| {
        let before = (hints(world), world.sched.changes());
        let handoff = world.sched.yield_by_handoff()?;
        Some((handed_off(world, handoff), before))
    };
    let slow = |world: &mut World, _| {
        let left = running(world);
        let next = world.sched.yield_current();
        let after = (hints(world), world.sched.changes());
        (chosen(world, left, next), after)
    };
    Twins::new(&fast, &slow).agree();
}

#[test]
fn a_fast_way_to_a_more_urgent_process_is_a_slow_preemption() {
    let fast = |world: &mut World, _| {
        let handoff = world.sched.give_way_by_handoff()?;
        let summary = world.sched.summary_after_handoff(handoff);
        let deadlines = world.sched.deadline_changes();
        Some((true, handed_off(world, handoff), summary, deadlines))
    };
    let slow = |world: &mut World, _| {
        let left = running(world);
        let may_give_way = world.sched.current_should_yield()
            && world.sched.run_queue_summary().preemptible == Some(true);
        let deadlines = world.sched.deadline_changes();
        let next = world.sched.preempt_current(Preemption::MoreUrgent);
        let summary = world.sched.run_queue_summary();
        (may_give_way, chosen(world, left, next), summary, deadlines)
    };
    let outrank = |world: &mut World, operation: Operation| {
        if let Some(current) = world.sched.current() {
            world.sched.set_priority(current, Priority::LOWEST);
        }
        if let Some(pid) = world.any_process(operation.b) {
            world.sched.set_priority(pid, Priority::HIGHEST);
        }
        true
    };
    let twins = Twins {
        before: &outrank,
        ..Twins::new(&fast, &slow)
    };
    twins.agree();
}

#[test]
fn a_fast_resumption_of_the_most_urgent_is_a_slow_one_and_a_preemption() {
    let halt = |world: &mut World, operation: Operation| {
        let Some(pid) = world.any_process(operation.b) else {
            return false;
        };
        world.sched.set_priority(pid, Priority::HIGHEST);
        Some(pid) != world.sched.current() && world.sched.suspend(pid) == SuspendOutcome::Suspended
    };
    let fast = |world: &mut World, operation: Operation| {
        let pid = world.any_process(operation.b)?;
        let handoff = world.sched.resume_by_handoff(pid)?;
        let summary = world.sched.summary_after_handoff(handoff);
        Some((true, handed_off(world, handoff), summary))
    };
    let slow = |world: &mut World, operation: Operation| {
        let left = running(world);
        let pid = world
            .any_process(operation.b)
            .expect("the fast path found it");
        let is_resumed = world.sched.resume(pid) == ResumeOutcome::Resumed;
        let gives_way = world.sched.current_should_yield()
            && world.sched.run_queue_summary().preemptible == Some(true);
        let next = world.sched.preempt_current(Preemption::MoreUrgent);
        let summary = world.sched.run_queue_summary();
        (is_resumed && gives_way, chosen(world, left, next), summary)
    };
    let twins = Twins {
        before: &halt,
        ..Twins::new(&fast, &slow)
    };
    twins.agree();
}

/// The fast path knows the summary by the handoff, and leaves the other hints as they are; of the
/// summary, whether the running process may be preempted.
#[test]
fn a_fast_suspension_is_a_slow_one_and_a_choice() {
    let fast = |world: &mut World, _| {
        let before = hints(world);
        let handoff = world.sched.suspend_by_handoff()?;
        let summary = RunQueueSummary {
            preemptible: before.0.preemptible,
            ..world.sched.summary_after_handoff(handoff)
        };
        Some((
            SuspendOutcome::CurrentMustSwitch,
            handed_off(world, handoff),
            (summary, before.1, before.2, before.3),
        ))
    };
    let slow = |world: &mut World, _| {
        let left = running(world);
        let me = world.sched.current().expect("it suspends itself");
        let outcome = world.sched.suspend(me);
        let next = world.sched.schedule();
        (outcome, chosen(world, left, next), hints(world))
    };
    Twins::new(&fast, &slow).agree();
}

#[test]
fn a_fast_successor_is_the_one_that_is_chosen() {
    let wait = |world: &mut World, _| {
        world.sched.event_wait(world.never, Deadline::Never) == Attempt::Blocked
    };
    let fast = |world: &mut World, _| {
        let handoff = world.sched.succeed_by_handoff()?;
        Some(handed_off(world, handoff)?[1])
    };
    let slow = |world: &mut World, _| {
        let next = world.sched.schedule();
        chosen(world, Some(0), next).map_or(0, |[_, run]| run)
    };
    let twins = Twins {
        before: &wait,
        ..Twins::new(&fast, &slow)
    };
    twins.agree();
}

/// The fast path knows the summary by the handoff.
#[test]
fn a_fast_wait_is_a_slow_one_and_a_choice() {
    let deadline = |world: &World, operation: Operation| match operation.a % 2 {
        0 => Deadline::Never,
        _ => world.deadline(operation.b),
    };
    let fast = |world: &mut World, operation: Operation| {
        let deadline = deadline(world, operation);
        let FirstLook::Waits(place) = world.sched.event_begin_wait(world.never) else {
            return None;
        };
        let handoff = world.sched.wait_by_handoff(place, 0, deadline)?;
        let summary = world.sched.summary_after_handoff(handoff);
        Some((Attempt::Blocked, handed_off(world, handoff), summary))
    };
    let slow = |world: &mut World, operation: Operation| {
        let deadline = deadline(world, operation);
        let left = running(world);
        let attempt = world.sched.event_wait(world.never, deadline);
        let next = world.sched.schedule();
        let summary = world.sched.run_queue_summary();
        (attempt, chosen(world, left, next), summary)
    };
    Twins::new(&fast, &slow).agree();
}

#[test]
fn a_choice_among_processes_without_deficits_skips_none() {
    let fast = |world: &mut World, _| {
        let gave_way = world.sched.current();
        let _ = world.sched.preempt_current(Preemption::SliceExpired);
        world.sched.skip_while(gave_way, |_| false);
        Some(world.sched.current())
    };
    let slow = |world: &mut World, _| {
        let _ = world.sched.preempt_current(Preemption::SliceExpired);
        world.sched.current()
    };
    Twins::new(&fast, &slow).agree();
}

/// The run queue counts what comes and goes, and a directed yield moves the process.
fn but_for_moves(world: &World) -> String {
    without(world, &["changes"])
}

#[test]
fn a_yield_to_the_process_that_is_next_is_a_yield() {
    let fast = |world: &mut World, _| {
        let next = next_after_a_yield(world)?;
        Some(world.sched.yield_to(next))
    };
    let slow = |world: &mut World, _| world.sched.yield_current();
    let twins = Twins {
        view: but_for_moves,
        ..Twins::new(&fast, &slow)
    };
    twins.agree();
}

/// Which process a yield would choose, by the plainest rule: the first of the most urgent level,
/// where the current process counts as the last of its equals.
fn next_after_a_yield(world: &World) -> Option<ProcessId> {
    let sched = &world.sched;
    let head = sched.run_queue.head(sched.run_queue.top());
    let first = sched.processes.slots.get(head as usize)?;
    let next = if sched.current == head {
        first.next
    } else {
        head
    };
    let has_due_time = sched.with_due_time > 0;
    (!has_due_time && next != sched.current).then(|| sched.processes.id(next))
}

#[test]
fn a_yield_to_a_process_that_cannot_run_is_a_yield() {
    let fast = |world: &mut World, operation: Operation| {
        let pid = world.any_process(operation.b)?;
        let process = &world.sched.processes[pid.index];
        let can_run = process.phase == Phase::Ready && Some(pid) != world.sched.current();
        (!can_run).then(|| world.sched.yield_to(pid))
    };
    let slow = |world: &mut World, _| world.sched.yield_current();
    Twins::new(&fast, &slow).agree();
}

#[test]
fn a_switch_to_the_process_that_is_chosen_is_a_choice() {
    let fast = |world: &mut World, _| {
        let head = world.sched.run_queue.head(world.sched.run_queue.top());
        let pid = (head != crate::sched::NIL).then(|| world.sched.processes.id(head))?;
        Some(world.sched.switch_to(pid))
    };
    let slow = |world: &mut World, _| world.sched.schedule();
    let twins = Twins {
        view: but_for_moves,
        ..Twins::new(&fast, &slow)
    };
    twins.agree();
}

/// A simulated run asks who is next before it shuffles.
#[test]
fn the_next_process_in_the_ring_is_the_one_that_a_yield_chooses() {
    let fast = |world: &mut World, _| {
        let next = world.sched.next_in_ring();
        let _ = world.sched.yield_current();
        Some(next)
    };
    let slow = |world: &mut World, _| {
        let _ = world.sched.yield_current();
        world.sched.current()
    };
    let without_due_times = |world: &mut World, _| world.sched.with_due_time == 0;
    let twins = Twins {
        before: &without_due_times,
        ..Twins::new(&fast, &slow)
    };
    twins.agree();
}

#[test]
fn a_process_that_may_run_at_home_for_a_handoff_needs_home_or_no_thread() {
    let fast = |world: &mut World, operation: Operation| {
        let pid = world.any_process(operation.b)?;
        let carrier = world.sched.processes[pid.index].carrier;
        Some(crate::sched::run::handoff::may_run_at_home(carrier))
    };
    let slow = |world: &mut World, operation: Operation| {
        let pid = world.any_process(operation.b).expect("the same as there");
        let carrier = world.sched.effective_carrier(pid);
        carrier.is_none_or(|carrier| carrier.0 == 0)
    };
    Twins::new(&fast, &slow).agree();
}
