//! The target's side of a request: SIGQUIT.
//!
//! A client's signal has a mark ([`MARK`]); a user's, such as that of Ctrl-\\, has none. The
//! handler notes either in a flag of its own. An observer's is served where ordinary code may run:
//! by the VM's owner at a safepoint, or by the monitor while a foreign call keeps the owner. Then
//! the observer's thread starts. A user's is the owner's: it writes a report.
//!
//! | flag | set by | cleared by |
//! |---|---|---|
//! | `OBSERVER` | the handler ([`note`]) | [`serve`], of the owner or the monitor, before it looks for the request |
//! | `REPORT` | the handler | [`serve`] of the owner, before it reports |
//!
//! **No request is lost.** The client writes the request before it sends the signal. So whoever
//! clears the flag finds the request, unless another one has served it meanwhile. A signal that
//! comes after the flag was cleared sets it again.
//!
//! A program may have one thread only, which is in a foreign call. Then nobody can serve the
//! request until that call ends. So the handler itself appends to the request what runs
//! ([`note_running`]), and the client shows that.

use crate::observer::{self, Target};
use crate::place::{Place, candidates, is_closed_to_others, is_trusted};
use crate::protocol::Access;
use baton_sys::features;
use baton_sys::forking::{Child, ForkMutex};
use rustix::fs::{Mode, OFlags, fstat, open, openat};
use rustix::process::{geteuid, getpid};
use std::ffi::{CStr, CString, OsStr};
use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// The environment variable that says who may attach.
pub const VARIABLE: &str = "BATON_ATTACH";

/// What a request file begins with.
pub const REQUEST: &str = "baton attach 1\n";

/// What precedes the handler's note in a request file.
pub const HELD: &str = "held: ";

/// What such a note ends with if the process computes.
pub const COMPUTES: &str = " computes";

/// What precedes a refusal in a request file.
pub const REFUSED: &str = "refused: ";

/// The mark of an observer's signal ("baton" and a number), by which it differs from a user's.
pub const MARK: usize = 0x0062_6174_6f6e_0001;

/// An observer's signal that was not served.
static OBSERVER: AtomicBool = AtomicBool::new(false);

/// A user's signal that was not served.
static REPORT: AtomicBool = AtomicBool::new(false);

static SETTINGS: OnceLock<Settings> = OnceLock::new();

/// Held by the thread that serves a request.
static SERVING: ForkMutex<()> = ForkMutex::new(());

/// What was known at the program's start. The environment may change later.
struct Settings {
    /// What observers may do; `None`: nothing.
    access: Option<Access>,
    /// The directories for requests.
    places: Vec<CString>,
}

/// Who serves a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// The owner of the VM, inside.
    Owner,
    /// The monitor, while the owner is in a foreign call.
    Monitor,
}

/// What is left to do for a signal.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// Nothing.
    Nothing,
    /// The owner is to write a report.
    Report,
}

/// Reads the environment. To be called once, at the start of the program.
///
/// # Errors
/// A message, if [`VARIABLE`] has a value that is not known. Then nobody may attach.
pub fn prepare() -> Result<(), String> {
    let (access, result) = match std::env::var(VARIABLE).as_deref() {
        _ if features::has_more_rights_than_its_user() => (None, Ok(())),
        Err(_) | Ok("observe") => (Some(Access::Observe), Ok(())),
        Ok("all") => (Some(Access::All), Ok(())),
        Ok("off") => (None, Ok(())),
        Ok(other) => (
            None,
            Err(format!(
                "{VARIABLE}: 'observe', 'all' or 'off' expected, got '{other}'; nobody may attach"
            )),
        ),
    };
    // With more rights than its user, the program must not follow that user's environment.
    let places = match features::has_more_rights_than_its_user() {
        true => Vec::new(),
        false => {
            let runtime_directory = std::env::var_os("XDG_RUNTIME_DIR");
            candidates(geteuid().as_raw(), runtime_directory.as_deref())
        }
    };
    let places = places
        .into_iter()
        .filter_map(|place| CString::new(place.into_os_string().as_bytes()).ok())
        .collect();
    let _ = SETTINGS.set(Settings { access, places });
    result
}

/// Begins anew in a fork's child: what a thread of the first program held is free.
pub fn renew_in_child(child: &Child) {
    SERVING.renew_in_child(child, ());
    observer::renew_in_child(child);
}

