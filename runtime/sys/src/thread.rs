//! Native threads that start without the dynamic loader's lock.
//!
//! `std::thread` registers destructors of thread-local variables when a thread starts. For that,
//! the C library takes the lock that `dlopen` holds while it runs a library's constructors. A
//! thread that is started meanwhile would wait until the constructors end. So the runtime starts
//! its threads by [`start`], and they have no thread-local variable with a destructor.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::{io, mem, ptr};

use crate::promptness::Policy;
use crate::signals::Obstacle;
use crate::signals::mask::SignalMask;

/// What a thread runs, behind the one pointer that it is given.
type Body = Box<dyn FnOnce() + Send>;

/// Bytes that a thread's name may have, with the zero at its end (Linux).
const LONGEST_NAME: usize = 16;

/// The name of a thread and what it runs.
struct Start {
    name: CString,
    body: Body,
}

/// Starts a native thread with a stack of at least `stack_size` bytes. It cannot be joined.
///
/// A panic of `body` ends the program. The name is shortened to 15 bytes.
///
/// # Errors
/// The system's, if it has no room for another thread.
///
/// ```
/// let (sender, receiver) = std::sync::mpsc::channel();
/// baton_sys::thread::start("worker", 128 * 1024, move || {
///     sender.send(baton_sys::thread::name()).unwrap();
/// })?;
/// assert_eq!(receiver.recv().unwrap(), "worker");
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn start(
    name: &str,
    stack_size: usize,
    body: impl FnOnce() + Send + 'static,
) -> io::Result<()> {
    start_with(name, Box::new(body), &How::detached(stack_size)).map(drop)
}

/// What a native thread inherits from the one that starts it.
#[derive(Clone, Copy, Debug)]
pub struct Inheritance {
    mask: SignalMask,
    policy: Policy,
}

impl Inheritance {
    /// What threads inherit from the calling one.
    #[must_use]
    pub fn of_this_thread() -> Inheritance {
        Inheritance {
            mask: SignalMask::of_this_thread(),
            policy: Policy::of_this_thread(),
        }
    }
}

/// As [`start`], for a thread that inherits from another one than the calling one.
///
/// # Errors
/// The system's, if it has no room for another thread.
pub fn start_with_inheritance(
    name: &str,
    stack_size: usize,
    from: &Inheritance,
    body: impl FnOnce() + Send + 'static,
) -> io::Result<()> {
    let differs = from.policy != Policy::of_this_thread();
    let how = How {
        policy: differs.then_some(from.policy),
        ..How::detached(stack_size)
    };
    let before = from.mask.set();
    let started = start_with(name, Box::new(body), &how).map(drop);
    before.set();
    started
}

/// As [`start`], for a thread whose real-time priority is above that of the calling one, if that
/// has any, and that blocks all signals. If the system refuses the priority, the thread has that of
/// the calling one. Returns what this means for preemption.
///
/// # Errors
/// The system's, if it has no room for another thread.
pub fn start_above(
    name: &str,
    stack_size: usize,
    body: impl FnOnce() + Send + 'static,
) -> io::Result<Option<Obstacle>> {
    let below = Policy::of_this_thread();
    let how = How {
        policy: below.above(),
        ..How::detached(stack_size)
    };
    let before = SignalMask::full().set();
    let started = start_with(name, Box::new(body), &how);
    before.set();
    let (_, refusal) = started?;
    Ok(refusal.map(|error| Obstacle::Outranked(below.priority(), error)))
}

/// A native thread that can be waited for. Dropped, it is not waited for.
#[derive(Debug)]
pub struct Joinable(libc::pthread_t);

// SAFETY: any thread may join another one, or detach it; the value is only its number.
unsafe impl Send for Joinable {}

impl Joinable {
    /// Waits until the thread is gone, and all of its memory was given back.
    pub fn join(self) {
        // SAFETY: the thread was started so that it can be joined, and neither was done yet: that
        // takes the value, or drops it.
        unsafe { libc::pthread_join(self.0, ptr::null_mut()) };
        mem::forget(self);
    }
}

impl Drop for Joinable {
    fn drop(&mut self) {
        // SAFETY: as in `join`.
        unsafe { libc::pthread_detach(self.0) };
    }
}

