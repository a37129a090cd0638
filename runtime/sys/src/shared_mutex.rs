//! Mutexes of objects that several VMs share, held together during a fork.
//!
//! A thread of another VM may hold such a mutex while a thread forks. In the child that thread is
//! gone. So the forking thread holds all of them during the fork ([`hold_all`]): then none is held
//! by another thread, and what they guard is consistent in the child.
//!
//! **No deadlock.** A thread waits for one of these mutexes only while it holds none of them, takes
//! no other lock under it, and does not wait for anything else. Only the forking thread waits for
//! several.

#[cfg(loom)]
pub use loom::sync::MutexGuard;
#[cfg(not(loom))]
pub use std::sync::MutexGuard;
use std::sync::{Arc, PoisonError};
#[cfg(not(loom))]
use std::{hint, sync::TryLockError};

/// How often the processor pauses after each attempt to get a mutex: some microseconds together.
#[cfg(not(loom))]
const PAUSES: [u32; 12] = [1, 2, 4, 8, 8, 8, 8, 8, 8, 8, 8, 8];

/// What such a mutex guards.
pub trait Shared: Send + 'static {
    /// Called in a fork's child: all other threads are gone, with their processes.
    fn in_child(&mut self);
}

/// A mutex that a forking thread holds.
#[derive(Debug)]
pub struct SharedMutex<T> {
    #[cfg(loom)]
    mutex: loom::sync::Mutex<T>,
    #[cfg(not(loom))]
    mutex: std::sync::Mutex<T>,
}

impl<T: Shared> SharedMutex<T> {
    /// A free mutex.
    ///
    /// ```
    /// use baton_sys::shared_mutex::{Shared, SharedMutex};
    ///
    /// struct Count(u32);
    /// impl Shared for Count {
    ///     fn in_child(&mut self) {}
    /// }
    /// let count = SharedMutex::new(Count(1));
    /// count.lock().0 += 1;
    /// assert_eq!(count.lock().0, 2);
    /// ```
    pub fn new(value: T) -> Arc<SharedMutex<T>> {
        let mutex = Arc::new(SharedMutex {
            mutex: value.into(),
        });
        #[cfg(not(loom))]
        all::list(&mutex);
        mutex
    }

    /// Waits for the mutex. A panic of an earlier holder is ignored.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        match self.try_to_lock() {
            Some(guard) => guard,
            None => self.mutex.lock().unwrap_or_else(PoisonError::into_inner),
        }
    }

    /// Gets the mutex if nobody holds it. A thread may hold several that it has got so: it waits
    /// for none.
    ///
    /// ```
    /// # use baton_sys::shared_mutex::{Shared, SharedMutex};
    /// # struct Count(u32);
    /// # impl Shared for Count {
    /// #     fn in_child(&mut self) {}
    /// # }
    /// let count = SharedMutex::new(Count(1));
    /// let held = count.lock();
    /// assert!(count.try_lock().is_none());
    /// # drop(held);
    /// ```
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        #[cfg(not(loom))]
        match self.mutex.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
        #[cfg(loom)]
        self.mutex.try_lock().ok()
    }

    /// Tries for about as long as a holder needs. A thread that waits in the system makes all
    /// others wait there, too, as long as the mutex is in demand: std's mutex does not spin beside
    /// such a thread, and each release wakes one.
    #[cfg(not(loom))]
    fn try_to_lock(&self) -> Option<MutexGuard<'_, T>> {
        for pauses in PAUSES {
            match self.try_lock() {
                Some(guard) => return Some(guard),
                None => (0..pauses).for_each(|_| hint::spin_loop()),
            }
        }
        None
    }

    #[cfg(loom)]
    fn try_to_lock(&self) -> Option<MutexGuard<'_, T>> {
        None
    }
}

#[cfg(not(loom))]
pub use all::{AllHeld, hold_all};

#[cfg(not(loom))]
mod all {
    use super::{Shared, SharedMutex};
    use crate::forking::ForkMutex;
    use std::sync::{Arc, MutexGuard, Weak};

    /// A mutex of any type, for the list.
    pub(super) trait Hold: Send + Sync {
        fn hold(self: Arc<Self>) -> Box<dyn Held>;
    }

    /// A mutex that is held.
    pub(super) trait Held {
        fn in_child(&mut self);
    }

