//! What a guest (an interpreter) owes to the runtime: the trait [`Guest`].

use crate::panics::EndOfProgram;
use crate::sched::{ProcessId, Wording};
use crate::vm::inside::Inside;
use baton_sys::signals::Obstacle;
use std::fmt::{self, Display, Formatter};
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

/// A language on the runtime: what the runtime calls in an interpreter.
///
/// One value serves one VM. `user_data` is the guest's own word for a process, such as an index or
/// an address. The runtime stores it ([`SpawnOptions`](crate::sched::SpawnOptions)) and never
/// interprets it.
///
/// # Where the methods are called
///
/// | method | native thread | stack | VM | calls `Vm` | waits |
/// |---|---|---|---|---|---|
/// | [`run`](Guest::run) | the owner's | the process's | inside | yes | yes |
/// | [`switched`](Guest::switched) | the owner's | what is left | inside | no | no |
/// | [`retake_policy`](Guest::retake_policy) | the monitor | the monitor's | locked | no | no |
/// | [`warn_blocked`](Guest::warn_blocked) | the monitor, or the call's | its own | locked | no | no |
/// | [`warn_unpreempted`](Guest::warn_unpreempted) | the monitor, or one that looks | its own | outside | no | no |
/// | [`has_delayed`](Guest::has_delayed) | the call's | the process's | inside, locked | no | no |
/// | [`warn_thread`](Guest::warn_thread) | the owner's | a loop's or a process's | outside | no | no |
/// | [`arrived`](Guest::arrived) | the one that the call moved to | its loop's | outside | no | no |
/// | [`departed`](Guest::departed) | the call's | the process's | outside | no | no |
/// | [`request_safepoint`](Guest::request_safepoint) | the owner's | a loop's or a process's | inside, in use | no | no |
/// | [`scheduler_hook`](Guest::scheduler_hook) | the owner's | the loop's | inside | yes | no |
/// | [`switch_hook`](Guest::switch_hook) | the owner's | the loop's | inside | yes | no |
/// | [`deadlocked`](Guest::deadlocked) | the owner's | the loop's | inside | yes | no |
/// | [`user_data_changed`](Guest::user_data_changed) | the owner's | a process's | inside, in use | no | no |
/// | [`forked`](Guest::forked) | the only one of the child | the process's | inside | yes | no |
/// | [`signal_waits`](Guest::signal_waits) | the monitor | the monitor's | outside | no | no |
/// | [`wording`](Guest::wording) | any | its own | outside | no | no |
/// | [`signalled`](Guest::signalled) | the owner's | a loop's or a process's | inside | yes | no |
///
/// **Native thread.** The *owner* is the native thread that has the VM at the moment. It changes
/// when the VM is retaken or handed over. The *monitor* is the runtime's one auxiliary thread.
///
/// **Stack.** Each process has a stack of its own, of the parameter
/// [`stack_size`](crate::parameters::Parameters::stack_size). Each native thread that runs
/// processes has a *loop* on its own stack: 1 MiB, or what the caller of
/// [`Vm::run`](crate::vm::Vm::run) has. The monitor has 128 KiB.
///
/// **VM.** *Inside* means that the calling thread is the owner, so the method may touch the guest's
/// state. *Outside* means that another thread may be inside: the method may touch only what is
/// made for several threads. *Locked* means that the VM's mutex is held and that no process runs:
/// the method may read the guest's state, and must be brief. *In use* means that the runtime is in
/// the middle of an operation of its scheduler.
///
/// **Calls `Vm`.** *No* means that the method must not call [`Vm`](crate::vm::Vm). It would find
/// the mutex locked or the scheduler in use, or would decide in the middle of a switch.
///
/// **Waits.** Only `run` may let other processes run: by a wait, a yield, a safepoint or a foreign
/// call. A system call that blocks in another method delays all processes.
///
/// **Panics.** A panic that leaves one of the methods ends the program by `abort`, after a message
/// that names the method. A guest may catch its own panics within `run`. It must not wait or yield
/// while one unwinds, because Rust counts panics per native thread.
pub trait Guest: Send + Sync + 'static {
    /// Runs a process from its beginning to its end. When this returns, the process has ended.
    ///
    /// - Thread: the owner's. It may be another one after each call of [`Vm`](crate::vm::Vm). So
    ///   keep nothing of a thread across one: no address of a thread-local, no lock guard.
    /// - Stack: the process's own.
    /// - VM: inside.
    /// - May wait, and call everything of [`Vm`](crate::vm::Vm).
    ///
    /// The guest calls [`Inside::safepoint`](crate::vm::Inside::safepoint) when its thread's gate
    /// shows [`ATTENTION`](baton_sys::gate::ATTENTION). It returns soon when
    /// [`kill_is_due`](crate::sched::Scheduler::kill_is_due) says so of the process. It makes each
    /// call that may block by [`Inside::foreign`](crate::vm::Inside::foreign).
    ///
    /// What is on the stack is never dropped if the VM stops before the process ends.
    ///
    /// The token `inside` comes back: a process ends inside.
    fn run<'vm>(&self, inside: Inside<'vm>, process: ProcessId, user_data: usize) -> Inside<'vm>;

    /// Exchanges what the guest keeps per process and per thread: the owner's thread leaves the
    /// process `from` and continues `to`. `None` stands for the thread's own loop.
    ///
    /// - Thread: the owner's, which is the same before and after the switch.
    /// - Stack: that of the process or loop that is left. `from` may have ended; its user data are
    ///   still valid.
    /// - VM: inside, but the scheduler counts `to` as current.
    /// - Must not call [`Vm`](crate::vm::Vm) or block. It is part of each switch, so it should take
    ///   nanoseconds.
    ///
    /// When the VM is retaken from a foreign call, [`retake_policy`](Guest::retake_policy) takes
    /// the place of this method for the process of the call. Later this one continues that process,
    /// with `None` as `from`. (A guest in C gets one call for both: see `baton/guest.h`.)
    fn switched(&self, from: Option<usize>, to: Option<usize>);

    /// Decides whether the VM stays taken from a foreign call of the process of `user_data`. When
    /// this returns [`RetakePolicy::Retake`], the guest has put away its per-VM state of the
    /// process, as [`switched`](Guest::switched) does.
    ///
    /// - Thread: the monitor. The call goes on meanwhile on its own thread. So what the guest keeps
    ///   per thread cannot be reached from here.
    /// - Stack: the monitor's.
    /// - VM: locked. The VM was taken, so the call cannot come back in before this returns.
    /// - Must not call [`Vm`](crate::vm::Vm) or block: no process runs until it returns.
    fn retake_policy(&self, user_data: usize) -> RetakePolicy;

    /// Warns of an exclusive foreign call of the process of `user_data`: it has kept the VM from
    /// other processes for longer than the parameter
    /// [`warn_blocked`](crate::parameters::Parameters::warn_blocked).
    ///
    /// - Thread: the monitor; or the thread of the call, when a call that uses the guest's API all
    ///   the time comes back in.
    /// - Stack: the monitor's, or the process's.
    /// - VM: locked.
    /// - Must not call [`Vm`](crate::vm::Vm). May write a message, if that does not block.
    fn warn_blocked(&self, user_data: usize);

    /// Whether the guest itself, such as its collector, caused the delay that
    /// [`warn_blocked`](Guest::warn_blocked) is about to be called for. Then it is called, even if
    /// the running process has reached a safepoint meanwhile. The default says no.
    ///
    /// - Thread and stack: those of the call, when it comes back in.
    /// - VM: inside, and locked.
    /// - Must not call [`Vm`](crate::vm::Vm) or block.
    fn has_delayed(&self) -> bool {
        false
    }

    /// Warns that a foreign call of `holder` has long kept the only native thread that `waiter` can
    /// run on. With `is_bound` the user has bound `waiter` to that thread; otherwise it has foreign
    /// frames there. The default does nothing.
    ///
    /// - Thread: the owner's.
    /// - Stack: the loop's, or that of a process that has reached a safepoint.
    /// - VM: outside, but the VM is not retaken meanwhile. So no process runs.
    /// - Must not call [`Vm`](crate::vm::Vm). May write a message, if that does not block.
    fn warn_thread(&self, holder: usize, waiter: usize, is_bound: bool) {
        let _ = (holder, waiter, is_bound);
    }

    /// Warns that signals have not preempted the running process, and why. Each kind of obstacle is
    /// reported once. The default writes a line to standard error.
    ///
    /// - Thread: the monitor, or one that looks at the VM.
    /// - Stack: its own.
    /// - VM: outside.
    /// - Must not call [`Vm`](crate::vm::Vm). May write a message, if that does not block.
    fn warn_unpreempted(&self, obstacle: Obstacle) {
        eprintln!("baton: warning: {}", Unpreempted(obstacle));
    }

    /// Exchanges what the guest keeps per thread. The process of `user_data` was moved to the
    /// calling thread for a foreign call ([`Inside::offload`](crate::vm::Inside::offload)), and
    /// continues there. The default does nothing.
    ///
    /// - Thread: the one that the call was moved to.
    /// - Stack: that of its loop.
    /// - VM: outside. Other processes run at the same time.
    /// - Must not call [`Vm`](crate::vm::Vm) or touch guest state.
    fn arrived(&self, user_data: usize) {
        let _ = user_data;
    }

    /// Forgets what the guest keeps per thread: a process leaves the calling thread for good,
    /// without a switch. Others have run beside its foreign call, which has returned; it continues
    /// wherever the VM is, or never. A signal handler on this thread must not find it any more. The
    /// default does nothing.
    ///
    /// - Thread: that of the call.
    /// - Stack: the process's.
    /// - VM: outside. Other processes run at the same time.
    /// - Must not call [`Vm`](crate::vm::Vm) or touch guest state.
    fn departed(&self) {}

    /// Has the process of `user_data` reach a safepoint soon: it was killed, and does not run at
    /// the moment. A guest that asks
    /// [`kill_is_due`](crate::sched::Scheduler::kill_is_due) at each instruction does nothing here.
    /// Others set a flag that the interpreter reads.
    ///
    /// - Thread: the owner's.
    /// - Stack: that of the process that kills, or the loop's when a killed process comes back from
    ///   a foreign call.
    /// - VM: inside, with the scheduler in use.
    /// - Must not call [`Vm`](crate::vm::Vm) or block.
    fn request_safepoint(&self, user_data: usize);

    /// Chooses the process that runs next; `None` for `suggested`, which the runtime would choose.
    /// `current` is the process that was left, if it lives. The default returns `None`.
    ///
    /// This is called while [`Inside::set_scheduler_hook`](crate::vm::Inside::set_scheduler_hook)
    /// is on, whenever a process has yielded, waits, has ended, or was preempted. If the chosen
    /// process cannot run, the runtime chooses.
    ///
    /// - Thread: the owner's.
    /// - Stack: the loop's.
    /// - VM: inside. No process is current, and the VM is not retaken meanwhile.
    /// - May call [`Vm`](crate::vm::Vm), for example to kill or to resume processes. A wait ends at
    ///   once with [`Dead`](crate::sched::WakeReason::Dead).
    fn scheduler_hook(
        &self,
        inside: &Inside<'_>,
        current: Option<usize>,
        suggested: usize,
    ) -> Option<ProcessId> {
        let _ = (inside, current, suggested);
        None
    }

    /// Takes note of a switch: the process `from` was left, and `to` will be continued. This is
    /// called if [`Inside::set_switch_hook`](crate::vm::Inside::set_switch_hook) is on for one of
    /// the two. The default does nothing.
    ///
    /// Thread, stack, VM and what it may call: as for [`scheduler_hook`](Guest::scheduler_hook).
    fn switch_hook(&self, inside: &Inside<'_>, from: Option<usize>, to: Option<usize>) {
        let _ = (inside, from, to);
    }

    /// Whether something that the runtime does not know of may still wake a process, though it
    /// knows of nothing: a thread of the guest's, say. Then how long to wait until this is asked
    /// again. Otherwise, `None` and the default, the VM waits for other VMs, or is deadlocked.
    ///
    /// Thread, stack, VM and what it may call: as for [`deadlocked`](Guest::deadlocked).
    fn may_be_woken(&self, inside: &Inside<'_>) -> Option<Duration> {
        let _ = inside;
        None
    }

    /// Reports a deadlock: as far as the runtime knows, no process can ever run again. While other
    /// VMs run, it is not called for a VM with processes that wait for objects which VMs share. If
    /// all VMs of the program wait for each other, it is called for at least one. Usually this ends
    /// the program. If it returns, the VM continues to wait. With a time, it is called again
    /// after that time if nothing has happened.
    ///
    /// - Thread: the owner's.
    /// - Stack: the loop's.
    /// - VM: inside. No process is current.
    /// - May call [`Vm`](crate::vm::Vm), for example to wake a process. It must not wait.
    fn deadlocked(&self, inside: &Inside<'_>) -> Option<Duration>;

    /// Takes note that a living process has other user data now
    /// ([`Inside::set_user_data`](crate::vm::Inside::set_user_data)). The default does nothing.
    ///
    /// - Thread: the owner's.
    /// - Stack: that of the process that calls.
    /// - VM: inside, with the scheduler in use.
    /// - Must not call [`Vm`](crate::vm::Vm) or block.
    fn user_data_changed(&self, before: usize, after: usize) {
        let _ = (before, after);
    }

    /// Repairs the guest's state in the child of a `fork`. All processes but the calling one, of
    /// `user_data`, have ended where they were: their stacks are gone. The default does nothing.
    ///
    /// - Thread: the only one of the child, within the first enter after the fork.
    /// - Stack: the process's own.
    /// - VM: inside.
    /// - May call [`Vm`](crate::vm::Vm). It must not wait, because the enter is not over.
    fn forked(&self, inside: &Inside<'_>, user_data: usize) {
        let _ = (inside, user_data);
    }

    /// How recorded runs ([`Vm::record`](crate::vm::Vm::record)) name what is the guest's. Its
    /// functions are called where a process is left: on the owner's thread, on the stack of that
    /// process or of the loop, inside, with the scheduler in use. They must not call
    /// [`Vm`](crate::vm::Vm), and should not allocate.
    fn wording(&self) -> &'static Wording {
        &Wording::PLAIN
    }

    /// Does the work that signal handlers have requested by
    /// [`Vm::request_signalled`](crate::vm::Vm::request_signalled).
    ///
    /// - Thread: the owner's. This is ordinary code, not a signal handler.
    /// - Stack: the loop's, or that of a process that has reached a safepoint.
    /// - VM: inside. A process may be current or not.
    /// - May call [`Vm`](crate::vm::Vm). It must not wait.
    fn signalled(&self, inside: &Inside<'_>);

    /// Takes note that a request for [`signalled`](Guest::signalled) has not been served yet, and
    /// does what can be done outside of the VM. The default does nothing.
    ///
    /// This is called at each poll of the monitor until the request is served: about each 2 ms
    /// while a foreign call keeps the VM. It is not called while the monitor has not been started.
    ///
    /// - Thread: the monitor.
    /// - Stack: the monitor's.
    /// - VM: outside. It must not touch guest state.
    /// - Must not call [`Vm`](crate::vm::Vm) or block for long.
    fn signal_waits(&self) {}
}

