//! The uncontended path of semaphores and channels, the most frequent operations.
//!
//! If no process has to wait and none has to be woken, the call only changes the count or the
//! buffer: `take` and `put`. Otherwise it is an operation like any other. A caller that tries the
//! first in a function of its own saves no registers for the second.

use crate::sched::{ChannelId, Deadline, SemaphoreId, Wake, WakeReason};
use crate::vm::Inside;

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
        if self.semaphore_take(semaphore) {
            return Wake::because(WakeReason::Done);
        }
        self.block_on(|sched| sched.semaphore_wait(semaphore, deadline))
    }

    /// Adds `n` to the semaphore: first wakes up to `n` waiters, then adds the rest to the count,
    /// which saturates. Returns the number of woken processes. The caller gives way if one of them
    /// is more urgent. Inside the VM. [`Inside::semaphore_wait`] has an example.
    #[inline]
    pub fn semaphore_signal(&self, semaphore: SemaphoreId, n: u64) -> usize {
        if self.semaphore_put(semaphore, n) {
            return 0;
        }
        self.with_sched(|sched| sched.semaphore_signal(semaphore, n))
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
        if self.channel_put(channel, value) {
            return Wake::because(WakeReason::Done);
        }
        self.block_on(|sched| sched.channel_send(channel, value, deadline))
    }

    /// Receives a value. Returns `Done` with the value; else `TimedOut`, `Killed` or `Forbidden`.
    /// After a close it still returns the buffered values, then `Closed`. Gives way to a more
    /// urgent sender that this wakes. Inside the VM. [`Inside::channel_send`] has an example.
    #[inline]
    pub fn channel_receive(&self, channel: ChannelId, deadline: Deadline) -> Wake {
        match self.channel_take(channel) {
            Some(value) => Wake {
                value,
                ..Wake::because(WakeReason::Done)
            },
            None => self.block_on(|sched| sched.channel_receive(channel, deadline)),
        }
    }

    /// Decrements the semaphore's count, if it is above 0. Returns whether it did. Inside the VM.
    #[inline]
    pub fn semaphore_take(&self, semaphore: SemaphoreId) -> bool {
        self.with_inner(|inner| inner.sched.semaphore_take(semaphore))
    }

    /// Adds `n` to the semaphore's count, if no process waits and the sum is not above
    /// [`i64::MAX`]. Returns whether it did. Inside the VM.
    #[inline]
    pub fn semaphore_put(&self, semaphore: SemaphoreId, n: u64) -> bool {
        self.with_inner(|inner| inner.sched.semaphore_put(semaphore, n))
    }

    /// Puts a value into the channel's buffer, if it has room and no process waits. Returns whether
    /// it did. Inside the VM.
    #[inline]
    pub fn channel_put(&self, channel: ChannelId, value: u64) -> bool {
        self.with_inner(|inner| inner.sched.channel_put(channel, value))
    }

    /// Takes the first value from the channel's buffer, if there is one and no sender waits. Inside
    /// the VM.
    #[inline]
    pub fn channel_take(&self, channel: ChannelId) -> Option<u64> {
        self.with_inner(|inner| inner.sched.channel_take(channel))
    }
}
