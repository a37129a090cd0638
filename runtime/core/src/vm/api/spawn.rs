//! New processes, their stacks, and forgetting dead processes.

use crate::panics::broken;
use crate::sched::{Priority, ProcessId, ProcessLimit, SpawnOptions};
use crate::trace::What;
use crate::vm::{Context, Inner, Inside, ThreadRefusal, TimeUsed, Vm};
use baton_sys::clock::Instant;
use baton_sys::reserve;
use baton_sys::stack::{Stack, StackError};
use std::fmt;

/// Why a process could not be created.
#[derive(Debug)]
pub enum SpawnError {
    /// The limit on the number of processes is reached.
    Limit(ProcessLimit),
    /// No C stack could be allocated.
    Stack(StackError),
    /// No reserved stack of that size is free.
    NonePremade,
    /// There is no native thread to bind the process to.
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

/// When a new process starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spawned {
    /// When the scheduler chooses it, or after a resume if it was spawned suspended.
    Now,
    /// When a timer fires.
    ByTimer,
}

impl Inside<'_> {
    /// Creates a process. `stack_size` is in bytes; `None` means the VM's parameter.
    ///
    /// # Errors
    /// At the limit of processes, or without memory for its stack.
    pub fn spawn(
        &self,
        options: SpawnOptions,
        stack_size: Option<usize>,
        when: Spawned,
    ) -> Result<ProcessId, SpawnError> {
        self.with_inner(|inner| self.spawn_in(inner, options, stack_size, when))
    }

    /// As [`Inside::spawn`], for a process that is bound to the native thread of a name.
    ///
    /// ```
    /// use baton_core::vm::Spawned;
    /// # mod closures { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doctests/closures.rs")); }
    /// closures::run(|main| {
    ///     let options = main.options(|process| {
    ///         let named = process.vm.thread_names();
    ///         assert_eq!(named[&process.vm.current_carrier()], "sound");
    ///     });
    ///     let child = main.vm.spawn_on_thread("sound", options, None, Spawned::Now);
    ///     main.join(child.expect("there is room"));
    /// });
    /// ```
    ///
    /// # Errors
    /// As [`Inside::spawn`], and when there can be no thread for another name.
    pub fn spawn_on_thread(
        &self,
        name: &str,
        options: SpawnOptions,
        stack_size: Option<usize>,
        when: Spawned,
    ) -> Result<ProcessId, SpawnError> {
        let carrier = self.thread_named(name).map_err(SpawnError::Thread)?;
        let options = SpawnOptions {
            pin: Some(carrier),
            ..options
        };
        let spawned = self.spawn(options, stack_size, when);
        self.with_inner(|inner| self.let_go_unless_bound(inner, carrier));
        spawned
    }

    /// As [`Inside::spawn`], on a reserved stack, so that it makes no system call.
    /// [`Inside::reserve_stacks`] has an example.
    ///
    /// # Errors
    /// [`SpawnError::NonePremade`] if no stack of that size is ready, else as for
    /// [`Inside::spawn`].
    pub fn spawn_premade(
        &self,
        options: SpawnOptions,
        stack_size: Option<usize>,
        when: Spawned,
    ) -> Result<ProcessId, SpawnError> {
        self.with_inner(|inner| {
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

    /// Makes `count` stacks of a size (`None`: the parameter `stack_size`) ready for later
    /// processes: all of them, or none. Stacks that are ready already count. The stack of a process
    /// that has ended is ready for the next process of the same size.
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
        self.with_inner(|inner| {
            let stack_size = self.stack_size(inner, stack_size)?;
            inner.recycle_retired();
            inner.stacks.reserve(count, Some(stack_size))
        })
    }

    /// How many stacks of a size (`None`: the parameter `stack_size`) are ready.
    ///
    /// # Errors
    /// When the size is beyond the limit.
    pub fn premade_stacks(&self, stack_size: Option<usize>) -> Result<usize, StackError> {
        self.with_inner(|inner| self.count_premade(inner, stack_size))
    }
}

impl Vm {
    fn count_premade(
        &self,
        inner: &mut Inner,
        stack_size: Option<usize>,
    ) -> Result<usize, StackError> {
        let stack_size = self.stack_size(inner, stack_size)?;
        inner.recycle_retired();
        inner.stacks.premade(Some(stack_size))
    }

    /// The size that was asked for, or else the parameter, which the pool then makes its default.
    #[inline]
    fn stack_size(&self, inner: &mut Inner, asked: Option<usize>) -> Result<usize, StackError> {
        match asked {
            Some(size) => Ok(size),
            None => {
                let size = self.parameters.stack_size();
                inner.stacks.set_default_size(size)?;
                Ok(size)
            }
        }
    }

    /// As [`Inside::spawn`], but before [`Vm::run`], while no thread is inside.
    ///
    /// # Panics
    /// While the VM runs.
    ///
    /// # Errors
    /// As for [`Inside::spawn`].
    pub fn spawn_first(
        &self,
        options: SpawnOptions,
        stack_size: Option<usize>,
        when: Spawned,
    ) -> Result<ProcessId, SpawnError> {
        self.before_run(|inner| self.spawn_in(inner, options, stack_size, when))
    }

    /// As [`Inside::name_process`], but before [`Vm::run`], while no thread is inside.
    ///
    /// # Panics
    /// While the VM runs.
    pub fn name_first_process(&self, process: ProcessId, name: &str) {
        self.before_run(|inner| inner.sched.set_process_name(process, name));
    }

    fn spawn_in(
        &self,
        inner: &mut Inner,
        options: SpawnOptions,
        stack_size: Option<usize>,
        when: Spawned,
    ) -> Result<ProcessId, SpawnError> {
        let stack_size = self
            .stack_size(inner, stack_size)
            .map_err(SpawnError::Stack)?;
        // Checked first: otherwise a failure would have to give a stack back.
        inner.sched.check_room().map_err(SpawnError::Limit)?;
        let stack = inner.stack(Some(stack_size)).map_err(SpawnError::Stack)?;
        let context = Context {
            stack: Some(stack),
            ..Context::default()
        };
        let spawned = match when {
            Spawned::Now => inner.sched.spawn(options, context),
            Spawned::ByTimer => inner.sched.spawn_prepared(options, context),
        };
        if let Ok(process) = spawned
            && self.is_simulated()
        {
            inner.number_process(process);
        }
        if let Ok(process) = spawned {
            let by = inner.sched.current();
            inner.trace(|| What::Spawned { process, by });
        }
        self.update_hints(inner);
        spawned.map_err(SpawnError::Limit)
    }
}

/// What is kept of a process that the scheduler forgets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastAccount {
    /// The time that it has used.
    pub time: TimeUsed,
    /// Its priority.
    pub priority: Priority,
}

