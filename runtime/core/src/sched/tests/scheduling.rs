//! The choice of the next process.

use super::*;
use crate::sched::{CarrierId, Preemption, ResumeOutcome, SuspendOutcome};

#[test]
fn nothing_runs_in_an_empty_scheduler() {
    let mut sched = sched();
    assert_eq!(sched.schedule(), Next::Nothing);
    assert_eq!(sched.yield_current(), Next::Nothing);
    assert_eq!(sched.current(), None);
}

#[test]
fn equals_run_in_the_order_of_their_spawning() {
    let mut sched = sched();
    let spawned: Vec<_> = (0..5).map(|_| spawn(&mut sched)).collect();
    assert_eq!(order_of_ends(&mut sched), spawned);
}

#[test]
fn the_more_urgent_run_first() {
    let mut sched = sched();
    let spawned: Vec<_> = [1, 80, 40, 41]
        .into_iter()
        .map(|level| spawn_at(&mut sched, level))
        .collect();
    let order = order_of_ends(&mut sched);
    assert_eq!(order, [spawned[1], spawned[3], spawned[2], spawned[0]]);
}

#[test]
fn yields_go_round_among_equals() {
    let mut sched = sched();
    let [a, b, c] = [0; 3].map(|_| spawn(&mut sched));
    spawn_at(&mut sched, 10);
    assert_eq!(sched.schedule(), Next::Other(a));
    for next in [b, c, a, b, c, a] {
        assert_eq!(sched.yield_current(), Next::Other(next));
    }
    assert_eq!(sched.counters().yields, 6);
    assert_eq!(sched.counters().switches, 7);
}

fn debtor(sched: &mut Scheduler<u32>, level: u8, deficit: u32) -> ProcessId {
    let options = SpawnOptions {
        priority: Priority::new(level).expect("a level of the scale"),
        ..SpawnOptions::default()
    };
    sched.spawn(options, deficit).expect("there is room")
}

/// Skips the chosen process once for each unit of its deficit. Returns the process that runs.
fn skip(sched: &mut Scheduler<u32>, gave_way: Option<ProcessId>) -> Option<ProcessId> {
    sched.skip_while(gave_way, |deficit| {
        let is_skipped = *deficit > 0;
        *deficit -= u32::from(is_skipped);
        is_skipped
    });
    sched.current()
}

/// Ends a slice. Returns the process that runs.
fn end_slice(sched: &mut Scheduler<u32>) -> Option<ProcessId> {
    let ended = sched.current();
    match sched.preempt_current(Preemption::SliceExpired) {
        Next::Other(_) => skip(sched, ended),
        Next::Same | Next::Nothing => ended,
    }
}

#[test]
fn a_skipped_process_pays_once_per_round() {
    let mut sched: Scheduler<u32> = Scheduler::new(10);
    let [a, b, c, d] = [0, 2, 1, 0].map(|deficit| debtor(&mut sched, 40, deficit));
    assert_eq!(sched.schedule(), Next::Other(a));
    for next in [d, a, c, d, a, b, c, d, a] {
        assert_eq!(end_slice(&mut sched), Some(next));
    }
    assert_eq!(sched.counters().switches, 10);
    assert_eq!(sched.counters().preemptions_by_slice, 9);
}

fn deficit(sched: &Scheduler<u32>, all: &[ProcessId]) -> Vec<u32> {
    all.iter()
        .map(|&pid| *sched.payload(pid).expect("it lives"))
        .collect()
}

#[test]
fn a_process_without_a_deficit_continues_if_all_others_have_one() {
    let mut sched: Scheduler<u32> = Scheduler::new(10);
    let all = [0, 2, 1].map(|deficit| debtor(&mut sched, 40, deficit));
    assert_eq!(sched.schedule(), Next::Other(all[0]));
    assert_eq!(end_slice(&mut sched), Some(all[0]));
    assert_eq!(deficit(&sched, &all), [0, 1, 0]);
    assert_eq!(sched.counters().switches, 1, "only to the first one");
    assert_eq!(end_slice(&mut sched), Some(all[2]));
    assert_eq!(sched.counters().switches, 2);
}

#[test]
fn deficits_of_all_processes_delay_none() {
    let mut sched: Scheduler<u32> = Scheduler::new(10);
    let all = [3, 5, 4].map(|deficit| debtor(&mut sched, 40, deficit));
    assert_eq!(sched.schedule(), Next::Other(all[0]));
    assert_eq!(end_slice(&mut sched), Some(all[0]));
    assert_eq!(deficit(&sched, &all), [0, 1, 0]);
}

