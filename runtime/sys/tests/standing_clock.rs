//! The poller, when the program's clock is not the kernel's. A test program of its own, as the
//! clock is replaced for good.
#![cfg(all(not(loom), target_os = "linux", not(baton_portable)))]

use baton_sys::clock::{self, Instant};
use baton_sys::poller::{Events, Poller};
use std::time::Duration;

/// Guards against a wait for a time that the program's clock never reaches, or that the kernel's
/// clock has long passed.
#[test]
fn each_wait_ends_after_its_time_though_the_clock_stands_still() {
    let poller = Poller::new().expect("a poller");
    let mut events = Events::new();
    let shown = Instant::now();
    // Far behind the kernel's clock, where it can be, and far ahead of it.
    for start in [Instant::from_nanos(1), shown + Duration::from_secs(1 << 30)] {
        clock::simulate(start);
        for _ in 0..3 {
            let began = std::time::Instant::now();
            let deadline = Instant::now() + Duration::from_millis(10);
            let wait = poller.wait(&mut events, Some(deadline));
            let wait = wait.expect("a wait succeeds");
            assert!(wait.timed_out && !wait.kicked && wait.ready == 0);
            assert!(began.elapsed() >= Duration::from_millis(10));
            assert!(Instant::now() < deadline, "the clock stands still");
        }
    }
}
