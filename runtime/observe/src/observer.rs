//! The observer: the target's thread that answers clients.
//!
//! | state | left by |
//! |---|---|
//! | none | a request: the socket is bound, the thread starts |
//! | running | [`QUIET`] without a client: the socket is removed, the thread ends |
//!
//! Both changes are made under one mutex. The thread removes the socket first, and then serves
//! those who have connected in time. A client that comes later finds no socket, and makes a new
//! request.
//!
//! Each client has a thread of its own, so one that does not read keeps only itself waiting.

use crate::inherited::Noted;
use crate::place::Place;
use crate::protocol::{
    Access, Ask, Hello, LONGEST_ASK, LONGEST_REPLY, Reply, VERSION, Welcome, read_line, write_line,
};
use baton_sys::forking::{Child, ForkMutex};
use baton_sys::peer::user_of_peer;
use baton_sys::thread;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::geteuid;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};
use std::io::{self, BufReader, ErrorKind, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How long the observer stays without a client, and how long a client may be silent.
pub const QUIET: Duration = Duration::from_secs(60);

/// How long a client may leave an answer unread.
const UNREAD: Duration = Duration::from_secs(10);

/// The maximal number of clients at once.
pub const MOST_CLIENTS: usize = 16;

/// Takes a part of an answer to the client, as text of JSON: a tree of values would cost the
/// program several times as much. An error says that the client is gone. See [`send_part`].
pub type Part<'a> = &'a mut dyn FnMut(&RawValue) -> io::Result<()>;

/// Sends a part of an answer.
///
/// # Errors
/// The part has no text in JSON, or the client is gone.
pub fn send_part(part: Part<'_>, what: &impl Serialize) -> io::Result<()> {
    part(&to_raw_value(what)?)
}

/// An answer as text of JSON, or as much of it as is sent after its parts.
///
/// # Errors
/// It has no text in JSON.
pub fn answer_text(answer: &impl Serialize) -> Result<Box<RawValue>, String> {
    to_raw_value(answer).map_err(|error| error.to_string())
}

/// [`Reply::Part`], as it is sent.
#[derive(Serialize)]
struct SentPart<'a> {
    part: &'a RawValue,
}

/// [`Reply::Done`], as it is sent.
#[derive(Serialize)]
struct SentDone<'a> {
    done: &'a RawValue,
}

/// What answers: the program.
pub trait Target: Send + Sync {
    /// Its name and version, such as `Baton 0.1.0`.
    fn program(&self) -> String;

    /// Begins to serve a client. The session ends with its connection, for whatever reason.
    fn begin(&self, access: Access) -> Box<dyn Session>;
}

/// One client's questions, on its own thread.
pub trait Session {
    /// Answers a question, with its details in `with`.
    ///
    /// # Errors
    /// A sentence for the client: what is not known or not allowed, and what to do.
    fn answer(&mut self, ask: &str, with: &Value, part: Part<'_>) -> Result<Box<RawValue>, String>;

    /// Takes the connection over, if this question opens a conversation: from then on both sides
    /// send lines when they like. It returns at the end of the connection. `None` for all other
    /// questions, which [`Session::answer`] answers.
    fn converse(
        &mut self,
        _ask: &str,
        _with: &Value,
        _conversation: &mut Conversation<'_, '_>,
    ) -> Option<io::Result<()>> {
        None
    }
}

/// A connection on which both sides send lines when they like.
#[derive(Debug)]
pub struct Conversation<'a, 'stream> {
    reader: &'a mut BufReader<&'stream UnixStream>,
    stream: &'stream UnixStream,
}

impl Conversation<'_, '_> {
    /// The client's next line; `None` at the end. Waits for it without a limit.
    ///
    /// # Errors
    /// As [`read_line`].
    pub fn next_line(&mut self) -> io::Result<Option<Ask>> {
        self.stream.set_read_timeout(None)?; // a client of this kind may be silent for long
        read_line(self.reader, LONGEST_REPLY)
    }

    /// Another handle of the connection, for [`write_line`] and to close it.
    ///
    /// # Errors
    /// The system's.
    pub fn handle(&self) -> io::Result<Handle> {
        let stream = self.stream.try_clone()?;
        let noted = Noted::new(&stream);
        Ok(Handle {
            _noted: noted,
            stream,
        })
    }

    /// Starts a thread that serves this conversation, too. It counts among [`threads`].
    ///
    /// # Errors
    /// The system's.
    pub fn start_thread(&self, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
        thread::start_helper("baton-observer", move || {
            let _counted = Counted::new();
            body();
        })
    }
}

/// Another handle of a connection.
#[derive(Debug)]
pub struct Handle {
    /// Dropped before the stream is closed.
    _noted: Noted,
    stream: UnixStream,
}

impl Handle {
    /// Ends one direction of the connection, or both.
    ///
    /// # Errors
    /// The system's.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.stream.shutdown(how)
    }
}