#[test]
fn at_most_a_thousand_are_skipped() {
    let mut sched: Scheduler<u32> = Scheduler::new(10);
    let all = [0; 3].map(|_| debtor(&mut sched, 40, 10_000));
    assert_eq!(sched.schedule(), Next::Other(all[0]));
    assert_eq!(end_slice(&mut sched), Some(all[2]));
    assert_eq!(deficit(&sched, &all), [9667, 9666, 9667]);
}

#[test]
fn no_process_is_skipped_before_a_more_urgent_one_or_alone_or_with_due_times() {
    let mut sched: Scheduler<u32> = Scheduler::new(10);
    assert_eq!(end_slice(&mut sched), None);
    let a = debtor(&mut sched, 40, 1);
    debtor(&mut sched, 39, 0);
    assert_eq!(sched.schedule(), Next::Other(a));
    assert_eq!(end_slice(&mut sched), Some(a));
    let urgent = debtor(&mut sched, 41, 7);
    let b = debtor(&mut sched, 40, 1);
    assert_eq!(end_slice(&mut sched), Some(urgent));
    sched.exit_current();
    // The process that was outranked when its slice ended has gone to the back.
    assert_eq!(sched.schedule(), Next::Other(b));
    sched.set_due_time(a, Some(Instant::from_nanos(10)));
    assert_eq!(end_slice(&mut sched), Some(a));
    assert_eq!(deficit(&sched, &[a, b]), [1, 1]);
}

#[test]
fn a_chosen_process_with_a_deficit_is_skipped_before_it_runs() {
    let mut sched: Scheduler<u32> = Scheduler::new(10);
    let all = [0, 1, 0].map(|deficit| debtor(&mut sched, 40, deficit));
    assert_eq!(skip(&mut sched, None), None);
    assert_eq!(sched.schedule(), Next::Other(all[0]));
    assert_eq!(skip(&mut sched, None), Some(all[0]));
    sched.exit_current();
    assert_eq!(sched.schedule(), Next::Other(all[1]));
    assert_eq!(skip(&mut sched, None), Some(all[2]));
    assert_eq!(sched.counters().switches, 2);
    sched.exit_current();
    *sched.payload_mut(all[1]).expect("it lives") = 7;
    assert_eq!(sched.schedule(), Next::Other(all[1]));
    assert_eq!(
        skip(&mut sched, None),
        Some(all[1]),
        "there is no other process"
    );
    assert_eq!(deficit(&sched, &all[1..2]), [7]);
}

#[test]
fn a_process_with_a_raised_priority_is_not_skipped() {
    let mut sched: Scheduler<u32> = Scheduler::new(10);
    let owner = debtor(&mut sched, 40, 9);
    assert_eq!(sched.schedule(), Next::Other(owner));
    let mutex = sched.mutex_new();
    assert!(matches!(
        sched.mutex_lock(mutex, Deadline::Never),
        Ok(Attempt::Ready(_))
    ));
    let waiter = debtor(&mut sched, 60, 0);
    assert_eq!(sched.schedule(), Next::Other(waiter));
    assert_eq!(
        sched.mutex_lock(mutex, Deadline::Never),
        Ok(Attempt::Blocked)
    );
    assert_eq!(sched.schedule(), Next::Other(owner));
    let other = debtor(&mut sched, 60, 0);
    assert_eq!(end_slice(&mut sched), Some(other));
    assert_eq!(end_slice(&mut sched), Some(owner));
    assert_eq!(deficit(&sched, &[owner]), [9]);
}

#[test]
fn a_yield_does_not_go_to_the_less_urgent() {
    let mut sched = sched();
    let a = spawn_running(&mut sched);
    spawn_at(&mut sched, 39);
    assert_eq!(sched.yield_current(), Next::Same);
    assert_eq!(sched.current(), Some(a));
    assert!(!sched.run_queue_summary().rivals);
}

#[test]
fn a_yield_goes_to_the_more_urgent_and_to_the_back() {
    let mut sched = sched();
    let a = spawn_running(&mut sched);
    let b = spawn(&mut sched);
    let urgent = spawn_at(&mut sched, 50);
    assert!(sched.current_should_yield());
    assert_eq!(sched.yield_current(), Next::Other(urgent));
    assert_eq!(order_of_ends(&mut sched), [urgent, b, a]);
}

#[test]
fn spawning_an_equal_does_not_preempt() {
    let mut sched = sched();
    spawn_running(&mut sched);
    spawn(&mut sched);
    assert!(!sched.current_should_yield());
    assert!(sched.run_queue_summary().rivals);
    assert_eq!(sched.schedule(), Next::Same);
}

