//! The preemption signal: its handler, and what keeps the handler from being called.
//!
//! Other code of a program may take the signal, refuse it or block it, without asking anybody. So
//! the runtime asks for the [obstacle](ThreadHandle::obstacle) when a thread does not answer.
//!
//! A handler that other code has installed is called after ours, from the moment at which the
//! signal is taken back ([`reclaim`]):
//!
//! | `OTHER` | meaning | left by |
//! |---|---|---|
//! | 0 | nobody else has a handler | `reclaim` |
//! | a function | its handler, which is called after ours | `reclaim`, if there is a newer one |

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::fmt::{self, Display};
use std::io;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use super::mask::is_blocked_on;
use super::{Interrupted, PREEMPT_SIGNAL, ThreadHandle, keeping_errno};

/// The function of [`install_preempt_handler`]. Written before the handler is installed (Release),
/// read in handlers (Acquire).
static PREEMPT: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());

/// The handler that other code has installed, or 0. See the module's text.
static OTHER: AtomicUsize = AtomicUsize::new(0);

/// What [`PREEMPT_SIGNAL`] calls on threads that have chosen it.
#[derive(Debug, Clone, Copy)]
pub struct PreemptTarget {
    /// As the function of [`install_preempt_handler`].
    pub preempt: extern "C" fn(argument: *mut c_void),
    /// Its argument.
    pub argument: *mut c_void,
}

thread_local! {
    /// The calling thread's own target, or null. It has no destructor, so a handler may read it.
    static TARGET: Cell<*const PreemptTarget> = const { Cell::new(ptr::null()) };

    /// Whether the thread is in the handler of other code. That may call ours, as its former one.
    static IN_OTHER: Cell<bool> = const { Cell::new(false) };
}

/// Makes [`PREEMPT_SIGNAL`] call `target` on the calling thread, instead of the function of
/// [`install_preempt_handler`]. Null: that function again. So several languages of a program have
/// each a handler on their own threads.
///
/// # Safety
/// `target` lives, and does not change, until the thread has chosen another one.
#[inline(never)] // The caller's process may have come from another thread.
pub unsafe fn preempt_this_thread_by(target: *const PreemptTarget) {
    TARGET.with(|own| own.set(target));
}

/// Has [`PREEMPT_SIGNAL`] handled, for threads that call [`preempt_this_thread_by`]. A handler that
/// the program has for it is called, too.
///
/// # Errors
///
/// Those of `sigaction`.
pub fn handle_preempt_signal() -> io::Result<()> {
    reclaim().map(drop)
}

/// Makes [`PREEMPT_SIGNAL`] call `preempt` on the interrupted thread, unless that has a target of
/// its own ([`preempt_this_thread_by`]).
///
/// System calls restart (`SA_RESTART`) where the kernel restarts any; `errno` is preserved.
/// `preempt` decides whether there is anything to do: the signal may come late, twice, or from
/// elsewhere. It must be async-signal-safe and must not unwind. Handlers of other signals call it,
/// too ([`preempt_this_thread`]), so it may interrupt itself.
///
/// # Errors
///
/// Those of `sigaction`.
pub fn install_preempt_handler(preempt: extern "C" fn()) -> io::Result<()> {
    // Release: pairs with the load in `preempt_this_thread`.
    PREEMPT.store(preempt as *mut (), Ordering::Release);
    handle_preempt_signal()
}

/// What [`reclaim`] has found.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    Ours,
    /// The handler of others, or none. Now it is ours.
    Others,
}

/// Makes our handler that of [`PREEMPT_SIGNAL`], if it is not. The other one is called after it.
fn reclaim() -> io::Result<Found> {
    let ours = on_preempt as *const () as libc::sighandler_t;
    // SAFETY: all-zero bytes are a valid sigaction.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: it only asks; the action is valid for writes.
    if unsafe { libc::sigaction(PREEMPT_SIGNAL, ptr::null(), &raw mut action) } != 0 {
        return Err(io::Error::last_os_error());
    }
    if action.sa_sigaction == ours {
        return Ok(Found::Ours);
    }
    let other = match action.sa_sigaction {
        libc::SIG_DFL | libc::SIG_IGN => 0,
        function => function,
    };
    // Release: pairs with the load in `call_other`.
    OTHER.store(other, Ordering::Release);
    // Its mask stays: its handler expects that.
    action.sa_sigaction = ours;
    action.sa_flags = libc::SA_RESTART | libc::SA_ONSTACK | libc::SA_SIGINFO;
    // SAFETY: the action is initialised, with a handler of the type that its flags ask for.
    match unsafe { libc::sigaction(PREEMPT_SIGNAL, &raw const action, ptr::null_mut()) } {
        0 => Ok(Found::Others),
        _ => Err(io::Error::last_os_error()),
    }
}

