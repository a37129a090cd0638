//! A client of the services: one request on a connection of its own.

use crate::harness::LIMIT;
use std::io::{Read, Write};
use std::net::TcpStream;

pub(crate) fn connect(port: u16) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", port)).expect("the service listens");
    stream
        .set_read_timeout(Some(LIMIT))
        .expect("a limit can be set");
    stream
}

/// The whole answer to a request.
pub(crate) fn ask(port: u16, method: &str, path: &str, body: &str) -> String {
    let mut stream = connect(port);
    let length = body.len();
    let fields = format!("Host: here\r\nConnection: close\r\nContent-Length: {length}");
    let request = format!("{method} {path} HTTP/1.1\r\n{fields}\r\n\r\n{body}");
    stream
        .write_all(request.as_bytes())
        .expect("the service reads");
    let mut answer = String::new();
    stream
        .read_to_string(&mut answer)
        .expect("the service answers");
    answer
}
