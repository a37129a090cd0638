//! Handlers around a `fork` by any code of the program, and mutexes that outlast one.
//!
//! `posix_spawn`, `vfork`, `system` and `popen` do not copy the program, and call none of this.

use std::cell::UnsafeCell;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};

/// The handlers, called on the forking thread.
#[derive(Clone, Copy, Debug)]
pub struct AtFork {
    /// Called before the fork: makes sure that no other thread is in the middle of an update.
    pub prepare: fn(),
    /// Called in the parent after the fork, even if it failed.
    pub parent: fn(),
    /// Called in the child, whose only thread is the calling one.
    pub child: fn(&Child),
}

/// A proof: this is the child of a fork, whose only thread is the calling one. [`AtFork::child`]
/// gets it.
#[derive(Debug)]
pub struct Child(());

impl Child {
    /// The proof, for code that is called later in the child.
    ///
    /// # Safety
    /// The calling thread is the only one, in a fork's child.
    pub const unsafe fn assume() -> Child {
        Child(())
    }
}

static CALLS: OnceLock<AtFork> = OnceLock::new();

/// Relaxed: it changes only while there is one thread.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// How many forks are between this program and the one that was started. Two parts of a program
/// that were made in different generations do not share their threads. It counts from the first
/// [`at_fork`] on, and costs no system call.
#[must_use]
pub fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}

/// Registers `calls` for every `fork` from now on. The functions must not unwind. Only the first
/// `calls` of the program count.
///
/// # Errors
///
/// `ENOMEM`: out of memory.
pub fn at_fork(calls: AtFork) -> io::Result<()> {
    if CALLS.set(calls).is_err() {
        return Ok(());
    }
    // SAFETY: the three functions are defined below, live as long as the program, and do not unwind
    // (a panic in an `extern "C"` function ends the program).
    let error = unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) };
    if error == 0 {
        Ok(())
    } else {
        Err(io::Error::from_raw_os_error(error))
    }
}

unsafe extern "C" fn prepare() {
    if let Some(calls) = CALLS.get() {
        (calls.prepare)();
    }
}

unsafe extern "C" fn parent() {
    if let Some(calls) = CALLS.get() {
        (calls.parent)();
    }
}

unsafe extern "C" fn child() {
    GENERATION.fetch_add(1, Ordering::Relaxed); // Relaxed: as above.
    if let Some(calls) = CALLS.get() {
        (calls.child)(&Child(()));
    }
}

/// A mutex that a fork's child can make anew.
///
/// Another thread may hold a mutex while the program forks. In the child, that thread is gone and
/// the mutex stays locked. So the child gives it a new value, and begins with a free mutex.
///
/// ```
/// use baton_sys::forking::ForkMutex;
///
/// static COUNT: ForkMutex<u32> = ForkMutex::new(1);
/// *COUNT.lock() += 1;
/// assert_eq!(*COUNT.lock(), 2);
/// ```
#[derive(Debug, Default)]
pub struct ForkMutex<T>(UnsafeCell<Mutex<T>>);

// SAFETY: shared references give access only through the mutex. `renew` also writes it, when there
// is no other thread.
unsafe impl<T: Send> Sync for ForkMutex<T> {}

impl<T> ForkMutex<T> {
    /// A free mutex with this value.
    pub const fn new(value: T) -> Self {
        ForkMutex(UnsafeCell::new(Mutex::new(value)))
    }

    /// Waits for the mutex. A panic of an earlier holder is ignored.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        // SAFETY: only `renew` makes an exclusive reference, and it has no other thread beside it.
        let mutex = unsafe { &*self.0.get() };
        mutex.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As [`ForkMutex::renew`], for a mutex of which the child's thread holds no guard: what is
    /// locked is locked by a thread that is gone.
    pub fn renew_in_child(&self, _: &Child, value: T) {
        // SAFETY: the proof says that there is no other thread. A guard of this thread would be one
        // across the fork, which nobody but the forking code itself could hold.
        unsafe { self.renew(value) };
    }

    /// As [`ForkMutex::renew_in_child`], but keeps the value if no thread held the mutex at the
    /// fork.
    pub fn free_in_child(&self, child: &Child, value: T) {
        // SAFETY: as in `lock`. The reference ends before `renew_in_child`.
        let mutex = unsafe { &*self.0.get() };
        let is_locked = matches!(mutex.try_lock(), Err(TryLockError::WouldBlock));
        if is_locked {
            self.renew_in_child(child, value);
        }
    }

    /// Makes the mutex anew, free and with this value. The old value is not dropped: a thread that
    /// is gone may have left it half changed.
    ///
    /// # Safety
    /// The caller is the only thread, in a fork's child, and holds no guard of the mutex.
    pub unsafe fn renew(&self, value: T) {
        // SAFETY: the caller's condition: nobody else refers to the mutex or waits for it.
        unsafe { self.0.get().write(Mutex::new(value)) };
    }
}

#[cfg(test)]
mod tests {
    use super::{Child, ForkMutex};

    #[test]
    fn a_mutex_that_a_lost_thread_holds_is_free_after_it_was_renewed() {
        static LOCK: ForkMutex<Vec<u32>> = ForkMutex::new(Vec::new());
        std::thread::spawn(|| std::mem::forget(LOCK.lock()))
            .join()
            .expect("it locks, and ends");
        // SAFETY: no other thread knows the mutex, as in a child.
        unsafe { LOCK.renew(vec![7]) };
        assert_eq!(*LOCK.lock(), [7]);
    }

    #[test]
    fn a_value_is_kept_unless_a_lost_thread_holds_the_mutex() {
        static LOCK: ForkMutex<u32> = ForkMutex::new(1);
        // SAFETY: no other thread knows the mutex, as in a child.
        let child = unsafe { Child::assume() };
        LOCK.free_in_child(&child, 2);
        assert_eq!(*LOCK.lock(), 1);
        std::thread::spawn(|| std::mem::forget(LOCK.lock()))
            .join()
            .expect("it locks, and ends");
        LOCK.free_in_child(&child, 3);
        assert_eq!(*LOCK.lock(), 3);
    }
}
