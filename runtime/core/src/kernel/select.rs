//! Select: waiting for one of several sends and receives.
//!
//! The process has a node in the queue of every case. Whoever completes one of them wakes the
//! process, and that takes its other nodes out of their queues at once, so no second case can be
//! completed. While a process tries, it is in no queue, so it never meets itself.

use super::process::Phase;
use super::waiters::{Kind, Ticket};
use super::{Attempt, ChannelId, Deadline, Kernel, Wake, WakeReason};

/// One of the things a select waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Case {
    /// To receive a value.
    Receive(ChannelId),
    /// To send a value.
    Send(ChannelId, u64),
}

impl<C> Kernel<C> {
    /// Completes exactly one of the cases, and says which in `Wake::case`: a random one among those
    /// that are ready, chosen by `random`, or the first to become so. A case of a closed channel is
    /// ready, with `Closed`. Without any case it waits for its deadline only.
    ///
    /// ```
    /// use baton_core::kernel::{Attempt, Case, Deadline, Kernel, SpawnOptions};
    ///
    /// let mut kernel: Kernel<()> = Kernel::new(10);
    /// kernel.spawn(SpawnOptions::default(), ())?;
    /// let _ = kernel.schedule();
    /// let (empty, full) = (kernel.channel_new(1), kernel.channel_new(1));
    /// let _ = kernel.channel_send(full, 7, Deadline::Now);
    /// let cases = [Case::Receive(empty), Case::Receive(full)];
    /// let Attempt::Ready(wake) = kernel.select(&cases, Deadline::Never, 42) else { panic!("the second case is ready") };
    /// assert_eq!((wake.case, wake.value), (1, 7));
    /// # Ok::<(), baton_core::kernel::ProcessLimit>(())
    /// ```
    pub fn select(&mut self, cases: &[Case], deadline: Deadline, random: u64) -> Attempt {
        let me = match self.may_wait() {
            Ok(me) => me,
            Err(answer) => return answer,
        };
        let ready = cases.iter().filter(|case| self.is_ready(case)).count();
        if ready > 0 {
            let turn = (random % ready as u64) as usize;
            return Attempt::Ready(self.complete(cases, turn));
        }
        if let Some(refusal) = self.refusal_to_block(me, deadline) {
            return refusal;
        }
        for (number, case) in cases.iter().enumerate() {
            self.enter_case(me, case, number as u32);
        }
        self.block(me, Phase::Waiting, deadline)
    }

    fn is_ready(&self, case: &Case) -> bool {
        match *case {
            Case::Receive(channel) => self.can_receive(channel),
            Case::Send(channel, _) => self.can_send(channel),
        }
    }

    /// Completes the case that is number `turn` of the ready ones.
    fn complete(&mut self, cases: &[Case], turn: usize) -> Wake {
        let is_ready = |(_, case): &(usize, &Case)| self.is_ready(case);
        let Some((number, case)) = cases.iter().enumerate().filter(is_ready).nth(turn) else {
            return Wake::because(WakeReason::TimedOut);
        };
        let wake = match *case {
            Case::Receive(channel) => self.try_receive(channel),
            Case::Send(channel, value) => self.try_send(channel, value),
        };
        let wake = wake.unwrap_or(Wake::because(WakeReason::TimedOut));
        Wake {
            case: number as u32,
            ..wake
        }
    }

    fn enter_case(&mut self, me: u32, case: &Case, number: u32) {
        let (id, kind, value) = match *case {
            Case::Receive(id) => (id, Kind::Receive, 0),
            Case::Send(id, value) => (id, Kind::Send, value),
        };
        if let Some(channel) = self.channels.get(id.0) {
            let queue = if kind == Kind::Send {
                channel.senders
            } else {
                channel.receivers
            };
            let ticket = Ticket {
                kind,
                object: id.0.index,
                case: number,
                value,
            };
            self.enter_queue(me, queue, ticket);
        }
    }
}
