//! What h2 takes for a socket: a [`Wire`], which never waits.

use crate::wire::Wire;
use std::io::{self, IoSlice, Read, Write};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes that may be unsent. Beyond that, h2 waits, and answers no more frames of a client that
/// does not read.
const MOST_UNSENT: usize = 64 << 10;

/// A wire that h2 and its owner share. One thread at a time uses it, so nobody waits for the lock.
#[derive(Clone, Debug, Default)]
pub(super) struct Pipe(Arc<Mutex<Wire>>);

impl Pipe {
    pub(super) fn wire(&self) -> MutexGuard<'_, Wire> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// h2 is asked again whenever something has changed, so nobody is woken.
fn or_pending<T>(result: io::Result<T>) -> Poll<io::Result<T>> {
    match result {
        Err(why) if why.kind() == io::ErrorKind::WouldBlock => Poll::Pending,
        result => Poll::Ready(result),
    }
}

impl AsyncRead for Pipe {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        room: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        or_pending(self.wire().read(room.initialize_unfilled())).map_ok(|size| room.advance(size))
    }
}

impl AsyncWrite for Pipe {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut wire = self.wire();
        if wire.pending() >= MOST_UNSENT {
            return Poll::Pending;
        }
        or_pending(wire.write(bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut wire = self.wire();
        if wire.pending() >= MOST_UNSENT {
            return Poll::Pending;
        }
        let sizes = parts.iter().map(|part| wire.write(part));
        or_pending(sizes.sum())
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
