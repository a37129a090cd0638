//! Who runs next.

use super::*;
use crate::kernel::{CarrierId, Preemption, ResumeOutcome, SuspendOutcome};

#[test]
fn nothing_runs_in_an_empty_kernel() {
    let mut kernel = kernel();
    assert_eq!(kernel.schedule(), Next::Nothing);
    assert_eq!(kernel.yield_current(), Next::Nothing);
    assert_eq!(kernel.current(), None);
}

#[test]
fn equals_run_in_the_order_of_their_spawning() {
    let mut kernel = kernel();
    let spawned: Vec<_> = (0..5).map(|_| spawn(&mut kernel)).collect();
    assert_eq!(order_of_ends(&mut kernel), spawned);
}

#[test]
fn the_more_urgent_run_first() {
    let mut kernel = kernel();
    let spawned: Vec<_> = [1, 80, 40, 41]
        .into_iter()
        .map(|level| spawn_at(&mut kernel, level))
        .collect();
    let order = order_of_ends(&mut kernel);
    assert_eq!(order, [spawned[1], spawned[3], spawned[2], spawned[0]]);
}

#[test]
fn yields_go_round_among_equals() {
    let mut kernel = kernel();
    let [a, b, c] = [0; 3].map(|_| spawn(&mut kernel));
    spawn_at(&mut kernel, 10);
    assert_eq!(kernel.schedule(), Next::Other(a));
    for next in [b, c, a, b, c, a] {
        assert_eq!(kernel.yield_current(), Next::Other(next));
    }
    assert_eq!(kernel.counters().yields, 6);
    assert_eq!(kernel.counters().switches, 7);
}

fn debtor(kernel: &mut Kernel<u32>, level: u8, owed: u32) -> ProcessId {
    let options = SpawnOptions {
        priority: Priority::new(level).expect("a level of the scale"),
        ..SpawnOptions::default()
    };
    kernel.spawn(options, owed).expect("there is room")
}

/// The next one, where who owes passes for one.
fn end_slice(kernel: &mut Kernel<u32>) -> Next {
    kernel.end_slice(|owed| *owed > 0, |owed| *owed -= 1)
}

#[test]
fn who_passes_pays_once_in_a_round() {
    let mut kernel: Kernel<u32> = Kernel::new(10);
    let [a, b, c, d] = [0, 2, 1, 0].map(|owed| debtor(&mut kernel, 40, owed));
    assert_eq!(kernel.schedule(), Next::Other(a));
    for next in [d, a, c, d, a, b, c, d, a] {
        assert_eq!(end_slice(&mut kernel), Next::Other(next));
    }
    assert_eq!(kernel.counters().switches, 10);
    assert_eq!(kernel.counters().preemptions_by_slice, 9);
}

fn owed(kernel: &Kernel<u32>, all: &[ProcessId]) -> Vec<u32> {
    all.iter().map(|&pid| *kernel.payload(pid).expect("it lives")).collect()
}

#[test]
fn who_owes_nothing_goes_on_where_all_others_owe() {
    let mut kernel: Kernel<u32> = Kernel::new(10);
    let all = [0, 2, 1].map(|owed| debtor(&mut kernel, 40, owed));
    assert_eq!(kernel.schedule(), Next::Other(all[0]));
    assert_eq!(end_slice(&mut kernel), Next::Same);
    assert_eq!(owed(&kernel, &all), [0, 1, 0]);
    assert_eq!(kernel.current(), Some(all[0]));
    assert_eq!(end_slice(&mut kernel), Next::Other(all[2]));
    assert_eq!(kernel.counters().preemptions_by_slice, 1);
}

#[test]
fn what_all_owe_keeps_nobody_waiting() {
    let mut kernel: Kernel<u32> = Kernel::new(10);
    let all = [3, 5, 4].map(|owed| debtor(&mut kernel, 40, owed));
    assert_eq!(kernel.schedule(), Next::Other(all[0]));
    assert_eq!(end_slice(&mut kernel), Next::Same);
    assert_eq!(owed(&kernel, &all), [0, 1, 0]);
}

#[test]
fn at_most_a_thousand_pass() {
    let mut kernel: Kernel<u32> = Kernel::new(10);
    let all = [0; 3].map(|_| debtor(&mut kernel, 40, 10_000));
    assert_eq!(kernel.schedule(), Next::Other(all[0]));
    assert_eq!(end_slice(&mut kernel), Next::Other(all[2]));
    assert_eq!(owed(&kernel, &all), [9667, 9666, 9667]);
}

