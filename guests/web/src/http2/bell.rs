//! Which streams have moved, so that only these are looked at.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Wake, Waker};

/// The streams that have moved since this was last asked.
#[derive(Debug, Default)]
pub(super) struct Moved(Mutex<Vec<u32>>);

impl Moved {
    pub(super) fn take(&self) -> Vec<u32> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// What h2 rings when a stream has data, room for data, or was reset.
#[derive(Debug)]
pub(super) struct Bell {
    stream: u32,
    has_rung: AtomicBool,
    moved: Arc<Moved>,
}

impl Bell {
    pub(super) fn new(stream: u32, moved: &Arc<Moved>) -> Arc<Bell> {
        Arc::new(Bell {
            stream,
            has_rung: AtomicBool::new(false),
            moved: Arc::clone(moved),
        })
    }

    pub(super) fn waker(self: &Arc<Bell>) -> Waker {
        Waker::from(Arc::clone(self))
    }

    /// It rings again from now on. Relaxed: one thread at a time uses a connection.
    pub(super) fn clear(&self) {
        self.has_rung.store(false, Ordering::Relaxed);
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Bell>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Bell>) {
        // Relaxed, as in `clear`.
        if !self.has_rung.swap(true, Ordering::Relaxed) {
            let moved = self.moved.0.lock();
            moved
                .unwrap_or_else(PoisonError::into_inner)
                .push(self.stream);
        }
    }
}
