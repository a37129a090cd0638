//! Chunked bodies (RFC 9112, section 7.1), piece by piece.
//!
//! A line must be there whole, so a [`Decoder`] keeps none. Lines are bounded: the caller's buffer
//! need not hold more than [`MOST_LINE`] bytes and the end of one.

use crate::text;

/// The most bytes of a chunk's line with its extensions, or of a line of the trailer.
pub const MOST_LINE: usize = 1024;

/// The most bytes of all extensions and of the trailer together.
const MOST_EXTRA: u32 = 16 * 1024;

/// The state of a body: where the reading is.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Decoder {
    /// Bytes of this chunk that have not come.
    left: u64,
    /// Bytes of extensions and of the trailer, so far.
    extra: u32,
    phase: Phase,
}

#[repr(u32)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// A line with a size comes.
    #[default]
    Size,
    /// Data come.
    Data,
    /// The end of a line comes, after data.
    End,
    /// Lines of the trailer come.
    Trailer,
}

/// What is at the beginning of the bytes.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    /// After `skip` bytes, which carry nothing, so many bytes of the body. Take both away.
    Data {
        /// Bytes before the data.
        skip: usize,
        /// Bytes of data.
        size: usize,
    },
    /// Take so many bytes away; more are needed.
    Partial {
        /// Bytes that carry nothing.
        skip: usize,
    },
    /// The body has ended, after so many bytes.
    End {
        /// Bytes that carry nothing.
        skip: usize,
    },
    /// This is no chunked body.
    Bad,
}

impl Decoder {
    /// What is at the beginning of `data`.
    pub fn next(&mut self, data: &[u8]) -> Piece {
        let mut skip = 0;
        loop {
            let rest = &data[skip..];
            if self.phase == Phase::Data {
                let size = rest
                    .len()
                    .min(usize::try_from(self.left).unwrap_or(usize::MAX));
                if size == 0 {
                    return Piece::Partial { skip };
                }
                self.left -= size as u64;
                if self.left == 0 {
                    self.phase = Phase::End;
                }
                return Piece::Data { skip, size };
            }
            let looked_at = &rest[..rest.len().min(MOST_LINE + 2)];
            let Some(length) = memchr::memchr(b'\n', looked_at) else {
                return match rest.len() > MOST_LINE + 1 {
                    true => Piece::Bad,
                    false => Piece::Partial { skip },
                };
            };
            let Some(line) = rest[..length].strip_suffix(b"\r") else {
                return Piece::Bad;
            };
            skip += length + 1;
            match self.line(line) {
                Some(false) => {}
                Some(true) => return Piece::End { skip },
                None => return Piece::Bad,
            }
        }
    }

    /// Takes a line. Returns whether the body has ended; `None` if the line is wrong.
    fn line(&mut self, line: &[u8]) -> Option<bool> {
        match self.phase {
            Phase::Size => {
                let end = memchr::memchr(b';', line).unwrap_or(line.len());
                let (size, extensions) = line.split_at(end);
                self.left = hexadecimal(size)?;
                self.count_extra(extensions)?;
                self.phase = if self.left == 0 {
                    Phase::Trailer
                } else {
                    Phase::Data
                };
            }
            Phase::Trailer if line.is_empty() => return Some(true),
            Phase::Trailer => {
                self.count_extra(line)?;
                let colon = memchr::memchr(b':', line)?;
                text::is_token(&line[..colon]).then_some(())?;
            }
            Phase::End if line.is_empty() => self.phase = Phase::Size,
            Phase::End | Phase::Data => return None,
        }
        Some(false)
    }

    fn count_extra(&mut self, text: &[u8]) -> Option<()> {
        self.extra += text.len() as u32;
        (self.extra <= MOST_EXTRA && text::is_value(text)).then_some(())
    }
}

/// The size of a chunk, if it has at most 60 bits.
fn hexadecimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || digits.len() > 15 {
        return None;
    }
    let add = |number: u64, byte: &u8| {
        let digit = char::from(*byte).to_digit(16)?;
        Some(number * 16 + u64::from(digit))
    };
    digits.iter().try_fold(0, add)
}
