//! Native threads: bound, pinned, occupied.

use super::*;
use crate::sched::{Blocker, CarrierId, State};

const HOME: CarrierId = CarrierId(0);
const OTHER: CarrierId = CarrierId(1);

fn bound(sched: &mut Scheduler<()>, carrier: CarrierId) -> ProcessId {
    let options = SpawnOptions {
        pin: Some(carrier),
        ..SpawnOptions::default()
    };
    sched.spawn(options, ()).expect("the limit is far")
}

#[test]
fn foreign_frames_go_before_what_the_user_bound() {
    let mut sched = sched();
    let a = bound(&mut sched, HOME);
    assert_eq!(sched.effective_carrier(a), Some(HOME));
    sched.set_pinned(a, Some(OTHER));
    assert_eq!(sched.effective_carrier(a), Some(OTHER));
    assert_eq!((sched.pin(a), sched.pinned(a)), (Some(HOME), Some(OTHER)));
    sched.set_pinned(a, None);
    sched.set_pin(a, None);
    assert_eq!(sched.effective_carrier(a), None);
}

#[test]
fn the_others_go_on_while_one_is_out_in_a_foreign_call() {
    let mut sched = sched();
    let a = spawn_running(&mut sched);
    let b = spawn(&mut sched);
    assert!(sched.begin_foreign(a, HOME));
    assert_eq!(sched.current(), None);
    assert_eq!(sched.state(a), State::Foreign);
    assert_eq!(sched.occupant(HOME), Some(a));
    assert_eq!(sched.foreign_count(), 1);
    assert_eq!(sched.schedule(), Next::Other(b));
    assert!(sched.end_foreign(a));
    assert!(!sched.end_foreign(a));
    assert_eq!(sched.occupant(HOME), None);
    assert_eq!(sched.yield_current(), Next::Other(a));
    assert!(!sched.all_blocked());
}

#[test]
fn a_pinned_process_that_came_back_runs_first_on_its_carrier() {
    let mut sched = sched();
    let a = spawn_running(&mut sched);
    let urgent = bound(&mut sched, HOME);
    sched.set_pinned(a, Some(HOME));
    assert!(sched.begin_foreign(a, HOME));
    assert_eq!(sched.schedule_returned(HOME), None);
    assert!(sched.end_foreign(a));
    assert_eq!(sched.schedule(), Next::Other(urgent));
    assert_eq!(sched.schedule_returned(OTHER), None);
    assert_eq!(sched.schedule_returned(HOME), Some(a));
    assert_eq!(sched.current(), Some(a));
    assert_eq!(sched.schedule_returned(HOME), None);
    assert_eq!(sched.yield_current(), Next::Other(urgent));
}

#[test]
fn a_suspended_process_that_came_back_does_not_block_its_carrier() {
    let mut sched = sched();
    let a = spawn_running(&mut sched);
    let other = bound(&mut sched, HOME);
    sched.set_pinned(a, Some(HOME));
    assert!(sched.begin_foreign(a, HOME));
    let _ = sched.suspend(a);
    assert!(sched.end_foreign(a));
    assert_eq!(sched.schedule_returned(HOME), None);
    assert_eq!(sched.schedule(), Next::Other(other));
    let _ = sched.resume(a);
    assert_eq!(sched.schedule_returned(HOME), Some(a));
}

#[test]
fn processes_that_need_an_occupied_carrier_are_kept_aside_in_order() {
    let mut sched = sched();
    let out = spawn_running(&mut sched);
    let [a, free, b] = [
        bound(&mut sched, HOME),
        bound(&mut sched, OTHER),
        bound(&mut sched, HOME),
    ];
    assert!(sched.begin_foreign(out, HOME));
    let late = bound(&mut sched, HOME);
    assert_eq!(sched.kept_aside_count(), 3);
    assert_eq!(sched.state(a), State::Runnable);
    assert_eq!(sched.runnable_count(), 1);
    assert_eq!(sched.schedule(), Next::Other(free));
    assert_eq!(sched.yield_current(), Next::Same);
    sched.exit_current();
    assert_eq!(sched.schedule(), Next::Nothing);
    assert_eq!(sched.most_urgent_runnable(), None);
    assert!(sched.end_foreign(out));
    assert_eq!(order_of_ends(&mut sched), [a, b, late, out]);
}

#[test]
fn a_process_woken_while_its_carrier_is_occupied_is_kept_aside() {
    let mut sched = sched();
    let a = bound(&mut sched, HOME);
    run(&mut sched, a);
    assert_blocked(sched.sleep(at(5)));
    let out = spawn_running(&mut sched);
    assert!(sched.begin_foreign(out, HOME));
    sched.expire(at(5));
    assert_eq!(sched.schedule(), Next::Nothing);
    sched.vacate(HOME);
    assert_eq!(sched.schedule(), Next::Other(a));
    assert_eq!(sched.take_wake(a).reason, WakeReason::Done);
}

#[test]
fn binding_and_freeing_moves_a_process_aside_and_back() {
    let mut sched = sched();
    let out = spawn_running(&mut sched);
    assert!(sched.begin_foreign(out, HOME));
    let a = spawn(&mut sched);
    sched.set_pin(a, Some(HOME));
    assert_eq!(sched.kept_aside_count(), 1);
    sched.set_pinned(a, Some(OTHER));
    assert_eq!(sched.kept_aside_count(), 0);
    sched.set_pinned(a, None);
    assert_eq!(sched.kept_aside_count(), 1);
    sched.set_pin(a, None);
    assert_eq!(sched.schedule(), Next::Other(a));
}

