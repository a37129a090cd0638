//! Runs a server, and reads its CPU time, memory and threads from the system.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{self, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::child::Owned;
use crate::{machine, usage};

/// The time limit for a server to start listening.
const START_LIMIT: Duration = Duration::from_secs(20);

/// A running server. Dropping this value ends it.
pub(crate) struct Server {
    child: Owned,
    address: SocketAddr,
}

/// The usage of a server at one time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    /// CPU time of all its threads.
    pub(crate) cpu: Duration,
    /// Resident memory and page tables, in KiB. The kernel's memory for its sockets is not
    /// included.
    pub(crate) kib: f64,
    pub(crate) threads: f64,
}

impl Server {
    /// Starts a server. The protocol, an address and a port become the last three words of its
    /// command line.
    ///
    /// Each of our programs uses its own loopback address. So connections of earlier programs,
    /// which the system still remembers, do not interfere.
    pub(crate) fn start(words: &[String], protocol: &str) -> Result<Self> {
        let [.., high, low] = process::id().to_be_bytes();
        let host = Ipv4Addr::new(127, 1, high, low.clamp(1, 254));
        let address = TcpListener::bind((host, 0))
            .and_then(|free| free.local_addr())
            .with_context(|| format!("no port of {host} can be had"))?;
        let (program, given) = words
            .split_first()
            .context("the server has no command line")?;
        let mut command = Command::new(program);
        command
            .args(given)
            .args([
                protocol,
                &address.ip().to_string(),
                &address.port().to_string(),
            ])
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        let mut server = Self {
            child: Owned::spawn(&mut command)?,
            address,
        };
        server.await_listening()?;
        Ok(server)
    }

    fn await_listening(&mut self) -> Result<()> {
        let limit = Instant::now() + START_LIMIT;
        while TcpStream::connect(self.address).is_err() {
            if let Some(status) = self.child.inner.try_wait()? {
                bail!("the server ended with {status}, before it listened");
            }
            ensure!(
                Instant::now() < limit,
                "the server does not listen after {START_LIMIT:?}"
            );
            thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The number of its process in the system.
    pub(crate) fn id(&self) -> u32 {
        self.child.inner.id()
    }

    pub(crate) fn usage(&self) -> Result<Usage> {
        let directory = format!("/proc/{}", self.id());
        let status = format!("{directory}/status");
        let number = |name| {
            machine::number::<f64>(&status, name)
                .with_context(|| format!("the system does not tell {name}: the server is gone"))
        };
        let threads = usage::snapshot(&Path::new(&directory).join("task"))?;
        Ok(Usage {
            cpu: Duration::from_nanos(threads.values().map(|used| used.nanoseconds).sum()),
            kib: number("VmRSS")? + number("VmPTE")?,
            threads: number("Threads")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_ends_at_once_is_an_error_that_says_so() {
        let words = ["sh", "-c", "exit 3"].map(str::to_string);
        let error = Server::start(&words, "echo")
            .err()
            .expect("it does not listen");
        assert!(
            error.to_string().contains("before it listened"),
            "{error:#}"
        );
    }
}
