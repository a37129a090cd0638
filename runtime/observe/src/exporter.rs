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
//! The exporter has one thread, which waits for clients and wakes for nothing else. Each client has
//! a thread of its own and a place, of which there are [`MOST_CLIENTS`], and [`WHOLE_TIME`] for its
//! one request. When all places are taken, the client that has had its place longest without a
//! whole request loses it to the new one. If all have asked, the new one is refused. So clients
//! that say nothing keep nobody out.
//!
//! A fork's child does not serve: it has no such thread, and its guest closes what was
//! [`inherited`](crate::inherited).

use crate::inherited::Noted;
use crate::observer::{Counted, count_in_this_program};
use crate::stale::remove_stale;
use baton_sys::features;
use baton_sys::peer::user_of_peer;
use baton_sys::thread;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, chmod};
use rustix::process::geteuid;
use std::fmt::Write as _;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
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

/// The maximal size of a request's head, in bytes.
const LONGEST_HEAD: usize = 8 << 10;

/// The type of OpenMetrics text.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Makes the text that is served.
pub type Text = Arc<dyn Fn() -> Result<String, String> + Send + Sync>;

/// Where to serve.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Address {
    Unix(PathBuf),
    Tcp(SocketAddr),
}

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

impl Address {
    fn parse(text: &str) -> Result<Address, String> {
        let wrong =
            || format!("'unix:PATH', '127.0.0.1:PORT' or '[::1]:PORT' expected, got '{text}'");
        if let Some(path) = text.strip_prefix("unix:") {
            return match path {
                "" => Err(wrong()),
                path => Ok(Address::Unix(PathBuf::from(path))),
            };
        }
        let address: SocketAddr = text.parse().map_err(|_| wrong())?;
        let is_own = match address {
            SocketAddr::V4(address) => *address.ip() == Ipv4Addr::LOCALHOST,
            SocketAddr::V6(address) => *address.ip() == Ipv6Addr::LOCALHOST,
        };
        match is_own && address.port() != 0 {
            true => Ok(Address::Tcp(address)),
            false => Err(wrong()),
        }
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
            Address::Tcp(address) => address.fmt(f),
        }
    }
}

fn start(address: &Address, text: Text) -> io::Result<()> {
    let listener = Listener::bind(address)?;
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
    /// Its request is whole.
    has_asked: AtomicBool,
}

impl Visit {
    fn new(client: Client) -> Visit {
        Visit {
            client,
            has_asked: AtomicBool::new(false),
        }
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

    /// Gives a place to a client. `None`: all are taken by clients that have asked. By one thread.
    fn enter(&self, client: Client) -> Option<Arc<Visit>> {
        let mut places = self.lock();
        while places.len() >= MOST_CLIENTS {
            // Relaxed: a client that asks at this moment may lose its place.
            let is_silent = |visit: &&Arc<Visit>| !visit.has_asked.load(Ordering::Relaxed);
            // Its read ends, and so does its thread.
            places.iter().find(is_silent)?.client.end();
            let left = self.left.wait(places);
            places = left.unwrap_or_else(PoisonError::into_inner);
        }
        let visit = Arc::new(Visit::new(client));
        places.push(Arc::clone(&visit));
        Some(visit)
    }

    fn leave(&self, visit: &Arc<Visit>) {
        self.lock().retain(|other| !Arc::ptr_eq(other, visit));
        self.left.notify_one();
    }
}

/// Serves a client on a thread of its own.
fn serve(client: Client, visits: &Arc<Visits>, text: &Text) {
    // No answer to whom is refused: its writing could block.
    let Some(visit) = visits.enter(client) else {
        return;
    };
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

enum Listener {
    Unix(UnixListener),
    Tcp(TcpListener),
}

impl Listener {
    fn bind(address: &Address) -> io::Result<Listener> {
        match address {
            Address::Unix(path) => {
                remove_stale(path)?;
                let listener = UnixListener::bind(path)?;
                // Those who connect before this are refused by their user.
                chmod(path, Mode::RUSR | Mode::WUSR)?;
                listener.set_nonblocking(true)?;
                let path = std::path::absolute(path)?;
                let _ = SOCKET.set((std::process::id(), path));
                Ok(Listener::Unix(listener))
            }
            Address::Tcp(address) => {
                let listener = TcpListener::bind(address)?;
                listener.set_nonblocking(true)?;
                Ok(Listener::Tcp(listener))
            }
        }
    }

    fn accept(&self) -> io::Result<Client> {
        match self {
            Listener::Unix(listener) => Ok(Client::Unix(listener.accept()?.0)),
            Listener::Tcp(listener) => Ok(Client::Tcp(listener.accept()?.0)),
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Listener::Unix(listener) => listener.as_fd(),
            Listener::Tcp(listener) => listener.as_fd(),
        }
    }
}

enum Client {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl AsFd for Client {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Client::Unix(stream) => stream.as_fd(),
            Client::Tcp(stream) => stream.as_fd(),
        }
    }
}

impl Client {
    /// Whether the client may ask.
    fn may_ask(&self) -> io::Result<bool> {
        match self {
            Client::Unix(stream) => {
                let peer = user_of_peer(stream)?;
                Ok(peer == geteuid().as_raw() || peer == 0)
            }
            Client::Tcp(_) => Ok(true),
        }
    }