extern "C" fn on_preempt(signal: c_int, info: *mut c_void, context: *mut c_void) {
    keeping_errno(preempt_this_thread);
    call_other(signal, info, context);
}

/// Calls the handler of other code, if there is one.
fn call_other(signal: c_int, info: *mut c_void, context: *mut c_void) {
    // Acquire: pairs with the store in `reclaim`.
    let other = OTHER.load(Ordering::Acquire);
    if other == 0 || IN_OTHER.replace(true) {
        return;
    }
    // SAFETY: the address is that of a handler, by `reclaim`. One without SA_SIGINFO takes the
    // first argument, and does not see the others.
    let other: extern "C" fn(c_int, *mut c_void, *mut c_void) =
        unsafe { std::mem::transmute(other) };
    other(signal, info, context);
    IN_OTHER.set(false);
}

/// Calls the thread's target or the function of [`install_preempt_handler`], if there is one, as
/// [`PREEMPT_SIGNAL`] would on the calling thread. For other signal handlers, and async-signal-safe
/// as that function is.
pub fn preempt_this_thread() {
    let target = TARGET.with(Cell::get);
    if !target.is_null() {
        // SAFETY: it lives and does not change, by the condition of `preempt_this_thread_by`.
        let target = unsafe { *target };
        (target.preempt)(target.argument);
        return;
    }
    // Acquire: pairs with the store in `install_preempt_handler`.
    let handler = PREEMPT.load(Ordering::Acquire);
    if !handler.is_null() {
        // SAFETY: only `install_preempt_handler` writes it, with a function of this type.
        let preempt: extern "C" fn() = unsafe { std::mem::transmute(handler) };
        preempt();
    }
}

/// Why [`PREEMPT_SIGNAL`] does not preempt the process of a thread. Shown as a text, it is a
/// sentence without its first word's capital and its stop.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// Other code had taken the signal. It was taken back.
    Replaced,
    /// The system refuses to send the signal, with this error.
    Refused(c_int),
    /// The thread blocks the signal.
    Blocked,
    /// The thread's real-time priority is this, and the system refuses a higher one to the thread
    /// that sends the signal, with this error.
    Outranked(c_int, c_int),
}

impl Obstacle {
    /// Its number, from 0 on.
    #[must_use]
    pub fn number(self) -> u32 {
        match self {
            Obstacle::Replaced => 0,
            Obstacle::Refused(_) => 1,
            Obstacle::Blocked => 2,
            Obstacle::Outranked(..) => 3,
        }
    }

    /// Whether it is out of the way now.
    #[must_use]
    pub fn is_mended(self) -> bool {
        self == Obstacle::Replaced
    }
}

impl Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let error = io::Error::from_raw_os_error;
        match *self {
            Obstacle::Replaced => f.write_str(
                "a library of the program had taken the signal SIGURG, which preempts processes. \
                 Baton has taken it back, and calls the library's handler after its own",
            ),
            Obstacle::Refused(why) => write!(
                f,
                "the system refuses the signal SIGURG, which preempts processes: {}. Let the \
                 sandbox (seccomp) of the program allow the system call tgkill",
                error(why)
            ),
            Obstacle::Blocked => f.write_str(
                "the signal SIGURG, which preempts processes, is blocked on the native thread of \
                 the running process. Let the C code that has blocked it (pthread_sigmask) leave \
                 it unblocked",
            ),
            Obstacle::Outranked(priority, why) => write!(
                f,
                "the program runs under a real-time policy with the priority {priority}, and the \
                 system refuses a higher one to the thread that preempts processes: {}. Give the \
                 program a lower one (chrt), or let it have a higher one (ulimit -r)",
                error(why)
            ),
        }
    }
}

impl ThreadHandle {
    /// Looks why [`PREEMPT_SIGNAL`] does not reach the thread, and mends what it can. `None`: it
    /// does reach it, as far as the system says. Sends the signal once, and allocates nothing.
    pub fn obstacle(self) -> Option<Obstacle> {
        let before = reclaim();
        if let Interrupted::Refused(why) = self.interrupt() {
            return Some(Obstacle::Refused(why));
        }
        if let Ok(Found::Others) = before {
            return Some(Obstacle::Replaced);
        }
        is_blocked_on(self, PREEMPT_SIGNAL).then_some(Obstacle::Blocked)
    }
}
