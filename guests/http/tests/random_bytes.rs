//! Random heads and bodies, from seeds: nothing panics, and what comes in pieces is read as what
//! comes at once. `BATON_HTTP_SECONDS` is how long it goes on; a few thousand seeds without it.

use baton_http::chunked::{Decoder, Piece};
use baton_http::head::{Head, Missing, parse};
use std::time::{Duration, Instant};

/// Marsaglia's xorshift64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }

    /// Some words of a vocabulary, among which are now and then random bytes.
    fn text(&mut self, words: &[&str]) -> Vec<u8> {
        let mut text = Vec::new();
        for _ in 0..self.below(30) {
            match self.below(20) {
                0 => text.push(self.below(256) as u8),
                _ => text.extend_from_slice(words[self.below(words.len())].as_bytes()),
            }
        }
        text
    }
}

const OF_HEADS: [&str; 26] = [
    "GET",
    "POST",
    " ",
    " / ",
    "/a?b",
    "http://h/x",
    "HTTP/1.1",
    "HTTP/1.0",
    "\r\n",
    "\r\n",
    "\r\n",
    "\n",
    "\r",
    ":",
    ": ",
    "Host: a\r\n",
    "Host",
    "Content-Length: 1\r\n",
    "Content-Length: ",
    "Transfer-Encoding: chunked\r\n",
    "Connection: close\r\n",
    "Expect: 100-continue\r\n",
    "1",
    ",",
    "GET / HTTP/1.1\r\nHost: a\r\n",
    "\r\n\r\n",
];

const OF_BODIES: [&str; 14] = [
    "0",
    "1",
    "2",
    "a",
    "\r\n",
    "\r\n",
    "\r\n",
    "\n",
    ";",
    ";x=y",
    "1\r\na\r\n",
    "0\r\n\r\n",
    "Name: x\r\n",
    "3\r\nabc\r\n",
];

/// Each is the size and the framing, or the refusal, of a head.
type Read = Result<(u32, baton_http::framing::Framing), Missing>;

fn read_head(text: &[u8], mut step: impl FnMut() -> usize) -> Read {
    let (mut seen, mut end) = (0, 0);
    loop {
        end = text.len().min(end + step());
        let mut head = Head::default();
        match parse(&text[..end], &mut seen, 200, &mut head) {
            Ok(()) => {
                let inside =
                    |span: baton_http::span::Span| span.in_bytes(&text[..head.size as usize]);
                let _ = (inside(head.path), inside(head.query), inside(head.host));
                let fields = &head.fields[..head.count as usize];
                let _ = fields
                    .iter()
                    .map(|field| inside(field.name).len() + inside(field.value).len());
                return Ok((head.size, head.framing));
            }
            Err(Missing::Partial) if end < text.len() => {}
            Err(missing) => return Err(missing),
        }
    }
}

/// The body so far, and whether it was refused (`Some(false)`) or has ended (`Some(true)`).
fn read_body(text: &[u8], mut step: impl FnMut() -> usize) -> (Vec<u8>, Option<bool>) {
    let (mut decoder, mut body) = (Decoder::default(), Vec::new());
    let (mut at, mut end) = (0, 0);
    loop {
        match decoder.next(&text[at..end]) {
            Piece::Data { skip, size } => {
                body.extend_from_slice(&text[at + skip..][..size]);
                at += skip + size;
            }
            Piece::Partial { skip } => {
                at += skip;
                if end == text.len() {
                    return (body, None);
                }
                end = text.len().min(end + step());
            }
            Piece::End { .. } => return (body, Some(true)),
            Piece::Bad => return (body, Some(false)),
        }
    }
}

fn try_seed(seed: u64) {
    let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let head = random.text(&OF_HEADS);
    let whole = read_head(&head, || head.len().max(1));
    let pieces = read_head(&head, || 1 + random.below(9));
    assert_eq!(
        whole,
        pieces,
        "seed {seed}: {:?}",
        String::from_utf8_lossy(&head)
    );
    let body = random.text(&OF_BODIES);
    let whole = read_body(&body, || body.len().max(1));
    let pieces = read_body(&body, || 1 + random.below(5));
    assert_eq!(
        whole,
        pieces,
        "seed {seed}: {:?}",
        String::from_utf8_lossy(&body)
    );
}

#[test]
fn pieces_of_random_bytes_are_read_as_the_whole() {
    let seconds = std::env::var("BATON_HTTP_SECONDS").ok();
    let seconds = seconds.map(|text| text.parse().expect("a number of seconds"));
    let until = seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let is_over = |seed: u64| match until {
        Some(until) => Instant::now() > until,
        None => seed == 5000,
    };
    let mut seed = 0;
    while !is_over(seed) {
        try_seed(seed);
        seed += 1;
    }
}
