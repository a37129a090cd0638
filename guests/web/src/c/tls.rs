//! Contexts and sessions of TLS for the half in C.

use super::{Room, Slice};
use crate::tls::certificates::Given;
use crate::tls::context::{Context, Options, Verify};
use crate::tls::pem::Pem;
use crate::tls::session::{Found, Session};
use std::ffi::{c_int, c_void};
use std::io::{self, IoSlice, Write};

/// Results of the functions that return a number of bytes.
const NOTHING: isize = 0;
const END: isize = -1;
const CUT_OFF: isize = -2;
const FAILED: isize = -3;

/// A context, while options are added and afterwards.
pub(crate) struct Made {
    options: Options,
    context: Option<Context>,
}

/// Makes a context without options.
// SAFETY: the only definition of this symbol, with the signature of `c/web.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_web_context_new() -> *mut Made {
    let options = Options::default();
    Box::into_raw(Box::new(Made {
        options,
        context: None,
    }))
}

/// # Safety
/// `made` comes from [`baton_web_context_new`], and is not used afterwards.
// SAFETY: as above.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_web_context_free(made: *mut Made) {
    // SAFETY: the caller's condition.
    drop(unsafe { Box::from_raw(made) });
}

/// Adds a certificate and its key.
///
/// # Safety
/// The bytes are readable.
// SAFETY: as above.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_web_context_certificate(made: &mut Made, cert: Slice, key: Slice) {
    // SAFETY: the caller's condition, for both.
    let (certificate, key) = unsafe { (Pem::of(cert.text()), Pem::of(key.text())) };
    made.options.certificates.push(Given { certificate, key });
}

/// Names the authorities in place of the system's.
///
/// # Safety
/// The bytes are readable.
// SAFETY: as above.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_web_context_authorities(made: &mut Made, given: Slice) {
    // SAFETY: the caller's condition.
    made.options.authorities = Some(Pem::of(unsafe { given.text() }));
}

/// Says whether the peer's certificate is checked: 0 never, 1 if there is one, 2 always.
// SAFETY: as above.
#[unsafe(no_mangle)]
extern "C" fn baton_web_context_verify(made: &mut Made, verify: c_int) {
    made.options.verify = match verify {
        0 => Verify::Never,
        1 => Verify::Optional,
        _ => Verify::Required,
    };
}

/// Adds a protocol of ALPN.
///
/// # Safety
/// The bytes are readable.
// SAFETY: as above.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_web_context_protocol(made: &mut Made, name: Slice) {
    // SAFETY: the caller's condition.
    made.options
        .protocols
        .push(unsafe { name.bytes() }.to_vec());
}

/// No option is added any more.
// SAFETY: as above.
#[unsafe(no_mangle)]
extern "C" fn baton_web_context_finish(made: &mut Made) {
    made.context = Some(Context::new(std::mem::take(&mut made.options)));
}

/// Reads all files again. Returns 0 and writes why that failed.
///
/// # Safety
/// The message is writable.
// SAFETY: as above.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_web_context_reload(made: &Made, message: Room) -> c_int {
    let Some(Err(why)) = made.context.as_ref().map(Context::reload) else {
        return 1;
    };
    // SAFETY: the caller's condition.
    unsafe { message.write(&why) };
    0
}

/// Reads what one side needs, unless that was done. Returns 0 and writes why that failed.
///
/// # Safety
/// The message is writable.
// SAFETY: as above.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_web_context_prepare(
    made: &Made,
    is_server: c_int,
    message: Room,
) -> c_int {
    let done = match &made.context {
        None => Ok(()),
        Some(context) if is_server != 0 => context.server().map(drop),
        Some(context) => context.client().map(drop),
    };
    let Err(why) = done else {
        return 1;
    };
    // SAFETY: the caller's condition.
    unsafe { message.write(&why) };
    0
}

/// Begins a session. Returns null and writes why that failed.
///
/// # Safety
/// The bytes of the name are readable, the message is writable.
// SAFETY: as above.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_web_session_new(
    made: &Made,
    is_server: c_int,
    name: Slice,
    message: Room,
) -> *mut Session {
    let session = match &made.context {
        None => Err("the context is not finished".to_owned()),
        Some(context) if is_server != 0 => Session::accept(context),
        // SAFETY: the caller's condition.
        Some(context) => Session::connect(context, &unsafe { name.text() }),
    };
    match session {
        Ok(session) => Box::into_raw(Box::new(session)),
        Err(why) => {
            // SAFETY: the caller's condition.
            unsafe { message.write(&why) };
            std::ptr::null_mut()
        }
    }
}

/// # Safety
/// `session` comes from [`baton_web_session_new`], and is not used afterwards.
// SAFETY: as above.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_web_session_free(session: *mut Session) {
    // SAFETY: the caller's condition.
    drop(unsafe { Box::from_raw(session) });
}

