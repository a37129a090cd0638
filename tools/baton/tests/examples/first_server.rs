//! Tests the server at the start of the README.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use crate::example;
use crate::harness::LIMIT;

/// Requests a page. The connection stays open until the answer is read.
fn ask(port: u16, path: &str) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("the server listens");
    stream
        .set_read_timeout(Some(LIMIT))
        .expect("a limit can be set");
    let head = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).expect("the server reads");
    stream
}

fn answer(mut stream: TcpStream) -> String {
    let mut text = String::new();
    stream
        .read_to_string(&mut text)
        .expect("the server answers");
    let (_, body) = text.split_once("\r\n\r\n").expect("the head ends");
    body.to_owned()
}

fn wait_until_it_listens(port: u16) {
    let limit = Instant::now() + LIMIT;
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(Instant::now() < limit, "the server does not listen");
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn handlers_that_loop_or_block_delay_no_other_client() {
    let free = TcpListener::bind(("127.0.0.1", 0)).expect("a port is free");
    let port = free.local_addr().expect("it is bound").port();
    drop(free);
    let server = example("first_server.lua", &[&port.to_string()]).start();
    wait_until_it_listens(port);
    let (looping, slow) = (ask(port, "/loop"), ask(port, "/slow"));
    // A client that leaves in the middle does no harm either.
    drop(ask(port, "/loop"));
    drop(TcpStream::connect(("127.0.0.1", port)));
    for _ in 0..20 {
        assert!(answer(ask(port, "/")).starts_with("Hello from process "));
    }
    let date = answer(slow);
    assert!(date.contains(':'), "the date: {date}");
    assert_eq!(answer(looping), "Gateway Timeout");
    server.signal("KILL");
    server.finish();
}

#[test]
fn the_readme_opens_with_the_server() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |name: &str| std::fs::read_to_string(root.join(name)).expect("the file is there");
    let (_, block) = read("README.md")
        .split_once("```lua\n")
        .map(|(before, after)| (before.to_owned(), after.to_owned()))
        .expect("the README has a program");
    let (program, _) = block.split_once("```").expect("the block ends");
    assert_eq!(program, read("examples/first_server.lua"));
}