    struct HeldMutex<T: Shared> {
        /// Dropped before the mutex.
        guard: MutexGuard<'static, T>,
        _mutex: Arc<SharedMutex<T>>,
    }

    impl<T: Shared> Hold for SharedMutex<T> {
        fn hold(self: Arc<Self>) -> Box<dyn Held> {
            let guard = self.lock();
            // SAFETY: the mutex lives as long as the guard: both are in one value, whose fields are
            // dropped in their order.
            let guard =
                unsafe { std::mem::transmute::<MutexGuard<'_, T>, MutexGuard<'static, T>>(guard) };
            Box::new(HeldMutex {
                guard,
                _mutex: self,
            })
        }
    }

    impl<T: Shared> Held for HeldMutex<T> {
        fn in_child(&mut self) {
            self.guard.in_child();
        }
    }

    /// The mutexes that live, and some that have been dropped.
    pub(super) struct List {
        pub(super) mutexes: Vec<Weak<dyn Hold>>,
        /// At this length the dropped ones are removed.
        clean_at: usize,
    }

    pub(super) const FIRST_CLEAN: usize = 64;

    pub(super) static LIST: ForkMutex<List> = ForkMutex::new(List {
        mutexes: Vec::new(),
        clean_at: FIRST_CLEAN,
    });

    pub(super) fn list<T: Shared>(mutex: &Arc<SharedMutex<T>>) {
        let listed: Weak<SharedMutex<T>> = Arc::downgrade(mutex);
        let mut list = LIST.lock();
        if list.mutexes.len() >= list.clean_at {
            list.mutexes.retain(|mutex| mutex.strong_count() > 0);
            list.clean_at = FIRST_CLEAN.max(2 * list.mutexes.len());
        }
        list.mutexes.push(listed);
    }

    /// All mutexes, held by the calling thread until this is dropped.
    #[must_use]
    pub struct AllHeld {
        held: Vec<Box<dyn Held>>,
        /// No other thread lists a mutex meanwhile.
        _list: MutexGuard<'static, List>,
    }

    impl std::fmt::Debug for AllHeld {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.debug_struct("AllHeld")
                .field("count", &self.held.len())
                .finish_non_exhaustive()
        }
    }

    /// Holds all mutexes. The calling thread must hold none.
    pub fn hold_all() -> AllHeld {
        let list = LIST.lock();
        let held = list
            .mutexes
            .iter()
            .filter_map(Weak::upgrade)
            .map(Hold::hold)
            .collect();
        AllHeld { held, _list: list }
    }

    impl AllHeld {
        /// To be called in a fork's child: what the mutexes guard forgets the threads that are
        /// gone.
        pub fn in_child(&mut self) {
            for held in &mut self.held {
                held.in_child();
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{Shared, SharedMutex, all, hold_all};
    use std::sync::mpsc::channel;

    struct Value(u32);

    impl Shared for Value {
        fn in_child(&mut self) {
            self.0 = 0;
        }
    }

    #[test]
    fn while_all_are_held_no_other_thread_gets_one() {
        let mutex = SharedMutex::new(Value(1));
        let mut held = hold_all();
        let (told, tell) = channel();
        let thread = std::thread::spawn({
            let mutex = std::sync::Arc::clone(&mutex);
            move || {
                let value = mutex.lock().0;
                told.send(value).expect("the test receives");
            }
        });
        held.in_child();
        assert!(tell.try_recv().is_err());
        drop(held);
        assert_eq!(tell.recv(), Ok(0));
        thread.join().expect("it ends");
    }

    #[test]
    fn a_mutex_that_is_dropped_while_it_is_held_lives_until_then() {
        let mutex = SharedMutex::new(Value(1));
        let weak = std::sync::Arc::downgrade(&mutex);
        let held = hold_all();
        drop(mutex);
        assert!(weak.upgrade().is_some());
        drop(held);
        assert!(weak.upgrade().is_none());
    }

    #[test]
    fn dropped_mutexes_leave_the_list() {
        for _ in 0..10 * all::FIRST_CLEAN {
            drop(SharedMutex::new(Value(1)));
        }
        assert!(all::LIST.lock().mutexes.len() <= 2 * all::FIRST_CLEAN);
    }
}
