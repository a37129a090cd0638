//! Wakers: what a signal handler, or a thread that the VM has never seen, calls to resume a process
//! or to signal a semaphore.
//!
//! A post needs memory, and a signal handler cannot ask for memory. So a waker is made beforehand.
//! To wake means to count, to set a bit and to kick. The owner serves the count when it takes in
//! what others posted. A waker may be dropped right after a wake: its state is kept until the owner
//! has served it.
//!
//! **No wake is lost.** [`Waker::wake`] counts first, then sets [`request::WOKEN`], and then
//! notifies by the protocol of [`baton_sys::parking`], as a post does. The owner clears the bit
//! before it takes the counts, so a thread that counts after that sets the bit again.

use crate::sched::{ProcessId, SemaphoreId};
use crate::vm::{Inner, Vm, request};
use baton_sys::gate;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// What a wake does. A process or semaphore that is gone by then is left alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WakeAction {
    /// Lets a suspended process go on.
    Resume(ProcessId),
    /// Signals a semaphore, once for each wake.
    Signal(SemaphoreId),
}

/// A handle that wakes a process or signals a semaphore of a VM from anywhere. Its state goes
/// with the last clone.
#[derive(Clone, Debug)]
pub struct Waker {
    state: Arc<WakerState>,
    vm: Arc<Vm>,
}

#[derive(Debug)]
pub(in crate::vm) struct WakerState {
    action: WakeAction,
    /// Wakes that were not served yet.
    pending: AtomicU64,
}

impl Waker {
    /// Carries the action out soon: on any thread, in a signal handler too, inside the VM or
    /// outside of it. Allocates nothing, takes no lock and leaves errno to its caller. A more
    /// urgent process that it wakes preempts as after any other event from outside.
    ///
    /// A signal handler must use a waker that lives as long as the handler is installed: dropping
    /// one frees memory.
    pub fn wake(&self) {
        // Release: pairs with the swap in `serve_wakers`.
        self.state.pending.fetch_add(1, Ordering::Release);
        self.vm.request(request::WOKEN);
        let here = gate::here();
        if here.carrier().is_some() {
            // Perhaps the owner's own thread, interrupted by a signal: it need not wait for the
            // monitor.
            here.set_attention();
        }
    }
}

impl Vm {
    /// A new waker. Inside the VM. Starts the monitor, as a signal handler cannot start it.
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
    pub fn new_waker(self: &Arc<Vm>, action: WakeAction) -> Waker {
        let state = Arc::new(WakerState {
            action,
            pending: AtomicU64::new(0),
        });
        self.inner
            .with(|inner| inner.wakers.push(Arc::clone(&state)));
        self.monitor.alert();
        Waker {
            state,
            vm: Arc::clone(self),
        }
    }

    /// Carries out what wakers asked for, and forgets wakers that were dropped.
    pub(in crate::vm) fn serve_wakers(&self, inner: &mut Inner) {
        // AcqRel: pairs with the release in `request`; those who count after this set the bit
        // again.
        if self.requests.fetch_and(!request::WOKEN, Ordering::AcqRel) & request::WOKEN != 0 {
            inner.serve_wakers();
        }
    }
}

impl WakerState {
    /// Whether it has a wake to serve, or may have one later.
    fn matters(waker: &Arc<WakerState>) -> bool {
        let is_held = Arc::strong_count(waker) > 1;
        // Acquire: pairs with the release by which the last other clone was dropped. A wake
        // before that drop is seen below.
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
