//! Cycles of locks.

use super::*;
use crate::sched::{Blocker, Case, MutexId};

/// Processes that each hold one mutex; the last one is current.
fn owners<const N: usize>(sched: &mut Scheduler<()>) -> ([ProcessId; N], [MutexId; N]) {
    let mutexes = [0; N].map(|_| sched.mutex_new());
    let processes = mutexes.map(|mutex| {
        let owner = spawn_running(sched);
        assert_eq!(
            reason(sched.mutex_lock(mutex, Deadline::Now).expect("free")),
            WakeReason::Done
        );
        owner
    });
    (processes, mutexes)
}

fn wait_for(sched: &mut Scheduler<()>, process: ProcessId, mutex: MutexId, deadline: Deadline) {
    run(sched, process);
    assert_eq!(sched.mutex_lock(mutex, deadline), Ok(Attempt::Blocked));
}

/// The processes of the cycle that `process` closes by waiting for `mutex`.
fn closed_by(
    sched: &mut Scheduler<()>,
    process: ProcessId,
    mutex: MutexId,
) -> Option<Vec<ProcessId>> {
    run(sched, process);
    let links = sched.cycle_closed_by(Blocker::Mutex(mutex))?;
    for (place, link) in links.iter().enumerate() {
        let next = links[(place + 1) % links.len()];
        assert!(
            sched
                .holders(link.waits_for)
                .any(|holder| holder == next.process)
        );
    }
    Some(links.into_iter().map(|link| link.process).collect())
}

#[test]
fn a_long_cycle_is_found_in_its_order_by_the_process_that_closes_it() {
    let mut sched = sched();
    let (processes, mutexes) = owners::<5>(&mut sched);
    for place in 1..5 {
        assert_eq!(
            closed_by(&mut sched, processes[place - 1], mutexes[place]),
            None
        );
        wait_for(
            &mut sched,
            processes[place - 1],
            mutexes[place],
            Deadline::Never,
        );
    }
    let cycle = closed_by(&mut sched, processes[4], mutexes[0]).expect("it is closed");
    assert_eq!(
        cycle,
        [
            processes[4],
            processes[0],
            processes[1],
            processes[2],
            processes[3]
        ]
    );
}

#[test]
fn a_process_that_joins_a_cycle_from_outside_closes_none() {
    let mut sched = sched();
    let (processes, mutexes) = owners::<3>(&mut sched);
    wait_for(&mut sched, processes[0], mutexes[1], Deadline::Never);
    wait_for(&mut sched, processes[1], mutexes[0], Deadline::Never);
    assert_eq!(closed_by(&mut sched, processes[2], mutexes[0]), None);
}

#[test]
fn a_wait_with_a_deadline_and_a_select_of_several_cases_end_by_themselves() {
    let mut sched = sched();
    let (processes, mutexes) = owners::<2>(&mut sched);
    wait_for(&mut sched, processes[0], mutexes[1], until(50));
    assert_eq!(closed_by(&mut sched, processes[1], mutexes[0]), None);
    sched.expire(at(50));
    run(&mut sched, processes[0]);
    let event = sched.event_new();
    assert_blocked(sched.select(
        &[Case::Mutex(mutexes[1]), Case::Event(event)],
        Deadline::Never,
        0,
    ));
    assert_eq!(closed_by(&mut sched, processes[1], mutexes[0]), None);
    sched.event_set(event);
    run(&mut sched, processes[0]);
    assert_blocked(sched.select(&[Case::Mutex(mutexes[1])], Deadline::Never, 0));
    assert!(closed_by(&mut sched, processes[1], mutexes[0]).is_some());
}

#[test]
fn a_cycle_leads_through_any_of_the_readers_of_a_lock() {
    let mut sched = sched();
    let (processes, mutexes) = owners::<2>(&mut sched);
    let lock = sched.rwlock_new();
    let other = spawn_running(&mut sched);
    for reader in [processes[0], other] {
        run(&mut sched, reader);
        assert_eq!(
            reason(sched.rwlock_read(lock, Deadline::Now).expect("once")),
            WakeReason::Done
        );
    }
    wait_for(&mut sched, processes[0], mutexes[1], Deadline::Never);
    run(&mut sched, processes[1]);
    let links = sched
        .cycle_closed_by(Blocker::Write(lock))
        .expect("a reader waits for the mutex");
    let expected = [processes[1], processes[0]];
    assert_eq!(
        links.iter().map(|link| link.process).collect::<Vec<_>>(),
        expected
    );
    assert_eq!(
        sched.rwlock_write(lock, Deadline::Never),
        Ok(Attempt::Blocked)
    );
    run(&mut sched, other);
    let links = sched.cycle_closed_by(Blocker::Mutex(mutexes[0]));
    assert_eq!(
        links.map(|links| links.len()),
        Some(3),
        "the writer waits for the other reader, too"
    );
}

#[test]
fn locks_that_are_free_gone_or_held_by_running_processes_close_nothing() {
    let mut sched = sched();
    let (processes, mutexes) = owners::<2>(&mut sched);
    let free = sched.mutex_new();
    assert_eq!(closed_by(&mut sched, processes[1], free), None);
    assert_eq!(closed_by(&mut sched, processes[1], mutexes[0]), None);
    sched.mutex_free(free);
    assert_eq!(closed_by(&mut sched, processes[1], free), None);
}
