//! Handlers, alternate stacks, and signals to native threads.
#![cfg(not(loom))]

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use baton_sys::signals::actions::WatchedSignals;
use baton_sys::signals::arrivals::Arrivals;
use baton_sys::signals::{self, AltStack, Interrupted, ThreadHandle};

/// The thread-local errno, as C code sees it.
fn errno() -> *mut c_int {
    // SAFETY: takes nothing; the address is valid for the calling thread.
    unsafe { libc::__errno_location() }
}

/// The alternate stack of this thread.
fn alternate_stack() -> libc::stack_t {
    let mut stack = libc::stack_t {
        ss_sp: std::ptr::null_mut(),
        ss_flags: 0,
        ss_size: 0,
    };
    // SAFETY: only asks; `stack` is valid for writes.
    let result = unsafe { libc::sigaltstack(std::ptr::null(), &raw mut stack) };
    assert_eq!(result, 0);
    stack
}

#[test]
fn a_preemption_interrupts_the_named_thread_and_keeps_errno() {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    static WHERE: AtomicUsize = AtomicUsize::new(0);
    extern "C" fn preempt() {
        let here = 0_u8;
        // SAFETY: this thread's errno.
        unsafe { *errno() = 99 };
        WHERE.store(&raw const here as usize, Ordering::Relaxed);
        COUNT.fetch_add(1, Ordering::Release);
    }
    signals::install_preempt_handler(preempt).expect("the handler installs");
    std::thread::scope(|scope| {
        let (send, receive) = mpsc::channel();
        let busy = scope.spawn(move || {
            let alternate = AltStack::install().expect("an alternate stack installs");
            let bottom = alternate_stack().ss_sp as usize;
            // SAFETY: this thread's errno.
            unsafe { *errno() = 7 };
            send.send(ThreadHandle::current())
                .expect("the test waits for it");
            // SAFETY: as above.
            unsafe { *errno() = 7 };
            while COUNT.load(Ordering::Acquire) < 10 {
                std::hint::spin_loop();
            }
            // SAFETY: as above.
            assert_eq!(unsafe { *errno() }, 7);
            assert!((bottom..bottom + AltStack::SIZE).contains(&WHERE.load(Ordering::Relaxed)));
            drop(alternate);
        });
        let handle = receive.recv().expect("the thread sends its handle");
        assert_ne!(handle, ThreadHandle::current());
        while !busy.is_finished() {
            let _ = handle.interrupt();
            std::thread::yield_now();
        }
        busy.join().expect("the assertions hold");
    });
    let before = COUNT.load(Ordering::Relaxed);
    signals::preempt_this_thread();
    assert_eq!(
        COUNT.load(Ordering::Relaxed),
        before + 1,
        "without a signal"
    );
}

#[test]
fn interrupting_a_thread_that_never_was_says_so() {
    let (send, receive) = mpsc::channel();
    let thread = std::thread::spawn(move || send.send(ThreadHandle::current()));
    thread
        .join()
        .expect("it does not panic")
        .expect("the test waits for it");
    let gone = receive.recv().expect("it was sent");
    let path = format!("/proc/self/task/{}", gone.id());
    // The kernel may still be taking the thread down when join returns.
    while std::path::Path::new(&path).exists() {
        std::thread::yield_now();
    }
    assert_eq!(gone.interrupt(), Interrupted::ThreadIsGone);
}

#[test]
fn an_alternate_stack_gives_way_to_the_one_before_it() {
    fn current() -> (usize, c_int) {
        let stack = alternate_stack();
        (stack.ss_sp as usize, stack.ss_flags)
    }
    let before = current();
    let first = AltStack::install().expect("an alternate stack installs");
    let between = current();
    assert_ne!(between, before);
    drop(AltStack::install().expect("a second one installs"));
    assert_eq!(current(), between);
    drop(first);
    assert_eq!(current(), before);
}

#[test]
fn a_watched_signal_calls_its_function_until_the_default_is_restored() {
    static LAST: AtomicUsize = AtomicUsize::new(0);
    extern "C" fn note(signal: c_int) {
        LAST.store(signal as usize, Ordering::Release);
    }
    // SIGWINCH: its default action is to be ignored, so that restoring it is harmless here.
    for signal in [libc::SIGWINCH, libc::SIGUSR1] {
        signals::watch(signal, note).expect("the signal can be caught");
        // SAFETY: sends the signal to this thread, which handles it before the call returns.
        unsafe { libc::raise(signal) };
        assert_eq!(LAST.load(Ordering::Acquire), signal as usize);
    }
    LAST.store(0, Ordering::Release);
    signals::restore_default(libc::SIGWINCH).expect("the action can change");
    signals::ignore(libc::SIGUSR1).expect("the signal can be ignored");
    for signal in [libc::SIGWINCH, libc::SIGUSR1] {
        // SAFETY: as above.
        unsafe { libc::raise(signal) };
    }
    assert_eq!(LAST.load(Ordering::Acquire), 0);
}

