//! Heads of requests: what is refused, and with which status.

use baton_http::head::{Head, Missing, parse};

const LIMIT: usize = 4096;

fn parsed(text: &str) -> Result<Head, Missing> {
    let mut head = Head::default();
    parse(text.as_bytes(), &mut 0, LIMIT, &mut head).map(|()| head)
}

/// A request with these lines after its first one, of which Host is the first.
fn with(lines: &str) -> Result<Head, Missing> {
    parsed(&format!("POST / HTTP/1.1\r\nHost: a\r\n{lines}\r\n"))
}

fn refused(status: u16, lines: &[&str]) {
    for line in lines {
        let found = with(line).map(|_| ());
        assert_eq!(found, Err(Missing::Refused(status)), "{line:?}");
    }
}

fn refused_whole(status: u16, texts: &[&str]) {
    for text in texts {
        let found = parsed(text).map(|_| ());
        assert_eq!(found, Err(Missing::Refused(status)), "{text:?}");
    }
}

#[test]
fn both_lengths_are_refused() {
    refused(
        400,
        &[
            "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n",
            "Transfer-Encoding: chunked\r\nContent-Length: 0\r\n",
        ],
    );
}

#[test]
fn lengths_that_are_no_single_number_are_refused() {
    refused(
        400,
        &[
            "Content-Length: 1\r\nContent-Length: 2\r\n",
            "Content-Length: 1\r\nContent-Length: 1\r\n",
            "Content-Length: 1, 1\r\n",
            "Content-Length: +1\r\n",
            "Content-Length: -1\r\n",
            "Content-Length: 0x1\r\n",
            "Content-Length: 1 1\r\n",
            "Content-Length: \r\n",
            "Content-Length: 9223372036854775808\r\n",
            "Content-Length: 99999999999999999999999\r\n",
        ],
    );
    assert_eq!(
        with("Content-Length: 007\r\n").map(|head| head.framing.length),
        Ok(7)
    );
}

#[test]
fn codings_that_do_not_end_with_chunked_are_refused() {
    refused(
        400,
        &[
            "Transfer-Encoding: identity\r\n",
            "Transfer-Encoding: chunked, identity\r\n",
            "Transfer-Encoding: chunked, chunked\r\n",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
            "Transfer-Encoding: xchunked\r\n",
            "Transfer-Encoding: \"chunked\"\r\n",
            "Transfer-Encoding: chunked;q=1\r\n",
            "Transfer-Encoding:\r\n",
        ],
    );
    refused(501, &["Transfer-Encoding: gzip, chunked\r\n"]);
    refused_whole(
        400,
        &["POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"],
    );
}

