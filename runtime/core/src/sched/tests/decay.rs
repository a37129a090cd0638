//! Processes that sink a level while they compute.

use super::*;
use crate::sched::run::decay::LONGEST_SUNK;
use crate::sched::{CarrierId, Preemption};

const LONGEST: u64 = LONGEST_SUNK.as_nanos() as u64;

fn spawn_decaying(sched: &mut Scheduler<()>, level: u8) -> ProcessId {
    let options = SpawnOptions {
        priority: priority(level),
        decay: true,
        ..SpawnOptions::default()
    };
    sched.spawn(options, ()).expect("the limit is far")
}

/// Ends a whole slice of the current process at this time.
fn end_slice(sched: &mut Scheduler<()>, now: u64) -> Next {
    sched.sink_current(|| at(now));
    sched.preempt_current(Preemption::SliceExpired)
}

/// A process of level 40 that has sunk and is current.
fn sunk(sched: &mut Scheduler<()>) -> ProcessId {
    let pid = spawn_decaying(sched, 40);
    run(sched, pid);
    let _ = end_slice(sched, 0);
    run(sched, pid);
    assert_eq!(sched.effective_priority(pid), priority(39));
    pid
}

#[test]
fn a_process_that_used_up_a_slice_runs_behind_its_equals_until_it_waits() {
    let mut sched = sched();
    let pid = sunk(&mut sched);
    assert_eq!(sched.priority(pid), priority(40));
    let equal = spawn(&mut sched);
    assert!(sched.current_should_yield());
    assert_eq!(sched.schedule(), Next::Other(equal));
    assert_eq!(sched.yield_current(), Next::Same);
    end(&mut sched, equal);
    assert_eq!(sched.schedule(), Next::Other(pid));
    assert_blocked(sched.sleep(at(5)));
    sched.expire(at(5));
    assert!(!sched.has_sunk(pid));
    assert_eq!(sched.effective_priority(pid), priority(40));
    assert_eq!(sched.next_deadline(), None);
}

#[test]
fn a_process_without_the_option_and_one_of_the_lowest_level_stay_at_their_level() {
    let mut sched = sched();
    for pid in [spawn(&mut sched), spawn_decaying(&mut sched, 1)] {
        run(&mut sched, pid);
        let level = sched.effective_priority(pid);
        let _ = end_slice(&mut sched, 0);
        assert_eq!(sched.effective_priority(pid), level);
        assert!(!sched.has_sunk(pid));
    }
}

#[test]
fn a_process_sinks_one_level_however_many_slices_it_uses_up() {
    let mut sched = sched();
    let pid = sunk(&mut sched);
    for now in 1..10 {
        let _ = end_slice(&mut sched, now);
    }
    assert_eq!(sched.effective_priority(pid), priority(39));
}

#[test]
fn processes_that_have_sunk_share_their_level_in_rotation() {
    let mut sched = sched();
    let [a, b] = [0; 2].map(|_| sunk(&mut sched));
    assert_eq!(end_slice(&mut sched, 1), Next::Other(a));
    assert_eq!(end_slice(&mut sched, 2), Next::Other(b));
}

#[test]
fn every_way_to_wait_brings_it_back_and_it_waits_at_its_own_level() {
    let mut sched = sched();
    let semaphore = sched.semaphore_new(0);
    let pid = sunk(&mut sched);
    let equal = spawn(&mut sched);
    run(&mut sched, equal);
    assert_blocked(sched.semaphore_wait(semaphore, Deadline::Never));
    run(&mut sched, pid);
    assert_blocked(sched.semaphore_wait(semaphore, Deadline::Never));
    let humble = spawn_at(&mut sched, 39);
    run(&mut sched, humble);
    assert_blocked(sched.semaphore_wait(semaphore, Deadline::Never));
    sched.semaphore_signal(semaphore, 3);
    assert_eq!(order_of_ends(&mut sched), [equal, pid, humble]);

    let pid = sunk(&mut sched);
    let _ = sched.suspend(pid);
    assert!(!sched.has_sunk(pid));
    let pid = sunk(&mut sched);
    assert!(sched.begin_foreign(pid, CarrierId(1)));
    assert!(!sched.has_sunk(pid));
}

#[test]
fn a_new_priority_ends_the_sinking() {
    let mut sched = sched();
    let pid = sunk(&mut sched);
    assert!(sched.set_priority(pid, priority(50)));
    assert_eq!(sched.effective_priority(pid), priority(50));
    assert_eq!(sched.priority(pid), priority(50));
    assert_eq!(sched.next_deadline(), None);
}

#[test]
fn one_that_has_sunk_and_holds_a_mutex_inherits_as_others_do() {
    let mut sched = sched();
    let mutex = sched.mutex_new();
    let pid = sunk(&mut sched);
    assert_eq!(
        sched.mutex_lock(mutex, Deadline::Never).map(reason),
        Ok(WakeReason::Done)
    );
    let equal = spawn(&mut sched);
    run(&mut sched, equal);
    assert_eq!(
        sched.mutex_lock(mutex, Deadline::Never),
        Ok(Attempt::Blocked)
    );
    assert_eq!(sched.effective_priority(pid), priority(40));
    run(&mut sched, pid);
    sched.mutex_unlock(mutex).expect("it is the owner");
    assert_eq!(sched.effective_priority(pid), priority(39));
}

#[test]
fn one_that_has_sunk_comes_back_in_bounded_time_beside_equals_that_never_rest() {
    let mut sched = sched();
    let pid = sunk(&mut sched);
    let busy = spawn(&mut sched);
    let _ = sched.schedule();
    assert_eq!(sched.next_deadline(), Some(at(LONGEST)));
    sched.expire(at(LONGEST - 1));
    assert_eq!(sched.yield_current(), Next::Same);
    sched.expire(at(LONGEST));
    assert_eq!(sched.yield_current(), Next::Other(pid));
    assert_eq!(end_slice(&mut sched, LONGEST), Next::Other(busy));
    assert_eq!(sched.next_deadline(), Some(at(2 * LONGEST)));
}

#[test]
fn a_slice_that_it_uses_up_below_puts_its_return_off() {
    let mut sched = sched();
    let pid = sunk(&mut sched);
    let _ = end_slice(&mut sched, 1000);
    assert_eq!(sched.next_deadline(), Some(at(LONGEST + 1000)));
    end(&mut sched, pid);
    assert_eq!(sched.next_deadline(), None);
}
