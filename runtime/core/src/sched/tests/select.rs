//! Select.

use super::invariants::check;
use super::*;
use crate::sched::{Blocker, Case, ChannelId, Edition, Readiness, Watch};

fn channels<const N: usize>(sched: &mut Scheduler<()>, capacity: usize) -> [ChannelId; N] {
    [0; N].map(|_| sched.channel_new(capacity))
}

fn selecting(sched: &mut Scheduler<()>, cases: &[Case]) -> ProcessId {
    let pid = spawn_running(sched);
    assert_blocked(sched.select(cases, Deadline::Never, 0));
    pid
}

fn send(sched: &mut Scheduler<()>, channel: ChannelId, value: u64) -> WakeReason {
    reason(sched.channel_send(channel, value, Deadline::Now))
}

#[test]
fn the_case_that_is_ready_is_completed() {
    let mut sched = sched();
    let [a, b] = channels(&mut sched, 1);
    spawn_running(&mut sched);
    assert_eq!(send(&mut sched, b, 9), WakeReason::Done);
    let cases = [Case::Receive(a), Case::Receive(b)];
    let wake = Wake {
        reason: WakeReason::Done,
        case: 1,
        value: 9,
    };
    assert_eq!(
        sched.select(&cases, Deadline::Never, 12345),
        Attempt::Ready(wake)
    );
    assert_eq!(
        reason(sched.select(&cases, Deadline::Now, 0)),
        WakeReason::TimedOut
    );
}

#[test]
fn each_of_the_ready_cases_has_its_chance() {
    let mut sched = sched();
    let [empty, a, b] = channels(&mut sched, 1);
    spawn_running(&mut sched);
    let cases = [Case::Send(a, 1), Case::Receive(empty), Case::Send(b, 2)];
    for (random, expected) in [(0, 0), (1, 2), (2, 0), (7, 2)] {
        let attempt = sched.select(&cases, Deadline::Now, random);
        let wake = Wake {
            reason: WakeReason::Done,
            case: expected,
            value: 0,
        };
        assert_eq!(attempt, Attempt::Ready(wake));
        for channel in [a, b] {
            let _ = sched.channel_receive(channel, Deadline::Now);
        }
    }
}

#[test]
fn a_waiting_select_completes_only_the_first_case_to_be_ready() {
    let mut sched = sched();
    let [a, b, c] = channels(&mut sched, 0);
    let cases = [Case::Receive(a), Case::Send(b, 5), Case::Receive(c)];
    let pid = selecting(&mut sched, &cases);
    assert_eq!(sched.blocker(pid), Some(Blocker::Select(3)));
    spawn_running(&mut sched);
    assert_eq!(send(&mut sched, c, 7), WakeReason::Done);
    assert_eq!(send(&mut sched, a, 8), WakeReason::TimedOut);
    let nothing = sched.channel_receive(b, Deadline::Now);
    assert_eq!(reason(nothing), WakeReason::TimedOut);
    let wake = resume_with(&mut sched, pid);
    assert_eq!(
        wake,
        Wake {
            reason: WakeReason::Done,
            case: 2,
            value: 7
        }
    );
}

#[test]
fn a_waiting_send_case_is_received_once() {
    let mut sched = sched();
    let [a, b] = channels(&mut sched, 0);
    let pid = selecting(&mut sched, &[Case::Receive(a), Case::Send(b, 5)]);
    spawn_running(&mut sched);
    let wake = Wake {
        reason: WakeReason::Done,
        case: 0,
        value: 5,
    };
    assert_eq!(
        sched.channel_receive(b, Deadline::Now),
        Attempt::Ready(wake)
    );
    let again = sched.channel_receive(b, Deadline::Now);
    assert_eq!(reason(again), WakeReason::TimedOut);
    let wake = resume_with(&mut sched, pid);
    assert_eq!(
        wake,
        Wake {
            reason: WakeReason::Done,
            case: 1,
            value: 0
        }
    );
}

