//! The client that loads a server, in one thread. Each of its connections sends the next request as
//! soon as the last one was answered.

use std::borrow::Cow;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

/// The time limit for an answer before the load begins.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);
/// The largest number of events that are received at once.
const ROOM: usize = 512;

/// The protocol: the request, and how to find the end of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// A line of 64 bytes, which the server sends back.
    Echo,
    /// A page of HTTP/1.1, on a connection that stays open.
    Http,
    /// The same with the usual fields, and an answer in JSON that has the request's own number.
    Json,
    /// The same, but one request in a thousand has a handler that computes for 50 ms.
    Work,
}

const LINE: &[u8] = b"The quick brown fox jumps over the lazy dog, again and again...\n";
const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
/// What programs send with each request.
const FIELDS: &str = "Host: localhost\r\nUser-Agent: baton-bench\r\nAccept: application/json\r\n\
                      Accept-Encoding: identity\r\nConnection: keep-alive\r\n";

impl Protocol {
    /// Its name in the programs of servers.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Echo => "echo",
            Self::Http => "http",
            Self::Json => "json",
            Self::Work => "work",
        }
    }

    fn request(self, number: u64) -> Cow<'static, [u8]> {
        match self {
            Self::Echo => LINE.into(),
            Self::Http => REQUEST.into(),
            Self::Json | Self::Work => {
                let route = if self.computes(number) {
                    "sums"
                } else {
                    "items"
                };
                format!("GET /{route}/{number} HTTP/1.1\r\n{FIELDS}\r\n")
                    .into_bytes()
                    .into()
            }
        }
    }

    /// Whether the handler of the request with this number computes. The upper half of the number
    /// is that of the connection: such requests do not all come at once.
    fn computes(self, number: u64) -> bool {
        self == Self::Work && (number + (number >> 32) * 37).is_multiple_of(1000)
    }

    /// Whether these bytes are the whole answer to the request with this number. A wrong answer is
    /// an error.
    fn is_whole(self, answer: &[u8], number: u64) -> Result<bool> {
        match self {
            Self::Echo => {
                ensure!(
                    LINE.starts_with(answer),
                    "the server sent back something else"
                );
                Ok(answer.len() == LINE.len())
            }
            Self::Http => is_whole_page(answer),
            Self::Json | Self::Work => {
                let is_whole = is_whole_page(answer)?;
                let id = format!("\"id\":\"{number}\"");
                ensure!(
                    !is_whole || answer.windows(id.len()).any(|bytes| bytes == id.as_bytes()),
                    "the server answered another request"
                );
                Ok(is_whole)
            }
        }
    }
}

/// Whether the body is as long as the head says.
fn is_whole_page(answer: &[u8]) -> Result<bool> {
    const END_OF_HEAD: &[u8] = b"\r\n\r\n";
    let Some(head) = answer
        .windows(END_OF_HEAD.len())
        .position(|bytes| bytes == END_OF_HEAD)
    else {
        return Ok(false);
    };
    let text = std::str::from_utf8(&answer[..head]).context("the head of the answer is no text")?;
    let mut lines = text.lines();
    let status = lines.next().unwrap_or_default();
    ensure!(
        status.starts_with("HTTP/1.1 200"),
        "the server answered: {status}"
    );
    let length = lines.find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length")
            .then(|| value.trim().parse::<usize>().ok())?
    });
    let length = length.context("the answer does not tell its length")?;
    let whole = head + END_OF_HEAD.len() + length;
    ensure!(
        answer.len() <= whole,
        "the server sent more than was asked for"
    );
    Ok(answer.len() == whole)
}

/// One connection with its current request.
struct Connection {
    stream: TcpStream,
    answer: Vec<u8>,
    asked_at: Instant,
    /// The number of the current request. No other connection has it.
    number: u64,
}

/// Connections that have each been served once.
pub(crate) struct Client {
    protocol: Protocol,
    connections: Vec<Connection>,
}

/// The results of the load.
#[derive(Debug)]
pub(crate) struct Load {
    /// The number of answered requests.
    pub(crate) answered: usize,
    pub(crate) elapsed: Duration,
    /// The time of each answer, in microseconds, but of those for which a handler computes.
    pub(crate) took: Vec<f64>,
}

impl Client {
    /// Makes `count` connections. Each is served before the next one is made, so that none waits in
    /// the server's queue.
    pub(crate) fn connect(address: SocketAddr, protocol: Protocol, count: usize) -> Result<Self> {
        let connect = |number| {
            let mut connection = Connection::open(address, number as u64)?;
            let served = connection.ask_and_wait(protocol);
            served.with_context(|| format!("connection {number} of {count} was not served"))?;
            Ok(connection)
        };
        Ok(Self {
            protocol,
            connections: (1..=count).map(connect).collect::<Result<_>>()?,
        })
    }

    /// Sends a request on every connection, then waits for all answers, and repeats that until the
    /// time is over. Returns the number of answers.
    pub(crate) fn ask_in_rounds(&mut self, time: Duration) -> Result<usize> {
        let end = Instant::now() + time;
        let mut answered = 0;
        while Instant::now() < end {
            for connection in &mut self.connections {
                connection.ask(self.protocol)?;
            }
            for connection in &mut self.connections {
                while !connection.take_in(self.protocol)? {}
                answered += 1;
            }
        }
        Ok(answered)
    }

    /// Sends requests on all connections, until the time is over.
    pub(crate) fn load(&mut self, time: Duration) -> Result<Load> {
        self.drive(time, Duration::from_secs(60), &AtomicU64::new(0))
    }

