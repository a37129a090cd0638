//! A guest without a language: its processes run closures. It implements all that the runtime
//! expects of an interpreter, and checks the runtime: there is one owner at a time, and each switch
//! is reported in order.

#![allow(dead_code, reason = "each test program uses a part of it")]
#![allow(unused_imports, reason = "as above")]

mod block;
mod driver;
mod process;
mod waiting_threads;

pub(crate) use block::Block;
pub(crate) use driver::{
    Finished, Running, await_event, hosted, interruptions, run, run_here, run_unbound, run_with,
    start, start_beside,
};
pub(crate) use process::{Killed, Life, Process, native_thread};
pub(crate) use waiting_threads::{ThreadTimes, this_thread, thread_named, times_of};

use baton_core::guest::{Guest, RetakePolicy};
use baton_core::sched::ProcessId;
use baton_core::vm::{Inside, Vm};
use baton_sys::owner_cell::OwnerCell;
use std::cell::Cell;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

/// The function of a process.
pub(crate) type Body = Box<dyn FnOnce(&Process) -> Life + Send>;

/// The function that is called when no process can ever run again.
pub(crate) type OnDeadlock = Box<dyn FnMut(&Inside<'_>) -> Option<Duration> + Send>;

/// A scheduler hook. Its arguments are the user data of the process that was left, and of the one
/// suggested.
pub(crate) type OnChoose =
    Box<dyn FnMut(&Inside<'_>, Option<usize>, usize) -> Option<ProcessId> + Send>;

/// A switch hook. Its arguments are the user data of the process that was left, and of the next
/// one.
pub(crate) type OnSwitching = Box<dyn FnMut(&Inside<'_>, Option<usize>, Option<usize>) + Send>;

/// The guest's policy for a process's foreign calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Policy {
    /// They may be retaken, and the process may continue anywhere.
    Retake,
    /// They may be retaken, and the process continues on the thread that it is on.
    RetakePinned,
    /// They keep the VM.
    Stay,
}

/// The guest's own record of a process.
struct Record {
    body: Option<Body>,
    policy: Policy,
}

thread_local! {
    /// The user data of the process that the thread runs: inside, or in a foreign call.
    static ON_THREAD: Cell<Option<usize>> = const { Cell::new(None) };
}

/// The state of the guest of one VM, shared by all its processes and by the test.
pub(crate) struct Mock {
    vm: OnceLock<Weak<Vm>>,
    /// By user data. Held for a few instructions, never across a wait.
    records: Mutex<Vec<Record>>,
    /// The user data of the running process plus one, 0 for the executor. The owner's.
    running: AtomicUsize,
    /// Used by every process that is inside, like a guest's heap.
    heap: OwnerCell<u64>,
    /// The right value of `heap`.
    touches: AtomicU64,
    /// How often no process could ever run again.
    pub(crate) deadlocks: AtomicU64,
    /// Exclusive calls that were warned about.
    pub(crate) warnings: AtomicU64,
    /// The reports of held threads: the user data of the holder and of the process that waits.
    held_threads: Mutex<Vec<(usize, usize)>>,
    /// How often signal handlers requested work.
    pub(crate) signals: AtomicU64,
    /// How often a process got a request for a safepoint.
    pub(crate) requests: AtomicU64,
    on_deadlock: Mutex<Option<OnDeadlock>>,
    on_scheduler_hook: Mutex<Option<OnChoose>>,
    on_switch_hook: Mutex<Option<OnSwitching>>,
}

/// The guest as the runtime sees it.
pub(crate) struct MockGuest(pub(crate) Arc<Mock>);

impl Mock {
    pub(crate) fn new() -> Arc<Mock> {
        Arc::new(Mock {
            vm: OnceLock::new(),
            records: Mutex::new(Vec::new()),
            running: AtomicUsize::new(0),
            heap: OwnerCell::new(0),
            touches: AtomicU64::new(0),
            deadlocks: AtomicU64::new(0),
            warnings: AtomicU64::new(0),
            held_threads: Mutex::new(Vec::new()),
            signals: AtomicU64::new(0),
            requests: AtomicU64::new(0),
            on_deadlock: Mutex::new(None),
            on_scheduler_hook: Mutex::new(None),
            on_switch_hook: Mutex::new(None),
        })
    }

    /// Adds a process that will run `body`. Returns its user data.
    pub(crate) fn add(&self, body: impl FnOnce(&Process) -> Life + Send + 'static) -> usize {
        let mut records = self.records();
        records.push(Record {
            body: Some(Box::new(body)),
            policy: Policy::Retake,
        });
        records.len() - 1
    }

    pub(crate) fn set_policy(&self, user_data: usize, policy: Policy) {
        self.records()[user_data].policy = policy;
    }

    /// Sets what to do when no process can ever run again.
    pub(crate) fn on_deadlock(&self, mut action: impl FnMut(&Inside<'_>) + Send + 'static) {
        self.on_deadlock_for_now(move |vm| {
            action(vm);
            None
        });
    }

    /// As [`Mock::on_deadlock`]; the action returns when the report is due again.
    pub(crate) fn on_deadlock_for_now(
        &self,
        action: impl FnMut(&Inside<'_>) -> Option<Duration> + Send + 'static,
    ) {
        let mut place = self.on_deadlock.lock().expect("actions do not panic");
        *place = Some(Box::new(action));
    }

    /// Sets the scheduler hook.
    pub(crate) fn on_scheduler_hook(
        &self,
        action: impl FnMut(&Inside<'_>, Option<usize>, usize) -> Option<ProcessId> + Send + 'static,
    ) {
        let mut place = self.on_scheduler_hook.lock().expect("actions do not panic");
        *place = Some(Box::new(action));
    }

    /// Sets the switch hook.
    pub(crate) fn on_switch_hook(
        &self,
        action: impl FnMut(&Inside<'_>, Option<usize>, Option<usize>) + Send + 'static,
    ) {
        let mut place = self.on_switch_hook.lock().expect("actions do not panic");
        *place = Some(Box::new(action));
    }

    /// Uses the heap as an interpreter would; inside the VM.
    pub(crate) fn touch(&self) {
        // SAFETY: its callers are processes, inside.
        unsafe { self.heap.with(|heap| *heap += 1) };
        self.touches.fetch_add(1, Ordering::Relaxed);
    }

    /// Checks that no two threads were ever inside at once: an update would be missing. Inside the
    /// VM.
    pub(crate) fn check_heap(&self) {
        // SAFETY: as above.
        let heap = unsafe { self.heap.with(|heap| *heap) };
        assert_eq!(heap, self.touches.load(Ordering::Relaxed));
    }

    /// The reports of held threads so far: the user data of the holder and of the process that
    /// waits.
    pub(crate) fn held_threads(&self) -> Vec<(usize, usize)> {
        let reports = self.held_threads.lock();
        reports.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn vm(&self) -> Arc<Vm> {
        let vm = self.vm.get().and_then(Weak::upgrade);
        vm.expect("the VM lives while its processes run")
    }

    fn records(&self) -> MutexGuard<'_, Vec<Record>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes which process the calling thread runs, if any.
    #[inline(never)] // The caller's process may have come from another thread.
    fn note_on_thread(from: Option<usize>, to: Option<usize>) {
        let before = ON_THREAD.replace(to);
        if before != from {
            give_up(&format!(
                "a thread goes from {from:?} to {to:?}, but {before:?} was on it"
            ));
        }
    }

    fn note_switch(&self, from: Option<usize>, to: Option<usize>) {
        let from = from.map_or(0, |user_data| user_data + 1);
        let to = to.map_or(0, |user_data| user_data + 1);
        // Relaxed: only the owner writes it; the VM lock orders one owner's accesses before the
        // next one's.
        let before = self.running.swap(to, Ordering::Relaxed);
        if before != from {
            give_up(&format!(
                "a switch from process {from} to {to}, but {before} was running"
            ));
        }
    }
}

impl Guest for MockGuest {
    fn run<'vm>(&self, inside: Inside<'vm>, id: ProcessId, user_data: usize) -> Inside<'vm> {
        let body = self.0.records()[user_data].body.take();
        let process = Process::new(inside, Arc::clone(&self.0), id, user_data);
        let body = body.expect("a process runs once");
        // A killed process ends without a message.
        let ended = catch_unwind(AssertUnwindSafe(|| drop(body(&process))));
        if ended.is_err() {
            give_up("a process has panicked");
        }
        process.vm
    }

    fn switched(&self, from: Option<usize>, to: Option<usize>) {
        self.0.note_switch(from, to);
        Mock::note_on_thread(from, to);
    }

    fn arrived(&self, user_data: usize) {
        assert!(user_data < self.0.records().len());
        Mock::note_on_thread(None, Some(user_data));
    }

    fn departed(&self) {
        ON_THREAD.set(None);
    }

    fn retake_policy(&self, user_data: usize) -> RetakePolicy {
        let policy = self.0.records()[user_data].policy;
        if policy == Policy::Stay {
            return RetakePolicy::Stay;
        }
        self.0.note_switch(Some(user_data), None);
        let pinned = policy == Policy::RetakePinned;
        RetakePolicy::Retake { pinned }
    }

    fn warn_blocked(&self, _user_data: usize) {
        self.0.warnings.fetch_add(1, Ordering::Relaxed);
    }

    fn warn_thread(&self, holder: usize, waiter: usize, _is_bound: bool) {
        let mut reports = self.0.held_threads.lock().expect("actions do not panic");
        reports.push((holder, waiter));
    }

    fn request_safepoint(&self, _user_data: usize) {
        self.0.requests.fetch_add(1, Ordering::Relaxed);
    }

    fn deadlocked(&self, inside: &Inside<'_>) -> Option<Duration> {
        self.0.deadlocks.fetch_add(1, Ordering::Relaxed);
        let mut action = self.0.on_deadlock.lock().expect("actions do not panic");
        if let Some(action) = action.as_mut() {
            return action(inside);
        }
        None
    }

    fn scheduler_hook(
        &self,
        inside: &Inside<'_>,
        current: Option<usize>,
        suggested: usize,
    ) -> Option<ProcessId> {
        self.0.touch();
        let mut action = self
            .0
            .on_scheduler_hook
            .lock()
            .expect("actions do not panic");
        let action = action
            .as_mut()
            .expect("only a test with a scheduler is asked");
        action(inside, current, suggested)
    }

    fn switch_hook(&self, inside: &Inside<'_>, from: Option<usize>, to: Option<usize>) {
        self.0.touch();
        let mut action = self.0.on_switch_hook.lock().expect("actions do not panic");
        let action = action.as_mut().expect("only a test with hooks is told");
        action(inside, from, to);
    }

    fn signalled(&self, _inside: &Inside<'_>) {
        self.0.signals.fetch_add(1, Ordering::Relaxed);
    }
}

/// Prints `why` on the real stderr, which the test harness does not capture, and ends all tests.
pub(crate) fn give_up(why: &str) -> ! {
    let _ = writeln!(std::io::stderr(), "mock guest: {why}");
    std::process::abort();
}
