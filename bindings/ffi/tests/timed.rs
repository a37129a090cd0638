//! Tests calls with a timeout: those that are in time, those that are abandoned, and the limit on
//! their number.

mod closures {
    #![allow(dead_code, unreachable_pub, reason = "its other users need more of it")]
    include!("../../../runtime/core/doctests/closures.rs");
}

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use baton_core::sched::{Wake, WakeReason};
use baton_core::vm::Inside;
use baton_ffi::timed::{CallEnd, TimedCall, TimedCalls};

const LONG: Option<Duration> = Some(Duration::from_secs(60));
const SHORT: Option<Duration> = Some(Duration::from_millis(1));

/// Begins a call and gives it to a helper.
fn start(
    vm: &Inside<'_>,
    calls: &'static TimedCalls,
    timeout: Option<Duration>,
    work: impl FnOnce() + Send + 'static,
) -> Arc<TimedCall> {
    let call = calls.begin(vm, timeout);
    assert_eq!(calls.await_helper(vm, &call).reason, WakeReason::Done);
    calls.start(&call, 0, work).expect("a thread can be had");
    call
}

fn errno() -> *mut i32 {
    // SAFETY: no conditions.
    unsafe { libc::__errno_location() }
}

#[test]
fn a_call_in_time_is_done_and_errno_comes_back() {
    closures::run(|main| {
        let calls = TimedCalls::new(&main.vm);
        let call = calls.begin(&main.vm, LONG);
        assert_eq!(calls.await_helper(&main.vm, &call).reason, WakeReason::Done);
        let found = Arc::new(AtomicUsize::new(0));
        let work = {
            let found = Arc::clone(&found);
            move || {
                // SAFETY: this thread's errno.
                found.store(unsafe { *errno() } as usize, Ordering::Relaxed);
                // SAFETY: as above.
                unsafe { *errno() = 7 };
            }
        };
        calls.start(&call, 3, work).expect("a thread can be had");
        assert_eq!(calls.await_end(&main.vm, &call), CallEnd::Done(7));
        assert_eq!(found.load(Ordering::Relaxed), 3);
        assert!(calls.next_returned().is_none());
    });
}

#[test]
fn no_end_of_a_call_is_missed() {
    closures::run(|main| {
        let calls = TimedCalls::new(&main.vm);
        for round in 0..2000_u32 {
            let call = start(&main.vm, calls, LONG, || {});
            // The call ends before the wait, or during it.
            for _ in 0..round % 64 * 16 {
                std::hint::spin_loop();
            }
            assert_eq!(calls.await_end(&main.vm, &call), CallEnd::Done(0));
        }
        assert_eq!(calls.waiting(), 0);
    });
}

#[test]
fn a_call_that_takes_too_long_is_abandoned_and_returned_later() {
    closures::run(|main| {
        let calls = TimedCalls::new(&main.vm);
        let (release, released) = mpsc::channel::<()>();
        let call = start(&main.vm, calls, SHORT, move || released.recv().unwrap());
        let timed_out = Wake::because(WakeReason::TimedOut);
        assert_eq!(
            calls.await_end(&main.vm, &call),
            CallEnd::Abandoned(timed_out)
        );
        assert!(calls.next_returned().is_none());
        assert_eq!(calls.in_progress(), 1);
        release.send(()).expect("the call goes on");
        let returned = loop {
            match calls.next_returned() {
                Some(returned) => break returned,
                None => std::thread::yield_now(),
            }
        };
        assert!(Arc::ptr_eq(&returned, &call));
        while calls.in_progress() > 0 {
            std::thread::yield_now();
        }
    });
}

