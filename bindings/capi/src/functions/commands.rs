//! Commands in the system's shell.

use baton_sys::commands::Command;
use std::ffi::{CStr, c_char, c_int};
use std::os::fd::IntoRawFd;
use std::ptr;

/// Runs a command. Returns null if the shell cannot be started.
///
/// # Safety
/// `command` is a string that ends with a zero byte.
// SAFETY: the only definition of this symbol, with the signature of `baton.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_command_start(command: *const c_char) -> *mut Command {
    // SAFETY: the caller's condition.
    match Command::start(unsafe { CStr::from_ptr(command) }) {
        Ok(command) => Box::into_raw(Box::new(command)),
        Err(_) => ptr::null_mut(),
    }
}

/// A descriptor that is readable when the command has ended; negative if there is none.
// SAFETY: the only definition of this symbol, with the signature of `baton.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_command_descriptor(command: &Command) -> c_int {
    command.descriptor().map_or(-1, IntoRawFd::into_raw_fd)
}

/// Waits for the end of a command, and frees its record. Returns its wait status, or -1 and the
/// system's error.
///
/// # Safety
/// `command` came from `baton_command_start`, and is not used any more.
// SAFETY: the only definition of this symbol, with the signature of `baton.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_command_wait(command: *mut Command, error: &mut c_int) -> c_int {
    // SAFETY: the caller's condition.
    match unsafe { Box::from_raw(command) }.wait() {
        Ok(status) => {
            *error = 0;
            status
        }
        Err(why) => {
            *error = why.raw_os_error().unwrap_or(libc::ECHILD);
            -1
        }
    }
}

/// Frees the record of a command that is left alone.
///
/// # Safety
/// `command` is null, or came from `baton_command_start` and is not used any more.
// SAFETY: the only definition of this symbol, with the signature of `baton.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_command_forget(command: *mut Command) {
    if !command.is_null() {
        // SAFETY: the caller's condition.
        drop(unsafe { Box::from_raw(command) });
    }
}
