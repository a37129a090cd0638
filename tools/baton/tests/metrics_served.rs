//! `BATON_METRICS`: counters and histograms over HTTP; and what the metrics mean.
#![cfg(target_os = "linux")]

mod harness;

use harness::observed;
use harness::readers::readers;
use harness::scraped::{
    BUSY, OPEN_METRICS, answer_of, free_port, samples, scrape, serving, serving_at_a_socket,
};
use harness::skip::skip;
use harness::{Outcome, Run, baton, baton_path};
use std::collections::HashMap;
use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// A program that waits for a line.
const WAITS: &str = "print 'ready' io.stdout:flush() io.read()";

fn curl(arguments: &[&str]) -> Option<String> {
    let output = Command::new("curl")
        .args(["--silent", "--show-error", "--max-time", "60"])
        .args(arguments)
        .output();
    let Ok(output) = output else {
        skip("metrics, by curl", "install curl");
        return None;
    };
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    Some(String::from_utf8(output.stdout).expect("UTF-8"))
}

#[test]
fn curl_reads_the_metrics_from_a_unix_socket() {
    let (mut program, path, _home) = serving_at_a_socket(BUSY);
    let mode = fs::metadata(&path).expect("a socket").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let socket = path.to_string_lossy().into_owned();
    let arguments = ["--unix-socket", &socket, "http://localhost/metrics"];
    let Some(text) = curl(&arguments) else { return };
    let values = samples(&text);
    assert!(values["baton_switches_total"] > 0.0);
    assert!(values["baton_lateness_seconds_count"] > 10.0, "{text}");
    assert!(values["baton_slice_overrun_seconds_count"] > 0.0, "{text}");
    // Calls of 200 ms, beside which others ran for most of the time.
    let of_blocker = |name: &str| values[&*format!("{name}{{function=\"block_ms\"}}")];
    let count = of_blocker("baton_foreign_call_seconds_count");
    let sum = of_blocker("baton_foreign_call_seconds_sum");
    assert!((1.0..=3.0).contains(&count), "{text}");
    assert!(sum > 0.05 * count, "{text}");
    // The same from outside, by the other way.
    let outside = Run::of(baton_path())
        .arg("metrics")
        .arg(program.pid().to_string())
        .run();
    outside.succeeds();
    let outside = samples(&outside.stdout);
    let names = |values: &HashMap<&str, f64>| {
        // What is waited for changes all the time.
        let lasting = values
            .keys()
            .filter(|name| !name.starts_with("baton_waiting_"));
        let mut names: Vec<String> = lasting.map(|name| (*name).to_owned()).collect();
        names.sort();
        names
    };
    assert_eq!(names(&values), names(&outside));
    program.write_stdin("\n");
    program.finish().succeeds();
    assert!(!path.exists(), "the end of the program removes the socket");
}