impl Inside<'_> {
    /// The last call of a process that has ended: [`Guest::run`](crate::guest::Guest::run) returns
    /// next. The scheduler then forgets it, so that its id is stale, and nobody has to call
    /// [`Inside::forget`]. Processes that join it are woken as always.
    ///
    /// ```
    /// use baton_core::sched::State;
    /// # mod closures { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doctests/closures.rs")); }
    /// closures::run(|main| {
    ///     let child = main.spawn(|process| _ = process.vm.end());
    ///     main.join(child);
    ///     assert_eq!(main.vm.sched(|sched| sched.state(child)), State::Dead);
    ///     let other = main.spawn(|_| {}); // in the same place
    ///     assert_ne!(child, other);
    /// });
    /// ```
    ///
    /// # Panics
    /// If no process runs.
    pub fn end(&self) -> LastAccount {
        self.with_inner(|inner| {
            let me = inner
                .sched
                .current()
                .unwrap_or_else(|| broken("a process ends that is not current"));
            inner.account(me, Instant::now().as_nanos());
            let priority = inner.sched.priority(me);
            let context = inner.context_mut(me);
            context.is_forgotten_at_end = true;
            LastAccount {
                time: TimeUsed::of(context),
                priority,
            }
        })
    }

    /// Forgets a dead process, or one that no timer will fire. Its id is stale afterwards.
    pub fn forget(&self, process: ProcessId) {
        self.with_inner(|inner| {
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
        let stack = self.stacks.allocate(size);
        if let Err(StackError::NoAddressSpace { .. }) = stack {
            reserve::note_shortage(); // the guest collects its garbage, and tries again
        }
        stack
    }
}