#[test]
fn a_select_never_meets_itself() {
    let mut sched = sched();
    let [a] = channels(&mut sched, 0);
    let cases = [
        Case::Send(a, 1),
        Case::Receive(a),
        Case::Receive(a),
        Case::Send(a, 2),
    ];
    let first = selecting(&mut sched, &cases);
    let second = spawn_running(&mut sched);
    let Attempt::Ready(wake) = sched.select(&cases, Deadline::Never, 1) else {
        panic!("two selects on one channel meet");
    };
    assert_eq!(
        (wake.reason, wake.case, wake.value),
        (WakeReason::Done, 1, 1)
    );
    let other = resume_with(&mut sched, first);
    assert_eq!((other.reason, other.case), (WakeReason::Done, 0));
    run(&mut sched, second);
    assert_eq!(
        send(&mut sched, a, 3),
        WakeReason::TimedOut,
        "no process waits any more"
    );
}

#[test]
fn a_closed_channel_is_a_ready_case() {
    let mut sched = sched();
    let [a, b] = channels(&mut sched, 0);
    let pid = selecting(&mut sched, &[Case::Receive(a), Case::Send(b, 1)]);
    sched.channel_close(b);
    let wake = resume_with(&mut sched, pid);
    assert_eq!(
        wake,
        Wake {
            reason: WakeReason::Closed,
            case: 1,
            value: 0
        }
    );
    let attempt = sched.select(&[Case::Receive(a), Case::Receive(b)], Deadline::Never, 0);
    let wake = Wake {
        reason: WakeReason::Closed,
        case: 1,
        value: 0,
    };
    assert_eq!(attempt, Attempt::Ready(wake));
}

#[test]
fn a_select_times_out_and_waits_nowhere_any_more() {
    let mut sched = sched();
    let [a, b] = channels(&mut sched, 0);
    let pid = spawn_running(&mut sched);
    let cases = [Case::Receive(a), Case::Receive(b)];
    assert_blocked(sched.select(&cases, until(5), 0));
    sched.expire(at(5));
    assert_eq!(resume_with(&mut sched, pid).reason, WakeReason::TimedOut);
    assert_eq!(send(&mut sched, a, 1), WakeReason::TimedOut);
    assert_eq!(send(&mut sched, b, 1), WakeReason::TimedOut);
}

#[test]
fn without_any_case_only_the_deadline_ends_it() {
    let mut sched = sched();
    let pid = spawn_running(&mut sched);
    assert_eq!(
        reason(sched.select(&[], Deadline::Now, 0)),
        WakeReason::TimedOut
    );
    assert_blocked(sched.select(&[], until(5), 0));
    assert_eq!(sched.blocker(pid), Some(Blocker::Select(0)));
    sched.expire(at(5));
    assert_eq!(resume_with(&mut sched, pid).reason, WakeReason::TimedOut);
}

#[test]
fn the_end_of_a_process_is_a_case() {
    let mut sched = sched();
    let [channel] = channels(&mut sched, 0);
    let target = spawn(&mut sched);
    let pid = selecting(&mut sched, &[Case::Receive(channel), Case::Join(target)]);
    assert_eq!(
        sched.joiner_count(target),
        1,
        "a failure of the process is no news to print"
    );
    end(&mut sched, target);
    let wake = resume_with(&mut sched, pid);
    assert_eq!((wake.reason, wake.case), (WakeReason::Done, 1));
    let wake = sched.select(
        &[Case::Receive(channel), Case::Join(target)],
        Deadline::Never,
        0,
    );
    assert!(
        matches!(wake, Attempt::Ready(wake) if wake.case == 1 && wake.reason == WakeReason::Done)
    );
}

#[test]
fn an_event_a_semaphore_and_an_alarm_are_cases() {
    let mut sched = sched();
    let (event, semaphore, alarm) = (
        sched.event_new(),
        sched.semaphore_new(0),
        sched.alarm_new(at(50)),
    );
    let cases = [
        Case::Event(event),
        Case::Semaphore(semaphore),
        Case::Alarm(alarm),
    ];
    for expected in 0..3 {
        let pid = selecting(&mut sched, &cases);
        match expected {
            0 => assert_eq!(sched.event_set(event), 1),
            1 => assert_eq!(sched.semaphore_signal(semaphore, 1), 1),
            _ => assert_eq!(sched.expire(at(50)), 1),
        }
        check(&sched);
        let wake = resume_with(&mut sched, pid);
        assert_eq!((wake.reason, wake.case), (WakeReason::Done, expected));
        assert_eq!(
            sched.semaphore_count(semaphore),
            0,
            "the unit was taken, and only once"
        );
        sched.event_clear(event);
        end(&mut sched, pid);
    }
}

