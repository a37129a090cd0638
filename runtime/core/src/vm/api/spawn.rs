//! New processes, their stacks, and the end of what is kept of them.

use crate::sched::{ProcessId, ProcessLimit, SpawnOptions};
use crate::vm::{Context, Inner, ThreadRefusal, Vm};
use baton_sys::stack::{Stack, StackError};
use std::fmt;

/// Why a process could not be made.
#[derive(Debug)]
pub enum SpawnError {
    /// There are as many processes as there may be.
    Limit(ProcessLimit),
    /// There is no C stack for it.
    Stack(StackError),
    /// No stack of that size was reserved that is free.
    NonePremade,
    /// There is no native thread to bind it to.
    Thread(ThreadRefusal),
}

impl fmt::Display for SpawnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SpawnError::Limit(limit) => write!(f, "{limit}"),
            SpawnError::Stack(error) => write!(f, "no stack for another process: {error}"),
            SpawnError::NonePremade => {
                f.write_str("no stack for another process is ready (reserve more of that size)")
            }
            SpawnError::Thread(refusal) => write!(f, "{refusal}"),
        }
    }
}

impl std::error::Error for SpawnError {}

/// When a new process begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spawned {
    /// As soon as it is chosen (or resumed, if it was spawned suspended).
    Now,
    /// When a timer fires it.
    ByTimer,
}

impl Vm {
    /// A new process; `stack_size` in bytes, or the VM's parameter.
    ///
    /// # Errors
    /// At the limit of processes, or without memory for its stack.
    pub fn spawn(
        &self,
        options: SpawnOptions,
        stack_size: Option<usize>,
        when: Spawned,
    ) -> Result<ProcessId, SpawnError> {
        self.inner
            .with(|inner| self.spawn_in(inner, options, stack_size, when))
    }

    /// As [`Vm::spawn`], on a stack that is ready: nothing is asked of the system.
    /// [`Vm::reserve_stacks`] has an example.
    ///
    /// # Errors
    /// [`SpawnError::NonePremade`] if no stack of that size is ready, else as for [`Vm::spawn`].
    pub fn spawn_premade(
        &self,
        options: SpawnOptions,
        stack_size: Option<usize>,
        when: Spawned,
    ) -> Result<ProcessId, SpawnError> {
        self.inner.with(|inner| {
            if self
                .count_premade(inner, stack_size)
                .map_err(SpawnError::Stack)?
                == 0
            {
                return Err(SpawnError::NonePremade);
            }
            self.spawn_in(inner, options, stack_size, when)
        })
    }

    /// Has `count` stacks of a size (or of the parameter `stack_size`) ready for processes to come:
    /// all of them, or none. Those that are ready already count. Stacks of processes that have
    /// ended are ready for others of the same size.
    ///
    /// ```
    /// use baton_core::vm::Spawned;
    /// # mod closures { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doctests/closures.rs")); }
    /// closures::run(|main| {
    ///     let size = Some(256 * 1024);
    ///     main.vm.reserve_stacks(2, size).expect("there is room");
    ///     main.vm.spawn_premade(main.options(|_| {}), size, Spawned::Now).expect("two are ready");
    ///     assert_eq!(main.vm.premade_stacks(size).ok(), Some(1));
    /// });
    /// ```
    ///
    /// # Errors
    /// When the system refuses, or the size is beyond the limit: as for
    /// [`StackPool::reserve`](baton_sys::stack::StackPool::reserve).
    pub fn reserve_stacks(
        &self,
        count: usize,
        stack_size: Option<usize>,
    ) -> Result<(), StackError> {
        let stack_size = stack_size.unwrap_or_else(|| self.parameters.stack_size());
        self.inner.with(|inner| {
            inner.recycle_retired();
            inner.stacks.reserve(count, Some(stack_size))
        })
    }

    /// How many stacks of a size (or of the parameter `stack_size`) are ready.
    ///
    /// # Errors
    /// When the size is beyond the limit.
    pub fn premade_stacks(&self, stack_size: Option<usize>) -> Result<usize, StackError> {
        self.inner
            .with(|inner| self.count_premade(inner, stack_size))
    }

    fn count_premade(
        &self,
        inner: &mut Inner,
        stack_size: Option<usize>,
    ) -> Result<usize, StackError> {
        let stack_size = stack_size.unwrap_or_else(|| self.parameters.stack_size());
        inner.recycle_retired();
        inner.stacks.premade(Some(stack_size))
    }

    /// The same before [`Vm::run`], when nobody is inside yet.
    ///
    /// # Errors
    /// As for [`Vm::spawn`].
    pub fn spawn_first(
        &self,
        options: SpawnOptions,
        stack_size: Option<usize>,
        when: Spawned,
    ) -> Result<ProcessId, SpawnError> {
        let _state = self.lock_state();
        self.inner
            .with_mutex_held(|inner| self.spawn_in(inner, options, stack_size, when))
    }

    fn spawn_in(
        &self,
        inner: &mut Inner,
        options: SpawnOptions,
        stack_size: Option<usize>,
        when: Spawned,
    ) -> Result<ProcessId, SpawnError> {
        let stack_size = stack_size.unwrap_or_else(|| self.parameters.stack_size());
        // First, as a stack that was taken would have to be given back.
        inner.sched.check_room().map_err(SpawnError::Limit)?;
        let stack = inner.stack(Some(stack_size)).map_err(SpawnError::Stack)?;
        let context = Context {
            fiber: None,
            stack: Some(stack),
            busy: 0,
            absent: 0,
            left_at: 0,
            slice_began: 0,
            slice: 0,
            is_hooked: false,
            is_interrupted: false,
            ended_at: 0,
        };
        let spawned = match when {
            Spawned::Now => inner.sched.spawn(options, context),
            Spawned::ByTimer => inner.sched.spawn_prepared(options, context),
        };
        self.update_hints(inner);
        spawned.map_err(SpawnError::Limit)
    }

    /// Forgets a dead process, or one that no timer will fire; its id is stale from then on.
    pub fn forget(&self, process: ProcessId) {
        self.inner.with(|inner| {
            if let Some(context) = inner.sched.payload_mut(process)
                && context.fiber.is_none()
                && let Some(stack) = context.stack.take()
            {
                inner.stacks.recycle(stack);
            }
            self.unhook(inner, process);
            self.change_slice(inner, process, 0);
            inner.sched.forget(process);
        });
    }
}

impl Inner {
    fn recycle_retired(&mut self) {
        if let Some(stack) = self.retired.take() {
            self.stacks.recycle(stack);
        }
    }

    fn stack(&mut self, size: Option<usize>) -> Result<Stack, StackError> {
        self.recycle_retired();
        self.stacks.allocate(size)
    }
}
