//! Semaphores, channels and events, the most frequent operations, by one look at the object.
//!
//! The look (`begin`) changes the count or the buffer, if no process has to wait and none has to be
//! woken. Otherwise it says what is left to do: [`Inside::wake_waiter`], [`Inside::wait_at`], or
//! the operation as any other. A caller that looks in a function of its own saves no registers for
//! the rest.

use crate::sched::{
    ChannelId, Deadline, EventId, FirstLook, FirstWaiter, SemaphoreId, WaitPlace, Wake, WakeReason,
};
use crate::vm::Inside;

const DONE: Wake = Wake::because(WakeReason::Done);

impl Inside<'_> {
    /// Waits until the semaphore's count is above 0, and decrements it. Returns `Done`; else
    /// `TimedOut`, `Closed`, `Killed` or `Forbidden`. Inside the VM.
    ///
    /// ```
    /// use baton_core::sched::{Deadline, WakeReason};
    /// # mod closures { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doctests/closures.rs")); }
    /// closures::run(|main| {
    ///     let semaphore = main.vm.sched(|sched| sched.semaphore_new(1));
    ///     let take = || main.vm.semaphore_wait(semaphore, Deadline::Now).reason;
    ///     assert_eq!([take(), take()], [WakeReason::Done, WakeReason::TimedOut]);
    ///     main.spawn(move |process| assert_eq!(process.vm.semaphore_signal(semaphore, 1), 1));
    ///     assert_eq!(main.vm.semaphore_wait(semaphore, Deadline::Never).reason, WakeReason::Done);
    /// });
    /// ```
    #[inline]
    pub fn semaphore_wait(&self, semaphore: SemaphoreId, deadline: Deadline) -> Wake {
        match self.semaphore_begin_wait(semaphore) {
            FirstLook::Done(_) => DONE,
            FirstLook::Waits(place) => self.wait_at(place, 0, deadline),
            _ => self.block_on(|sched| sched.semaphore_wait(semaphore, deadline)),
        }
    }

    /// Adds `n` to the semaphore: first wakes up to `n` waiters, then adds the rest to the count,
    /// which saturates. Returns the number of woken processes. The caller gives way if one of them
    /// is more urgent. Inside the VM. [`Inside::semaphore_wait`] has an example.
    #[inline]
    pub fn semaphore_signal(&self, semaphore: SemaphoreId, n: u64) -> usize {
        match self.semaphore_begin_signal(semaphore, n) {
            FirstLook::Done(_) => 0,
            FirstLook::Wakes(waiter) => {
                self.wake_waiter(waiter, 0);
                1
            }
            _ => self.with_sched(|sched| sched.semaphore_signal(semaphore, n)),
        }
    }

    /// Sends a value. Returns `Done` when the value is in the buffer or received; the caller gives
    /// way to a more urgent receiver. After `TimedOut`, `Closed`, `Killed` or `Forbidden` the value
    /// was not sent. Inside the VM.
    ///
    /// ```
    /// use baton_core::sched::{Deadline, WakeReason};
    /// # mod closures { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doctests/closures.rs")); }
    /// closures::run(|main| {
    ///     let channel = main.vm.sched(|sched| sched.channel_new(1));
    ///     let send = |value| main.vm.channel_send(channel, value, Deadline::Now).reason;
    ///     assert_eq!([send(7), send(8)], [WakeReason::Done, WakeReason::TimedOut]);
    ///     assert_eq!(main.vm.channel_receive(channel, Deadline::Now).value, 7);
    /// });
    /// ```
    #[inline]
    pub fn channel_send(&self, channel: ChannelId, value: u64, deadline: Deadline) -> Wake {
        match self.channel_begin_send(channel, value) {
            FirstLook::Done(_) => DONE,
            FirstLook::Wakes(receiver) => {
                self.wake_waiter(receiver, value);
                DONE
            }
            FirstLook::Waits(place) => self.wait_at(place, value, deadline),
            FirstLook::Unclear => {
                self.block_on(|sched| sched.channel_send(channel, value, deadline))
            }
        }
    }

    /// Receives a value. Returns `Done` with the value; else `TimedOut`, `Killed` or `Forbidden`.
    /// After a close it still returns the buffered values, then `Closed`. Gives way to a more
    /// urgent sender that this wakes. Inside the VM. [`Inside::channel_send`] has an example.
    #[inline]
    pub fn channel_receive(&self, channel: ChannelId, deadline: Deadline) -> Wake {
        match self.channel_begin_receive(channel) {
            FirstLook::Done(value) => Wake { value, ..DONE },
            FirstLook::Wakes(sender) => {
                let value = self.wake_waiter(sender, 0);
                Wake { value, ..DONE }
            }
            FirstLook::Waits(place) => self.wait_at(place, 0, deadline),
            FirstLook::Unclear => self.block_on(|sched| sched.channel_receive(channel, deadline)),
        }
    }

    /// Begins [`Inside::semaphore_wait`]. Inside the VM.
    #[inline]
    pub fn semaphore_begin_wait(&self, semaphore: SemaphoreId) -> FirstLook {
        self.with_inner(|inner| inner.sched.semaphore_begin_wait(semaphore))
    }

    /// Begins [`Inside::semaphore_signal`]. It is done, or wakes one waiter, only if the new count
    /// is not above [`i64::MAX`]. Inside the VM.
    #[inline]
    pub fn semaphore_begin_signal(&self, semaphore: SemaphoreId, n: u64) -> FirstLook {
        self.with_inner(|inner| inner.sched.semaphore_begin_signal(semaphore, n))
    }

    /// Begins a wait for an event, [`Scheduler::event_wait`](crate::sched::Scheduler::event_wait).
    /// Inside the VM.
    #[inline]
    pub fn event_begin_wait(&self, event: EventId) -> FirstLook {
        self.with_inner(|inner| inner.sched.event_begin_wait(event))
    }

    /// Begins [`Inside::channel_send`]. Inside the VM.
    #[inline]
    pub fn channel_begin_send(&self, channel: ChannelId, value: u64) -> FirstLook {
        self.with_inner(|inner| inner.sched.channel_begin_send(channel, value))
    }

    /// Begins [`Inside::channel_receive`]. Inside the VM.
    #[inline]
    pub fn channel_begin_receive(&self, channel: ChannelId) -> FirstLook {
        self.with_inner(|inner| inner.sched.channel_begin_receive(channel))
    }

    /// Ends the wait of a waiter that was found just now, with `value`. The caller gives way if the
    /// woken process is more urgent. Returns the value that the waiter wanted to send. Inside the
    /// VM.
    #[inline]
    pub fn wake_waiter(&self, waiter: FirstWaiter, value: u64) -> u64 {
        let (sent, jump) = self.with_inner(|inner| {
            let sent = inner.sched.wake_waiter(waiter, value);
            (sent, self.give_way(inner))
        });
        self.take(jump);
        sent
    }

    /// Waits at a place that was found just now, with a value to send. Returns how the wait ended;
    /// `TimedOut` or `Forbidden` at once if the process must not wait. Inside the VM.
    #[inline]
    pub fn wait_at(&self, place: WaitPlace, value: u64, deadline: Deadline) -> Wake {
        let begun = self.with_inner(|inner| {
            let me = inner.sched.current()?;
            let jump = self.wait_fast(inner, place, value, deadline)?;
            Some((me, jump))
        });
        match begun {
            Some((me, jump)) => {
                self.take_handoff(jump);
                self.with_inner(|inner| inner.sched.take_wake(me))
            }
            None => self.wait_at_slow(place, value, deadline),
        }
    }

    /// The slow path of a wait: more than a handoff.
    #[inline(never)]
    fn wait_at_slow(&self, place: WaitPlace, value: u64, deadline: Deadline) -> Wake {
        self.block_on(|sched| sched.wait_at(place, value, deadline))
    }
}
