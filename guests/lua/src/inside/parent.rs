//! An observer that has started this program, and looks at it from its first instruction on.
//!
//! The program has one end of a pair of sockets from it, and waits until the observer's question is
//! being answered. So a program that lasts for some milliseconds can be profiled. **It never waits
//! in vain**: the request to go on is made when the answer begins, and when the observer has gone.

use super::stop::Stop;
use baton_observe::observer::{self, Target};
use baton_sys::clock;
use std::ffi::{CStr, c_char, c_int};
use std::os::fd::FromRawFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

unsafe extern "C" {
    fn baton_lua_take_socket(variable: *const c_char) -> c_int;
}

/// The variable with the number of the socket.
const VARIABLE: &CStr = c"BATON_OBSERVER";

/// The longest wait: the observer may be stopped.
const PATIENCE: Duration = Duration::from_secs(60);

/// Requested when the program may go on.
static GOES_ON: LazyLock<Arc<Stop>> = LazyLock::new(Arc::default);

/// What the first thread had computed when the program went on, in nanoseconds.
static COMPUTED: AtomicU64 = AtomicU64::new(0);

/// Waits for the observer that has started this program, if one has. Called once, at the start.
pub(super) fn serve(target: &Arc<dyn Target>) {
    // SAFETY: there are no other threads yet, and the variable is a C string.
    let descriptor = unsafe { baton_lua_take_socket(VARIABLE.as_ptr()) };
    if descriptor < 0 {
        return;
    }
    // SAFETY: the observer has opened it for this program, and nothing else uses it.
    let client = unsafe { UnixStream::from_raw_fd(descriptor) };
    match observer::serve_parent(client, Arc::clone(target), go_on) {
        Ok(()) => {
            GOES_ON.wait(PATIENCE);
        }
        Err(error) => eprintln!("baton: cannot serve the observer: {error}"),
    }
    // Relaxed: a number for a profile.
    COMPUTED.store(super::nanos(clock::thread_cpu_time()), Ordering::Relaxed);
}

/// Lets the program go on.
pub(super) fn go_on() {
    GOES_ON.request();
}

/// What the first thread had computed when the program went on.
pub(super) fn computed_before() -> Duration {
    // Relaxed: as above.
    Duration::from_nanos(COMPUTED.load(Ordering::Relaxed))
}
