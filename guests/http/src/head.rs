//! The head of a request.
//!
//! [`end_of_head`] finds the end line by line, and remembers how far it has come: a head that comes
//! byte by byte costs no more than one that comes at once. Only a whole head is parsed.

use crate::framing::{self, Framing};
use crate::span::{Refusal, Span};
use crate::{target, text};

/// The most fields of a head. One with more is refused with 431.
pub const MOST_FIELDS: usize = 100;

/// A field: its name as it came, and its value without spaces around it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Field {
    /// Its name.
    pub name: Span,
    /// Its value.
    pub value: Span,
}

/// A request's head.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Head {
    /// The bytes of the head, with the empty line at its end.
    pub size: u32,
    /// The number of fields.
    pub count: u32,
    /// "GET".
    pub method: Span,
    /// What follows the method, as it came.
    pub target: Span,
    /// The target's path, as it came. `*` for the whole server.
    pub path: Span,
    /// What follows the question mark; empty without one.
    pub query: Span,
    /// The host, of the target or of the field `Host`.
    pub host: Span,
    /// How the body ends, and whether the connection stays.
    pub framing: Framing,
    /// The fields.
    pub fields: [Field; MOST_FIELDS],
}

impl Default for Head {
    fn default() -> Head {
        Head {
            size: 0,
            count: 0,
            method: Span::default(),
            target: Span::default(),
            path: Span::default(),
            query: Span::default(),
            host: Span::default(),
            framing: Framing::default(),
            fields: [Field::default(); MOST_FIELDS],
        }
    }
}

/// Why there is no head.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// More bytes are needed.
    Partial,
    /// It is refused with this status.
    Refused(u16),
}

/// The methods that a server knows. Others are refused with 501. `CONNECT` is for proxies.
const METHODS: [&str; 8] = [
    "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE",
];

/// Where the head ends, behind its empty line. `seen` is how far an earlier call has looked, 0 at
/// first; `limit` the most bytes of a head.
///
/// # Errors
/// [`Missing::Partial`] if the end has not come. A line without "\r" at its end is refused, and a
/// head that exceeds the limit.
pub fn end_of_head(data: &[u8], seen: &mut usize, limit: usize) -> Result<usize, Missing> {
    let looked_at = &data[..data.len().min(limit)];
    // Empty lines before a request are skipped (RFC 9112, 2.2).
    let mut first = 0;
    while looked_at[first..].starts_with(b"\r\n") {
        first += 2;
    }
    let mut line = first.max(*seen);
    while let Some(length) = memchr::memchr(b'\n', &looked_at[line..]) {
        if length == 0 || looked_at[line + length - 1] != b'\r' {
            return Err(Missing::Refused(400));
        }
        if length == 1 {
            return Ok(line + 2);
        }
        line += length + 1;
    }
    *seen = line;
    match data.len() >= limit {
        true => Err(Missing::Refused(431)),
        false => Err(Missing::Partial),
    }
}

/// Parses the head at the beginning of `data`. See [`end_of_head`].
///
/// # Errors
/// More bytes are needed, or the head is refused.
pub fn parse(data: &[u8], seen: &mut usize, limit: usize, head: &mut Head) -> Result<(), Missing> {
    let size = end_of_head(data, seen, limit)?;
    parse_whole(&data[..size], head).map_err(Missing::Refused)
}

fn parse_whole(data: &[u8], head: &mut Head) -> Result<(), Refusal> {
    let mut fields = [httparse::EMPTY_HEADER; MOST_FIELDS];
    let mut request = httparse::Request::new(&mut fields);
    match request.parse(data) {
        Ok(httparse::Status::Complete(size)) if size == data.len() => {}
        Ok(_) => return Err(400),
        Err(httparse::Error::TooManyHeaders) => return Err(431),
        Err(httparse::Error::Version) => return Err(status_of_version(data)),
        Err(_) => return Err(400),
    }
    let (Some(method), Some(of), Some(version)) = (request.method, request.path, request.version)
    else {
        return Err(400);
    };
    head.size = data.len() as u32;
    head.count = request.headers.len() as u32;
    head.method = Span::of(method.as_bytes(), data);
    head.target = Span::of(of.as_bytes(), data);
    for (field, header) in head.fields.iter_mut().zip(&*request.headers) {
        field.name = Span::of(header.name.as_bytes(), data);
        field.value = Span::of(text::trimmed(header.value), data);
    }
    head.framing = framing::of(request.headers, version)?;
    if !METHODS.contains(&method) {
        return Err(501);
    }
    let found = target::split(
        data,
        head.method.in_bytes(data),
        of.as_bytes(),
        request.headers,
    )?;
    (head.path, head.query, head.host) = (found.path, found.query, found.host);
    Ok(())
}

/// The status for a version that is neither 1.0 nor 1.1: another one of HTTP, or nonsense.
fn status_of_version(data: &[u8]) -> Refusal {
    let end = memchr::memchr(b'\r', data.trim_ascii_start()).unwrap_or(0);
    let mut words = data.trim_ascii_start()[..end].split(|byte| *byte == b' ');
    match (words.next(), words.next(), words.next(), words.next()) {
        (_, _, Some([b'H', b'T', b'T', b'P', b'/', b'0'..=b'9', b'.', b'0'..=b'9']), None) => 505,
        _ => 400,
    }
}
