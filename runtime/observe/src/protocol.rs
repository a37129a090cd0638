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

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
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
