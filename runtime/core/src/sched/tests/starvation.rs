//! How long a process can be kept waiting: the tests for each row of the table in
//! `docs/book/src/scheduling.md`.
//!
//! - equals: `behind_n_equals_a_process_runs_after_n_slices_despite_newcomers`
//! - processes with a deficit: `a_skipped_process_pays_once_per_round`,
//!   `a_process_without_a_deficit_continues_if_all_others_have_one`,
//!   `at_most_a_thousand_are_skipped` and `a_process_with_a_raised_priority_is_not_skipped` in
//!   `scheduling`
//! - interrupted processes: `a_process_preempted_by_a_more_urgent_one_stays_at_the_head` in
//!   `scheduling`,
//!   `a_process_that_is_often_interrupted_gives_way_to_equals_at_the_end_of_its_slice` in
//!   `runtime/core/tests/preemption.rs`
//! - less urgent processes: `the_less_urgent_never_run_while_the_more_urgent_can`
//! - processes that have sunk:
//!   `one_that_has_sunk_comes_back_in_bounded_time_beside_equals_that_never_rest` in `decay`
//! - processes that wait for an object:
//!   `behind_n_waiters_a_waiter_is_served_after_n_others_despite_newcomers`
//! - events and barriers: `setting_an_event_wakes_all_waiters_in_order` in `event`,
//!   `all_pass_with_the_last_one_and_only_it_gets_the_value_1` in `barrier`
//! - more urgent processes at an object: `the_more_urgent_pass_a_waiter_again_and_again`
//! - writers: `a_waiting_writer_keeps_later_readers_out_and_is_not_starved` in `rwlock`
//! - readers: `a_reader_waits_for_the_writers_before_it_and_for_none_after_it`
//! - equals without a due time: `a_process_with_a_due_time_keeps_equals_without_one_waiting`
//! - a call that has returned: `a_call_that_has_returned_waits_as_one_that_becomes_runnable_does`
//! - equals of processes that yield to each other:
//!   `two_that_yield_to_each_other_keep_their_equals_waiting`
//! - processes that are not preemptible:
//!   `a_process_that_is_not_preemptible_runs_until_it_gives_way` and
//!   `a_more_urgent_process_that_becomes_due_does_not_interrupt_a_cooperative_program` in
//!   `runtime/core/tests/preemption.rs`
//! - critical sections: `no_other_process_runs_during_a_critical_section` and
//!   `processes_that_became_runnable_meanwhile_run_after_the_section` in `critical`

use super::*;
use crate::sched::{CarrierId, Preemption, State};

const N: usize = 7;

/// Ends the slice of the current process.
fn end_slice(sched: &mut Scheduler<()>) -> Next {
    sched.preempt_current(Preemption::SliceExpired)
}

#[test]
fn behind_n_equals_a_process_runs_after_n_slices_despite_newcomers() {
    let mut sched = sched();
    spawn_running(&mut sched);
    (1..N).for_each(|_| _ = spawn(&mut sched));
    let last = spawn(&mut sched);
    let mut slices = 0;
    while sched.current() != Some(last) {
        spawn(&mut sched);
        let _ = end_slice(&mut sched);
        slices += 1;
    }
    assert_eq!(slices, N);
}

#[test]
fn the_less_urgent_never_run_while_the_more_urgent_can() {
    let mut sched = sched();
    let humble = spawn_at(&mut sched, 39);
    let [a, b] = [0; 2].map(|_| spawn(&mut sched));
    let _ = sched.schedule();
    for _ in 0..length(1000, 100) {
        let _ = end_slice(&mut sched);
        assert_ne!(sched.current(), Some(humble));
    }
    end(&mut sched, a);
    end(&mut sched, b);
    assert_eq!(sched.schedule(), Next::Other(humble));
}

/// An object: how to wait for it, and how to serve one waiter.
type Object = (
    Box<dyn Fn(&mut Scheduler<()>)>,
    Box<dyn Fn(&mut Scheduler<()>)>,
);

