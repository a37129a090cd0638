//! A process of the mock guest: the runtime's operations, with kills raised where an interpreter
//! raises them.

use super::{Mock, Policy};
use baton_core::sched::{Attempt, Deadline, ProcessId, Scheduler, SpawnOptions, Wake, WakeReason};
use baton_core::vm::{Context, Inside, Offloaded, Spawned};
use baton_sys::clock::Instant;
use baton_sys::gate;
use std::sync::Arc;
use std::thread::ThreadId;

/// The process was killed: its body returns at once.
#[derive(Debug)]
pub(crate) struct Killed;

/// The result of a body.
pub(crate) type Life = Result<(), Killed>;

/// A running process, for its body.
pub(crate) struct Process<'vm> {
    pub(crate) vm: Inside<'vm>,
    pub(crate) mock: Arc<Mock>,
    pub(crate) id: ProcessId,
    user_data: usize,
}

impl<'vm> Process<'vm> {
    pub(crate) fn new(
        vm: Inside<'vm>,
        mock: Arc<Mock>,
        id: ProcessId,
        user_data: usize,
    ) -> Process<'vm> {
        Process {
            vm,
            mock,
            id,
            user_data,
        }
    }

    /// Spawns a process with the default options.
    pub(crate) fn spawn(&self, body: impl FnOnce(&Process) -> Life + Send + 'static) -> ProcessId {
        self.spawn_with(SpawnOptions::default(), body)
    }

    /// Spawns a process.
    pub(crate) fn spawn_with(
        &self,
        options: SpawnOptions,
        body: impl FnOnce(&Process) -> Life + Send + 'static,
    ) -> ProcessId {
        self.make(options, Spawned::Now, body)
    }

    /// Spawns a process that a timer will fire.
    pub(crate) fn prepare(
        &self,
        options: SpawnOptions,
        body: impl FnOnce(&Process) -> Life + Send + 'static,
    ) -> ProcessId {
        self.make(options, Spawned::ByTimer, body)
    }

    fn make(
        &self,
        options: SpawnOptions,
        when: Spawned,
        body: impl FnOnce(&Process) -> Life + Send + 'static,
    ) -> ProcessId {
        let user_data = self.mock.add(body);
        let options = SpawnOptions {
            user_data,
            ..options
        };
        let spawned = self.vm.spawn(options, None, when);
        spawned.expect("there is room for the tests' processes")
    }

    /// Like an instruction of an interpreter: checks the gate, and reaches a safepoint if
    /// requested.
    pub(crate) fn checkpoint(&self) -> Life {
        self.mock.touch();
        if gate::here().slow() & gate::ATTENTION != 0 {
            self.vm.safepoint();
        }
        self.live()
    }

    /// Runs instructions until `condition` holds.
    pub(crate) fn spin_until(&self, mut condition: impl FnMut() -> bool) -> Life {
        while !condition() {
            self.checkpoint()?;
        }
        Ok(())
    }

    /// Lets equals run until `condition` holds.
    pub(crate) fn yield_until(&self, mut condition: impl FnMut() -> bool) -> Life {
        while !condition() {
            self.yield_now()?;
        }
        Ok(())
    }

    pub(crate) fn yield_now(&self) -> Life {
        self.vm.yield_now();
        self.checkpoint()
    }

    /// Runs an operation that may wait.
    pub(crate) fn block_on(
        &self,
        f: impl FnOnce(&mut Scheduler<Context>) -> Attempt,
    ) -> Result<Wake, Killed> {
        let wake = self.vm.block_on(f);
        self.mock.touch();
        self.live()?;
        assert_ne!(wake.reason, WakeReason::Killed);
        Ok(wake)
    }

    /// Runs an operation that must succeed.
    pub(crate) fn wait(
        &self,
        f: impl FnOnce(&mut Scheduler<Context>) -> Attempt,
    ) -> Result<u64, Killed> {
        let wake = self.block_on(f)?;
        assert_eq!(wake.reason, WakeReason::Done);
        Ok(wake.value)
    }

    /// Waits for the end of a process.
    pub(crate) fn join(&self, process: ProcessId) -> Life {
        self.wait(|sched| sched.join(process, Deadline::Never))?;
        Ok(())
    }

    /// Waits for the end of some processes.
    pub(crate) fn join_all(&self, processes: impl IntoIterator<Item = ProcessId>) -> Life {
        processes
            .into_iter()
            .try_for_each(|process| self.join(process))
    }

    pub(crate) fn sleep_until(&self, until: Instant) -> Life {
        let wake = self.vm.sleep_until(until);
        self.live()?;
        assert_eq!(wake.reason, WakeReason::Done);
        Ok(())
    }

    /// A foreign call that may be retaken.
    pub(crate) fn foreign<R>(&self, f: impl FnOnce() -> R) -> Result<R, Killed> {
        self.foreign_as(Policy::Retake, f)
    }

    /// A foreign call. If it pins the process, the process stays pinned until [`Process::unpin`].
    pub(crate) fn foreign_as<R>(&self, policy: Policy, f: impl FnOnce() -> R) -> Result<R, Killed> {
        self.mock.set_policy(self.user_data, policy);
        self.mock.touch();
        let result = self.outside().foreign(f);
        self.checkpoint()?;
        Ok(result)
    }

    /// A foreign call of a function that does something inside the VM before it returns.
    pub(crate) fn foreign_function<R>(
        &self,
        f: impl FnOnce() -> R,
        inside: impl FnOnce(R),
    ) -> Life {
        self.mock.set_policy(self.user_data, Policy::RetakePinned);
        self.mock.touch();
        inside(self.outside().foreign(f));
        self.unpin();
        self.checkpoint()
    }

    /// A foreign call that is made on another native thread if possible.
    pub(crate) fn foreign_elsewhere<R>(
        &self,
        f: impl FnOnce() -> R,
    ) -> Result<(R, Offloaded), Killed> {
        self.mock.set_policy(self.user_data, Policy::Retake);
        self.mock.touch();
        let result = self.outside().foreign_elsewhere(f);
        self.checkpoint()?;
        Ok(result)
    }

    /// A token to leave by, although the process's own is shared.
    fn outside(&self) -> Inside<'_> {
        // SAFETY: the process is inside; what the tests call outside uses no token.
        unsafe { Inside::assume(&self.vm) }
    }

    /// Notes that the last foreign frame has returned.
    pub(crate) fn unpin(&self) {
        self.vm.sched(|sched| sched.set_pinned(self.id, None));
    }

    fn live(&self) -> Life {
        let is_due = self.vm.sched(|sched| sched.kill_is_due(self.id));
        if is_due { Err(Killed) } else { Ok(()) }
    }
}

/// The native thread of the caller. Not inlined: a process may be on another thread after each
/// wait, so the result must not be kept across one.
#[inline(never)]
pub(crate) fn native_thread() -> ThreadId {
    std::thread::current().id()
}
