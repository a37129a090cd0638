//! What a guest (an interpreter) owes to the runtime.

use crate::panics::EndOfProgram;
use crate::sched::ProcessId;
use std::sync::Arc;
use std::time::Duration;

/// Whether the VM may be taken from a foreign call that lasts.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetakePolicy {
    /// The VM may run other processes meanwhile.
    Retake {
        /// Foreign frames are on the process's stack: it continues only on the thread that it is
        /// on.
        pinned: bool,
    },
    /// The VM stays with the call ("exclusive").
    Stay,
}

/// A language on the runtime. A panic in any of its functions ends the program.
///
/// One value serves one VM; `user_data` is the guest's own record of a
/// process, opaque to the runtime.
pub trait Guest: Send + Sync + 'static {
    /// The life of a process, on the process's own stack, inside the VM. When it returns, the
    /// process has ended.
    fn run(&self, process: ProcessId, user_data: usize);

    /// The owner's thread leaves the process `from` and continues `to` (`None`: the executor
    /// itself). Exchanges what the guest keeps per process and per thread. Called inside the VM;
    /// must be quick.
    fn switched(&self, from: Option<usize>, to: Option<usize>);

    /// The VM was taken from a foreign call of the process of `user_data`: may it stay taken?
    /// Called with nobody inside, by the monitor. When it answers `Retake`, the guest's per-VM
    /// state of the process has been put away.
    fn retake_policy(&self, user_data: usize) -> RetakePolicy;

    /// An exclusive foreign call of `user_data` has kept the VM from others for long. Called like
    /// [`Guest::retake_policy`], or, if the call uses the guest's API all the while, by the call's
    /// own thread, just as it comes in: outside all the same, and nobody takes the VM meanwhile.
    fn warn_blocked(&self, user_data: usize);

    /// Whether the guest itself, such as its collector, was to blame for what
    /// [`Guest::warn_blocked`] is about to be called for: then it is, although the running process
    /// has answered meanwhile. Called inside the VM.
    fn has_delayed(&self) -> bool {
        false
    }

    /// The foreign call of `holder` has kept the native thread for long that `waiter` can run on
    /// only; the user has bound it there, or it has foreign frames there. Called outside, by the
    /// owner, and nobody takes the VM meanwhile.
    fn warn_thread(&self, holder: usize, waiter: usize, is_bound: bool) {
        let _ = (holder, waiter, is_bound);
    }

    /// The process of `user_data` goes on with a foreign call on the calling thread, outside the VM
    /// ([`Vm::offload`](crate::vm::Vm::offload)): the guest exchanges what it keeps per thread,
    /// and touches nothing of the VM.
    fn arrived(&self, user_data: usize) {
        let _ = user_data;
    }

    /// The process of `user_data` must reach a safepoint soon: it was killed, or asked to give way,
    /// and is not running now. Called inside the VM.
    fn request_safepoint(&self, user_data: usize);

    /// Who is to run: `None` for `suggested`, which the runtime would choose. `current` is the
    /// process that was left, if it lives. Asked while
    /// [`Vm::set_scheduler_hook`](crate::vm::Vm::set_scheduler_hook) is on, whenever a process has
    /// yielded, waits, ended, or was preempted. If the one it names cannot run, the runtime
    /// chooses. Called inside the VM on the executor's stack, while nobody is current: what is done
    /// to processes takes effect, but nothing can wait.
    fn scheduler_hook(&self, current: Option<usize>, suggested: usize) -> Option<ProcessId> {
        let _ = (current, suggested);
        None
    }

    /// The process `from` was left, and `to` will be continued; for each of them for which
    /// [`Vm::set_switch_hook`](crate::vm::Vm::set_switch_hook) is on. Called like
    /// [`Guest::scheduler_hook`].
    fn switch_hook(&self, from: Option<usize>, to: Option<usize>) {
        let _ = (from, to);
    }

    /// Nothing can ever run again, as far as the runtime knows. Called inside the VM on the
    /// executor's stack. Usually reports and ends the program; when it returns, the VM waits on,
    /// and asks again after the time that it answers, if nothing has happened by then.
    fn deadlocked(&self) -> Option<Duration>;

    /// This is a fork's child, and all processes but the calling one, of `user_data`, have ended
    /// where they stood: their stacks are gone, and nothing of them runs any more. Called inside
    /// the VM, at the first enter after the fork.
    fn forked(&self, user_data: usize) {
        let _ = user_data;
    }

    /// Work that signal handlers asked for, on the executor's stack or at a safepoint, inside the
    /// VM.
    fn signalled(&self);
}

/// The calls of a guest: a panic in one of them ends the program, with a message that names it.
pub(crate) struct GuestCalls(pub(crate) Arc<dyn Guest>);

impl GuestCalls {
    #[inline(always)]
    pub(crate) fn run(&self, process: ProcessId, user_data: usize) {
        calling("the guest's `run`", || self.0.run(process, user_data))
    }

    #[inline(always)]
    pub(crate) fn switched(&self, from: Option<usize>, to: Option<usize>) {
        calling("the guest's `switched`", || self.0.switched(from, to))
    }

    #[inline(always)]
    pub(crate) fn retake_policy(&self, user_data: usize) -> RetakePolicy {
        calling("the guest's `retake_policy`", || {
            self.0.retake_policy(user_data)
        })
    }

    #[inline(always)]
    pub(crate) fn warn_blocked(&self, user_data: usize) {
        calling("the guest's `warn_blocked`", || {
            self.0.warn_blocked(user_data)
        })
    }

    #[inline(always)]
    pub(crate) fn has_delayed(&self) -> bool {
        calling("the guest's `has_delayed`", || self.0.has_delayed())
    }

    #[inline(always)]
    pub(crate) fn warn_thread(&self, holder: usize, waiter: usize, is_bound: bool) {
        calling("the guest's `warn_thread`", || {
            self.0.warn_thread(holder, waiter, is_bound)
        })
    }

    #[inline(always)]
    pub(crate) fn arrived(&self, user_data: usize) {
        calling("the guest's `arrived`", || self.0.arrived(user_data))
    }

    #[inline(always)]
    pub(crate) fn request_safepoint(&self, user_data: usize) {
        calling("the guest's `request_safepoint`", || {
            self.0.request_safepoint(user_data)
        })
    }

    #[inline(always)]
    pub(crate) fn scheduler_hook(
        &self,
        current: Option<usize>,
        suggested: usize,
    ) -> Option<ProcessId> {
        calling("the guest's `scheduler_hook`", || {
            self.0.scheduler_hook(current, suggested)
        })
    }

    #[inline(always)]
    pub(crate) fn switch_hook(&self, from: Option<usize>, to: Option<usize>) {
        calling("the guest's `switch_hook`", || self.0.switch_hook(from, to))
    }

    #[inline(always)]
    pub(crate) fn deadlocked(&self) -> Option<Duration> {
        calling("the guest's `deadlocked`", || self.0.deadlocked())
    }

    #[inline(always)]
    pub(crate) fn forked(&self, user_data: usize) {
        calling("the guest's `forked`", || self.0.forked(user_data))
    }

    #[inline(always)]
    pub(crate) fn signalled(&self) {
        calling("the guest's `signalled`", || self.0.signalled())
    }
}

#[inline(always)]
fn calling<R>(what: &'static str, function: impl FnOnce() -> R) -> R {
    let end = EndOfProgram::at_panic_in(what, "its VM would be half changed");
    let result = function();
    end.avert();
    result
}
