//! The server's side of HTTP/2 for the half in C.

use super::Slice;
use crate::http2::{Bounds, Change, Connection, Lost, Part};
use bytes::Bytes;
use h2::Reason;
use http::header::{HeaderName, HeaderValue};
use http::{HeaderMap, StatusCode};
use std::ffi::c_int;

/// A connection, and what it gave last, to which records refer.
pub(crate) struct Endpoint {
    connection: Connection,
    last: Option<Change>,
    part: Bytes,
    /// The fields of the reply that is about to begin.
    fields: HeaderMap,
}

/// Results of the functions that return a number of bytes.
const NOTHING: isize = 0;
const END: isize = -1;
const LOST: isize = -2;

fn number_of(result: Result<usize, Lost>) -> isize {
    result.map_or(LOST, usize::cast_signed)
}

/// Makes a connection. `now` is a time in nanoseconds.
// SAFETY: the only definition of this symbol, with the signature of `c/http2.c`.
#[unsafe(no_mangle)]
extern "C" fn baton_web_http2_new(streams: u32, header: u32, now: u64) -> *mut Endpoint {
    let connection = Connection::new(Bounds { streams, header }, now);
    Box::into_raw(Box::new(Endpoint {
        connection,
        last: None,
        part: Bytes::new(),
        fields: HeaderMap::new(),
    }))
}

/// # Safety
/// `endpoint` comes from [`baton_web_http2_new`], and is not used afterwards.
// SAFETY: as above.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_web_http2_free(endpoint: *mut Endpoint) {
    // SAFETY: the caller's condition.
    drop(unsafe { Box::from_raw(endpoint) });
}

/// Takes bytes that have come. None: the connection has ended.
///
/// # Safety
/// The bytes are readable.
// SAFETY: as above.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_web_http2_feed(endpoint: &mut Endpoint, bytes: Slice, now: u64) {
    // SAFETY: the caller's condition.
    endpoint.connection.feed(unsafe { bytes.bytes() }, now);
}

// SAFETY: as above.
#[unsafe(no_mangle)]
extern "C" fn baton_web_http2_wants_input(endpoint: &Endpoint) -> c_int {
    endpoint.connection.wants_input().into()
}

/// When a head, or another frame but data, has begun that has not ended; 0: there is none.
// SAFETY: as above.
#[unsafe(no_mangle)]
extern "C" fn baton_web_http2_begun(endpoint: &Endpoint) -> u64 {
    endpoint.connection.begun().unwrap_or(0)
}

/// How many streams are kept.
// SAFETY: as above.
#[unsafe(no_mangle)]
extern "C" fn baton_web_http2_count(endpoint: &Endpoint) -> usize {
    endpoint.connection.count()
}

/// `struct http2_change` of `c/http2.c`.
///
/// | kind | change | method | target | host | count |
/// |---|---|---|---|---|---|
/// | 0 | nothing | | | | |
/// | 1 | a request | its method | path and query | its host | fields of its head |
/// | 2 | a stream has moved | | | | |
/// | 3 | a stream was reset | | | | |
/// | 4 | the connection is over | why | | | |
#[repr(C)]
struct RawChange {
    kind: c_int,
    stream: u32,
    method: Slice,
    target: Slice,
    host: Slice,
    count: usize,
    has_body: c_int,
}

/// Writes what has happened next. It is valid until the next call.
///
/// # Safety
/// `raw` is writable.
// SAFETY: as above.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_web_http2_next(endpoint: &mut Endpoint, raw: *mut RawChange) {
    endpoint.last = endpoint.connection.next();
    let mut change = RawChange {
        kind: 0,
        stream: 0,
        method: Slice::NONE,
        target: Slice::NONE,
        host: Slice::NONE,
        count: 0,
        has_body: 0,
    };
    match &endpoint.last {
        None => {}
        Some(Change::Request(id, head)) => {
            change = RawChange {
                kind: 1,
                stream: *id,
                method: Slice::of(head.method.as_bytes()),
                target: Slice::of(head.target.as_bytes()),
                host: Slice::of(head.host.as_bytes()),
                count: head.fields.len(),
                has_body: head.has_body.into(),
            }
        }
        Some(Change::Moved(id)) => (change.kind, change.stream) = (2, *id),
        Some(Change::Reset(id)) => (change.kind, change.stream) = (3, *id),
        Some(Change::Over(why)) => {
            (change.kind, change.method) = (4, Slice::of(why.as_bytes()));
        }
    }
    // SAFETY: the caller's condition.
    unsafe { raw.write(change) };
}

/// Whether something has happened.
// SAFETY: as above.
#[unsafe(no_mangle)]
extern "C" fn baton_web_http2_has_changes(endpoint: &Endpoint) -> c_int {
    endpoint.connection.has_changes().into()
}

/// `struct http2_field` of `c/http2.c`.
#[repr(C)]
struct RawField {
    name: Slice,
    value: Slice,
}

/// The field of the last request with this number, from 0.
// SAFETY: as above.
#[unsafe(no_mangle)]
extern "C" fn baton_web_http2_field(endpoint: &Endpoint, number: usize) -> RawField {
    let field = match &endpoint.last {
        Some(Change::Request(_, head)) => head.fields.get(number),
        _ => None,
    };
    let (name, value) = match field {
        Some((name, value)) => (Slice::of(name.as_ref()), Slice::of(value.as_bytes())),
        None => (Slice::NONE, Slice::NONE),
    };
    RawField { name, value }
}

