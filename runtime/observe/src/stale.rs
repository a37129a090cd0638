//! Sockets in the file system that a program has left.

use rustix::fs::{FileType, OFlags, fcntl_setfl, lstat};
use rustix::io::{Errno, FdFlags, fcntl_setfd};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, connect, socket};
use rustix::process::geteuid;
use std::io;
use std::path::Path;

/// Removes a socket that a program has left, which is gone.
///
/// # Errors
/// What is there instead: a program that serves, another user's socket, or a file. Or the system's.
pub(crate) fn remove_stale(path: &Path) -> io::Result<()> {
    let there = match lstat(path) {
        Ok(there) => there,
        Err(Errno::NOENT) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    if FileType::from_raw_mode(there.st_mode) != FileType::Socket {
        return Err(io::Error::other("there is a file that is no socket"));
    }
    if there.st_uid != geteuid().as_raw() {
        return Err(io::Error::other("there is another user's socket"));
    }
    match try_to_connect(path) {
        Ok(()) => Err(io::Error::other("another program serves there")),
        Err(Errno::CONNREFUSED) => Ok(std::fs::remove_file(path)?),
        Err(error) => Err(error.into()),
    }
}

/// Whether a program listens at a socket. Does not wait for it to accept.
fn try_to_connect(path: &Path) -> Result<(), Errno> {
    let socket = socket(AddressFamily::UNIX, SocketType::STREAM, None)?;
    // In steps, as not all systems have it in one. Nothing starts programs yet.
    fcntl_setfd(&socket, FdFlags::CLOEXEC)?;
    fcntl_setfl(&socket, OFlags::NONBLOCK)?;
    match connect(&socket, &SocketAddrUnix::new(path)?) {
        // It does not accept at present: as many wait as it lets.
        Err(Errno::AGAIN | Errno::INPROGRESS) => Ok(()),
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{bind, listen};
    use std::os::unix::net::{UnixListener, UnixStream};

    #[test]
    fn a_stale_socket_is_removed_and_nothing_else_is() {
        let home = tempfile::tempdir().expect("a directory");
        let path = home.path().join("metrics");
        assert!(remove_stale(&path).is_ok());
        let listener = UnixListener::bind(&path).expect("it is free");
        assert!(remove_stale(&path).is_err());
        drop(listener);
        let own = geteuid().as_raw();
        // Only root can give a file away.
        if std::os::unix::fs::lchown(&path, Some(own + 1), None).is_ok() {
            let why = remove_stale(&path).expect_err("it is another user's");
            assert_eq!(why.to_string(), "there is another user's socket");
            std::os::unix::fs::lchown(&path, Some(own), None).expect("it can be given back");
        }
        assert!(remove_stale(&path).is_ok());
        assert!(!path.exists());
        std::fs::write(&path, "precious").expect("it can be written");
        assert!(remove_stale(&path).is_err());
        assert!(path.exists());
    }

    /// A connect without a limit would wait until the other program accepts.
    #[test]
    fn a_socket_whose_program_does_not_accept_is_left() {
        let home = tempfile::tempdir().expect("a directory");
        let path = home.path().join("metrics");
        let listening = socket(AddressFamily::UNIX, SocketType::STREAM, None).expect("a socket");
        let address = SocketAddrUnix::new(&path).expect("a short path");
        bind(&listening, &address).expect("it is free");
        listen(&listening, 0).expect("it can listen");
        let fills = UnixStream::connect(&path).expect("there is room for one");
        let why = remove_stale(&path).expect_err("a program listens");
        assert_eq!(why.to_string(), "another program serves there");
        assert!(path.exists());
        drop((fills, listening));
        assert!(remove_stale(&path).is_ok());
        assert!(!path.exists());
    }
}
