//! Tests the service with routes, JSON, SQLite, jobs, events and metrics.

use super::client::{ask, connect};
use super::example;
use crate::harness::{Started, missing};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;

/// Starts the service with an empty database. Returns it with its port. None, with a message, if
/// its module is missing.
fn start() -> Option<(Started, u16)> {
    if missing::is_module("luasql.sqlite3", "the service of orders") {
        return None;
    }
    let free = TcpListener::bind(("127.0.0.1", 0)).expect("a port is free");
    let port = free.local_addr().expect("it is bound").port();
    drop(free);
    let run = example("orders_service.lua", &[&port.to_string()]);
    let database = run.scratch().join("orders.db");
    let mut service = run.arg(database).start();
    service.await_stdout(&format!("port {port}\n"));
    Some((service, port))
}

#[test]
fn the_orders_service_keeps_packs_and_tells_orders() {
    let Some((service, port)) = start() else {
        return;
    };
    let mut listener = connect(port);
    write!(listener, "GET /events HTTP/1.1\r\nHost: here\r\n\r\n").expect("the service reads");
    let mut events = BufReader::new(listener).lines().map_while(Result::ok);
    assert_eq!(events.next().as_deref(), Some("HTTP/1.1 200 OK"));
    assert!(events.any(|line| line.is_empty()), "the head ends");

    let order = "{\"item\":\"Ann's tea\",\"count\":2}";
    let answer = ask(port, "POST", "/orders", order);
    assert!(
        answer.starts_with("HTTP/1.1 201 ") && answer.contains("\"id\":1"),
        "{answer}"
    );
    assert!(events.any(|line| line == "data: 1"), "it is told");
    let answer = ask(port, "GET", "/orders/1", "");
    assert!(
        answer.contains("Ann's tea") && answer.contains("\"packed\""),
        "{answer}"
    );
    assert!(ask(port, "GET", "/orders/2", "").starts_with("HTTP/1.1 404 "));
    for wrong in ["{", "[]", "{\"item\":\"tea\",\"count\":1.5}", "7"] {
        let answer = ask(port, "POST", "/orders", wrong);
        assert!(answer.starts_with("HTTP/1.1 400 "), "{wrong}: {answer}");
    }
    let metrics = ask(port, "GET", "/metrics", "");
    assert!(metrics.contains("\norders_packed_total 1\n"), "{metrics}");

    service.signal("TERM");
    let outcome = service.finish();
    outcome.succeeds();
    assert!(
        outcome.stdout.ends_with("all requests answered\n"),
        "{outcome}"
    );
}

/// What was ordered is packed before the service ends.
#[test]
fn the_orders_service_packs_all_orders_before_it_ends() {
    let Some((service, port)) = start() else {
        return;
    };
    let order = "{\"item\":\"tea\",\"count\":1}";
    for _ in 0..20 {
        assert!(ask(port, "POST", "/orders", order).starts_with("HTTP/1.1 201 "));
    }
    service.signal("TERM");
    let outcome = service.finish();
    outcome.succeeds();
    let packed = outcome.stderr.matches("msg=packed").count();
    assert_eq!(packed, 20, "{outcome}");
}
