//! Serves one text over HTTP, on this machine only: the metrics of a program, for Prometheus.
//!
//! `BATON_METRICS` says where, at the program's start. Without it there is no thread and no socket.
//!
//! | address | who can connect |
//! |---|---|
//! | `unix:PATH` | the program's user and root: the socket has mode 0600, and the kernel says who the client is |
//! | `127.0.0.1:PORT`, `[::1]:PORT` | everybody on this machine |
//!
//! No other address is taken. A browser may be led to connect to this machine in the name of
//! another one. So a request whose `Host` is no name of this machine is refused.
//!
//! HTTP is ours, and not tiny_http's: that crate (five with its own) keeps threads and connections
//! to itself, and here their number, their signal masks, the peer's user, and what a fork's child
//! inherits are ours to decide.
//!
//! The exporter has one thread, which waits for clients and wakes for nothing else. Each client has
//! a thread of its own and a place, of which there are [`MOST_CLIENTS`], and [`WHOLE_TIME`] for its
//! one request. When all places are taken, the new one waits. Meanwhile a client loses its place
//! that has not asked within `TIME_TO_ASK`, or not read its answer within `TIME_TO_READ`. So
//! clients that say or read nothing keep nobody out for long.
//!
//! A fork's child does not serve: it has no such thread, and its guest closes what was
//! [`inherited`](crate::inherited).

mod http;
mod socket;

use crate::inherited::Noted;
use crate::observer::{Counted, count_in_this_program};
use baton_sys::features;
use baton_sys::thread;
use http::{Answer, answer};
use rustix::event::{PollFd, PollFlags, poll};
use socket::{Address, Client, Listener};
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// The environment variable with the address.
pub const VARIABLE: &str = "BATON_METRICS";

/// The maximal number of clients at once.
pub const MOST_CLIENTS: usize = 4;

/// How long a client may take for its request, and to read the answer.
pub const WHOLE_TIME: Duration = Duration::from_secs(5);

/// How long a client may take for its request while others wait for a place.
const TIME_TO_ASK: Duration = Duration::from_millis(250);

/// How long it may take for all, then, once it has asked.
const TIME_TO_READ: Duration = Duration::from_secs(1);

/// The maximal size of a request's head, in bytes.
const LONGEST_HEAD: usize = 8 << 10;

/// A format of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextFormat {
    /// Prometheus' own, version 0.0.4.
    Prometheus,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

/// Makes the text that is served.
pub type Text = Arc<dyn Fn(TextFormat) -> Result<String, String> + Send + Sync>;

/// What the exporter's end removes: the path of its socket, and the program that made it.
static SOCKET: OnceLock<(u32, PathBuf)> = OnceLock::new();

/// Serves `text` where the environment says. Returns whether it does. Called once, at the program's
/// start. With more rights than its user, the program does not follow the environment.
///
/// # Errors
/// A sentence: what was expected, or what the system says. Then nothing is served.
pub fn start_as_the_environment_says(text: Text) -> Result<bool, String> {
    if features::has_more_rights_than_its_user() {
        return Ok(false);
    }
    let Some(address) = std::env::var_os(VARIABLE).filter(|address| !address.is_empty()) else {
        return Ok(false);
    };
    let address = address.to_string_lossy();
    let failed = |why: String| format!("{VARIABLE}: {why}; the metrics are not served");
    let address = Address::parse(&address).map_err(failed)?;
    start(&address, text)
        .map(|()| true)
        .map_err(|why| failed(format!("cannot serve at {address}: {why}")))
}

/// Removes the socket, at the end of the program.
pub fn end() {
    if let Some((pid, path)) = SOCKET.get()
        && *pid == std::process::id()
    {
        // It may be gone already.
        let _ = std::fs::remove_file(path);
    }
}

fn start(address: &Address, text: Text) -> io::Result<()> {
    let listener = Listener::bind(address)?;
    if let Address::Unix(path) = address {
        let _ = SOCKET.set((std::process::id(), std::path::absolute(path)?));
    }
    count_in_this_program();
    let noted = Noted::new(&listener);
    thread::start_helper("baton-metrics", move || {
        let (_counted, _noted) = (Counted::new(), noted);
        let visits = Arc::new(Visits::default());
        loop {
            // An error is like a client: the accept tells.
            let _ = poll(&mut [PollFd::new(&listener, PollFlags::IN)], None);
            match listener.accept() {
                Ok(client) => serve(client, &visits, &text),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // The program is short of descriptors: not again at once.
                Err(_) => std::thread::sleep(Duration::from_millis(100)),
            }
        }
    })
}

/// A client, while it is served.
struct Visit {
    client: Client,
    since: Instant,
    /// Its request is whole.
    has_asked: AtomicBool,
}

impl Visit {
    fn new(client: Client) -> Visit {
        Visit {
            client,
            since: Instant::now(),
            has_asked: AtomicBool::new(false),
        }
    }