#[test]
fn nobody_passes_for_who_is_more_urgent_or_alone_or_where_due_times_say_who_is_next() {
    let mut kernel: Kernel<u32> = Kernel::new(10);
    assert_eq!(end_slice(&mut kernel), Next::Nothing);
    let a = debtor(&mut kernel, 40, 1);
    debtor(&mut kernel, 39, 0);
    assert_eq!(kernel.schedule(), Next::Other(a));
    assert_eq!(end_slice(&mut kernel), Next::Same);
    let urgent = debtor(&mut kernel, 41, 7);
    let b = debtor(&mut kernel, 40, 1);
    assert_eq!(end_slice(&mut kernel), Next::Other(urgent));
    kernel.exit_current();
    // The one that was outranked at the end of its slice has gone to the back.
    assert_eq!(kernel.schedule(), Next::Other(b));
    kernel.set_due_time(a, Some(Instant::from_nanos(10)));
    assert_eq!(end_slice(&mut kernel), Next::Other(a));
    assert_eq!(owed(&kernel, &[a, b]), [1, 1]);
}

#[test]
fn who_was_chosen_and_owes_passes_before_it_runs() {
    let mut kernel: Kernel<u32> = Kernel::new(10);
    let all = [0, 1, 0].map(|owed| debtor(&mut kernel, 40, owed));
    let pass_over = |kernel: &mut Kernel<u32>| kernel.pass_over(|owed| *owed > 0, |owed| *owed -= 1);
    assert_eq!(pass_over(&mut kernel), None);
    assert_eq!(kernel.schedule(), Next::Other(all[0]));
    assert_eq!(pass_over(&mut kernel), Some(all[0]));
    kernel.exit_current();
    assert_eq!(kernel.schedule(), Next::Other(all[1]));
    assert_eq!(pass_over(&mut kernel), Some(all[2]));
    assert_eq!(kernel.current(), Some(all[2]));
    kernel.exit_current();
    *kernel.payload_mut(all[1]).expect("it lives") = 7;
    assert_eq!(kernel.schedule(), Next::Other(all[1]));
    assert_eq!(pass_over(&mut kernel), Some(all[1]), "nobody else is there");
    assert_eq!(owed(&kernel, &all[1..2]), [7]);
}

#[test]
fn nobody_passes_for_whom_the_more_urgent_wait() {
    let mut kernel: Kernel<u32> = Kernel::new(10);
    let owner = debtor(&mut kernel, 40, 9);
    assert_eq!(kernel.schedule(), Next::Other(owner));
    let mutex = kernel.mutex_new();
    assert!(matches!(
        kernel.mutex_lock(mutex, Deadline::Never),
        Ok(Attempt::Ready(_))
    ));
    let waiter = debtor(&mut kernel, 60, 0);
    assert_eq!(kernel.schedule(), Next::Other(waiter));
    assert_eq!(kernel.mutex_lock(mutex, Deadline::Never), Ok(Attempt::Blocked));
    assert_eq!(kernel.schedule(), Next::Other(owner));
    let other = debtor(&mut kernel, 60, 0);
    assert_eq!(end_slice(&mut kernel), Next::Other(other));
    assert_eq!(end_slice(&mut kernel), Next::Other(owner));
    assert_eq!(owed(&kernel, &[owner]), [9]);
}

#[test]
fn a_yield_does_not_go_to_the_less_urgent() {
    let mut kernel = kernel();
    let a = spawn_running(&mut kernel);
    spawn_at(&mut kernel, 39);
    assert_eq!(kernel.yield_current(), Next::Same);
    assert_eq!(kernel.current(), Some(a));
    assert!(!kernel.standing().rivals);
}

#[test]
fn a_yield_goes_to_the_more_urgent_and_to_the_back() {
    let mut kernel = kernel();
    let a = spawn_running(&mut kernel);
    let b = spawn(&mut kernel);
    let urgent = spawn_at(&mut kernel, 50);
    assert!(kernel.current_should_yield());
    assert_eq!(kernel.yield_current(), Next::Other(urgent));
    assert_eq!(order_of_ends(&mut kernel), [urgent, b, a]);
}

#[test]
fn spawning_an_equal_asks_nobody_to_give_way() {
    let mut kernel = kernel();
    spawn_running(&mut kernel);
    spawn(&mut kernel);
    assert!(!kernel.current_should_yield());
    assert!(kernel.standing().rivals);
    assert_eq!(kernel.schedule(), Next::Same);
}

#[test]
fn one_preempted_by_the_more_urgent_keeps_its_place_at_the_head() {
    let mut kernel = kernel();
    let a = spawn_running(&mut kernel);
    let b = spawn(&mut kernel);
    let urgent = spawn_at(&mut kernel, 50);
    assert_eq!(kernel.preempt_current(Preemption::MoreUrgent), Next::Other(urgent));
    assert_eq!(kernel.counters().preemptions_by_urgency, 1);
    assert_eq!(order_of_ends(&mut kernel), [urgent, a, b]);
}