impl Write for Handle {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// Serves the client at the other end of a connection that the program was started with, on a
/// thread of its own. Such a client has started the program, so it may do everything. `gone` runs
/// on that thread when the client has gone, even if it has asked nothing.
///
/// # Errors
/// The system's; then `gone` does not run.
pub fn serve_parent(
    client: UnixStream,
    target: Arc<dyn Target>,
    gone: impl FnOnce() + Send + 'static,
) -> io::Result<()> {
    start_counted("baton-observer", move || {
        // An error of the connection ends it, and concerns nobody else.
        let _ = converse(&client, Access::All, &*target);
        gone();
    })
}

/// The program whose observer runs, by its number: a fork's child has none.
static RUNNING: ForkMutex<Option<u32>> = ForkMutex::new(None);

/// How many threads there are for observers.
static THREADS: AtomicUsize = AtomicUsize::new(0);

/// The program in which they are counted.
static COUNTED_IN: AtomicU32 = AtomicU32::new(0);

/// Begins anew in a fork's child, which has no observer.
pub(crate) fn renew_in_child(child: &Child) {
    RUNNING.renew_in_child(child, None);
}

/// How many threads of this program serve observers.
pub fn threads() -> usize {
    // Relaxed (both): a count for reports.
    match COUNTED_IN.load(Ordering::Relaxed) == std::process::id() {
        true => THREADS.load(Ordering::Relaxed),
        false => 0, // a fork's child has none of its parent's
    }
}

/// Begins to count threads, unless this program does so already.
pub(crate) fn count_in_this_program() {
    let pid = std::process::id();
    // Relaxed (both): as in `threads`.
    if COUNTED_IN.swap(pid, Ordering::Relaxed) != pid {
        THREADS.store(0, Ordering::Relaxed);
    }
}

/// Starts a thread that serves an observer of this program, and is counted among these.
///
/// # Errors
/// The system's, if it has no room for another thread.
pub fn start_counted(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
    count_in_this_program();
    thread::start_helper(name, move || {
        let _counted = Counted::new();
        body();
    })
}

/// Counts the calling thread among those that serve observers.
pub(crate) struct Counted;

impl Counted {
    pub(crate) fn new() -> Counted {
        // Relaxed: as in `threads`.
        THREADS.fetch_add(1, Ordering::Relaxed);
        Counted
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        // Relaxed: as in `threads`.
        THREADS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The name of the socket of a program.
pub(crate) fn name_of_socket(pid: u32) -> String {
    format!("{pid}.socket")
}

/// Starts the observer, unless it runs.
///
/// # Errors
/// The system's, for the socket or the thread.
pub(crate) fn start(place: &Place, access: Access, target: Arc<dyn Target>) -> io::Result<()> {
    let pid = std::process::id();
    let mut running = RUNNING.lock();
    if *running == Some(pid) {
        return Ok(());
    }
    count_in_this_program();
    let name = name_of_socket(pid);
    place.remove(&name); // of an earlier program with this number
    let listener = UnixListener::bind(place.path_of(&name))?;
    place.close_to_others(&name)?;
    listener.set_nonblocking(true)?;
    let place = Place::open(place.path(), geteuid().as_raw())?;
    thread::start_helper("baton-observer", move || {
        let _counted = Counted::new();
        let observer = Observer {
            place,
            listener,
            access,
            target,
            clients: Arc::new(AtomicUsize::new(0)),
            quiet: QUIET,
        };
        observer.run(pid);
    })?;
    *running = Some(pid);
    Ok(())
}

struct Observer {
    place: Place,
    listener: UnixListener,
    access: Access,
    target: Arc<dyn Target>,
    /// How many clients are connected.
    clients: Arc<AtomicUsize>,
    /// How long it stays without one.
    quiet: Duration,
}

impl Observer {
    fn run(&self, pid: u32) {
        let _noted = Noted::new(&self.listener);
        let mut quiet_since = Instant::now();
        loop {
            self.await_client(self.quiet);
            while let Some(client) = self.accept() {
                self.serve(client);
                quiet_since = Instant::now();
            }
            // Relaxed: a client that has just gone has its thread end first; a late value only
            // lets the observer stay longer.
            if self.clients.load(Ordering::Relaxed) > 0 {
                quiet_since = Instant::now();
            }
            if quiet_since.elapsed() >= self.quiet {
                return self.end(pid);
            }
        }
    }

    fn await_client(&self, patience: Duration) {
        let mut ready = [PollFd::new(&self.listener, PollFlags::IN)];
        let patience = Timespec::try_from(patience).ok();
        // An error is like a timeout: the next accept tells.
        let _ = poll(&mut ready, patience.as_ref());
    }

    fn accept(&self) -> Option<UnixStream> {
        match self.listener.accept() {
            Ok((client, _)) => Some(client),
            Err(error) if error.kind() == ErrorKind::WouldBlock => None,
            Err(_) => {
                // The program is short of descriptors: not again at once.
                std::thread::sleep(Duration::from_millis(100));
                None
            }
        }
    }

    /// Ends the observer: a client that comes from now on makes a new request.
    fn end(&self, pid: u32) {
        let mut running = RUNNING.lock();
        self.place.remove(&name_of_socket(pid));
        *running = None;
        drop(running);
        // Those who have found the socket in time have threads of their own.
        while let Some(client) = self.accept() {
            self.serve(client);
        }
    }

    /// Serves a client on a thread of its own.
    fn serve(&self, client: UnixStream) {
        // Relaxed: only a bound.
        if self.clients.fetch_add(1, Ordering::Relaxed) >= MOST_CLIENTS {
            self.clients.fetch_sub(1, Ordering::Relaxed);
            refuse(
                &client,
                format!("{MOST_CLIENTS} clients are connected already; try later"),
            );
            return;
        }
        let (clients, target) = (Arc::clone(&self.clients), Arc::clone(&self.target));
        let access = self.access;
        let started = thread::start_helper("baton-observer", move || {
            let _counted = Counted::new();
            // An error of the connection ends it, and concerns nobody else.
            let _ = converse(&client, access, &*target);
            // Relaxed: as above.
            clients.fetch_sub(1, Ordering::Relaxed);
        });
        if started.is_err() {
            // The client was dropped with the thread's function. Relaxed: as above.
            self.clients.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

fn refuse(mut client: &UnixStream, why: String) {
    // A client that does not read is not told.
    let _ = client.set_write_timeout(Some(UNREAD));
    let _ = write_line(&mut client, &Welcome::Refused(why));
}

/// Answers one client until it goes.
fn converse(client: &UnixStream, allowed: Access, target: &dyn Target) -> io::Result<()> {
    let _noted = Noted::new(client);
    client.set_nonblocking(false)?;
    client.set_read_timeout(Some(QUIET))?;
    client.set_write_timeout(Some(UNREAD))?;
    let (user, peer) = (geteuid().as_raw(), user_of_peer(client)?);
    if peer != user && peer != 0 {
        refuse(
            client,
            format!("the user {peer} may not attach: only {user}, whose program this is, and root"),
        );
        return Ok(());
    }
    let (mut reader, mut writer) = (BufReader::new(client), client);
    let Some(hello) = read_line::<Hello>(&mut reader, LONGEST_ASK)? else {
        return Ok(());
    };
    if hello.version != VERSION {
        refuse(
            client,
            format!(
                "version {VERSION} of the protocol expected, got {}: use the client of {}",
                hello.version,
                target.program()
            ),
        );
        return Ok(());
    }
    let access = if hello.write { Access::All } else { allowed };
    write_line(
        &mut writer,
        &Welcome::Hello {
            version: VERSION,
            program: target.program(),
            access,
        },
    )?;
    let mut session = target.begin(access);
    while let Some(Ask { ask, with }) = read_line(&mut reader, LONGEST_ASK)? {
        let mut conversation = Conversation {
            reader: &mut reader,
            stream: client,
        };
        if let Some(result) = session.converse(&ask, &with, &mut conversation) {
            return result;
        }
        let mut part = |part: &RawValue| write_line(&mut &*client, &SentPart { part });
        match session.answer(&ask, &with, &mut part) {
            Ok(answer) => write_line(&mut writer, &SentDone { done: &answer })?,
            Err(why) => write_line(&mut writer, &Reply::Error(why))?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Read;
    use std::sync::mpsc::channel;

    /// Counts: `count` answers with so many parts.
    struct Counter;

    impl Target for Counter {
        fn program(&self) -> String {
            "Counter 1".to_owned()
        }

        fn begin(&self, access: Access) -> Box<dyn Session> {
            Box::new(Counting { access })
        }
    }

    struct Counting {
        access: Access,
    }

    impl Session for Counting {
        fn answer(
            &mut self,
            ask: &str,
            with: &Value,
            part: Part<'_>,
        ) -> Result<Box<RawValue>, String> {
            match (ask, with.as_u64()) {
                ("count", Some(to)) => {
                    for number in 0..to {
                        send_part(part, &number).map_err(|error| error.to_string())?;
                    }
                    answer_text(&to)
                }
                ("access", _) => answer_text(&(self.access == Access::All)),
                _ => Err("'count' expected".to_owned()),
            }
        }

        /// `echo` opens a conversation, in which each question comes back.
        fn converse(
            &mut self,
            ask: &str,
            _with: &Value,
            conversation: &mut Conversation<'_, '_>,
        ) -> Option<io::Result<()>> {
            (ask == "echo").then(|| {
                let mut handle = conversation.handle()?;
                while let Some(Ask { ask, .. }) = conversation.next_line()? {
                    write_line(&mut handle, &Reply::Part(ask.into()))?;
                }
                write_line(&mut handle, &Reply::Done("end".into()))
            })
        }
    }

    /// What is answered to these bytes.
    fn answer_to(bytes: Vec<u8>) -> Vec<u8> {
        let (mut ours, theirs) = UnixStream::pair().expect("a pair");
        let server = std::thread::spawn(move || {
            let _ = converse(&theirs, Access::Observe, &Counter);
        });
        let mut writer = ours.try_clone().expect("a second handle");
        let writes = std::thread::spawn(move || {
            let _ = writer.write_all(&bytes);
            let _ = writer.shutdown(std::net::Shutdown::Write);
        });
        let mut answer = Vec::new();
        // The other side may close with bytes unread.
        let _ = ours.read_to_end(&mut answer);
        writes.join().expect("it writes, and ends");
        server.join().expect("it answers, and ends");
        answer
    }

    fn replies(bytes: &[u8]) -> Vec<Reply> {
        let mut answer = &answer_to(bytes.to_vec())[..];
        let welcome: Option<Welcome> = read_line(&mut answer, LONGEST_REPLY).expect("a line");
        assert!(
            matches!(welcome, Some(Welcome::Hello { .. })),
            "{welcome:?}"
        );
        let next = || read_line(&mut answer, LONGEST_REPLY).expect("a line");
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn a_conversation_has_the_rest_of_the_connection() {
        let all =
            replies(b"{\"version\":1}\n{\"ask\":\"echo\"}\n{\"ask\":\"a\"}\n{\"ask\":\"count\"}\n");
        let expected = [
            Reply::Part("a".into()),
            Reply::Part("count".into()),
            Reply::Done("end".into()),
        ];
        assert_eq!(all, expected);
    }

    #[test]
    fn questions_are_answered_in_turn() {
        let all = replies(b"{\"version\":1}\n{\"ask\":\"count\",\"with\":2}\n{\"ask\":\"no\"}\n");
        let expected = [
            Reply::Part(0.into()),
            Reply::Part(1.into()),
            Reply::Done(2.into()),
            Reply::Error("'count' expected".to_owned()),
        ];
        assert_eq!(all, expected);
    }

    #[test]
    fn a_client_gets_more_access_only_if_it_asks() {
        let reads = replies(b"{\"version\":1}\n{\"ask\":\"access\"}\n");
        assert_eq!(reads, [Reply::Done(false.into())]);
        let writes = replies(b"{\"version\":1,\"write\":true}\n{\"ask\":\"access\"}\n");
        assert_eq!(writes, [Reply::Done(true.into())]);
    }

    #[test]
    fn the_observer_ends_after_a_quiet_time_and_removes_its_socket() {
        let home = tempfile::tempdir().expect("a directory");
        let path = home.path().join("baton");
        let user = geteuid().as_raw();
        let place = Place::open_or_make(&path, user).expect("it is made");
        let name = name_of_socket(7);
        let listener = UnixListener::bind(place.path_of(&name)).expect("it is free");
        listener.set_nonblocking(true).expect("it can be set");
        let observer = Observer {
            place: Place::open(&path, user).expect("it is there"),
            listener,
            access: Access::Observe,
            target: Arc::new(Counter),
            clients: Arc::new(AtomicUsize::new(0)),
            quiet: Duration::from_millis(50),
        };
        let (done, ended) = channel();
        std::thread::spawn(move || {
            observer.run(7);
            let _ = done.send(());
        });
        let client = UnixStream::connect(path.join(&name)).expect("it listens");
        let soon = Duration::from_millis(200);
        assert!(ended.recv_timeout(soon).is_err(), "it left a client alone");
        drop(client);
        ended
            .recv_timeout(Duration::from_secs(60))
            .expect("it ends");
        assert!(!path.join(&name).exists());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn no_bytes_harm_the_conversation(
            hello in prop::bool::ANY,
            bytes in prop::collection::vec(any::<u8>(), 0..3000),
        ) {
            let mut all = if hello { b"{\"version\":1}\n".to_vec() } else { Vec::new() };
            all.extend(bytes);
            answer_to(all); // neither panics nor hangs
        }

        #[test]
        fn a_question_with_any_details_gets_one_answer(text in ".*") {
            let ask = Ask { ask: text.clone(), with: Value::String(text) };
            let mut all = b"{\"version\":1}\n".to_vec();
            write_line(&mut all, &ask).expect("a vector takes all");
            prop_assert_eq!(replies(&all).len(), 1);
        }
    }
}