#[test]
fn the_current_process_runs_on_after_it_was_bound_until_it_gives_way() {
    let mut sched = sched();
    let out = spawn_running(&mut sched);
    assert!(sched.begin_foreign(out, HOME));
    let a = spawn_running(&mut sched);
    sched.set_pin(a, Some(HOME));
    assert_eq!(sched.current(), Some(a));
    assert_eq!(sched.state(a), State::Running);
    assert_eq!(sched.yield_current(), Next::Nothing);
    assert_eq!(sched.state(a), State::Runnable);
    assert!(sched.end_foreign(out));
    assert_eq!(order_of_ends(&mut sched), [a, out]);
}

#[test]
fn the_current_process_is_at_the_head_again_when_its_carrier_is_vacated() {
    let mut sched = sched();
    let out = spawn_running(&mut sched);
    assert!(sched.begin_foreign(out, HOME));
    let a = spawn_running(&mut sched);
    let b = spawn(&mut sched);
    sched.set_pin(a, Some(HOME));
    sched.vacate(HOME);
    assert_eq!(sched.schedule(), Next::Same);
    assert_eq!(sched.yield_current(), Next::Other(b));
}

#[test]
fn a_process_that_occupies_its_own_carrier_is_not_kept_aside_by_itself() {
    let mut sched = sched();
    let a = bound(&mut sched, HOME);
    let b = bound(&mut sched, HOME);
    sched.occupy(HOME, a);
    assert_eq!(sched.kept_aside_count(), 1);
    assert_eq!(sched.schedule(), Next::Other(a));
    sched.occupy(HOME, b);
    assert_eq!(sched.schedule(), Next::Other(b));
}

#[test]
fn a_process_kept_aside_can_be_killed_and_suspended() {
    let mut sched = sched();
    let out = spawn_running(&mut sched);
    let a = bound(&mut sched, HOME);
    assert!(sched.begin_foreign(out, HOME));
    assert_eq!(sched.suspend(a), crate::sched::SuspendOutcome::Suspended);
    assert_eq!(sched.kept_aside_count(), 0);
    assert_eq!(sched.kill(a), crate::sched::KillOutcome::Woken);
    assert_eq!(sched.kept_aside_count(), 1);
    assert!(sched.end_foreign(out));
    end(&mut sched, a);
}

#[test]
fn a_waiting_process_cannot_begin_a_foreign_call() {
    let mut sched = sched();
    let a = spawn_running(&mut sched);
    assert_blocked(sched.sleep(at(5)));
    assert!(!sched.begin_foreign(a, HOME));
    assert_eq!(sched.state(a), State::Sleeping);
}

#[test]
fn a_carrier_beyond_the_limit_binds_no_process() {
    let mut sched = sched();
    let beyond = CarrierId(Scheduler::<()>::MOST_CARRIERS);
    let a = bound(&mut sched, beyond);
    let out = spawn_running(&mut sched);
    assert!(sched.begin_foreign(out, beyond));
    assert_eq!(sched.occupant(beyond), None);
    assert_eq!(sched.schedule(), Next::Other(a));
    assert!(sched.end_foreign(out));
}

#[test]
fn a_named_carrier_is_free_when_no_process_is_bound_to_it() {
    let mut sched = sched();
    let a = bound(&mut sched, OTHER);
    let b = bound(&mut sched, OTHER);
    sched.set_named(OTHER, true);
    assert_eq!(
        (sched.named_count(), sched.named_and_vacant_count()),
        (1, 1)
    );
    sched.set_pin(a, Some(HOME));
    assert_eq!(sched.next_unbound(), None);
    // Foreign frames on another thread change nothing.
    sched.set_pinned(b, Some(HOME));
    assert!(sched.is_needed(OTHER) && !sched.is_pinned_to(OTHER) && sched.is_pinned_to(HOME));
    sched.set_pin(b, None);
    sched.set_pin(a, Some(OTHER));
    assert_eq!(
        sched.next_unbound(),
        None,
        "another process was bound in time"
    );
    assert!(sched.end_unstarted(a));
    assert_eq!(sched.next_unbound(), Some(OTHER));
    sched.set_named(OTHER, false);
    assert_eq!(sched.named_count(), 0);
    assert!(!sched.is_needed(OTHER));
}

#[test]
fn a_process_kept_aside_is_listed_as_waiting_for_the_carrier() {
    let mut sched = sched();
    let a = bound(&mut sched, OTHER);
    let b = bound(&mut sched, OTHER);
    sched.set_named(OTHER, true);
    assert_eq!(sched.schedule(), Next::Other(a));
    assert!(sched.begin_foreign(a, OTHER));
    assert_eq!(sched.blocker(b), Some(Blocker::Thread(OTHER)));
    assert_eq!(sched.named_and_vacant_count(), 0);
    assert!(sched.end_foreign(a));
    assert_eq!(sched.blocker(b), None);
}

#[test]
fn a_process_that_has_run_since_it_came_back_does_not_run_first_again() {
    let mut sched = sched();
    let a = spawn_running(&mut sched);
    sched.set_pinned(a, Some(HOME));
    assert!(sched.begin_foreign(a, HOME));
    let _ = sched.suspend(a);
    assert!(sched.end_foreign(a));
    assert_eq!(sched.schedule_returned(HOME), None);
    // It continues by an ordinary switch, leaves the function, and is runnable when the loop calls
    // again.
    let _ = sched.resume(a);
    assert_eq!(sched.schedule(), Next::Other(a));
    sched.set_pinned(a, None);
    let urgent = bound(&mut sched, HOME);
    assert_eq!(sched.yield_current(), Next::Other(urgent));
    assert_eq!(sched.schedule_returned(HOME), None);
}
