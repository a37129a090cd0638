//! Copies of the program: what they do, what they leave alone, and how they end.
#![cfg(target_os = "linux")]

use baton_sys::snapshot::{End, Preparation, ProgramCopy, Work};
use std::ffi::{c_int, c_void};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(100);

fn copy(limit: Duration, work: Work, context: *const c_void) -> ProgramCopy {
    let preparation = Preparation::new().expect("a pipe");
    // SAFETY: the functions of this file only read memory and make system calls.
    unsafe { preparation.copy(c"a copy", limit, work, context) }.expect("the program is copied")
}

fn all_of(copy: &mut ProgramCopy) -> Vec<u8> {
    let (mut all, mut bytes) = (Vec::new(), [0; 1000]);
    loop {
        match copy.read(&mut bytes).expect("it can be read") {
            0 => return all,
            size => all.extend(&bytes[..size]),
        }
    }
}

unsafe extern "C" fn write_the_context(context: *const c_void, output: c_int) -> c_int {
    // SAFETY: the tests give a number.
    unsafe { libc::write(output, context, size_of::<u32>()) };
    7
}

unsafe extern "C" fn wait_for_ever(_context: *const c_void, output: c_int) -> c_int {
    // SAFETY: one byte is written, and then the copy waits.
    unsafe {
        libc::write(output, b"x".as_ptr().cast(), 1);
        loop {
            libc::pause();
        }
    }
}

fn exists(process: u32) -> bool {
    // SAFETY: two integers; the signal 0 only asks.
    unsafe { libc::kill(process as libc::pid_t, 0) == 0 }
}

#[test]
fn a_copy_sees_the_memory_of_its_moment() {
    let number = AtomicU32::new(1);
    let mut copy = copy(LONG, write_the_context, number.as_ptr().cast());
    number.store(2, Ordering::Relaxed);
    assert_eq!(all_of(&mut copy), 1_u32.to_ne_bytes());
    assert_eq!(copy.end(), End::Status(7));
}

/// Handlers around a fork do not run, in the program or in the copy.
#[test]
fn a_copy_is_no_fork() {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    unsafe extern "C" fn count() {
        CALLS.fetch_add(1, Ordering::Relaxed);
    }
    // SAFETY: the function lives as long as the program.
    unsafe { libc::pthread_atfork(Some(count), Some(count), Some(count)) };
    let mut copy = copy(LONG, write_the_context, CALLS.as_ptr().cast());
    assert_eq!(all_of(&mut copy), 0_u32.to_ne_bytes());
    assert_eq!(CALLS.load(Ordering::Relaxed), 0);
}

#[test]
fn a_copy_has_no_descriptor_but_its_pipe() {
    unsafe extern "C" fn count_descriptors(_context: *const c_void, output: c_int) -> c_int {
        let open = |&descriptor: &c_int| {
            // SAFETY: two integers.
            unsafe { libc::fcntl(descriptor, libc::F_GETFD) != -1 }
        };
        let count = (0..1000).filter(open).count() as u32;
        // SAFETY: the number is there, with its size.
        unsafe { libc::write(output, (&raw const count).cast(), size_of::<u32>()) };
        0
    }
    let file = std::fs::File::open("/proc/self/status").expect("a file");
    let mut copy = copy(LONG, count_descriptors, std::ptr::null());
    assert_eq!(all_of(&mut copy), 1_u32.to_ne_bytes());
    // SAFETY: two integers.
    let flags = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETFD) };
    assert_ne!(flags, -1, "the program's own files stay open");
}

#[test]
fn a_copy_that_is_dropped_ends_and_is_no_zombie() {
    let mut copy = copy(LONG, wait_for_ever, std::ptr::null());
    let process = copy.process();
    assert_eq!(copy.read(&mut [0; 8]).expect("it can be read"), 1);
    assert!(exists(process));
    drop(copy);
    assert!(!exists(process));
}

/// As a program does that waits for all of its children.
#[test]
fn a_wait_for_any_child_does_not_find_a_copy() {
    let copy = copy(LONG, wait_for_ever, std::ptr::null());
    // SAFETY: the status is not asked for.
    let found = unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG) };
    let error = std::io::Error::last_os_error();
    assert_eq!(
        (found, error.raw_os_error()),
        (-1, Some(libc::ECHILD)),
        "{error}"
    );
    drop(copy);
}

#[test]
fn a_copy_ends_at_its_limit_of_time() {
    let mut copy = copy(Duration::from_millis(10), wait_for_ever, std::ptr::null());
    assert_eq!(all_of(&mut copy), b"x");
    assert_eq!(copy.end(), End::Signal(libc::SIGALRM));
}

/// Another program may have inherited the pipe. So the end of the copy counts, not the pipe's.
#[test]
fn an_end_is_found_while_others_have_the_pipe() {
    unsafe extern "C" fn leave_the_pipe_to_another(_: *const c_void, output: c_int) -> c_int {
        // SAFETY: the second copy has the pipe, and waits until the first one is long gone.
        unsafe {
            if libc::syscall(libc::SYS_clone, 0_usize, 0_usize, 0_usize, 0_usize, 0_usize) == 0 {
                libc::sleep(30);
            } else {
                libc::write(output, b"x".as_ptr().cast(), 1);
            }
        }
        3
    }
    let began = std::time::Instant::now();
    let mut copy = copy(LONG, leave_the_pipe_to_another, std::ptr::null());
    assert_eq!(all_of(&mut copy), b"x");
    assert_eq!(copy.end(), End::Status(3));
    assert!(began.elapsed() < Duration::from_secs(20));
}
