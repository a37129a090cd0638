//! All objects of Lua's heap, as records.
//!
//! A copy of the program writes the records (`c/heap/`), and this thread passes them on. So the
//! program stands still only while it is copied. Little of the records is in memory at a time: the
//! copy waits while the client is slower. A client that goes ends the copy.

use super::why_kept;
use baton_core::vm::{NoLook, Vm};
use baton_observe::observer::{Part, send_part};
use baton_observe::protocol::Bytes;
use baton_sys::snapshot::{End, Preparation, ProgramCopy};
use serde_json::{Value, json};
use std::ffi::{c_int, c_void};
use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

unsafe extern "C" {
    fn baton_lua_write_heap(process: *const c_void, descriptor: c_int) -> c_int;
}

/// How long to wait for a moment when no process runs.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long a copy may exist. It holds memory that the program has changed meanwhile.
const LIMIT: Duration = Duration::from_secs(300);

/// The maximal number of bytes of records in one part.
const PART: usize = 256 * 1024;

/// The program that has a copy, by its process number; 0 if none has. More than one copy would take
/// much memory. A fork's child finds its parent's number here, and has no copy of its own.
static COPIED: AtomicU32 = AtomicU32::new(0);

/// The right to make the one copy.
struct OnlyCopy;

impl OnlyCopy {
    fn claim() -> Result<OnlyCopy, String> {
        let this_program = std::process::id();
        // Acquire: pairs with the release in `drop`, so that the copies follow each other.
        match COPIED.swap(this_program, Ordering::Acquire) == this_program {
            false => Ok(OnlyCopy),
            true => Err("another client reads the heap at the moment; try later".to_owned()),
        }
    }
}

impl Drop for OnlyCopy {
    fn drop(&mut self) {
        // Release: pairs with `claim`.
        COPIED.store(0, Ordering::Release);
    }
}

pub(super) fn answer(vm: &Vm, part: Part<'_>) -> Result<Value, String> {
    if vm.is_simulated() {
        return Err(
            "the heap of a simulated run is not read: nothing from outside interrupts such a run, \
             so that its seed repeats it"
                .to_owned(),
        );
    }
    let _only = OnlyCopy::claim()?;
    let mut copy = copy_program(vm)?;
    let pause = copy.pause();
    let mut bytes = vec![0; PART];
    loop {
        let size = copy
            .read(&mut bytes)
            .map_err(|error| format!("cannot read from the copy of the program: {error}"))?;
        if size == 0 {
            break;
        }
        let records = Bytes(bytes[..size].to_vec());
        send_part(part, &json!({ "records": records })).map_err(|error| error.to_string())?;
    }
    check_end(copy.end())?;
    Ok(json!({ "pause": pause.as_secs_f64() }))
}

fn copy_program(vm: &Vm) -> Result<ProgramCopy, String> {
    let preparation =
        Preparation::new().map_err(|error| format!("cannot make a pipe for the heap: {error}"))?;
    let copied = vm.look(PATIENCE, move |view| {
        let sched = view.sched();
        let any = sched.iter().next();
        let Some(record) = any.and_then(|process| sched.user_data(process)) else {
            return Err(ErrorKind::NotFound.into());
        };
        let record = record as *const c_void;
        // SAFETY: the record of a process. No process runs, so the heap is consistent. In the copy,
        // which has no other thread, the function only reads it, and calls nothing but `write`.
        unsafe { preparation.copy(c"baton-heap", LIMIT, baton_lua_write_heap, record) }
    });
    match copied {
        Ok(copied) => copied.map_err(|error| refusal(&error)),
        Err(NoLook::Ended) => Err("the program is ending".to_owned()),
        Err(NoLook::KeptInside) => Err(format!(
            "for {} s there was no moment to read the heap: {}; try later",
            PATIENCE.as_secs(),
            why_kept(vm)
        )),
    }
}

/// Why the system has not copied the program.
fn refusal(error: &io::Error) -> String {
    let what = "the heap is read in a copy of the program, and the system refuses to make one";
    match error.raw_os_error() {
        Some(libc::ENOMEM) => format!(
            "{what}: not enough memory ({error}); see vm.overcommit_memory, and the limits of the \
             program's control group"
        ),
        Some(libc::EAGAIN) => format!(
            "{what}: too many processes ({error}); see ulimit -u, and pids.max of the program's \
             control group"
        ),
        Some(libc::EPERM | libc::ENOSYS | libc::EACCES) => {
            format!("{what}: {error}; a filter of system calls (seccomp) may forbid clone")
        }
        _ => format!("{what}: {error}"),
    }
}

/// Refuses an answer that has no end, as its copy has ended too early.
fn check_end(end: End) -> Result<(), String> {
    Err(match end {
        End::Status(0) | End::Unknown => return Ok(()),
        End::Status(error) => format!(
            "the copy of the program could not write: {}",
            io::Error::from_raw_os_error(error)
        ),
        End::Signal(libc::SIGALRM) => format!(
            "the heap has not been read within {} s; the snapshot is not complete",
            LIMIT.as_secs()
        ),
        End::Signal(libc::SIGKILL) => "the copy of the program was killed, perhaps as memory is \
                                       short; the snapshot is not complete"
            .to_owned(),
        End::Signal(signal) => format!(
            "the copy of the program has ended by signal {signal}; the snapshot is not complete"
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_client_at_a_time_makes_a_copy() {
        let first = OnlyCopy::claim().expect("nobody has one");
        let Err(why) = OnlyCopy::claim() else {
            panic!("there are two");
        };
        assert!(why.contains("another client"), "{why}");
        drop(first);
        assert!(OnlyCopy::claim().is_ok());
    }

    #[test]
    fn each_refusal_says_what_to_look_at() {
        let of = |number| refusal(&io::Error::from_raw_os_error(number));
        assert!(of(libc::ENOMEM).contains("vm.overcommit_memory"));
        assert!(of(libc::EAGAIN).contains("ulimit -u"));
        assert!(of(libc::EPERM).contains("seccomp"));
        assert!(of(libc::ENOSYS).contains("seccomp"));
    }

    #[test]
    fn an_answer_is_whole_only_if_its_copy_has_come_to_its_end() {
        assert_eq!(check_end(End::Status(0)), Ok(()));
        for end in [
            End::Status(libc::EPIPE),
            End::Signal(libc::SIGALRM),
            End::Signal(libc::SIGKILL),
            End::Signal(libc::SIGSEGV),
        ] {
            assert!(check_end(end).is_err(), "{end:?}");
        }
    }
}
