//! Select.

use super::*;
use crate::kernel::{Blocker, Case, ChannelId};

fn channels<const N: usize>(kernel: &mut Kernel<()>, capacity: usize) -> [ChannelId; N] {
    [0; N].map(|_| kernel.channel_new(capacity))
}

fn selecting(kernel: &mut Kernel<()>, cases: &[Case]) -> ProcessId {
    let pid = spawn_running(kernel);
    assert_blocked(kernel.select(cases, Deadline::Never, 0));
    pid
}

fn send(kernel: &mut Kernel<()>, channel: ChannelId, value: u64) -> WakeReason {
    reason(kernel.channel_send(channel, value, Deadline::Now))
}

#[test]
fn the_case_that_is_ready_is_completed() {
    let mut kernel = kernel();
    let [a, b] = channels(&mut kernel, 1);
    spawn_running(&mut kernel);
    assert_eq!(send(&mut kernel, b, 9), WakeReason::Done);
    let cases = [Case::Receive(a), Case::Receive(b)];
    let wake = Wake {
        reason: WakeReason::Done,
        case: 1,
        value: 9,
    };
    assert_eq!(kernel.select(&cases, Deadline::Never, 12345), Attempt::Ready(wake));
    assert_eq!(reason(kernel.select(&cases, Deadline::Now, 0)), WakeReason::TimedOut);
}

#[test]
fn each_of_the_ready_cases_has_its_chance() {
    let mut kernel = kernel();
    let [empty, a, b] = channels(&mut kernel, 1);
    spawn_running(&mut kernel);
    let cases = [Case::Send(a, 1), Case::Receive(empty), Case::Send(b, 2)];
    for (random, expected) in [(0, 0), (1, 2), (2, 0), (7, 2)] {
        let attempt = kernel.select(&cases, Deadline::Now, random);
        let wake = Wake {
            reason: WakeReason::Done,
            case: expected,
            value: 0,
        };
        assert_eq!(attempt, Attempt::Ready(wake));
        for channel in [a, b] {
            let _ = kernel.channel_receive(channel, Deadline::Now);
        }
    }
}

#[test]
fn one_that_waits_completes_the_first_case_to_be_ready_and_no_other() {
    let mut kernel = kernel();
    let [a, b, c] = channels(&mut kernel, 0);
    let cases = [Case::Receive(a), Case::Send(b, 5), Case::Receive(c)];
    let pid = selecting(&mut kernel, &cases);
    assert_eq!(kernel.blocker(pid), Some(Blocker::Select(3)));
    spawn_running(&mut kernel);
    assert_eq!(send(&mut kernel, c, 7), WakeReason::Done);
    assert_eq!(send(&mut kernel, a, 8), WakeReason::TimedOut);
    let nothing = kernel.channel_receive(b, Deadline::Now);
    assert_eq!(reason(nothing), WakeReason::TimedOut);
    let wake = resume_with(&mut kernel, pid);
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
    let mut kernel = kernel();
    let [a, b] = channels(&mut kernel, 0);
    let pid = selecting(&mut kernel, &[Case::Receive(a), Case::Send(b, 5)]);
    spawn_running(&mut kernel);
    let wake = Wake {
        reason: WakeReason::Done,
        case: 0,
        value: 5,
    };
    assert_eq!(kernel.channel_receive(b, Deadline::Now), Attempt::Ready(wake));
    let again = kernel.channel_receive(b, Deadline::Now);
    assert_eq!(reason(again), WakeReason::TimedOut);
    let wake = resume_with(&mut kernel, pid);
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
    let mut kernel = kernel();
    let [a] = channels(&mut kernel, 0);
    let cases = [Case::Send(a, 1), Case::Receive(a), Case::Receive(a), Case::Send(a, 2)];
    let first = selecting(&mut kernel, &cases);
    let second = spawn_running(&mut kernel);
    let Attempt::Ready(wake) = kernel.select(&cases, Deadline::Never, 1) else {
        panic!("two selects on one channel meet");
    };
    assert_eq!((wake.reason, wake.case, wake.value), (WakeReason::Done, 1, 1));
    let other = resume_with(&mut kernel, first);
    assert_eq!((other.reason, other.case), (WakeReason::Done, 0));
    run(&mut kernel, second);
    assert_eq!(send(&mut kernel, a, 3), WakeReason::TimedOut, "nobody waits any more");
}

#[test]
fn a_closed_channel_is_a_ready_case() {
    let mut kernel = kernel();
    let [a, b] = channels(&mut kernel, 0);
    let pid = selecting(&mut kernel, &[Case::Receive(a), Case::Send(b, 1)]);
    kernel.channel_close(b);
    let wake = resume_with(&mut kernel, pid);
    assert_eq!(
        wake,
        Wake {
            reason: WakeReason::Closed,
            case: 1,
            value: 0
        }
    );
    let attempt = kernel.select(&[Case::Receive(a), Case::Receive(b)], Deadline::Never, 0);
    let wake = Wake {
        reason: WakeReason::Closed,
        case: 1,
        value: 0,
    };
    assert_eq!(attempt, Attempt::Ready(wake));
}

#[test]
fn a_select_times_out_and_waits_nowhere_any_more() {
    let mut kernel = kernel();
    let [a, b] = channels(&mut kernel, 0);
    let pid = spawn_running(&mut kernel);
    let cases = [Case::Receive(a), Case::Receive(b)];
    assert_blocked(kernel.select(&cases, until(5), 0));
    kernel.expire(at(5));
    assert_eq!(resume_with(&mut kernel, pid).reason, WakeReason::TimedOut);
    assert_eq!(send(&mut kernel, a, 1), WakeReason::TimedOut);
    assert_eq!(send(&mut kernel, b, 1), WakeReason::TimedOut);
}

#[test]
fn without_any_case_only_the_deadline_ends_it() {
    let mut kernel = kernel();
    let pid = spawn_running(&mut kernel);
    assert_eq!(reason(kernel.select(&[], Deadline::Now, 0)), WakeReason::TimedOut);
    assert_blocked(kernel.select(&[], until(5), 0));
    assert_eq!(kernel.blocker(pid), Some(Blocker::Select(0)));
    kernel.expire(at(5));
    assert_eq!(resume_with(&mut kernel, pid).reason, WakeReason::TimedOut);
}
