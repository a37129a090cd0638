//! The preemption signal beside other code that takes or blocks it: a program of its own, as a
//! signal's handler is the program's.
#![cfg(all(target_os = "linux", not(loom)))]

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};

use baton_sys::signals::mask::SignalMask;
use baton_sys::signals::{self, Interrupted, Obstacle, PREEMPT_SIGNAL, ThreadHandle, marked};

static OURS: AtomicUsize = AtomicUsize::new(0);
static OTHERS: AtomicUsize = AtomicUsize::new(0);
static FORMER: AtomicUsize = AtomicUsize::new(0);

extern "C" fn preempt() {
    OURS.fetch_add(1, Ordering::Relaxed);
}

/// The handler of a library. As some do, it calls the one that was there before.
extern "C" fn of_library(signal: c_int, info: *mut c_void, context: *mut c_void) {
    OTHERS.fetch_add(1, Ordering::Relaxed);
    let former = FORMER.load(Ordering::Relaxed);
    if former != 0 {
        // SAFETY: a handler with SA_SIGINFO.
        let former: extern "C" fn(c_int, *mut c_void, *mut c_void) =
            unsafe { std::mem::transmute(former) };
        former(signal, info, context);
    }
}

/// Installs the library's handler. Returns the one that was there.
fn take(flags: c_int) -> usize {
    // SAFETY: both records are plain integers; the handler has the type that the flags ask for, or
    // takes the first argument only.
    unsafe {
        let (mut action, mut former): (libc::sigaction, libc::sigaction) = std::mem::zeroed();
        action.sa_sigaction = of_library as *const () as libc::sighandler_t;
        action.sa_flags = flags;
        assert_eq!(
            libc::sigaction(PREEMPT_SIGNAL, &raw const action, &raw mut former),
            0
        );
        former.sa_sigaction
    }
}

/// How often each handler is called for one signal.
fn counts_of_a_signal() -> (usize, usize) {
    OURS.store(0, Ordering::Relaxed);
    OTHERS.store(0, Ordering::Relaxed);
    assert_eq!(ThreadHandle::current().interrupt(), Interrupted::Sent);
    (OURS.load(Ordering::Relaxed), OTHERS.load(Ordering::Relaxed))
}

#[test]
fn the_signal_is_taken_back_and_both_handlers_are_called() {
    let me = ThreadHandle::current();
    take(0); // before us
    signals::install_preempt_handler(preempt).expect("the handler installs");
    assert_eq!(counts_of_a_signal(), (1, 1));
    assert_eq!(me.obstacle(), None);
    // It does not call ours.
    take(0);
    assert_eq!(counts_of_a_signal(), (0, 1));
    assert_eq!(me.obstacle(), Some(Obstacle::Replaced));
    assert_eq!(counts_of_a_signal(), (1, 1));
    assert_eq!(me.obstacle(), None);
    // It calls ours, which calls it: neither calls the other for ever.
    FORMER.store(take(libc::SA_SIGINFO), Ordering::Relaxed);
    assert_eq!(counts_of_a_signal(), (2, 2));
    assert_eq!(me.obstacle(), Some(Obstacle::Replaced));
    assert_eq!(counts_of_a_signal(), (2, 1));
    FORMER.store(0, Ordering::Relaxed);
    // SAFETY: it ignores the signal.
    unsafe { libc::signal(PREEMPT_SIGNAL, libc::SIG_IGN) };
    assert_eq!(me.obstacle(), Some(Obstacle::Replaced));
    assert_eq!(counts_of_a_signal(), (1, 0));
    // An emulator blocks signals by itself, and the system does not know of it.
    let is_emulated = std::env::var_os("BATON_TESTS_ARE_EMULATED").is_some();
    if cfg!(not(baton_portable)) && !is_emulated {
        let before = SignalMask::empty().with(PREEMPT_SIGNAL).block();
        assert_eq!(me.obstacle(), Some(Obstacle::Blocked));
        before.set();
        assert_eq!(me.obstacle(), None);
    }
}

/// Each text is whole in the line that a guest makes of it without memory.
#[test]
fn an_obstacle_is_described_in_a_line() {
    for (obstacle, part) in [
        (Obstacle::Replaced, "had taken the signal SIGURG"),
        (Obstacle::Refused(libc::EPERM), "Operation not permitted"),
        (Obstacle::Blocked, "pthread_sigmask"),
        (Obstacle::Outranked(98, libc::EPERM), "priority 98"),
    ] {
        let text = obstacle.to_string();
        assert!(text.contains(part) && text.len() < 400, "{text}");
    }
}

/// A client's signal goes to the thread that receives it.
#[test]
fn a_marked_signal_reaches_the_thread_that_it_is_for() {
    const SIGNAL: c_int = 46; // a real-time signal that nobody else uses
    const MARK: usize = 0x1234_5678_9abc;
    static MARKED: AtomicUsize = AtomicUsize::new(0);
    extern "C" fn note(_: c_int, info: *const c_void, _: *const c_void) {
        // SAFETY: the argument of a handler with SA_SIGINFO.
        if unsafe { marked::has_mark(info, MARK) } {
            let thread = ThreadHandle::current().id();
            MARKED.store(usize::try_from(thread).unwrap_or(0), Ordering::Relaxed);
        }
    }
    let mut watched = signals::actions::WatchedSignals::new();
    watched.begin(SIGNAL, note).expect("it can be caught");
    let me = ThreadHandle::current().id();
    let program = i32::try_from(std::process::id()).expect("it fits");
    marked::send_to_thread(program, me, SIGNAL, MARK).expect("it is sent");
    assert_eq!(
        MARKED.load(Ordering::Relaxed),
        usize::try_from(me).expect("a number")
    );
    assert!(marked::send_to_thread(program, i32::MAX, SIGNAL, MARK).is_err());
    watched.end(SIGNAL);
}
