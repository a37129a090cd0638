//! The smallest guest that preempts: its processes are closures that look at their gate as an interpreter does at each instruction.

use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use baton_core::guest::{Guest, Judgement};
use baton_core::kernel::{Priority, ProcessId, SpawnOptions};
use baton_core::vm::{HOME, Spawned, Vm};
use baton_sys::gate;

type Body = Box<dyn FnOnce(&Process) + Send>;

/// Bodies of processes, found by their words, and the VM that runs them.
#[derive(Default)]
struct Closures {
    bodies: Mutex<Vec<Option<Body>>>,
    vm: OnceLock<Weak<Vm>>,
}

/// A running process, as its body sees itself.
pub(crate) struct Process {
    pub(crate) vm: Arc<Vm>,
    pub(crate) id: ProcessId,
}

/// A VM to fill with processes.
pub(crate) struct Lab {
    closures: Arc<Closures>,
    pub(crate) vm: Arc<Vm>,
}

impl Lab {
    pub(crate) fn new() -> std::io::Result<Lab> {
        baton_sys::signals::install_preempt_handler(preempt)?;
        let closures = Arc::new(Closures::default());
        let vm = Vm::new(Arc::clone(&closures) as Arc<dyn Guest>)?;
        let _ = closures.vm.set(Arc::downgrade(&vm));
        Ok(Lab { closures, vm })
    }

    /// A process of this priority, before the VM runs. Like a program's main process it stays on the first thread.
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

    /// The same, with what else can be said of a process.
    pub(crate) fn spawn_with(
        &self,
        options: SpawnOptions,
        body: impl FnOnce(&Process) + Send + 'static,
    ) -> anyhow::Result<ProcessId> {
        let mut bodies = self.closures.bodies.lock().unwrap_or_else(PoisonError::into_inner);
        bodies.push(Some(Box::new(body)));
        let options = SpawnOptions {
            pin: Some(HOME),
            guest: bodies.len() - 1,
            ..options
        };
        Ok(self.vm.spawn_first(options, None, Spawned::Now)?)
    }
}

impl Process {
    /// What an interpreter does at an instruction: gives way if it is asked to.
    #[inline]
    pub(crate) fn checkpoint(&self) {
        if gate::here().slow() & gate::ATTENTION != 0 {
            self.vm.safepoint();
        }
    }
}

impl Guest for Closures {
    fn run(&self, id: ProcessId, word: usize) {
        let body = self.bodies.lock().unwrap_or_else(PoisonError::into_inner)[word].take();
        let vm = self.vm.get().and_then(Weak::upgrade);
        if let (Some(body), Some(vm)) = (body, vm) {
            body(&Process { vm, id });
        }
    }

    fn switched(&self, _from: Option<usize>, _to: Option<usize>) {}

    fn judge(&self, _word: usize) -> Judgement {
        Judgement::Stay
    }

    fn warn_blocked(&self, _word: usize) {}

    fn request_safepoint(&self, _word: usize) {}

    fn deadlocked(&self) -> Option<std::time::Duration> {
        eprintln!("no process can go on");
        std::process::exit(1);
    }

    fn signalled(&self) {}
}

/// What an interpreter's handler does: nothing outside the VM, else it has the next instruction look.
extern "C" fn preempt() {
    let here = gate::here();
    if here.value() & 1 == 0 {
        here.request_attention();
    }
}
