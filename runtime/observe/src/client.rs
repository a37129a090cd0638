//! The client's side: attaches to a program by its process id.

mod proc;

use crate::observer::MOST_CLIENTS;
use crate::observer::name_of_socket;
use crate::place::{Place, candidates};
use crate::protocol::{
    Access, Ask, Hello, LONGEST_REPLY, Reply, VERSION, Welcome, read_line, write_line,
};
use crate::quit::{self, COMPUTES, HELD, REFUSED, REQUEST, name_of_request};
use baton_sys::peer::user_of_peer;
use baton_sys::signals::marked;
use proc::{
    has_our_files, is_ending, is_gone, is_of_baton, is_pending, receiver_of, value_of,
    why_not_shown,
};
use rustix::io::Errno;
use rustix::process::{Signal, geteuid};
use serde_json::Value;
use std::fs::{self, File};
use std::io::{self, BufReader, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

/// The signal that requests an observer.
const SIGQUIT: i32 = Signal::QUIT.as_raw();

/// The maximal number of bytes that are read of what the program has written to the request.
const MOST_NOTES: u64 = 64 * 1024;

/// How long the program may take to answer a request.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long the handler's note of a call in C is passed over, as the call may end at once.
const CALL_HOLDS_AFTER: Duration = Duration::from_millis(60);

/// As [`CALL_HOLDS_AFTER`], for a note that a process computes: its next instruction serves the
/// request, as soon as it gets a processor.
const COMPUTING_HOLDS_AFTER: Duration = Duration::from_secs(1);

fn patience_with(note: &str) -> Duration {
    match note.ends_with(COMPUTES) {
        true => COMPUTING_HOLDS_AFTER,
        false => CALL_HOLDS_AFTER,
    }
}

/// The time between two looks for the socket.
const BETWEEN_LOOKS: Duration = Duration::from_millis(2);

/// How long a program may take for a part of an answer.
const UNANSWERED: Duration = Duration::from_secs(60);

/// Why there is no connection.
#[derive(Debug)]
pub enum AttachError {
    /// A sentence: what was expected, what was found, and what to do.
    Refused(String),
    /// The same, for a program that does not handle the signal: one that has only just started may
    /// do so later. Or it ends at the moment, and its parent will soon know how.
    NotReady(String),
    /// The program's only thread does not answer. The text says what is known: the running process,
    /// and the function in C that it is in.
    Held(String),
}

impl std::fmt::Display for AttachError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            AttachError::Refused(why) | AttachError::NotReady(why) => f.write_str(why),
            AttachError::Held(what) => write!(
                f,
                "nothing can be read at the moment: {what}, and no other thread of it answers"
            ),
        }
    }
}

impl std::error::Error for AttachError {}

fn refused(why: impl Into<String>) -> AttachError {
    AttachError::Refused(why.into())
}

/// A connection to a program.
#[derive(Debug)]
pub struct Connection {
    reader: BufReader<UnixStream>,
    /// The program, such as `Baton 0.1.0`.
    pub program: String,
    /// What this client may do.
    pub access: Access,
}

/// Attaches to the program with this process id. With `write` it also asks to change things.
///
/// # Errors
/// [`AttachError`].
pub fn attach(pid: u32, write: bool) -> Result<Connection, AttachError> {
    attach_to_running(pid, write).map_err(|error| match is_ending(pid) {
        true => AttachError::NotReady(format!("process {pid} has ended")),
        false => error,
    })
}

fn attach_to_running(pid: u32, write: bool) -> Result<Connection, AttachError> {
    let target = Running::find(pid)?;
    let place = target.place()?;
    let stream = match connect(&place, &target) {
        Ok(stream) => stream,
        Err(error) if is_absence(&error) => target.request(&place)?,
        Err(error) => return Err(refused(format!("cannot connect to process {pid}: {error}"))),
    };
    Connection::begin(stream, &target, write).map_err(|error| {
        refused(format!(
            "process {pid} does not answer as a program of Baton: {error}"
        ))
    })?
}

/// Nobody listens, or there is no socket.
fn is_absence(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::NotFound | ErrorKind::ConnectionRefused
    )
}

