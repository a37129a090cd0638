//! One connection's TLS: a state machine over bytes. It has no socket, and never waits.

use super::context::Context;
use super::failure;
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, Connection, HandshakeKind, ServerConnection};
use std::io::{self, IoSlice, Read, Write};

/// What a read of decrypted bytes finds.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// So many bytes.
    Bytes(usize),
    /// None before more has come from the peer.
    Nothing,
    /// The peer has said that it sends no more.
    End,
    /// The connection has ended, and the peer has not said so: somebody may have cut it off.
    CutOff,
}

/// rustls takes nothing more while it has more decrypted bytes than this.
const MOST_DECRYPTED: usize = 16 << 10;

/// A connection's TLS.
#[derive(Debug)]
pub(crate) struct Session {
    connection: Connection,
    /// The first failure. Afterwards nothing is read or written but the alert that tells the peer.
    failure: Option<String>,
    has_ended: bool,
    /// What has come and is not decrypted yet: most often nothing.
    input: Vec<u8>,
    facts: Option<Facts>,
}

/// What is known of a session after its handshake.
#[derive(Debug)]
pub(crate) struct Facts {
    pub(crate) version: String,
    pub(crate) cipher: String,
    pub(crate) protocol: Option<Vec<u8>>,
    /// The name that the client asked for. Known to servers.
    pub(crate) name: Option<String>,
    pub(crate) is_resumed: bool,
    /// The peer's certificate, as DER.
    pub(crate) certificate: Option<Vec<u8>>,
}

impl Session {
    /// The server's side.
    pub(crate) fn accept(context: &Context) -> Result<Session, String> {
        let config = context.server()?;
        let connection = ServerConnection::new(config).map_err(|why| failure::in_words(&why))?;
        Ok(Session::of(connection.into()))
    }

    /// The client's side. `name` is a host's name or address, of which the server must have a
    /// certificate.
    pub(crate) fn connect(context: &Context, name: &str) -> Result<Session, String> {
        let server = ServerName::try_from(name.to_owned())
            .map_err(|_| format!("'{name}' is no name of a host; give one in 'name'"))?;
        let config = context.client()?;
        let connection =
            ClientConnection::new(config, server).map_err(|why| failure::in_words(&why))?;
        Ok(Session::of(connection.into()))
    }

    fn of(connection: Connection) -> Session {
        Session {
            connection,
            failure: None,
            has_ended: false,
            input: Vec::new(),
            facts: None,
        }
    }

    fn check(&self) -> Result<(), String> {
        self.failure.clone().map_or(Ok(()), Err)
    }

    fn fail<T>(&mut self, words: String) -> Result<T, String> {
        self.failure = Some(words.clone());
        Err(words)
    }

