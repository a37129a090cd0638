//! Tests the service under a service manager: readiness, watchdog, stop; with its own socket and
//! with a passed one.

use super::{client, with_example};
use crate::harness::{LIMIT, Run, Started, baton, baton_path};
use std::net::TcpListener;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

const CLIENTS: usize = 1000;

/// Descriptors for all clients, and for other uses of the program.
const DESCRIPTORS: usize = 4096;

fn with_many_descriptors() -> Run {
    Run::of(Path::new("/bin/sh"))
        .arg("-c")
        .arg(format!("ulimit -n {DESCRIPTORS}; exec \"$0\" \"$@\""))
        .arg(baton_path())
}

fn free_port() -> u16 {
    let free = TcpListener::bind(("127.0.0.1", 0)).expect("a port is free");
    free.local_addr().expect("it is bound").port()
}

/// The manager's end of the socket for notifications.
struct Manager(UnixDatagram);

impl Manager {
    fn of(run: Run) -> (Manager, Run) {
        let path = run.scratch().join("notify");
        let socket = UnixDatagram::bind(&path).expect("a socket can be bound");
        socket
            .set_read_timeout(Some(LIMIT))
            .expect("a limit can be set");
        (Manager(socket), run.env("NOTIFY_SOCKET", path))
    }

    /// Waits until the service has sent this message. Skips others.
    fn await_message(&self, expected: &str) {
        let mut buffer = [0; 4096];
        loop {
            let length = self
                .0
                .recv(&mut buffer)
                .unwrap_or_else(|_| panic!("never told: {expected}"));
            if &buffer[..length] == expected.as_bytes() {
                return;
            }
        }
    }
}

fn hello_service() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/hello_service.lua")
}

fn ask(port: u16, path: &str) -> String {
    client::ask(port, "GET", path, "")
}

/// Many clients send requests, then the service gets SIGTERM: all get answers, and the status is 0.
fn drains(mut service: Started, manager: &Manager, port: u16) {
    manager.await_message("READY=1");
    let mut clients = with_many_descriptors()
        .script("examples/hello_clients.lua")
        .arg(port.to_string())
        .arg(CLIENTS.to_string())
        .start();
    clients.await_stdout("sent\n");
    service.signal("TERM");
    manager.await_message("STOPPING=1");
    let outcome = clients.finish();
    outcome.succeeds().quietly();
    assert!(
        outcome.stdout.ends_with(&format!("{CLIENTS} answered\n")),
        "{outcome}"
    );
    service.await_stdout("all requests answered\n");
    service.finish().succeeds().quietly();
}

#[test]
fn a_service_drains_a_thousand_connections_at_sigterm() {
    let port = free_port();
    let (manager, run) = Manager::of(with_many_descriptors());
    drains(
        with_example(run, "hello_service.lua", &[&port.to_string()]).start(),
        &manager,
        port,
    );
}

#[test]
fn a_service_takes_the_socket_that_its_manager_passes() {
    let port = free_port();
    let run = with_many_descriptors()
        .script("examples/hello_manager.lua")
        .arg(hello_service())
        .arg(port.to_string());
    let (manager, run) = Manager::of(run);
    drains(run.start(), &manager, port);
}

/// The manager receives watchdog messages repeatedly.
#[test]
fn a_service_keeps_its_watchdog_quiet_and_reads_its_greeting_again() {
    let port = free_port();
    let (manager, run) = Manager::of(baton());
    let greeting = run.scratch().join("greeting");
    std::fs::write(&greeting, "good morning\n").expect("a file can be written");
    let run = run
        .env("WATCHDOG_USEC", "200000")
        .env("GREETING_FILE", &greeting);
    let service = with_example(run, "hello_service.lua", &[&port.to_string()]).start();
    manager.await_message("READY=1");
    assert!(ask(port, "/").ends_with("\r\n\r\ngood morning from /\n"));
    manager.await_message("WATCHDOG=1");
    manager.await_message("WATCHDOG=1");
    std::fs::write(&greeting, "good evening\n").expect("a file can be written");
    service.signal("HUP");
    while !ask(port, "/").ends_with("\r\n\r\ngood evening from /\n") {}
    service.signal("INT");
    manager.await_message("STOPPING=1");
    service.finish().succeeds().quietly();
}

/// The same under systemd itself, where that runs.
#[test]
fn systemd_starts_and_stops_the_service() {
    if !Path::new("/run/systemd/system").exists() {
        eprintln!("left out: systemd does not run here");
        return;
    }
    let port = free_port();
    let unit = format!("baton-hello-{}", std::process::id());
    let systemctl = |verb: &str| {
        std::process::Command::new("systemctl")
            .args([verb, &unit])
            .status()
    };
    let started = std::process::Command::new("systemd-run")
        .args([
            "--collect",
            "--property=Type=notify",
            "--property=WatchdogSec=10",
        ])
        .arg(format!("--unit={unit}"))
        .arg(baton_path())
        .arg(hello_service())
        .arg(port.to_string())
        .output();
    let Ok(started) = started else {
        eprintln!("left out: there is no systemd-run");
        return;
    };
    if !started.status.success() {
        eprintln!("left out: {}", String::from_utf8_lossy(&started.stderr));
        return;
    }
    assert!(ask(port, "/").ends_with("\r\n\r\nhello from /\n"));
    assert!(
        systemctl("stop").is_ok_and(|status| status.success()),
        "the unit stops"
    );
}
