//! The server's side of HTTP/2 (RFC 9113) by h2, over bytes that others read and write.
//!
//! h2 is written for sockets that tell when they are ready. Here it has a pipe in memory
//! ([`pipe`]), and is asked to go on after each change: when bytes have come, when some were sent,
//! when a reply or a part of one was given. So there is no runtime, and nothing waits.
//!
//! | file | what it is |
//! |---|---|
//! | `frames` | follows what comes: whether a head is on its way, and floods |
//! | `pipe` | what h2 takes for a socket |
//! | `stream` | a request with its reply |
//! | `bell` | which streams have moved |
//!
//! Rejected: docs/adr/0083, an engine of our own.

mod bell;
mod frames;
mod pipe;
mod stream;
#[cfg(test)]
mod tests;

use bell::{Bell, Moved};
use bytes::Bytes;
use frames::Frames;
use h2::server::{self, Handshake, SendResponse};
use h2::{Reason, RecvStream};
use http::header::{HeaderName, HeaderValue};
use http::{HeaderMap, Request, Response, StatusCode};
use pipe::Pipe;
use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use stream::Stream;
pub(crate) use stream::{Lost, Part};

/// Bytes of a body that a client may send before they are read: of one stream, of a connection.
const STREAM_WINDOW: u32 = 128 << 10;
const CONNECTION_WINDOW: u32 = 1 << 20;
/// Bytes of a reply that may be taken before they are sent.
const MOST_TAKEN: usize = 128 << 10;
/// Input beyond this waits until output was sent.
const MOST_UNREAD: usize = 64 << 10;

/// Bounds of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Requests that a client may have open.
    pub(crate) streams: u32,
    /// Bytes of the fields of a head, each with 32 more.
    pub(crate) header: u32,
}

/// The head of a request.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) method: String,
    /// Path and query; empty for `CONNECT`.
    pub(crate) target: String,
    pub(crate) host: String,
    pub(crate) fields: Vec<(HeaderName, HeaderValue)>,
    pub(crate) has_body: bool,
}

/// What has happened.
#[derive(Debug)]
pub(crate) enum Change {
    /// A request has come. Its stream is kept until [`Connection::forget`].
    Request(u32, Box<Head>),
    /// There are data, or there is room for data.
    Moved(u32),
    /// The client has reset the stream, or the connection has ended.
    Reset(u32),
    /// No request comes any more, and nothing but what is unsent is left to do. The text is empty
    /// if the peers have parted in peace.
    Over(String),
}

enum State {
    Begins(Box<Handshake<Pipe, Bytes>>),
    Open(Box<server::Connection<Pipe, Bytes>>),
    Over,
}

/// One connection.
pub(crate) struct Connection {
    state: State,
    pipe: Pipe,
    frames: Frames,
    streams: HashMap<u32, Stream>,
    changes: VecDeque<Change>,
    moved: Arc<Moved>,
    stops: bool,
    /// Why this side ends the connection; empty: it does not, or in peace.
    farewell: String,
}

impl Connection {
    /// `now` is the time in nanoseconds, as for [`Connection::feed`].
    pub(crate) fn new(bounds: Bounds, now: u64) -> Connection {
        let pipe = Pipe::default();
        let handshake = server::Builder::new()
            .max_concurrent_streams(bounds.streams)
            .max_header_list_size(bounds.header)
            .initial_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_send_buffer_size(MOST_TAKEN)
            .handshake(pipe.clone());
        let mut connection = Connection {
            state: State::Begins(Box::new(handshake)),
            pipe,
            frames: Frames::new(now),
            streams: HashMap::new(),
            changes: VecDeque::new(),
            moved: Arc::default(),
            stops: false,
            farewell: String::new(),
        };
        connection.advance();
        connection
    }

    // What comes
    // ---------------------------------------------------------------------------------------------

    /// Takes bytes that have come. An empty slice: the connection has ended.
    pub(crate) fn feed(&mut self, bytes: &[u8], now: u64) {
        if matches!(self.state, State::Over) {
            return;
        }
        if !self.frames.take(bytes, now) {
            let why = "the client floods the connection with frames that bring nothing";
            self.abort(Reason::ENHANCE_YOUR_CALM, why);
            return;
        }
        self.pipe.wire().feed(bytes);
        self.advance();
    }

    /// Whether more may be fed now. Otherwise some output has to be sent first.
    pub(crate) fn wants_input(&self) -> bool {
        self.pipe.wire().unread() < MOST_UNREAD
    }

    /// If what has come ends within the preface, a head or another short frame: when that has
    /// begun.
    pub(crate) fn begun(&self) -> Option<u64> {
        self.frames.begun()
    }

    /// How many streams are kept.
    pub(crate) fn count(&self) -> usize {
        self.streams.len()
    }

    /// Whether [`Connection::next`] has something to tell.
    pub(crate) fn has_changes(&self) -> bool {
        !self.changes.is_empty()
    }

    /// What has happened next.
    pub(crate) fn next(&mut self) -> Option<Change> {
        self.changes.pop_front()
    }

    // Requests
    // ---------------------------------------------------------------------------------------------

    /// Reads at most so many bytes of a body.
    pub(crate) fn read(&mut self, id: u32, most: usize) -> Result<Part, Lost> {
        let part = self.streams.get_mut(&id).ok_or(Lost)?.read(most)?;
        if matches!(part, Part::Bytes(_)) {
            self.advance(); // the client may be told that it may send more
        }
        Ok(part)
    }