#[test]
fn odd_lines_are_refused() {
    refused(
        400,
        &[
            "Name : value\r\n",
            " Name: value\r\n",
            "Name: value\r\n folded\r\n",
            "Name: value\r\n\tfolded\r\n",
            "Name: value\n",
            "Name: a\rb\r\n",
            "Name: a\0b\r\n",
            "Name: a\x01b\r\n",
            "Na me: value\r\n",
            "Name\r\n",
            ": value\r\n",
            "N(me: value\r\n",
        ],
    );
    refused_whole(
        400,
        &[
            "GET / HTTP/1.1\nHost: a\r\n\r\n",
            "GET  / HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET / HTTP/1.1 \r\nHost: a\r\n\r\n",
            "GET /\r\n\r\n",
            "GET / a HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET / HTTP/1.1x\r\nHost: a\r\n\r\n",
            "G@T / HTTP/1.1\r\nHost: a\r\n\r\n",
            "\n\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        ],
    );
}

#[test]
fn one_host_is_wanted() {
    refused_whole(
        400,
        &[
            "GET / HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
            "GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a b\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: u@a\r\n\r\n",
        ],
    );
    assert!(parsed("GET / HTTP/1.0\r\n\r\n").is_ok());
    assert!(parsed("GET / HTTP/1.1\r\nHost:\r\n\r\n").is_ok());
}

#[test]
fn methods_versions_and_expectations_that_are_not_known_have_their_status() {
    refused_whole(
        501,
        &[
            "BREW / HTTP/1.1\r\nHost: a\r\n\r\n",
            "get / HTTP/1.1\r\nHost: a\r\n\r\n",
            "CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n",
        ],
    );
    refused_whole(
        505,
        &[
            "GET / HTTP/2.0\r\nHost: a\r\n\r\n",
            "GET / HTTP/1.2\r\nHost: a\r\n\r\n",
        ],
    );
    refused(417, &["Expect: more\r\n"]);
    refused(400, &["Expect: 100-continue\r\nExpect: 100-continue\r\n"]);
}

#[test]
fn targets_have_a_path_a_query_and_a_host() {
    let parts = |target: &str| {
        let text = format!("OPTIONS {target} HTTP/1.1\r\nHost: a:1\r\n\r\n");
        let head = parsed(&text).ok()?;
        let part = |span: baton_http::span::Span| {
            String::from_utf8_lossy(span.in_bytes(text.as_bytes())).into_owned()
        };
        Some([part(head.path), part(head.query), part(head.host)])
    };
    let is = |target: &str, wanted: [&str; 3]| {
        assert_eq!(parts(target), Some(wanted.map(str::to_owned)), "{target}");
    };
    is("/a?b=c?d", ["/a", "b=c?d", "a:1"]);
    is("/?", ["/", "", "a:1"]);
    is("//x", ["//x", "", "a:1"]);
    is("*", ["*", "", "a:1"]);
    is("HTTP://other:2/x?y", ["/x", "y", "other:2"]);
    is(
        "http://other?y",
        ["/", "y", "other:2"].map(|part| if part == "other:2" { "other" } else { part }),
    );
    for wrong in [
        "x",
        "/a#b",
        "http://",
        "http:///x",
        "http://u@h/",
        "ftp://a/",
        "**",
    ] {
        assert_eq!(parts(wrong), None, "{wrong}");
    }
}

#[test]
fn a_connection_stays_as_its_version_and_options_say() {
    let stays = |version: &str, line: &str| {
        let text = format!("GET / HTTP/{version}\r\nHost: a\r\n{line}\r\n");
        parsed(&text).map(|head| head.framing.keeps_alive)
    };
    assert_eq!(stays("1.1", ""), Ok(true));
    assert_eq!(stays("1.1", "Connection: foo , CLOSE\r\n"), Ok(false));
    assert_eq!(stays("1.0", ""), Ok(false));
    assert_eq!(stays("1.0", "Connection: Keep-Alive\r\n"), Ok(true));
    assert_eq!(stays("1.0", "Connection: keep-alive, close\r\n"), Ok(false));
}

#[test]
fn a_head_that_comes_byte_by_byte_is_looked_at_once() {
    let text = b"\r\n\r\nGET /x HTTP/1.1\r\nHost: a\r\nA: b\r\n\r\nrest";
    let mut seen = 0;
    for size in 0..text.len() - 4 {
        let mut head = Head::default();
        let found = parse(&text[..size], &mut seen, LIMIT, &mut head);
        assert_eq!(found, Err(Missing::Partial), "{size}");
    }
    let mut head = Head::default();
    assert_eq!(parse(text, &mut seen, LIMIT, &mut head), Ok(()));
    assert_eq!(head.size as usize, text.len() - 4);
    assert_eq!(head.path.in_bytes(text), b"/x");
    // It goes on at the beginning of the last line.
    assert_eq!(seen, text.len() - 6);
}

#[test]
fn long_heads_and_many_fields_are_refused() {
    let long = format!("A: {}\r\n", "x".repeat(LIMIT));
    refused(431, &[&long, &"A: b\r\n".repeat(100)]);
    assert!(with(&"A: b\r\n".repeat(99)).is_ok());
    let mut head = Head::default();
    let endless = vec![b'x'; LIMIT];
    let found = parse(&endless, &mut 0, LIMIT, &mut head);
    assert_eq!(found, Err(Missing::Refused(431)));
    let found = parse(&b"\r\n".repeat(LIMIT), &mut 0, LIMIT, &mut head);
    assert_eq!(found, Err(Missing::Refused(431)));
}
