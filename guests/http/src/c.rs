//! What C calls. The declarations are in `guests/lua/c/http/protocol.h`.

use crate::answer::{self, Answer};
use crate::chunked::{Decoder, Piece};
use crate::encoding::{self, Packer, Step};
use crate::files::conditions::{self, Asked, Chosen, File};
use crate::files::{kinds, paths};
use crate::head::{self, Head, Missing};
use crate::routes::{Route, Routes};
use crate::{reply, text};
use std::slice;

/// The bytes at `data`; none, if there are none.
///
/// # Safety
/// `data` has `size` bytes, or `size` is 0.
unsafe fn bytes<'caller>(data: *const u8, size: usize) -> &'caller [u8] {
    match size {
        0 => &[],
        // SAFETY: the caller's condition.
        _ => unsafe { slice::from_raw_parts(data, size) },
    }
}

/// See [`head::parse`]. 0: the head is there. 1: more bytes are needed. Else a status.
///
/// # Safety
/// `data` has `size` bytes; `seen` and `head` are the caller's, and set.
// SAFETY: the only definition of this symbol, with the signature of protocol.h.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_http_parse(
    data: *const u8,
    size: usize,
    seen: &mut usize,
    limit: usize,
    head: &mut Head,
) -> u32 {
    // SAFETY: the caller's condition.
    match head::parse(unsafe { bytes(data, size) }, seen, limit, head) {
        Ok(()) => 0,
        Err(Missing::Partial) => 1,
        Err(Missing::Refused(status)) => u32::from(status),
    }
}

/// See [`answer::parse`]. Returns what [`baton_http_parse`] does.
///
/// # Safety
/// `data` has `size` bytes; `seen` and `answer` are the caller's, and set.
// SAFETY: the only definition of this symbol, with the signature of protocol.h.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_http_parse_answer(
    data: *const u8,
    size: usize,
    seen: &mut usize,
    limit: usize,
    is_to_head: bool,
    answer: &mut Answer,
) -> u32 {
    // SAFETY: the caller's condition.
    let data = unsafe { bytes(data, size) };
    match answer::parse(data, seen, limit, is_to_head, answer) {
        Ok(()) => 0,
        Err(Missing::Partial) => 1,
        Err(Missing::Refused(status)) => u32::from(status),
    }
}

/// What [`Decoder::next`] has found.
#[repr(C)]
struct FoundPiece {
    skip: usize,
    size: usize,
    /// 0: data or more is needed. 1: the end. 2: bad.
    what: u32,
}

/// See [`Decoder::next`].
///
/// # Safety
/// `data` has `size` bytes.
// SAFETY: the only definition of this symbol, with the signature of protocol.h.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_http_next_piece(
    decoder: &mut Decoder,
    data: *const u8,
    size: usize,
) -> FoundPiece {
    // SAFETY: the caller's condition.
    let (skip, size, what) = match decoder.next(unsafe { bytes(data, size) }) {
        Piece::Data { skip, size } => (skip, size, 0),
        Piece::Partial { skip } => (skip, 0, 0),
        Piece::End { skip } => (skip, 0, 1),
        Piece::Bad => (0, 0, 2),
    };
    FoundPiece { skip, size, what }
}

/// See [`reply::begin`].
///
/// # Safety
/// `out` has [`reply::MOST_BEGIN`] bytes, which are the caller's.
// SAFETY: the only definition of this symbol, with the signature of protocol.h.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_http_begin_reply(out: *mut u8, status: u32, seconds: u64) -> usize {
    // SAFETY: the caller's condition.
    let out = unsafe { slice::from_raw_parts_mut(out, reply::MOST_BEGIN) };
    reply::begin(out, status as u16, seconds)
}

/// The words for a status, without a zero byte at their end.
#[unsafe(no_mangle)]
extern "C" fn baton_http_reason(status: u32, size: &mut usize) -> *const u8 {
    let reason = reply::reason(status as u16);
    *size = reason.len();
    reason.as_ptr()
}