    /// The same, but never sleeps: to wake this thread takes the server's processor time, and how
    /// often it has to is up to chance. Another thread may read the number of answers meanwhile.
    pub(crate) fn load_awake(&mut self, time: Duration, answered: &AtomicU64) -> Result<Load> {
        self.drive(time, Duration::ZERO, answered)
    }

    /// Asks again on each connection that is answered. Sleeps for at most `longest`.
    fn drive(&mut self, time: Duration, longest: Duration, answered: &AtomicU64) -> Result<Load> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let begin = Instant::now();
        for (number, connection) in self.connections.iter_mut().enumerate() {
            connection.stream.set_nonblocking(true)?;
            epoll.add(
                &connection.stream,
                EpollEvent::new(EpollFlags::EPOLLIN, number as u64),
            )?;
            connection.ask(self.protocol)?;
        }
        let (mut took, mut count) = (Vec::new(), 0);
        let mut events = [EpollEvent::empty(); ROOM];
        let end = begin + time;
        loop {
            let now = Instant::now();
            let Some(left) = end
                .checked_duration_since(now)
                .filter(|left| !left.is_zero())
            else {
                break;
            };
            let timeout = EpollTimeout::try_from(left.min(longest)).unwrap_or(EpollTimeout::ZERO);
            let ready = epoll.wait(&mut events, timeout)?;
            for event in &events[..ready] {
                let connection = &mut self.connections[event.data() as usize];
                if connection.take_in(self.protocol)? {
                    count += 1;
                    if !self.protocol.computes(connection.number) {
                        took.push(connection.asked_at.elapsed().as_secs_f64() * 1e6);
                    }
                    answered.fetch_add(1, Ordering::Relaxed);
                    connection.ask(self.protocol)?;
                }
            }
        }
        Ok(Load {
            answered: count,
            elapsed: begin.elapsed(),
            took,
        })
    }
}

impl Connection {
    fn open(address: SocketAddr, number: u64) -> Result<Self> {
        let stream = TcpStream::connect(address).context("cannot connect to the server")?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWER_LIMIT))?;
        Ok(Self {
            stream,
            answer: Vec::new(),
            asked_at: Instant::now(),
            number: number << 32,
        })
    }

    /// Sends a request. It is short, so the socket always has room for it.
    fn ask(&mut self, protocol: Protocol) -> Result<()> {
        self.answer.clear();
        self.number += 1;
        let request = protocol.request(self.number);
        self.asked_at = Instant::now();
        self.stream
            .write_all(&request)
            .context("the server takes no requests")
    }

    fn ask_and_wait(&mut self, protocol: Protocol) -> Result<()> {
        self.ask(protocol)?;
        while !self.take_in(protocol)? {}
        Ok(())
    }

    /// Reads what has arrived. Returns whether the answer is whole.
    fn take_in(&mut self, protocol: Protocol) -> Result<bool> {
        let mut bytes = [0; 4096];
        match self.stream.read(&mut bytes) {
            Ok(0) => bail!("the server closed a connection"),
            Ok(count) => self.answer.extend_from_slice(&bytes[..count]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error).context("the server does not answer"),
        }
        protocol.is_whole(&self.answer, self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::thread;

    #[test]
    fn a_page_is_whole_with_its_last_byte() {
        let page = b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\nX: y\r\n\r\nabc";
        for end in 0..page.len() {
            assert!(!is_whole_page(&page[..end]).unwrap(), "{end}");
        }
        assert!(is_whole_page(page).unwrap());
    }

    #[test]
    fn an_answer_that_is_not_a_page_is_an_error() {
        for wrong in [
            &b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"[..],
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nab",
        ] {
            assert!(is_whole_page(wrong).is_err());
        }
        assert!(Protocol::Echo.is_whole(b"the", 1).is_err());
    }

    #[test]
    fn an_answer_in_json_must_have_the_number_of_its_request() {
        let request = Protocol::Json.request(7).into_owned();
        assert!(request.starts_with(b"GET /items/7 HTTP/1.1\r\n"));
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{\"id\":\"7\"}";
        assert!(Protocol::Json.is_whole(answer, 7).unwrap());
        assert!(Protocol::Json.is_whole(answer, 8).is_err());
        assert!(!Protocol::Json.is_whole(&answer[..40], 8).unwrap());
    }

    /// A server with a thread for each connection. It stops answering after `answers` answers.
    fn echo(answers: usize) -> SocketAddr {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = server.local_addr().unwrap();
        thread::spawn(move || {
            for client in server.incoming() {
                let mut client = client.unwrap();
                thread::spawn(move || {
                    let mut line = vec![0; LINE.len()];
                    for _ in 0..answers {
                        if client.read_exact(&mut line).is_err() || client.write_all(&line).is_err()
                        {
                            return;
                        }
                    }
                });
            }
        });
        address
    }

    #[test]
    fn every_answer_is_counted_with_its_time() {
        let mut client = Client::connect(echo(usize::MAX), Protocol::Echo, 5).unwrap();
        let load = client.load(Duration::from_millis(100)).unwrap();
        assert!(
            load.answered >= 5 && load.took.len() == load.answered,
            "{load:?}"
        );
        assert!(load.elapsed >= Duration::from_millis(100));
    }

    #[test]
    fn every_connection_is_answered_in_every_round() {
        let mut client = Client::connect(echo(usize::MAX), Protocol::Echo, 5).unwrap();
        let answered = client.ask_in_rounds(Duration::from_millis(50)).unwrap();
        assert!(answered >= 5 && answered.is_multiple_of(5), "{answered}");
    }

    #[test]
    fn a_server_that_closes_connections_is_an_error() {
        let mut client = Client::connect(echo(1), Protocol::Echo, 2).unwrap();
        let error = client.load(Duration::from_secs(20)).unwrap_err();
        assert!(format!("{error:#}").contains("the server"), "{error:#}");
    }
}
