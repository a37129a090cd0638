//! What is to be done around a `fork` by whatever code of the program.
//!
//! `posix_spawn`, `vfork`, `system` and `popen` make no copy of the program, and call none of this.

use std::io;
use std::sync::OnceLock;

/// What is called on the thread that forks.
#[derive(Clone, Copy, Debug)]
pub struct AtFork {
    /// Before the copy is made: sees to it that no other thread is in the middle of anything.
    pub prepare: fn(),
    /// In the parent, after `prepare`; also when the fork has failed.
    pub parent: fn(),
    /// In the child, whose only thread is the calling one, after `prepare`.
    pub child: fn(),
}

static CALLS: OnceLock<AtFork> = OnceLock::new();

/// Has `calls` made around every `fork` from now on. The functions must not unwind. Only the first
/// `calls` of the program count.
///
/// # Errors
///
/// `ENOMEM`: there is no memory to note it.
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
        (calls.child)();
    }
}
