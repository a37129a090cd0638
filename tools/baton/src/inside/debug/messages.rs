//! Messages of the Debug Adapter Protocol: a header with the length, and JSON.
//!
//! Source: Debug Adapter Protocol, specification 1.68, "Base protocol"
//! (<https://microsoft.github.io/debug-adapter-protocol/overview>).

use serde::Deserialize;
use serde_json::{Value, json};
use std::io::{self, BufRead, Read, Write};

/// The maximal number of bytes of a message.
const LONGEST: usize = 16 << 20;

/// The maximal number of bytes of a line of the header, and the maximal number of lines.
const LONGEST_LINE: u64 = 1024;
const MOST_LINES: usize = 16;

/// A request of the client.
#[derive(Debug, Deserialize)]
pub(super) struct Request {
    pub(super) seq: i64,
    pub(super) command: String,
    #[serde(default)]
    pub(super) arguments: Value,
}

/// Reads a request; `None` at the end of the stream. Other messages are passed over.
///
/// # Errors
/// A sentence: what was expected, and what came.
pub(super) fn read_request(stream: &mut impl BufRead) -> Result<Option<Request>, String> {
    loop {
        let Some(length) = read_header(stream)? else {
            return Ok(None);
        };
        let mut body = Vec::new();
        stream
            .take(length as u64)
            .read_to_end(&mut body)
            .map_err(|error| format!("cannot read from the client: {error}"))?;
        if body.len() < length {
            return Err(format!(
                "a message of {length} bytes expected, got {} before the end",
                body.len()
            ));
        }
        let message: Value = serde_json::from_slice(&body)
            .map_err(|error| format!("a message in JSON expected: {error}"))?;
        if message.get("type").and_then(Value::as_str) != Some("request") {
            continue; // an answer to a request that we never make
        }
        return serde_json::from_value(message)
            .map(Some)
            .map_err(|error| format!("a request expected: {error}"));
    }
}

/// Reads a header; returns the length that it gives.
fn read_header(stream: &mut impl BufRead) -> Result<Option<usize>, String> {
    let mut length = None;
    for number in 0..MOST_LINES {
        let mut line = Vec::new();
        stream
            .by_ref()
            .take(LONGEST_LINE)
            .read_until(b'\n', &mut line)
            .map_err(|error| format!("cannot read from the client: {error}"))?;
        if line.is_empty() && number == 0 {
            return Ok(None);
        }
        let text = String::from_utf8_lossy(&line);
        let Some(text) = text.strip_suffix('\n') else {
            return Err(format!(
                "a line of a header expected, of at most {LONGEST_LINE} bytes: 'Content-Length: \
                 119'; got '{}'",
                start_of(&text)
            ));
        };
        let text = text.trim_end_matches('\r');
        if text.is_empty() {
            return match length {
                Some(length) => Ok(Some(length)),
                None => Err("'Content-Length' expected in a header".to_owned()),
            };
        }
        let Some((name, value)) = text.split_once(':') else {
            return Err(format!(
                "a header such as 'Content-Length: 119' expected, got '{}'",
                start_of(text)
            ));
        };
        if name.eq_ignore_ascii_case("Content-Length") {
            length = Some(read_length(value.trim())?);
        }
    }
    Err(format!("a header of at most {MOST_LINES} lines expected"))
}

fn read_length(text: &str) -> Result<usize, String> {
    match text.parse::<usize>() {
        Ok(length) if length <= LONGEST => Ok(length),
        _ => Err(format!(
            "a message of at most {LONGEST} bytes expected, got the length '{}'",
            start_of(text)
        )),
    }
}

fn start_of(text: &str) -> String {
    super::super::harmless(&text.chars().take(40).collect::<String>())
}

/// What is sent to the client.
pub(super) struct Sender<W: Write> {
    stream: W,
    /// The number of the last message.
    sent: i64,
}

impl<W: Write> Sender<W> {
    pub(super) fn new(stream: W) -> Sender<W> {
        Sender { stream, sent: 0 }
    }

    fn send(&mut self, mut message: Value) -> io::Result<()> {
        self.sent += 1;
        message["seq"] = self.sent.into();
        let text = message.to_string();
        write!(self.stream, "Content-Length: {}\r\n\r\n{text}", text.len())?;
        self.stream.flush()
    }

    pub(super) fn event(&mut self, event: &str, body: Value) -> io::Result<()> {
        self.send(json!({ "type": "event", "event": event, "body": body }))
    }

    /// Answers a request.
    pub(super) fn respond(
        &mut self,
        request: &Asked,
        result: Result<Value, String>,
    ) -> io::Result<()> {
        let mut message = json!({
            "type": "response",
            "request_seq": request.seq,
            "command": request.command,
            "success": result.is_ok(),
        });
        match result {
            Ok(Value::Null) => {}
            Ok(body) => message["body"] = body,
            Err(why) => {
                message["body"] = json!({
                    "error": { "id": 1, "format": "{why}", "variables": { "why": why },
                               "showUser": true }
                });
                message["message"] = why.into();
            }
        }
        self.send(message)
    }
}

/// A request that is to be answered.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) seq: i64,
    pub(super) command: String,
}
