//! Bodies in gzip.

use baton_http::encoding::{Packer, Step, is_text, takes_gzip};
use flate2::read::GzDecoder;
use std::io::Read as _;

#[test]
fn clients_say_whether_they_take_gzip() {
    for (accepted, takes) in [
        ("gzip", true),
        ("GZIP", true),
        ("x-gzip", true),
        ("deflate, gzip;q=1.0, *;q=0.5", true),
        ("br;q=1,gzip; q=0.001", true),
        ("*", true),
        ("*;q=0.5", true),
        ("gzip;q=0.5, identity;q=0.5", true),
        ("identity;q=1, gzip;q=0.5", false),
        ("", false),
        ("br", false),
        ("identity", false),
        ("gzip;q=0", false),
        ("gzip;q=0.000", false),
        ("gzip;q=0, *", false),
        ("*;q=0", false),
        ("gzip;q=2", false),
        ("gzip;q=x", false),
        ("gzip;q=0.0001", false),
        ("gzip;level=1", false),
        ("gzip;q=", false),
        ("gzippy", false),
        (";;;,,,", false),
    ] {
        assert_eq!(takes_gzip(accepted.as_bytes()), takes, "{accepted}");
    }
}

#[test]
fn texts_gain_by_it() {
    for kind in [
        "text/plain",
        "Text/HTML; charset=utf-8",
        "application/json",
        "application/problem+json",
        "image/svg+xml",
    ] {
        assert!(is_text(kind.as_bytes()), "{kind}");
    }
    for kind in ["", "text/event-stream", "image/png", "application/zip"] {
        assert!(!is_text(kind.as_bytes()), "{kind}");
    }
}

fn unpacked(packed: &[u8]) -> Vec<u8> {
    let mut data = Vec::new();
    GzDecoder::new(packed).read_to_end(&mut data).expect("gzip");
    data
}

#[test]
fn what_is_packed_in_steps_is_whole_again() {
    let mut packer = Packer::default();
    let (mut packed, mut plain) = (Vec::new(), Vec::new());
    for at in 0_usize..200 {
        let data: Vec<u8> = (0..at * 37).map(|byte| (byte * at % 251) as u8).collect();
        let step = if at % 3 == 0 {
            Step::Flushes
        } else {
            Step::Goes
        };
        packed.extend_from_slice(packer.pack(&data, step));
        plain.extend_from_slice(&data);
    }
    packed.extend_from_slice(packer.pack(b"end", Step::Ends));
    plain.extend_from_slice(b"end");
    assert!(unpacked(&packed) == plain);
    let mut packer = Packer::default();
    assert!(unpacked(packer.pack(b"", Step::Ends)).is_empty());
}

#[test]
fn a_flush_lets_the_client_read_all_that_came() {
    let mut packer = Packer::default();
    let packed = packer.pack(b"hello", Step::Flushes).to_vec();
    let mut data = [0; 5];
    let mut decoder = GzDecoder::new(packed.as_slice());
    decoder.read_exact(&mut data).expect("five bytes");
    assert_eq!(&data, b"hello");
}
