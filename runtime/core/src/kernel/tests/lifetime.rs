//! Processes begin, end, and are forgotten.

use super::*;
use crate::kernel::{ProcessLimit, State};

#[test]
fn ids_survive_the_way_through_a_word() {
    let mut kernel = kernel();
    let pid = spawn(&mut kernel);
    assert_eq!(ProcessId::from_bits(pid.to_bits()), Some(pid));
    assert_eq!(ProcessId::from_bits(0), None);
    let semaphore = kernel.semaphore_new(0);
    let bits = semaphore.to_bits();
    assert_eq!(crate::kernel::SemaphoreId::from_bits(bits), Some(semaphore));
    assert_eq!(crate::kernel::SemaphoreId::from_bits(7), None);
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
    let mut kernel = Kernel::new(2);
    let a = spawn(&mut kernel);
    spawn(&mut kernel);
    let refused = kernel.spawn(SpawnOptions::default(), ());
    assert_eq!(refused, Err(ProcessLimit { limit: 2 }));
    end(&mut kernel, a);
    assert!(kernel.spawn(SpawnOptions::default(), ()).is_err());
    assert!(kernel.forget(a));
    assert!(kernel.spawn(SpawnOptions::default(), ()).is_ok());
}

#[test]
fn the_limits_message_names_the_limit() {
    let message = ProcessLimit { limit: 12 }.to_string();
    assert_eq!(message, "too many processes (the limit is 12)");
}

#[test]
fn a_forgotten_slot_is_used_again_and_its_old_id_is_dead() {
    let mut kernel = kernel();
    let old = spawn(&mut kernel);
    end(&mut kernel, old);
    assert_eq!(kernel.state(old), State::Dead);
    assert!(kernel.forget(old));
    assert!(!kernel.forget(old));
    let new = spawn(&mut kernel);
    assert_eq!(new.index(), old.index());
    assert_ne!(new.generation(), old.generation());
    assert_eq!(kernel.state(old), State::Dead);
    assert_eq!(kernel.state(new), State::Runnable);
    assert_eq!(kernel.payload(old), None);
    assert_eq!(kernel.payload(new), Some(&()));
}

#[test]
fn a_living_process_is_not_forgotten() {
    let mut kernel = kernel();
    let pid = spawn(&mut kernel);
    assert!(!kernel.forget(pid));
    assert!(kernel.is_alive(pid));
}

#[test]
fn the_payload_can_be_taken_from_a_dead_process() {
    let mut kernel = Kernel::new(10);
    let pid = kernel.spawn(SpawnOptions::default(), String::from("stack")).unwrap();
    if let Some(payload) = kernel.payload_mut(pid) {
        payload.push_str(" 1");
    }
    assert_eq!(kernel.schedule(), Next::Other(pid));
    kernel.exit_current();
    assert_eq!(kernel.take_payload(pid).as_deref(), Some("stack 1"));
    assert_eq!(kernel.take_payload(pid), None);
}

#[test]
fn options_are_kept_and_can_be_asked_for() {
    let mut kernel = kernel();
    let options = SpawnOptions {
        preemptible: false,
        daemon: true,
        quiet: true,
        guest: 77,
        ..SpawnOptions::default()
    };
    let pid = kernel.spawn(options, ()).unwrap();
    assert!(!kernel.is_preemptible(pid));
    assert!(kernel.is_daemon(pid) && kernel.is_quiet(pid));
    assert_eq!(kernel.guest(pid), 77);
    kernel.set_preemptible(pid, true);
    kernel.set_guest(pid, 78);
    assert!(kernel.is_preemptible(pid));
    assert_eq!(kernel.guest(pid), 78);
    assert!(!kernel.is_started(pid));
    kernel.mark_started(pid);
    assert!(kernel.is_started(pid));
}

#[test]
fn the_living_are_listed_and_counted() {
    let mut kernel = kernel();
    let a = spawn(&mut kernel);
    let daemon = SpawnOptions {
        daemon: true,
        ..SpawnOptions::default()
    };
    let b = kernel.spawn(daemon, ()).unwrap();
    let prepared = kernel.spawn_prepared(SpawnOptions::default(), ()).unwrap();
    assert_eq!(kernel.iter().collect::<Vec<_>>(), [a, b]);
    assert_eq!((kernel.live_count(), kernel.live_non_daemon_count()), (2, 1));
    end(&mut kernel, a);
    assert_eq!(kernel.iter().collect::<Vec<_>>(), [b]);
    assert_eq!((kernel.live_count(), kernel.live_non_daemon_count()), (1, 0));
    assert!(kernel.forget(prepared), "no timer fires it");
    assert_eq!((kernel.counters().spawned, kernel.counters().ended), (2, 1));
}

#[test]
fn every_question_about_a_stale_id_is_answered() {
    let mut kernel = kernel();
    let gone = spawn(&mut kernel);
    end(&mut kernel, gone);
    kernel.forget(gone);
    assert_eq!(kernel.take_wake(gone).reason, WakeReason::Dead);
    assert_eq!(kernel.priority(gone), Priority::DEFAULT);
    assert!(!kernel.set_priority(gone, priority(3)));
    assert_eq!(kernel.blocker(gone), None);
    assert_eq!(kernel.joiner_count(gone), 0);
    assert!(!kernel.begin_foreign(gone, crate::kernel::CarrierId(0)));
    assert!(!kernel.end_foreign(gone));
    kernel.set_pin(gone, Some(crate::kernel::CarrierId(0)));
    kernel.set_kill_hold(gone, true);
    kernel.mark_started(gone);
    assert_eq!(kernel.effective_carrier(gone), None);
    assert_eq!(kernel.kill_count(gone), 0);
    assert_eq!(kernel.schedule(), Next::Nothing);
}

#[test]
fn no_operation_waits_without_a_current_process() {
    let mut kernel = kernel();
    let semaphore = kernel.semaphore_new(1);
    let attempt = kernel.semaphore_wait(semaphore, Deadline::Never);
    assert_eq!(reason(attempt), WakeReason::Dead);
    assert_eq!(reason(kernel.sleep(at(1))), WakeReason::Dead);
    assert_eq!(kernel.exit_current(), None);
    assert_eq!(kernel.semaphore_count(semaphore), 1);
}
