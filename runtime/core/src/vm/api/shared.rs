//! Waits of processes for objects that several VMs share (`crate::shared`).
//!
//! A wait of one process:
//!
//! ```text
//! the process                                    another thread
//!   the object: nothing to take
//!   Scheduler::shared_wait_new: its wait
//!   the object: enters a ticket with a Sleeper
//!   Scheduler::shared_wait: another process runs
//!                                                the object: calls the ticket
//!                                                Inside::deliver -> Sleeper::wake -> Vm::post
//!   harvest -> Scheduler::shared_wake
//!   Scheduler::shared_wait_free
//!   the object: leaves the ticket, takes
//! ```
//!
//! The wait exists before the ticket, so a wake-up that comes before the process waits is noted.

use crate::sched::{Case, Deadline, Scheduler, SharedKind, SharedWaitId, Wake, WakeReason, Watch};
use crate::shared::channel::{Entered, Message, Received, Sent};
use crate::shared::tickets::TicketId;
use crate::shared::words::WordWait;
use crate::shared::{SharedChannel, Sleep, Wakes, Words};
use crate::vm::{Context, Inside, Post, Vm};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

/// What others may know of a VM, even after its end.
#[derive(Debug)]
pub(in crate::vm) struct Life {
    vm: Weak<Vm>,
    has_ended: AtomicBool,
}

impl Life {
    pub(in crate::vm) fn end(&self) {
        // Release: pairs with the acquire in `is_over`.
        self.has_ended.store(true, Ordering::Release);
    }

    fn is_over(&self) -> bool {
        // Acquire: pairs with the release in `end`.
        self.has_ended.load(Ordering::Acquire) || self.vm.strong_count() == 0
    }
}

/// Wakes a process that waits for a shared object, from any thread. After its VM's end, or the end
/// of the wait, it does nothing. It does not keep the VM.
#[derive(Clone, Debug)]
pub struct Sleeper {
    life: Arc<Life>,
    wait: SharedWaitId,
}

impl Sleep for Sleeper {
    fn is_gone(&self) -> bool {
        self.life.is_over()
    }
}

impl Sleeper {
    /// Wakes the process. Returns whether its VM has not ended.
    fn wake(&self) -> bool {
        let vm = self.life.vm.upgrade().filter(|_| !self.life.is_over());
        if let Some(vm) = &vm {
            vm.post(Post::Shared(self.wait));
        }
        vm.is_some()
    }
}

/// Wakes processes, from any thread, in a VM or in none. `pass_on` is for calls that went to VMs
/// that have ended meanwhile.
pub fn wake_from_outside(mut wakes: Wakes<Sleeper>, pass_on: impl Fn() -> Wakes<Sleeper>) {
    while !wakes.is_empty() {
        let mut is_lost = false;
        for (_, sleeper) in wakes {
            is_lost |= !sleeper.wake();
        }
        wakes = if is_lost { pass_on() } else { Wakes::default() };
    }
}

