//! Channels.

use super::*;
use crate::sched::{Blocker, ChannelId, KillOutcome, State};

fn sending(sched: &mut Scheduler<()>, channel: ChannelId, value: u64) -> ProcessId {
    let pid = spawn_running(sched);
    assert_blocked(sched.channel_send(channel, value, Deadline::Never));
    pid
}

fn receiving(sched: &mut Scheduler<()>, channel: ChannelId) -> ProcessId {
    let pid = spawn_running(sched);
    assert_blocked(sched.channel_receive(channel, Deadline::Never));
    pid
}

fn send(sched: &mut Scheduler<()>, channel: ChannelId, value: u64) -> WakeReason {
    reason(sched.channel_send(channel, value, Deadline::Now))
}

/// The value received at once, or why there was none.
fn receive(sched: &mut Scheduler<()>, channel: ChannelId) -> Result<u64, WakeReason> {
    match sched.channel_receive(channel, Deadline::Now) {
        Attempt::Ready(Wake {
            reason: WakeReason::Done,
            value,
            ..
        }) => Ok(value),
        attempt => Err(reason(attempt)),
    }
}

#[test]
fn values_come_out_in_the_order_in_which_they_went_in() {
    let mut sched = sched();
    let channel = sched.channel_new(3);
    spawn_running(&mut sched);
    for value in 1..=3 {
        assert_eq!(send(&mut sched, channel, value), WakeReason::Done);
    }
    assert_eq!(sched.channel_len(channel), 3);
    assert_eq!(send(&mut sched, channel, 4), WakeReason::TimedOut);
    for value in 1..=3 {
        assert_eq!(receive(&mut sched, channel), Ok(value));
    }
    assert_eq!(receive(&mut sched, channel), Err(WakeReason::TimedOut));
}

#[test]
fn without_a_buffer_a_sender_serves_a_waiting_receiver() {
    let mut sched = sched();
    let channel = sched.channel_new(0);
    let receiver = receiving(&mut sched, channel);
    assert_eq!(sched.blocker(receiver), Some(Blocker::Receive(channel)));
    spawn_running(&mut sched);
    assert_eq!(send(&mut sched, channel, 5), WakeReason::Done);
    assert_eq!(send(&mut sched, channel, 6), WakeReason::TimedOut);
    let wake = resume_with(&mut sched, receiver);
    assert_eq!(
        wake,
        Wake {
            reason: WakeReason::Done,
            case: 0,
            value: 5
        }
    );
}

#[test]
fn without_a_buffer_a_receiver_serves_a_waiting_sender() {
    let mut sched = sched();
    let channel = sched.channel_new(0);
    let sender = sending(&mut sched, channel, 5);
    assert_eq!(sched.blocker(sender), Some(Blocker::Send(channel)));
    assert_eq!(sched.channel_len(channel), 0);
    spawn_running(&mut sched);
    assert_eq!(receive(&mut sched, channel), Ok(5));
    assert_eq!(resume_with(&mut sched, sender).reason, WakeReason::Done);
}

#[test]
fn a_sender_that_waits_goes_on_when_there_is_room_and_its_value_keeps_its_turn() {
    let mut sched = sched();
    let channel = sched.channel_new(1);
    spawn_running(&mut sched);
    assert_eq!(send(&mut sched, channel, 1), WakeReason::Done);
    let sender = sending(&mut sched, channel, 2);
    spawn_running(&mut sched);
    assert_eq!(receive(&mut sched, channel), Ok(1));
    assert_eq!(sched.channel_len(channel), 1);
    assert_eq!(resume_with(&mut sched, sender).reason, WakeReason::Done);
    assert_eq!(receive(&mut sched, channel), Ok(2));
}

#[test]
fn receivers_are_served_in_order() {
    let mut sched = sched();
    let channel = sched.channel_new(4);
    let receivers = [0; 3].map(|_| receiving(&mut sched, channel));
    spawn_running(&mut sched);
    for value in 0..3 {
        assert_eq!(send(&mut sched, channel, value), WakeReason::Done);
    }
    let received = receivers.map(|pid| resume_with(&mut sched, pid).value);
    assert_eq!(received, [0, 1, 2]);
    assert_eq!(sched.channel_len(channel), 0);
}

