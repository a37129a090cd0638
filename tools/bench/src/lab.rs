//! The smallest guest that can be preempted. Its processes are closures that check their gate, as
//! an interpreter does at each instruction.

use std::sync::{Arc, Mutex, PoisonError};

use baton_core::guest::{Guest, RetakePolicy};
use baton_core::sched::{Priority, ProcessId, SpawnOptions};
use baton_core::vm::{HOME, Inside, Spawned, Vm};
use baton_sys::gate;

type Body = Box<dyn FnOnce(&Process) + Send>;

/// The functions of the processes, found by `user_data`.
#[derive(Default)]
struct Closures {
    bodies: Mutex<Vec<Option<Body>>>,
}

/// A running process, as its own function sees it.
pub(crate) struct Process<'vm> {
    pub(crate) vm: Inside<'vm>,
    pub(crate) id: ProcessId,
}

/// A VM to which processes can be added.
pub(crate) struct Lab {
    closures: Arc<Closures>,
    pub(crate) vm: Arc<Vm>,
}

impl Lab {
    pub(crate) fn new() -> std::io::Result<Lab> {
        baton_sys::signals::install_preempt_handler(preempt)?;
        let closures = Arc::new(Closures::default());
        let vm = Vm::new(Arc::clone(&closures) as Arc<dyn Guest>)?;
        Ok(Lab { closures, vm })
    }

    /// Adds a process with this priority, before the VM runs. Like the main process of a program,
    /// it stays on the first thread.
    pub(crate) fn spawn(
        &self,
        priority: u8,
        suspended: bool,
        body: impl FnOnce(&Process) + Send + 'static,
    ) -> anyhow::Result<ProcessId> {
        let options = SpawnOptions {
            priority: Priority::new(priority).unwrap_or_default(),
            suspended,
            ..SpawnOptions::default()
        };
        self.spawn_with(options, body)
    }

    /// Adds a process with further options.
    pub(crate) fn spawn_with(
        &self,
        options: SpawnOptions,
        body: impl FnOnce(&Process) + Send + 'static,
    ) -> anyhow::Result<ProcessId> {
        let mut bodies = self
            .closures
            .bodies
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        bodies.push(Some(Box::new(body)));
        let options = SpawnOptions {
            pin: Some(HOME),
            user_data: bodies.len() - 1,
            ..options
        };
        Ok(self.vm.spawn_first(options, None, Spawned::Now)?)
    }
}

impl Process<'_> {
    /// The check that an interpreter makes at an instruction: gives way if requested.
    #[inline]
    pub(crate) fn checkpoint(&self) {
        if gate::here().slow() & gate::ATTENTION != 0 {
            self.vm.safepoint();
        }
    }
}

impl Guest for Closures {
    fn run<'vm>(&self, vm: Inside<'vm>, id: ProcessId, user_data: usize) -> Inside<'vm> {
        let body = self.bodies.lock().unwrap_or_else(PoisonError::into_inner)[user_data].take();
        let process = Process { vm, id };
        if let Some(body) = body {
            body(&process);
        }
        process.vm
    }

    fn switched(&self, _from: Option<usize>, _to: Option<usize>) {}

    fn retake_policy(&self, _user_data: usize) -> RetakePolicy {
        RetakePolicy::Stay
    }

    fn warn_blocked(&self, _user_data: usize) {}

    fn request_safepoint(&self, _user_data: usize) {}

    fn deadlocked(&self, _inside: &Inside<'_>) -> Option<std::time::Duration> {
        eprintln!("no process can go on");
        std::process::exit(1);
    }

    fn signalled(&self, _inside: &Inside<'_>) {}
}

/// The signal handler of the guest. Outside the VM it does nothing. Inside, it makes the next
/// checkpoint check for requests.
extern "C" fn preempt() {
    let here = gate::here();
    if here.value() & 1 == 0 {
        here.set_attention();
    }
}