/// As [`start`], for a thread that another one waits for.
///
/// # Errors
/// The system's, if it has no room for another thread.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicBool, Ordering};
/// let has_run = Arc::new(AtomicBool::new(false));
/// let flag = Arc::clone(&has_run);
/// let worker = baton_sys::thread::start_joinable("worker", 128 * 1024, move || {
///     flag.store(true, Ordering::Relaxed);
/// })?;
/// worker.join();
/// assert!(has_run.load(Ordering::Relaxed));
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn start_joinable(
    name: &str,
    stack_size: usize,
    body: impl FnOnce() + Send + 'static,
) -> io::Result<Joinable> {
    let how = How {
        is_detached: false,
        ..How::detached(stack_size)
    };
    start_with(name, Box::new(body), &how).map(|(thread, _)| Joinable(thread))
}

/// Starts a native thread that runs no process, and that receives no signals: they go to other
/// threads. Its stack is as large as the system makes it. Otherwise it is as for [`start`].
///
/// # Errors
/// The system's, if it has no room for another thread.
///
/// ```
/// let (sender, receiver) = std::sync::mpsc::channel();
/// baton_sys::thread::start_helper("helper", move || sender.send(7).unwrap())?;
/// assert_eq!(receiver.recv(), Ok(7));
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn start_helper(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let how = How {
        stack_size: None,
        ..How::detached(0)
    };
    let before = SignalMask::full().set();
    let started = start_with(name, Box::new(body), &how).map(drop);
    before.set();
    started
}

/// How a thread is started.
struct How {
    /// `None`: as large as the system makes it.
    stack_size: Option<usize>,
    /// Whether nobody waits for it.
    is_detached: bool,
    /// `None`: that of the calling thread. Also if the system refuses this one.
    policy: Option<Policy>,
}

impl How {
    fn detached(stack_size: usize) -> How {
        How {
            stack_size: Some(stack_size),
            is_detached: true,
            policy: None,
        }
    }
}

/// A new thread, and the system's error if it has refused the thread its policy.
type Started = (libc::pthread_t, Option<c_int>);

fn start_with(name: &str, body: Body, how: &How) -> io::Result<Started> {
    let name: Vec<u8> = name
        .bytes()
        .filter(|&byte| byte != 0)
        .take(LONGEST_NAME - 1)
        .collect();
    let start = Box::new(Start {
        name: CString::new(name)?,
        body,
    });
    let start = Box::into_raw(start);
    // SAFETY: `start` came from a box and is not shared.
    let refusal = match unsafe { create(how, start) } {
        Ok(started) => return Ok(started),
        Err(refusal) => refusal,
    };
    // SAFETY: no thread was made, so the box is still ours.
    drop(unsafe { Box::from_raw(start) });
    Err(io::Error::from_raw_os_error(refusal))
}

/// Makes the thread.
///
/// # Errors
/// The system's error.
///
/// # Safety
/// `start` came from a box. If a thread was made, it owns the box.
unsafe fn create(how: &How, start: *mut Start) -> Result<Started, c_int> {
    let mut attributes = mem::MaybeUninit::<libc::pthread_attr_t>::uninit();
    let mut thread = mem::MaybeUninit::<libc::pthread_t>::uninit();
    let attributes = attributes.as_mut_ptr();
    // SAFETY: the attributes are initialized before they are used and destroyed afterwards. The
    // caller promises that `start` is what `run` wants.
    unsafe {
        let mut refusal = libc::pthread_attr_init(attributes);
        if refusal != 0 {
            return Err(refusal);
        }
        if how.is_detached {
            refusal = libc::pthread_attr_setdetachstate(attributes, libc::PTHREAD_CREATE_DETACHED);
        }
        if refusal == 0
            && let Some(stack_size) = how.stack_size
        {
            let least = stack_size.max(libc::PTHREAD_STACK_MIN);
            refusal = libc::pthread_attr_setstacksize(attributes, least);
        }
        let mut make = || libc::pthread_create(thread.as_mut_ptr(), attributes, run, start.cast());
        let mut of_policy = None;
        if refusal == 0
            && let Some(policy) = how.policy
        {
            let mut refused = policy.choose_in(attributes);
            if refused == 0 {
                refused = make();
            }
            of_policy = (refused != 0).then_some(refused);
        }
        if refusal == 0 && (how.policy.is_none() || of_policy.is_some()) {
            Policy::inherit_in(attributes);
            refusal = make();
        }
        libc::pthread_attr_destroy(attributes);
        if refusal != 0 {
            return Err(refusal);
        }
        Ok((thread.assume_init(), of_policy))
    }
}

