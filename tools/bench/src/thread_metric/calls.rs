//! The calls of the scheduler that Thread-Metric measures.
//!
//! None of these functions is inlined into the loop around it, as the rules of the tests require.
//! So each repetition has the cost of the whole call. Memory comes from the C library, whose
//! functions are not inlined either.

use baton_core::sched::{ChannelId, Deadline, ProcessId, SemaphoreId};
use baton_core::vm::Waker;

use crate::lab::Process;

#[inline(never)]
pub(super) fn yield_now(process: &Process) {
    process.vm.yield_now();
}

#[inline(never)]
pub(super) fn resume(process: &Process, other: ProcessId) {
    let _ = process.vm.resume(other);
}

#[inline(never)]
pub(super) fn suspend_self(process: &Process) {
    let _ = process.vm.suspend(process.id);
}

#[inline(never)]
pub(super) fn semaphore_wait(process: &Process, semaphore: SemaphoreId) {
    process.vm.semaphore_wait(semaphore, Deadline::Never);
}

#[inline(never)]
pub(super) fn semaphore_signal(process: &Process, semaphore: SemaphoreId) {
    process.vm.semaphore_signal(semaphore, 1);
}

#[inline(never)]
pub(super) fn channel_send(process: &Process, channel: ChannelId, value: u64) {
    process.vm.channel_send(channel, value, Deadline::Never);
}

#[inline(never)]
pub(super) fn channel_receive(process: &Process, channel: ChannelId) -> u64 {
    process.vm.channel_receive(channel, Deadline::Never).value
}

#[inline(never)]
pub(super) fn wake(waker: &Waker) {
    waker.wake();
}