#[test]
fn numbers_that_are_no_signals_are_refused() {
    extern "C" fn never(_: c_int) {}
    for number in [-1, 0, 65, 10_000, libc::SIGKILL] {
        let error = signals::watch(number, never).expect_err("no such signal");
        assert_eq!(error.raw_os_error(), Some(libc::EINVAL), "{number}");
        if number != libc::SIGKILL {
            assert!(signals::restore_default(number).is_err(), "{number}");
        }
    }
}

#[test]
fn a_signal_that_two_watch_has_its_former_action_after_both() {
    static FIRST: AtomicUsize = AtomicUsize::new(0);
    static ARRIVALS: Arrivals = Arrivals::new();
    extern "C" fn first(_: c_int, _: *const c_void, _: *const c_void) {
        FIRST.fetch_add(1, Ordering::Relaxed);
    }
    extern "C" fn note(signal: c_int, _: *const c_void, _: *const c_void) {
        ARRIVALS.note(signal);
    }
    let raise = || {
        // SAFETY: the signal has a handler.
        assert_eq!(unsafe { libc::raise(libc::SIGVTALRM) }, 0);
    };
    let mut watched = WatchedSignals::new();
    watched.set_action(libc::SIGVTALRM, Some(first));
    raise();
    watched.begin(libc::SIGVTALRM, note).expect("it is caught");
    watched.begin(libc::SIGVTALRM, note).expect("it is caught");
    raise();
    watched.end(libc::SIGVTALRM);
    raise();
    assert_eq!(FIRST.load(Ordering::Relaxed), 1);
    let taken: Vec<c_int> = ARRIVALS.take().signals().collect();
    assert_eq!(taken, [libc::SIGVTALRM]);
    watched.end(libc::SIGVTALRM);
    raise();
    assert_eq!(FIRST.load(Ordering::Relaxed), 2);
    assert_eq!(ARRIVALS.take().signals().count(), 0);
}

#[test]
fn an_action_that_is_set_while_a_signal_is_watched_holds_afterwards() {
    static OWN: AtomicUsize = AtomicUsize::new(0);
    extern "C" fn own(_: c_int, _: *const c_void, _: *const c_void) {
        OWN.fetch_add(1, Ordering::Relaxed);
    }
    extern "C" fn ignore(_: c_int, _: *const c_void, _: *const c_void) {}
    let raise = || {
        // SAFETY: the signal has a handler.
        assert_eq!(unsafe { libc::raise(libc::SIGPROF) }, 0);
    };
    let mut watched = WatchedSignals::new();
    watched.begin(libc::SIGPROF, ignore).expect("it is caught");
    watched.set_action(libc::SIGPROF, Some(own));
    raise();
    assert_eq!(OWN.load(Ordering::Relaxed), 0);
    watched.end(libc::SIGPROF);
    raise();
    assert_eq!(OWN.load(Ordering::Relaxed), 1);
    watched.set_action(libc::SIGPROF, None);
}

#[test]
fn a_signal_that_cannot_be_watched_is_refused() {
    extern "C" fn never(_: c_int, _: *const c_void, _: *const c_void) {}
    let mut watched = WatchedSignals::new();
    for number in [0, -1, 65, libc::SIGKILL, libc::SIGSTOP] {
        let error = watched.begin(number, never).expect_err("no such signal");
        assert_eq!(error.raw_os_error(), Some(libc::EINVAL), "{number}");
        watched.end(number); // nothing began
    }
}

/// A handler tells a signal with a mark from one without, and from one with another mark.
#[test]
fn a_mark_of_a_signal_is_recognized() {
    use baton_sys::signals::marked;
    use std::sync::atomic::{AtomicUsize, Ordering};
    const SIGNAL: c_int = 45; // a real-time signal that nobody else uses
    const MARK: usize = 0x1234_5678_9abc;
    static MARKED: AtomicUsize = AtomicUsize::new(0);
    static OTHERS: AtomicUsize = AtomicUsize::new(0);
    extern "C" fn count(_: c_int, info: *const c_void, _: *const c_void) {
        // SAFETY: the argument of a handler with SA_SIGINFO.
        let which = match unsafe { marked::has_mark(info, MARK) } {
            true => &MARKED,
            false => &OTHERS,
        };
        which.fetch_add(1, Ordering::SeqCst);
    }
    let mut watched = WatchedSignals::new();
    watched.begin(SIGNAL, count).expect("it can be caught");
    let me = i32::try_from(std::process::id()).expect("it fits");
    marked::send(me, SIGNAL, MARK).expect("it is sent");
    while MARKED.load(Ordering::SeqCst) == 0 {
        std::hint::spin_loop();
    }
    assert_eq!(OTHERS.load(Ordering::SeqCst), 0);
    marked::send(me, SIGNAL, MARK + 1).expect("it is sent");
    while OTHERS.load(Ordering::SeqCst) < 1 {
        std::hint::spin_loop();
    }
    // SAFETY: the signal has a handler.
    unsafe { libc::raise(SIGNAL) };
    while OTHERS.load(Ordering::SeqCst) < 2 {
        std::hint::spin_loop();
    }
    assert_eq!(MARKED.load(Ordering::SeqCst), 1);
    watched.end(SIGNAL);
    assert!(marked::send(i32::MAX, SIGNAL, MARK).is_err());
}
