//! The metrics as Prometheus and its tool see them.
#![cfg(target_os = "linux")]

mod harness;

use harness::observed::ask;
use harness::scraped::{BUSY, OPEN_METRICS, free_port, scrape, serving, serving_at_a_socket};
use harness::skip::is_missing;
use serde_json::Value;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Keeps metrics of each kind of its own. Of 100 times, 90 are below 0.1 s, and the others between
/// 0.2 and 0.4 s.
const SHOP: &str = "
    local inspect = require 'baton.inspect'
    inspect.gauge('shop_stock', 'pieces in stock', { labels = { 'article' } }):set(7, 'hat')
    inspect.counter('shop_orders', 'orders'):add(100)
    local times = inspect.histogram('shop_order_seconds', 'times of orders',
      { labels = { 'route' }, bounds = { 0.1, 0.2, 0.4, 0.8 } })
    for i = 1, 90 do times:observe(0.05, '/') end
    for i = 1, 10 do times:observe(0.3, '/') end
    print 'ready'
    io.stdout:flush()
    process.sleep(3600)";

/// What `promtool check metrics` finds wrong.
fn lint(text: &str) -> String {
    let mut promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut stdin = promtool.stdin.take().expect("a pipe");
    stdin.write_all(text.as_bytes()).expect("it reads");
    drop(stdin);
    let output = promtool.wait_with_output().expect("it ends");
    let mut all = String::from_utf8_lossy(&output.stdout).into_owned();
    all += &String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.success(), all.is_empty(), "{all}");
    all
}

fn promtool_is_missing(what: &str) -> bool {
    is_missing(&["promtool", "--version"], "prometheus", what)
}

#[test]
fn promtool_finds_nothing_wrong() {
    if promtool_is_missing("metrics, by promtool") {
        return;
    }
    let (program, path, _home) = serving_at_a_socket(BUSY);
    let served = scrape(&path, "*/*");
    let written = ask("metrics", &program, &[]);
    program.signal_until_it_ends("KILL");
    assert_eq!(lint(&served), "", "{served}");
    assert_eq!(lint(&written.succeeds().stdout), "");
}

/// Node exporter's textfile collector and its like read only Prometheus' own format.
#[test]
fn both_formats_have_the_same_values() {
    let (program, path, _home) = serving_at_a_socket(BUSY);
    let one = scrape(&path, "*/*");
    let other = scrape(&path, OPEN_METRICS);
    let written = ask("metrics", &program, &["--openmetrics"]);
    program.signal_until_it_ends("KILL");
    let names = |text: &str| {
        // Who waits, and who is in a call, differs from moment to moment.
        const OTHERS: [&str; 3] = ["#", "baton_waiting_", "baton_foreign_calls_"];
        let lines = text.lines();
        lines
            .filter(|line| !OTHERS.iter().any(|other| line.starts_with(other)))
            .map(|line| line.rsplit_once(' ').expect("a value").0.to_owned())
            .collect::<Vec<_>>()
    };
    assert!(names(&one).len() > 40, "{one}");
    assert_eq!(names(&one), names(&other));
    let written = written.succeeds().stdout.clone();
    assert_eq!(names(&one), names(&written));
    assert!(
        one.contains("# TYPE baton_switches_total counter\n"),
        "{one}"
    );
    for text in [&other, &written] {
        assert!(text.contains("# TYPE baton_switches counter\n"), "{text}");
        assert!(text.ends_with("# EOF\n"), "{text}");
    }
}

#[test]
fn promtool_finds_nothing_wrong_with_a_programs_own_metrics() {
    if promtool_is_missing("a program's own metrics, by promtool") {
        return;
    }
    let (program, path, _home) = serving_at_a_socket(SHOP);
    let text = scrape(&path, "text/plain");
    program.signal_until_it_ends("KILL");
    assert!(text.contains("\nshop_stock{article=\"hat\"} 7\n"), "{text}");
    assert_eq!(lint(&text), "");
}

/// Debian's Prometheus, with its data in a directory of its own. Killed when it is dropped.
struct Prometheus {
    server: Child,
    port: u16,
    _home: tempfile::TempDir,
}

impl Prometheus {
    /// Scrapes what serves at this port.
    fn of(target: u16) -> Prometheus {
        let home = tempfile::tempdir().expect("a directory");
        let file = home.path().join("prometheus.yml");
        let config = format!(
            "global:\n  scrape_interval: 1s\n  scrape_timeout: 1s\n\
             scrape_configs:\n- job_name: baton\n  static_configs:\n  \
             - targets: ['127.0.0.1:{target}']\n"
        );
        fs::write(&file, config).expect("it can be written");
        let port = free_port("127.0.0.1");
        let option = |name: &str, value: &Path| format!("--{name}={}", value.display());
        let server = Command::new("prometheus")
            .arg(option("config.file", &file))
            .arg(option("storage.tsdb.path", &home.path().join("data")))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        Prometheus {
            server,
            port,
            _home: home,
        }
    }

    /// The values that a query finds. None until there are some.
    fn query(&self, query: &str) -> Option<Vec<f64>> {
        let mut client = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        let query: String = query.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let request =
            format!("GET /api/v1/query?query={query} HTTP/1.0\r\nHost: localhost\r\n\r\n");
        client.write_all(request.as_bytes()).ok()?;
        let mut answer = String::new();
        client.read_to_string(&mut answer).ok()?;
        let body: Value = serde_json::from_str(answer.split_once("\r\n\r\n")?.1).ok()?;
        let result = body["data"]["result"].as_array()?;
        let number = |one: &Value| one["value"][1].as_str()?.parse().ok();
        let numbers: Vec<f64> = result.iter().filter_map(number).collect();
        (!numbers.is_empty()).then_some(numbers)
    }

    /// The one value that a query finds at last.
    fn value(&self, query: &str) -> f64 {
        let until = Instant::now() + Duration::from_secs(120);
        loop {
            match self.query(query).as_deref() {
                Some(&[value]) => return value,
                found => assert!(Instant::now() < until, "{query}: {found:?}"),
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

#[test]
fn prometheus_scrapes_a_program_and_finds_quantiles() {
    if is_missing(
        &["prometheus", "--version"],
        "prometheus",
        "metrics, by Prometheus",
    ) {
        return;
    }
    let port = free_port("127.0.0.1");
    let program = serving(SHOP, &format!("127.0.0.1:{port}"));
    let prometheus = Prometheus::of(port);
    let close = |query: &str, expected: f64| {
        let value = prometheus.value(query);
        assert!((value - expected).abs() < 1e-6, "{query}: {value}");
    };
    // The middle of 90 values below 0.1, and the middle of 10 between 0.2 and 0.4.
    close("histogram_quantile(0.45, shop_order_seconds_bucket)", 0.05);
    close("histogram_quantile(0.95, shop_order_seconds_bucket)", 0.3);
    close("shop_orders_total", 100.0);
    close("shop_stock{article='hat'}", 7.0);
    close("up", 1.0);
    close("baton_live", 1.0);
    assert!(prometheus.value("process_resident_memory_bytes") > f64::from(1 << 20));
    let age = prometheus.value("time() - process_start_time_seconds");
    assert!((-60.0..600.0).contains(&age), "{age}");
    program.signal_until_it_ends("KILL");
}
