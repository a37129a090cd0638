//! Requests and answers of HTTP, as far as the exporter needs them.

use super::{Text, TextFormat};
use std::fmt::Write as _;

impl TextFormat {
    /// Its type in HTTP.
    pub(super) fn media_type(self) -> &'static str {
        match self {
            TextFormat::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            TextFormat::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// What the client likes best. One that does not say, or names other formats only, gets
    /// Prometheus' own, which all of them read.
    fn liked_by(accept: Option<&str>) -> TextFormat {
        let (mut open_metrics, mut prometheus) = (0.0, 0.0);
        for range in accept.unwrap_or_default().split(',') {
            let mut parts = range.split(';').map(str::trim);
            let name = parts.next().unwrap_or_default().to_ascii_lowercase();
            let (mut weight, mut version) = (1.0, None);
            for parameter in parts {
                match parameter.split_once('=') {
                    Some(("q", text)) => weight = text.parse().unwrap_or(0.0),
                    Some(("version", text)) => version = Some(text.trim_matches('"')),
                    _ => {}
                }
            }
            match (name.as_str(), version) {
                ("application/openmetrics-text", None | Some("1.0.0")) => {
                    open_metrics = f32::max(open_metrics, weight);
                }
                ("text/plain", None | Some("0.0.4")) | ("text/*" | "*/*", _) => {
                    prometheus = f32::max(prometheus, weight);
                }
                _ => {}
            }
        }
        match open_metrics > 0.0 && open_metrics >= prometheus {
            true => TextFormat::OpenMetrics,
            false => TextFormat::Prometheus,
        }
    }
}

/// An answer to a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Answer {
    status: &'static str,
    kind: &'static str,
    body: String,
    /// Whether only the head is sent.
    is_head: bool,
}

impl Answer {
    pub(super) fn error(status: &'static str, why: impl Into<String>) -> Answer {
        Answer {
            status,
            kind: "text/plain; charset=utf-8",
            body: why.into() + "\n",
            is_head: false,
        }
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        let mut bytes = String::new();
        // A string takes all that is written to it.
        let _ = write!(
            bytes,
            "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            self.status,
            self.kind,
            self.body.len()
        );
        if !self.is_head {
            bytes += &self.body;
        }
        bytes.into_bytes()
    }
}

/// The answer to a request with this head.
pub(super) fn answer(head: &[u8], on_network: bool, text: &Text) -> Answer {
    let Some(request) = Request::parse(head) else {
        return Answer::error(
            "400 Bad Request",
            "a request of HTTP/1.1 or HTTP/1.0 expected",
        );
    };
    let Request {
        method,
        path,
        host,
        accept,
    } = request;
    if on_network && !host.is_none_or(is_this_machine) {
        return Answer::error(
            "403 Forbidden",
            "the host of the request is not this machine",
        );
    }
    let is_head = method == "HEAD";
    if !is_head && method != "GET" {
        return Answer::error("405 Method Not Allowed", "GET expected");
    }
    let path = path.split_once('?').map_or(path, |(path, _)| path);
    if path != "/metrics" && path != "/" {
        return Answer::error("404 Not Found", "the metrics are at /metrics");
    }
    let format = TextFormat::liked_by(accept.as_deref());
    match text(format) {
        Ok(body) => Answer {
            status: "200 OK",
            kind: format.media_type(),
            body,
            is_head,
        },
        Err(why) => Answer::error("500 Internal Server Error", why),
    }
}

/// What matters of a request.
struct Request<'a> {
    method: &'a str,
    path: &'a str,
    host: Option<&'a str>,
    /// All such lines of the request, joined.
    accept: Option<String>,
}

impl Request<'_> {
    fn parse(head: &[u8]) -> Option<Request<'_>> {
        let mut lines = std::str::from_utf8(head).ok()?.split("\r\n");
        let mut words = lines.next()?.split(' ');
        let (method, path, version) = (words.next()?, words.next()?, words.next()?);
        if !version.starts_with("HTTP/1.") || words.next().is_some() {
            return None;
        }
        let (mut host, mut accept) = (None, None::<String>);
        for line in lines {
            let (name, value) = line.split_once(':')?;
            if name.eq_ignore_ascii_case("host") && host.replace(value.trim()).is_some() {
                return None;
            }
            if name.eq_ignore_ascii_case("accept") {
                let all = accept.get_or_insert_default();
                all.push_str(value);
                all.push(',');
            }
        }
        Some(Request {
            method,
            path,
            host,
            accept,
        })
    }
}

