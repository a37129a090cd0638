//! Follows the frames that come (RFC 9113, 4.1) without their payloads: whether a head is on its
//! way, which has to come in time, and whether a client sends what costs it nothing.

/// Bytes of a client's preface.
const PREFACE: usize = 24;

/// Frames that bring nothing, which a client may send at once, and which it may send each second.
/// No client of a browser or of gRPC comes near it.
const ALLOWED_AT_ONCE: u64 = 10_000;
const ALLOWED_PER_SECOND: u64 = 2_000;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// Where a connection is in its frames.
#[derive(Debug)]
pub(super) struct Frames {
    preface_left: usize,
    head: [u8; 9],
    /// Bytes of a frame's head that have come.
    size: usize,
    /// Bytes of a frame's payload that have not.
    payload_left: usize,
    is_data: bool,
    /// `HEADERS` have come, and their end has not.
    is_block_open: bool,
    /// When the preface, the frame or the block has begun, in nanoseconds.
    begun: u64,
    /// Frames that may come.
    allowed: u64,
    /// When that was counted, in nanoseconds.
    counted: u64,
}

impl Frames {
    pub(super) fn new(now: u64) -> Frames {
        Frames {
            preface_left: PREFACE,
            head: [0; 9],
            size: 0,
            payload_left: 0,
            is_data: false,
            is_block_open: false,
            begun: now,
            allowed: ALLOWED_AT_ONCE,
            counted: now,
        }
    }

    /// If what has come ends within the preface, a head of a request, or another frame that is no
    /// data: when that has begun.
    pub(super) fn begun(&self) -> Option<u64> {
        let is_inside = self.preface_left > 0
            || self.size > 0
            || self.is_block_open
            || (self.payload_left > 0 && !self.is_data);
        is_inside.then_some(self.begun)
    }

    /// Takes what has come at the time `now`, in nanoseconds. Returns false if there are too many
    /// frames that bring nothing.
    pub(super) fn take(&mut self, mut bytes: &[u8], now: u64) -> bool {
        self.count(now);
        let preface = bytes.len().min(self.preface_left);
        self.preface_left -= preface;
        bytes = &bytes[preface..];
        while !bytes.is_empty() {
            let payload = bytes.len().min(self.payload_left);
            self.payload_left -= payload;
            bytes = &bytes[payload..];
            let head = bytes.len().min(self.head.len() - self.size);
            if self.size == 0 && head > 0 && !self.is_block_open {
                self.begun = now;
            }
            self.head[self.size..self.size + head].copy_from_slice(&bytes[..head]);
            self.size += head;
            bytes = &bytes[head..];
            if self.size == self.head.len() && !self.begin_frame() {
                return false;
            }
        }
        true
    }

    fn count(&mut self, now: u64) {
        let since = now.saturating_sub(self.counted);
        let more = u128::from(since) * u128::from(ALLOWED_PER_SECOND) / 1_000_000_000;
        if more > 0 {
            let more = u64::try_from(more).unwrap_or(u64::MAX);
            self.allowed = self.allowed.saturating_add(more).min(ALLOWED_AT_ONCE);
            self.counted = now;
        }
    }

    fn begin_frame(&mut self) -> bool {
        let [high, middle, low, kind, flags, ..] = self.head;
        let length = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
        self.size = 0;
        self.payload_left = length;
        self.is_data = kind == DATA;
        if matches!(kind, HEADERS | CONTINUATION) {
            self.is_block_open = flags & END_HEADERS == 0;
        }
        let brings_something = match kind {
            DATA => length > 0 || flags & END_STREAM != 0,
            CONTINUATION => length > 0,
            HEADERS | WINDOW_UPDATE => true,
            _ => false,
        };
        if !brings_something {
            if self.allowed == 0 {
                return false;
            }
            self.allowed -= 1;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PING: u8 = 6;

    fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(payload.len()).expect("a short payload");
        let mut bytes = length.to_be_bytes()[1..].to_vec();
        bytes.extend([kind, flags, 0, 0, 0, 1]);
        bytes.extend(payload);
        bytes
    }

    fn begun() -> Frames {
        let mut frames = Frames::new(0);
        assert_eq!(frames.begun(), Some(0), "the preface has not come");
        assert!(frames.take(&[0; PREFACE], 0));
        assert_eq!(frames.begun(), None);
        frames
    }

    #[test]
    fn a_head_that_comes_byte_by_byte_is_seen_until_its_end() {
        let mut frames = begun();
        let mut bytes = frame(HEADERS, 0, &[1; 20]);
        bytes.extend(frame(CONTINUATION, END_HEADERS, &[2; 5]));
        let (last, rest) = bytes.split_last().expect("bytes");
        for (byte, now) in rest.iter().zip(7..) {
            assert!(frames.take(&[*byte], now));
            assert_eq!(frames.begun(), Some(7));
        }
        assert!(frames.take(&[*last], 99));
        assert_eq!(frames.begun(), None);
    }

    #[test]
    fn data_may_take_their_time() {
        let mut frames = begun();
        let bytes = frame(DATA, 0, &[1; 20]);
        assert!(frames.take(&bytes[..15], 0));
        assert_eq!(frames.begun(), None);
        assert!(frames.take(&bytes[15..], 0));
    }

    #[test]
    fn frames_that_bring_nothing_are_counted() {
        for bytes in [frame(PING, 0, &[0; 8]), frame(DATA, 0, &[])] {
            let mut frames = begun();
            for _ in 0..ALLOWED_AT_ONCE {
                assert!(frames.take(&bytes, 0));
            }
            assert!(!frames.take(&bytes, 0));
        }
    }

    #[test]
    fn time_allows_more_of_them() {
        let mut frames = begun();
        let ping = frame(PING, 0, &[0; 8]);
        let mut now = 0;
        for _ in 0..10 * ALLOWED_AT_ONCE {
            now += 1_000_000_000 / ALLOWED_PER_SECOND;
            assert!(frames.take(&ping, now));
        }
        assert!(frames.take(&ping.repeat(ALLOWED_AT_ONCE as usize - 1), now));
        assert!(!frames.take(&ping.repeat(2), now));
    }

    #[test]
    fn requests_and_data_are_not_counted() {
        let mut frames = begun();
        let mut bytes = frame(HEADERS, END_HEADERS, &[1; 5]);
        bytes.extend(frame(DATA, END_STREAM, &[]));
        for _ in 0..2 * ALLOWED_AT_ONCE {
            assert!(frames.take(&bytes, 0));
        }
    }
}
