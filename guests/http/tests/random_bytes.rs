//! Random and mutated bytes, from seeds: nothing panics, and what comes in pieces is read as what
//! comes at once.
//!
//! `cargo xtask fuzz http` runs it for long, by these variables: `BATON_HTTP_SECONDS` is how long
//! it goes on; a few thousand seeds without it. `BATON_HTTP_SEED` is the first seed. The input of a
//! failure is made as short as it can be, and is written to the folder `BATON_HTTP_FOUND`, if it is
//! set.

use baton_http::answer::{self, Answer};
use baton_http::chunked::{Decoder, Piece};
use baton_http::head::{Head, Missing, parse};
use baton_http::routes::Routes;
use baton_http::span::Span;
use baton_http::text;
use std::panic;
use std::time::{Duration, Instant};

/// Marsaglia's xorshift64.
struct Random(u64);

impl Random {
    fn of(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

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

    /// A valid text with a few changes.
    fn mutated(&mut self, texts: &[&str]) -> Vec<u8> {
        let mut text = texts[self.below(texts.len())].as_bytes().to_vec();
        for _ in 0..=self.below(4) {
            let at = self.below(text.len() + 1);
            let end = (at + self.below(8)).min(text.len());
            match self.below(5) {
                0 => drop(text.drain(at..end)),
                1 => text.insert(at, self.below(256) as u8),
                2 if at < text.len() => text[at] ^= 1 << self.below(8),
                3 => {
                    let part = text[at..end].to_vec();
                    text.splice(at..at, part.repeat(1 + self.below(3)));
                }
                _ => {
                    let other = texts[self.below(texts.len())].as_bytes();
                    let from = self.below(other.len());
                    let to = (from + self.below(20)).min(other.len());
                    text.splice(at..at, other[from..to].iter().copied());
                }
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

const OF_ANSWERS: [&str; 18] = [
    "HTTP/1.1 200 OK\r\n",
    "HTTP/1.0 404 \r\n",
    "HTTP/1.1 ",
    "99",
    "204",
    "304",
    "\r\n",
    "\r\n",
    "\n",
    ":",
    "Content-Length: 7\r\n",
    "Content-Length: ",
    "Transfer-Encoding: chunked\r\n",
    "Connection: close\r\n",
    "Connection: keep-alive, x\r\n",
    "Set-Cookie: a=b; Path=/\r\n",
    "1",
    "\r\n\r\n",
];

const OF_ROUTES: [&str; 16] = [
    "/", "/", "/", ":id", "*rest", "{", "}", "a", "b", "%20", "\n", "\n", ":", "*", "notes",
    "\u{e9}",
];

const HEADS: [&str; 5] = [
    "GET /a/b?c=d HTTP/1.1\r\nHost: example.org:80\r\nAccept: */*\r\nX: \u{e9}\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\nhello",
    "PUT http://a.example/x?y HTTP/1.1\r\nHost: b\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "OPTIONS * HTTP/1.1\r\nHost: [::1]:8080\r\nConnection: close, x\r\n\r\n",
    "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
];

const BODIES: [&str; 3] = [
    "5\r\nhello\r\n0\r\n\r\n",
    "1;a=b\r\nx\r\n00a\r\n0123456789\r\n0\r\nName: x\r\n\r\n",
    "ffffffffffffffff\r\nx",
];

const ANSWERS: [&str; 3] = [
    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nSet-Cookie: a=b\r\n\r\nhello",
    "HTTP/1.1 206 Partial Content\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n",
    "HTTP/1.0 301 Moved\r\nLocation: http://a/b\r\nConnection: keep-alive\r\n\r\n",
];

const ROUTES: [&str; 3] = [
    "/notes/:id\n/notes/new\n/files/*path\n/notes/7",
    "/:a/:b/:c\n/x/*y\n/\n/x/y/z",
    "/{a}\n/:b\n/{a}",
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
                let inside = |span: Span| span.in_bytes(&text[..head.size as usize]);
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

/// As [`read_head`], of a reply.
fn read_answer(
    text: &[u8],
    is_to_head: bool,
    mut step: impl FnMut() -> usize,
) -> Result<(u32, u32, u64, [bool; 3]), Missing> {
    let (mut seen, mut end) = (0, 0);
    loop {
        end = text.len().min(end + step());
        let mut read = Answer::default();
        match answer::parse(&text[..end], &mut seen, 200, is_to_head, &mut read) {
            Ok(()) => {
                let head = &text[..read.size as usize];
                for field in &read.fields[..read.count as usize] {
                    let _ = (field.name.in_bytes(head), field.value.in_bytes(head));
                }
                let is = [read.is_chunked, read.is_until_end, read.keeps_alive];
                assert!(
                    !(read.is_chunked && read.is_until_end),
                    "two ends of a body"
                );
                return Ok((read.size, read.status, read.length, is));
            }
            Err(Missing::Partial) if end < text.len() => {}
            Err(missing) => return Err(missing),
        }
    }
}

/// A parser, the words and the valid texts from which its input is made, and what must hold.
struct Target {
    name: &'static str,
    words: &'static [&'static str],
    texts: &'static [&'static str],
    check: fn(&[u8]),
}

const TARGETS: [Target; 4] = [
    Target {
        name: "head",
        words: &OF_HEADS,
        texts: &HEADS,
        check: check_head,
    },
    Target {
        name: "body",
        words: &OF_BODIES,
        texts: &BODIES,
        check: check_body,
    },
    Target {
        name: "answer",
        words: &OF_ANSWERS,
        texts: &ANSWERS,
        check: check_answer,
    },
    Target {
        name: "routes",
        words: &OF_ROUTES,
        texts: &ROUTES,
        check: check_routes,
    },
];

/// Steps of random lengths, which are the same for the same text.
fn steps(text: &[u8], most: usize) -> impl FnMut() -> usize {
    let mut random = Random::of(text.len() as u64 + 1);
    move || 1 + random.below(most)
}

fn check_head(text: &[u8]) {
    let whole = read_head(text, || text.len().max(1));
    assert_eq!(whole, read_head(text, steps(text, 9)), "in pieces");
    assert_eq!(whole, read_head(text, || 1), "byte by byte");
    check_text(text);
}

fn check_body(text: &[u8]) {
    let whole = read_body(text, || text.len().max(1));
    assert_eq!(whole, read_body(text, steps(text, 5)), "in pieces");
    assert_eq!(whole, read_body(text, || 1), "byte by byte");
}

fn check_answer(text: &[u8]) {
    for is_to_head in [false, true] {
        let whole = read_answer(text, is_to_head, || text.len().max(1));
        let pieces = read_answer(text, is_to_head, steps(text, 9));
        assert_eq!(whole, pieces, "in pieces");
    }
}

/// All lines but the last are patterns; the last one is a path.
fn check_routes(text: &[u8]) {
    let mut lines: Vec<&[u8]> = text.split(|&byte| byte == b'\n').collect();
    let path = lines.pop().unwrap_or_default();
    let mut routes = Routes::default();
    let mut known = Vec::new();
    for (pattern, number) in lines.into_iter().zip(0..) {
        if routes.add(pattern, number).is_ok() {
            known.push((number, pattern));
        }
    }
    let Some(found) = routes.find(path) else {
        return;
    };
    let pattern = known.iter().find(|&&(number, _)| number == found.number);
    let (_, pattern) = pattern.expect("a pattern that was added");
    let parameters = &found.parameters[..found.count as usize];
    let values: Vec<&[u8]> = parameters.iter().map(|span| span.in_bytes(path)).collect();
    assert_eq!(
        filled(pattern, &values),
        path,
        "the values fill the pattern"
    );
}

/// The pattern with values in the places of its parameters.
fn filled(pattern: &[u8], values: &[&[u8]]) -> Vec<u8> {
    let mut values = values.iter();
    let segments = pattern
        .split(|&byte| byte == b'/')
        .map(|segment| match segment {
            [b':' | b'*', _, ..] => values.next().copied().unwrap_or_default(),
            _ => segment,
        });
    segments.collect::<Vec<_>>().join(&b'/')
}

fn check_text(value: &[u8]) {
    let trimmed = text::trimmed(value);
    assert_eq!(text::trimmed(trimmed), trimmed, "trimmed once");
    if let Some(number) = text::number(value) {
        let digits = String::from_utf8_lossy(value);
        assert_eq!(digits.parse(), Ok(number), "the number of its digits");
    }
    assert!(
        !text::is_token(value) || text::is_value(value),
        "a token is a value"
    );
    for is_form in [false, true] {
        let mut room = vec![0; value.len()];
        let size = text::decode(value, is_form, &mut room);
        assert!(size <= value.len(), "decoding makes nothing longer");
    }
}

fn input(random: &mut Random, target: &Target) -> Vec<u8> {
    match random.below(2) {
        0 => random.text(target.words),
        _ => random.mutated(target.texts),
    }
}

fn fails(target: &Target, input: &[u8]) -> bool {
    panic::catch_unwind(|| (target.check)(input)).is_err()
}

/// Leaves parts of a failing input out, larger ones first, as long as it fails.
fn shortest(target: &Target, mut input: Vec<u8>) -> Vec<u8> {
    let mut size = input.len();
    while size > 0 {
        let mut at = 0;
        while at < input.len() {
            let end = (at + size).min(input.len());
            let without = [&input[..at], &input[end..]].concat();
            match fails(target, &without) {
                true => input = without,
                false => at = end,
            }
        }
        size /= 2;
    }
    input
}

/// Says what fails, with the shortest input.
fn report(seed: u64, target: &Target, input: Vec<u8>) -> ! {
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    let input = shortest(target, input);
    panic::set_hook(hook);
    if let Some(folder) = std::env::var_os("BATON_HTTP_FOUND") {
        let file = std::path::Path::new(&folder).join(format!("{}-{seed}", target.name));
        std::fs::write(&file, &input).expect("the input is written");
    }
    eprintln!("seed {seed}, {}: \"{}\"", target.name, input.escape_ascii());
    (target.check)(&input);
    panic!("seed {seed}, {}: it has failed only once", target.name);
}

fn try_seed(seed: u64) {
    let mut random = Random::of(seed);
    for target in &TARGETS {
        let input = input(&mut random, target);
        if fails(target, &input) {
            report(seed, target, input);
        }
    }
}

fn variable(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(value.parse().expect("a whole number"))
}

#[test]
fn random_bytes_in_pieces_are_read_as_the_whole() {
    let seconds = variable("BATON_HTTP_SECONDS");
    let until = seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let first = variable("BATON_HTTP_SEED").unwrap_or(0);
    let is_over = |count: u64| match until {
        Some(until) => Instant::now() > until,
        None => count == 5000,
    };
    let mut count = 0;
    while !is_over(count) {
        try_seed(first + count);
        count += 1;
    }
    println!("{count} seeds");
}

#[test]
fn a_failing_input_is_made_shorter() {
    let target = Target {
        name: "trial",
        words: &[],
        texts: &[],
        check: |text| assert!(!text.contains(&b'x')),
    };
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    let input = shortest(&target, b"abcdefghijklmnopqrstuvwxyz".to_vec());
    panic::set_hook(hook);
    assert_eq!(input, b"x");
}
