//! The beginning of a reply's head: its status and date.

use std::cell::Cell;
use std::time::{Duration, UNIX_EPOCH};

/// The most bytes that [`begin`] writes.
pub const MOST_BEGIN: usize = 128;

/// The words for a status.
#[must_use]
pub fn reason(status: u16) -> &'static str {
    match status {
        100 => "Continue",
        101 => "Switching Protocols",
        103 => "Early Hints",
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        203 => "Non-Authoritative Information",
        204 => "No Content",
        205 => "Reset Content",
        206 => "Partial Content",
        207 => "Multi-Status",
        300 => "Multiple Choices",
        301 => "Moved Permanently",
        302 => "Found",
        303 => "See Other",
        304 => "Not Modified",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        402 => "Payment Required",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        406 => "Not Acceptable",
        408 => "Request Timeout",
        409 => "Conflict",
        410 => "Gone",
        411 => "Length Required",
        412 => "Precondition Failed",
        413 => "Content Too Large",
        414 => "URI Too Long",
        415 => "Unsupported Media Type",
        416 => "Range Not Satisfiable",
        417 => "Expectation Failed",
        418 => "I'm a teapot",
        421 => "Misdirected Request",
        422 => "Unprocessable Content",
        423 => "Locked",
        424 => "Failed Dependency",
        425 => "Too Early",
        426 => "Upgrade Required",
        428 => "Precondition Required",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        451 => "Unavailable For Legal Reasons",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        507 => "Insufficient Storage",
        511 => "Network Authentication Required",
        _ => "Status",
    }
}

/// A date as HTTP writes it: "Sun, 06 Nov 1994 08:49:37 GMT".
pub const DATE: usize = 29;

thread_local! {
    /// The last date that this thread has written, and its second.
    static LAST: Cell<(u64, [u8; DATE])> = const { Cell::new((u64::MAX, [0; DATE])) };
}

/// The date of a second since 1970. Made once for each second.
#[must_use]
pub fn date(seconds: u64) -> [u8; DATE] {
    let (of, date) = LAST.get();
    if of == seconds {
        return date;
    }
    let date = other_date(seconds);
    LAST.set((seconds, date));
    date
}

/// The same, of a second that is seldom asked for.
#[must_use]
pub fn other_date(seconds: u64) -> [u8; DATE] {
    // Four digits have room for the years up to 9999.
    let time = UNIX_EPOCH + Duration::from_secs(seconds.min(253_402_300_799));
    let mut date = [b' '; DATE];
    let text = httpdate::fmt_http_date(time);
    date.copy_from_slice(&text.as_bytes()[..DATE]);
    date
}

/// Writes the line with the status, and the date. Returns the number of bytes.
///
/// # Panics
/// `out` has fewer bytes than [`MOST_BEGIN`].
pub fn begin(out: &mut [u8], status: u16, seconds: u64) -> usize {
    let number = [
        b'0' + (status / 100 % 10) as u8,
        b'0' + (status / 10 % 10) as u8,
        b'0' + (status % 10) as u8,
    ];
    let date = date(seconds);
    let parts: [&[u8]; 7] = [
        b"HTTP/1.1 ",
        &number,
        b" ",
        reason(status).as_bytes(),
        b"\r\nDate: ",
        &date,
        b"\r\n",
    ];
    let mut written = 0;
    for part in parts {
        out[written..written + part.len()].copy_from_slice(part);
        written += part.len();
    }
    written
}
