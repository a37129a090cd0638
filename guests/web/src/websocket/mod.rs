//! WebSocket (RFC 6455) by tungstenite, over bytes that others read and write. The upgrade from
//! HTTP is in Lua, but for the proof that the server has understood it.

use crate::wire::Wire;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use ring::digest;
use ring::rand::{SecureRandom, SystemRandom};
use tungstenite::error::{CapacityError, Error, ProtocolError};
use tungstenite::protocol::frame::coding::CloseCode;
use tungstenite::protocol::{CloseFrame, Role, WebSocketConfig, WebSocketContext};
use tungstenite::{Bytes, Message, Utf8Bytes};

/// Bytes of a socket's buffer, which an idle one keeps.
const BUFFER: usize = 4 << 10;

/// What comes from the peer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Text(Utf8Bytes),
    Binary(Bytes),
    /// The answer has been written.
    Ping(Bytes),
    Pong(Bytes),
    /// The peer has closed. 1005: it gave no code.
    Closed(u16, Utf8Bytes),
    /// Nothing before more bytes have come.
    Nothing,
    /// The connection has ended, and the peer has not closed.
    CutOff,
    /// The peer breaks the protocol or a limit. It has been told so.
    Failed(String),
}

/// Limits, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) message: usize,
    pub(crate) frame: usize,
}

/// One side of a connection.
#[derive(Debug)]
pub(crate) struct Socket {
    context: WebSocketContext,
    wire: Wire,
    has_ended: bool,
}

impl Socket {
    pub(crate) fn new(is_server: bool, limits: Limits) -> Socket {
        let role = if is_server {
            Role::Server
        } else {
            Role::Client
        };
        let config = WebSocketConfig::default()
            .read_buffer_size(BUFFER)
            .write_buffer_size(0)
            .max_message_size(Some(limits.message))
            .max_frame_size(Some(limits.frame));
        Socket {
            context: WebSocketContext::new(role, Some(config)),
            wire: Wire::default(),
            has_ended: false,
        }
    }

    /// Takes bytes that have come. An empty slice: the connection has ended.
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        self.wire.feed(bytes);
    }

    /// What has come next.
    pub(crate) fn next(&mut self) -> Event {
        if self.has_ended {
            return Event::CutOff;
        }
        let event = match self.context.read(&mut self.wire) {
            Ok(Message::Text(text)) => Event::Text(text),
            Ok(Message::Binary(bytes)) => Event::Binary(bytes),
            Ok(Message::Ping(bytes)) => Event::Ping(bytes),
            Ok(Message::Pong(bytes)) => Event::Pong(bytes),
            Ok(Message::Close(frame)) => Socket::closed(frame),
            Ok(Message::Frame(_)) | Err(Error::ConnectionClosed | Error::AlreadyClosed) => {
                Event::CutOff
            }
            Err(Error::Io(_)) => return Event::Nothing,
            Err(Error::Protocol(ProtocolError::ResetWithoutClosingHandshake)) => Event::CutOff,
            Err(why) => self.fail(&why),
        };
        // What answers a ping or a close goes out with the next step, at the latest.
        let _ = self.context.flush(&mut self.wire);
        let is_last = matches!(event, Event::Closed(..) | Event::CutOff | Event::Failed(_));
        self.has_ended |= is_last;
        event
    }

    fn closed(frame: Option<CloseFrame>) -> Event {
        match frame {
            None => Event::Closed(1005, Utf8Bytes::from_static("")),
            Some(frame) => Event::Closed(frame.code.into(), frame.reason),
        }
    }

    /// Tells the peer why its connection ends.
    fn fail(&mut self, why: &Error) -> Event {
        let (code, words) = match why {
            Error::Utf8(_) => (
                CloseCode::Invalid,
                "a text came that is not UTF-8".to_owned(),
            ),
            Error::Capacity(CapacityError::MessageTooLong { size, max_size }) => (
                CloseCode::Size,
                format!("a message of {size} bytes came, and the limit is {max_size}"),
            ),
            Error::Protocol(why) => (
                CloseCode::Protocol,
                format!("the peer breaks the protocol ({why})"),
            ),
            why => (CloseCode::Protocol, why.to_string()),
        };
        let reason = Utf8Bytes::from_static("");
        let _ = self
            .context
            .close(&mut self.wire, Some(CloseFrame { code, reason }));
        Event::Failed(words)
    }

    /// Sends a message. Returns false if this side has closed, or the peer has.
    pub(crate) fn send(&mut self, message: Message) -> bool {
        self.context.write(&mut self.wire, message).is_ok()
            && self.context.flush(&mut self.wire).is_ok()
    }

    /// Begins to close. What the peer sends until it closes, too, can still be read.
    pub(crate) fn close(&mut self, code: u16, reason: Utf8Bytes) {
        let code = code.into();
        let _ = self
            .context
            .close(&mut self.wire, Some(CloseFrame { code, reason }));
    }

    /// How many bytes for the peer are not sent.
    pub(crate) fn pending(&self) -> usize {
        self.wire.pending()
    }

    /// The next bytes for the peer. They stay where they are until all of them have been sent.
    pub(crate) fn leaving(&mut self) -> &[u8] {
        self.wire.leaving()
    }

    /// So many of them have been sent.
    pub(crate) fn sent(&mut self, size: usize) {
        self.wire.sent(size);
    }
}