    /// Makes the next read or write end at `until` at the latest.
    fn limit(&self, until: Instant) -> io::Result<()> {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        match self {
            Client::Unix(stream) => {
                stream.set_nonblocking(false)?;
                stream.set_read_timeout(Some(left))?;
                stream.set_write_timeout(Some(left))
            }
            Client::Tcp(stream) => {
                stream.set_nonblocking(false)?;
                stream.set_read_timeout(Some(left))?;
                stream.set_write_timeout(Some(left))
            }
        }
    }

    fn read(&self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Client::Unix(stream) => (&*stream).read(bytes),
            Client::Tcp(stream) => (&*stream).read(bytes),
        }
    }

    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Client::Unix(stream) => (&*stream).write(bytes),
            Client::Tcp(stream) => (&*stream).write(bytes),
        }
    }

    /// Ends the connection. Another thread's read or write ends, too.
    fn end(&self) {
        // It may have ended already.
        let _ = match self {
            Client::Unix(stream) => stream.shutdown(Shutdown::Both),
            Client::Tcp(stream) => stream.shutdown(Shutdown::Both),
        };
    }

    fn is_on_the_network(&self) -> bool {
        matches!(self, Client::Tcp(_))
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

/// An answer to a request.
#[derive(Debug, PartialEq, Eq)]
struct Answer {
    status: &'static str,
    kind: &'static str,
    body: String,
    /// Whether only the head is sent.
    is_head: bool,
}

impl Answer {
    fn error(status: &'static str, why: impl Into<String>) -> Answer {
        Answer {
            status,
            kind: "text/plain; charset=utf-8",
            body: why.into() + "\n",
            is_head: false,
        }
    }

    fn into_bytes(self) -> Vec<u8> {
        let mut bytes = String::new();
        // A string takes all that is written to it.
        let _ = write!(
            bytes,
            "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            self.status,
            self.kind,
            self.body.len()
        );
        if !self.is_head {
            bytes += &self.body;
        }
        bytes.into_bytes()
    }
}

/// The answer to a request with this head.
fn answer(head: &[u8], on_network: bool, text: &Text) -> Answer {
    let Some(Request { method, path, host }) = Request::parse(head) else {
        return Answer::error(
            "400 Bad Request",
            "a request of HTTP/1.1 or HTTP/1.0 expected",
        );
    };
    if on_network && !host.is_none_or(is_this_machine) {
        return Answer::error(
            "403 Forbidden",
            "the host of the request is not this machine",
        );
    }
    let is_head = method == "HEAD";
    if !is_head && method != "GET" {
        return Answer::error("405 Method Not Allowed", "GET expected");
    }
    let path = path.split_once('?').map_or(path, |(path, _)| path);
    if path != "/metrics" && path != "/" {
        return Answer::error("404 Not Found", "the metrics are at /metrics");
    }
    match text() {
        Ok(body) => Answer {
            status: "200 OK",
            kind: OPEN_METRICS,
            body,
            is_head,
        },
        Err(why) => Answer::error("500 Internal Server Error", why),
    }
}

/// What matters of a request.
struct Request<'a> {
    method: &'a str,
    path: &'a str,
    host: Option<&'a str>,
}