    /// Tells a client that waits with its body (100, Continue) to send it.
    pub(crate) fn go_on(&mut self, id: u32) {
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.go_on();
            self.advance();
        }
    }

    /// Begins a reply, with as much of its data as there is room for. Returns how many bytes that
    /// were. `is_last`: the reply ends with these data.
    pub(crate) fn respond(
        &mut self,
        id: u32,
        status: StatusCode,
        fields: HeaderMap,
        data: &[u8],
        is_last: bool,
    ) -> Result<usize, Lost> {
        let stream = self.streams.get_mut(&id).ok_or(Lost)?;
        let mut head = Response::new(());
        *head.status_mut() = status;
        *head.headers_mut() = fields;
        stream.respond(head, is_last && data.is_empty())?;
        let sent = match data.is_empty() {
            true => Ok(0),
            false => stream.send(data, is_last),
        };
        self.advance();
        sent
    }

    /// Goes on with a reply. See [`Connection::respond`].
    pub(crate) fn send(&mut self, id: u32, data: &[u8], is_last: bool) -> Result<usize, Lost> {
        let stream = self.streams.get_mut(&id).ok_or(Lost)?;
        let sent = stream.send(data, is_last);
        self.advance();
        sent
    }

    /// Tells the client that the rest of a stream does not come.
    pub(crate) fn reset(&mut self, id: u32, reason: Reason) {
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.reset(reason);
            self.advance();
        }
    }

    /// Nobody uses the stream any more. What was given is sent, the rest of its body is refused.
    pub(crate) fn forget(&mut self, id: u32) {
        self.streams.remove(&id);
        self.advance();
    }

    // The connection
    // ---------------------------------------------------------------------------------------------

    /// Takes no new requests. The connection is over when the open ones have been answered.
    pub(crate) fn shut_down(&mut self) {
        if !std::mem::replace(&mut self.stops, true)
            && let State::Open(connection) = &mut self.state
        {
            connection.graceful_shutdown();
            self.advance();
        }
    }

    /// Ends the connection, and tells the client the reason. `why` is for [`Change::Over`].
    pub(crate) fn abort(&mut self, reason: Reason, why: &str) {
        why.clone_into(&mut self.farewell);
        if let State::Open(connection) = &mut self.state {
            connection.abrupt_shutdown(reason);
            self.advance();
        }
        self.end(String::new());
    }

    /// How many bytes for the client are not sent.
    pub(crate) fn pending(&self) -> usize {
        self.pipe.wire().pending()
    }

    /// The next bytes for the client: their address and number. They stay where they are until all
    /// of them were sent.
    pub(crate) fn leaving(&mut self) -> (*const u8, usize) {
        let mut wire = self.pipe.wire();
        let bytes = wire.leaving();
        (bytes.as_ptr(), bytes.len())
    }

    /// So many of them have been sent.
    pub(crate) fn sent(&mut self, size: usize) {
        if size > 0 {
            self.pipe.wire().sent(size);
            self.advance();
        }
    }

    // h2
    // ---------------------------------------------------------------------------------------------

    /// Lets h2 go on until nothing moves.
    fn advance(&mut self) {
        let context = &mut Context::from_waker(Waker::noop());
        loop {
            match &mut self.state {
                State::Begins(handshake) => match Pin::new(&mut **handshake).poll(context) {
                    Poll::Pending => break,
                    Poll::Ready(Ok(connection)) => {
                        self.state = State::Open(Box::new(connection));
                        if std::mem::take(&mut self.stops) {
                            self.shut_down();
                        }
                    }
                    Poll::Ready(Err(why)) => self.end(why.to_string()),
                },
                State::Open(connection) => match connection.poll_accept(context) {
                    Poll::Pending => break,
                    Poll::Ready(Some(Ok((request, reply)))) => self.accept(request, reply),
                    Poll::Ready(Some(Err(why))) => self.end(why.to_string()),
                    Poll::Ready(None) => self.end(String::new()),
                },
                State::Over => break,
            }
        }
        self.note_moved();
    }

    fn accept(&mut self, request: Request<RecvStream>, reply: SendResponse<Bytes>) {
        let id = reply.stream_id().as_u32();
        let (parts, body) = request.into_parts();
        let mut stream = Stream::new(body, reply, Bell::new(id, &self.moved));
        let target = match parts.uri.path_and_query() {
            Some(target) if parts.method != http::Method::CONNECT => target.as_str(),
            _ => "",
        };
        let host = match (parts.uri.authority(), parts.headers.get("host")) {
            (Some(authority), _) => authority.as_str().to_owned(),
            (None, Some(host)) => String::from_utf8_lossy(host.as_bytes()).into_owned(),
            (None, None) => String::new(),
        };
        let fields = parts.headers.iter();
        let head = Head {
            method: parts.method.as_str().to_owned(),
            target: target.to_owned(),
            host,
            fields: fields
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect(),
            has_body: !stream.has_body_ended(),
        };
        self.changes.push_back(Change::Request(id, Box::new(head)));
        if stream.is_newly_lost() {
            self.changes.push_back(Change::Reset(id));
        }
        self.streams.insert(id, stream);
    }

    fn note_moved(&mut self) {
        for id in self.moved.take() {
            let Some(stream) = self.streams.get_mut(&id) else {
                continue;
            };
            let change = match stream.is_newly_lost() {
                true => Change::Reset(id),
                false => Change::Moved(id),
            };
            self.changes.push_back(change);
        }
    }

    /// The first end counts.
    fn end(&mut self, why: String) {
        if matches!(self.state, State::Over) {
            return;
        }
        let why = match self.farewell.is_empty() {
            true => why,
            false => std::mem::take(&mut self.farewell),
        };
        // Its streams learn of the end when h2's connection is dropped.
        self.state = State::Over;
        self.note_moved();
        self.changes.push_back(Change::Over(why));
    }
}