/// Reads at most `most` bytes of a body: their number and address, which is valid until the next
/// call; or one of the results above.
///
/// # Safety
/// `part` is writable.
// SAFETY: as above.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_web_http2_read(
    endpoint: &mut Endpoint,
    stream: u32,
    most: usize,
    part: *mut Slice,
) -> isize {
    match endpoint.connection.read(stream, most) {
        Ok(Part::Bytes(bytes)) => {
            endpoint.part = bytes;
            // SAFETY: the caller's condition.
            unsafe { part.write(Slice::of(&endpoint.part)) };
            endpoint.part.len().cast_signed()
        }
        Ok(Part::Nothing) => NOTHING,
        Ok(Part::End) => END,
        Err(Lost) => LOST,
    }
}

/// Tells a client that waits with its body to send it.
// SAFETY: as above.
#[unsafe(no_mangle)]
extern "C" fn baton_web_http2_go_on(endpoint: &mut Endpoint, stream: u32) {
    endpoint.connection.go_on(stream);
}

/// Forgets what was read last.
// SAFETY: as above.
#[unsafe(no_mangle)]
extern "C" fn baton_web_http2_release(endpoint: &mut Endpoint) {
    endpoint.part = Bytes::new();
    endpoint.last = None;
}

/// Adds a field to the reply that [`baton_web_http2_respond`] begins. Returns 0 if there cannot be
/// such a field.
///
/// # Safety
/// The bytes are readable.
// SAFETY: as above.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_web_http2_add(
    endpoint: &mut Endpoint,
    name: Slice,
    value: Slice,
) -> c_int {
    // SAFETY: the caller's condition, for both.
    let (name, value) = unsafe { (name.bytes(), value.bytes()) };
    let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name), HeaderValue::from_bytes(value))
    else {
        return 0;
    };
    endpoint.fields.try_append(name, value).is_ok().into()
}

/// Forgets the fields of a reply that does not begin.
// SAFETY: as above.
#[unsafe(no_mangle)]
extern "C" fn baton_web_http2_clear(endpoint: &mut Endpoint) {
    endpoint.fields.clear();
}

/// Begins a reply. Returns how many bytes of the data were taken, or -2.
///
/// # Safety
/// The bytes are readable.
// SAFETY: as above.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_web_http2_respond(
    endpoint: &mut Endpoint,
    stream: u32,
    status: u16,
    data: Slice,
    is_last: c_int,
) -> isize {
    let fields = std::mem::take(&mut endpoint.fields);
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    // SAFETY: the caller's condition.
    let data = unsafe { data.bytes() };
    number_of(
        endpoint
            .connection
            .respond(stream, status, fields, data, is_last != 0),
    )
}

/// Goes on with a reply. Returns how many bytes of the data were taken, or -2.
///
/// # Safety
/// The bytes are readable.
// SAFETY: as above.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_web_http2_send(
    endpoint: &mut Endpoint,
    stream: u32,
    data: Slice,
    is_last: c_int,
) -> isize {
    // SAFETY: the caller's condition.
    let data = unsafe { data.bytes() };
    number_of(endpoint.connection.send(stream, data, is_last != 0))
}

/// Resets a stream. The reason is a code of RFC 9113, section 7.
// SAFETY: as above.
#[unsafe(no_mangle)]
extern "C" fn baton_web_http2_reset(endpoint: &mut Endpoint, stream: u32, reason: u32) {
    endpoint.connection.reset(stream, Reason::from(reason));
}

// SAFETY: as above.
#[unsafe(no_mangle)]
extern "C" fn baton_web_http2_forget(endpoint: &mut Endpoint, stream: u32) {
    endpoint.connection.forget(stream);
}

// SAFETY: as above.
#[unsafe(no_mangle)]
extern "C" fn baton_web_http2_shut_down(endpoint: &mut Endpoint) {
    endpoint.connection.shut_down();
}

/// Ends the connection. The reason is as for [`baton_web_http2_reset`].
///
/// # Safety
/// The bytes are readable.
// SAFETY: as above.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_web_http2_abort(endpoint: &mut Endpoint, reason: u32, why: Slice) {
    // SAFETY: the caller's condition.
    let why = unsafe { why.text() };
    endpoint.connection.abort(Reason::from(reason), &why);
}

/// How many bytes for the client are not sent.
// SAFETY: as above.
#[unsafe(no_mangle)]
extern "C" fn baton_web_http2_pending(endpoint: &Endpoint) -> usize {
    endpoint.connection.pending()
}

/// The next bytes for the client. They stay where they are until all of them have been sent.
// SAFETY: as above.
#[unsafe(no_mangle)]
extern "C" fn baton_web_http2_leaving(endpoint: &mut Endpoint) -> Slice {
    let (at, size) = endpoint.connection.leaving();
    Slice {
        at: at.cast(),
        size,
    }
}

/// So many of them have been sent.
// SAFETY: as above.
#[unsafe(no_mangle)]
extern "C" fn baton_web_http2_sent(endpoint: &mut Endpoint, size: usize) {
    endpoint.connection.sent(size);
}
