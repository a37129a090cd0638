//! The effect of faults. Each test runs itself again as a child program that faults, and checks how
//! the child ends.
#![cfg(not(loom))]

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};

use baton_sys::overflow;
use baton_sys::signals::AltStack;
use baton_sys::stack::StackPool;

const CHILD: &str = "BATON_SYS_FAULTING_CHILD";

/// The role of this run of the test program.
enum Role {
    /// The child, which runs the case of this name.
    Child(String),
    /// The parent, with the output of the child that ran the same test.
    Parent(Output),
}

fn role(test: &str, case: &str) -> Role {
    if let Ok(case) = std::env::var(CHILD) {
        return Role::Child(case);
    }
    let program = std::env::current_exe().expect("the test program has a name");
    let child = Command::new(program)
        .args(["--exact", test, "--nocapture"])
        .env(CHILD, case)
        .output();
    Role::Parent(child.expect("the test program starts"))
}

/// In the parent: the output of the child. In the child: `None`.
fn as_child(test: &str) -> Option<Output> {
    match role(test, "1") {
        Role::Child(_) => None,
        Role::Parent(output) => Some(output),
    }
}

static GUARD_START: AtomicUsize = AtomicUsize::new(0);
static GUARD_END: AtomicUsize = AtomicUsize::new(0);

extern "C" fn describe(fault_address: usize) -> bool {
    let guard = GUARD_START.load(Ordering::Relaxed)..GUARD_END.load(Ordering::Relaxed);
    if !guard.contains(&fault_address) {
        return false;
    }
    let report = b"a process overflowed its stack\n";
    // SAFETY: write is async-signal-safe; the bytes are valid.
    unsafe { libc::write(2, report.as_ptr().cast(), report.len()) };
    true
}

fn write_to(address: usize) {
    // SAFETY: the callers pass an address in an unused stack, or one that faults, which ends the
    // program on purpose.
    unsafe { std::ptr::write_volatile(address as *mut u8, 1) };
}

#[test]
fn a_fault_in_a_guard_is_described_and_aborts() {
    let Some(output) = as_child("a_fault_in_a_guard_is_described_and_aborts") else {
        let _alternate = AltStack::install().expect("an alternate stack installs");
        let mut pool = StackPool::new(1 << 20).expect("the size is legal");
        let stack = pool.allocate(None).expect("there is room for a stack");
        GUARD_START.store(stack.guard().start, Ordering::Relaxed);
        GUARD_END.store(stack.guard().end, Ordering::Relaxed);
        overflow::set_describe(describe).expect("the handler installs");
        write_to(stack.bottom() as usize - 1);
        return;
    };
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("a process overflowed its stack"));
}

#[test]
fn the_guards_ends_fault_and_the_stacks_ends_do_not() {
    for case in ["lowest", "highest"] {
        match role("the_guards_ends_fault_and_the_stacks_ends_do_not", case) {
            Role::Child(case) => return touch_an_end_of_a_guard(&case),
            Role::Parent(output) => {
                assert_eq!(
                    output.status.signal(),
                    Some(libc::SIGSEGV),
                    "{case}: {output:?}"
                );
                assert!(
                    String::from_utf8_lossy(&output.stderr).contains("stacks are fine"),
                    "{output:?}"
                );
            }
        }
    }
}

fn touch_an_end_of_a_guard(case: &str) {
    let mut pool = StackPool::new(1 << 20).expect("the size is legal");
    let first = pool.allocate(None).expect("there is room for a stack");
    let second = pool.allocate(None).expect("there is room for a stack");
    for stack in [&first, &second] {
        write_to(stack.bottom() as usize);
        write_to(stack.top() as usize - 1);
    }
    eprintln!("stacks are fine");
    let guard = second.guard();
    write_to(if case == "lowest" {
        guard.start
    } else {
        guard.end - 1
    });
}

#[test]
fn a_fault_elsewhere_kills_as_it_would_without_us() {
    let Some(output) = as_child("a_fault_elsewhere_kills_as_it_would_without_us") else {
        overflow::set_describe(describe).expect("the handler installs");
        write_to(8);
        return;
    };
    assert_eq!(output.status.signal(), Some(libc::SIGSEGV), "{output:?}");
}

#[test]
fn a_native_threads_overflow_still_gets_rusts_own_report() {
    fn recurse(depth: usize) -> usize {
        let frame = std::hint::black_box([depth; 64]);
        if frame[0] == usize::MAX {
            0
        } else {
            recurse(depth + 1) + frame[1]
        }
    }
    let Some(output) = as_child("a_native_threads_overflow_still_gets_rusts_own_report") else {
        overflow::set_describe(describe).expect("the handler installs");
        let thread = std::thread::spawn(|| {
            let _alternate = AltStack::install().expect("an alternate stack installs");
            recurse(0)
        });
        let _ = thread.join();
        return;
    };
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{output:?}");
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("overflowed its stack"),
        "{output:?}"
    );
}

#[test]
fn an_earlier_handler_is_called_for_faults_that_are_not_ours() {
    extern "C" fn earlier(_: i32, information: *mut libc::siginfo_t, _: *mut libc::c_void) {
        // SAFETY: the information of a fault carries an address; _exit is async-signal-safe.
        unsafe {
            libc::_exit(if (*information).si_addr() as usize == 16 {
                42
            } else {
                43
            })
        };
    }
    let Some(output) = as_child("an_earlier_handler_is_called_for_faults_that_are_not_ours") else {
        // SAFETY: an all-zero action is valid; the handler has the type that SA_SIGINFO asks for.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = earlier as *const () as libc::sighandler_t;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            libc::sigaction(libc::SIGSEGV, &raw const action, std::ptr::null_mut());
        }
        overflow::set_describe(describe).expect("the handler installs");
        overflow::set_describe(describe).expect("a second time replaces the function only");
        write_to(16);
        return;
    };
    assert_eq!(output.status.code(), Some(42), "{output:?}");
}

#[test]
fn a_sent_signal_kills_where_the_default_action_stood() {
    let Some(output) = as_child("a_sent_signal_kills_where_the_default_action_stood") else {
        // SAFETY: restores the default action and sends the signal to this thread; both take
        // integers.
        unsafe {
            libc::signal(libc::SIGBUS, libc::SIG_DFL);
        }
        overflow::set_describe(describe).expect("the handler installs");
        // SAFETY: as above.
        unsafe { libc::raise(libc::SIGBUS) };
        return;
    };
    assert_eq!(output.status.signal(), Some(libc::SIGBUS), "{output:?}");
}