#[test]
fn a_value_that_was_not_sent_in_time_is_not_received() {
    let mut sched = sched();
    let channel = sched.channel_new(0);
    let sender = spawn_running(&mut sched);
    assert_blocked(sched.channel_send(channel, 1, until(5)));
    sched.expire(at(5));
    assert_eq!(resume_with(&mut sched, sender).reason, WakeReason::TimedOut);
    assert_eq!(receive(&mut sched, channel), Err(WakeReason::TimedOut));
}

#[test]
fn buffered_values_still_arrive_after_a_close() {
    let mut sched = sched();
    let channel = sched.channel_new(2);
    spawn_running(&mut sched);
    assert_eq!(send(&mut sched, channel, 1), WakeReason::Done);
    assert_eq!(send(&mut sched, channel, 2), WakeReason::Done);
    let late = sending(&mut sched, channel, 3);
    assert!(sched.channel_close(channel));
    assert!(!sched.channel_close(channel));
    assert!(sched.channel_is_closed(channel));
    assert_eq!(resume_with(&mut sched, late).reason, WakeReason::Closed);
    assert_eq!(send(&mut sched, channel, 4), WakeReason::Closed);
    assert_eq!(receive(&mut sched, channel), Ok(1));
    assert_eq!(receive(&mut sched, channel), Ok(2));
    assert_eq!(receive(&mut sched, channel), Err(WakeReason::Closed));
}

#[test]
fn a_close_wakes_all_receivers() {
    let mut sched = sched();
    let channel = sched.channel_new(0);
    let receivers = [0; 2].map(|_| receiving(&mut sched, channel));
    assert!(sched.channel_close(channel));
    for pid in receivers {
        assert_eq!(resume_with(&mut sched, pid).reason, WakeReason::Closed);
    }
}

#[test]
fn a_freed_channel_is_closed_and_returns_the_values_left() {
    let mut sched = sched();
    let channel = sched.channel_new(3);
    spawn_running(&mut sched);
    for value in [7, 8] {
        assert_eq!(send(&mut sched, channel, value), WakeReason::Done);
    }
    assert_eq!(sched.channel_free(channel), [7, 8]);
    assert_eq!(sched.channel_free(channel), []);
    assert!(sched.channel_is_closed(channel));
    assert!(!sched.channel_close(channel));
    assert_eq!(sched.channel_len(channel), 0);
    assert_eq!(send(&mut sched, channel, 1), WakeReason::Closed);
    assert_eq!(receive(&mut sched, channel), Err(WakeReason::Closed));
}

#[test]
fn a_huge_capacity_costs_nothing_until_it_is_used() {
    let mut sched = sched();
    let channel = sched.channel_new(usize::MAX);
    spawn_running(&mut sched);
    assert_eq!(send(&mut sched, channel, 1), WakeReason::Done);
    assert_eq!(receive(&mut sched, channel), Ok(1));
}

#[test]
fn a_first_look_at_a_channel_uses_the_buffer_only_if_no_process_waits() {
    let mut sched = sched();
    let channel = sched.channel_new(2);
    assert_unclear(sched.channel_begin_send(channel, 0), "no process runs");
    let receiver = receiving(&mut sched, channel);
    spawn_running(&mut sched);
    let look = sched.channel_begin_send(channel, 1);
    assert!(matches!(look, FirstLook::Wakes(_)), "{look:?}");
    assert_eq!(send(&mut sched, channel, 1), WakeReason::Done);
    assert_eq!(resume_with(&mut sched, receiver).value, 1);
    let look = sched.channel_begin_receive(channel);
    assert!(matches!(look, FirstLook::Waits(_)), "{look:?}");
    assert_eq!(done(sched.channel_begin_send(channel, 2)), Some(0));
    assert_eq!(done(sched.channel_begin_send(channel, 3)), Some(0));
    let look = sched.channel_begin_send(channel, 4);
    assert!(matches!(look, FirstLook::Waits(_)), "{look:?}");
    assert_eq!(done(sched.channel_begin_receive(channel)), Some(2));
    assert_eq!(done(sched.channel_begin_send(channel, 4)), Some(0));
    sending(&mut sched, channel, 5);
    spawn_running(&mut sched);
    assert_unclear(
        sched.channel_begin_receive(channel),
        "a sender waits for the place",
    );
    assert_eq!(receive(&mut sched, channel), Ok(3));
    sched.channel_close(channel);
    assert_eq!(done(sched.channel_begin_receive(channel)), Some(4));
    assert_unclear(sched.channel_begin_send(channel, 6), "it is closed");
    let me = sched.current().expect("it runs");
    assert_eq!(sched.kill(me), KillOutcome::IsCurrent);
    assert_unclear(sched.channel_begin_receive(channel), "it is killed");
    assert_eq!(sched.channel_free(channel), [5]);
}

