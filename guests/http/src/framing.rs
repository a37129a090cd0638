//! Where the body of a request ends, by RFC 9112, section 6, and whether the connection stays.
//!
//! | what came | what happens |
//! |---|---|
//! | both lengths | 400 |
//! | `Content-Length` twice, also with the same number; a list; anything but digits | 400 |
//! | `Transfer-Encoding` in HTTP/1.0 | 400 |
//! | codings whose last one is not `chunked`, or that have it twice | 400 |
//! | other codings before `chunked` | 501 |
//! | no `Host` in HTTP/1.1, or two of them in any version | 400 |
//! | an expectation other than `100-continue` | 417 |

use crate::span::Refusal;
use crate::text::{self, elements};

/// How the body of a request ends, and whether the connection stays.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Framing {
    /// The bytes of the body, if it is not chunked.
    pub length: u64,
    /// It comes in chunks.
    pub is_chunked: bool,
    /// The client waits for "100 Continue" before it sends the body.
    pub expects: bool,
    /// The connection stays after the reply.
    pub keeps_alive: bool,
    /// The version is 1.1, and not 1.0.
    pub is_1_1: bool,
}

/// What was found of a head's fields.
#[derive(Default)]
struct Found<'head> {
    length: Option<&'head [u8]>,
    codings: Option<&'head [u8]>,
    expectation: Option<&'head [u8]>,
    hosts: usize,
    closes: bool,
    keeps: bool,
}

/// The framing of a request with these fields. `version` is 0 or 1.
pub(crate) fn of(fields: &[httparse::Header<'_>], version: u8) -> Result<Framing, Refusal> {
    let is_1_1 = version == 1;
    let found = find(fields)?;
    if found.hosts > 1 || is_1_1 && found.hosts == 0 {
        return Err(400);
    }
    let mut framing = Framing {
        is_1_1,
        keeps_alive: !found.closes && (is_1_1 || found.keeps),
        ..Framing::default()
    };
    match (found.length, found.codings) {
        (Some(_), Some(_)) => return Err(400),
        (Some(digits), None) => framing.length = text::number(digits).ok_or(400_u16)?,
        (None, Some(_)) if !is_1_1 => return Err(400),
        (None, Some(codings)) => {
            check_codings(codings)?;
            framing.is_chunked = true;
        }
        (None, None) => {}
    }
    match found.expectation {
        // HTTP/1.0 has no expectations.
        Some(value) if is_1_1 && !value.eq_ignore_ascii_case(b"100-continue") => return Err(417),
        Some(_) => framing.expects = is_1_1 && (framing.is_chunked || framing.length > 0),
        None => {}
    }
    Ok(framing)
}

fn find<'head>(fields: &[httparse::Header<'head>]) -> Result<Found<'head>, Refusal> {
    let mut found = Found::default();
    for field in fields {
        let value = text::trimmed(field.value);
        let once = match field.name.len() {
            14 if field.name.eq_ignore_ascii_case("content-length") => &mut found.length,
            17 if field.name.eq_ignore_ascii_case("transfer-encoding") => &mut found.codings,
            6 if field.name.eq_ignore_ascii_case("expect") => &mut found.expectation,
            4 if field.name.eq_ignore_ascii_case("host") => {
                found.hosts += 1;
                continue;
            }
            10 if field.name.eq_ignore_ascii_case("connection") => {
                let has = |option: &[u8]| elements(value).any(|it| it.eq_ignore_ascii_case(option));
                found.closes |= has(b"close");
                found.keeps |= has(b"keep-alive");
                continue;
            }
            _ => continue,
        };
        if once.replace(value).is_some() {
            return Err(400);
        }
    }
    Ok(found)
}

fn check_codings(codings: &[u8]) -> Result<(), Refusal> {
    if codings.eq_ignore_ascii_case(b"chunked") {
        return Ok(());
    }
    let is_chunked = |coding: &[u8]| coding.eq_ignore_ascii_case(b"chunked");
    let times = elements(codings)
        .filter(|coding| is_chunked(coding))
        .count();
    match elements(codings).last() {
        Some(last) if is_chunked(last) && times == 1 => Err(501),
        _ => Err(400),
    }
}
