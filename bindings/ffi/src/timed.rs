//! Calls with a timeout.
//!
//! Nothing can stop a C function from outside. So a helper makes the call on a stack of its own
//! (`helper_threads.rs`). The process waits for it as for any object, so the wait can time out or
//! be killed. Then the process continues, and the call is *abandoned*: its thread and its arguments
//! stay in use until the function returns. The guest frees abandoned calls that have returned
//! ([`TimedCalls::next_returned`]).
//!
//! A call is in one of these states, under its mutex:
//!
//! | from | to | by |
//! |---|---|---|
//! | running | done | the helper, in `end`: it wakes the process |
//! | running | abandoned | the process, in `await_end`, when its wait has ended without the call |
//! | abandoned | returned | the helper, in `end`: it adds the call to a list |
//!
//! **No wake-up is lost.** The process reads the state inside the VM, and begins to wait without
//! leaving it. The helper changes the state before it posts. A post is processed only inside the
//! VM. So either the process finds that the call is done, or the post comes after its wait has
//! begun. The test `timed.rs` tries both orders.

use std::ffi::c_int;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use baton_core::sched::{Deadline, WaitQueueId, Wake, WakeReason};
use baton_core::sys::signals::mask::SignalMask;
use baton_core::sys::{errno as thread_errno, reserve};
use baton_core::vm::{Inside, Vm};

use crate::helper_threads::HelperThreads;

/// The calls with a timeout of one VM. Never freed, since a call may return at any time. A fork's
/// child makes new ones: the threads of the old ones are gone.
///
/// The methods that take [`Inside`] are called by a process on its own stack.
#[derive(Debug)]
pub struct TimedCalls {
    helpers: HelperThreads,
    /// Abandoned calls that have returned.
    returned: Mutex<Vec<Arc<TimedCall>>>,
    /// Processes that wait for a call or for a place.
    waiting: AtomicUsize,
}

/// One call with a timeout.
#[derive(Debug)]
pub struct TimedCall {
    vm: Arc<Vm>,
    deadline: Deadline,
    /// Where its process waits.
    queue: WaitQueueId,
    progress: Mutex<Progress>,
}

#[derive(Clone, Copy, Debug)]
enum Progress {
    Running,
    /// With the value of `errno` that the function has left.
    Done(c_int),
    Abandoned,
}

/// How the wait for a call ended.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallEnd {
    /// The call is done, and `errno` was this.
    Done(c_int),
    /// The call is abandoned, because the wait ended for this reason.
    Abandoned(Wake),
}

impl TimedCalls {
    /// Prepares a VM for calls with a timeout.
    pub fn new(vm: &Inside<'_>) -> &'static TimedCalls {
        Box::leak(Box::new(TimedCalls {
            helpers: HelperThreads::new(vm),
            returned: Mutex::default(),
            waiting: AtomicUsize::new(0),
        }))
    }

    /// Follows the parameter `max_threads`, which may have changed.
    pub fn limit_changed(&self, vm: &Inside<'_>) {
        self.helpers.follow_limit(vm);
    }

    /// Begins a call that may take this long, the wait for a thread included.
    pub fn begin(&self, vm: &Inside<'_>, timeout: Option<Duration>) -> Arc<TimedCall> {
        Arc::new(TimedCall {
            vm: vm.to_arc(),
            deadline: Vm::deadline(timeout),
            queue: vm.sched(|sched| sched.wait_queue_new()),
            progress: Mutex::new(Progress::Running),
        })
    }

    /// Waits until a helper is free for the call, first come, first served. After
    /// [`WakeReason::Done`] the caller [starts](Self::start) the call or
    /// [gives the helper back](Self::release_helper).
    pub fn await_helper(&self, vm: &Inside<'_>, call: &TimedCall) -> Wake {
        self.while_waiting(|| self.helpers.await_place(vm, call.deadline))
    }

    /// Has a helper make the call, which is `work`. It finds `errno` as given, and the signal mask
    /// of the calling thread. On any thread.
    ///
    /// # Errors
    /// The system's, if it refuses a thread or memory. The caller gives the helper back.
    pub fn start(
        &'static self,
        call: &Arc<TimedCall>,
        errno: c_int,
        work: impl FnOnce() + Send + 'static,
    ) -> io::Result<()> {
        // Others may have used the reserve while the caller waited for a helper.
        if !reserve::hold_least() {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        let call = Arc::clone(call);
        // What the function starts inherits it. A helper itself blocks all signals.
        let mask = SignalMask::of_this_thread();
        self.helpers.give(Box::new(move || {
            let of_helper = mask.set();
            thread_errno::set(errno);
            work();
            let errno = thread_errno::get();
            of_helper.set();
            self.end(call, errno);
        }))
    }

    /// Gives a helper back that has not got its call. On any thread.
    pub fn release_helper(&self) {
        self.helpers.free_place();
    }

    /// Waits until the call is done, or abandons it.
    pub fn await_end(&self, vm: &Inside<'_>, call: &TimedCall) -> CallEnd {
        let mut wake = Wake::because(WakeReason::Done);
        // Read once: its guard must not be held across the wait.
        let progress = *call.lock();
        if let Progress::Running = progress {
            wake =
                self.while_waiting(|| vm.block_on(|sched| sched.wait(call.queue, call.deadline)));
        }
        let end = call.end_of_wait(wake);
        call.free(vm);
        end
    }

    /// An abandoned call that has returned since, of which nothing is in use any more. On any
    /// thread.
    pub fn next_returned(&self) -> Option<Arc<TimedCall>> {
        self.lock_returned().pop()
    }

    /// The number of calls in progress, abandoned ones included. On any thread.
    pub fn in_progress(&self) -> usize {
        self.helpers.in_progress()
    }

    /// The number of helper threads without a call. On any thread.
    pub fn idle_helpers(&self) -> usize {
        self.helpers.idle()
    }

    /// The number of processes that a helper may still wake. Inside the VM.
    pub fn waiting(&self) -> usize {
        // Relaxed: only inside the VM, whose lock orders it.
        self.waiting.load(Ordering::Relaxed)
    }

    fn while_waiting<R>(&self, wait: impl FnOnce() -> R) -> R {
        // Relaxed (both): only inside the VM, whose lock orders it.
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let result = wait();
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        result
    }

    /// The function has returned. On the helper.
    fn end(&self, call: Arc<TimedCall>, errno: c_int) {
        let mut progress = call.lock();
        if let Progress::Abandoned = *progress {
            drop(progress);
            self.lock_returned().push(call);
            return;
        }
        *progress = Progress::Done(errno);
        call.vm.wake_from_outside(call.queue, 0);
    }

    fn lock_returned(&self) -> MutexGuard<'_, Vec<Arc<TimedCall>>> {
        self.returned.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TimedCall {
    /// Frees what the scheduler has of a call that was not started. [`TimedCalls::await_end`] does
    /// it for the others.
    pub fn free(&self, vm: &Inside<'_>) {
        vm.with_sched(|sched| sched.wait_queue_free(self.queue));
    }

    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The wait of the process has ended: abandons the call unless it is done.
    fn end_of_wait(&self, wake: Wake) -> CallEnd {
        let mut progress = self.lock();
        match *progress {
            Progress::Done(errno) => CallEnd::Done(errno),
            Progress::Running | Progress::Abandoned => {
                *progress = Progress::Abandoned;
                CallEnd::Abandoned(wake)
            }
        }
    }
}
