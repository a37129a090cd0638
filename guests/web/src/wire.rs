//! Bytes in memory in place of a socket.

use std::io::{self, Read, Write};

/// What has come and is not read; what is written and not sent.
#[derive(Debug, Default)]
pub(crate) struct Wire {
    input: Vec<u8>,
    /// How many bytes of the input have been read.
    read: usize,
    output: Vec<u8>,
    /// The part of the output that is on its way. It stays where it is until all of it has been
    /// sent: a process may wait while the system is given its address.
    leaving: Vec<u8>,
    /// How many bytes of that have been sent.
    sent: usize,
    has_ended: bool,
}

/// A larger empty buffer is given back.
const KEPT: usize = 16 << 10;

fn clear(buffer: &mut Vec<u8>) {
    buffer.clear();
    if buffer.capacity() > KEPT {
        *buffer = Vec::new();
    }
}

impl Wire {
    /// Takes bytes that have come. An empty slice: no more come.
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        self.has_ended |= bytes.is_empty();
        self.input.drain(..self.read);
        self.read = 0;
        self.input.extend_from_slice(bytes);
    }

    /// How many bytes have come and are not read.
    pub(crate) fn unread(&self) -> usize {
        self.input.len() - self.read
    }

    /// How many bytes are not sent.
    pub(crate) fn pending(&self) -> usize {
        self.output.len() + self.leaving.len() - self.sent
    }

    /// What is to be sent next. Empty: all has been sent.
    pub(crate) fn leaving(&mut self) -> &[u8] {
        if self.sent == self.leaving.len() {
            clear(&mut self.leaving);
            std::mem::swap(&mut self.leaving, &mut self.output);
            self.sent = 0;
        }
        &self.leaving[self.sent..]
    }

    /// So many bytes of what `leaving` returned last have been sent.
    pub(crate) fn sent(&mut self, size: usize) {
        self.sent += size.min(self.leaving.len() - self.sent);
    }
}

impl Read for Wire {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let size = (&self.input[self.read..]).read(room)?;
        self.read += size;
        if self.read == self.input.len() {
            self.read = 0;
            clear(&mut self.input);
        }
        if size == 0 && !room.is_empty() && !self.has_ended {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(size)
    }
}

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.output.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