#[test]
fn a_semaphore_that_another_case_was_ready_beside_keeps_its_unit() {
    let mut sched = sched();
    let (event, semaphore) = (sched.event_new(), sched.semaphore_new(1));
    sched.event_set(event);
    spawn_running(&mut sched);
    let cases = [Case::Event(event), Case::Semaphore(semaphore)];
    for (random, left) in [(0, 1), (1, 0)] {
        let Attempt::Ready(wake) = sched.select(&cases, Deadline::Now, random) else {
            panic!("both are ready");
        };
        assert_eq!(u64::from(wake.case), random);
        assert_eq!(sched.semaphore_count(semaphore), left);
    }
}

#[test]
fn a_mutex_is_locked_by_the_select_that_chooses_it() {
    let mut sched = sched();
    let (free, held) = (sched.mutex_new(), sched.mutex_new());
    let owner = spawn_running(&mut sched);
    assert!(sched.mutex_lock(held, Deadline::Now).is_ok());
    let pid = selecting(&mut sched, &[Case::Mutex(held), Case::Mutex(held)]);
    run(&mut sched, owner);
    assert!(sched.mutex_unlock(held).is_ok());
    check(&sched);
    assert_eq!(sched.mutex_owner(held), Some(pid));
    assert_eq!(resume_with(&mut sched, pid).reason, WakeReason::Done);
    let recursive = sched.select(&[Case::Mutex(free), Case::Mutex(held)], Deadline::Never, 0);
    let is_dead = |wake: Wake| wake.reason == WakeReason::Dead && wake.case == 1;
    assert!(matches!(recursive, Attempt::Ready(wake) if is_dead(wake)));
    assert_eq!(sched.mutex_owner(free), None, "nothing has happened");
    assert_eq!(
        reason(sched.select(&[Case::Mutex(free)], Deadline::Now, 0)),
        WakeReason::Done
    );
    assert_eq!(sched.mutex_owner(free), Some(pid));
}

#[test]
fn a_mutex_whose_owner_died_is_locked_as_abandoned() {
    let mut sched = sched();
    let (event, mutex) = (sched.event_new(), sched.mutex_new());
    let owner = spawn_running(&mut sched);
    assert!(sched.mutex_lock(mutex, Deadline::Now).is_ok());
    let pid = selecting(&mut sched, &[Case::Event(event), Case::Mutex(mutex)]);
    end(&mut sched, owner);
    let wake = resume_with(&mut sched, pid);
    assert_eq!((wake.reason, wake.case), (WakeReason::Abandoned, 1));
}

#[test]
fn a_select_lends_its_priority_to_the_owners_of_all_its_mutexes() {
    let mut sched = sched();
    let mutexes = [0; 2].map(|_| sched.mutex_new());
    let inner = sched.mutex_new();
    let last = spawn_running(&mut sched);
    assert!(sched.mutex_lock(inner, Deadline::Now).is_ok());
    let owners = mutexes.map(|mutex| {
        let owner = spawn_running(&mut sched);
        assert!(sched.mutex_lock(mutex, Deadline::Now).is_ok());
        owner
    });
    run(&mut sched, owners[1]);
    assert_eq!(
        sched.mutex_lock(inner, Deadline::Never),
        Ok(Attempt::Blocked)
    );
    let urgent = spawn_at(&mut sched, 60);
    run(&mut sched, urgent);
    assert_blocked(sched.select(&mutexes.map(Case::Mutex), until(5), 0));
    check(&sched);
    for pid in [owners[0], owners[1], last] {
        assert_eq!(sched.effective_priority(pid), priority(60));
    }
    sched.set_priority(urgent, priority(70));
    check(&sched);
    assert_eq!(sched.effective_priority(last), priority(70));
    sched.expire(at(5));
    check(&sched);
    for pid in [owners[0], owners[1], last] {
        assert_eq!(
            sched.effective_priority(pid),
            priority(40),
            "no process waits any more"
        );
    }
}