/// One case of a select: a channel that several VMs share.
#[derive(Debug)]
pub enum SharedCase<'a, M> {
    /// To receive a message.
    Receive(&'a SharedChannel<M, Sleeper>),
    /// To send a message.
    Send(&'a SharedChannel<M, Sleeper>, M),
}

/// A ticket, and the wait that ends when it is called.
struct TicketAndWait {
    wait: SharedWaitId,
    ticket: TicketId,
}

impl Inside<'_> {
    fn life(&self) -> Arc<Life> {
        let make = || {
            Arc::new(Life {
                vm: Arc::downgrade(&self.to_arc()),
                has_ended: AtomicBool::new(self.has_ended()),
            })
        };
        Arc::clone(self.life.get_or_init(make))
    }

    /// Begins a wait for a shared object. Returns what wakes it, too.
    fn begin_shared_wait(&self, kind: SharedKind, name: &str) -> (SharedWaitId, Sleeper) {
        let wait = self.sched(|sched| sched.shared_wait_new(kind, name));
        let life = self.life();
        (wait, Sleeper { life, wait })
    }

    fn end_shared_wait(&self, wait: SharedWaitId) {
        self.sched(|sched| sched.shared_wait_free(wait));
    }

    /// Wakes processes, first those of other VMs. `pass_on` is for calls that went to VMs that have
    /// ended meanwhile. More urgent processes of this VM run at once.
    fn deliver(&self, mut wakes: Wakes<Sleeper>, pass_on: impl Fn() -> Wakes<Sleeper>) {
        let mut own = Vec::new();
        while !wakes.is_empty() {
            let mut is_lost = false;
            for (_, sleeper) in wakes {
                if std::ptr::eq(sleeper.life.vm.as_ptr(), &raw const **self) {
                    own.push(sleeper.wait);
                } else {
                    is_lost |= !sleeper.wake();
                }
            }
            wakes = if is_lost { pass_on() } else { Wakes::default() };
        }
        if !own.is_empty() {
            self.with_sched(|sched| {
                for wait in own {
                    sched.shared_wake(wait);
                }
            });
        }
    }

    fn deliver_of<M: Message>(&self, channel: &SharedChannel<M, Sleeper>, wakes: Wakes<Sleeper>) {
        self.deliver(wakes, || channel.pass_on());
    }

    /// Sends a message to a channel that several VMs share. Waits while there is no room. The
    /// message comes back unless the reason is [`WakeReason::Done`].
    pub fn send_shared<M: Message>(
        &self,
        channel: &SharedChannel<M, Sleeper>,
        message: M,
        deadline: Deadline,
    ) -> (WakeReason, Option<M>) {
        let message = match self.finish_sending(channel, channel.try_send(message)) {
            (WakeReason::TimedOut, Some(message)) if deadline != Deadline::Now => message,
            result => return result,
        };
        let (entry, entered) = self.enter_sender(channel, message.size());
        match self.await_call(&entry, entered, deadline) {
            WakeReason::Done => {
                self.finish_sending(channel, channel.send_called(entry.ticket, message))
            }
            reason => {
                self.deliver_of(channel, channel.leave_sender(entry.ticket));
                (reason, Some(message))
            }
        }
    }

    fn finish_sending<M: Message>(
        &self,
        channel: &SharedChannel<M, Sleeper>,
        sent: Sent<M, Sleeper>,
    ) -> (WakeReason, Option<M>) {
        match sent {
            Sent::Done(wakes) => {
                self.deliver_of(channel, wakes);
                (WakeReason::Done, None)
            }
            Sent::Full(message) => (WakeReason::TimedOut, Some(message)),
            Sent::Closed(message) => (WakeReason::Closed, Some(message)),
        }
    }

    /// Receives a message of a channel that several VMs share. Waits while there is none. There is
    /// a message exactly if the reason is [`WakeReason::Done`].
    pub fn receive_shared<M: Message>(
        &self,
        channel: &SharedChannel<M, Sleeper>,
        deadline: Deadline,
    ) -> (WakeReason, Option<M>) {
        match self.finish_receiving(channel, channel.try_receive()) {
            (WakeReason::TimedOut, None) if deadline != Deadline::Now => {}
            result => return result,
        }
        let (entry, entered) = self.enter_receiver(channel);
        match self.await_call(&entry, entered, deadline) {
            WakeReason::Done => {
                self.finish_receiving(channel, channel.receive_called(entry.ticket))
            }
            reason => {
                self.deliver_of(channel, channel.leave_receiver(entry.ticket));
                (reason, None)
            }
        }
    }

    fn finish_receiving<M: Message>(
        &self,
        channel: &SharedChannel<M, Sleeper>,
        received: Received<M, Sleeper>,
    ) -> (WakeReason, Option<M>) {
        match received {
            Received::Done(message, wakes) => {
                self.deliver_of(channel, wakes);
                (WakeReason::Done, Some(message))
            }
            Received::Empty => (WakeReason::TimedOut, None),
            Received::Closed => (WakeReason::Closed, None),
        }
    }

    /// Gives back a message that was received last, and that its receiver cannot use.
    pub fn give_back_shared<M: Message>(&self, channel: &SharedChannel<M, Sleeper>, message: M) {
        self.deliver_of(channel, channel.give_back(message));
    }

    /// Closes a channel that several VMs share.
    pub fn close_shared<M: Message>(&self, channel: &SharedChannel<M, Sleeper>) {
        self.deliver_of(channel, channel.close());
    }

    fn enter_receiver<M: Message>(
        &self,
        channel: &SharedChannel<M, Sleeper>,
    ) -> (TicketAndWait, Entered) {
        let (wait, sleeper) = self.begin_shared_wait(SharedKind::Receive, channel.name());
        let entered = channel.enter_receiver(sleeper);
        let ticket = entered.ticket();
        (TicketAndWait { wait, ticket }, entered)
    }

    fn enter_sender<M: Message>(
        &self,
        channel: &SharedChannel<M, Sleeper>,
        size: u64,
    ) -> (TicketAndWait, Entered) {
        let (wait, sleeper) = self.begin_shared_wait(SharedKind::Send, channel.name());
        let entered = channel.enter_sender(size, sleeper);
        let ticket = entered.ticket();
        (TicketAndWait { wait, ticket }, entered)
    }

    /// Waits until a ticket is called.
    fn await_call(
        &self,
        entry: &TicketAndWait,
        entered: Entered,
        deadline: Deadline,
    ) -> WakeReason {
        match entered {
            Entered::IsCalled(_) => {
                self.end_shared_wait(entry.wait);
                WakeReason::Done
            }
            Entered::Waits(_) => self.await_wake_up(entry.wait, deadline),
        }
    }

    /// Waits for the wake-up of a wait, and forgets that. A process that was killed after its
    /// wake-up is `Killed`.
    fn await_wake_up(&self, wait: SharedWaitId, deadline: Deadline) -> WakeReason {
        let wake = self.block_on(|sched| sched.shared_wait(wait, deadline));
        self.end_shared_wait(wait);
        let is_killed = |sched: &mut Scheduler<Context>| {
            let me = sched.current();
            me.is_some_and(|me| sched.kill_is_due(me))
        };
        match wake.reason {
            WakeReason::Done if self.sched(is_killed) => WakeReason::Killed,
            reason => reason,
        }
    }

    /// As [`Inside::select`], with cases that are channels between VMs. Each has the index of its
    /// case in `cases`; what is there is replaced. Returns the message that was received, too.
    /// Messages that were not sent are dropped.
    ///
    /// # Errors
    /// As [`Inside::select`].
    pub fn select_shared<M: Message>(
        &self,
        cases: &mut [Case],
        watches: &[(usize, Watch)],
        shared: Vec<(usize, SharedCase<'_, M>)>,
        deadline: Deadline,
    ) -> io::Result<(Wake, Option<M>)> {
        let mut entries = Vec::with_capacity(shared.len());
        for (place, case) in &shared {
            let (entry, entered) = match case {
                SharedCase::Receive(channel) => self.enter_receiver(channel),
                SharedCase::Send(channel, message) => self.enter_sender(channel, message.size()),
            };
            cases[*place] = match entered {
                Entered::IsCalled(_) => Case::Ready(WakeReason::Done, 0),
                Entered::Waits(_) => Case::Shared(entry.wait),
            };
            entries.push(entry);
        }
        let result = self.select(cases, watches, deadline);
        let chosen = match &result {
            Ok(wake) if wake.reason == WakeReason::Done => Some(wake.case as usize),
            _ => None,
        };
        let mut completed = None;
        for ((place, case), entry) in shared.into_iter().zip(entries) {
            self.end_shared_wait(entry.wait);
            if Some(place) == chosen {
                completed = Some(self.complete_shared(case, entry.ticket));
                continue;
            }
            match case {
                SharedCase::Receive(channel) => {
                    self.deliver_of(channel, channel.leave_receiver(entry.ticket));
                }
                SharedCase::Send(channel, _) => {
                    self.deliver_of(channel, channel.leave_sender(entry.ticket));
                }
            }
        }
        result.map(|wake| match completed {
            Some((reason, message)) => (Wake { reason, ..wake }, message),
            None => (wake, None),
        })
    }

    fn complete_shared<M: Message>(
        &self,
        case: SharedCase<'_, M>,
        ticket: TicketId,
    ) -> (WakeReason, Option<M>) {
        match case {
            SharedCase::Receive(channel) => {
                self.finish_receiving(channel, channel.receive_called(ticket))
            }
            SharedCase::Send(channel, message) => {
                let sent = channel.send_called(ticket, message);
                (self.finish_sending(channel, sent).0, None)
            }
        }
    }

    /// Waits at a shared word, unless that differs from `expected`: until a wake-up, `Done`. A
    /// process that dies instead passes its wake-up on.
    ///
    /// # Panics
    /// If there is no such word.
    pub fn wait_at_word(
        &self,
        words: &Words<Sleeper>,
        index: usize,
        expected: i64,
        deadline: Deadline,
    ) -> WakeReason {
        let (wait, sleeper) = self.begin_shared_wait(SharedKind::Word, "");
        let WordWait::Waits(ticket) = words.enter(index, expected, sleeper) else {
            self.end_shared_wait(wait);
            return WakeReason::Done;
        };
        let reason = self.await_wake_up(wait, deadline);
        let was_woken = words.leave(index, ticket);
        match reason {
            WakeReason::TimedOut if was_woken => WakeReason::Done,
            WakeReason::Done | WakeReason::TimedOut => reason,
            _ => {
                if was_woken {
                    self.wake_word(words, index, 1);
                }
                reason
            }
        }
    }

    /// Wakes up to `n` processes that wait at a shared word. Returns how many.
    ///
    /// # Panics
    /// If there is no such word.
    pub fn wake_word(&self, words: &Words<Sleeper>, index: usize, n: usize) -> usize {
        let wakes = words.wake(index, n);
        let count = wakes.len();
        self.deliver(wakes, || words.wake(index, 1));
        count
    }
}
