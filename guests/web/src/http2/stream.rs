//! A request with its reply.

use super::bell::Bell;
use bytes::{Buf, Bytes};
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use http::{Response, StatusCode};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// The most bytes of a reply that are copied at once.
const PIECE: usize = 64 << 10;

/// The client has reset the stream, or the connection has ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Lost;

/// What of the body has come.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Bytes(Bytes),
    /// Nothing before the stream moves.
    Nothing,
    End,
}

enum Reply {
    Awaited(SendResponse<Bytes>),
    Begun(SendStream<Bytes>),
}

pub(super) struct Stream {
    body: RecvStream,
    /// What of the body has come and was not read.
    unread: Bytes,
    reply: Reply,
    bell: Arc<Bell>,
    waker: Waker,
    is_lost: bool,
}

impl Stream {
    pub(super) fn new(body: RecvStream, reply: SendResponse<Bytes>, bell: Arc<Bell>) -> Stream {
        Stream {
            body,
            unread: Bytes::new(),
            reply: Reply::Awaited(reply),
            waker: bell.waker(),
            bell,
            is_lost: false,
        }
    }

    /// Asks to be told of a reset. Returns whether it has come, the first time.
    pub(super) fn is_newly_lost(&mut self) -> bool {
        self.bell.clear();
        let context = &mut Context::from_waker(&self.waker);
        let poll = match &mut self.reply {
            Reply::Awaited(reply) => reply.poll_reset(context),
            Reply::Begun(reply) => reply.poll_reset(context),
        };
        let is_new = poll.is_ready() && !self.is_lost;
        self.is_lost |= is_new;
        is_new
    }

    pub(super) fn has_body_ended(&self) -> bool {
        self.body.is_end_stream()
    }

    pub(super) fn read(&mut self, most: usize) -> Result<Part, Lost> {
        let context = &mut Context::from_waker(&self.waker);
        while self.unread.is_empty() {
            match self.body.poll_data(context) {
                Poll::Pending => return Ok(Part::Nothing),
                Poll::Ready(None) => return Ok(Part::End),
                Poll::Ready(Some(Ok(bytes))) => self.unread = bytes,
                Poll::Ready(Some(Err(_))) => return Err(Lost),
            }
        }
        let part = self.unread.split_to(self.unread.len().min(most));
        // The client may send as many more. A stream that has ended gets no more.
        let _ = self.body.flow_control().release_capacity(part.len());
        Ok(Part::Bytes(part))
    }

    /// Tells a client that waits with its body to send it.
    pub(super) fn go_on(&mut self) {
        let mut head = Response::new(());
        *head.status_mut() = StatusCode::CONTINUE;
        if let Reply::Awaited(reply) = &mut self.reply {
            // A client that is gone misses nothing.
            let _ = reply.send_informational(head);
        }
    }

    pub(super) fn respond(&mut self, head: Response<()>, is_all: bool) -> Result<(), Lost> {
        let Reply::Awaited(reply) = &mut self.reply else {
            return Err(Lost);
        };
        let stream = reply.send_response(head, is_all).map_err(|_| Lost)?;
        self.reply = Reply::Begun(stream);
        self.is_newly_lost(); // asks the stream from now on
        Ok(())
    }

    /// Sends data for which there is room. Returns how many bytes that were. `is_last`: the reply
    /// ends with the last byte.
    pub(super) fn send(&mut self, data: &[u8], is_last: bool) -> Result<usize, Lost> {
        let Reply::Begun(reply) = &mut self.reply else {
            return Err(Lost);
        };
        let mut sent = 0;
        while sent < data.len() {
            let rest = &data[sent..];
            let wanted = rest.len().min(PIECE);
            reply.reserve_capacity(wanted);
            let mut room = reply.capacity();
            while room == 0 {
                let context = &mut Context::from_waker(&self.waker);
                match reply.poll_capacity(context) {
                    Poll::Pending => return Ok(sent),
                    Poll::Ready(Some(Ok(size))) => room = size,
                    Poll::Ready(None | Some(Err(_))) => return Err(Lost),
                }
            }
            let size = wanted.min(room);
            let is_end = is_last && size == rest.len();
            let piece = (&rest[..size]).copy_to_bytes(size);
            reply.send_data(piece, is_end).map_err(|_| Lost)?;
            sent += size;
        }
        if data.is_empty() && is_last {
            reply.send_data(Bytes::new(), true).map_err(|_| Lost)?;
        }
        Ok(sent)
    }

    pub(super) fn reset(&mut self, reason: Reason) {
        match &mut self.reply {
            Reply::Awaited(reply) => reply.send_reset(reason),
            Reply::Begun(reply) => reply.send_reset(reason),
        }
    }
}