#[test]
fn a_killed_process_abandons_its_call() {
    closures::run(|main| {
        let calls = TimedCalls::new(&main.vm);
        let (release, released) = mpsc::channel::<()>();
        let end = Arc::new(Mutex::new(None));
        let process = {
            let end = Arc::clone(&end);
            main.spawn(move |me| {
                let call = start(&me.vm, calls, None, move || released.recv().unwrap());
                *end.lock().unwrap() = Some(calls.await_end(&me.vm, &call));
            })
        };
        while calls.waiting() == 0 || calls.in_progress() == 0 {
            main.vm.yield_now();
        }
        let _ = main.vm.kill(process);
        main.join(process);
        let killed = Wake::because(WakeReason::Killed);
        assert_eq!(
            *end.lock().unwrap(),
            Some(CallEnd::Abandoned(killed)),
            "the wait ended by the kill"
        );
        release.send(()).expect("the call goes on");
    });
}

#[test]
fn calls_beyond_the_limit_wait_until_one_ends_or_the_limit_is_raised() {
    closures::run(|main| {
        main.vm.parameters.set_max_threads(1);
        let calls = TimedCalls::new(&main.vm);
        let (release, released) = mpsc::channel::<()>();
        let first = start(&main.vm, calls, LONG, move || released.recv().unwrap());

        let second = calls.begin(&main.vm, SHORT);
        assert_eq!(
            calls.await_helper(&main.vm, &second).reason,
            WakeReason::TimedOut
        );
        second.free(&main.vm);

        main.vm.parameters.set_max_threads(2);
        calls.limit_changed(&main.vm);
        let third = start(&main.vm, calls, LONG, || {});
        assert_eq!(calls.await_end(&main.vm, &third), CallEnd::Done(0));

        release.send(()).expect("the first call goes on");
        assert_eq!(calls.await_end(&main.vm, &first), CallEnd::Done(0));
    });
}

#[test]
fn a_lowered_limit_takes_back_the_places_of_calls_that_end() {
    closures::run(|main| {
        main.vm.parameters.set_max_threads(2);
        let calls = TimedCalls::new(&main.vm);
        let (release, released) = mpsc::channel::<()>();
        let released = Arc::new(Mutex::new(released));
        let out: Vec<_> = (0..2)
            .map(|_| {
                let released = Arc::clone(&released);
                start(&main.vm, calls, LONG, move || {
                    released.lock().unwrap().recv().unwrap();
                })
            })
            .collect();
        main.vm.parameters.set_max_threads(1);
        calls.limit_changed(&main.vm);
        release.send(()).expect("a call goes on");
        release.send(()).expect("the other one, too");
        for call in out {
            assert_eq!(calls.await_end(&main.vm, &call), CallEnd::Done(0));
        }
        while calls.in_progress() > 0 {
            std::thread::yield_now();
        }
        let only = calls.begin(&main.vm, LONG);
        assert_eq!(calls.await_helper(&main.vm, &only).reason, WakeReason::Done);
        let too_many = calls.begin(&main.vm, SHORT);
        assert_eq!(
            calls.await_helper(&main.vm, &too_many).reason,
            WakeReason::TimedOut
        );
        calls.release_helper();
        assert_eq!(calls.in_progress(), 0);
    });
}

#[test]
fn a_helper_takes_the_next_call_and_ends_when_none_comes() {
    closures::run(|main| {
        main.vm.parameters.thread_idle.set(Duration::from_secs(60));
        let calls = TimedCalls::new(&main.vm);
        for _ in 0..100 {
            let call = start(&main.vm, calls, LONG, || {});
            assert_eq!(calls.await_end(&main.vm, &call), CallEnd::Done(0));
            while calls.idle_helpers() == 0 {
                std::thread::yield_now();
            }
        }
        assert_eq!(calls.idle_helpers(), 1);
        main.vm.parameters.thread_idle.set(Duration::from_millis(1));
        let call = start(&main.vm, calls, LONG, || {});
        assert_eq!(calls.await_end(&main.vm, &call), CallEnd::Done(0));
        while calls.in_progress() > 0 || calls.idle_helpers() > 0 {
            std::thread::yield_now();
        }
    });
}