fn connect(place: &Place, target: &Running) -> io::Result<UnixStream> {
    UnixStream::connect(place.path_of(&name_of_socket(target.own_pid)))
}

impl Connection {
    fn begin(
        stream: UnixStream,
        target: &Running,
        write: bool,
    ) -> io::Result<Result<Connection, AttachError>> {
        let peer = user_of_peer(&stream)?;
        if peer != target.user && peer != 0 {
            return Ok(Err(refused(format!(
                "the socket of process {} belongs to the user {peer}, not to {}",
                target.pid, target.user
            ))));
        }
        stream.set_read_timeout(Some(UNANSWERED))?;
        stream.set_write_timeout(Some(UNANSWERED))?;
        let hello = Hello {
            version: VERSION,
            write,
        };
        write_line(&mut &stream, &hello)?;
        let mut reader = BufReader::new(stream);
        Ok(match read_line(&mut reader, LONGEST_REPLY)? {
            None => Err(refused(format!(
                "process {} has closed the connection; if {MOST_CLIENTS} clients are connected, \
                 try later",
                target.pid
            ))),
            Some(Welcome::Refused(why)) => {
                Err(refused(format!("process {} refuses: {why}", target.pid)))
            }
            Some(Welcome::Hello {
                program, access, ..
            }) => Ok(Connection {
                reader,
                program,
                access,
            }),
        })
    }

    /// Asks, and passes each part of the answer to `part`. Returns the end of the answer.
    ///
    /// # Errors
    /// A sentence: why there is no answer.
    pub fn ask(
        &mut self,
        ask: &str,
        with: Value,
        part: &mut dyn FnMut(Value) -> Result<(), String>,
    ) -> Result<Value, String> {
        let gone = |error: io::Error| format!("the program does not answer: {error}");
        let ask = Ask {
            ask: ask.to_owned(),
            with,
        };
        write_line(&mut self.reader.get_ref(), &ask).map_err(gone)?;
        loop {
            match read_line(&mut self.reader, LONGEST_REPLY).map_err(gone)? {
                Some(Reply::Part(value)) => part(value)?,
                Some(Reply::Done(value)) => return Ok(value),
                Some(Reply::Error(why)) => return Err(why),
                None => return Err("the program has ended, or has closed the connection".into()),
            }
        }
    }
}

impl Connection {
    /// Meets a program that this one has started, at the other end of a pair of sockets.
    ///
    /// # Errors
    /// [`AttachError`].
    pub fn to_child(stream: UnixStream) -> Result<Connection, AttachError> {
        let child = Running {
            pid: 0,
            own_pid: 0,
            user: geteuid().as_raw(),
        };
        Connection::begin(stream, &child, true)
            .map_err(|error| refused(format!("the program does not answer: {error}")))?
    }

    /// Opens a conversation: returns the two directions of the connection. From then on both sides
    /// send lines when they like, and neither has to hurry.
    ///
    /// # Errors
    /// A sentence: why there is none.
    pub fn open(
        self,
        ask: &str,
        with: Value,
    ) -> Result<(BufReader<UnixStream>, UnixStream), String> {
        let gone = |error: io::Error| format!("the program does not answer: {error}");
        let ask = Ask {
            ask: ask.to_owned(),
            with,
        };
        let stream = self.reader.get_ref().try_clone().map_err(gone)?;
        write_line(&mut &stream, &ask).map_err(gone)?;
        stream.set_read_timeout(None).map_err(gone)?;
        Ok((self.reader, stream))
    }
}

/// A running program, as /proc shows it.
struct Running {
    /// Its number here, and in its own namespace.
    pid: u32,
    own_pid: u32,
    /// The user whose rights it has.
    user: u32,
}

