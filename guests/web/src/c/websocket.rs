//! Sockets of WebSocket for the half in C.

use super::{Room, Slice};
use crate::websocket::{Event, Limits, Socket, accept, key};
use std::ffi::c_int;
use tungstenite::{Bytes, Message, Utf8Bytes};

/// A socket, and what it gave last, to which a record refers.
pub(crate) struct Held {
    socket: Socket,
    last: Event,
}

/// `struct websocket_event` of `c/web.h`.
///
/// | kind | event | data | code |
/// |---|---|---|---|
/// | 0 | nothing before more has come | | |
/// | 1, 2 | a text, bytes | the message | |
/// | 3, 4 | a ping, a pong | what it carries | |
/// | 5 | the peer has closed | its reason | its code |
/// | 6 | the connection has ended without a close | | |
/// | 7 | the peer breaks the protocol or a limit | what it did | |
#[repr(C)]
struct RawEvent {
    kind: c_int,
    code: c_int,
    data: Slice,
}

/// Makes one side of a connection. The limits are in bytes.
// SAFETY: the only definition of this symbol, with the signature of `c/web.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_web_socket_new(is_server: c_int, message: usize, frame: usize) -> *mut Held {
    let socket = Socket::new(is_server != 0, Limits { message, frame });
    Box::into_raw(Box::new(Held {
        socket,
        last: Event::Nothing,
    }))
}

/// # Safety
/// `held` comes from [`baton_web_socket_new`], and is not used afterwards.
// SAFETY: as above.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_web_socket_free(held: *mut Held) {
    // SAFETY: the caller's condition.
    drop(unsafe { Box::from_raw(held) });
}

/// Takes bytes that have come from the peer. None: the connection has ended.
///
/// # Safety
/// The bytes are readable.
// SAFETY: as above.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_web_socket_feed(held: &mut Held, bytes: Slice) {
    // SAFETY: the caller's condition.
    held.socket.feed(unsafe { bytes.bytes() });
}

/// Writes what has come next. It is valid until the next call, or until the socket is freed.
///
/// # Safety
/// `raw` is writable.
// SAFETY: as above.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_web_socket_next(held: &mut Held, raw: *mut RawEvent) {
    held.last = held.socket.next();
    let (kind, code, data) = match &held.last {
        Event::Nothing => (0, 0, Slice::NONE),
        Event::Text(text) => (1, 0, Slice::of(text.as_bytes())),
        Event::Binary(bytes) => (2, 0, Slice::of(bytes)),
        Event::Ping(bytes) => (3, 0, Slice::of(bytes)),
        Event::Pong(bytes) => (4, 0, Slice::of(bytes)),
        Event::Closed(code, reason) => (5, *code, Slice::of(reason.as_bytes())),
        Event::CutOff => (6, 0, Slice::NONE),
        Event::Failed(why) => (7, 0, Slice::of(why.as_bytes())),
    };
    let code = code.into();
    // SAFETY: the caller's condition.
    unsafe { raw.write(RawEvent { kind, code, data }) };
}

/// Forgets what was given last.
// SAFETY: as above.
#[unsafe(no_mangle)]
extern "C" fn baton_web_socket_forget(held: &mut Held) {
    held.last = Event::Nothing;
}

/// Sends a message of this kind. Returns 1; 0 if this side or the peer has closed; -1 if a text is
/// not UTF-8.
///
/// # Safety
/// The bytes are readable.
// SAFETY: as above.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_web_socket_send(held: &mut Held, kind: c_int, data: Slice) -> c_int {
    // SAFETY: the caller's condition.
    let bytes = Bytes::copy_from_slice(unsafe { data.bytes() });
    let message = match kind {
        1 => match Utf8Bytes::try_from(bytes) {
            Ok(text) => Message::Text(text),
            Err(_) => return -1,
        },
        3 => Message::Ping(bytes),
        4 => Message::Pong(bytes),
        _ => Message::Binary(bytes),
    };
    held.socket.send(message).into()
}

/// Begins to close. Returns 0 if the reason is not UTF-8.
///
/// # Safety
/// The bytes are readable.
// SAFETY: as above.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_web_socket_close(held: &mut Held, code: c_int, reason: Slice) -> c_int {
    // SAFETY: the caller's condition.
    let reason = Bytes::copy_from_slice(unsafe { reason.bytes() });
    let (Ok(code), Ok(reason)) = (u16::try_from(code), Utf8Bytes::try_from(reason)) else {
        return 0;
    };
    held.socket.close(code, reason);
    1
}

/// How many bytes for the peer are not sent.
// SAFETY: as above.
#[unsafe(no_mangle)]
extern "C" fn baton_web_socket_pending(held: &Held) -> usize {
    held.socket.pending()
}

/// The next bytes for the peer. They stay where they are until all of them have been sent.
// SAFETY: as above.
#[unsafe(no_mangle)]
extern "C" fn baton_web_socket_leaving(held: &mut Held) -> Slice {
    Slice::of(held.socket.leaving())
}

/// So many of them have been sent.
// SAFETY: as above.
#[unsafe(no_mangle)]
extern "C" fn baton_web_socket_sent(held: &mut Held, size: usize) {
    held.socket.sent(size);
}

/// Writes the server's proof for a client's key.
///
/// # Safety
/// The bytes of the key are readable, the room is writable.
// SAFETY: as above.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_web_socket_accept(key: Slice, room: Room) {
    // SAFETY: the caller's condition, for both.
    unsafe { room.write(&accept(key.bytes())) };
}

/// Writes a client's key. Returns 0 if the system gives no random bytes.
///
/// # Safety
/// The room is writable.
// SAFETY: as above.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_web_socket_key(room: Room) -> c_int {
    let Some(key) = key() else {
        return 0;
    };
    // SAFETY: the caller's condition.
    unsafe { room.write(&key) };
    1
}
