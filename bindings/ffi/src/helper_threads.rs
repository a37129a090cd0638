//! Native threads for calls with a timeout ([`timed`](crate::timed)), called *helpers*. No process
//! runs on a helper.
//!
//! At most `max_threads` tasks are in progress at a time. Beyond that, processes wait, first come,
//! first served. A helper that is done takes the next task. If none comes for `thread_idle`, its
//! thread ends.
//!
//! A semaphore counts the free places, so each place goes to the first waiter. A helper that is
//! done signals the semaphore. If `max_threads` was lowered meanwhile, it takes back a surplus
//! place instead.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use baton_core::sched::{Deadline, SemaphoreId, Wake, WakeReason};
use baton_core::sys::{reserve, thread};
use baton_core::vm::{Inside, Vm};

/// What a helper does.
type Task = Box<dyn FnOnce() + Send>;

#[derive(Debug)]
pub(crate) struct HelperThreads {
    vm: Arc<Vm>,
    /// Counts the free places.
    free: SemaphoreId,
    pool: Mutex<Pool>,
    /// Notified, under the mutex of `pool`, when there is a task.
    given: Condvar,
    /// Tasks that have a place.
    in_progress: AtomicUsize,
    /// Places above the limit. Each goes when its task ends.
    surplus: AtomicUsize,
    /// The limit as it was read last. Only inside the VM.
    limit: AtomicUsize,
}

#[derive(Default)]
struct Pool {
    tasks: VecDeque<Task>,
    /// Threads without a task.
    idle: usize,
    /// How long a thread waits for a task.
    patience: Duration,
}

/// What became of a free place.
#[must_use]
enum Surplus {
    /// It was above the limit, and is gone.
    TakenBack,
    None,
}

impl HelperThreads {
    pub(crate) fn new(vm: &Inside<'_>) -> HelperThreads {
        HelperThreads {
            vm: vm.to_arc(),
            free: vm.sched(|sched| sched.semaphore_new(0)),
            pool: Mutex::default(),
            given: Condvar::new(),
            in_progress: AtomicUsize::new(0),
            surplus: AtomicUsize::new(0),
            limit: AtomicUsize::new(0),
        }
    }

    fn lock_pool(&self) -> MutexGuard<'_, Pool> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// In processes.
impl HelperThreads {
    /// Adjusts the number of places to the parameter `max_threads`, which may have changed.
    pub(crate) fn follow_limit(&self, vm: &Inside<'_>) {
        let limit = vm.parameters.max_threads();
        // Relaxed: only inside the VM, whose lock orders it.
        let before = self.limit.swap(limit, Ordering::Relaxed);
        let mut more = limit.saturating_sub(before);
        while more > 0 && matches!(self.take_back_surplus(), Surplus::TakenBack) {
            more -= 1;
        }
        if more > 0 {
            vm.semaphore_signal(self.free, more as u64);
        }
        for _ in limit..before {
            if vm.semaphore_wait(self.free, Deadline::Now).reason != WakeReason::Done {
                // Relaxed: a count.
                self.surplus.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Waits for a place. If the reason is [`WakeReason::Done`], the caller owns one: it gives a
    /// task or frees the place.
    pub(crate) fn await_place(&self, vm: &Inside<'_>, deadline: Deadline) -> Wake {
        self.follow_limit(vm);
        let wake = vm.semaphore_wait(self.free, deadline);
        if wake.reason == WakeReason::Done {
            // Relaxed: a count.
            self.in_progress.fetch_add(1, Ordering::Relaxed);
        }
        wake
    }

    /// Gives a task to a helper. The caller owns a place, which is freed after the task.
    ///
    /// # Errors
    /// The system's, if it refuses a thread, or has no memory for one. The caller still owns the
    /// place.
    pub(crate) fn give(&'static self, task: Task) -> io::Result<()> {
        let mut pool = self.lock_pool();
        pool.patience = self.vm.parameters.thread_idle.get();
        if pool.idle <= pool.tasks.len() {
            if !reserve::has_room_for_a_thread() {
                return Err(io::ErrorKind::OutOfMemory.into());
            }
            thread::start_helper("baton-helper", || self.help())?;
        }
        pool.tasks.push_back(task);
        self.given.notify_one();
        Ok(())
    }

    /// The number of tasks in progress.
    pub(crate) fn in_progress(&self) -> usize {
        // Relaxed: a count.
        self.in_progress.load(Ordering::Relaxed)
    }

    /// The number of threads without a task.
    pub(crate) fn idle(&self) -> usize {
        self.lock_pool().idle
    }
}

/// On helpers, and on a process's thread if no helper has got its task.
impl HelperThreads {
    /// Frees the place of a task.
    pub(crate) fn free_place(&self) {
        // Relaxed: a count.
        self.in_progress.fetch_sub(1, Ordering::Relaxed);
        if let Surplus::None = self.take_back_surplus() {
            self.vm.signal_from_outside(self.free);
        }
    }

    fn take_back_surplus(&self) -> Surplus {
        // Relaxed (both): a count. The semaphore's posts order the rest.
        let taken = self
            .surplus
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |surplus| {
                surplus.checked_sub(1)
            });
        match taken {
            Ok(_) => Surplus::TakenBack,
            Err(_) => Surplus::None,
        }
    }
}

/// On helpers.
impl HelperThreads {
    fn help(&self) {
        let mut pool = self.lock_pool();
        pool.idle += 1;
        loop {
            let task;
            (pool, task) = self.await_task(pool);
            pool.idle -= 1;
            let Some(task) = task else { return };
            drop(pool);
            task();
            // Before the place is free: the next caller must find a thread.
            self.lock_pool().idle += 1;
            self.free_place();
            pool = self.lock_pool();
        }
    }

    /// Waits for a task. Returns `None` if none comes in time.
    fn await_task<'pool>(
        &self,
        mut pool: MutexGuard<'pool, Pool>,
    ) -> (MutexGuard<'pool, Pool>, Option<Task>) {
        let began = Instant::now();
        let patience = pool.patience;
        while pool.tasks.is_empty() {
            let Some(rest) = patience.checked_sub(began.elapsed()) else {
                break;
            };
            let waited = self.given.wait_timeout(pool, rest);
            pool = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let task = pool.tasks.pop_front();
        (pool, task)
    }
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool")
            .field("tasks", &self.tasks.len())
            .field("idle", &self.idle)
            .finish_non_exhaustive()
    }
}