impl Running {
    fn find(pid: u32) -> Result<Running, AttachError> {
        let path = format!("/proc/{pid}/status");
        let status = fs::read_to_string(&path).map_err(|error| match error.kind() {
            ErrorKind::NotFound | ErrorKind::PermissionDenied => refused(why_not_shown(pid)),
            _ => refused(format!("cannot read {path}: {error}")),
        })?;
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|line| line.strip_prefix(':')).map(str::trim)
        };
        match field("State").and_then(|state| state.chars().next()) {
            Some('Z' | 'X') => return Err(refused(format!("process {pid} has ended"))),
            Some('T' | 't') => {
                return Err(refused(format!(
                    "process {pid} is stopped, by a signal or a debugger, and cannot answer; \
                     continue it, for example with: kill -CONT {pid}"
                )));
            }
            _ => {}
        }
        let number = |text: Option<&str>| text.and_then(|text| text.parse::<u32>().ok());
        let user = number(field("Uid").and_then(|ids| ids.split_whitespace().nth(1)));
        let user = user.ok_or_else(|| refused(format!("{path} names no user")))?;
        let me = geteuid().as_raw();
        if me != user && me != 0 {
            return Err(refused(format!(
                "process {pid} belongs to the user {user}: only that user and root may attach, and \
                 this is the user {me}"
            )));
        }
        let namespace = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/user")).ok();
        let theirs = namespace(&pid.to_string());
        if theirs.is_some() && theirs != namespace("self") {
            return Err(refused(format!(
                "process {pid} is in another user namespace, as in a rootless container: run this \
                 command inside of it"
            )));
        }
        let own_pid = number(field("NSpid").and_then(|ids| ids.split_whitespace().last()));
        let caught = field("SigCgt").and_then(|mask| u64::from_str_radix(mask, 16).ok());
        let catches = caught.is_some_and(|mask| mask & 1 << (Signal::QUIT.as_raw() - 1) != 0);
        if !catches {
            return Err(AttachError::NotReady(format!(
                "process {pid} does not run Baton, or has only just started. (A program of Baton \
                 handles the signal SIGQUIT, and this process does not.)"
            )));
        }
        Ok(Running {
            pid,
            own_pid: own_pid.unwrap_or(pid),
            user,
        })
    }

    /// The directory in which the program looks for requests.
    fn place(&self) -> Result<Place, AttachError> {
        let pid = self.pid;
        let environment = fs::read(format!("/proc/{pid}/environ")).map_err(|error| {
            refused(format!(
                "cannot read /proc/{pid}/environ: {error}; the program has more rights than its \
                 user, or may not be looked into (prctl PR_SET_DUMPABLE)"
            ))
        })?;
        let runtime_directory = value_of(&environment, "XDG_RUNTIME_DIR");
        let is_ours = has_our_files(pid);
        let root = match is_ours {
            true => PathBuf::from("/"),
            false => PathBuf::from(format!("/proc/{pid}/root")),
        };
        let mut tried = Vec::new();
        for path in candidates(self.user, runtime_directory.as_deref()) {
            let path = root.join(path.strip_prefix("/").unwrap_or(&path));
            match Place::open_or_make(&path, self.user) {
                Ok(place) => {
                    if is_ours && self.own_pid == pid {
                        place.remove_remains(|pid| !is_gone(pid));
                    }
                    return Ok(place);
                }
                Err(error) => tried.push(format!("{}: {error}", path.display())),
            }
        }
        Err(refused(format!(
            "no directory for the request to process {pid}: {}. Start the program with \
             XDG_RUNTIME_DIR, the path of a directory that the program may write",
            tried.join("; ")
        )))
    }

    /// Requests an observer, and connects to it.
    fn request(&self, place: &Place) -> Result<UnixStream, AttachError> {
        let pid = self.pid;
        let name = name_of_request(self.own_pid);
        let failed = |error: io::Error| {
            refused(format!(
                "cannot write a request in {}: {error}",
                place.path().display()
            ))
        };
        // Another client may be waiting at the moment; or one has ended before it was answered.
        let mut request = match place.make_file(&name) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                if let Some(stream) = self.await_socket(place, None, PATIENCE / 5)? {
                    return Ok(stream);
                }
                place.remove(&name);
                place.make_file(&name).map_err(failed)?
            }
            made => made.map_err(failed)?,
        };
        // The program removes it when it serves it.
        let mut removed_at_end = Removed {
            place,
            name: Some(&name),
        };
        request.write_all(REQUEST.as_bytes()).map_err(failed)?;
        // The observer may have started for another client since the first attempt.
        if let Ok(stream) = connect(place, self) {
            return Ok(stream);
        }
        if !is_of_baton(pid) {
            return Err(refused(format!(
                "process {pid} does not run Baton: there is nothing of Baton in its executable \
                 and libraries. It was not signalled"
            )));
        }
        let target = i32::try_from(pid).map_err(|_| refused(format!("{pid} is no process id")))?;
        let receiver = receiver_of(pid);
        let sent = match receiver
            .and_then(|thread| marked::send_to_thread(target, thread, SIGQUIT, quit::MARK).ok())
        {
            Some(()) => Ok(()),
            None => marked::send(target, SIGQUIT, quit::MARK),
        };
        sent.map_err(
            |error| match error.raw_os_error() == Some(Errno::SRCH.raw_os_error()) {
                true => refused(format!("process {pid} has ended")),
                false => refused(format!("cannot send SIGQUIT to process {pid}: {error}")),
            },
        )?;
        match self.await_socket(place, Some(&mut request), PATIENCE)? {
            Some(stream) => {
                removed_at_end.name = None; // now it may be another client's
                Ok(stream)
            }
            None => Err(refused(format!(
                "process {pid} has not answered the request in {} within {} s. {}",
                place.path().display(),
                PATIENCE.as_secs(),
                match is_pending(pid, Signal::QUIT) {
                    true =>
                        "The signal SIGQUIT has not reached it: its threads are frozen, are in \
                         system calls that cannot be interrupted, or block the signal",
                    false =>
                        "It has received the signal SIGQUIT. Perhaps it is in a call that cannot \
                         be interrupted: try again. Perhaps it is of an old version that cannot \
                         be looked into",
                }
            ))),
        }
    }

    /// Connects as soon as there is a socket; `None` after `patience`.
    fn await_socket(
        &self,
        place: &Place,
        mut request: Option<&mut File>,
        patience: Duration,
    ) -> Result<Option<UnixStream>, AttachError> {
        let began = Instant::now();
        while began.elapsed() < patience {
            match connect(place, self) {
                Ok(stream) => return Ok(Some(stream)),
                Err(error) if is_absence(&error) => {}
                Err(error) => {
                    return Err(refused(format!(
                        "cannot connect to process {}: {error}",
                        self.pid
                    )));
                }
            }
            if let Some(request) = request.as_deref_mut() {
                self.read_notes(request, began.elapsed())?;
            }
            thread::sleep(BETWEEN_LOOKS);
        }
        Ok(None)
    }

    /// Reads what the program has written to the request.
    fn read_notes(&self, request: &mut File, waited: Duration) -> Result<(), AttachError> {
        let mut notes = String::new();
        let read = request
            .seek(SeekFrom::Start(0))
            .and_then(|_| request.take(MOST_NOTES).read_to_string(&mut notes));
        if read.is_err() {
            return Ok(());
        }
        for note in notes.lines() {
            if let Some(why) = note.strip_prefix(REFUSED.trim_end()) {
                return Err(refused(format!("process {} refuses:{why}", self.pid)));
            }
            // A monitor will still answer. Other threads, as that of the metrics, will not.
            if let Some(what) = note.strip_prefix(HELD)
                && waited >= patience_with(what)
                && receiver_of(self.pid).is_none()
            {
                return Err(AttachError::Held(what.to_owned()));
            }
        }
        Ok(())
    }
}

/// Removes a file when it is dropped.
struct Removed<'a> {
    place: &'a Place,
    name: Option<&'a str>,
}

impl Drop for Removed<'_> {
    fn drop(&mut self) {
        if let Some(name) = self.name {
            self.place.remove(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_is_not_there_is_refused() {
        let Err(AttachError::Refused(why)) = attach(u32::MAX - 1, false) else {
            panic!("there is no such process");
        };
        assert!(why.starts_with("there is no process"), "{why}");
    }

    #[test]
    fn a_process_that_does_not_handle_the_signal_is_refused() {
        let mut other = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .expect("it starts");
        let result = attach(other.id(), false);
        other.kill().expect("it can be killed");
        other.wait().expect("it ends");
        let Err(AttachError::NotReady(why)) = result else {
            panic!("it does not answer");
        };
        assert!(why.contains("does not run Baton"), "{why}");
    }
}
