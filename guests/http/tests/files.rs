//! Files as replies: paths, types, conditions and ranges.

use baton_http::files::conditions::{Asked, Chosen, File, choose};
use baton_http::files::{kinds, paths};

fn below(path: &str, has_hidden: bool) -> Option<(String, bool)> {
    let mut out = [0; 64];
    let named = paths::below(path.as_bytes(), true, has_hidden, &mut out)?;
    let text = String::from_utf8_lossy(&out[..named.size]).into_owned();
    Some((text, named.is_directory))
}

#[test]
fn a_path_names_a_file_below_or_nothing() {
    for (path, file, is_directory) in [
        ("/", "", true),
        ("", "", true),
        ("/a", "a", false),
        ("/a/", "a", true),
        ("/a%20b/c%2Ed", "a b/c.d", false),
        ("/a...b", "a...b", false),
        ("/100%", "100%", false),
    ] {
        assert_eq!(
            below(path, false),
            Some((file.to_owned(), is_directory)),
            "{path}"
        );
    }
    for path in [
        "/..",
        "/../a",
        "/a/..",
        "/a/../b",
        "/%2e%2e/a",
        "/.%2E",
        "/a/.",
        "/./a",
        "/%2e/a",
        "//",
        "//a",
        "/a//b",
        "/a//",
        "/a%2fb",
        "/a%2Fb",
        "/%2f",
        "/a%00",
        "/a\\b",
        "/..%5ca",
        "/..\\a",
        "/.git",
        "/.git/config",
        "/a/.env",
        "/%2egit",
    ] {
        assert_eq!(below(path, false), None, "{path}");
    }
    assert_eq!(below("/.a/b", true), Some((".a/b".to_owned(), false)));
    assert_eq!(below("/../b", true), None);
    assert_eq!(below(&"/a".repeat(40), false), None);
    // Nothing is decoded twice, and what is decoded already is not decoded at all.
    assert_eq!(
        below("/%252e%252e", false),
        Some(("%2e%2e".to_owned(), false))
    );
    let mut out = [0; 8];
    let named = paths::below(b"%2e%2e", false, false, &mut out).expect("a name");
    assert_eq!(&out[..named.size], b"%2e%2e");
}

#[test]
fn whatever_a_path_is_it_stays_below() {
    let parts = [
        "..", ".", "%2e", "%2E", "/", "%2f", "a", "\\", "%5c", "%", "%00", "2e", "//",
    ];
    let mut seed: u64 = 7;
    for _ in 0..20_000 {
        let mut path = String::new();
        for _ in 0..6 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            path.push_str(parts[(seed >> 33) as usize % parts.len()]);
        }
        if let Some((file, _)) = below(&path, true) {
            let is_wrong = |segment: &str| matches!(segment, "" | "." | "..");
            assert!(file.is_empty() || !file.split('/').any(is_wrong), "{path}");
            assert!(!file.contains(['\\', '\0']), "{path}");
        }
    }
}

#[test]
fn types_follow_endings() {
    assert_eq!(kinds::of(b"a/b.HTML"), "text/html; charset=utf-8");
    assert_eq!(kinds::of(b"b.tar.gz"), "application/gzip");
    for path in ["a.css/b", "none", "", "a.", "a.unknown"] {
        assert_eq!(kinds::of(path.as_bytes()), "application/octet-stream");
    }
}

const ETAG: &[u8] = b"\"tag\"";
/// Sun, 06 Nov 1994 08:49:37 GMT
const MODIFIED: u64 = 784_111_777;

fn chosen(asked: Asked<'_>, size: u64) -> (u32, u64, u64) {
    let file = File {
        etag: ETAG,
        modified: MODIFIED,
        size,
    };
    let Chosen {
        status,
        start,
        size,
    } = choose(&asked, &file);
    (status, start, size)
}

fn ranged(range: &str, if_range: &str) -> (u32, u64, u64) {
    let asked = Asked {
        range: range.as_bytes(),
        if_range: if_range.as_bytes(),
        ..Asked::default()
    };
    chosen(asked, 100)
}

#[test]
fn a_client_that_has_the_file_is_told_so() {
    for (tags, since, status) in [
        ("\"tag\"", "", 304),
        ("W/\"tag\"", "", 304),
        ("\"a\", \"tag\"", "", 304),
        ("*", "", 304),
        ("\"a\"", "Sun, 06 Nov 1994 08:49:37 GMT", 200),
        ("", "Sun, 06 Nov 1994 08:49:37 GMT", 304),
        ("", "Sun, 06 Nov 1994 08:49:38 GMT", 304),
        ("", "Sun, 06 Nov 1994 08:49:36 GMT", 200),
        ("", "yesterday", 200),
        ("", "", 200),
    ] {
        let asked = Asked {
            if_none_match: tags.as_bytes(),
            if_modified_since: since.as_bytes(),
            ..Asked::default()
        };
        assert_eq!(chosen(asked, 100).0, status, "{tags} {since}");
    }
}

#[test]
fn one_range_is_sent_and_others_are_not() {
    let whole = (200, 0, 100);
    for (range, wanted) in [
        ("bytes=0-0", (206, 0, 1)),
        ("bytes=10-19", (206, 10, 10)),
        ("BYTES= 10 - 19 ", (206, 10, 10)),
        ("bytes=90-", (206, 90, 10)),
        ("bytes=90-1000", (206, 90, 10)),
        ("bytes=-10", (206, 90, 10)),
        ("bytes=-1000", (206, 0, 100)),
        ("bytes=100-", (416, 0, 0)),
        ("bytes=-0", (416, 0, 0)),
        ("bytes=9223372036854775807-", (416, 0, 0)),
        ("bytes=0-9223372036854775807", (206, 0, 100)),
        ("bytes=0-1,5-6", whole),
        ("bytes=5-4", whole),
        ("bytes=-", whole),
        ("bytes=", whole),
        ("bytes", whole),
        ("bytes=a-b", whole),
        ("bytes=+1-2", whole),
        ("bytes=99999999999999999999-", whole),
        ("lines=1-2", whole),
        ("", whole),
    ] {
        assert_eq!(ranged(range, ""), wanted, "{range}");
    }
    let asked = Asked {
        range: b"bytes=0-",
        ..Asked::default()
    };
    assert_eq!(chosen(asked, 0), (416, 0, 0));
}

#[test]
fn a_range_of_another_file_gives_all_of_it() {
    for (if_range, status) in [
        ("\"tag\"", 206),
        ("W/\"tag\"", 200),
        ("\"other\"", 200),
        ("Sun, 06 Nov 1994 08:49:37 GMT", 206),
        ("Sun, 06 Nov 1994 08:49:38 GMT", 200),
        ("nonsense", 200),
    ] {
        assert_eq!(ranged("bytes=1-2", if_range).0, status, "{if_range}");
    }
}
