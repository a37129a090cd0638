//! Handlers around a `fork` by any code of the program.
//!
//! `posix_spawn`, `vfork`, `system` and `popen` do not copy the program, and call none of this.

use std::io;
use std::sync::OnceLock;

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

/// A proof: this is the child of a fork, whose only thread is the calling one. Only
/// [`AtFork::child`] gets it.
#[derive(Debug)]
pub struct Child(());

static CALLS: OnceLock<AtFork> = OnceLock::new();

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
    if let Some(calls) = CALLS.get() {
        (calls.child)(&Child(()));
    }
}
