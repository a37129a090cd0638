//! What the C half calls (`c/debugger/inside.h`).

use super::desk::{self, Next, Outcome};
use crate::inside::{VM, stacks};
use baton_core::vm::Inside;
use serde_json::json;
use std::ffi::{CStr, c_char, c_int};
use std::slice;
use std::time::Duration;

/// How long the program's end waits until its last lines are sent.
const LAST_LINES: Duration = Duration::from_secs(1);

/// A process has stopped. Outside the VM.
///
/// # Safety
/// `reason` and `kind` are C strings, `text` is readable for `size` bytes, `process` is the record
/// of a process that does not run meanwhile, and `answers` that of the calling one.
// SAFETY: the only definition of this symbol, with the signature of `c/debugger/inside.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_debug_stopped(
    number: u64,
    process: usize,
    answers: usize,
    semaphore: u64,
    is_alone: c_int,
    reason: *const c_char,
    breakpoint: c_int,
    text: *const c_char,
    size: usize,
    kind: *const c_char,
) {
    // SAFETY: the caller's conditions.
    let (reason, text, kind) = unsafe {
        (
            CStr::from_ptr(reason),
            lossy(text, size),
            CStr::from_ptr(kind),
        )
    };
    let event = json!({
        "event": "stopped",
        "process": number,
        "title": stacks::title(process),
        "reason": reason.to_string_lossy(),
        "breakpoint": breakpoint,
        "text": text,
        "type": kind.to_string_lossy(),
        "is_alone": is_alone != 0,
    });
    desk::stopped(number, answers, semaphore, is_alone != 0, event);
}

/// The deputy answers from now on. Outside the VM.
// SAFETY: the only definition of this symbol, with the signature of `c/debugger/inside.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_debug_deputy_answers(deputy: usize, number: u64, semaphore: u64) {
    desk::deputy_answers(deputy, number, semaphore);
}

/// # Safety
/// `text` is readable for `size` bytes.
unsafe fn lossy(text: *const c_char, size: usize) -> String {
    if size == 0 {
        return String::new();
    }
    // SAFETY: the caller's condition.
    let bytes = unsafe { slice::from_raw_parts(text.cast::<u8>(), size) };
    String::from_utf8_lossy(bytes).into_owned()
}

/// Carries out what a process is asked, in the calling one, which answers for it. Returns whether
/// it goes on. Outside the VM.
// SAFETY: the only definition of this symbol, with the signature of `c/debugger/inside.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_debug_serve(number: u64, answers: usize) -> c_int {
    loop {
        match desk::next(number) {
            Next::Answer(question) => {
                if (question.carry_out)(answers) == Outcome::GoesOn {
                    desk::forget(number);
                    return 1;
                }
            }
            Next::Wait => return 0,
            Next::GoOn => return 1,
        }
    }
}

/// Waits until the calling process is asked something. Inside the VM.
// SAFETY: the only definition of this symbol, with the signature of `c/debugger/inside.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_debug_await(number: u64) {
    let Some(vm) = VM.get() else {
        return;
    };
    // SAFETY: the C half calls this inside the VM.
    let inside = unsafe { Inside::assume(vm) };
    desk::await_alone(number, |question| inside.view(question));
}

/// The calling process goes on, and was not told to.
// SAFETY: the only definition of this symbol, with the signature of `c/debugger/inside.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_debug_goes_on(number: u64) {
    desk::goes_on(number);
}

/// A text of a log point.
///
/// # Safety
/// `text` is readable for `size` bytes.
// SAFETY: the only definition of this symbol, with the signature of `c/debugger/inside.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_debug_log(
    number: u64,
    breakpoint: c_int,
    wrong: c_int,
    text: *const c_char,
    size: usize,
) {
    // SAFETY: the caller's condition.
    let text = unsafe { lossy(text, size) };
    desk::tell_log(json!({
        "event": "log",
        "process": number,
        "breakpoint": breakpoint,
        "wrong": wrong,
        "text": text,
    }));
}

/// The program ends: what it has told its debugger is sent first.
// SAFETY: the only definition of this symbol, with the signature of `c/debugger/inside.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_debug_flush() {
    desk::flush(LAST_LINES);
}

/// A breakpoint was placed in a chunk that was loaded.
// SAFETY: the only definition of this symbol, with the signature of `c/debugger/inside.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_debug_placed(_unused: usize, id: c_int, line: c_int) {
    desk::tell(json!({ "event": "placed", "id": id, "line": line }));
}
