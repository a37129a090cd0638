//! Settings of the calling thread, checked in the kernel.
#![cfg(not(baton_portable))]

use std::time::Duration;

use baton_sys::promptness;

#[test]
fn timer_slack_can_be_set_for_this_thread() {
    fn slack() -> i32 {
        // SAFETY: PR_GET_TIMERSLACK takes nothing and returns the nanoseconds.
        unsafe { libc::prctl(libc::PR_GET_TIMERSLACK) }
    }
    for (wish, got) in [(Duration::from_micros(10), 10_000), (Duration::ZERO, 1)] {
        promptness::set_timer_slack(wish).expect("the kernel takes any slack");
        assert_eq!(slack(), got);
    }
}

#[test]
fn the_slice_can_be_set_for_this_thread_and_nothing_else_changes() {
    fn attributes() -> libc::sched_attr {
        // SAFETY: the structure is plain integers; the kernel writes at most the given size to it.
        unsafe {
            let mut attributes: libc::sched_attr = std::mem::zeroed();
            let size = size_of::<libc::sched_attr>();
            assert_eq!(
                libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0),
                0
            );
            attributes
        }
    }
    let before = attributes();
    let wish = Duration::from_micros(500);
    promptness::set_slice(wish).expect("500 us are in range");
    let after = attributes();
    assert_eq!(
        (after.sched_policy, after.sched_nice),
        (before.sched_policy, before.sched_nice)
    );
    // Before Linux 6.12 an ordinary thread has no slice of its own.
    assert!(
        [0, 500_000].contains(&after.sched_runtime),
        "{}",
        after.sched_runtime
    );
}
