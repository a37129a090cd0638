//! Commands: their status, their descriptor, and a handler for SIGCHLD.
#![cfg(not(loom))]

use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicUsize, Ordering};

use baton_sys::commands::Command;
use baton_sys::signals;

/// Whether the calling thread blocks SIGCHLD.
fn blocks_child_signal() -> bool {
    // SAFETY: all-zero bytes are a set of signals, into which the mask is read.
    unsafe {
        let mut mask: libc::sigset_t = std::mem::zeroed();
        libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &raw mut mask);
        libc::sigismember(&raw const mask, libc::SIGCHLD) == 1
    }
}

/// One test, as the action of SIGCHLD is the whole program's.
#[test]
fn a_command_ends_with_its_status_whether_or_not_the_end_of_children_is_handled() {
    let status = |text| {
        Command::start(text)
            .and_then(Command::wait)
            .expect("a shell")
    };
    assert_eq!(status(c"exit 5"), 5 << 8);
    assert_eq!(status(c"kill -9 $$"), libc::SIGKILL);
    assert_eq!(status(c"-no-such-command 2> /dev/null"), 127 << 8);

    let command = Command::start(c"exit 6").expect("a shell");
    if let Some(descriptor) = command.descriptor() {
        let mut ready = libc::pollfd {
            fd: descriptor.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one entry, which is valid for writes.
        assert_eq!(unsafe { libc::poll(&raw mut ready, 1, -1) }, 1);
    }
    assert!(!blocks_child_signal());
    assert_eq!(command.wait().expect("it is ours"), 6 << 8);

    static ENDED: AtomicUsize = AtomicUsize::new(0);
    extern "C" fn count(_: i32) {
        ENDED.fetch_add(1, Ordering::Relaxed);
    }
    signals::watch(libc::SIGCHLD, count).expect("it can be caught");
    let command = Command::start(c"exit 7").expect("a shell");
    assert!(command.descriptor().is_none());
    assert!(blocks_child_signal());
    assert_eq!(command.wait().expect("it is ours"), 7 << 8);
    assert!(!blocks_child_signal());
    #[cfg(target_os = "linux")]
    {
        let unblocked = c"test $(sed -n 's/^SigBlk:.//p' /proc/self/status) = 0000000000000000";
        assert_eq!(status(unblocked), 0, "the command has the mask before");
    }
    signals::restore_default(libc::SIGCHLD).expect("the action can change");
}
