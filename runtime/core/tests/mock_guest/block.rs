//! A foreign call under a test's control.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};

/// A foreign call that lasts until another thread or process ends it.
pub(crate) struct Block {
    began: Arc<AtomicBool>,
    release: Sender<()>,
}

impl Block {
    /// A call to be made by one process, and the handle that ends it.
    pub(crate) fn new() -> (Block, impl FnOnce() + Send) {
        let (release, released) = channel();
        let began = Arc::new(AtomicBool::new(false));
        let of_call = Arc::clone(&began);
        let call = move || {
            of_call.store(true, Ordering::Release);
            let _ = released.recv();
        };
        (Block { began, release }, call)
    }

    pub(crate) fn has_begun(&self) -> bool {
        self.began.load(Ordering::Acquire)
    }

    pub(crate) fn end(&self) {
        self.release.send(()).expect("the call waits");
    }
}
