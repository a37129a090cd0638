//! Which part of a file a request wants (RFC 9110, sections 13 and 14).
//!
//! | the request has | the reply |
//! |---|---|
//! | `If-None-Match` with this ETag or `*` | 304 |
//! | no `If-None-Match`, and `If-Modified-Since` not before the file's time | 304 |
//! | one range that begins within the file | 206 with that range |
//! | one range that does not | 416 |
//! | several ranges, or one that cannot be read | 200 with all of the file |
//! | `If-Range` with another ETag, with a weak one, or with another time | 200 with all of it |

use crate::text::{elements, number, trimmed};
use std::time::{Duration, UNIX_EPOCH};

/// The fields of a request that say which part it wants. An empty one is not there.
#[derive(Clone, Copy, Debug, Default)]
pub struct Asked<'head> {
    /// `If-None-Match`.
    pub if_none_match: &'head [u8],
    /// `If-Modified-Since`.
    pub if_modified_since: &'head [u8],
    /// `Range`, of a request whose method is GET.
    pub range: &'head [u8],
    /// `If-Range`.
    pub if_range: &'head [u8],
}

/// A file, as far as it matters here.
#[derive(Clone, Copy, Debug)]
pub struct File<'etag> {
    /// The ETag, with its quotes. It is a strong one.
    pub etag: &'etag [u8],
    /// When the file has changed: seconds since 1970.
    pub modified: u64,
    /// The bytes of the file.
    pub size: u64,
}

/// The part to send.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// 200, 206, 304 or 416.
    pub status: u32,
    /// The first byte.
    pub start: u64,
    /// The number of bytes.
    pub size: u64,
}

/// What of the file a request gets.
#[must_use]
pub fn choose(asked: &Asked<'_>, file: &File<'_>) -> Chosen {
    let none = |status| Chosen {
        status,
        start: 0,
        size: 0,
    };
    if is_known(asked, file) {
        return none(304);
    }
    let whole = Chosen {
        status: 200,
        start: 0,
        size: file.size,
    };
    if asked.range.is_empty() || !is_same(asked.if_range, file) {
        return whole;
    }
    match one_range(asked.range, file.size) {
        Range::Unread => whole,
        Range::Outside => none(416),
        Range::Within { start, size } => Chosen {
            status: 206,
            start,
            size,
        },
    }
}

/// Whether the client has this file.
fn is_known(asked: &Asked<'_>, file: &File<'_>) -> bool {
    if !asked.if_none_match.is_empty() {
        let is_it = |tag: &[u8]| tag == b"*" || tag.strip_prefix(b"W/").unwrap_or(tag) == file.etag;
        return elements(asked.if_none_match).any(is_it);
    }
    seconds_of(asked.if_modified_since).is_some_and(|since| file.modified <= since)
}

/// Whether a part of this file fits what the client has.
fn is_same(if_range: &[u8], file: &File<'_>) -> bool {
    match trimmed(if_range) {
        [] => true,
        tag @ ([b'"', ..] | [b'W', b'/', ..]) => tag == file.etag,
        date => seconds_of(date) == Some(file.modified),
    }
}

fn seconds_of(date: &[u8]) -> Option<u64> {
    let date = std::str::from_utf8(trimmed(date)).ok()?;
    let time = httpdate::parse_http_date(date).ok()?;
    let since: Duration = time.duration_since(UNIX_EPOCH).ok()?;
    Some(since.as_secs())
}

enum Range {
    /// There are several ranges, or none that can be read.
    Unread,
    Outside,
    Within {
        start: u64,
        size: u64,
    },
}

fn one_range(range: &[u8], size: u64) -> Range {
    let is_in_bytes = |unit: &[u8]| unit.eq_ignore_ascii_case(b"bytes=");
    let Some(range) = range.get(6..).filter(|_| is_in_bytes(&range[..6])) else {
        return Range::Unread;
    };
    let range = trimmed(range);
    let Some(dash) = memchr::memchr(b'-', range) else {
        return Range::Unread;
    };
    let (first, last) = (trimmed(&range[..dash]), trimmed(&range[dash + 1..]));
    match (first, number(first), last, number(last)) {
        ([], _, _, Some(count)) => match count.min(size) {
            0 => Range::Outside,
            count => Range::Within {
                start: size - count,
                size: count,
            },
        },
        (_, Some(start), [], _) => from(start, size, size),
        (_, Some(start), _, Some(last)) if last >= start => from(start, last + 1, size),
        _ => Range::Unread,
    }
}

/// The bytes from `start` to the one before `end`.
fn from(start: u64, end: u64, size: u64) -> Range {
    match start < size {
        false => Range::Outside,
        true => Range::Within {
            start,
            size: end.min(size) - start,
        },
    }
}