    /// Takes bytes that have come, after all that was decrypted has been read. An empty slice: the
    /// connection has ended.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.check()?;
        if bytes.is_empty() {
            self.has_ended = true;
            if self.connection.is_handshaking() {
                return self.fail("the peer closed the connection in the handshake".to_owned());
            }
        }
        let mut all = std::mem::take(&mut self.input);
        if all.is_empty() {
            let taken = self.decrypt(bytes)?;
            self.input.extend_from_slice(&bytes[taken..]);
        } else {
            all.extend_from_slice(bytes);
            let taken = self.decrypt(&all)?;
            self.input.extend_from_slice(&all[taken..]);
        }
        Ok(())
    }

    /// Decrypts bytes until there is much to read. Returns how many.
    fn decrypt(&mut self, bytes: &[u8]) -> Result<usize, String> {
        let mut rest = bytes;
        loop {
            let taken = match self.connection.read_tls(&mut rest) {
                Ok(taken) => taken,
                Err(why) => return self.fail(format!("too much came at once ({why})")),
            };
            let state = match self.connection.process_new_packets() {
                Ok(state) => state,
                Err(why) => return self.fail(failure::in_words(&why)),
            };
            if taken == 0 {
                return Ok(bytes.len()); // after the peer's last word, nothing counts
            }
            if rest.is_empty() || state.plaintext_bytes_to_read() > MOST_DECRYPTED {
                return Ok(bytes.len() - rest.len());
            }
        }
    }

    /// Reads decrypted bytes.
    pub(crate) fn read(&mut self, room: &mut [u8]) -> Result<Found, String> {
        loop {
            match self.connection.reader().read(room) {
                Ok(0) if !room.is_empty() => return Ok(Found::End),
                Ok(size) => return Ok(Found::Bytes(size)),
                // What came before the failure has been read.
                Err(_) if self.failure.is_some() => self.check()?,
                Err(_) if !self.input.is_empty() => {
                    let all = std::mem::take(&mut self.input);
                    // A failure is told by the next attempt.
                    let taken = self.decrypt(&all).unwrap_or(all.len());
                    self.input.extend_from_slice(&all[taken..]);
                }
                Err(_) if self.has_ended => return Ok(Found::CutOff),
                Err(_) => return Ok(Found::Nothing),
            }
        }
    }

    /// Takes bytes to encrypt. The parts share records. Returns how many there was room for.
    pub(crate) fn write(&mut self, parts: &[IoSlice<'_>]) -> Result<usize, String> {
        self.check()?;
        let taken = self.connection.writer().write_vectored(parts);
        taken.or_else(|why| self.fail(format!("cannot encrypt: {why}")))
    }

    /// Tells the peer that no more comes.
    pub(crate) fn finish(&mut self) {
        self.connection.send_close_notify();
    }

    /// Whether there are encrypted bytes for the peer.
    pub(crate) fn has_output(&self) -> bool {
        self.connection.wants_write()
    }

    /// Gives all of them to `out`, or as many as it takes.
    pub(crate) fn flush(&mut self, out: &mut dyn Write) -> io::Result<()> {
        while self.connection.wants_write() {
            self.connection.write_tls(out)?;
        }
        Ok(())
    }

    pub(crate) fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    /// The first failure; empty if there was none.
    pub(crate) fn failure(&self) -> &str {
        self.failure.as_deref().unwrap_or_default()
    }

    /// What is known now.
    pub(crate) fn facts(&mut self) -> &Facts {
        let connection = &self.connection;
        let name = match connection {
            Connection::Server(server) => server.server_name().map(str::to_owned),
            Connection::Client(_) => None,
        };
        let version = connection
            .protocol_version()
            .and_then(|version| version.as_str());
        let cipher = connection.negotiated_cipher_suite();
        let cipher = cipher.and_then(|cipher| cipher.suite().as_str());
        let certificate = connection.peer_certificates().and_then(<[_]>::first);
        let facts = Facts {
            version: version.unwrap_or("unknown").replace('_', "."),
            cipher: cipher.unwrap_or("unknown").to_owned(),
            protocol: connection.alpn_protocol().map(<[u8]>::to_vec),
            name,
            is_resumed: connection.handshake_kind() == Some(HandshakeKind::Resumed),
            certificate: certificate.map(|der| der.as_ref().to_vec()),
        };
        self.facts.insert(facts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::context::{Options, Verify};

    fn client() -> Session {
        let options = Options {
            verify: Verify::Never,
            ..Options::default()
        };
        Session::connect(&Context::new(options), "localhost").expect("a session")
    }

    #[test]
    fn a_name_that_is_none_is_refused() {
        let context = Context::new(Options::default());
        let said = Session::connect(&context, "not a name").expect_err("no name");
        assert!(said.contains("'not a name' is no name of a host"), "{said}");
    }

    #[test]
    fn a_failure_stays_and_the_peer_is_told() {
        let mut session = client();
        let mut sent = Vec::new();
        session.flush(&mut sent).expect("a vector takes all");
        let said = session.feed(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        let said = said.expect_err("it is no TLS");
        assert!(said.starts_with("what came is not TLS"), "{said}");
        assert!(session.has_output());
        assert_eq!(session.feed(b"more"), Err(said.clone()));
        assert_eq!(session.read(&mut [0; 9]), Err(said.clone()));
        assert_eq!(session.write(&[IoSlice::new(b"hello")]), Err(said));
    }

    /// Records with random contents never panic, and end the handshake.
    #[test]
    fn any_bytes_are_read_without_a_panic() {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut random = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        for round in 0..2_000 {
            let mut session = client();
            let size = (random() % 300) as u8;
            let kind = 20 + (random() % 5) as u8;
            let mut bytes = vec![kind, 3, 3, 0, size];
            // Half of them begin as a server's first message does.
            if round % 2 == 0 {
                bytes.extend([2, 0, 0, size.saturating_sub(4), 3, 3]);
            }
            while bytes.len() < usize::from(size) + 5 {
                bytes.extend(random().to_le_bytes());
            }
            let _ = session.feed(&bytes);
            let _ = session.feed(&bytes);
            let _ = session.feed(&[]);
            assert!(session.is_handshaking() && !session.failure().is_empty());
        }
    }
}
