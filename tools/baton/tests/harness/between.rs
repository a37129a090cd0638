//! A proxy between programs and a NATS server, which can keep back the ends of jobs: then the
//! server is as late with them as one with a slow disk.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Where the server's acknowledgements of jobs go.
const ENDS: &str = "PUB $JS.ACK.";

/// A proxy. It serves until the test ends.
pub(crate) struct Between {
    port: u16,
    kept: Arc<Mutex<Kept>>,
}

/// What is kept back, in order, and to which server it goes.
#[derive(Default)]
struct Kept {
    lets_go: bool,
    messages: Vec<(TcpStream, Vec<u8>)>,
}

impl Between {
    /// A proxy for the server at a port of this machine. It keeps back the ends of jobs.
    pub(crate) fn start(server: u16) -> Between {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let port = listener.local_addr().expect("it has an address").port();
        let kept: Arc<Mutex<Kept>> = Arc::default();
        let for_thread = Arc::clone(&kept);
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                serve(client, server, &for_thread);
            }
        });
        Between { port, kept }
    }

    pub(crate) fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// Gives the server what was kept back, and keeps back nothing any more.
    pub(crate) fn let_go(&self) {
        let mut kept = lock(&self.kept);
        kept.lets_go = true;
        for (mut server, message) in kept.messages.drain(..) {
            server.write_all(&message).expect("the server reads");
        }
    }
}

fn lock(kept: &Mutex<Kept>) -> MutexGuard<'_, Kept> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

fn serve(client: TcpStream, server: u16, kept: &Arc<Mutex<Kept>>) {
    let server = TcpStream::connect(("127.0.0.1", server)).expect("the server listens");
    let (mut from, mut to) = (clone(&server), clone(&client));
    std::thread::spawn(move || drop(io::copy(&mut from, &mut to)));
    let kept = Arc::clone(kept);
    // It ends with an error when one of both has ended.
    std::thread::spawn(move || drop(pass_on(client, &server, &kept)));
}

fn clone(stream: &TcpStream) -> TcpStream {
    stream.try_clone().expect("a descriptor is free")
}

/// Passes on what a program sends, but ends of jobs.
fn pass_on(client: TcpStream, mut server: &TcpStream, kept: &Mutex<Kept>) -> io::Result<()> {
    let mut client = BufReader::new(client);
    loop {
        let mut message = Vec::new();
        if client.read_until(b'\n', &mut message)? == 0 {
            return Ok(());
        }
        let line = String::from_utf8_lossy(&message).into_owned();
        if line.starts_with("PUB ") || line.starts_with("HPUB ") {
            let size = line.split_whitespace().last().unwrap_or_default();
            let size: usize = size.parse().expect("a message has a size");
            // The end of the line belongs to it.
            let text = message.len();
            message.resize(text + size + 2, 0);
            client.read_exact(&mut message[text..])?;
        }
        // Under the lock, so that nothing overtakes what is kept back.
        let mut kept = lock(kept);
        match line.starts_with(ENDS) && !kept.lets_go {
            true => kept.messages.push((clone(server), message)),
            false => server.write_all(&message)?,
        }
    }
}
