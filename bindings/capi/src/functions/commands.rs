//! Commands in the system's shell.

use baton_sys::commands::{Command, Commands, open_pipe};
use baton_sys::errno;
use baton_sys::forking::Child;
use std::ffi::{CStr, c_char, c_int, c_void};

/// The commands that no VM runs.
static OF_NO_VM: Commands = Commands::new();

/// Makes the record of a VM's commands.
// SAFETY: the only definition of this symbol, with the signature of `baton.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_commands_new() -> *mut Commands {
    Box::into_raw(Box::new(Commands::new()))
}

/// Frees the record of a VM's commands.
///
/// # Safety
/// `commands` is null, or came from `baton_commands_new` and is not used any more.
// SAFETY: the only definition of this symbol, with the signature of `baton.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_commands_free(commands: *mut Commands) {
    if !commands.is_null() {
        // SAFETY: the caller's condition.
        drop(unsafe { Box::from_raw(commands) });
    }
}

/// No process waits for these commands any more: other threads do.
// SAFETY: the only definition of this symbol, with the signature of `baton.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_commands_abandon(commands: &Commands) {
    commands.abandon();
}

/// Whether other threads wait for these commands.
// SAFETY: the only definition of this symbol, with the signature of `baton.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_commands_are_abandoned(commands: &Commands) -> c_int {
    commands.are_abandoned().into()
}

/// Forgets the commands of a fork's parent.
///
/// # Safety
/// The calling thread is the only one, in a fork's child.
// SAFETY: the only definition of this symbol, with the signature of `baton.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_commands_forked(commands: &Commands) {
    // SAFETY: the caller's condition.
    commands.renew_in_child(&unsafe { Child::assume() });
}

/// Runs a command. Returns its number, or -1 if the shell cannot be started.
///
/// # Safety
/// `command` is a string that ends with a zero byte.
// SAFETY: the only definition of this symbol, with the signature of `baton.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_command_start(
    commands: Option<&Commands>,
    command: *const c_char,
) -> c_int {
    let commands = commands.unwrap_or(&OF_NO_VM);
    // SAFETY: the caller's condition.
    let started = commands.start(unsafe { CStr::from_ptr(command) });
    started.map_or(-1, Command::number)
}

/// Opens a pipe to a command. Returns null and sets `errno` if that fails.
///
/// # Safety
/// Both are strings that end with a zero byte.
// SAFETY: the only definition of this symbol, with the signature of `baton.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_command_pipe(
    command: *const c_char,
    mode: *const c_char,
) -> *mut c_void {
    // SAFETY: the caller's condition.
    let (command, mode) = unsafe { (CStr::from_ptr(command), CStr::from_ptr(mode)) };
    match open_pipe(command, mode) {
        Ok(file) => file.as_ptr().cast(),
        Err(error) => {
            errno::set(error.raw_os_error().unwrap_or(libc::ENOMEM));
            std::ptr::null_mut()
        }
    }
}

/// A descriptor that is readable when the command has ended; negative if there is none.
// SAFETY: the only definition of this symbol, with the signature of `baton.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_command_descriptor(commands: Option<&Commands>, command: c_int) -> c_int {
    let commands = commands.unwrap_or(&OF_NO_VM);
    let descriptor = commands.descriptor(Command::from_number(command));
    descriptor.unwrap_or(-1)
}

/// Waits for the end of a command. Returns its wait status, or -1 and the system's error.
// SAFETY: the only definition of this symbol, with the signature of `baton.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_command_wait(
    commands: Option<&Commands>,
    command: c_int,
    error: &mut c_int,
) -> c_int {
    let commands = commands.unwrap_or(&OF_NO_VM);
    match commands.wait(Command::from_number(command)) {
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
