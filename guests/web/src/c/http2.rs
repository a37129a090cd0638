//! The server's side of HTTP/2 for the half in C.

use super::Slice;
use crate::http2::{Connection, Event, Limits, Lost, Part};
use bytes::Bytes;
use h2::Reason;
use http::header::{HeaderName, HeaderValue};
use http::{HeaderMap, StatusCode};
use std::ffi::c_int;

/// A connection, and what it gave last, to which records refer.
pub(crate) struct Held {
    connection: Connection,
    last: Option<Event>,
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
extern "C" fn baton_web_http2_new(streams: u32, header: u32, now: u64) -> *mut Held {
    let connection = Connection::new(Limits { streams, header }, now);
    Box::into_raw(Box::new(Held {
        connection,
        last: None,
        part: Bytes::new(),
        fields: HeaderMap::new(),
    }))
}

/// # Safety
/// `held` comes from [`baton_web_http2_new`], and is not used afterwards.
// SAFETY: as above.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_web_http2_free(held: *mut Held) {
    // SAFETY: the caller's condition.
    drop(unsafe { Box::from_raw(held) });
}

/// Takes bytes that have come. None: the connection has ended.
///
/// # Safety
/// The bytes are readable.
// SAFETY: as above.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_web_http2_feed(held: &mut Held, bytes: Slice, now: u64) {
    // SAFETY: the caller's condition.
    held.connection.feed(unsafe { bytes.bytes() }, now);
}

// SAFETY: as above.
#[unsafe(no_mangle)]
extern "C" fn baton_web_http2_wants_input(held: &Held) -> c_int {
    held.connection.wants_input().into()
}

/// When a head, or another frame but data, has begun that has not ended; 0: there is none.
// SAFETY: as above.
#[unsafe(no_mangle)]
extern "C" fn baton_web_http2_begun(held: &Held) -> u64 {
    held.connection.begun().unwrap_or(0)
}

/// How many streams are kept.
// SAFETY: as above.
#[unsafe(no_mangle)]
extern "C" fn baton_web_http2_count(held: &Held) -> usize {
    held.connection.count()
}

/// `struct http2_event` of `c/http2.c`.
///
/// | kind | event | method | target | host | count |
/// |---|---|---|---|---|---|
/// | 0 | nothing | | | | |
/// | 1 | a request | its method | path and query | its host | fields of its head |
/// | 2 | a stream has moved | | | | |
/// | 3 | a stream was reset | | | | |
/// | 4 | the connection is over | why | | | |
#[repr(C)]
struct RawEvent {
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
unsafe extern "C" fn baton_web_http2_next(held: &mut Held, raw: *mut RawEvent) {
    held.last = held.connection.next();
    let mut event = RawEvent {
        kind: 0,
        stream: 0,
        method: Slice::NONE,
        target: Slice::NONE,
        host: Slice::NONE,
        count: 0,
        has_body: 0,
    };
    match &held.last {
        None => {}
        Some(Event::Request(id, head)) => {
            event = RawEvent {
                kind: 1,
                stream: *id,
                method: Slice::of(head.method.as_bytes()),
                target: Slice::of(head.target.as_bytes()),
                host: Slice::of(head.host.as_bytes()),
                count: head.fields.len(),
                has_body: head.has_body.into(),
            }
        }
        Some(Event::Moved(id)) => (event.kind, event.stream) = (2, *id),
        Some(Event::Reset(id)) => (event.kind, event.stream) = (3, *id),
        Some(Event::Over(why)) => {
            (event.kind, event.method) = (4, Slice::of(why.as_bytes()));
        }
    }
    // SAFETY: the caller's condition.
    unsafe { raw.write(event) };
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
extern "C" fn baton_web_http2_field(held: &Held, number: usize) -> RawField {
    let field = match &held.last {
        Some(Event::Request(_, head)) => head.fields.get(number),
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
    held: &mut Held,
    stream: u32,
    most: usize,
    part: *mut Slice,
) -> isize {
    match held.connection.read(stream, most) {
        Ok(Part::Bytes(bytes)) => {
            held.part = bytes;
            // SAFETY: the caller's condition.
            unsafe { part.write(Slice::of(&held.part)) };
            held.part.len().cast_signed()
        }
        Ok(Part::Nothing) => NOTHING,
        Ok(Part::End) => END,
        Err(Lost) => LOST,
    }
}

/// Forgets what was read last.
// SAFETY: as above.
#[unsafe(no_mangle)]
extern "C" fn baton_web_http2_release(held: &mut Held) {
    held.part = Bytes::new();
    held.last = None;
}

/// Adds a field to the reply that [`baton_web_http2_respond`] begins. Returns 0 if there cannot be
/// such a field.
///
/// # Safety
/// The bytes are readable.
// SAFETY: as above.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_web_http2_add(held: &mut Held, name: Slice, value: Slice) -> c_int {
    // SAFETY: the caller's condition, for both.
    let (name, value) = unsafe { (name.bytes(), value.bytes()) };
    let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name), HeaderValue::from_bytes(value))
    else {
        return 0;
    };
    held.fields.try_append(name, value).is_ok().into()
}