/// Notes a SIGQUIT: an observer's, or a user's. Async-signal-safe.
pub fn note(is_observers: bool) {
    let flag = if is_observers { &OBSERVER } else { &REPORT };
    // Release: pairs with the swaps in `serve`.
    flag.store(true, Ordering::Release);
}

/// Bytes of the longest name of a request, with a zero at its end.
const LONGEST_NAME: usize = 24;

/// Appends to the request what the calling thread runs, if there is a request. Async-signal-safe:
/// allocates nothing, and makes system calls only.
pub fn note_running(what: &[u8]) {
    let Some(file) = open_request() else { return };
    for part in [HELD.as_bytes(), what, b"\n"] {
        let _ = rustix::io::write(&file, part);
    }
}

/// Opens the request for this program, if there is one. Async-signal-safe, as [`note_running`].
fn open_request() -> Option<OwnedFd> {
    let user = geteuid().as_raw();
    SETTINGS.get()?.places.iter().find_map(|place| {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = open(place.as_c_str(), flags, Mode::empty()).ok()?;
        if !is_closed_to_others(&fstat(&directory).ok()?, user) {
            return None;
        }
        let mut buffer = [0; LONGEST_NAME];
        let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let name = name_in_buffer(&mut buffer)?;
        let file = openat(&directory, name, flags | OFlags::CLOEXEC, Mode::empty()).ok()?;
        is_trusted(&fstat(&file).ok()?, user).then_some(file)
    })
}

/// Writes "PID.request" into a buffer, as [`name_of_request`] does, without memory.
fn name_in_buffer(buffer: &mut [u8; LONGEST_NAME]) -> Option<&CStr> {
    let mut digits = [0; 10];
    let mut first = digits.len();
    let mut number = getpid().as_raw_nonzero().get().unsigned_abs();
    while number > 0 {
        first -= 1;
        *digits.get_mut(first)? = b'0' + u8::try_from(number % 10).ok()?;
        number /= 10;
    }
    let mut length = 0;
    for part in [digits.get(first..)?, b".request"] {
        let end = length + part.len();
        buffer.get_mut(length..end)?.copy_from_slice(part);
        length = end;
    }
    CStr::from_bytes_with_nul(buffer.get(..=length)?).ok()
}

/// The name of the request file of a program.
pub(crate) fn name_of_request(pid: u32) -> String {
    format!("{pid}.request")
}

/// Serves a SIGQUIT, if one has come: starts the observer if there is a request. May be called
/// often.
pub fn serve(by: By, target: &Arc<dyn Target>) -> Left {
    // AcqRel: pairs with the store in `note`.
    if OBSERVER.swap(false, Ordering::AcqRel) {
        let _serving = SERVING.lock();
        // Without a request, its client is gone, or the request of another one was served with it.
        if let Some((place, file)) = find_request() {
            serve_request(&place, file, target);
        }
    }
    // AcqRel: as above.
    match by {
        By::Owner if REPORT.swap(false, Ordering::AcqRel) => Left::Report,
        By::Owner | By::Monitor => Left::Nothing,
    }
}

/// The request file for this program, if there is one, and its directory.
fn find_request() -> Option<(Place, File)> {
    let (user, pid) = (geteuid().as_raw(), std::process::id());
    SETTINGS.get()?.places.iter().find_map(|path| {
        let path = OsStr::from_bytes(path.to_bytes());
        let place = Place::open(path.as_ref(), user).ok()?;
        let request = place.open_file(&name_of_request(pid))?;
        Some((place, request))
    })
}

fn serve_request(place: &Place, mut request: File, target: &Arc<dyn Target>) {
    let access = SETTINGS.get().and_then(|settings| settings.access);
    let refusal = match access {
        None => Some(format!(
            "this program was started with {VARIABLE}=off, or by another user's privileges"
        )),
        Some(access) => observer::start(place, access, Arc::clone(target))
            .err()
            .map(|error| format!("the program cannot start a thread and a socket: {error}")),
    };
    if let Some(refusal) = refusal {
        // A client that is gone does not read it.
        let _ = writeln!(request, "{REFUSED}{refusal}");
    }
    place.remove(&name_of_request(std::process::id()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_handlers_name_is_that_of_the_request() {
        let mut buffer = [0; LONGEST_NAME];
        let name = name_in_buffer(&mut buffer).expect("it fits");
        let expected = name_of_request(std::process::id());
        assert_eq!(name.to_str(), Ok(expected.as_str()));
    }
}