#[test]
fn a_case_that_is_freed_during_a_select_is_closed() {
    let mut sched = sched();
    let (event, semaphore) = (sched.event_new(), sched.semaphore_new(0));
    let (mutex, alarm) = (sched.mutex_new(), sched.alarm_new(at(9)));
    let owner = spawn_running(&mut sched);
    assert!(sched.mutex_lock(mutex, Deadline::Now).is_ok());
    let cases = [
        Case::Event(event),
        Case::Semaphore(semaphore),
        Case::Mutex(mutex),
        Case::Alarm(alarm),
    ];
    let waiting =
        cases.map(|case| selecting(&mut sched, &[Case::Descriptor(watch(3), Edition(0)), case]));
    assert!(sched.event_free(event) && sched.semaphore_free(semaphore));
    assert!(sched.mutex_free(mutex) && sched.alarm_free(alarm));
    for pid in waiting {
        let wake = resume_with(&mut sched, pid);
        assert_eq!((wake.reason, wake.case), (WakeReason::Closed, 1));
    }
    run(&mut sched, owner);
    for case in cases {
        let wake = sched.select(&[case], Deadline::Never, 0);
        assert_eq!(reason(wake), WakeReason::Closed);
    }
    check(&sched);
}

fn watch(descriptor: u32) -> Watch {
    Watch {
        descriptor,
        wants: Readiness::READ,
    }
}

#[test]
fn a_descriptor_is_a_case_that_becomes_ready_or_is_closed() {
    let mut sched = sched();
    let [channel] = channels(&mut sched, 0);
    let cases = [
        Case::Receive(channel),
        Case::Descriptor(watch(4), Edition(2)),
    ];
    let pid = selecting(&mut sched, &cases);
    assert_eq!(sched.blocker(pid), Some(Blocker::Select(2)));
    assert_eq!(sched.descriptor_is_ready(4, Readiness::READ), 1);
    let wake = resume_with(&mut sched, pid);
    assert_eq!(
        (wake.reason, wake.case, wake.value),
        (WakeReason::Done, 1, 1)
    );
    assert_blocked(sched.select(&cases, Deadline::Never, 0));
    assert_eq!(sched.descriptor_closes(4, Edition(2)), 1);
    let wake = resume_with(&mut sched, pid);
    assert_eq!((wake.reason, wake.case), (WakeReason::Closed, 1));
    assert_blocked(sched.select(&cases, Deadline::Never, 0));
    let _ = sched.kill(pid);
    assert_eq!(resume_with(&mut sched, pid).reason, WakeReason::Killed);
    assert_eq!(sched.watching(), 0);
    check(&sched);
}

#[test]
fn a_case_that_the_caller_found_ready_is_among_the_ready_ones() {
    let mut sched = sched();
    let semaphore = sched.semaphore_new(1);
    spawn_running(&mut sched);
    let cases = [
        Case::Semaphore(semaphore),
        Case::Ready(WakeReason::Closed, 3),
    ];
    let expected = Wake {
        reason: WakeReason::Closed,
        case: 1,
        value: 3,
    };
    assert_eq!(
        sched.select(&cases, Deadline::Never, 1),
        Attempt::Ready(expected)
    );
    assert_eq!(sched.semaphore_count(semaphore), 1);
}

#[test]
fn an_alarm_stays_gone_off_until_it_is_set_again_and_a_cancelled_one_never_goes_off() {
    let mut sched = sched();
    let alarm = sched.alarm_new(at(5));
    assert_eq!(
        sched.pending_timers(),
        0,
        "it does not hold up the program's end"
    );
    sched.expire(at(5));
    spawn_running(&mut sched);
    for _ in 0..2 {
        assert_eq!(
            reason(sched.alarm_wait(alarm, Deadline::Never)),
            WakeReason::Done
        );
    }
    assert!(!sched.alarm_cancel(alarm), "it has gone off");
    sched.alarm_set(alarm, at(9));
    assert!(!sched.alarm_has_gone_off(alarm));
    assert!(sched.alarm_cancel(alarm));
    sched.expire(at(20));
    assert_eq!(
        reason(sched.alarm_wait(alarm, Deadline::Now)),
        WakeReason::TimedOut
    );
    sched.alarm_set(alarm, at(30));
    assert!(sched.alarm_free(alarm));
    assert_eq!(sched.next_deadline(), None);
    assert!(!sched.alarm_free(alarm));
    check(&sched);
}