/// The text of a warning that signals do not preempt processes, or have not.
#[derive(Debug)]
pub struct Unpreempted(pub Obstacle);

impl Display for Unpreempted {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let verb = if self.0.is_mended() { "were" } else { "are" };
        write!(f, "processes that compute {verb} not preempted: {}", self.0)
    }
}

/// The calls of a guest: a panic in one of them ends the program, with a message that names it.
pub(crate) struct GuestCalls(pub(crate) Arc<dyn Guest>);

impl GuestCalls {
    #[inline(always)]
    pub(crate) fn run<'vm>(
        &self,
        inside: Inside<'vm>,
        process: ProcessId,
        user_data: usize,
    ) -> Inside<'vm> {
        calling(
            || "the guest's `run`",
            || self.0.run(inside, process, user_data),
        )
    }

    #[inline(always)]
    pub(crate) fn switched(&self, from: Option<usize>, to: Option<usize>) {
        calling(|| "the guest's `switched`", || self.0.switched(from, to))
    }

    #[inline(always)]
    pub(crate) fn retake_policy(&self, user_data: usize) -> RetakePolicy {
        calling(
            || "the guest's `retake_policy`",
            || self.0.retake_policy(user_data),
        )
    }

    #[inline(always)]
    pub(crate) fn warn_blocked(&self, user_data: usize) {
        calling(
            || "the guest's `warn_blocked`",
            || self.0.warn_blocked(user_data),
        )
    }

    #[inline(always)]
    pub(crate) fn has_delayed(&self) -> bool {
        calling(|| "the guest's `has_delayed`", || self.0.has_delayed())
    }

    pub(crate) fn warn_unpreempted(&self, obstacle: Obstacle) {
        calling(
            || "the guest's `warn_unpreempted`",
            || self.0.warn_unpreempted(obstacle),
        )
    }

    #[inline(always)]
    pub(crate) fn warn_thread(&self, holder: usize, waiter: usize, is_bound: bool) {
        calling(
            || "the guest's `warn_thread`",
            || self.0.warn_thread(holder, waiter, is_bound),
        )
    }

    #[inline(always)]
    pub(crate) fn arrived(&self, user_data: usize) {
        calling(|| "the guest's `arrived`", || self.0.arrived(user_data))
    }

    #[inline(always)]
    pub(crate) fn departed(&self) {
        calling(|| "the guest's `departed`", || self.0.departed())
    }

    #[inline(always)]
    pub(crate) fn request_safepoint(&self, user_data: usize) {
        calling(
            || "the guest's `request_safepoint`",
            || self.0.request_safepoint(user_data),
        )
    }

    #[inline(always)]
    pub(crate) fn user_data_changed(&self, before: usize, after: usize) {
        calling(
            || "the guest's `user_data_changed`",
            || self.0.user_data_changed(before, after),
        )
    }

    #[inline(always)]
    pub(crate) fn scheduler_hook(
        &self,
        inside: &Inside<'_>,
        current: Option<usize>,
        suggested: usize,
    ) -> Option<ProcessId> {
        calling(
            || "the guest's `scheduler_hook`",
            || self.0.scheduler_hook(inside, current, suggested),
        )
    }

    #[inline(always)]
    pub(crate) fn switch_hook(&self, inside: &Inside<'_>, from: Option<usize>, to: Option<usize>) {
        calling(
            || "the guest's `switch_hook`",
            || self.0.switch_hook(inside, from, to),
        )
    }

    #[inline(always)]
    pub(crate) fn may_be_woken(&self, inside: &Inside<'_>) -> Option<Duration> {
        calling(
            || "the guest's `may_be_woken`",
            || self.0.may_be_woken(inside),
        )
    }

    #[inline(always)]
    pub(crate) fn deadlocked(&self, inside: &Inside<'_>) -> Option<Duration> {
        calling(|| "the guest's `deadlocked`", || self.0.deadlocked(inside))
    }

    #[inline(always)]
    pub(crate) fn forked(&self, inside: &Inside<'_>, user_data: usize) {
        calling(
            || "the guest's `forked`",
            || self.0.forked(inside, user_data),
        )
    }

    pub(crate) fn wording(&self) -> &'static Wording {
        calling(|| "the guest's `wording`", || self.0.wording())
    }

    #[inline(always)]
    pub(crate) fn signal_waits(&self) {
        calling(|| "the guest's `signal_waits`", || self.0.signal_waits())
    }

    #[inline(always)]
    pub(crate) fn signalled(&self, inside: &Inside<'_>) {
        calling(|| "the guest's `signalled`", || self.0.signalled(inside))
    }
}

#[inline(always)]
fn calling<R, W: Fn() -> &'static str>(what: W, function: impl FnOnce() -> R) -> R {
    let half_changed = HalfChanged(what);
    let result = function();
    std::mem::forget(half_changed);
    result
}

/// A guard that ends the program when a panic drops it. The name of what panics is a function, so
/// that the guard has no size: a switch stores nothing for it.
struct HalfChanged<W: Fn() -> &'static str>(W);

impl<W: Fn() -> &'static str> Drop for HalfChanged<W> {
    #[cold]
    fn drop(&mut self) {
        drop(EndOfProgram::at_panic_in(
            (self.0)(),
            "its VM would be half changed",
        ));
    }
}