impl Request<'_> {
    fn parse(head: &[u8]) -> Option<Request<'_>> {
        let mut lines = std::str::from_utf8(head).ok()?.split("\r\n");
        let mut words = lines.next()?.split(' ');
        let (method, path, version) = (words.next()?, words.next()?, words.next()?);
        if !version.starts_with("HTTP/1.") || words.next().is_some() {
            return None;
        }
        let mut host = None;
        for line in lines {
            let (name, value) = line.split_once(':')?;
            if name.eq_ignore_ascii_case("host") && host.replace(value.trim()).is_some() {
                return None;
            }
        }
        Some(Request { method, path, host })
    }
}

/// Whether a `Host` is a name of this machine for itself, with a port or without.
fn is_this_machine(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    ["127.0.0.1", "[::1]", "localhost"]
        .iter()
        .any(|own| name.eq_ignore_ascii_case(own))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text() -> Text {
        Arc::new(|| Ok("# EOF\n".to_owned()))
    }

    fn status(head: &str, on_network: bool) -> &'static str {
        answer(head.as_bytes(), on_network, &text()).status
    }

    #[test]
    fn only_addresses_of_this_machine_are_taken() {
        for good in ["unix:a", "unix:/x/y:z", "127.0.0.1:9", "[::1]:65535"] {
            let address = Address::parse(good).expect(good);
            assert_eq!(address.to_string(), good);
        }
        for bad in [
            "",
            "unix:",
            "/a",
            "9090",
            ":9090",
            "0.0.0.0:9090",
            "127.0.0.2:9090",
            "127.0.0.1",
            "127.0.0.1:0",
            "127.0.0.1:65536",
            "localhost:9090",
            "[::]:9090",
            "[::ffff:127.0.0.1]:9090",
            "http://127.0.0.1:9090",
        ] {
            let why = Address::parse(bad).expect_err(bad);
            assert!(
                why.contains("'127.0.0.1:PORT' or '[::1]:PORT' expected"),
                "{why}"
            );
            assert!(why.ends_with(&format!("got '{bad}'")), "{why}");
        }
    }

    #[test]
    fn each_request_gets_its_status() {
        for (head, expected) in [
            ("GET /metrics HTTP/1.1\r\nHost: localhost:90", "200 OK"),
            ("GET / HTTP/1.0", "200 OK"),
            ("HEAD /metrics?x=1 HTTP/1.1\r\nhost:[::1]", "200 OK"),
            ("POST /metrics HTTP/1.1", "405 Method Not Allowed"),
            ("GET /other HTTP/1.1", "404 Not Found"),
            ("GET /metrics HTTP/2", "400 Bad Request"),
            ("GET /metrics", "400 Bad Request"),
            ("", "400 Bad Request"),
            ("GET / HTTP/1.1\r\nHost: a\r\nHost: b", "400 Bad Request"),
            ("GET / HTTP/1.1\r\nHost: evil.example:80", "403 Forbidden"),
            (
                "GET / HTTP/1.1\r\nHost: 127.0.0.1.evil.example",
                "403 Forbidden",
            ),
        ] {
            assert_eq!(status(head, true), expected, "{head}");
        }
        // A Unix socket is reached by no browser.
        assert_eq!(status("GET / HTTP/1.1\r\nHost: anything", false), "200 OK");
    }

    #[test]
    fn an_answer_is_whole() {
        let bytes = answer(b"GET / HTTP/1.1", true, &text()).into_bytes();
        let expected = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: {OPEN_METRICS}\r\nContent-Length: 6\r\n\
             Connection: close\r\n\r\n# EOF\n"
        );
        assert_eq!(String::from_utf8_lossy(&bytes), expected);
        let head = answer(b"HEAD / HTTP/1.1", true, &text()).into_bytes();
        assert!(head.ends_with(b"\r\n\r\n") && head.len() + 6 == bytes.len());
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
