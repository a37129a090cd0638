//! HTTP/1.1 (RFC 9112) as pure functions over bytes: no socket, no clock, no memory of its own, and
//! no language. C calls them (`c.rs`).
//!
//! | module | what it is |
//! |---|---|
//! | [`answer`] | the head of a reply, as a client reads it |
//! | [`head`] | the head of a request: its end, its line and its fields |
//! | [`framing`] | where the body of a request ends, and whether the connection stays |
//! | `target` | what a request is for: host, path and query |
//! | [`chunked`] | chunked bodies, piece by piece |
//! | [`encoding`] | bodies in gzip |
//! | [`files`] | files as replies: paths, types, conditions and ranges |
//! | [`reply`] | the beginning of a reply's head: its status and date |
//! | [`routes`] | which pattern of a program a path matches |
//! | [`span`] | parts of a head, and the refusal of one |
//! | [`text`] | names and values of fields, and texts of addresses |
//!
//! What the head of a request may not be is refused with a status, and the connection ends: two
//! programs that read one head in two ways are how requests are smuggled.
#![warn(missing_docs)]

pub mod answer;
mod c;
pub mod chunked;
pub mod encoding;
pub mod files;
pub mod framing;
pub mod head;
pub mod reply;
pub mod routes;
pub mod span;
mod target;
pub mod text;
