//! Tests libcurl through the ffi, against a small HTTP server in this program.

mod harness;

use std::io::{BufRead, BufReader, Result, Write};
use std::net::{TcpListener, TcpStream};

use harness::{baton, missing};

/// Bytes per piece. Each piece is sent as a packet of its own.
const PIECE: usize = 8192;

/// Serves pages of `/LENGTH` bytes until the test ends. Returns its address.
fn start_server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
    let address = listener.local_addr().expect("it has an address");
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // Some tests close the connection in the middle.
            std::thread::spawn(move || serve(&stream));
        }
    });
    format!("http://{address}")
}

fn serve(mut stream: &TcpStream) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut lines = BufReader::new(stream).lines();
    let request = lines.next().transpose()?.unwrap_or_default();
    while lines
        .next()
        .transpose()?
        .is_some_and(|line| !line.is_empty())
    {}
    let length: Option<usize> = request
        .split([' ', '/'])
        .nth(2)
        .and_then(|word| word.parse().ok());
    let Some(length) = length else {
        return stream.write_all(
            b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        );
    };
    write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    )?;
    let page: Vec<u8> = (0..length).map(|at| b'0' + (at % 10) as u8).collect();
    page.chunks(PIECE)
        .try_for_each(|piece| stream.write_all(piece))
}

fn passes(case: &str) {
    let outcome = baton()
        .script("ffi/http.lua")
        .arg(case)
        .env("SERVER", start_server())
        .run();
    if missing::is_for_want_of_a_package(&outcome, &format!("ffi/http.lua, {case}")) {
        return;
    }
    outcome.succeeds().quietly();
    assert!(
        outcome.stdout.ends_with(&format!("passed {case}\n")),
        "{outcome}"
    );
}

#[test]
fn processes_fetch_concurrently_and_receive_pieces_in_callbacks() {
    passes("processes_fetch_concurrently_and_receive_pieces_in_callbacks");
}

#[test]
fn missing_pages_and_servers_are_reported() {
    passes("missing_pages_and_servers_are_reported");
}

#[test]
fn an_error_and_a_kill_in_a_callback_end_the_transfer_first() {
    passes("an_error_and_a_kill_in_a_callback_end_the_transfer_first");
}
