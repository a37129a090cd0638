//! What a request is for: host, path and query (RFC 9112, section 3.2).

use crate::span::{Refusal, Span};
use crate::text;

/// The parts of a target.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub(crate) path: Span,
    pub(crate) query: Span,
    pub(crate) host: Span,
}

/// Divides the target of a request in `data`, and finds its host.
pub(crate) fn split(
    data: &[u8],
    method: &[u8],
    target: &[u8],
    fields: &[httparse::Header<'_>],
) -> Result<Target, Refusal> {
    if memchr::memchr(b'#', target).is_some() {
        return Err(400);
    }
    let is_host_field = |field: &&httparse::Header<'_>| field.name.eq_ignore_ascii_case("host");
    let named = fields.iter().find(is_host_field);
    let named = named.map_or(&data[..0], |field| text::trimmed(field.value));
    if !is_host(named) {
        return Err(400);
    }
    let host = Span::of(named, data);
    match target {
        [b'/', ..] => Ok(split_query(data, target, host)),
        b"*" if method == b"OPTIONS" => Ok(Target {
            path: Span::of(target, data),
            query: Span::default(),
            host,
        }),
        _ => split_absolute(data, target),
    }
}

fn split_query(data: &[u8], target: &[u8], host: Span) -> Target {
    let at = memchr::memchr(b'?', target).unwrap_or(target.len());
    Target {
        path: Span::of(&target[..at], data),
        query: Span::of(&target[(at + 1).min(target.len())..], data),
        host,
    }
}

/// `http://host/path?query`, which a request to a proxy has. Its host counts, not the field's.
fn split_absolute(data: &[u8], target: &[u8]) -> Result<Target, Refusal> {
    let has = |scheme: &str| {
        let begin = target.get(..scheme.len());
        begin.is_some_and(|begin| begin.eq_ignore_ascii_case(scheme.as_bytes()))
    };
    let start = match () {
        () if has("http://") => 7,
        () if has("https://") => 8,
        () => return Err(400),
    };
    let rest = &target[start..];
    let end = memchr::memchr2(b'/', b'?', rest).unwrap_or(rest.len());
    let host = &rest[..end];
    if host.is_empty() || !is_host(host) {
        return Err(400);
    }
    let mut found = split_query(data, &rest[end..], Span::of(host, data));
    if found.path.size == 0 {
        // The path is "/", and one is before the host.
        found.path = Span::of(&target[start - 1..start], data);
    }
    Ok(found)
}

/// Whether all bytes may be in a host with its port. It may be empty.
fn is_host(host: &[u8]) -> bool {
    let may_be = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+;=:[]%".contains(byte);
    host.iter().all(may_be)
}
