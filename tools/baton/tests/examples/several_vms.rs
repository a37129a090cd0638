//! Tests the programs that use several VMs.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;

use crate::example;
use crate::harness::LIMIT;

fn scratch(name: &str) -> PathBuf {
    let name = format!("{name}-{}", std::process::id());
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
}

#[test]
fn pictures_are_made_smaller_in_several_vms() {
    let directory = scratch("resize");
    let of = |name: &str| directory.join(name);
    let painted = example("resize.lua", &["--paint", "5"])
        .arg(&directory)
        .run();
    painted.succeeds().quietly();
    assert!(painted.stdout.contains("\n5 pictures, 0 failed; "));
    // Two pixels each way become one; a comment in the head is skipped.
    std::fs::write(
        of("tiny.pgm"),
        b"P5\n# by hand\n4 2\n255\n\0\x02\x08\x08\x02\x04\x08\x08",
    )
    .expect("a file can be written");
    let files: Vec<PathBuf> = (1..=5).map(|i| of(&format!("picture-{i}.ppm"))).collect();
    let run = files.iter().fold(
        example("resize.lua", &["-n", "2", "-s", "64", "-o"]).arg(of("small")),
        |run, file| run.arg(file),
    );
    let outcome = run.run();
    outcome.succeeds().quietly();
    assert_eq!(
        outcome.stdout.matches("640x480 to 64x48\n").count(),
        5,
        "{outcome}"
    );
    let small = std::fs::read(of("small/picture-1.ppm")).expect("the copy is there");
    assert!(small.starts_with(b"P6\n64 48\n255\n"));
    assert_eq!(small.len(), b"P6\n64 48\n255\n".len() + 3 * 64 * 48);

    let outcome = example("resize.lua", &["-s", "2", "-o"])
        .arg(of("small"))
        .arg(of("tiny.pgm"))
        .arg(of("no-such-picture"))
        .run();
    outcome.ends_with(1).quietly();
    assert!(outcome.stdout.contains("FAILED: "), "{outcome}");
    let tiny = std::fs::read(of("small/tiny.pgm")).expect("the copy is there");
    assert_eq!(tiny, b"P5\n2 1\n255\n\x02\x08");
    std::fs::remove_dir_all(directory).expect("it can be removed");
}

fn connect(port: u16, path: &str) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("the server listens");
    stream
        .set_read_timeout(Some(LIMIT))
        .expect("a limit can be set");
    write!(stream, "GET {path} HTTP/1.0\r\n\r\n").expect("the server reads");
    stream
}

fn answer(mut stream: TcpStream) -> String {
    let mut text = String::new();
    stream
        .read_to_string(&mut text)
        .expect("the server answers");
    text
}

fn ask(port: u16, path: &str) -> String {
    answer(connect(port, path))
}

#[test]
fn a_web_server_on_several_vms_restarts_without_a_lost_request() {
    let free = TcpListener::bind(("127.0.0.1", 0)).expect("a port is free");
    let port = free.local_addr().expect("it is bound").port();
    drop(free);
    let mut server = example("web.lua", &[&port.to_string(), "2"]).start();
    server.await_stdout(&format!("port {port}\n"));
    let first = ask(port, "/primes/1000");
    assert!(first.starts_with("HTTP/1.1 200 OK\r\n"), "{first}");
    assert!(first.contains("\r\nX-Cache: miss\r\n"), "{first}");
    assert!(
        first.ends_with("\r\n\r\n168 primes up to 1000\n"),
        "{first}"
    );
    // The system chooses the VM, so sooner or later both have answered.
    let mut seen = std::collections::HashSet::new();
    while seen.len() < 2 {
        assert!(ask(port, "/primes/1000").contains("X-Cache: hit"));
        seen.insert(ask(port, "/"));
    }
    let slow: Vec<TcpStream> = (0..4).map(|_| connect(port, "/slow?0.5")).collect();
    server.signal("HUP");
    // Requests at any time of the restart are answered, by old and new VMs.
    while !ask(port, "/").contains("Hello from server 2.") {}
    for stream in slow {
        assert!(answer(stream).contains("Hello from server "));
    }
    server.await_stdout("restarted\n");
    assert!(ask(port, "/").contains("Hello from server 2."));
    assert!(ask(port, "/primes/1000").contains("X-Cache: hit"));
    let last = connect(port, "/slow?0.2");
    server.signal("TERM");
    assert!(answer(last).contains("Hello from server 2."));
    server.await_stdout("all requests answered\n");
    server.finish().succeeds().quietly();
}
