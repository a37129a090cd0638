//! Commands: their status, their descriptor, and a handler for SIGCHLD.
#![cfg(not(loom))]

use std::sync::atomic::{AtomicUsize, Ordering};

use baton_sys::commands::Commands;
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
    let commands = Commands::new();
    let status = |text| {
        commands
            .start(text)
            .and_then(|command| commands.wait(command))
            .expect("a shell")
    };
    assert_eq!(status(c"exit 5"), 5 << 8);
    assert_eq!(status(c"kill -9 $$"), libc::SIGKILL);
    assert_eq!(status(c"-no-such-command 2> /dev/null"), 127 << 8);

    let command = commands.start(c"exit 6").expect("a shell");
    if let Some(descriptor) = commands.descriptor(command) {
        let mut ready = libc::pollfd {
            fd: descriptor,
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one entry, which is valid for writes.
        assert_eq!(unsafe { libc::poll(&raw mut ready, 1, -1) }, 1);
    }
    assert!(!blocks_child_signal());
    assert_eq!(commands.wait(command).expect("it is ours"), 6 << 8);

    static ENDED: AtomicUsize = AtomicUsize::new(0);
    extern "C" fn count(_: i32) {
        ENDED.fetch_add(1, Ordering::Relaxed);
    }
    signals::watch(libc::SIGCHLD, count).expect("it can be caught");
    let command = commands.start(c"exit 7").expect("a shell");
    assert!(commands.descriptor(command).is_none());
    assert!(blocks_child_signal());
    assert_eq!(commands.wait(command).expect("it is ours"), 7 << 8);
    assert!(!blocks_child_signal());
    #[cfg(target_os = "linux")]
    {
        let unblocked = c"test $(sed -n 's/^SigBlk:.//p' /proc/self/status) = 0000000000000000";
        assert_eq!(status(unblocked), 0, "the command has the mask before");
    }
    signals::restore_default(libc::SIGCHLD).expect("the action can change");
}

/// Whether there is a process of this number, be it a zombie.
fn exists(process: i32) -> bool {
    // SAFETY: no signal is sent.
    unsafe { libc::kill(process, 0) == 0 }
}

#[test]
fn abandoned_commands_are_waited_for_and_later_ones_by_their_callers() {
    let commands = Commands::new();
    let running = [c"exit 1", c"sleep 0.05", c"exit 0"];
    let running = running.map(|text| commands.start(text).expect("a shell"));
    commands.descriptor(running[1]);
    commands.abandon();
    assert!(commands.are_abandoned());
    for command in running {
        assert!(commands.wait(command).is_err(), "somebody else waits");
        while exists(command.number()) {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
    let later = commands.start(c"exit 4").expect("a shell");
    assert!(commands.descriptor(later).is_none());
    assert_eq!(commands.wait(later).expect("it is ours"), 4 << 8);
}