#[test]
fn a_post_needs_no_room_and_senders_wait_until_there_is() {
    let mut sched = sched();
    let channel = sched.channel_new(1);
    assert!(
        sched.channel_post(channel, 1),
        "no process runs, and none needs to"
    );
    assert!(sched.channel_post(channel, 2));
    let sender = sending(&mut sched, channel, 3);
    spawn_running(&mut sched);
    assert_eq!(receive(&mut sched, channel), Ok(1));
    assert_eq!(
        sched.state(sender),
        State::Waiting,
        "the channel is as full as it may be"
    );
    assert_eq!(receive(&mut sched, channel), Ok(2));
    assert_eq!(sched.state(sender), State::Runnable);
    assert_eq!(receive(&mut sched, channel), Ok(3));
    sched.channel_close(channel);
    assert!(!sched.channel_post(channel, 4), "it is closed");
}

#[test]
fn a_value_given_back_is_the_next_one_again() {
    let mut sched = sched();
    let channel = sched.channel_new(2);
    spawn_running(&mut sched);
    assert!(sched.channel_post(channel, 1));
    assert!(sched.channel_post(channel, 2));
    assert_eq!(receive(&mut sched, channel), Ok(1));
    sched.channel_close(channel);
    sched.channel_give_back(channel, 1);
    assert_eq!(receive(&mut sched, channel), Ok(1));
    assert_eq!(receive(&mut sched, channel), Ok(2));
}

#[test]
fn a_value_given_back_goes_to_a_receiver_that_waits() {
    let mut sched = sched();
    let channel = sched.channel_new(0);
    let receiver = receiving(&mut sched, channel);
    sched.channel_give_back(channel, 7);
    assert_eq!(sched.channel_len(channel), 0);
    assert_eq!(resume_with(&mut sched, receiver).value, 7);
}

#[test]
fn a_post_goes_to_a_receiver_that_waits() {
    let mut sched = sched();
    let channel = sched.channel_new(0);
    let receiver = receiving(&mut sched, channel);
    assert!(sched.channel_post(channel, 7));
    assert_eq!(sched.channel_len(channel), 0);
    assert_eq!(resume_with(&mut sched, receiver).value, 7);
}

#[test]
fn one_value_is_posted_once_until_it_is_received() {
    let mut sched = sched();
    let channel = sched.channel_new(0);
    assert!(sched.channel_post_once(channel, 1));
    assert!(sched.channel_post_once(channel, 2));
    assert!(!sched.channel_post_once(channel, 1));
    spawn_running(&mut sched);
    assert_eq!(receive(&mut sched, channel), Ok(1));
    assert!(sched.channel_post_once(channel, 1));
    assert_eq!(receive(&mut sched, channel), Ok(2));
    assert!(sched.channel_post_once(channel, 2));
    sched.channel_clear(channel);
    assert_eq!(sched.channel_len(channel), 0);
    assert!(sched.channel_post_once(channel, 1));
    assert_eq!(receive(&mut sched, channel), Ok(1));
}

#[test]
fn a_process_that_waits_for_a_value_from_outside_is_no_deadlock() {
    let mut sched = sched();
    let (fed, other) = (sched.channel_new(0), sched.channel_new(0));
    sched.channel_set_fed(fed, true);
    receiving(&mut sched, other);
    let _ = sched.schedule();
    assert!(
        sched.all_blocked(),
        "no process waits for a value from outside"
    );
    receiving(&mut sched, fed);
    let _ = sched.schedule();
    assert!(!sched.all_blocked());
    sched.channel_set_fed(fed, false);
    assert!(sched.all_blocked());
    sched.channel_set_fed(fed, true);
    sched.channel_free(fed);
    let woken = sched.schedule();
    assert!(matches!(woken, Next::Other(_)), "{woken:?}");
}
