//! Native threads: bound, pinned, occupied.

use super::*;
use crate::kernel::{Blocker, CarrierId, State};

const HOME: CarrierId = CarrierId(0);
const OTHER: CarrierId = CarrierId(1);

fn bound(kernel: &mut Kernel<()>, carrier: CarrierId) -> ProcessId {
    let options = SpawnOptions {
        pin: Some(carrier),
        ..SpawnOptions::default()
    };
    kernel.spawn(options, ()).expect("the limit is far")
}

#[test]
fn foreign_frames_go_before_what_the_user_bound() {
    let mut kernel = kernel();
    let a = bound(&mut kernel, HOME);
    assert_eq!(kernel.effective_carrier(a), Some(HOME));
    kernel.set_pinned(a, Some(OTHER));
    assert_eq!(kernel.effective_carrier(a), Some(OTHER));
    assert_eq!((kernel.pin(a), kernel.pinned(a)), (Some(HOME), Some(OTHER)));
    kernel.set_pinned(a, None);
    kernel.set_pin(a, None);
    assert_eq!(kernel.effective_carrier(a), None);
}

#[test]
fn the_others_go_on_while_one_is_out_in_a_foreign_call() {
    let mut kernel = kernel();
    let a = spawn_running(&mut kernel);
    let b = spawn(&mut kernel);
    assert!(kernel.begin_foreign(a, HOME));
    assert_eq!(kernel.current(), None);
    assert_eq!(kernel.state(a), State::Foreign);
    assert_eq!(kernel.occupant(HOME), Some(a));
    assert_eq!(kernel.foreign_count(), 1);
    assert_eq!(kernel.schedule(), Next::Other(b));
    assert!(kernel.end_foreign(a));
    assert!(!kernel.end_foreign(a));
    assert_eq!(kernel.occupant(HOME), None);
    assert_eq!(kernel.yield_current(), Next::Other(a));
    assert!(!kernel.all_blocked());
}

#[test]
fn what_came_back_in_the_middle_of_a_function_goes_first_on_its_carrier() {
    let mut kernel = kernel();
    let a = spawn_running(&mut kernel);
    let urgent = bound(&mut kernel, HOME);
    kernel.set_pinned(a, Some(HOME));
    assert!(kernel.begin_foreign(a, HOME));
    assert_eq!(kernel.schedule_returned(HOME), None);
    assert!(kernel.end_foreign(a));
    assert_eq!(kernel.schedule(), Next::Other(urgent));
    assert_eq!(kernel.schedule_returned(OTHER), None);
    assert_eq!(kernel.schedule_returned(HOME), Some(a));
    assert_eq!(kernel.current(), Some(a));
    assert_eq!(kernel.schedule_returned(HOME), None);
    assert_eq!(kernel.yield_current(), Next::Other(urgent));
}

#[test]
fn what_came_back_and_is_suspended_holds_up_nobody_on_its_carrier() {
    let mut kernel = kernel();
    let a = spawn_running(&mut kernel);
    let other = bound(&mut kernel, HOME);
    kernel.set_pinned(a, Some(HOME));
    assert!(kernel.begin_foreign(a, HOME));
    let _ = kernel.suspend(a);
    assert!(kernel.end_foreign(a));
    assert_eq!(kernel.schedule_returned(HOME), None);
    assert_eq!(kernel.schedule(), Next::Other(other));
    let _ = kernel.resume(a);
    assert_eq!(kernel.schedule_returned(HOME), Some(a));
}

