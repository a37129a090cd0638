//! Chunked bodies: what is refused, and that the pieces in which a body comes make no difference.

use baton_http::chunked::{Decoder, Piece};

/// The body, and how many bytes it takes, if `text` comes in pieces of `step` bytes. `None`: it is
/// refused. The end must have come.
fn decoded(text: &[u8], step: usize) -> Option<(Vec<u8>, usize)> {
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
                assert!(end < text.len(), "the end has not come");
                end = text.len().min(end + step);
            }
            Piece::End { skip } => return Some((body, at + skip)),
            Piece::Bad => return None,
        }
    }
}

#[test]
fn chunks_make_a_body_in_whatever_pieces_they_come() {
    let text = b"3;name=\"v\"\r\nabc\r\n00a\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\nnext";
    for step in 1..text.len() {
        let wanted = (b"abc0123456789".to_vec(), text.len() - 4);
        assert_eq!(decoded(text, step), Some(wanted), "{step}");
    }
}

#[test]
fn what_is_no_chunked_body_is_refused() {
    let long = format!("1;{}\r\na\r\n0\r\n\r\n", "x".repeat(2000));
    let many = "1;".to_owned() + &"x".repeat(1000) + "\r\na\r\n";
    let many = many.repeat(20) + "0\r\n\r\n";
    let trailer = "0\r\n".to_owned() + &format!("A: {}\r\n", "x".repeat(900)).repeat(20) + "\r\n";
    for text in [
        "x\r\n",
        "\r\n",
        "-1\r\n",
        "+1\r\na\r\n0\r\n\r\n",
        "0x1\r\na\r\n0\r\n\r\n",
        " 1\r\na\r\n",
        "1 \r\na\r\n0\r\n\r\n",
        "1\na\r\n0\r\n\r\n",
        "1\r\na\n0\r\n\r\n",
        "1\r\nab\r\n0\r\n\r\n",
        "1\r\na0\r\n\r\n",
        "1111111111111111\r\n",
        "ffffffffffffffffff\r\n",
        "1;a\0\r\na\r\n",
        "1;a\rb\r\na\r\n0\r\n\r\n",
        "0\r\nTrailer\r\n\r\n",
        "0\r\nTra iler: x\r\n\r\n",
        "0\r\n folded\r\n\r\n",
        "0\n\n",
        &long,
        &many,
        &trailer,
    ] {
        for step in [1, 7, text.len()] {
            assert_eq!(decoded(text.as_bytes(), step), None, "{text:?} by {step}");
        }
    }
}
