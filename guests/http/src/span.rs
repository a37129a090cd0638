//! Parts of a head, and the refusal of one.

/// A part of the head: where it begins, and how many bytes it has.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// The first byte.
    pub start: u32,
    /// The number of bytes.
    pub size: u32,
}

impl Span {
    /// The span of `part`, which lies in `whole`.
    pub(crate) fn of(part: &[u8], whole: &[u8]) -> Span {
        let start = part.as_ptr().addr() - whole.as_ptr().addr();
        Span {
            start: start as u32,
            size: part.len() as u32,
        }
    }

    /// The bytes of the span.
    #[must_use]
    pub fn in_bytes(self, whole: &[u8]) -> &[u8] {
        &whole[self.start as usize..][..self.size as usize]
    }
}

/// A head is refused with this status.
pub(crate) type Refusal = u16;