#[test]
fn one_whose_slice_expired_goes_to_the_back() {
    let mut kernel = kernel();
    let a = spawn_running(&mut kernel);
    let b = spawn(&mut kernel);
    assert_eq!(kernel.preempt_current(Preemption::SliceExpired), Next::Other(b));
    assert_eq!(kernel.counters().preemptions_by_slice, 1);
    assert_eq!(order_of_ends(&mut kernel), [b, a]);
}

#[test]
fn one_that_gives_up_the_processor_stays_at_the_head() {
    let mut kernel = kernel();
    let a = spawn_running(&mut kernel);
    spawn(&mut kernel);
    assert_eq!(kernel.runnable_count(), 1);
    kernel.relinquish_current();
    assert_eq!(kernel.current(), None);
    assert_eq!(kernel.runnable_count(), 2);
    assert!(kernel.current_should_yield());
    assert_eq!(kernel.schedule(), Next::Other(a));
    assert_eq!(kernel.counters().switches, 1, "it is the one that ran last");
}

#[test]
fn a_directed_yield_goes_to_an_equal_out_of_turn() {
    let mut kernel = kernel();
    let a = spawn_running(&mut kernel);
    let b = spawn(&mut kernel);
    let c = spawn(&mut kernel);
    assert_eq!(kernel.yield_to(c), Next::Other(c));
    assert_eq!(order_of_ends(&mut kernel), [c, b, a]);
}

#[test]
fn a_directed_yield_falls_back_to_the_next() {
    let mut kernel = kernel();
    spawn_running(&mut kernel);
    let b = spawn(&mut kernel);
    let less_urgent = spawn_at(&mut kernel, 1);
    assert_eq!(kernel.yield_to(less_urgent), Next::Other(b));
}

#[test]
fn a_directed_yield_to_oneself_or_to_nobody_is_a_yield() {
    let mut kernel = kernel();
    let a = spawn_running(&mut kernel);
    let b = spawn(&mut kernel);
    assert_eq!(kernel.yield_to(a), Next::Other(b));
    end(&mut kernel, a);
    assert!(kernel.forget(a));
    run(&mut kernel, b);
    assert_eq!(kernel.yield_to(a), Next::Same);
}

#[test]
fn a_switch_by_hand_may_go_to_the_less_urgent() {
    let mut kernel = kernel();
    let a = spawn_running(&mut kernel);
    let less_urgent = spawn_at(&mut kernel, 1);
    assert_eq!(kernel.switch_to(less_urgent), Next::Other(less_urgent));
    assert!(kernel.current_should_yield());
    assert_eq!(kernel.schedule(), Next::Other(a));
}

#[test]
fn the_most_urgent_runnable_is_not_the_current_one() {
    let mut kernel = kernel();
    assert_eq!(kernel.most_urgent_runnable(), None);
    spawn_running(&mut kernel);
    assert_eq!(kernel.most_urgent_runnable(), None);
    spawn_at(&mut kernel, 7);
    assert_eq!(kernel.most_urgent_runnable(), Some(priority(7)));
    spawn(&mut kernel);
    assert_eq!(kernel.most_urgent_runnable(), Some(priority(40)));
    spawn_at(&mut kernel, 41);
    assert_eq!(kernel.most_urgent_runnable(), Some(priority(41)));
}

#[test]
fn one_that_sleeps_wakes_at_its_deadline_with_the_reason_done() {
    let mut kernel = kernel();
    let a = spawn_running(&mut kernel);
    assert_blocked(kernel.sleep(at(10)));
    assert_eq!(kernel.schedule(), Next::Nothing);
    assert_eq!(kernel.next_deadline(), Some(at(10)));
    assert_eq!(kernel.sleeping_count(), 1);
    assert_eq!(kernel.expire(at(9)), 0);
    assert_eq!(kernel.expire(at(10)), 1);
    assert_eq!(kernel.schedule(), Next::Other(a));
    assert_eq!(kernel.take_wake(a).reason, WakeReason::Done);
    assert_eq!(kernel.next_deadline(), None);
}

#[test]
fn sleepers_wake_in_the_order_of_their_deadlines_and_equal_ones_in_turn() {
    let mut kernel = kernel();
    let sleepers: Vec<_> = [30, 10, 20, 10]
        .into_iter()
        .map(|deadline| {
            let pid = spawn_running(&mut kernel);
            assert_blocked(kernel.sleep(at(deadline)));
            pid
        })
        .collect();
    assert_eq!(kernel.expire(at(100)), 4);
    let expected = [sleepers[1], sleepers[3], sleepers[2], sleepers[0]];
    assert_eq!(order_of_ends(&mut kernel), expected);
}