fn blocks(attempt: Attempt) {
    assert_eq!(attempt, Attempt::Blocked);
}

/// A mutex that another process owns.
fn mutex_of_another(owned: crate::sched::MutexId) -> Object {
    (
        Box::new(move |k| {
            blocks(
                k.mutex_lock(owned, Deadline::Never)
                    .expect("it has another owner"),
            )
        }),
        Box::new(move |k| {
            let (me, owner) = (
                k.current(),
                k.mutex_owner(owned).expect("it is handed over"),
            );
            run(k, owner);
            k.mutex_unlock(owned).expect("it is the owner's");
            me.into_iter().for_each(|me| run(k, me));
        }),
    )
}

/// Objects that serve one process at a time, in a state in which all must wait.
fn objects(sched: &mut Scheduler<()>) -> Vec<(&'static str, Object)> {
    let (semaphore, queue) = (sched.semaphore_new(0), sched.wait_queue_new());
    let (mutex, owned) = (sched.mutex_new(), sched.mutex_new());
    let (condition, full, empty) = (
        sched.condition_new(),
        sched.channel_new(1),
        sched.channel_new(0),
    );
    let never = Deadline::Never;
    spawn_running(sched);
    let _ = sched.mutex_lock(owned, never);
    let _ = sched.channel_send(full, 0, never);
    vec![
        (
            "a semaphore",
            (
                Box::new(move |k| blocks(k.semaphore_wait(semaphore, never))),
                Box::new(move |k| assert_eq!(k.semaphore_signal(semaphore, 1), 1)),
            ),
        ),
        ("a mutex", mutex_of_another(owned)),
        (
            "a condition",
            (
                Box::new(move |k| {
                    let _ = k.mutex_lock(mutex, never).expect("it is free");
                    blocks(
                        k.condition_wait(condition, mutex, never)
                            .expect("it is the owner"),
                    );
                }),
                Box::new(move |k| {
                    assert!(k.condition_signal(condition));
                    // The woken process holds the mutex, and would unlock it when it runs.
                    let (me, owner) = (
                        k.current(),
                        k.mutex_owner(mutex).expect("it is handed over"),
                    );
                    run(k, owner);
                    k.mutex_unlock(mutex).expect("it is the owner's");
                    me.into_iter().for_each(|me| run(k, me));
                }),
            ),
        ),
        (
            "the receivers of a channel",
            (
                Box::new(move |k| blocks(k.channel_receive(empty, never))),
                Box::new(move |k| {
                    assert!(matches!(k.channel_send(empty, 0, never), Attempt::Ready(_)))
                }),
            ),
        ),
        (
            "the senders of a channel",
            (
                Box::new(move |k| blocks(k.channel_send(full, 0, never))),
                Box::new(move |k| {
                    assert!(matches!(k.channel_receive(full, never), Attempt::Ready(_)))
                }),
            ),
        ),
        (
            "a queue",
            (
                Box::new(move |k| blocks(k.wait(queue, never))),
                Box::new(move |k| assert!(k.wake_one(queue, WakeReason::Done, 0).is_some())),
            ),
        ),
    ]
}

/// Spawns a process of `level` that waits for an object. The current process is the same
/// afterwards.
fn waiter(sched: &mut Scheduler<()>, level: u8, wait: &dyn Fn(&mut Scheduler<()>)) -> ProcessId {
    let server = sched.current();
    let pid = spawn_at(sched, level);
    run(sched, pid);
    wait(sched);
    assert_eq!(sched.state(pid), State::Waiting);
    server.into_iter().for_each(|server| run(sched, server));
    pid
}

#[test]
fn behind_n_waiters_a_waiter_is_served_after_n_others_despite_newcomers() {
    for object in 0..6 {
        let mut sched = sched();
        let (what, (wait, serve)) = objects(&mut sched).swap_remove(object);
        let all: Vec<_> = (0..=N).map(|_| waiter(&mut sched, 40, &wait)).collect();
        for (number, &served) in all.iter().enumerate() {
            waiter(&mut sched, 40, &wait);
            serve(&mut sched);
            assert_ne!(sched.state(served), State::Waiting, "{what}: turn {number}");
            for &other in &all[number + 1..] {
                assert_eq!(sched.state(other), State::Waiting, "{what}: turn {number}");
            }
        }
    }
}

