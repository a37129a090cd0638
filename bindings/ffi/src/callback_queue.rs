//! The foreign callback queue: callbacks from threads outside of the VM.
//!
//! The foreign thread queues its call and waits for the answer. A *listener*, one of a few daemon
//! processes, makes the call. The guest makes one listener, suspended, and opens the queue; the
//! first queued call resumes it. Before a listener makes a call, the guest ensures that another
//! listener waits ([`CallbackQueue::wants_listener`]). So callbacks may wait for each other, and
//! may return in any order. Beyond the most listeners, calls wait in the queue.
//!
//! **No call is lost.**
//!
//! - A foreign thread queues its call and posts, both under the queue's mutex.
//! - A listener reads the queue inside the VM. If it is empty, the listener begins to wait without
//!   leaving the VM. Posts are processed only inside the VM.
//! - So either the listener finds the call, or the post comes after its wait has begun and wakes
//!   it.
//! - If no listener waits, a post has no effect. None is needed: each listener reads the queue
//!   again before it waits.
//!
//! The test `callback_queue.rs` has many threads call while listeners come and go.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, PoisonError};

use baton_core::sched::{Deadline, ProcessId, WaitQueueId, Wake, WakeReason};
use baton_core::sys::forking::ForkMutex;
use baton_core::vm::{Inside, Vm};

/// The number of callbacks at the same time. More of them wait.
const MOST_LISTENERS: usize = 64;

/// A call is late after so many times the parameter `warn_blocked`.
const LATE: u32 = 10;

/// The number of idle listeners that stay for later calls.
const MOST_IDLE: usize = 4;

/// The queue of one VM, for calls with data `T`.
///
/// The methods that take [`Inside`] are called by a process on its own stack. All others may be
/// called on any thread.
#[derive(Debug)]
pub struct CallbackQueue<T> {
    vm: Arc<Vm>,
    /// Where listeners wait.
    waiters: WaitQueueId,
    state: ForkMutex<QueueState<T>>,
    /// Listeners that live. The VM lock guards it.
    listeners: AtomicUsize,
    /// Listeners that wait. The VM lock guards it.
    idle: AtomicUsize,
}

#[derive(Debug)]
struct QueueState<T> {
    calls: VecDeque<Arc<QueuedCall<T>>>,
    is_open: bool,
    /// The listener that is still suspended.
    prepared: Option<ProcessId>,
    /// A late call has been told of.
    has_told: bool,
}

/// Why a call may wait for ever.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Delay {
    /// So many callbacks are in progress, which is the limit.
    MostCallbacks(usize),
    /// All native threads may be in calls: there are as many as the parameter `max_threads` allows.
    MostThreads(usize),
}

/// A call in the queue, or in the hands of a listener.
#[derive(Debug)]
pub struct QueuedCall<T> {
    /// What the foreign thread has given.
    pub data: T,
    /// The queue's mutex guards it, so a fork's child makes that mutex anew for all calls.
    is_answered: AtomicBool,
    answered: Condvar,
}

/// The queue is closed, so the call was not made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refused;

/// What a listener does next.
#[must_use]
#[derive(Debug)]
pub enum Next<T> {
    /// It makes this call, and [answers](CallbackQueue::answer) it.
    Call(Arc<QueuedCall<T>>),
    /// It asks again, unless the reason says that it must end.
    AskAgain(Wake),
    /// It ends, as enough others are idle.
    End,
}

/// Whether a listener that ends was the last one.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ListenerEnd {
    /// Others are left.
    OneOfSeveral,
    /// It was the last one: the program has killed them all. So the guest closes the queue.
    Last,
}

/// For foreign threads.
impl<T> CallbackQueue<T> {
    /// Queues a call, and waits until a listener has made it. If no listener has taken it after ten
    /// times the parameter `warn_blocked`, `tell` gets the reason, once for a queue.
    ///
    /// # Errors
    /// The queue is closed.
    pub fn call(&self, data: T, tell: impl FnOnce(Delay)) -> Result<(), Refused> {
        let call = Arc::new(QueuedCall {
            data,
            is_answered: AtomicBool::new(false),
            answered: Condvar::new(),
        });
        let mut state = self.state.lock();
        if !state.is_open {
            return Err(Refused);
        }
        state.calls.push_back(Arc::clone(&call));
        if let Some(prepared) = state.prepared.take() {
            self.vm.resume_from_outside(prepared);
        }
        self.vm.wake_from_outside(self.waiters, 0);
        // Relaxed: the mutex orders it.
        let is_waiting = |_: &mut QueueState<T>| !call.is_answered.load(Ordering::Relaxed);
        let late = self.vm.parameters.warn_blocked.get() * LATE;
        let (mut state, waited) = call
            .answered
            .wait_timeout_while(state, late, is_waiting)
            .unwrap_or_else(PoisonError::into_inner);
        let is_queued = state.calls.iter().any(|other| Arc::ptr_eq(other, &call));
        if waited.timed_out() && is_queued && !late.is_zero() && !state.has_told {
            // Not under the mutex, which is a leaf.
            drop(state);
            let delay = self.delay();
            state = self.state.lock();
            if let Some(delay) = delay.filter(|_| !std::mem::replace(&mut state.has_told, true)) {
                drop(state);
                tell(delay);
                state = self.state.lock();
            }
        }
        let answered = call.answered.wait_while(state, is_waiting);
        drop(answered.unwrap_or_else(PoisonError::into_inner));
        Ok(())
    }