/// By the parser of the Python package `prometheus_client`.
#[test]
fn prometheuss_parser_reads_the_metrics() {
    let python = readers("python").join("bin/python");
    if !python.exists() {
        return skip("metrics, by prometheus_client", "run cargo xtask readers");
    }
    let (program, path, home) = serving_at_a_socket(BUSY);
    let text = scrape(&path, OPEN_METRICS);
    program.signal_until_it_ends("KILL");
    let file = home.path().join("metrics.txt");
    fs::write(&file, &text).expect("it can be written");
    let script =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../formats/tests/readers/openmetrics.py");
    let output = Command::new(python)
        .arg("-I")
        .arg(script)
        .arg(&file)
        .output();
    let output = output.expect("it starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let families: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let families = families.as_array().expect("a list");
    let kind = |name: &str| {
        let family = families.iter().find(|family| family["name"] == name);
        family.unwrap_or_else(|| panic!("no {name}"))["type"].clone()
    };
    for name in ["lateness", "slice_overrun", "foreign_call"] {
        assert_eq!(kind(&format!("baton_{name}_seconds")), "histogram");
    }
    assert_eq!(kind("baton_retakes"), "counter");
}

#[test]
fn both_loopback_addresses_serve() {
    for (host, shown) in [("127.0.0.1", "127.0.0.1"), ("::1", "[::1]")] {
        if TcpListener::bind((host, 0)).is_err() {
            skip("metrics at [::1]", "this machine has no IPv6");
            continue;
        }
        let address = format!("{shown}:{}", free_port(host));
        let mut program = serving(WAITS, &address);
        let url = format!("http://{address}/metrics");
        let Some(text) = curl(&[&url]) else { return };
        assert_eq!(samples(&text)["baton_live"], 1.0);
        let refused = curl(&[
            "-H",
            "Host: evil.example",
            "--write-out",
            "%{http_code}",
            &url,
        ]);
        assert!(refused.expect("curl").ends_with("403"));
        program.write_stdin("\n");
        program.finish().succeeds();
    }
}

#[test]
fn no_other_address_is_taken() {
    for address in [
        "0.0.0.0:9090",
        "9090",
        "localhost:9090",
        "[::]:1",
        "192.0.2.1:9090",
    ] {
        let run = baton().code("print 'runs'").env("BATON_METRICS", address);
        let expected = format!(
            "baton: BATON_METRICS: 'unix:PATH', '127.0.0.1:PORT' or '[::1]:PORT' expected, got \
             '{address}'; the metrics are not served"
        );
        run.run().succeeds().wrote("runs\n").complained(&expected);
    }
    baton()
        .code("print 'runs'")
        .env("BATON_METRICS", "")
        .run()
        .succeeds()
        .quietly();
}

#[test]
fn a_stale_socket_is_replaced_and_a_served_one_is_not() {
    let home = tempfile::tempdir().expect("a directory");
    let path = home.path().join("metrics");
    drop(UnixListener::bind(&path).expect("it is free"));
    let address = format!("unix:{}", path.display());
    let first = serving(WAITS, &address);
    baton()
        .code("print 'runs'")
        .env("BATON_METRICS", &address)
        .run()
        .succeeds()
        .wrote("runs\n")
        .complained("another program serves there; the metrics are not served");
    assert!(answer_of(&path, b"GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200 OK"));
    first.signal_until_it_ends("KILL");
    assert!(path.exists(), "a killed program leaves its socket");
    let mut second = serving(WAITS, &address);
    assert!(answer_of(&path, b"GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200 OK"));
    second.write_stdin("\n");
    second.finish().succeeds();
    fs::write(&path, "precious").expect("it can be written");
    baton()
        .code("print 'runs'")
        .env("BATON_METRICS", &address)
        .run()
        .complained("there is a file that is no socket");
    assert_eq!(fs::read_to_string(&path).expect("it is there"), "precious");
}

/// Clients that say nothing keep nobody out, and end after a while. The program runs on meanwhile.
#[test]
fn hostile_clients_harm_nobody() {
    let (mut program, path, _home) = serving_at_a_socket(
        "print 'ready'
         io.stdout:flush()
         for line in io.lines() do print(line) io.stdout:flush() end",
    );
    let silent: Vec<UnixStream> = (0..20)
        .map(|_| UnixStream::connect(&path).expect("it listens"))
        .collect();
    program.write_stdin("still here\n");
    program.await_stdout("still here\n");
    for request in [
        &b"\r\n\r\n"[..],
        b"GET",
        b"GET / HTTP/1.1\r\nno colon\r\n\r\n",
        &[0xff; 100_000],
        &[b'a'; 9_000],
    ] {
        let client = UnixStream::connect(&path).expect("it listens");
        let _ = (&client).write_all(request);
        let _ = client.shutdown(Shutdown::Write);
    }
    let began = Instant::now();
    let others: Vec<UnixStream> = (0..4)
        .map(|_| UnixStream::connect(&path).expect("it listens"))
        .collect();
    for _ in 0..10 {
        let answer = answer_of(&path, b"GET / HTTP/1.1\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    }
    drop((silent, others));
    let threads = || {
        let threads = fs::read_dir(format!("/proc/{}/task", program.pid()));
        threads.expect("it lives").count()
    };
    // Its own, the exporter's, and perhaps the monitor's.
    while threads() > 3 {
        assert!(
            began.elapsed() < Duration::from_secs(120),
            "threads are left"
        );
        std::thread::yield_now();
    }
    program.close_stdin();
    program.finish().succeeds();
}

/// More scrapers than there are places, while the metrics change. Each gets a whole answer.
#[test]
fn many_scrapers_at_once_are_all_answered() {
    let (program, path, _home) = serving_at_a_socket(
        "local inspect = require 'baton.inspect'
         local counter = inspect.counter('turns', 'turns', { labels = { 'who' } })
         for i = 1, 50 do
           process.spawn({ daemon = true }, function()
             while true do counter:add(1, i) process.yield() end
           end)
         end
         print 'ready'
         io.stdout:flush()
         process.sleep(3600)",
    );
    std::thread::scope(|scope| {
        for scraper in 0..12 {
            let path = &path;
            scope.spawn(move || {
                let mut last = 0.0;
                for _ in 0..5 {
                    let accept = ["text/plain", OPEN_METRICS][scraper % 2];
                    let text = scrape(path, accept);
                    assert_eq!(text.ends_with("# EOF\n"), accept == OPEN_METRICS);
                    let all = samples(&text);
                    let turns = all
                        .iter()
                        .filter(|(name, _)| name.starts_with("turns_total{"));
                    let sum: f64 = turns.map(|(_, value)| value).sum();
                    assert!(sum >= last, "a counter only grows");
                    last = sum;
                }
            });
        }
    });
    program.signal_until_it_ends("KILL");
}

/// A daemon closes what it has inherited, and opens its own files.
#[test]
fn a_forks_child_keeps_files_that_it_has_opened_in_place_of_the_socket() {
    let (mut program, _, _home) = serving_at_a_socket(
        "local forker = require 'forker'
         print 'ready'
         io.stdout:flush()
         if forker.fork_and_replace_sockets() == 0 then
           local count, open = forker.own_files()
           print(count > 0, open == count)
           io.stdout:flush()
           os.exit(0, false)
         end
         io.read()",
    );
    program.await_stdout("true\ttrue\n");
    program.close_stdin();
    program.finish().succeeds();
}

/// The child neither serves nor keeps the port.
#[test]
fn a_forks_child_does_not_serve() {
    let port = free_port("127.0.0.1");
    let address = format!("127.0.0.1:{port}");
    let mut program = serving(
        "local forker = require 'forker'
         local child = forker.fork()
         if child == 0 then
           print(select(2, pcall(io.read)))
           os.exit(0, false)
         end
         print(child)
         print 'ready'
         io.stdout:flush()
         process.sleep(3600)",
        &address,
    );
    let request = b"GET / HTTP/1.1\r\n\r\n";
    let mut client = TcpStream::connect(&address).expect("the parent serves");
    client.write_all(request).expect("it reads");
    let mut answer = String::new();
    client.read_to_string(&mut answer).expect("it answers");
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    program.read_stdout();
    program.signal("KILL");
    // The child lives on, until its stdin ends. Meanwhile nobody listens.
    let until = Instant::now() + Duration::from_secs(60);
    while TcpStream::connect(&address).is_ok() {
        assert!(Instant::now() < until, "the child keeps the port");
        std::thread::yield_now();
    }
    program.close_stdin();
    let _: Outcome = program.finish();
}

#[test]
fn a_simulated_run_does_not_serve() {
    let home = tempfile::tempdir().expect("a directory");
    let path = home.path().join("metrics");
    let run = baton().arg("--simulate").arg("1-3").arg("-e");
    let outcome = run
        .arg(format!(
            "assert(not os.rename('{0}', '{0}'))",
            path.display()
        ))
        .env("BATON_METRICS", format!("unix:{}", path.display()))
        .run();
    outcome.succeeds();
    assert!(!outcome.stderr.contains("METRICS"), "{}", outcome.stderr);
    assert!(!path.exists());
}

/// Only root can make a program of another user.
#[test]
fn a_setuid_program_ignores_the_variable() {
    const NOBODY: u32 = 65534;
    let home = tempfile::tempdir().expect("a directory");
    let copy = home.path().join("baton");
    let install = Command::new("install")
        .args(["-m", "4755", "-o", "65533", "-g", "65534"])
        .args([baton_path(), &copy])
        .status();
    if !install.is_ok_and(|status| status.success()) {
        return skip("metrics of a setuid program", "run the tests as root");
    }
    let everybody = fs::Permissions::from_mode(0o777);
    fs::set_permissions(home.path(), everybody).expect("it is ours");
    let path = home.path().join("metrics");
    for address in [format!("unix:{}", path.display()), "nonsense".to_owned()] {
        let output = Command::new(&copy)
            .uid(NOBODY)
            .gid(NOBODY)
            .current_dir("/")
            .env("BATON_METRICS", address)
            .args([
                "-e",
                &format!("print(os.rename('{0}', '{0}'))", path.display()),
            ])
            .output()
            .expect("it starts");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && errors.is_empty(), "{errors}");
        let out = String::from_utf8_lossy(&output.stdout);
        assert!(
            out.contains("No such file"),
            "while it ran, there was a socket: {out}"
        );
    }
}

/// `process.stats` in the definitions for the Lua language server and the metrics say the same of
/// each counter.
#[test]
fn the_counters_mean_what_the_definitions_say() {
    let run = observed::observed("print 'ready' io.stdout:flush() process.sleep(3600)");
    let program = observed::ready(run);
    let metrics = Run::of(baton_path())
        .arg("metrics")
        .arg(program.pid().to_string())
        .run();
    program.signal_until_it_ends("KILL");
    metrics.succeeds();
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../editor/lua-language-server/library/baton/process.lua");
    let definitions = fs::read_to_string(file).expect("the definitions");
    let (_, stats) = definitions
        .split_once("---@class baton.process.Stats\n")
        .expect("the class");
    let fields: Vec<(&str, &str)> = stats
        .lines()
        .map_while(|line| line.strip_prefix("---@field "))
        .map(|field| {
            let mut words = field.splitn(3, ' ');
            let mut next = || words.next().unwrap_or_default();
            (next(), (next(), next()).1)
        })
        .collect();
    assert!(fields.len() > 30);
    let helps: HashMap<&str, &str> = metrics
        .stdout
        .lines()
        .filter_map(|line| line.strip_prefix("# HELP baton_")?.split_once(' '))
        .collect();
    for (name, meaning) in fields {
        let help = helps
            .get(name)
            .or_else(|| helps.get(&*format!("{name}_total")))
            .or_else(|| helps.get(&*format!("{name}_seconds_total")))
            .or_else(|| helps.get(&*format!("{name}_seconds")))
            .unwrap_or_else(|| panic!("no metric {name}"));
        assert_eq!(*help, meaning, "{name}");
    }
}