#[test]
fn the_more_urgent_pass_a_waiter_again_and_again() {
    for object in 0..6 {
        let mut sched = sched();
        let (what, (wait, serve)) = objects(&mut sched).swap_remove(object);
        let humble = waiter(&mut sched, 40, &wait);
        for _ in 0..50 {
            let urgent = waiter(&mut sched, 41, &wait);
            serve(&mut sched);
            assert_ne!(sched.state(urgent), State::Waiting, "{what}");
            assert_eq!(sched.state(humble), State::Waiting, "{what}");
        }
        serve(&mut sched);
        assert_ne!(sched.state(humble), State::Waiting, "{what}");
    }
}

#[test]
fn a_reader_waits_for_the_writers_before_it_and_for_none_after_it() {
    let mut sched = sched();
    let lock = sched.rwlock_new();
    let write = |sched: &mut Scheduler<()>| {
        sched
            .rwlock_write(lock, Deadline::Never)
            .expect("it is outside")
    };
    let wait_to_write = |sched: &mut Scheduler<()>| blocks(write(sched));
    let wait_to_read = |sched: &mut Scheduler<()>| {
        blocks(
            sched
                .rwlock_read(lock, Deadline::Never)
                .expect("it is outside"),
        )
    };
    let inside = spawn_running(&mut sched);
    let _ = write(&mut sched);
    let before = waiter(&mut sched, 40, &wait_to_write);
    let reader = waiter(&mut sched, 40, &wait_to_read);
    let after = waiter(&mut sched, 40, &wait_to_write);
    for writer in [inside, before] {
        assert_eq!(sched.state(reader), State::Waiting);
        run(&mut sched, writer);
        sched.rwlock_unlock(lock).expect("it is inside");
    }
    assert_eq!(sched.rwlock_holders(lock), (1, false));
    assert_ne!(sched.state(reader), State::Waiting);
    assert_eq!(sched.state(after), State::Waiting);
}

#[test]
fn a_process_with_a_due_time_keeps_equals_without_one_waiting() {
    let mut sched = sched();
    let plain = spawn(&mut sched);
    let pressed = spawn(&mut sched);
    assert!(sched.set_due_time(pressed, Some(at(1_000_000))));
    run(&mut sched, pressed);
    for _ in 0..length(1000, 100) {
        assert_eq!(end_slice(&mut sched), Next::Same);
        assert_eq!(sched.yield_current(), Next::Same);
    }
    // Until it has no due time any more, or waits.
    assert!(sched.set_due_time(pressed, None));
    assert_eq!(end_slice(&mut sched), Next::Other(plain));
}

#[test]
fn a_call_that_has_returned_waits_as_one_that_becomes_runnable_does() {
    let mut sched = sched();
    let out = spawn_running(&mut sched);
    let equals = [0; N].map(|_| spawn(&mut sched));
    assert!(sched.begin_foreign(out, CarrierId(1)));
    assert_eq!(sched.schedule(), Next::Other(equals[0]));
    assert!(sched.end_foreign(out));
    for &next in &equals[1..] {
        assert_eq!(end_slice(&mut sched), Next::Other(next));
    }
    assert_eq!(end_slice(&mut sched), Next::Other(out));
}

#[test]
fn two_that_yield_to_each_other_keep_their_equals_waiting() {
    let mut sched = sched();
    let a = spawn_running(&mut sched);
    let [b, passed_over] = [0; 2].map(|_| spawn(&mut sched));
    for _ in 0..length(500, 50) {
        assert_eq!(sched.yield_to(b), Next::Other(b));
        assert_eq!(sched.yield_to(a), Next::Other(a));
    }
    // Until one of them does something else.
    assert_eq!(sched.yield_current(), Next::Other(passed_over));
}