#[test]
fn a_sleep_to_the_end_of_time_has_no_deadline() {
    let mut kernel = kernel();
    spawn_running(&mut kernel);
    assert_blocked(kernel.sleep(at(u64::MAX)));
    assert_eq!(kernel.next_deadline(), None);
    assert!(kernel.all_blocked());
}

#[test]
fn a_plain_turn_goes_to_the_next_equal_that_may_run_at_home() {
    let bound_to = |carrier| SpawnOptions {
        pin: Some(CarrierId(carrier)),
        ..SpawnOptions::default()
    };
    let mut kernel = kernel();
    let a = spawn_running(&mut kernel);
    assert!(kernel.yield_by_turn().is_none(), "alone");
    let home = kernel.spawn(bound_to(0), ()).unwrap();
    let elsewhere = kernel.spawn(bound_to(1), ()).unwrap();
    assert!(kernel.yield_by_turn().is_some());
    assert_eq!(kernel.current(), Some(home));
    assert!(kernel.yield_by_turn().is_none(), "the next one may not run at home");
    assert_eq!(kernel.yield_current(), Next::Other(elsewhere));
    assert!(kernel.yield_by_turn().is_some());
    assert_eq!(kernel.current(), Some(a));
    spawn_at(&mut kernel, 41);
    assert!(kernel.yield_by_turn().is_none(), "somebody is more urgent");
    assert_eq!(kernel.counters().yields, 3);
}

#[test]
fn plain_turns_go_round_among_equals() {
    let mut kernel = kernel();
    let all = [0; 3].map(|_| spawn(&mut kernel));
    run(&mut kernel, all[0]);
    for next in [1, 2, 0, 1, 2, 0] {
        assert!(kernel.yield_by_turn().is_some());
        assert_eq!(kernel.current(), Some(all[next]));
    }
    assert_eq!(order_of_ends(&mut kernel), all);
}

/// The monitor is not told of a plain turn: it goes on to think of who runs what it thought of who was left.
#[test]
fn no_plain_turn_leads_between_one_that_is_preemptible_and_one_that_is_not() {
    let mut kernel = kernel();
    let [_, b] = [spawn_running(&mut kernel), spawn(&mut kernel)];
    kernel.set_preemptible(b, false);
    assert!(kernel.yield_by_turn().is_none());
    assert_eq!(kernel.yield_current(), Next::Other(b));
    assert!(kernel.yield_by_turn().is_none());
}

#[test]
fn to_be_preemptible_or_not_is_a_change_and_to_take_what_is_free_is_none() {
    let mut kernel = kernel();
    let me = spawn_running(&mut kernel);
    let semaphore = kernel.semaphore_new(1);
    let before = kernel.changes();
    assert!(matches!(
        kernel.semaphore_wait(semaphore, Deadline::Never),
        Attempt::Ready(_)
    ));
    kernel.semaphore_signal(semaphore, 1);
    assert_eq!(kernel.changes(), before);
    kernel.set_preemptible(me, false);
    assert_ne!(kernel.changes(), before);
}

#[test]
fn turns_to_the_more_urgent_and_to_successors_choose_as_the_long_way_does() {
    let mut kernel = kernel();
    let low = spawn_running(&mut kernel);
    assert!(kernel.give_way_by_turn().is_none(), "nobody is more urgent");
    assert!(kernel.succeed_by_turn().is_none(), "somebody is current");
    let high = spawn_at(&mut kernel, 60);
    kernel.set_preemptible(low, false);
    assert!(
        kernel.give_way_by_turn().is_none(),
        "it does not let itself be preempted"
    );
    kernel.set_preemptible(low, true);
    assert!(kernel.give_way_by_turn().is_some());
    assert_eq!(kernel.current(), Some(high));
    assert_eq!(kernel.counters().preemptions_by_urgency, 1);

    assert_eq!(kernel.suspend(high), SuspendOutcome::CurrentMustSwitch);
    assert!(kernel.succeed_by_turn().is_some());
    assert_eq!(kernel.current(), Some(low));
    assert_eq!(kernel.suspend(low), SuspendOutcome::CurrentMustSwitch);
    assert!(kernel.succeed_by_turn().is_none(), "nobody can run");

    let elsewhere = SpawnOptions {
        pin: Some(CarrierId(1)),
        ..SpawnOptions::default()
    };
    let elsewhere = kernel.spawn(elsewhere, ()).unwrap();
    assert!(kernel.succeed_by_turn().is_none(), "who could run may not run at home");
    assert_eq!(kernel.schedule(), Next::Other(elsewhere));
    assert_eq!(kernel.resume(high), ResumeOutcome::Resumed);
    assert!(kernel.give_way_by_turn().is_some());
    assert_eq!(kernel.current(), Some(high));
}