/// See [`text::is_token`].
///
/// # Safety
/// `name` has `size` bytes.
// SAFETY: the only definition of this symbol, with the signature of protocol.h.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_http_is_token(name: *const u8, size: usize) -> bool {
    // SAFETY: the caller's condition.
    text::is_token(unsafe { bytes(name, size) })
}

/// See [`text::is_value`].
///
/// # Safety
/// `value` has `size` bytes.
// SAFETY: the only definition of this symbol, with the signature of protocol.h.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_http_is_value(value: *const u8, size: usize) -> bool {
    // SAFETY: the caller's condition.
    text::is_value(unsafe { bytes(value, size) })
}

/// See [`text::decode`].
///
/// # Safety
/// `data` has `size` bytes, and so has `out`, which is the caller's.
// SAFETY: the only definition of this symbol, with the signature of protocol.h.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_http_decode(
    data: *const u8,
    size: usize,
    is_form: bool,
    out: *mut u8,
) -> usize {
    if size == 0 {
        return 0;
    }
    // SAFETY: the caller's condition.
    let (data, out) = unsafe { (bytes(data, size), slice::from_raw_parts_mut(out, size)) };
    text::decode(data, is_form, out)
}

/// New [`Routes`], which [`baton_http_free_routes`] frees.
#[unsafe(no_mangle)]
extern "C" fn baton_http_new_routes() -> *mut Routes {
    Box::into_raw(Box::default())
}

/// Frees routes.
///
/// # Safety
/// `routes` is of [`baton_http_new_routes`], and is not used again.
// SAFETY: the only definition of this symbol, with the signature of protocol.h.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_http_free_routes(routes: *mut Routes) {
    // SAFETY: the caller's condition.
    drop(unsafe { Box::from_raw(routes) });
}

/// See [`Routes::add`]. Returns how many bytes of `fault` say what is wrong; 0: nothing.
///
/// # Safety
/// `pattern` has `size` bytes; `fault` has `room` bytes, which are the caller's.
// SAFETY: the only definition of this symbol, with the signature of protocol.h.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_http_add_route(
    routes: &mut Routes,
    pattern: *const u8,
    size: usize,
    number: u32,
    fault: *mut u8,
    room: usize,
) -> usize {
    // SAFETY: the caller's condition.
    let Err(why) = routes.add(unsafe { bytes(pattern, size) }, number) else {
        return 0;
    };
    // SAFETY: the caller's condition.
    let fault = unsafe { slice::from_raw_parts_mut(fault, room) };
    let written = why.len().min(room);
    fault[..written].copy_from_slice(&why.as_bytes()[..written]);
    written
}

/// See [`Routes::find`].
///
/// # Safety
/// `path` has `size` bytes.
// SAFETY: the only definition of this symbol, with the signature of protocol.h.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_http_find_route(
    routes: &Routes,
    path: *const u8,
    size: usize,
    found: &mut Route,
) -> bool {
    // SAFETY: the caller's condition.
    match routes.find(unsafe { bytes(path, size) }) {
        Some(route) => {
            *found = route;
            true
        }
        None => false,
    }
}

/// See [`paths::below`].
///
/// # Safety
/// `path` has `size` bytes; `out` has [`paths::MOST_PATH`] bytes, which are the caller's.
// SAFETY: the only definition of this symbol, with the signature of protocol.h.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_http_path_below(
    path: *const u8,
    size: usize,
    is_encoded: bool,
    has_hidden: bool,
    out: *mut u8,
    named: &mut NamedPath,
) -> bool {
    // SAFETY: the caller's condition.
    let path = unsafe { bytes(path, size) };
    // SAFETY: the caller's condition.
    let out = unsafe { slice::from_raw_parts_mut(out, paths::MOST_PATH) };
    let Some(found) = paths::below(path, is_encoded, has_hidden, out) else {
        return false;
    };
    *named = NamedPath {
        size: found.size,
        is_directory: found.is_directory,
    };
    true
}

