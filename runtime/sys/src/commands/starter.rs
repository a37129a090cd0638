//! The thread that starts commands.
//!
//! A command may ask the system to end it when its parent ends (`PR_SET_PDEATHSIG`, as
//! `setpriv --pdeathsig` and `bwrap --die-with-parent` do). For Linux the parent is not the program
//! but the native thread that has started the command. Threads that run processes come and go. So
//! commands are started on a thread that lasts as long as the program: the first one, or this one.
//! A program that embeds an interpreter does not get another thread for that, unless it asks.
//!
//! It starts with the first command of another thread. Between commands it blocks all signals.
//!
//! **No job is lost.** A job is added under the mutex of `jobs`, which the thread holds from its
//! look at the list until it waits. The same holds for a result, and for the caller that waits for
//! it.

use std::collections::VecDeque;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::signals::ThreadHandle;
use crate::signals::mask::SignalMask;
use crate::{forking, thread};

type Job = Box<dyn FnOnce() + Send>;

/// The thread, as others see it. It is never freed.
struct Starter {
    /// The program that it belongs to: a fork's child has no such thread.
    generation: u32,
    jobs: Mutex<Jobs>,
    /// Notified, under the mutex of `jobs`, when there is a job.
    given: Condvar,
}

#[derive(Default)]
struct Jobs {
    /// Whether the thread was started.
    runs: bool,
    waiting: VecDeque<Job>,
}

/// The last one that was made, or null.
static STARTER: AtomicPtr<Starter> = AtomicPtr::new(ptr::null_mut());

/// Whether commands are started on the thread. Written before there is a second thread.
static IS_WANTED: AtomicBool = AtomicBool::new(false);

/// Has commands started on a thread that lasts as long as the program. To be called at the
/// program's start.
pub fn start_on_lasting_thread() {
    // Relaxed: there is no other thread yet.
    IS_WANTED.store(true, Ordering::Relaxed);
}

/// How many threads of this kind the program has.
#[must_use]
pub fn threads() -> usize {
    // Acquire: pairs with the exchange in `starter`.
    let starter = STARTER.load(Ordering::Acquire);
    // SAFETY: as there.
    let starter = unsafe { starter.as_ref() };
    let starter = starter.filter(|starter| starter.generation == forking::generation());
    starter.map_or(0, |starter| lock(&starter.jobs).runs.into())
}

/// Runs `start` on a thread that lasts as long as the program, with the signal mask of the calling
/// thread. Waits for the result. If such a thread is not wanted, or the system refuses it, `start`
/// runs on this one.
pub(super) fn on_lasting_thread<R: Send + 'static>(
    start: impl FnOnce() -> R + Send + 'static,
) -> R {
    // Relaxed: as above.
    let is_wanted = cfg!(target_os = "linux") && IS_WANTED.load(Ordering::Relaxed);
    if !is_wanted || ThreadHandle::current().is_first() {
        return start();
    }
    let starter = starter();
    let mut jobs = lock(&starter.jobs);
    if !jobs.runs {
        jobs.runs = thread::start_helper("baton-commands", || serve(starter)).is_ok();
        if !jobs.runs {
            drop(jobs);
            return start();
        }
    }
    let mask = SignalMask::of_this_thread();
    let result = Arc::new((Mutex::new(None), Condvar::new()));
    let answer = Arc::clone(&result);
    jobs.waiting.push_back(Box::new(move || {
        let before = mask.set();
        let started = start();
        before.set();
        *lock(&answer.0) = Some(started);
        answer.1.notify_one();
    }));
    starter.given.notify_one();
    drop(jobs);
    let mut started = lock(&result.0);
    loop {
        if let Some(started) = started.take() {
            return started;
        }
        started = wait(&result.1, started);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn wait<'lock, T>(changed: &Condvar, guard: MutexGuard<'lock, T>) -> MutexGuard<'lock, T> {
    changed.wait(guard).unwrap_or_else(PoisonError::into_inner)
}

/// The starter of this program. A fork's child makes another one: the mutex may be locked by a
/// thread that it does not have.
fn starter() -> &'static Starter {
    let generation = forking::generation();
    // Acquire: pairs with the exchange below.
    let mut last = STARTER.load(Ordering::Acquire);
    loop {
        // SAFETY: null, or a starter, which is never freed.
        if let Some(starter) = unsafe { last.as_ref() }
            && starter.generation == generation
        {
            return starter;
        }
        let made = Box::into_raw(Box::new(Starter {
            generation,
            jobs: Mutex::default(),
            given: Condvar::new(),
        }));
        // AcqRel: pairs with the loads. Acquire: as above.
        match STARTER.compare_exchange(last, made, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: it was just made, and is never freed.
            Ok(_) => return unsafe { &*made },
            Err(other) => {
                // SAFETY: nobody else has seen it.
                drop(unsafe { Box::from_raw(made) });
                last = other;
            }
        }
    }
}

fn serve(starter: &Starter) {
    let mut jobs = lock(&starter.jobs);
    loop {
        match jobs.waiting.pop_front() {
            Some(job) => {
                drop(jobs);
                job();
                jobs = lock(&starter.jobs);
            }
            None => jobs = wait(&starter.given, jobs),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn commands_of_threads_that_end_are_started_on_one_that_lasts() {
        let on_a_thread = || {
            let started = std::thread::spawn(|| {
                let before = SignalMask::empty().with(libc::SIGUSR1).block();
                let blocks_both = || {
                    let mask = SignalMask::of_this_thread();
                    (mask.blocks(libc::SIGUSR1), mask.blocks(libc::SIGTERM))
                };
                let started = on_lasting_thread(move || (thread::name(), blocks_both()));
                before.set();
                started
            });
            started.join().expect("it ends")
        };
        assert_ne!(on_a_thread().0, "baton-commands");
        start_on_lasting_thread();
        for _ in 0..2 {
            assert_eq!(on_a_thread(), ("baton-commands".to_owned(), (true, false)));
            assert_eq!(threads(), 1);
        }
    }
}
