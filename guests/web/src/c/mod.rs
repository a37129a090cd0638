//! The functions that the half in C calls. `c/web.h` declares them.

pub(crate) mod http2;
pub(crate) mod tls;
pub(crate) mod websocket;

use std::ffi::c_char;

/// Bytes of the other half. Null: there are none.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Slice {
    at: *const c_char,
    size: usize,
}

impl Slice {
    const NONE: Slice = Slice {
        at: std::ptr::null(),
        size: 0,
    };

    fn of(bytes: &[u8]) -> Slice {
        Slice {
            at: bytes.as_ptr().cast(),
            size: bytes.len(),
        }
    }

    /// # Safety
    /// The bytes are readable as long as the result is used.
    unsafe fn bytes<'a>(self) -> &'a [u8] {
        if self.at.is_null() {
            return &[];
        }
        // SAFETY: the caller's condition.
        unsafe { std::slice::from_raw_parts(self.at.cast(), self.size) }
    }

    /// # Safety
    /// As for [`Slice::bytes`], until this returns.
    unsafe fn text(self) -> String {
        // SAFETY: the caller's condition.
        String::from_utf8_lossy(unsafe { self.bytes() }).into_owned()
    }
}

/// A text for the other half, cut to its room, with a zero behind it.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Room {
    at: *mut c_char,
    size: usize,
}

impl Room {
    /// # Safety
    /// The room is writable.
    unsafe fn write(self, text: &str) {
        if self.size == 0 {
            return;
        }
        let end = (0..self.size.min(text.len() + 1))
            .rev()
            .find(|&end| text.is_char_boundary(end));
        let end = end.unwrap_or(0);
        // SAFETY: the caller's condition, and `end` is less than the size.
        unsafe {
            std::ptr::copy_nonoverlapping(text.as_ptr(), self.at.cast(), end);
            self.at.add(end).write(0);
        }
    }
}