#[test]
fn a_process_preempted_by_a_more_urgent_one_stays_at_the_head() {
    let mut sched = sched();
    let a = spawn_running(&mut sched);
    let b = spawn(&mut sched);
    let urgent = spawn_at(&mut sched, 50);
    assert_eq!(
        sched.preempt_current(Preemption::MoreUrgent),
        Next::Other(urgent)
    );
    assert_eq!(sched.counters().preemptions_by_urgency, 1);
    assert_eq!(order_of_ends(&mut sched), [urgent, a, b]);
}

#[test]
fn a_process_whose_slice_expired_goes_to_the_back() {
    let mut sched = sched();
    let a = spawn_running(&mut sched);
    let b = spawn(&mut sched);
    assert_eq!(
        sched.preempt_current(Preemption::SliceExpired),
        Next::Other(b)
    );
    assert_eq!(sched.counters().preemptions_by_slice, 1);
    assert_eq!(order_of_ends(&mut sched), [b, a]);
}

#[test]
fn a_relinquishing_process_stays_at_the_head() {
    let mut sched = sched();
    let a = spawn_running(&mut sched);
    spawn(&mut sched);
    assert_eq!(sched.runnable_count(), 1);
    sched.relinquish_current();
    assert_eq!(sched.current(), None);
    assert_eq!(sched.runnable_count(), 2);
    assert!(sched.current_should_yield());
    assert_eq!(sched.schedule(), Next::Other(a));
    assert_eq!(sched.counters().switches, 1, "it is the one that ran last");
}

#[test]
fn a_directed_yield_goes_to_an_equal_out_of_turn() {
    let mut sched = sched();
    let a = spawn_running(&mut sched);
    let b = spawn(&mut sched);
    let c = spawn(&mut sched);
    assert_eq!(sched.yield_to(c), Next::Other(c));
    assert_eq!(order_of_ends(&mut sched), [c, b, a]);
}

#[test]
fn a_directed_yield_falls_back_to_the_next() {
    let mut sched = sched();
    spawn_running(&mut sched);
    let b = spawn(&mut sched);
    let less_urgent = spawn_at(&mut sched, 1);
    assert_eq!(sched.yield_to(less_urgent), Next::Other(b));
}

#[test]
fn a_directed_yield_to_oneself_or_a_stale_id_is_a_yield() {
    let mut sched = sched();
    let a = spawn_running(&mut sched);
    let b = spawn(&mut sched);
    assert_eq!(sched.yield_to(a), Next::Other(b));
    end(&mut sched, a);
    assert!(sched.forget(a));
    run(&mut sched, b);
    assert_eq!(sched.yield_to(a), Next::Same);
}

#[test]
fn a_switch_by_hand_may_go_to_the_less_urgent() {
    let mut sched = sched();
    let a = spawn_running(&mut sched);
    let less_urgent = spawn_at(&mut sched, 1);
    assert_eq!(sched.switch_to(less_urgent), Next::Other(less_urgent));
    assert!(sched.current_should_yield());
    assert_eq!(sched.schedule(), Next::Other(a));
}

#[test]
fn the_most_urgent_runnable_is_not_the_current_one() {
    let mut sched = sched();
    assert_eq!(sched.most_urgent_runnable(), None);
    spawn_running(&mut sched);
    assert_eq!(sched.most_urgent_runnable(), None);
    spawn_at(&mut sched, 7);
    assert_eq!(sched.most_urgent_runnable(), Some(priority(7)));
    spawn(&mut sched);
    assert_eq!(sched.most_urgent_runnable(), Some(priority(40)));
    spawn_at(&mut sched, 41);
    assert_eq!(sched.most_urgent_runnable(), Some(priority(41)));
}

#[test]
fn a_sleeping_process_wakes_at_its_deadline_with_the_reason_done() {
    let mut sched = sched();
    let a = spawn_running(&mut sched);
    assert_blocked(sched.sleep(at(10)));
    assert_eq!(sched.schedule(), Next::Nothing);
    assert_eq!(sched.next_deadline(), Some(at(10)));
    assert_eq!(sched.sleeping_count(), 1);
    assert_eq!(sched.expire(at(9)), 0);
    assert_eq!(sched.expire(at(10)), 1);
    assert_eq!(sched.schedule(), Next::Other(a));
    assert_eq!(sched.take_wake(a).reason, WakeReason::Done);
    assert_eq!(sched.next_deadline(), None);
}

#[test]
fn sleepers_wake_in_the_order_of_their_deadlines_and_equal_ones_in_turn() {
    let mut sched = sched();
    let sleepers: Vec<_> = [30, 10, 20, 10]
        .into_iter()
        .map(|deadline| {
            let pid = spawn_running(&mut sched);
            assert_blocked(sched.sleep(at(deadline)));
            pid
        })
        .collect();
    assert_eq!(sched.expire(at(100)), 4);
    let expected = [sleepers[1], sleepers[3], sleepers[2], sleepers[0]];
    assert_eq!(order_of_ends(&mut sched), expected);
}

