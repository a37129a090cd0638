//! Spawning, ending and forgetting processes.

use super::*;
use crate::sched::{ProcessLimit, State};

#[test]
fn ids_can_be_converted_to_a_word_and_back() {
    let mut sched = sched();
    let pid = spawn(&mut sched);
    assert_eq!(ProcessId::from_bits(pid.to_bits()), Some(pid));
    assert_eq!(ProcessId::from_bits(0), None);
    let semaphore = sched.semaphore_new(0);
    let bits = semaphore.to_bits();
    assert_eq!(crate::sched::SemaphoreId::from_bits(bits), Some(semaphore));
    assert_eq!(crate::sched::SemaphoreId::from_bits(7), None);
}

#[test]
fn a_priority_is_from_1_to_80() {
    assert_eq!(Priority::new(0), None);
    assert_eq!(Priority::new(81), None);
    assert_eq!(Priority::new(1), Some(Priority::LOWEST));
    assert_eq!(Priority::new(80), Some(Priority::HIGHEST));
    assert!(Priority::HIGHEST.is_more_urgent_than(Priority::default()));
    assert!(!Priority::DEFAULT.is_more_urgent_than(Priority::DEFAULT));
}

#[test]
fn the_limit_counts_the_dead_until_they_are_forgotten() {
    let mut sched = Scheduler::new(2);
    let a = spawn(&mut sched);
    spawn(&mut sched);
    let refused = sched.spawn(SpawnOptions::default(), ());
    assert_eq!(refused, Err(ProcessLimit { limit: 2 }));
    end(&mut sched, a);
    assert!(sched.spawn(SpawnOptions::default(), ()).is_err());
    assert!(sched.forget(a));
    assert!(sched.spawn(SpawnOptions::default(), ()).is_ok());
}

#[test]
fn the_limits_message_names_the_limit() {
    let message = ProcessLimit { limit: 12 }.to_string();
    assert_eq!(message, "too many processes (the limit is 12)");
}

#[test]
fn a_forgotten_slot_is_used_again_and_its_old_id_is_dead() {
    let mut sched = sched();
    let old = spawn(&mut sched);
    end(&mut sched, old);
    assert_eq!(sched.state(old), State::Dead);
    assert!(sched.forget(old));
    assert!(!sched.forget(old));
    let new = spawn(&mut sched);
    assert_eq!(new.index(), old.index());
    assert_ne!(new.generation(), old.generation());
    assert_eq!(sched.state(old), State::Dead);
    assert_eq!(sched.state(new), State::Runnable);
    assert_eq!(sched.payload(old), None);
    assert_eq!(sched.payload(new), Some(&()));
}

#[test]
fn a_living_process_is_not_forgotten() {
    let mut sched = sched();
    let pid = spawn(&mut sched);
    assert!(!sched.forget(pid));
    assert!(sched.is_alive(pid));
}

#[test]
fn the_payload_of_a_dead_process_is_kept_until_it_is_forgotten() {
    let mut sched = Scheduler::new(10);
    let pid = sched
        .spawn(SpawnOptions::default(), String::from("stack"))
        .unwrap();
    if let Some(payload) = sched.payload_mut(pid) {
        payload.push_str(" 1");
    }
    assert_eq!(sched.schedule(), Next::Other(pid));
    sched.exit_current();
    assert_eq!(sched.payload(pid).map(String::as_str), Some("stack 1"));
    assert!(sched.forget(pid));
    assert_eq!(sched.payload(pid), None);
}

#[test]
fn options_are_kept_and_can_be_asked_for() {
    let mut sched = sched();
    let options = SpawnOptions {
        preemptible: false,
        daemon: true,
        quiet: true,
        user_data: 77,
        ..SpawnOptions::default()
    };
    let pid = sched.spawn(options, ()).unwrap();
    assert!(!sched.is_preemptible(pid));
    assert!(sched.is_daemon(pid) && sched.is_quiet(pid));
    assert_eq!(sched.user_data(pid), Some(77));
    sched.set_preemptible(pid, true);
    sched.set_user_data(pid, 78);
    assert!(sched.is_preemptible(pid));
    assert_eq!(sched.user_data(pid), Some(78));
    assert!(!sched.is_started(pid));
    sched.mark_started(pid);
    assert!(sched.is_started(pid));
}

#[test]
fn the_living_are_listed_and_counted() {
    let mut sched = sched();
    let a = spawn(&mut sched);
    let daemon = SpawnOptions {
        daemon: true,
        ..SpawnOptions::default()
    };
    let b = sched.spawn(daemon, ()).unwrap();
    let prepared = sched.spawn_prepared(SpawnOptions::default(), ()).unwrap();
    assert_eq!(sched.iter().collect::<Vec<_>>(), [a, b]);
    assert_eq!((sched.live_count(), sched.live_non_daemon_count()), (2, 1));
    end(&mut sched, a);
    assert_eq!(sched.iter().collect::<Vec<_>>(), [b]);
    assert_eq!((sched.live_count(), sched.live_non_daemon_count()), (1, 0));
    assert!(sched.forget(prepared), "no timer fires it");
    assert_eq!((sched.counters().spawned, sched.counters().ended), (2, 1));
}

#[test]
fn every_question_about_a_stale_id_is_answered() {
    let mut sched = sched();
    let gone = spawn(&mut sched);
    end(&mut sched, gone);
    sched.forget(gone);
    assert_eq!(sched.take_wake(gone).reason, WakeReason::Dead);
    assert_eq!(sched.priority(gone), Priority::DEFAULT);
    assert!(!sched.set_priority(gone, priority(3)));
    assert_eq!(sched.blocker(gone), None);
    assert_eq!(sched.joiner_count(gone), 0);
    assert!(!sched.begin_foreign(gone, crate::sched::CarrierId(0)));
    assert!(!sched.end_foreign(gone));
    sched.set_pin(gone, Some(crate::sched::CarrierId(0)));
    sched.set_kill_hold(gone, true);
    sched.mark_started(gone);
    assert_eq!(sched.effective_carrier(gone), None);
    assert_eq!(sched.kill_count(gone), 0);
    assert_eq!(sched.schedule(), Next::Nothing);
}

#[test]
fn no_operation_waits_without_a_current_process() {
    let mut sched = sched();
    let semaphore = sched.semaphore_new(1);
    let attempt = sched.semaphore_wait(semaphore, Deadline::Never);
    assert_eq!(reason(attempt), WakeReason::Dead);
    assert_eq!(reason(sched.sleep(at(1))), WakeReason::Dead);
    assert_eq!(sched.exit_current(), None);
    assert_eq!(sched.semaphore_count(semaphore), 1);
}
