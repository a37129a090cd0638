//! Runs a server, and reads its CPU time, memory and threads from the system.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{self, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::child::Owned;

/// The time limit for a server to start listening.
const START_LIMIT: Duration = Duration::from_secs(20);

/// A running server. Dropping this value ends it.
pub(super) struct Server {
    child: Owned,
    address: SocketAddr,
}

/// The usage of a server at one time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Usage {
    /// CPU time of all its threads.
    pub(super) cpu: Duration,
    /// Resident memory and page tables, in KiB. The kernel's memory for its sockets is not
    /// included.
    pub(super) kib: f64,
    pub(super) threads: f64,
}

impl Server {
    /// Starts a server. The protocol, an address and a port become the last three words of its
    /// command line.
    ///
    /// Each of our programs uses its own loopback address. So connections of earlier programs,
    /// which the system still remembers, do not interfere.
    pub(super) fn start(words: &[String], protocol: &str) -> Result<Self> {
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

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn usage(&self) -> Result<Usage> {
        let directory = format!("/proc/{}", self.child.inner.id());
        let read = |file: &str| {
            let path = format!("{directory}/{file}");
            fs::read_to_string(&path)
                .with_context(|| format!("cannot read {path}: the server is gone"))
        };
        let status = read("status")?;
        Ok(Usage {
            cpu: cpu_of(&directory)?,
            kib: value_of(&status, "VmRSS")? + value_of(&status, "VmPTE")?,
            threads: value_of(&status, "Threads")?,
        })
    }
}

/// The CPU time of all present threads, in nanoseconds: the first word of each thread's `schedstat`
/// (proc(5)).
fn cpu_of(directory: &str) -> Result<Duration> {
    let threads = format!("{directory}/task");
    let mut sum = Duration::ZERO;
    for thread in fs::read_dir(&threads)
        .with_context(|| format!("cannot read {threads}: the server is gone"))?
    {
        // A thread may have ended meanwhile.
        let Ok(times) = fs::read_to_string(thread?.path().join("schedstat")) else {
            continue;
        };
        let nanoseconds = times
            .split_ascii_whitespace()
            .next()
            .and_then(|word| word.parse().ok());
        sum += Duration::from_nanos(
            nanoseconds.context("the system does not tell a thread's CPU time")?,
        );
    }
    Ok(sum)
}

/// A number from `/proc/pid/status`.
fn value_of(status: &str, name: &str) -> Result<f64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let number = line.and_then(|value| value.split_ascii_whitespace().next()?.parse().ok());
    number.with_context(|| format!("the system does not tell {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_of_all_threads_grows_with_what_they_compute() {
        let before = cpu_of("/proc/self").unwrap();
        while cpu_of("/proc/self").unwrap() < before + Duration::from_millis(5) {
            std::hint::spin_loop();
        }
        assert!(cpu_of("/proc/no-such-process").is_err());
    }

    #[test]
    fn numbers_in_the_status_are_found_by_their_full_name() {
        let status = "VmRSS:\t    2048 kB\nThreads:\t3\n";
        assert_eq!(value_of(status, "VmRSS").unwrap(), 2048.0);
        assert_eq!(value_of(status, "Threads").unwrap(), 3.0);
        assert!(value_of(status, "Vm").is_err());
    }

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