#[test]
fn a_sleep_to_the_end_of_time_has_no_deadline() {
    let mut sched = sched();
    spawn_running(&mut sched);
    assert_blocked(sched.sleep(at(u64::MAX)));
    assert_eq!(sched.next_deadline(), None);
    assert!(sched.all_blocked());
}

#[test]
fn a_handoff_goes_to_the_next_equal_that_may_run_at_home() {
    let bound_to = |carrier| SpawnOptions {
        pin: Some(CarrierId(carrier)),
        ..SpawnOptions::default()
    };
    let mut sched = sched();
    let a = spawn_running(&mut sched);
    assert!(sched.yield_by_handoff().is_none(), "alone");
    let home = sched.spawn(bound_to(0), ()).unwrap();
    let elsewhere = sched.spawn(bound_to(1), ()).unwrap();
    assert!(sched.yield_by_handoff().is_some());
    assert_eq!(sched.current(), Some(home));
    assert!(
        sched.yield_by_handoff().is_none(),
        "the next one may not run at home"
    );
    assert_eq!(sched.yield_current(), Next::Other(elsewhere));
    assert!(sched.yield_by_handoff().is_some());
    assert_eq!(sched.current(), Some(a));
    spawn_at(&mut sched, 41);
    assert!(
        sched.yield_by_handoff().is_none(),
        "another process is more urgent"
    );
    assert_eq!(sched.counters().yields, 3);
}

#[test]
fn handoffs_go_round_among_equals() {
    let mut sched = sched();
    let all = [0; 3].map(|_| spawn(&mut sched));
    run(&mut sched, all[0]);
    for next in [1, 2, 0, 1, 2, 0] {
        assert!(sched.yield_by_handoff().is_some());
        assert_eq!(sched.current(), Some(all[next]));
    }
    assert_eq!(order_of_ends(&mut sched), all);
}

/// A handoff does not update this hint: the monitor uses that of the process that was left.
#[test]
fn there_is_no_handoff_between_a_preemptible_process_and_another() {
    let mut sched = sched();
    let [_, b] = [spawn_running(&mut sched), spawn(&mut sched)];
    sched.set_preemptible(b, false);
    assert!(sched.yield_by_handoff().is_none());
    assert_eq!(sched.yield_current(), Next::Other(b));
    assert!(sched.yield_by_handoff().is_none());
}

#[test]
fn a_preemptible_flag_counts_as_a_change_and_an_uncontended_operation_does_not() {
    let mut sched = sched();
    let me = spawn_running(&mut sched);
    let semaphore = sched.semaphore_new(1);
    let before = sched.changes();
    assert!(matches!(
        sched.semaphore_wait(semaphore, Deadline::Never),
        Attempt::Ready(_)
    ));
    sched.semaphore_signal(semaphore, 1);
    assert_eq!(sched.changes(), before);
    sched.set_preemptible(me, false);
    assert_ne!(sched.changes(), before);
}

#[test]
fn handoffs_to_the_more_urgent_and_to_successors_choose_as_the_slow_path_does() {
    let mut sched = sched();
    let low = spawn_running(&mut sched);
    assert!(
        sched.give_way_by_handoff().is_none(),
        "no process is more urgent"
    );
    assert!(sched.succeed_by_handoff().is_none(), "a process is current");
    let high = spawn_at(&mut sched, 60);
    sched.set_preemptible(low, false);
    assert!(
        sched.give_way_by_handoff().is_none(),
        "it does not let itself be preempted"
    );
    sched.set_preemptible(low, true);
    assert!(sched.give_way_by_handoff().is_some());
    assert_eq!(sched.current(), Some(high));
    assert_eq!(sched.counters().preemptions_by_urgency, 1);

    assert_eq!(sched.suspend(high), SuspendOutcome::CurrentMustSwitch);
    assert!(sched.succeed_by_handoff().is_some());
    assert_eq!(sched.current(), Some(low));
    assert_eq!(sched.suspend(low), SuspendOutcome::CurrentMustSwitch);
    assert!(sched.succeed_by_handoff().is_none(), "no process can run");

    let elsewhere = SpawnOptions {
        pin: Some(CarrierId(1)),
        ..SpawnOptions::default()
    };
    let elsewhere = sched.spawn(elsewhere, ()).unwrap();
    assert!(
        sched.succeed_by_handoff().is_none(),
        "the runnable process may not run at home"
    );
    assert_eq!(sched.schedule(), Next::Other(elsewhere));
    assert_eq!(sched.resume(high), ResumeOutcome::Resumed);
    assert!(sched.give_way_by_handoff().is_some());
    assert_eq!(sched.current(), Some(high));
}
