//! Wakers: they resume a process or signal a semaphore, from a signal handler or any thread.
//!
//! A post allocates memory, which a signal handler must not do. So a waker is allocated beforehand.
//! A wake adds to a count, sets a bit and kicks the owner. The owner serves the count when it takes
//! in posts. A waker may be dropped right after a wake: its state is kept until the owner has
//! served it.
//!
//! **No wake is lost.** [`Waker::wake`] increments the count, then sets [`request::WOKEN`], and
//! then notifies by the protocol of [`baton_sys::parking`], as a post does. The owner clears the
//! bit before it takes the counts. A wake that counts after that sets the bit again.
//!
//! **Who hears of a wake** ([`Vm::request`]):
//!
//! | the owner | the waker is used | reached by |
//! |---|---|---|
//! | idles | anywhere | a kick of its poller |
//! | spins | anywhere | the notification that it watches |
//! | runs, inside | in a signal handler on its own thread | the attention flag and the guest's own preempt handler, both on this thread; and the monitor, if that rests |
//! | runs | on another thread, or in a foreign call | an alert of the monitor |
//!
//! In the third row no other thread has to run. The handler has notified, so the owner cannot begin
//! an idle wait before it has served the wake: its next `prepare` sees the notification. While it
//! runs, the guest reaches a safepoint by the flag or the handler. If it misses both, the monitor
//! finds the bit at its next tick. A resting monitor is alerted, by the barrier of
//! `vm/preempt/monitor.rs`: it sees the bit before it rests, or is seen resting.

use crate::sched::{ProcessId, SemaphoreId};
use crate::vm::{Inner, Inside, Vm, request};
use baton_sys::gate;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// What a wake does. If the process or semaphore is gone by then, it does nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WakeAction {
    /// Resumes a suspended process.
    Resume(ProcessId),
    /// Signals a semaphore, once for each wake.
    Signal(SemaphoreId),
}

/// A handle that wakes a process or signals a semaphore of a VM from any thread or signal handler.
/// The last clone frees its state.
#[derive(Clone, Debug)]
pub struct Waker {
    state: Arc<WakerState>,
    vm: Arc<Vm>,
}

#[derive(Debug)]
pub(in crate::vm) struct WakerState {
    action: WakeAction,
    /// Wakes not served yet.
    pending: AtomicU64,
}

impl Waker {
    /// Has the action carried out soon. May be called on any thread, in a signal handler, inside or
    /// outside the VM. Allocates nothing, takes no lock and preserves errno. If it makes a more
    /// urgent process runnable, that process preempts the running one.
    ///
    /// A signal handler must use a waker that lives as long as the handler is installed: dropping a
    /// waker frees memory.
    pub fn wake(&self) {
        // Release: pairs with the swap in `serve_wakers`.
        self.state.pending.fetch_add(1, Ordering::Release);
        let _ = self.vm.request(request::WOKEN);
        let here = gate::here();
        if here.carrier().is_some() {
            // This may be the thread of a process in a foreign call. Then it serves the wake when
            // it enters.
            here.set_attention();
        }
    }
}

impl Inside<'_> {
    /// Creates a waker. Inside the VM. Starts the monitor, as a signal handler cannot start it.
    ///
    /// ```
    /// use baton_core::sched::Deadline;
    /// use baton_core::vm::WakeAction;
    /// # mod closures { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doctests/closures.rs")); }
    /// closures::run(|main| {
    ///     let semaphore = main.vm.sched(|sched| sched.semaphore_new(0));
    ///     let waker = main.vm.new_waker(WakeAction::Signal(semaphore));
    ///     let thread = std::thread::spawn(move || waker.wake()); // or a signal handler
    ///     main.vm.block_on(|sched| sched.semaphore_wait(semaphore, Deadline::Never));
    ///     thread.join().expect("it wakes, and ends");
    /// });
    /// ```
    pub fn new_waker(&self, action: WakeAction) -> Waker {
        let state = Arc::new(WakerState {
            action,
            pending: AtomicU64::new(0),
        });
        self.with_inner(|inner| inner.wakers.push(Arc::clone(&state)));
        self.monitor.alert();
        Waker {
            state,
            vm: self.to_arc(),
        }
    }
}

impl Vm {
    /// Carries out pending wakes, and forgets wakers that were dropped.
    pub(in crate::vm) fn serve_wakers(&self, inner: &mut Inner) {
        // AcqRel: pairs with the release in `request`. A wake that counts after this sets the bit
        // again.
        if self.requests.fetch_and(!request::WOKEN, Ordering::AcqRel) & request::WOKEN != 0 {
            inner.serve_wakers();
        }
    }
}

impl WakerState {
    /// Whether the waker has a wake to serve, or may get one later.
    fn matters(waker: &Arc<WakerState>) -> bool {
        let is_held = Arc::strong_count(waker) > 1;
        // Acquire: pairs with the release by which the last other clone was dropped. A wake before
        // that drop is visible below.
        fence(Ordering::Acquire);
        // Relaxed: after the fence.
        is_held || waker.pending.load(Ordering::Relaxed) != 0
    }
}

impl Inner {
    /// Whether a wake may still come from outside, or waits to be served.
    pub(in crate::vm) fn has_wakers(&mut self) -> bool {
        self.wakers.retain(WakerState::matters);
        !self.wakers.is_empty()
    }

    #[cold]
    pub(in crate::vm) fn serve_wakers(&mut self) {
        let Inner { wakers, sched, .. } = self;
        for waker in &*wakers {
            // Acquire: pairs with the release in `wake`.
            match (waker.pending.swap(0, Ordering::Acquire), waker.action) {
                (0, _) => {}
                (_, WakeAction::Resume(process)) => {
                    let _ = sched.resume(process);
                }
                (times, WakeAction::Signal(semaphore)) => {
                    sched.semaphore_signal(semaphore, times);
                }
            }
        }
        wakers.retain(WakerState::matters);
    }
}
