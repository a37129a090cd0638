//! Heads of replies, as a client reads them.

use baton_http::answer::{Answer, parse};
use baton_http::head::Missing;

fn parsed(text: &str, is_to_head: bool) -> Result<Answer, Missing> {
    let mut answer = Answer::default();
    parse(text.as_bytes(), &mut 0, 4096, is_to_head, &mut answer).map(|()| answer)
}

fn with(lines: &str) -> Result<Answer, Missing> {
    parsed(&format!("HTTP/1.1 200 OK\r\n{lines}\r\n"), false)
}

#[test]
fn the_fields_say_where_the_body_ends() {
    let answer = with("Content-Length: 7\r\nX: a \r\n").expect("a head");
    assert_eq!((answer.status, answer.length, answer.count), (200, 7, 2));
    assert!(answer.keeps_alive && !answer.is_chunked && !answer.is_until_end);
    assert_eq!(answer.fields[1].value.size, 1);
    let answer = with("Transfer-Encoding: Chunked\r\n").expect("a head");
    assert!(answer.is_chunked && answer.keeps_alive);
    let answer = with("").expect("a head");
    assert!(answer.is_until_end && !answer.keeps_alive);
    assert_eq!(
        with("Content-Length: 7\r\nContent-Length: 7\r\n")
            .expect("a head")
            .length,
        7
    );
}

#[test]
fn some_replies_have_no_body_whatever_they_say() {
    for status in [100, 204, 304] {
        let text = format!("HTTP/1.1 {status} x\r\nContent-Length: 7\r\n\r\n");
        let answer = parsed(&text, false).expect("a head");
        assert!(answer.length == 0 && !answer.is_until_end && answer.keeps_alive);
    }
    let text = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert!(!parsed(text, true).expect("a head").is_chunked);
}

#[test]
fn the_connection_stays_if_both_say_so() {
    let length = "Content-Length: 0\r\n";
    let keeps = |text: &str| parsed(text, false).expect("a head").keeps_alive;
    assert!(!keeps(&format!(
        "HTTP/1.1 200 OK\r\n{length}Connection: Close\r\n\r\n"
    )));
    assert!(!keeps(&format!("HTTP/1.0 200 OK\r\n{length}\r\n")));
    assert!(keeps(&format!(
        "HTTP/1.0 200 OK\r\n{length}Connection: keep-alive\r\n\r\n"
    )));
}

#[test]
fn what_can_be_read_in_two_ways_is_refused() {
    for lines in [
        "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n",
        "Content-Length: 1\r\nContent-Length: 2\r\n",
        "Content-Length: 1, 1\r\n",
        "Content-Length: -1\r\n",
        "Transfer-Encoding: gzip, chunked\r\n",
        "Transfer-Encoding: gzip\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "A: b\r\n c\r\n",
        "A : b\r\n",
        "A: b\n",
    ] {
        let found = with(lines).map(|_| ());
        assert_eq!(found, Err(Missing::Refused(400)), "{lines:?}");
    }
    for text in [
        "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 099 x\r\n\r\n",
        "ICY 200 OK\r\n\r\n",
    ] {
        let found = parsed(text, false).map(|_| ());
        assert_eq!(found, Err(Missing::Refused(400)), "{text:?}");
    }
}

#[test]
fn heads_are_bounded() {
    let found = with(&"A: b\r\n".repeat(1000)).map(|_| ());
    assert_eq!(found, Err(Missing::Refused(431)));
    let found = with(&"A: b\r\n".repeat(101)).map(|_| ());
    assert_eq!(found, Err(Missing::Refused(431)));
    assert_eq!(
        parsed("HTTP/1.1 200", false).map(|_| ()),
        Err(Missing::Partial)
    );
}
