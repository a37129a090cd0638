//! The program at the other end of a socket.

use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

use crate::platform;

/// The effective user of the program at the other end of a Unix socket, as it was when the two
/// ends were connected.
///
/// # Errors
///
/// The system's; none is known for a socket that is connected.
pub fn user_of_peer(stream: &UnixStream) -> io::Result<u32> {
    platform::user_of_peer(stream.as_raw_fd())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_the_peer_of_its_own_socket_pair() -> io::Result<()> {
        let (one, other) = UnixStream::pair()?;
        // SAFETY: the call takes nothing and cannot fail.
        let user = unsafe { libc::geteuid() };
        assert_eq!(user_of_peer(&one)?, user);
        assert_eq!(user_of_peer(&other)?, user);
        Ok(())
    }
}