    /// How long it keeps its place while others wait for one.
    fn time_left(&self) -> Duration {
        // Relaxed: a client that asks at this moment may lose its place.
        let time = match self.has_asked.load(Ordering::Relaxed) {
            true => TIME_TO_READ,
            false => TIME_TO_ASK,
        };
        time.saturating_sub(self.since.elapsed())
    }
}

/// Those who have places, the oldest first.
#[derive(Default)]
struct Visits {
    places: Mutex<Vec<Arc<Visit>>>,
    left: Condvar,
}

impl Visits {
    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Visit>>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a place to a client. Waits for one if all are taken. By one thread.
    fn enter(&self, client: Client) -> Arc<Visit> {
        let mut places = self.lock();
        while places.len() >= MOST_CLIENTS {
            let left = places
                .iter()
                .map(|visit| (visit.time_left(), visit))
                .min_by_key(|(left, _)| *left);
            let patience = match left {
                Some((left, _)) if !left.is_zero() => left,
                // Its read or write ends, and so does its thread.
                Some((_, visit)) => {
                    visit.client.end();
                    TIME_TO_ASK
                }
                None => TIME_TO_ASK,
            };
            let waited = self.left.wait_timeout(places, patience);
            places = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let visit = Arc::new(Visit::new(client));
        places.push(Arc::clone(&visit));
        visit
    }

    fn leave(&self, visit: &Arc<Visit>) {
        self.lock().retain(|other| !Arc::ptr_eq(other, visit));
        self.left.notify_one();
    }
}

/// Serves a client on a thread of its own.
fn serve(client: Client, visits: &Arc<Visits>, text: &Text) {
    let visit = visits.enter(client);
    let (own, all, text) = (Arc::clone(&visit), Arc::clone(visits), Arc::clone(text));
    let started = thread::start_helper("baton-metrics", move || {
        let _counted = Counted::new();
        // An error of the connection ends it, and concerns nobody else.
        let _ = converse(&own, &text);
        all.leave(&own);
    });
    if started.is_err() {
        visits.leave(&visit);
    }
}

/// Answers one request, and ends the connection.
fn converse(visit: &Visit, text: &Text) -> io::Result<()> {
    let client = &visit.client;
    let _noted = Noted::new(client);
    let until = Instant::now() + WHOLE_TIME;
    if !client.may_ask()? {
        return Ok(());
    }
    let head = read_head(client, until)?;
    visit.has_asked.store(true, Ordering::Relaxed); // Relaxed: as in `Visits::enter`.
    let answer = match head {
        Some(head) => answer(&head, client.is_on_the_network(), text),
        None => Answer::error(
            "431 Request Header Fields Too Large",
            "the request is too long",
        ),
    };
    let bytes = answer.into_bytes();
    let mut rest = &bytes[..];
    while !rest.is_empty() {
        client.limit(until)?;
        match client.write(rest)? {
            0 => return Ok(()),
            written => rest = rest.get(written..).unwrap_or_default(),
        }
    }
    Ok(())
}

/// The head of a request, up to its empty line. `None`: it is too long.
fn read_head(client: &Client, until: Instant) -> io::Result<Option<Vec<u8>>> {
    let mut head = Vec::new();
    let mut bytes = [0; 1024];
    loop {
        client.limit(until)?;
        let count = client.read(&mut bytes)?;
        if count == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        head.extend_from_slice(bytes.get(..count).unwrap_or_default());
        if let Some(end) = end_of_head(&head) {
            head.truncate(end);
            return Ok(Some(head));
        }
        if head.len() > LONGEST_HEAD {
            return Ok(None);
        }
    }
}

fn end_of_head(bytes: &[u8]) -> Option<usize> {
    memchr::memmem::find(bytes, b"\r\n\r\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    fn text() -> Text {
        Arc::new(|_| Ok("# EOF\n".to_owned()))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn no_bytes_harm_the_conversation(
            beginning in prop_oneof![Just(""), Just("GET /metrics HTTP/1.1\r\nHost: ")],
            bytes in prop::collection::vec(any::<u8>(), 0..20_000),
        ) {
            let (ours, theirs) = UnixStream::pair().expect("a pair");
            let server = std::thread::spawn(move || {
                let _ = converse(&Visit::new(Client::Unix(theirs)), &text());
            });
            let writer = ours.try_clone().expect("a second handle");
            let all = [beginning.as_bytes(), &bytes].concat();
            let writes = std::thread::spawn(move || {
                let _ = (&writer).write_all(&all);
                let _ = writer.shutdown(std::net::Shutdown::Write);
            });
            let mut answer = Vec::new();
            // The other side may close with bytes unread.
            let _ = (&ours).read_to_end(&mut answer);
            writes.join().expect("it writes, and ends");
            server.join().expect("it answers, and ends");
            prop_assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 "));
        }
    }
}
