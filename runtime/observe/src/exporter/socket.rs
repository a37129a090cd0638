//! The exporter's addresses, its socket, and the connections of clients.

use crate::stale::remove_stale;
use baton_sys::peer::user_of_peer;
use rustix::fs::{Mode, chmod};
use rustix::process::geteuid;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::time::Instant;

/// Where to serve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Address {
    Unix(PathBuf),
    Tcp(SocketAddr),
}

impl Address {
    pub(super) fn parse(text: &str) -> Result<Address, String> {
        let wrong =
            || format!("'unix:PATH', '127.0.0.1:PORT' or '[::1]:PORT' expected, got '{text}'");
        if let Some(path) = text.strip_prefix("unix:") {
            return match path {
                "" => Err(wrong()),
                path => Ok(Address::Unix(PathBuf::from(path))),
            };
        }
        let address: SocketAddr = text.parse().map_err(|_| wrong())?;
        let is_own = match address {
            SocketAddr::V4(address) => *address.ip() == Ipv4Addr::LOCALHOST,
            SocketAddr::V6(address) => *address.ip() == Ipv6Addr::LOCALHOST,
        };
        match is_own && address.port() != 0 {
            true => Ok(Address::Tcp(address)),
            false => Err(wrong()),
        }
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
            Address::Tcp(address) => address.fmt(f),
        }
    }
}

/// A socket on which the exporter listens.
pub(super) enum Listener {
    Unix(UnixListener),
    Tcp(TcpListener),
}

impl Listener {
    pub(super) fn bind(address: &Address) -> io::Result<Listener> {
        match address {
            Address::Unix(path) => {
                remove_stale(path)?;
                let listener = UnixListener::bind(path)?;
                // Those who connect before this are refused by their user.
                chmod(path, Mode::RUSR | Mode::WUSR)?;
                listener.set_nonblocking(true)?;
                Ok(Listener::Unix(listener))
            }
            Address::Tcp(address) => {
                let listener = TcpListener::bind(address)?;
                listener.set_nonblocking(true)?;
                Ok(Listener::Tcp(listener))
            }
        }
    }

    pub(super) fn accept(&self) -> io::Result<Client> {
        match self {
            Listener::Unix(listener) => Ok(Client::Unix(listener.accept()?.0)),
            Listener::Tcp(listener) => Ok(Client::Tcp(listener.accept()?.0)),
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Listener::Unix(listener) => listener.as_fd(),
            Listener::Tcp(listener) => listener.as_fd(),
        }
    }
}

/// A connection of a client.
pub(super) enum Client {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl AsFd for Client {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Client::Unix(stream) => stream.as_fd(),
            Client::Tcp(stream) => stream.as_fd(),
        }
    }
}

impl Client {
    /// Whether the client may ask.
    pub(super) fn may_ask(&self) -> io::Result<bool> {
        match self {
            Client::Unix(stream) => {
                let peer = user_of_peer(stream)?;
                Ok(peer == geteuid().as_raw() || peer == 0)
            }
            Client::Tcp(_) => Ok(true),
        }
    }

    /// Makes the next read or write end at `until` at the latest.
    pub(super) fn limit(&self, until: Instant) -> io::Result<()> {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        match self {
            Client::Unix(stream) => {
                stream.set_nonblocking(false)?;
                stream.set_read_timeout(Some(left))?;
                stream.set_write_timeout(Some(left))
            }
            Client::Tcp(stream) => {
                stream.set_nonblocking(false)?;
                stream.set_read_timeout(Some(left))?;
                stream.set_write_timeout(Some(left))
            }
        }
    }

    pub(super) fn read(&self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Client::Unix(stream) => (&*stream).read(bytes),
            Client::Tcp(stream) => (&*stream).read(bytes),
        }
    }

    pub(super) fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Client::Unix(stream) => (&*stream).write(bytes),
            Client::Tcp(stream) => (&*stream).write(bytes),
        }
    }

    /// Ends the connection. Another thread's read or write ends, too.
    pub(super) fn end(&self) {
        // It may have ended already.
        let _ = match self {
            Client::Unix(stream) => stream.shutdown(Shutdown::Both),
            Client::Tcp(stream) => stream.shutdown(Shutdown::Both),
        };
    }

    pub(super) fn is_on_the_network(&self) -> bool {
        matches!(self, Client::Tcp(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_this_machine_are_taken() {
        for good in ["unix:a", "unix:/x/y:z", "127.0.0.1:9", "[::1]:65535"] {
            let address = Address::parse(good).expect(good);
            assert_eq!(address.to_string(), good);
        }
        for bad in [
            "",
            "unix:",
            "/a",
            "9090",
            ":9090",
            "0.0.0.0:9090",
            "127.0.0.2:9090",
            "127.0.0.1",
            "127.0.0.1:0",
            "127.0.0.1:65536",
            "localhost:9090",
            "[::]:9090",
            "[::ffff:127.0.0.1]:9090",
            "http://127.0.0.1:9090",
        ] {
            let why = Address::parse(bad).expect_err(bad);
            assert!(
                why.contains("'127.0.0.1:PORT' or '[::1]:PORT' expected"),
                "{why}"
            );
            assert!(why.ends_with(&format!("got '{bad}'")), "{why}");
        }
    }
}