#[test]
fn those_who_need_an_occupied_carrier_are_kept_aside_in_order() {
    let mut kernel = kernel();
    let out = spawn_running(&mut kernel);
    let [a, free, b] = [
        bound(&mut kernel, HOME),
        bound(&mut kernel, OTHER),
        bound(&mut kernel, HOME),
    ];
    assert!(kernel.begin_foreign(out, HOME));
    let late = bound(&mut kernel, HOME);
    assert_eq!(kernel.kept_aside_count(), 3);
    assert_eq!(kernel.state(a), State::Runnable);
    assert_eq!(kernel.runnable_count(), 1);
    assert_eq!(kernel.schedule(), Next::Other(free));
    assert_eq!(kernel.yield_current(), Next::Same);
    kernel.exit_current();
    assert_eq!(kernel.schedule(), Next::Nothing);
    assert_eq!(kernel.most_urgent_runnable(), None);
    assert!(kernel.end_foreign(out));
    assert_eq!(order_of_ends(&mut kernel), [a, b, late, out]);
}

#[test]
fn one_that_wakes_while_its_carrier_is_occupied_is_kept_aside() {
    let mut kernel = kernel();
    let a = bound(&mut kernel, HOME);
    run(&mut kernel, a);
    assert_blocked(kernel.sleep(at(5)));
    let out = spawn_running(&mut kernel);
    assert!(kernel.begin_foreign(out, HOME));
    kernel.expire(at(5));
    assert_eq!(kernel.schedule(), Next::Nothing);
    kernel.vacate(HOME);
    assert_eq!(kernel.schedule(), Next::Other(a));
    assert_eq!(kernel.take_wake(a).reason, WakeReason::Done);
}

#[test]
fn binding_and_freeing_moves_a_process_aside_and_back() {
    let mut kernel = kernel();
    let out = spawn_running(&mut kernel);
    assert!(kernel.begin_foreign(out, HOME));
    let a = spawn(&mut kernel);
    kernel.set_pin(a, Some(HOME));
    assert_eq!(kernel.kept_aside_count(), 1);
    kernel.set_pinned(a, Some(OTHER));
    assert_eq!(kernel.kept_aside_count(), 0);
    kernel.set_pinned(a, None);
    assert_eq!(kernel.kept_aside_count(), 1);
    kernel.set_pin(a, None);
    assert_eq!(kernel.schedule(), Next::Other(a));
}

#[test]
fn the_current_process_runs_on_after_it_was_bound_until_it_gives_way() {
    let mut kernel = kernel();
    let out = spawn_running(&mut kernel);
    assert!(kernel.begin_foreign(out, HOME));
    let a = spawn_running(&mut kernel);
    kernel.set_pin(a, Some(HOME));
    assert_eq!(kernel.current(), Some(a));
    assert_eq!(kernel.state(a), State::Running);
    assert_eq!(kernel.yield_current(), Next::Nothing);
    assert_eq!(kernel.state(a), State::Runnable);
    assert!(kernel.end_foreign(out));
    assert_eq!(order_of_ends(&mut kernel), [a, out]);
}

#[test]
fn the_current_process_is_at_the_head_again_when_its_carrier_is_vacated() {
    let mut kernel = kernel();
    let out = spawn_running(&mut kernel);
    assert!(kernel.begin_foreign(out, HOME));
    let a = spawn_running(&mut kernel);
    let b = spawn(&mut kernel);
    kernel.set_pin(a, Some(HOME));
    kernel.vacate(HOME);
    assert_eq!(kernel.schedule(), Next::Same);
    assert_eq!(kernel.yield_current(), Next::Other(b));
}

#[test]
fn a_process_that_occupies_its_own_carrier_is_not_kept_aside_by_itself() {
    let mut kernel = kernel();
    let a = bound(&mut kernel, HOME);
    let b = bound(&mut kernel, HOME);
    kernel.occupy(HOME, a);
    assert_eq!(kernel.kept_aside_count(), 1);
    assert_eq!(kernel.schedule(), Next::Other(a));
    kernel.occupy(HOME, b);
    assert_eq!(kernel.schedule(), Next::Other(b));
}

