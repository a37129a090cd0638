//! What a guest (an interpreter) owes to the runtime.

use crate::kernel::ProcessId;
use std::time::Duration;

/// Whether the VM may be taken from a foreign call that lasts.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judgement {
    /// The VM may run other processes meanwhile.
    Retake {
        /// Foreign frames are on the process's stack: it continues only on the thread that it is on.
        pinned: bool,
    },
    /// The VM stays with the call ("exclusive").
    Stay,
}

/// A language on the runtime. One value serves one VM; `word` is the guest's own record of a process, opaque to the runtime.
pub trait Guest: Send + Sync + 'static {
    /// The life of a process, on the process's own stack, inside the VM. When it returns, the process has ended.
    fn run(&self, process: ProcessId, word: usize);

    /// The owner's thread leaves the process `from` and continues `to` (`None`: the executor itself).
    /// Exchanges what the guest keeps per process and per thread. Called inside the VM; must be quick.
    fn switched(&self, from: Option<usize>, to: Option<usize>);

    /// The VM was taken from a foreign call of the process `word`: may it stay taken? Called with nobody inside, by the monitor. When it answers `Retake`, the guest's per-VM state of the process has been put away.
    fn judge(&self, word: usize) -> Judgement;

    /// An exclusive foreign call of `word` has kept the VM from others for long. Called like [`Guest::judge`], or, if the call uses the guest's API all
    /// the while, by the call's own thread, just as it comes in: outside all the same, and nobody takes the VM meanwhile.
    fn warn_blocked(&self, word: usize);

    /// The process `word` goes on with a foreign call on the calling thread, outside the VM ([`Vm::move_out`](crate::vm::Vm::move_out)): the guest
    /// exchanges what it keeps per thread, and touches nothing of the VM.
    fn arrived(&self, word: usize) {
        let _ = word;
    }

    /// The process `word` must reach a safepoint soon: it was killed, or asked to give way, and is not running now.
    /// Called inside the VM.
    fn request_safepoint(&self, word: usize);

    /// Who is to run: `None` for `suggested`, which the runtime would choose. `current` is the process that was left, if it lives. Asked
    /// while [`Vm::set_choosing`](crate::vm::Vm::set_choosing) is on, whenever a process has yielded, waits, ended, or was preempted. If
    /// the one it names cannot run, the runtime chooses. Called inside the VM on the executor's stack, while nobody is current: what is done
    /// to processes takes effect, but nothing can wait.
    fn choose(&self, current: Option<usize>, suggested: usize) -> Option<ProcessId> {
        let _ = (current, suggested);
        None
    }

    /// The process `from` was left, and `to` will be continued; for each of them for which [`Vm::set_hooked`](crate::vm::Vm::set_hooked) is
    /// on. Called like [`Guest::choose`].
    fn switching(&self, from: Option<usize>, to: Option<usize>) {
        let _ = (from, to);
    }

    /// Nothing can ever run again, as far as the runtime knows. Called inside the VM on the executor's stack. Usually reports and ends the program;
    /// when it returns, the VM waits on, and asks again after the time that it answers, if nothing has happened by then.
    fn deadlocked(&self) -> Option<Duration>;

    /// This is a fork's child, and all processes but `word`, the calling one, have ended where they stood: their stacks are gone, and nothing of
    /// them runs any more. Called inside the VM, at the first enter after the fork.
    fn forked(&self, word: usize) {
        let _ = word;
    }

    /// Work that signal handlers asked for, on the executor's stack or at a safepoint, inside the VM.
    fn signalled(&self);
}