    fn delay(&self) -> Option<Delay> {
        // Relaxed: a hint, on this thread.
        if self.listeners() >= MOST_LISTENERS && self.idle.load(Ordering::Relaxed) == 0 {
            return Some(Delay::MostCallbacks(MOST_LISTENERS));
        }
        let most = self.vm.parameters.max_threads();
        (self.vm.threads() >= most).then_some(Delay::MostThreads(most))
    }

    /// Whether a call waits for a listener.
    pub fn has_calls(&self) -> bool {
        // The mutex is a leaf: its holders post, but wait for nothing.
        !self.state.lock().calls.is_empty()
    }
}

/// For the guest.
impl<T> CallbackQueue<T> {
    /// A closed queue, without listeners.
    pub fn new(vm: &Inside<'_>) -> CallbackQueue<T> {
        CallbackQueue {
            vm: vm.to_arc(),
            waiters: vm.sched(|sched| sched.wait_queue_new()),
            state: ForkMutex::new(QueueState::closed()),
            listeners: AtomicUsize::new(0),
            idle: AtomicUsize::new(0),
        }
    }

    /// Whether calls are taken.
    pub fn is_open(&self) -> bool {
        self.state.lock().is_open
    }

    /// Takes calls from now on. The first one resumes the listener `prepared`, which was made
    /// suspended.
    pub fn open(&self, prepared: Option<ProcessId>) {
        self.listener_begins();
        let mut state = self.state.lock();
        state.prepared = prepared;
        state.is_open = true;
    }

    /// Takes no calls from now on. The guest answers those that wait ([`CallbackQueue::take`]).
    pub fn close(&self) {
        self.state.lock().is_open = false;
    }

    /// Lets the foreign thread of a call continue.
    pub fn answer(&self, call: &QueuedCall<T>) {
        let state = self.state.lock();
        // Relaxed: the mutex orders it.
        call.is_answered.store(true, Ordering::Relaxed);
        call.answered.notify_one();
        drop(state);
    }

    /// The call that has waited longest.
    pub fn take(&self) -> Option<Arc<QueuedCall<T>>> {
        self.state.lock().calls.pop_front()
    }

    /// Empties and closes the queue in a fork's child, where the foreign threads and the listeners
    /// are gone.
    ///
    /// # Safety
    /// The caller is the only thread, in a fork's child.
    pub unsafe fn forget(&self) {
        // SAFETY: the caller's condition; no method returns while it holds the mutex.
        unsafe { self.state.renew(QueueState::closed()) };
        // Relaxed (both): there is no other thread.
        self.listeners.store(0, Ordering::Relaxed);
        self.idle.store(0, Ordering::Relaxed);
    }
}

impl<T> QueueState<T> {
    fn closed() -> QueueState<T> {
        QueueState {
            calls: VecDeque::new(),
            is_open: false,
            prepared: None,
            has_told: false,
        }
    }
}

/// For listeners. All counts are relaxed: the VM lock guards them.
impl<T> CallbackQueue<T> {
    /// The number of listeners that live.
    pub fn listeners(&self) -> usize {
        // Relaxed: see above.
        self.listeners.load(Ordering::Relaxed)
    }

    /// Whether there should be another listener before the next call is made.
    pub fn wants_listener(&self) -> bool {
        // Relaxed: see above.
        self.idle.load(Ordering::Relaxed) == 0 && self.listeners() < MOST_LISTENERS
    }

    /// Counts a listener that was made.
    pub fn listener_begins(&self) {
        // Relaxed: see above.
        self.listeners.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes the next call. If there is none, the calling listener waits for one.
    pub fn next_call(&self, vm: &Inside<'_>) -> Next<T> {
        if let Some(call) = self.take() {
            return Next::Call(call);
        }
        // Relaxed (all): see above.
        if self.idle.load(Ordering::Relaxed) == MOST_IDLE {
            return Next::End;
        }
        self.idle.fetch_add(1, Ordering::Relaxed);
        let wake = vm.block_on(|sched| sched.wait(self.waiters, Deadline::Never));
        self.idle.fetch_sub(1, Ordering::Relaxed);
        Next::AskAgain(wake)
    }

    /// Ends the calling listener. A killed one may have been woken for a call, so it wakes the
    /// others.
    pub fn listener_ends(&self, vm: &Inside<'_>) -> ListenerEnd {
        vm.sched(|sched| sched.wake_all(self.waiters, WakeReason::Done, 0));
        // Relaxed (both): see above. A fork's child has forgotten the listener that forked.
        let before =
            self.listeners
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |listeners| {
                    listeners.checked_sub(1)
                });
        match before {
            Ok(1) => ListenerEnd::Last,
            Ok(_) | Err(_) => ListenerEnd::OneOfSeveral,
        }
    }
}