extern "C" fn run(start: *mut c_void) -> *mut c_void {
    // SAFETY: `create` gave this thread a box of a `Start`.
    let start = unsafe { Box::from_raw(start.cast::<Start>()) };
    set_name(&start.name);
    // Without a place that catches a panic, the stack would not be unwound, and what `body` has
    // prepared for a panic would not run.
    if catch_unwind(AssertUnwindSafe(start.body)).is_err() {
        std::process::abort();
    }
    ptr::null_mut()
}

fn set_name(name: &CStr) {
    // A name is for people who look at the program, so a refusal does no harm.
    #[cfg(target_os = "linux")]
    // SAFETY: the name ends with a zero, and the thread is the calling one.
    let _ = unsafe { libc::pthread_setname_np(libc::pthread_self(), name.as_ptr()) };
    #[cfg(target_os = "macos")]
    // SAFETY: the name ends with a zero.
    let _ = unsafe { libc::pthread_setname_np(name.as_ptr()) };
    #[cfg(not(any(target_os = "linux", target_os = "macos")))]
    let _ = name;
}

/// The name of the calling thread; empty if it has none or the system does not tell.
#[must_use]
pub fn name() -> String {
    let mut bytes: [c_char; 64] = [0; 64];
    #[cfg(any(target_os = "linux", target_os = "macos"))]
    // SAFETY: the buffer has the length that is given.
    let _ =
        unsafe { libc::pthread_getname_np(libc::pthread_self(), bytes.as_mut_ptr(), bytes.len()) };
    bytes[bytes.len() - 1] = 0;
    // SAFETY: there is a zero at the end of the buffer at the latest.
    unsafe { CStr::from_ptr(bytes.as_ptr()) }
        .to_string_lossy()
        .into_owned()
}

#[cfg(test)]
mod tests {
    use super::{name, start, start_helper};
    use std::sync::mpsc;

    #[test]
    fn a_thread_runs_what_it_was_given_with_the_stack_it_asked_for() {
        let (sender, receiver) = mpsc::channel();
        start("wide", 4 << 20, move || {
            let room = [7_u8; 2 << 20];
            sender.send(std::hint::black_box(&room)[1 << 20]).unwrap();
        })
        .unwrap();
        assert_eq!(receiver.recv(), Ok(7));
    }

    #[test]
    fn a_helper_blocks_all_signals_and_its_starter_none() {
        /// Whether the calling thread blocks this signal.
        fn blocks(signal: i32) -> bool {
            // SAFETY: all-zero bytes are a set of signals, into which the mask is read.
            unsafe {
                let mut mask: libc::sigset_t = std::mem::zeroed();
                libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &raw mut mask);
                libc::sigismember(&raw const mask, signal) == 1
            }
        }
        let (sender, receiver) = mpsc::channel();
        start_helper("helper", move || {
            let blocked = [libc::SIGINT, libc::SIGTERM, libc::SIGURG].map(blocks);
            sender.send(blocked).unwrap();
        })
        .unwrap();
        assert_eq!(receiver.recv(), Ok([true; 3]));
        assert!(!blocks(libc::SIGTERM) && !blocks(libc::SIGURG));
    }

    #[test]
    fn a_name_that_is_too_long_is_shortened() {
        let (sender, receiver) = mpsc::channel();
        start("a name of many\0 letters", 1, move || {
            sender.send(name()).unwrap()
        })
        .unwrap();
        assert_eq!(receiver.recv().as_deref(), Ok("a name of many "));
    }

    #[test]
    fn what_the_thread_owns_is_dropped_when_it_cannot_be_made() {
        let (sender, receiver) = mpsc::channel::<()>();
        let refused = start("large", usize::MAX / 2, move || drop(sender));
        assert!(refused.is_err());
        assert!(receiver.recv().is_err());
    }
}
