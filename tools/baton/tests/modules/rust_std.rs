//! Waits by Rust's standard library, as a module in Rust makes them: sockets of all kinds, limits of time, sleeps, threads.
//!
//! Compiled into the module of `rust_std.c`, by the edition of 2021: the names that C calls are exported plainly there.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// So long that nobody is answered before he waits.
const PAUSE: Duration = Duration::from_millis(5);

/// Waits in every way on the calling thread, for threads that answer. How much of it went wrong, which is said on stderr.
#[no_mangle]
pub extern "C" fn rust_std_waits() -> u32 {
    failures_of(waits())
}

/// The same on so many threads at once.
#[no_mangle]
pub extern "C" fn rust_std_waits_in_threads(count: u32) -> u32 {
    let threads: Vec<_> = (0..count).map(|_| thread::spawn(waits)).collect();
    threads.into_iter().map(|thread| failures_of(join(thread))).sum()
}

fn failures_of(result: io::Result<()>) -> u32 {
    if let Err(why) = &result {
        eprintln!("rust_std: {why}");
    }
    u32::from(result.is_err())
}

fn join(thread: JoinHandle<io::Result<()>>) -> io::Result<()> {
    thread.join().expect("a thread returns its failures")
}

fn waits() -> io::Result<()> {
    sleep()?;
    patience()?;
    datagram()?;
    let (ours, theirs) = UnixStream::pair()?;
    conversation(ours, move || Ok(theirs))?;
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    let client = TcpStream::connect(listener.local_addr()?)?;
    conversation(client, move || Ok(listener.accept()?.0))
}

fn sleep() -> io::Result<()> {
    let before = Instant::now();
    thread::sleep(PAUSE);
    expect(before.elapsed() >= PAUSE, "a sleep that lasts")
}

fn patience() -> io::Result<()> {
    let (mut ours, _theirs) = UnixStream::pair()?;
    ours.set_read_timeout(Some(PAUSE))?;
    let read = ours.read(&mut [0]);
    expect(
        read.is_err_and(|why| why.kind() == ErrorKind::WouldBlock),
        "a read that is given up",
    )
}

fn datagram() -> io::Result<()> {
    let socket = UdpSocket::bind(("127.0.0.1", 0))?;
    let address = socket.local_addr()?;
    let sender = thread::spawn(move || {
        thread::sleep(PAUSE);
        UdpSocket::bind(("127.0.0.1", 0))?
            .send_to(b"datagram", address)
            .map(drop)
    });
    let mut text = [0; 16];
    let (count, _) = socket.recv_from(&mut text)?;
    expect(&text[..count] == b"datagram", "the datagram")?;
    join(sender)
}

/// Asks; a thread with the other end answers.
fn conversation<S, F>(mut client: S, other_end: F) -> io::Result<()>
where
    S: Read + Write + Send + 'static,
    F: FnOnce() -> io::Result<S> + Send + 'static,
{
    let server = thread::spawn(move || {
        let mut peer = other_end()?;
        peer.read_exact(&mut [0; 8])?;
        thread::sleep(PAUSE);
        peer.write_all(b"answer")
    });
    client.write_all(b"question")?;
    let mut answer = String::new();
    client.read_to_string(&mut answer)?;
    expect(answer == "answer", "the answer")?;
    join(server)
}

fn expect(came: bool, what: &str) -> io::Result<()> {
    match came {
        true => Ok(()),
        false => Err(io::Error::other(format!("{what} expected"))),
    }
}