#[test]
fn one_kept_aside_can_be_killed_suspended_and_counted_out() {
    let mut kernel = kernel();
    let out = spawn_running(&mut kernel);
    let a = bound(&mut kernel, HOME);
    assert!(kernel.begin_foreign(out, HOME));
    assert_eq!(kernel.suspend(a), crate::kernel::SuspendOutcome::Suspended);
    assert_eq!(kernel.kept_aside_count(), 0);
    assert_eq!(kernel.kill(a), crate::kernel::KillOutcome::Woken);
    assert_eq!(kernel.kept_aside_count(), 1);
    assert!(kernel.end_foreign(out));
    end(&mut kernel, a);
}

#[test]
fn one_that_waits_cannot_go_out() {
    let mut kernel = kernel();
    let a = spawn_running(&mut kernel);
    assert_blocked(kernel.sleep(at(5)));
    assert!(!kernel.begin_foreign(a, HOME));
    assert_eq!(kernel.state(a), State::Sleeping);
}

#[test]
fn a_carrier_beyond_the_limit_binds_nobody() {
    let mut kernel = kernel();
    let beyond = CarrierId(Kernel::<()>::MOST_CARRIERS);
    let a = bound(&mut kernel, beyond);
    let out = spawn_running(&mut kernel);
    assert!(kernel.begin_foreign(out, beyond));
    assert_eq!(kernel.occupant(beyond), None);
    assert_eq!(kernel.schedule(), Next::Other(a));
    assert!(kernel.end_foreign(out));
}

#[test]
fn a_named_carrier_is_free_when_the_last_one_is_bound_no_more() {
    let mut kernel = kernel();
    let a = bound(&mut kernel, OTHER);
    let b = bound(&mut kernel, OTHER);
    kernel.set_named(OTHER, true);
    assert_eq!((kernel.named_count(), kernel.named_and_vacant_count()), (1, 1));
    kernel.set_pin(a, Some(HOME));
    assert_eq!(kernel.next_unbound(), None);
    // Its foreign frames elsewhere change nothing.
    kernel.set_pinned(b, Some(HOME));
    assert!(kernel.is_needed(OTHER) && !kernel.is_pinned_to(OTHER) && kernel.is_pinned_to(HOME));
    kernel.set_pin(b, None);
    kernel.set_pin(a, Some(OTHER));
    assert_eq!(kernel.next_unbound(), None, "somebody came in time");
    assert!(kernel.end_unstarted(a));
    assert_eq!(kernel.next_unbound(), Some(OTHER));
    kernel.set_named(OTHER, false);
    assert_eq!(kernel.named_count(), 0);
    assert!(!kernel.is_needed(OTHER));
}

#[test]
fn who_is_kept_aside_waits_for_the_carrier() {
    let mut kernel = kernel();
    let a = bound(&mut kernel, OTHER);
    let b = bound(&mut kernel, OTHER);
    kernel.set_named(OTHER, true);
    assert_eq!(kernel.schedule(), Next::Other(a));
    assert!(kernel.begin_foreign(a, OTHER));
    assert_eq!(kernel.blocker(b), Some(Blocker::Thread(OTHER)));
    assert_eq!(kernel.named_and_vacant_count(), 0);
    assert!(kernel.end_foreign(a));
    assert_eq!(kernel.blocker(b), None);
}

#[test]
fn what_came_back_and_has_run_since_does_not_go_first_again() {
    let mut kernel = kernel();
    let a = spawn_running(&mut kernel);
    kernel.set_pinned(a, Some(HOME));
    assert!(kernel.begin_foreign(a, HOME));
    let _ = kernel.suspend(a);
    assert!(kernel.end_foreign(a));
    assert_eq!(kernel.schedule_returned(HOME), None);
    // It goes on by an ordinary switch, leaves the function, and is runnable when the loop asks again.
    let _ = kernel.resume(a);
    assert_eq!(kernel.schedule(), Next::Other(a));
    kernel.set_pinned(a, None);
    let urgent = bound(&mut kernel, HOME);
    assert_eq!(kernel.yield_current(), Next::Other(urgent));
    assert_eq!(kernel.schedule_returned(HOME), None);
}
