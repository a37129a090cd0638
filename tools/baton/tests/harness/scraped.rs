//! Programs that serve their metrics (`BATON_METRICS`), and what they serve.

use super::Started;
use super::observed::{observed, ready};
use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// What a client says that wants OpenMetrics text.
pub(crate) const OPEN_METRICS: &str = "application/openmetrics-text";

/// A call in C and slices and timers that are noted in all histograms.
pub(crate) const BUSY: &str = "
    process.concurrent('blocker', 'concurrent')
    local blocker = require 'blocker'
    for _ = 1, 2 do
      process.spawn({ daemon = true }, function() while true do end end)
    end
    process.spawn({ daemon = true }, function() while true do process.sleep(0.001) end end)
    for _ = 1, 3 do blocker.block_ms(200) end
    process.sleep(0.1)
    print 'ready'
    io.stdout:flush()
    io.read()";

pub(crate) fn serving(code: &str, address: &str) -> Started {
    let run = observed(code).open_stdin();
    ready(run.env("BATON_METRICS", address))
}

/// A program that serves at a socket in a directory of its own.
pub(crate) fn serving_at_a_socket(code: &str) -> (Started, PathBuf, tempfile::TempDir) {
    let home = tempfile::tempdir().expect("a directory");
    let path = home.path().join("metrics");
    let program = serving(code, &format!("unix:{}", path.display()));
    (program, path, home)
}

/// A port that was free a moment ago.
pub(crate) fn free_port(host: &str) -> u16 {
    let listener = TcpListener::bind((host, 0)).expect("a port");
    listener.local_addr().expect("an address").port()
}

/// What the exporter at a socket answers to these bytes.
pub(crate) fn answer_of(path: &Path, request: &[u8]) -> String {
    let mut client = UnixStream::connect(path).expect("it listens");
    // The other side may have answered and closed already.
    let _ = client.write_all(request);
    let mut answer = Vec::new();
    let _ = client.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

/// The values of a text, by name and labels.
pub(crate) fn samples(text: &str) -> HashMap<&str, f64> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| line.rsplit_once(' ').expect("a value"))
        .map(|(name, value)| (name, value.parse().expect("a number")))
        .collect()
}

/// The metrics that a program serves at a socket, in this format.
pub(crate) fn scrape(path: &Path, accept: &str) -> String {
    let request = format!("GET /metrics HTTP/1.1\r\nHost: localhost\r\nAccept: {accept}\r\n\r\n");
    let answer = answer_of(path, request.as_bytes());
    let (head, text) = answer.split_once("\r\n\r\n").expect("a head");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    text.to_owned()
}