/// Forgets the fields of a reply that does not begin.
// SAFETY: as above.
#[unsafe(no_mangle)]
extern "C" fn baton_web_http2_clear(held: &mut Held) {
    held.fields.clear();
}

/// Begins a reply. Returns how many bytes of the data were taken, or -2.
///
/// # Safety
/// The bytes are readable.
// SAFETY: as above.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_web_http2_respond(
    held: &mut Held,
    stream: u32,
    status: u16,
    data: Slice,
    is_last: c_int,
) -> isize {
    let fields = std::mem::take(&mut held.fields);
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    // SAFETY: the caller's condition.
    let data = unsafe { data.bytes() };
    number_of(
        held.connection
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
    held: &mut Held,
    stream: u32,
    data: Slice,
    is_last: c_int,
) -> isize {
    // SAFETY: the caller's condition.
    let data = unsafe { data.bytes() };
    number_of(held.connection.send(stream, data, is_last != 0))
}

/// Resets a stream. The reason is a code of RFC 9113, section 7.
// SAFETY: as above.
#[unsafe(no_mangle)]
extern "C" fn baton_web_http2_reset(held: &mut Held, stream: u32, reason: u32) {
    held.connection.reset(stream, Reason::from(reason));
}

// SAFETY: as above.
#[unsafe(no_mangle)]
extern "C" fn baton_web_http2_forget(held: &mut Held, stream: u32) {
    held.connection.forget(stream);
}

// SAFETY: as above.
#[unsafe(no_mangle)]
extern "C" fn baton_web_http2_shut_down(held: &mut Held) {
    held.connection.shut_down();
}

/// Ends the connection. The reason is as for [`baton_web_http2_reset`].
///
/// # Safety
/// The bytes are readable.
// SAFETY: as above.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_web_http2_abort(held: &mut Held, reason: u32, why: Slice) {
    // SAFETY: the caller's condition.
    let why = unsafe { why.text() };
    held.connection.abort(Reason::from(reason), &why);
}

/// How many bytes for the client are not sent.
// SAFETY: as above.
#[unsafe(no_mangle)]
extern "C" fn baton_web_http2_pending(held: &Held) -> usize {
    held.connection.pending()
}

/// The next bytes for the client. They stay where they are until all of them have been sent.
// SAFETY: as above.
#[unsafe(no_mangle)]
extern "C" fn baton_web_http2_leaving(held: &mut Held) -> Slice {
    let (at, size) = held.connection.leaving();
    Slice {
        at: at.cast(),
        size,
    }
}

/// So many of them have been sent.
// SAFETY: as above.
#[unsafe(no_mangle)]
extern "C" fn baton_web_http2_sent(held: &mut Held, size: usize) {
    held.connection.sent(size);
}