/// Whether a `Host` is a name of this machine for itself, with a port or without.
fn is_this_machine(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    ["127.0.0.1", "[::1]", "localhost"]
        .iter()
        .any(|own| name.eq_ignore_ascii_case(own))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn text() -> Text {
        Arc::new(|_| Ok("# EOF\n".to_owned()))
    }

    fn status(head: &str, on_network: bool) -> &'static str {
        answer(head.as_bytes(), on_network, &text()).status
    }

    #[test]
    fn a_client_gets_the_format_that_it_likes_best() {
        use TextFormat::{OpenMetrics, Prometheus};
        for (accept, expected) in [
            ("", Prometheus),
            ("Accept: */*\r\n", Prometheus),
            ("Accept: application/json\r\n", Prometheus),
            ("Accept: application/openmetrics-text\r\n", OpenMetrics),
            // Prometheus 2.42
            (
                "Accept: application/openmetrics-text;version=1.0.0,\
                 application/openmetrics-text;version=0.0.1;q=0.75,\
                 text/plain;version=0.0.4;q=0.5,*/*;q=0.1\r\n",
                OpenMetrics,
            ),
            // Prometheus 3 without OpenMetrics, and telegraf
            (
                "accept: text/plain;version=1.0.0;escaping=allow-utf-8;q=0.6,\
                 text/plain;version=0.0.4;q=0.5,*/*;q=0.4\r\n",
                Prometheus,
            ),
            (
                "Accept: application/openmetrics-text; q=0.2\r\nACCEPT: text/plain\r\n",
                Prometheus,
            ),
            (
                "Accept: application/openmetrics-text;version=0.0.1\r\n",
                Prometheus,
            ),
            ("Accept: application/openmetrics-text;q=0\r\n", Prometheus),
            (
                "Accept: text/html;q=x, Application/OpenMetrics-Text; q=0.1\r\n",
                OpenMetrics,
            ),
        ] {
            let head = format!("GET /metrics HTTP/1.1\r\n{accept}Host: localhost");
            let answer = answer(head.as_bytes(), true, &text());
            assert_eq!(answer.kind, expected.media_type(), "{accept}");
        }
    }

    #[test]
    fn each_request_gets_its_status() {
        for (head, expected) in [
            ("GET /metrics HTTP/1.1\r\nHost: localhost:90", "200 OK"),
            ("GET / HTTP/1.0", "200 OK"),
            ("HEAD /metrics?x=1 HTTP/1.1\r\nhost:[::1]", "200 OK"),
            ("POST /metrics HTTP/1.1", "405 Method Not Allowed"),
            ("GET /other HTTP/1.1", "404 Not Found"),
            ("GET /metrics HTTP/2", "400 Bad Request"),
            ("GET /metrics", "400 Bad Request"),
            ("", "400 Bad Request"),
            ("GET / HTTP/1.1\r\nHost: a\r\nHost: b", "400 Bad Request"),
            ("GET / HTTP/1.1\r\nHost: evil.example:80", "403 Forbidden"),
            (
                "GET / HTTP/1.1\r\nHost: 127.0.0.1.evil.example",
                "403 Forbidden",
            ),
        ] {
            assert_eq!(status(head, true), expected, "{head}");
        }
        // A Unix socket is reached by no browser.
        assert_eq!(status("GET / HTTP/1.1\r\nHost: anything", false), "200 OK");
    }

    #[test]
    fn an_answer_is_whole() {
        let bytes = answer(b"GET / HTTP/1.1", true, &text()).into_bytes();
        let expected = "HTTP/1.1 200 OK\r\n\
                        Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
                        Content-Length: 6\r\nConnection: close\r\n\r\n# EOF\n";
        assert_eq!(String::from_utf8_lossy(&bytes), expected);
        let head = answer(b"HEAD / HTTP/1.1", true, &text()).into_bytes();
        assert!(head.ends_with(b"\r\n\r\n") && head.len() + 6 == bytes.len());
    }
}
