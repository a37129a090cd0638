//! The protocol: lines of JSON on a Unix socket.
//!
//! | line | from | what it says |
//! |---|---|---|
//! | [`Hello`] | the client, first | its version, and whether it asks to change things |
//! | [`Welcome`] | the target | its version, and what is allowed; or why not |
//! | [`Ask`] | the client | a question |
//! | [`Reply`] | the target | parts of the answer, and then its end |
//!
//! A line ends with a newline and has at most [`LONGEST_ASK`] or [`LONGEST_REPLY`] bytes. What is
//! longer, is no JSON or comes too late ends the connection, and nothing else.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use std::io::{self, BufRead, ErrorKind, Read, Write};

/// The version of the protocol. Another version is refused.
pub const VERSION: u32 = 1;

/// The maximal number of bytes of a client's line.
pub const LONGEST_ASK: u64 = 64 * 1024;

/// The maximal number of bytes of a target's line.
pub const LONGEST_REPLY: u64 = 64 * 1024 * 1024;

/// What a client may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Access {
    /// Read what processes do.
    Observe,
    /// Also read values, and change things.
    All,
}

/// A client's first line.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Hello {
    /// [`VERSION`].
    pub version: u32,
    /// Asks for [`Access::All`].
    #[serde(default)]
    pub write: bool,
}

/// The target's first line.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Welcome {
    /// The client may ask.
    Hello {
        /// [`VERSION`].
        version: u32,
        /// The program that answers, such as `Baton 0.1.0`.
        program: String,
        /// What the client may do.
        access: Access,
    },
    /// It may not, for this reason.
    Refused(String),
}

/// A question.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Ask {
    /// What is asked for, such as `stacks`.
    pub ask: String,
    /// Its details, if it has some.
    #[serde(default)]
    pub with: Value,
}

/// A line of an answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reply {
    /// A part of it; more follow.
    Part(Value),
    /// Its end.
    Done(Value),
    /// There is none, for this reason.
    Error(String),
}

/// Bytes in an answer, as base64. That takes a third more than the bytes, and the program writes it
/// fast. As an array of numbers they would take three times as much.
///
/// ```
/// use baton_observe::protocol::Bytes;
/// let line = serde_json::to_string(&Bytes(vec![0, 255]))?;
/// assert_eq!(line, "\"AP8=\"");
/// assert_eq!(serde_json::from_str::<Bytes>(&line)?.0, [0, 255]);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bytes(pub Vec<u8>);

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&BASE64.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
        let text = String::deserialize(deserializer)?;
        BASE64.decode(text).map(Bytes).map_err(D::Error::custom)
    }
}

/// Writes a line.
///
/// # Errors
/// The stream's.
pub fn write_line(stream: &mut impl Write, line: &impl Serialize) -> io::Result<()> {
    let mut text = serde_json::to_vec(line)?;
    text.push(b'\n');
    stream.write_all(&text)
}

/// Reads a line of at most `longest` bytes; `None` at the end of the stream.
///
/// # Errors
/// The stream's, or `InvalidData` if the line is too long, has no end, or is not what is expected.
///
/// ```
/// use baton_observe::protocol::{Ask, read_line};
/// let mut stream = &b"{\"ask\":\"stacks\"}\n{"[..];
/// let ask: Option<Ask> = read_line(&mut stream, 100)?;
/// assert_eq!(ask.map(|ask| ask.ask).as_deref(), Some("stacks"));
/// assert!(read_line::<Ask>(&mut stream, 100).is_err());
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn read_line<T: DeserializeOwned>(
    stream: &mut impl BufRead,
    longest: u64,
) -> io::Result<Option<T>> {
    let mut line = Vec::new();
    stream.take(longest).read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Ok(None);
    }
    if line.pop() != Some(b'\n') {
        let why = format!("a line of at most {longest} bytes with a newline at its end expected");
        return Err(io::Error::new(ErrorKind::InvalidData, why));
    }
    serde_json::from_slice(&line)
        .map(Some)
        .map_err(|error| io::Error::new(ErrorKind::InvalidData, error))
}
