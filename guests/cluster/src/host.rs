//! What the engine calls of `baton.h`, which the program that loads the file exports.

use std::ffi::CStr;
use std::io;

/// How many forks are between this program and the one that was started. Two parts of a program
/// that were made at different numbers do not share their threads.
pub(crate) fn forks() -> u32 {
    sys::forks()
}

/// Starts a native thread that runs no process, and that receives no signals.
///
/// # Errors
/// `EAGAIN`: the system has no room for another thread.
pub(crate) fn start_helper(name: &CStr, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
    sys::start_helper(name, Box::new(body))
}

/// What a thread runs.
type Body = Box<dyn FnOnce() + Send>;

#[cfg(not(test))]
mod sys {
    use super::Body;
    use std::ffi::{CStr, c_char, c_int, c_void};
    use std::io;

    unsafe extern "C" {
        safe fn baton_forks() -> u32;
        fn baton_start_helper(
            name: *const c_char,
            run: unsafe extern "C" fn(*mut c_void),
            argument: *mut c_void,
        ) -> c_int;
    }

    pub(super) fn forks() -> u32 {
        baton_forks()
    }

    /// A panic ends the program, as no caller in C can take it.
    unsafe extern "C" fn run(argument: *mut c_void) {
        // SAFETY: `start_helper` gave this thread the box.
        let body = unsafe { Box::from_raw(argument.cast::<Body>()) };
        body();
    }

    pub(super) fn start_helper(name: &CStr, body: Body) -> io::Result<()> {
        let argument = Box::into_raw(Box::new(body)).cast();
        // SAFETY: the name is a C string, and `run` may be called with a box on any thread.
        if unsafe { baton_start_helper(name.as_ptr(), run, argument) } != 0 {
            return Ok(());
        }
        // SAFETY: no thread was made, so the box is still ours.
        drop(unsafe { Box::from_raw(argument.cast::<Body>()) });
        Err(rustix::io::Errno::AGAIN.into())
    }
}

/// Unit tests are no program with Baton.
#[cfg(test)]
mod sys {
    use super::Body;
    use std::ffi::CStr;
    use std::io;

    pub(super) fn forks() -> u32 {
        0
    }

    pub(super) fn start_helper(name: &CStr, body: Body) -> io::Result<()> {
        let name = name.to_string_lossy().into_owned();
        std::thread::Builder::new().name(name).spawn(body).map(drop)
    }
}
