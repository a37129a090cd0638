//! Runs a VM of the mock guest from its first process to its end, within a limit.

use super::{Life, Mock, MockGuest, Process, give_up};
use baton_core::sched::SpawnOptions;
use baton_core::vm::{HOME, Spawned, Vm};
use baton_sys::{gate, signals};
use std::cell::Cell;
use std::io::Write;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Once};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// No test needs this long on any machine: a test that takes longer hangs. In an emulator on a busy
/// machine, some need three minutes.
const LIMIT: Duration = Duration::from_secs(600);

/// A VM that runs, on its own native threads.
pub(crate) struct Running {
    pub(crate) vm: Arc<Vm>,
    pub(crate) mock: Arc<Mock>,
    home: JoinHandle<()>,
    ended: Receiver<()>,
}

/// A VM that has ended.
pub(crate) struct Finished {
    pub(crate) vm: Arc<Vm>,
    pub(crate) mock: Arc<Mock>,
}

/// Runs a VM whose first process, bound to home, runs `main`; the VM ends with it.
pub(crate) fn run(main: impl FnOnce(&Process) -> Life + Send + 'static) -> Finished {
    run_with(|_| {}, main)
}

/// As [`run_with`], but an unbound process runs `body` while the first one waits for it. So home is
/// free for others.
pub(crate) fn run_unbound(
    configure: impl FnOnce(&Vm),
    body: impl FnOnce(&Process) -> Life + Send + 'static,
) -> Finished {
    run_with(configure, |main| {
        let unbound = main.spawn(body);
        main.join(unbound)
    })
}

/// As [`run`], with parameters set by `configure` first.
pub(crate) fn run_with(
    configure: impl FnOnce(&Vm),
    main: impl FnOnce(&Process) -> Life + Send + 'static,
) -> Finished {
    start(configure, main).finish()
}

/// Creates a VM that is ready to run. Returns the user data of its first process, too.
fn make(
    configure: impl FnOnce(&Vm),
    main: impl FnOnce(&Process) -> Life + Send + 'static,
) -> (Arc<Vm>, Arc<Mock>, usize) {
    prepare_program();
    let mock = Mock::new();
    let vm = Vm::new(Arc::new(MockGuest(Arc::clone(&mock)))).expect("a VM can be made");
    let _ = mock.vm.set(Arc::downgrade(&vm));
    configure(&vm);
    let user_data = mock.add(|process| {
        let lived = main(process);
        process.mock.check_heap();
        process.vm.stop();
        lived
    });
    (vm, mock, user_data)
}

/// As [`run_with`], on the calling thread, without a limit.
pub(crate) fn run_here(
    configure: impl FnOnce(&Vm),
    main: impl FnOnce(&Process) -> Life + Send + 'static,
) -> Finished {
    let (vm, mock, user_data) = make(configure, main);
    live_at_home(&vm, user_data);
    Finished { vm, mock }
}

/// Starts a VM, for a test that does something meanwhile.
pub(crate) fn start(
    configure: impl FnOnce(&Vm),
    main: impl FnOnce(&Process) -> Life + Send + 'static,
) -> Running {
    let (vm, mock, user_data) = make(configure, main);
    let (done, ended) = channel();
    let of_home = Arc::clone(&vm);
    let home = std::thread::spawn(move || {
        live_at_home(&of_home, user_data);
        let _ = done.send(());
    });
    Running {
        vm,
        mock,
        home,
        ended,
    }
}

/// A VM for a loop of the test's. Its first process, bound to home, runs `main`; the VM ends with
/// it.
pub(crate) fn hosted(
    configure: impl FnOnce(&Vm),
    main: impl FnOnce(&Process) -> Life + Send + 'static,
) -> Finished {
    let (vm, mock, user_data) = make(configure, main);
    spawn_at_home(&vm, user_data);
    Finished { vm, mock }
}

/// Starts a VM in the simulated run of another one. Called by a process of that run. The receiver
/// hears of the VM's end.
pub(crate) fn start_beside(
    other: &Vm,
    number: u64,
    main: impl FnOnce(&Process) -> Life + Send + 'static,
) -> (Arc<Vm>, Receiver<()>) {
    let (vm, _mock, user_data) = make(|vm| vm.simulate_beside(other, number), main);
    let (done, ended) = channel();
    let live = move |vm: Arc<Vm>| {
        live_at_home(&vm, user_data);
        let _ = done.send(());
    };
    let started = Arc::clone(&vm).run_in_turn("beside", 1 << 20, live);
    started.expect("there is room for a thread");
    (vm, ended)
}

fn live_at_home(vm: &Arc<Vm>, user_data: usize) {
    spawn_at_home(vm, user_data);
    vm.run();
}

fn spawn_at_home(vm: &Arc<Vm>, user_data: usize) {
    let options = SpawnOptions {
        pin: Some(HOME),
        user_data,
        ..SpawnOptions::default()
    };
    vm.spawn_first(options, None, Spawned::Now)
        .expect("there is room for the first process");
}

impl Running {
    /// Waits for the VM's end.
    pub(crate) fn finish(self) -> Finished {
        match self.ended.recv_timeout(LIMIT) {
            Ok(()) => {}
            Err(RecvTimeoutError::Timeout) => hang(&self.vm, &self.mock),
            Err(RecvTimeoutError::Disconnected) => give_up("the home thread has panicked"),
        }
        self.home.join().expect("the home thread has returned");
        Finished {
            vm: self.vm,
            mock: self.mock,
        }
    }
}

/// Waits until `condition` holds, on a thread without a VM.
pub(crate) fn await_event(what: &str, mut condition: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !condition() {
        if begin.elapsed() > LIMIT {
            give_up(&format!("waited in vain until {what}"));
        }
        std::thread::yield_now();
    }
}

fn hang(vm: &Vm, mock: &Mock) -> ! {
    let test = std::thread::current();
    let test = test.name().unwrap_or("a test");
    let deadlocks = &mock.deadlocks;
    give_up(&format!(
        "{test} hangs: {vm:?}, threads {}, deadlocks {deadlocks:?}, {:#?}",
        vm.threads(),
        vm.counters
    ));
}

fn prepare_program() {
    static PREPARED: Once = Once::new();
    PREPARED.call_once(|| {
        signals::install_preempt_handler(preempt).expect("the signal can be caught");
        // The harness captures what threads print, and loses it when the program aborts.
        std::panic::set_hook(Box::new(|panic| {
            let thread = std::thread::current();
            let thread = thread.name().unwrap_or("a thread");
            let _ = writeln!(std::io::stderr(), "{thread}: {panic}");
        }));
    });
}

thread_local! {
    static INTERRUPTIONS: Cell<u64> = const { Cell::new(0) };
}

/// How many signals for preemption this thread has handled.
pub(crate) fn interruptions() -> u64 {
    INTERRUPTIONS.get()
}

/// Like an interpreter's handler: does nothing outside the VM; inside, it makes the next
/// instruction check the gate.
extern "C" fn preempt() {
    INTERRUPTIONS.set(INTERRUPTIONS.get() + 1);
    let here = gate::here();
    if here.value() & 1 == 0 {
        here.set_attention();
    }
}
