// The guest of the examples in this crate's documentation, each of which includes it as a module.
// Its processes are closures, as in the example at the head of the crate, and each gets a handle to
// itself. It does the minimum of what a guest must do.

use baton_core::guest::{Guest, RetakePolicy};
use baton_core::sched::{Deadline, ProcessId, SpawnOptions};
use baton_core::vm::{Inside, Spawned, Vm};
use std::sync::{Arc, Mutex};
use std::time::Duration;

type Body = Box<dyn FnOnce(&mut Process<'_>) + Send>;

/// The state that the guest and all its processes share.
#[derive(Default)]
struct Shared {
    /// By the user data of the process.
    bodies: Mutex<Vec<Option<Body>>>,
    notes: Mutex<Vec<&'static str>>,
    preferred: Mutex<Option<ProcessId>>,
}

impl Shared {
    fn options(&self, body: impl FnOnce(&mut Process<'_>) + Send + 'static) -> SpawnOptions {
        let mut bodies = self.bodies.lock().unwrap();
        bodies.push(Some(Box::new(body)));
        SpawnOptions {
            user_data: bodies.len() - 1,
            ..SpawnOptions::default()
        }
    }

    fn note(&self, what: &'static str) {
        self.notes.lock().unwrap().push(what);
    }
}

struct Closures(Arc<Shared>);

impl Guest for Closures {
    fn run<'vm>(&self, vm: Inside<'vm>, id: ProcessId, user_data: usize) -> Inside<'vm> {
        let body = self.0.bodies.lock().unwrap()[user_data].take().expect("a process runs once");
        let mut process = Process {
            vm,
            id,
            shared: Arc::clone(&self.0),
        };
        body(&mut process);
        process.vm
    }

    fn switched(&self, _from: Option<usize>, _to: Option<usize>) {}

    fn retake_policy(&self, _user_data: usize) -> RetakePolicy {
        RetakePolicy::Retake { pinned: false }
    }

    fn warn_blocked(&self, _user_data: usize) {}

    fn request_safepoint(&self, _user_data: usize) {}

    fn scheduler_hook(
        &self,
        _inside: &Inside<'_>,
        _current: Option<usize>,
        _suggested: usize,
    ) -> Option<ProcessId> {
        *self.0.preferred.lock().unwrap()
    }

    fn switch_hook(&self, _inside: &Inside<'_>, _from: Option<usize>, _to: Option<usize>) {
        self.0.note("a switch");
    }

    /// Another thread may still wake a process.
    fn deadlocked(&self, _inside: &Inside<'_>) -> Option<Duration> {
        None
    }

    fn signalled(&self, _inside: &Inside<'_>) {
        self.0.note("a signal");
    }
}

/// A running process, for its body.
pub struct Process<'vm> {
    pub vm: Inside<'vm>,
    pub id: ProcessId,
    shared: Arc<Shared>,
}

impl Process<'_> {
    /// The options of a process that runs `body`.
    pub fn options(&self, body: impl FnOnce(&mut Process<'_>) + Send + 'static) -> SpawnOptions {
        self.shared.options(body)
    }

    /// Spawns a process with the default options.
    pub fn spawn(&self, body: impl FnOnce(&mut Process<'_>) + Send + 'static) -> ProcessId {
        self.vm
            .spawn(self.options(body), None, Spawned::Now)
            .expect("there is room")
    }

    /// Waits for the end of a process.
    pub fn join(&self, other: ProcessId) {
        self.vm.block_on(|sched| sched.join(other, Deadline::Never));
    }

    pub fn note(&self, what: &'static str) {
        self.shared.note(what);
    }

    /// The notes so far.
    pub fn noted(&self) -> Vec<&'static str> {
        self.shared.notes.lock().unwrap().clone()
    }

    /// Sets the process that `scheduler_hook` returns.
    pub fn prefer(&self, process: ProcessId) {
        *self.shared.preferred.lock().unwrap() = Some(process);
    }
}

/// A VM for a loop of the caller's. It ends with its first process, which runs `main`.
pub fn hosted(main: impl FnOnce(&mut Process<'_>) + Send + 'static) -> Arc<Vm> {
    prepare(|_| {}, main)
}

/// Runs a VM whose first process runs `main`; the VM ends with it.
pub fn run(main: impl FnOnce(&mut Process<'_>) + Send + 'static) {
    run_with(|_| {}, main);
}

/// As [`run`], for a VM that `configure` has prepared.
pub fn run_with(configure: impl FnOnce(&Vm), main: impl FnOnce(&mut Process<'_>) + Send + 'static) {
    prepare(configure, main).run();
}

fn prepare(
    configure: impl FnOnce(&Vm),
    main: impl FnOnce(&mut Process<'_>) + Send + 'static,
) -> Arc<Vm> {
    let shared = Arc::new(Shared::default());
    let vm = Vm::new(Arc::new(Closures(Arc::clone(&shared)))).expect("a VM can be made");
    configure(&vm);
    let first = shared.options(move |process| {
        main(process);
        process.vm.stop();
    });
    vm.spawn_first(first, None, Spawned::Now).expect("there is room");
    vm
}
