//! Channels.

use super::*;
use crate::kernel::{Blocker, ChannelId, KillOutcome};

fn sending(kernel: &mut Kernel<()>, channel: ChannelId, value: u64) -> ProcessId {
    let pid = spawn_running(kernel);
    assert_blocked(kernel.channel_send(channel, value, Deadline::Never));
    pid
}

fn receiving(kernel: &mut Kernel<()>, channel: ChannelId) -> ProcessId {
    let pid = spawn_running(kernel);
    assert_blocked(kernel.channel_receive(channel, Deadline::Never));
    pid
}

fn send(kernel: &mut Kernel<()>, channel: ChannelId, value: u64) -> WakeReason {
    reason(kernel.channel_send(channel, value, Deadline::Now))
}

/// The value received at once, or why there was none.
fn receive(kernel: &mut Kernel<()>, channel: ChannelId) -> Result<u64, WakeReason> {
    match kernel.channel_receive(channel, Deadline::Now) {
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
    let mut kernel = kernel();
    let channel = kernel.channel_new(3);
    spawn_running(&mut kernel);
    for value in 1..=3 {
        assert_eq!(send(&mut kernel, channel, value), WakeReason::Done);
    }
    assert_eq!(kernel.channel_len(channel), 3);
    assert_eq!(send(&mut kernel, channel, 4), WakeReason::TimedOut);
    for value in 1..=3 {
        assert_eq!(receive(&mut kernel, channel), Ok(value));
    }
    assert_eq!(receive(&mut kernel, channel), Err(WakeReason::TimedOut));
}

#[test]
fn at_a_rendezvous_the_sender_meets_a_waiting_receiver() {
    let mut kernel = kernel();
    let channel = kernel.channel_new(0);
    let receiver = receiving(&mut kernel, channel);
    assert_eq!(kernel.blocker(receiver), Some(Blocker::Receive(channel)));
    spawn_running(&mut kernel);
    assert_eq!(send(&mut kernel, channel, 5), WakeReason::Done);
    assert_eq!(send(&mut kernel, channel, 6), WakeReason::TimedOut);
    let wake = resume_with(&mut kernel, receiver);
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
fn at_a_rendezvous_the_receiver_meets_a_waiting_sender() {
    let mut kernel = kernel();
    let channel = kernel.channel_new(0);
    let sender = sending(&mut kernel, channel, 5);
    assert_eq!(kernel.blocker(sender), Some(Blocker::Send(channel)));
    assert_eq!(kernel.channel_len(channel), 0);
    spawn_running(&mut kernel);
    assert_eq!(receive(&mut kernel, channel), Ok(5));
    assert_eq!(resume_with(&mut kernel, sender).reason, WakeReason::Done);
}

#[test]
fn a_sender_that_waits_goes_on_when_there_is_room_and_its_value_keeps_its_turn() {
    let mut kernel = kernel();
    let channel = kernel.channel_new(1);
    spawn_running(&mut kernel);
    assert_eq!(send(&mut kernel, channel, 1), WakeReason::Done);
    let sender = sending(&mut kernel, channel, 2);
    spawn_running(&mut kernel);
    assert_eq!(receive(&mut kernel, channel), Ok(1));
    assert_eq!(kernel.channel_len(channel), 1);
    assert_eq!(resume_with(&mut kernel, sender).reason, WakeReason::Done);
    assert_eq!(receive(&mut kernel, channel), Ok(2));
}

#[test]
fn receivers_are_served_in_order() {
    let mut kernel = kernel();
    let channel = kernel.channel_new(4);
    let receivers = [0; 3].map(|_| receiving(&mut kernel, channel));
    spawn_running(&mut kernel);
    for value in 0..3 {
        assert_eq!(send(&mut kernel, channel, value), WakeReason::Done);
    }
    let received = receivers.map(|pid| resume_with(&mut kernel, pid).value);
    assert_eq!(received, [0, 1, 2]);
    assert_eq!(kernel.channel_len(channel), 0);
}

#[test]
fn a_value_that_was_not_sent_in_time_is_not_received() {
    let mut kernel = kernel();
    let channel = kernel.channel_new(0);
    let sender = spawn_running(&mut kernel);
    assert_blocked(kernel.channel_send(channel, 1, until(5)));
    kernel.expire(at(5));
    assert_eq!(resume_with(&mut kernel, sender).reason, WakeReason::TimedOut);
    assert_eq!(receive(&mut kernel, channel), Err(WakeReason::TimedOut));
}

#[test]
fn what_is_buffered_still_arrives_after_a_close() {
    let mut kernel = kernel();
    let channel = kernel.channel_new(2);
    spawn_running(&mut kernel);
    assert_eq!(send(&mut kernel, channel, 1), WakeReason::Done);
    assert_eq!(send(&mut kernel, channel, 2), WakeReason::Done);
    let late = sending(&mut kernel, channel, 3);
    assert!(kernel.channel_close(channel));
    assert!(!kernel.channel_close(channel));
    assert!(kernel.channel_is_closed(channel));
    assert_eq!(resume_with(&mut kernel, late).reason, WakeReason::Closed);
    assert_eq!(send(&mut kernel, channel, 4), WakeReason::Closed);
    assert_eq!(receive(&mut kernel, channel), Ok(1));
    assert_eq!(receive(&mut kernel, channel), Ok(2));
    assert_eq!(receive(&mut kernel, channel), Err(WakeReason::Closed));
}

#[test]
fn a_close_wakes_all_receivers() {
    let mut kernel = kernel();
    let channel = kernel.channel_new(0);
    let receivers = [0; 2].map(|_| receiving(&mut kernel, channel));
    assert!(kernel.channel_close(channel));
    for pid in receivers {
        assert_eq!(resume_with(&mut kernel, pid).reason, WakeReason::Closed);
    }
}

#[test]
fn a_freed_channel_is_closed_and_returns_what_nobody_received() {
    let mut kernel = kernel();
    let channel = kernel.channel_new(3);
    spawn_running(&mut kernel);
    for value in [7, 8] {
        assert_eq!(send(&mut kernel, channel, value), WakeReason::Done);
    }
    assert_eq!(kernel.channel_free(channel), [7, 8]);
    assert_eq!(kernel.channel_free(channel), []);
    assert!(kernel.channel_is_closed(channel));
    assert!(!kernel.channel_close(channel));
    assert_eq!(kernel.channel_len(channel), 0);
    assert_eq!(send(&mut kernel, channel, 1), WakeReason::Closed);
    assert_eq!(receive(&mut kernel, channel), Err(WakeReason::Closed));
}

#[test]
fn a_huge_capacity_costs_nothing_until_it_is_used() {
    let mut kernel = kernel();
    let channel = kernel.channel_new(usize::MAX);
    spawn_running(&mut kernel);
    assert_eq!(send(&mut kernel, channel, 1), WakeReason::Done);
    assert_eq!(receive(&mut kernel, channel), Ok(1));
}

#[test]
fn at_once_values_go_through_the_buffer_only_where_nobody_is_concerned() {
    let mut kernel = kernel();
    let channel = kernel.channel_new(2);
    assert!(!kernel.channel_put(channel, 0), "nobody runs");
    let receiver = receiving(&mut kernel, channel);
    spawn_running(&mut kernel);
    assert!(!kernel.channel_put(channel, 1), "somebody waits for it");
    assert_eq!(send(&mut kernel, channel, 1), WakeReason::Done);
    assert_eq!(resume_with(&mut kernel, receiver).value, 1);
    assert_eq!(kernel.channel_take(channel), None);
    assert!(kernel.channel_put(channel, 2));
    assert!(kernel.channel_put(channel, 3));
    assert!(!kernel.channel_put(channel, 4), "it is full");
    assert_eq!(kernel.channel_take(channel), Some(2));
    assert!(kernel.channel_put(channel, 4));
    sending(&mut kernel, channel, 5);
    spawn_running(&mut kernel);
    assert_eq!(kernel.channel_take(channel), None, "somebody waits for the place");
    assert_eq!(receive(&mut kernel, channel), Ok(3));
    kernel.channel_close(channel);
    assert_eq!(kernel.channel_take(channel), Some(4));
    assert!(!kernel.channel_put(channel, 6), "it is closed");
    let me = kernel.current().expect("it runs");
    assert_eq!(kernel.kill(me), KillOutcome::IsCurrent);
    assert_eq!(kernel.channel_take(channel), None, "it is killed");
    assert_eq!(kernel.channel_free(channel), [5]);
}
