//! The head of a reply, as a client reads it, and where the reply's body ends (RFC 9112, section
//! 6.3).
//!
//! | what came | what happens |
//! |---|---|
//! | both lengths; lengths that differ; anything but digits | refused |
//! | `Transfer-Encoding` in HTTP/1.0, or other than `chunked` | refused |
//! | no length | the body ends with the connection |
//! | a reply to HEAD; 204, 304, or a status below 200 | there is no body |

use crate::head::{Field, MOST_FIELDS, Missing, end_of_head};
use crate::span::{Refusal, Span};
use crate::text::{self, elements};

/// A reply's head.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Answer {
    /// The bytes of the head, with the empty line at its end.
    pub size: u32,
    /// The number of fields.
    pub count: u32,
    /// 200, for instance.
    pub status: u32,
    /// The bytes of the body, if it has a length.
    pub length: u64,
    /// The body comes in chunks.
    pub is_chunked: bool,
    /// The body ends with the connection.
    pub is_until_end: bool,
    /// The connection stays after the body.
    pub keeps_alive: bool,
    /// The version is 1.1, and not 1.0.
    pub is_1_1: bool,
    /// The fields.
    pub fields: [Field; MOST_FIELDS],
}

impl Default for Answer {
    fn default() -> Answer {
        Answer {
            size: 0,
            count: 0,
            status: 0,
            length: 0,
            is_chunked: false,
            is_until_end: false,
            keeps_alive: false,
            is_1_1: false,
            fields: [Field::default(); MOST_FIELDS],
        }
    }
}

/// Parses the head at the beginning of `data`. `is_to_head`: the request was HEAD. For `seen` and
/// `limit` see [`end_of_head`].
///
/// # Errors
/// More bytes are needed; or the head is too large, with 431, or wrong, with 400.
pub fn parse(
    data: &[u8],
    seen: &mut usize,
    limit: usize,
    is_to_head: bool,
    answer: &mut Answer,
) -> Result<(), Missing> {
    let size = end_of_head(data, seen, limit)?;
    parse_whole(&data[..size], is_to_head, answer).map_err(Missing::Refused)
}

fn parse_whole(data: &[u8], is_to_head: bool, answer: &mut Answer) -> Result<(), Refusal> {
    let mut fields = [httparse::EMPTY_HEADER; MOST_FIELDS];
    let mut reply = httparse::Response::new(&mut fields);
    match reply.parse(data) {
        Ok(httparse::Status::Complete(size)) if size == data.len() => {}
        Err(httparse::Error::TooManyHeaders) => return Err(431),
        Ok(_) | Err(_) => return Err(400),
    }
    let (Some(version), Some(status @ 100..)) = (reply.version, reply.code) else {
        return Err(400);
    };
    answer.size = data.len() as u32;
    answer.count = reply.headers.len() as u32;
    answer.status = u32::from(status);
    answer.is_1_1 = version == 1;
    for (field, header) in answer.fields.iter_mut().zip(&*reply.headers) {
        field.name = Span::of(header.name.as_bytes(), data);
        field.value = Span::of(text::trimmed(header.value), data);
    }
    let has_no_body = is_to_head || status < 200 || matches!(status, 204 | 304);
    frame(reply.headers, has_no_body, answer)
}

/// Finds where the body ends, and whether the connection stays.
fn frame(
    fields: &[httparse::Header<'_>],
    has_no_body: bool,
    answer: &mut Answer,
) -> Result<(), Refusal> {
    let (mut length, mut is_chunked, mut closes, mut keeps) = (None, false, false, false);
    for field in fields {
        let value = text::trimmed(field.value);
        let is = |name: &str| field.name.eq_ignore_ascii_case(name);
        if is("content-length") {
            let number = text::number(value).ok_or(400_u16)?;
            if length.replace(number).is_some_and(|other| other != number) {
                return Err(400);
            }
        } else if is("transfer-encoding") {
            if is_chunked || !answer.is_1_1 || !value.eq_ignore_ascii_case(b"chunked") {
                return Err(400);
            }
            is_chunked = true;
        } else if is("connection") {
            let has = |option: &[u8]| elements(value).any(|it| it.eq_ignore_ascii_case(option));
            closes |= has(b"close");
            keeps |= has(b"keep-alive");
        }
    }
    if is_chunked && length.is_some() {
        return Err(400);
    }
    answer.is_chunked = is_chunked && !has_no_body;
    answer.length = if has_no_body { 0 } else { length.unwrap_or(0) };
    answer.is_until_end = !has_no_body && !is_chunked && length.is_none();
    answer.keeps_alive = !closes && !answer.is_until_end && (answer.is_1_1 || keeps);
    Ok(())
}
