//! The processor time of a VM's native threads, and which part of it calls have used beside which
//! others ran.
//!
//! Such a call computes on a thread that does not have the VM, so no switch and no safepoint of the
//! VM sees its time. The thread's own clock is read instead:
//!
//! | when | by | what becomes of the reading |
//! |---|---|---|
//! | the VM is taken from the call | the monitor, in `apply_retake_policy` | [`Outside::began`](crate::vm::lock::state::Outside) |
//! | an offloaded call begins | its thread | the same |
//! | the call comes back | its thread, in `take_call` | the time since is the process's, and is counted for the thread |
//! | at any time between | whoever asks | the call's time so far |
//!
//! All under the VM's mutex.

use crate::sched::{CarrierId, ProcessId, State};
use crate::vm::lock::state::LockState;
use crate::vm::look::View;
use crate::vm::{Inner, Inside, TimeUsed, Vm};
use std::time::Duration;

/// The processor time of a native thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadTime {
    /// The thread.
    pub carrier: CarrierId,
    /// Its number in the system.
    pub thread: i32,
    /// Its processor time so far. `None` if the system does not tell.
    pub cpu: Option<Duration>,
    /// What calls beside which others ran have used of it so far, the present one included.
    pub in_calls: Duration,
    /// The present one of these calls.
    pub call: Option<CallBeside>,
}

/// A call beside which others run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallBeside {
    /// The process that makes it.
    pub process: ProcessId,
    /// The processor time of its thread when others began to run. No two calls of a thread that use
    /// a processor have the same.
    pub began: Duration,
}

impl LockState {
    fn add_thread_times(&self, times: &mut Vec<ThreadTime>) {
        let numbered = self.carriers.iter().zip(0..);
        times.extend(numbered.filter_map(|(entry, carrier)| {
            let (entry, carrier) = (entry.as_ref()?, CarrierId(carrier));
            let thread = entry.thread?;
            let call = entry.out.and_then(|out| {
                Some(CallBeside {
                    process: out.process,
                    began: out.began?,
                })
            });
            let cpu = thread.cpu_time();
            let so_far = call
                .zip(cpu)
                .map(|(call, cpu)| cpu.saturating_sub(call.began));
            Some(ThreadTime {
                carrier,
                thread: thread.id(),
                cpu,
                in_calls: entry.cpu_of_calls + so_far.unwrap_or_default(),
                call,
            })
        }));
    }

    /// The calls beside which others run, and the processor time of each so far.
    fn calls_so_far(&self) -> Vec<(ProcessId, Duration)> {
        let entries = self.carriers.iter().flatten();
        let calls = entries.filter_map(|entry| {
            let out = entry.out?;
            let cpu = entry.thread?.cpu_time()?;
            Some((out.process, cpu.saturating_sub(out.began?)))
        });
        calls.collect()
    }
}

impl Vm {
    /// The processor times of the native threads that have started. On any thread, but not in a
    /// look.
    pub fn thread_times(&self) -> Vec<ThreadTime> {
        let mut times = Vec::new();
        self.lock_state().add_thread_times(&mut times);
        times
    }
}

impl View<'_> {
    /// Appends the processor times of the native threads that have started.
    pub fn add_thread_times(&self, times: &mut Vec<ThreadTime>) {
        match self.state {
            Some(state) => state.add_thread_times(times),
            None => self.vm.lock_state().add_thread_times(times),
        }
    }

    /// The processor times so far of the calls beside which others run.
    pub(super) fn calls_so_far(&self) -> Vec<(ProcessId, Duration)> {
        match self.state {
            Some(state) => state.calls_so_far(),
            None => self.vm.lock_state().calls_so_far(),
        }
    }
}

impl Inside<'_> {
    /// Adds what the present call of a process has used, if others run beside that.
    pub(in crate::vm) fn add_call_so_far(&self, process: ProcessId, used: &mut TimeUsed) {
        if self.with_inner(|inner| inner.sched.state(process)) == State::Foreign {
            used.cpu += of(process, &self.lock_state().calls_so_far());
        }
    }
}

/// The time of a process in a list.
pub(super) fn of(process: ProcessId, calls: &[(ProcessId, Duration)]) -> Duration {
    let its = calls.iter().find(|(of, _)| *of == process);
    its.map(|(_, cpu)| *cpu).unwrap_or_default()
}

impl Inner {
    /// Charges a process with the processor time of a call that has ended, beside which others ran.
    pub(in crate::vm) fn charge_call(&mut self, process: ProcessId, cpu: Duration) {
        if let Some(context) = self.sched.payload_mut(process) {
            context.cpu_of_calls += u64::try_from(cpu.as_nanos()).unwrap_or(u64::MAX);
        }
    }
}