/// The proof that a server has understood the upgrade with this key.
pub(crate) fn accept(key: &[u8]) -> String {
    let mut hash = digest::Context::new(&digest::SHA1_FOR_LEGACY_USE_ONLY);
    hash.update(key);
    hash.update(b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
    BASE64_STANDARD.encode(hash.finish())
}

/// A client's key: 16 random bytes.
pub(crate) fn key() -> Option<String> {
    let mut bytes = [0; 16];
    SystemRandom::new().fill(&mut bytes).ok()?;
    Some(BASE64_STANDARD.encode(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        message: 1_000,
        frame: 500,
    };

    /// Moves what one side has written to the other one.
    fn carry(from: &mut Socket, to: &mut Socket) {
        while from.pending() > 0 {
            let bytes = from.leaving().to_vec();
            from.sent(bytes.len());
            to.feed(&bytes);
        }
    }

    fn pair() -> (Socket, Socket) {
        (Socket::new(true, LIMITS), Socket::new(false, LIMITS))
    }

    /// The example of RFC 6455, section 1.3.
    #[test]
    fn the_proof_is_that_of_the_rfc() {
        let proof = accept(b"dGhlIHNhbXBsZSBub25jZQ==");
        assert_eq!(proof, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[test]
    fn a_message_arrives_byte_by_byte() {
        let (mut server, mut client) = pair();
        assert!(client.send(Message::Text("Grüße".into())));
        for byte in client.leaving().to_vec() {
            assert_eq!(server.next(), Event::Nothing);
            server.feed(&[byte]);
        }
        assert_eq!(server.next(), Event::Text("Grüße".into()));
        assert_eq!(server.next(), Event::Nothing);
    }

    #[test]
    fn a_ping_is_answered_when_it_is_read() {
        let (mut server, mut client) = pair();
        assert!(client.send(Message::Ping(Bytes::from_static(b"now"))));
        carry(&mut client, &mut server);
        assert_eq!(server.next(), Event::Ping(Bytes::from_static(b"now")));
        carry(&mut server, &mut client);
        assert_eq!(client.next(), Event::Pong(Bytes::from_static(b"now")));
    }

    #[test]
    fn a_close_is_answered_and_nothing_is_sent_after_it() {
        let (mut server, mut client) = pair();
        client.close(1000, "done".into());
        assert!(!client.send(Message::Text("more".into())));
        carry(&mut client, &mut server);
        assert_eq!(server.next(), Event::Closed(1000, "done".into()));
        assert!(!server.send(Message::Text("more".into())));
        carry(&mut server, &mut client);
        assert_eq!(client.next(), Event::Closed(1000, "done".into()));
    }

    #[test]
    fn a_message_over_the_limit_is_refused_and_the_peer_is_told() {
        let (mut server, mut client) = pair();
        assert!(client.send(Message::Binary(vec![0; 501].into())));
        carry(&mut client, &mut server);
        let said = server.next();
        assert!(
            matches!(&said, Event::Failed(why) if why.contains("501")),
            "{said:?}"
        );
        carry(&mut server, &mut client);
        assert_eq!(client.next(), Event::Closed(1009, "".into()));
    }

    #[test]
    fn a_text_that_is_not_utf8_is_refused_and_the_peer_is_told() {
        let (mut server, mut client) = pair();
        // A masked frame of one byte, whose mask is zero.
        server.feed(&[0x81, 0x81, 0, 0, 0, 0, 0xFF]);
        assert!(matches!(server.next(), Event::Failed(_)));
        carry(&mut server, &mut client);
        assert_eq!(client.next(), Event::Closed(1007, "".into()));
    }

    #[test]
    fn what_is_on_its_way_stays_where_it_is() {
        let (mut server, _) = pair();
        assert!(server.send(Message::Text("first".into())));
        let at = server.leaving().as_ptr();
        assert!(server.send(Message::Binary(vec![0; 100_000].into())));
        assert_eq!(server.leaving().as_ptr(), at);
        server.sent(7);
        assert_eq!(server.leaving().len(), server.pending());
    }

    /// Random frames, half of them with small lengths, never panic, and what is kept is bounded.
    #[test]
    fn any_bytes_are_read_without_a_panic() {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut random = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        for _ in 0..20_000 {
            let (mut server, _) = pair();
            for _ in 0..random() % 8 {
                let mut bytes = random().to_le_bytes().to_vec();
                bytes[0] &= 0x8f;
                bytes[1] = 0x80 | (bytes[1] % 130);
                bytes.resize((random() % 200) as usize + 1, 0x41);
                server.feed(&bytes);
                for _ in 0..100 {
                    let event = server.next();
                    if matches!(event, Event::Nothing | Event::CutOff) {
                        break;
                    }
                    let size = match event {
                        Event::Text(text) => text.len(),
                        Event::Binary(bytes) => bytes.len(),
                        _ => 0,
                    };
                    assert!(size <= LIMITS.message);
                }
            }
        }
    }

    #[test]
    fn an_end_without_a_close_is_told_from_a_close() {
        let (mut server, _) = pair();
        assert_eq!(server.next(), Event::Nothing);
        server.feed(&[]);
        assert_eq!(server.next(), Event::CutOff);
    }
}
