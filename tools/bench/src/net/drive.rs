//! One run of `net`: starts a server, loads it, ends it, and prints the figures.

use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use super::client::{Client, Protocol};
use super::server::Server;
use crate::child;
use crate::output;
use crate::stats;

/// The descriptors that a server and this program need besides those of the connections.
const OTHER_DESCRIPTORS: u64 = 100;

/// The time for which all connections are idle.
const IDLE: Duration = Duration::from_secs(1);

/// Starts the server, loads it and prints these figures:
///
/// - `rps`: requests per second
/// - `p50_us`, `p99_us`: time of an answer, in microseconds
/// - `cpu_us`: CPU time of the server for each request, in microseconds
/// - `kib`: memory of the server for each connection, in KiB
/// - `threads`: native threads of the server
/// - `idle_ms`: CPU time in one second in which all connections are idle, in milliseconds
pub(crate) fn run(server: &str, protocol: &str, connections: usize, seconds: f64) -> Result<()> {
    allow_descriptors(connections as u64)?;
    let words: Vec<String> = serde_json::from_str(server)
        .context("the server's command line is no list of words in JSON")?;
    let kind = match protocol {
        "echo" => Protocol::Echo,
        "http" => Protocol::Http,
        "json" => Protocol::Json,
        "work" => Protocol::Work,
        "wrk" => return run_wrk(&words, connections, seconds),
        other => bail!("expected echo, http, json, work or wrk for the protocol, got '{other}'"),
    };
    let server = Server::start(&words, protocol)?;
    let empty = server.usage()?;
    let mut client = Client::connect(server.address(), kind, connections)?;
    let full = server.usage()?;
    thread::sleep(IDLE);
    let idle = server.usage()?;
    let load = client.load(Duration::from_secs_f64(seconds))?;
    let loaded = server.usage()?;
    let answered = load.answered as f64;
    let figures = [
        ("rps", answered / load.elapsed.as_secs_f64()),
        (
            "p50_us",
            stats::percentile(&load.took, 50.0).unwrap_or(f64::NAN),
        ),
        (
            "p99_us",
            stats::percentile(&load.took, 99.0).unwrap_or(f64::NAN),
        ),
        (
            "cpu_us",
            (loaded.cpu - idle.cpu).as_secs_f64() * 1e6 / answered,
        ),
        // Buffers may have grown under load, so the larger value counts.
        (
            "kib",
            (full.kib.max(loaded.kib) - empty.kib) / connections as f64,
        ),
        ("threads", loaded.threads),
        (
            "idle_ms",
            (idle.cpu - full.cpu).as_secs_f64() * 1e3 / IDLE.as_secs_f64(),
        ),
    ];
    print(&figures)
}

fn print(figures: &[(&str, f64)]) -> Result<()> {
    let lines: String = figures
        .iter()
        .map(|(name, figure)| format!("{name} {figure:.3}\n"))
        .collect();
    output::print(&lines)
}

/// Raises the limit on descriptors, for this program and its children.
pub(crate) fn allow_descriptors(connections: u64) -> Result<()> {
    let wanted = connections + OTHER_DESCRIPTORS;
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    if soft >= wanted {
        return Ok(());
    }
    if hard < wanted {
        bail!(
            "{connections} connections need {wanted} descriptors, and {hard} are allowed here \
             (ulimit -Hn)"
        );
    }
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).context("cannot raise the limit on descriptors")
}

/// Loads the server with `wrk`, a well-known client. It needs at least as many connections as
/// threads, and here it has one thread.
fn run_wrk(words: &[String], connections: usize, seconds: f64) -> Result<()> {
    let server = Server::start(words, "http")?;
    let before = server.usage()?;
    let mut wrk = Command::new("wrk");
    wrk.args(["--latency", "-t", "1", "-c", &connections.to_string()])
        .args(["-d", &format!("{}s", seconds.ceil())])
        .arg(format!("http://{}/", server.address()));
    let run = child::run(&mut wrk, Duration::from_secs_f64(seconds + 60.0))
        .context("install it: apt-get install wrk")?
        .succeeded("wrk")?;
    let after = server.usage()?;
    let said = Said::of(&run.output)
        .with_context(|| format!("wrk said something unknown:\n{}", run.output))?;
    if said.failed > 0.0 {
        bail!(
            "wrk counts {} answers that were not 200, or none:\n{}",
            said.failed,
            run.output
        );
    }
    print(&[
        ("rps", said.rate),
        ("p50_us", said.p50),
        ("p99_us", said.p99),
        (
            "cpu_us",
            (after.cpu - before.cpu).as_secs_f64() * 1e6 / said.requests,
        ),
        ("threads", after.threads),
    ])
}

/// The figures that `wrk` prints, in requests per second and microseconds.
#[derive(Debug, PartialEq)]
struct Said {
    rate: f64,
    p50: f64,
    p99: f64,
    requests: f64,
    failed: f64,
}

impl Said {
    fn of(output: &str) -> Option<Self> {
        let behind = |name: &str| {
            let line = output
                .lines()
                .find_map(|line| line.trim().strip_prefix(name));
            line.map(str::trim)
        };
        let requests = output
            .lines()
            .find_map(|line| line.trim().split_once(" requests in "))?;
        // "Socket errors: connect 0, read 3, write 0, timeout 0". A read error means that the
        // server has closed a connection.
        let of_sockets = behind("Socket errors:").map(|list| {
            let counts = list.split(|symbol: char| !symbol.is_ascii_digit());
            counts.filter_map(|word| word.parse::<f64>().ok()).sum()
        });
        let wrong: Option<f64> =
            behind("Non-2xx or 3xx responses:").and_then(|count| count.parse().ok());
        Some(Self {
            rate: behind("Requests/sec:")?.parse().ok()?,
            p50: microseconds(behind("50%")?)?,
            p99: microseconds(behind("99%")?)?,
            requests: requests.0.parse().ok()?,
            failed: of_sockets.unwrap_or(0.0) + wrong.unwrap_or(0.0),
        })
    }
}

/// Parses a time as `wrk` prints it: `1.50ms`.
fn microseconds(text: &str) -> Option<f64> {
    let (number, unit) = text.split_at(text.find(|symbol: char| symbol.is_ascii_alphabetic())?);
    let factor = match unit {
        "us" => 1.0,
        "ms" => 1e3,
        "s" => 1e6,
        "m" => 60e6,
        _ => return None,
    };
    Some(number.parse::<f64>().ok()? * factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "\
Running 2s test @ http://127.0.0.1:1/
  1 threads and 10 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     1.10ms  200.00us   3.00ms   90.00%
    Req/Sec     9.00k     1.00k   10.00k    80.00%
  Latency Distribution
     50%    1.00ms
     75%    1.20ms
     90%    1.50ms
     99%  750.00us
  18000 requests in 2.00s, 2.00MB read
";

    #[test]
    fn the_output_of_wrk_is_parsed() {
        let said = Said::of(&format!(
            "{OUTPUT}Requests/sec:   9000.50\nTransfer/sec: 1MB\n"
        ))
        .unwrap();
        let expected = Said {
            rate: 9000.5,
            p50: 1000.0,
            p99: 750.0,
            requests: 18000.0,
            failed: 0.0,
        };
        assert_eq!(said, expected);
        let failed = "  Socket errors: connect 0, read 3, write 0, timeout 1\n  Non-2xx or 3xx \
                      responses: 2\nRequests/sec: 1\n";
        assert_eq!(Said::of(&format!("{OUTPUT}{failed}")).unwrap().failed, 6.0);
        assert_eq!(Said::of("nothing"), None);
    }
}