/// Takes bytes that have come from the peer. Returns 0 after a failure.
///
/// # Safety
/// The bytes are readable.
// SAFETY: as above.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_web_session_feed(session: &mut Session, bytes: Slice) -> c_int {
    // SAFETY: the caller's condition.
    session.feed(unsafe { bytes.bytes() }).is_ok().into()
}

/// Reads decrypted bytes. Returns their number, or one of the results above.
///
/// # Safety
/// `room` is writable for `size` bytes.
// SAFETY: as above.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_web_session_read(
    session: &mut Session,
    room: *mut u8,
    size: usize,
) -> isize {
    // SAFETY: the caller's condition. The bytes are written before they are read.
    let room = unsafe { std::slice::from_raw_parts_mut(room, size) };
    match session.read(room) {
        Ok(Found::Bytes(size)) => size.cast_signed(),
        Ok(Found::Nothing) => NOTHING,
        Ok(Found::End) => END,
        Ok(Found::CutOff) => CUT_OFF,
        Err(_) => FAILED,
    }
}

/// Encrypts bytes of the parts, each a `struct iovec`. Returns the number of those for which there
/// was room, or -3 after a failure.
///
/// # Safety
/// The parts, and the bytes of each, are readable.
// SAFETY: as above.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_web_session_write(
    session: &mut Session,
    parts: *const IoSlice<'_>,
    count: c_int,
) -> isize {
    let count = usize::try_from(count).unwrap_or(0);
    // SAFETY: the caller's condition; an `IoSlice` is a `struct iovec`.
    let taken = session.write(unsafe { std::slice::from_raw_parts(parts, count) });
    taken.map_or(FAILED, usize::cast_signed)
}

/// Tells the peer that no more comes.
// SAFETY: as above.
#[unsafe(no_mangle)]
extern "C" fn baton_web_session_finish(session: &mut Session) {
    session.finish();
}

// SAFETY: as above.
#[unsafe(no_mangle)]
extern "C" fn baton_web_session_has_output(session: &Session) -> c_int {
    session.has_output().into()
}

// SAFETY: as above.
#[unsafe(no_mangle)]
extern "C" fn baton_web_session_is_handshaking(session: &Session) -> c_int {
    session.is_handshaking().into()
}

/// What sends: returns how many bytes it took, or a negative number if it takes none now. The parts
/// are `struct iovec`. It must not raise an error of Lua.
type Send = unsafe extern "C" fn(*mut c_void, *const IoSlice<'_>, c_int) -> isize;

struct Sender {
    send: Send,
    argument: *mut c_void,
}

impl Write for Sender {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let count = c_int::try_from(parts.len()).unwrap_or(c_int::MAX);
        // SAFETY: the function and its argument belong together; an `IoSlice` is a `struct iovec`.
        let taken = unsafe { (self.send)(self.argument, parts.as_ptr(), count) };
        usize::try_from(taken).map_err(|_| io::ErrorKind::WouldBlock.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Gives encrypted bytes to `send`. Returns whether it took all.
///
/// # Safety
/// `send` may be called with `argument`.
// SAFETY: as above.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_web_session_flush(
    session: &mut Session,
    send: Send,
    argument: *mut c_void,
) -> c_int {
    session.flush(&mut Sender { send, argument }).is_ok().into()
}

/// Writes what failed first, or nothing.
///
/// # Safety
/// The message is writable.
// SAFETY: as above.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_web_session_failure(session: &Session, message: Room) {
    // SAFETY: the caller's condition.
    unsafe { message.write(session.failure()) };
}

/// `struct tls_facts` of `c/web.h`.
#[repr(C)]
struct RawFacts {
    version: Slice,
    cipher: Slice,
    protocol: Slice,
    name: Slice,
    certificate: Slice,
    is_resumed: c_int,
}

/// Writes what is known of a session. It is valid as long as the session is, until the next call.
///
/// # Safety
/// `raw` is writable.
// SAFETY: as above.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_web_session_facts(session: &mut Session, raw: *mut RawFacts) {
    let facts = session.facts();
    let optional = |bytes: Option<&[u8]>| bytes.map_or(Slice::NONE, Slice::of);
    let record = RawFacts {
        version: Slice::of(facts.version.as_bytes()),
        cipher: Slice::of(facts.cipher.as_bytes()),
        protocol: optional(facts.protocol.as_deref()),
        name: optional(facts.name.as_deref().map(str::as_bytes)),
        certificate: optional(facts.certificate.as_deref()),
        is_resumed: facts.is_resumed.into(),
    };
    // SAFETY: the caller's condition.
    unsafe { raw.write(record) };
}