/// What [`paths::below`] has found.
#[repr(C)]
struct NamedPath {
    size: usize,
    is_directory: bool,
}

/// See [`kinds::of`]. There is no zero byte at its end.
///
/// # Safety
/// `path` has `size` bytes.
// SAFETY: the only definition of this symbol, with the signature of protocol.h.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_http_kind_of(
    path: *const u8,
    size: usize,
    length: &mut usize,
) -> *const u8 {
    // SAFETY: the caller's condition.
    let kind = kinds::of(unsafe { bytes(path, size) });
    *length = kind.len();
    kind.as_ptr()
}

/// Bytes of the caller's.
#[repr(C)]
struct Bytes {
    data: *const u8,
    size: usize,
}

/// See [`conditions::choose`]. `asked`: If-None-Match, If-Modified-Since, Range, If-Range.
///
/// # Safety
/// All bytes are the caller's.
// SAFETY: the only definition of this symbol, with the signature of protocol.h.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_http_choose(
    asked: &[Bytes; 4],
    etag: &Bytes,
    modified: u64,
    size: u64,
) -> Chosen {
    // SAFETY: the caller's condition.
    let read = |it: &Bytes| unsafe { bytes(it.data, it.size) };
    let [none_match, modified_since, range, if_range] = asked.each_ref().map(read);
    conditions::choose(
        &Asked {
            if_none_match: none_match,
            if_modified_since: modified_since,
            range,
            if_range,
        },
        &File {
            etag: read(etag),
            modified,
            size,
        },
    )
}

/// Writes a second since 1970 as HTTP does.
#[unsafe(no_mangle)]
extern "C" fn baton_http_write_date(seconds: u64, out: &mut [u8; reply::DATE]) {
    *out = reply::other_date(seconds);
}

/// See [`encoding::takes_gzip`].
///
/// # Safety
/// `accepted` has `size` bytes.
// SAFETY: the only definition of this symbol, with the signature of protocol.h.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_http_takes_gzip(accepted: *const u8, size: usize) -> bool {
    // SAFETY: the caller's condition.
    encoding::takes_gzip(unsafe { bytes(accepted, size) })
}

/// See [`encoding::is_text`].
///
/// # Safety
/// `kind` has `size` bytes.
// SAFETY: the only definition of this symbol, with the signature of protocol.h.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_http_is_text(kind: *const u8, size: usize) -> bool {
    // SAFETY: the caller's condition.
    encoding::is_text(unsafe { bytes(kind, size) })
}

/// A new [`Packer`], which [`baton_http_free_packer`] frees.
#[unsafe(no_mangle)]
extern "C" fn baton_http_new_packer() -> *mut Packer {
    Box::into_raw(Box::default())
}

/// Frees a packer.
///
/// # Safety
/// `packer` is of [`baton_http_new_packer`], and is not used again.
// SAFETY: the only definition of this symbol, with the signature of protocol.h.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_http_free_packer(packer: *mut Packer) {
    // SAFETY: the caller's condition.
    drop(unsafe { Box::from_raw(packer) });
}

/// See [`Packer::pack`]. `step`: 0 goes on, 1 flushes, else ends. The result is the packer's, until
/// its next use.
///
/// # Safety
/// `data` has `size` bytes.
// SAFETY: the only definition of this symbol, with the signature of protocol.h.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_http_pack(
    packer: &mut Packer,
    data: *const u8,
    size: usize,
    step: u32,
    packed_size: &mut usize,
) -> *const u8 {
    let step = match step {
        0 => Step::Goes,
        1 => Step::Flushes,
        _ => Step::Ends,
    };
    // SAFETY: the caller's condition.
    let packed = packer.pack(unsafe { bytes(data, size) }, step);
    *packed_size = packed.len();
    packed.as_ptr()
}
