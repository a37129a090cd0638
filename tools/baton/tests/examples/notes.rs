//! Tests the services that keep notes in PostgreSQL: over `baton.http`, and over LuaSocket.

use super::{connect_crowd, example, example_with_few_descriptors, has_lines};
use crate::harness::{LIMIT, Run, Started, baton, missing};
use crate::server::Server;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

const CONNECTIONS: usize = 3;
const STYLES: [&str; 2] = ["notes_service", "notes_service_luasocket"];

struct Service {
    program: Started,
    port: u16,
    database: Server,
}

impl Service {
    /// Runs a command on the database server, by another program with its own connection.
    fn administer(&self, command: &str) {
        let source = format!(
            "host={} user=baton dbname=template1",
            self.database.dir().display()
        );
        let connect = format!(
            "local server = assert(require 'luasql.postgres'.postgres():connect '{source}')"
        );
        baton()
            .code(&format!("{connect} assert(server:execute [[{command}]])"))
            .run()
            .succeeds();
    }
}

fn in_both_styles(check: impl Fn(&str)) {
    STYLES.into_iter().for_each(check);
}

fn start_service(style: &str) -> Option<Service> {
    start(example, style)
}

/// None, with a message, if PostgreSQL or its module is missing.
fn start(example: fn(&str, &[&str]) -> Run, style: &str) -> Option<Service> {
    let database = Server::postgres()?;
    if missing::is_module("luasql.postgres", "the service of notes") {
        return None;
    }
    let free = TcpListener::bind(("127.0.0.1", 0)).expect("a port is free");
    let port = free.local_addr().expect("it is bound").port();
    drop(free);
    let source = format!(
        "host={} user=baton dbname=postgres",
        database.dir().display()
    );
    let connections = CONNECTIONS.to_string();
    let mut program = example(&format!("{style}.lua"), &["-c", &connections, "-p"])
        .arg(port.to_string())
        .arg(source)
        .stdin("") // ends at once, as a service's input does
        .start();
    program.await_stdout(&format!("port {port}\n"));
    Some(Service {
        program,
        port,
        database,
    })
}

/// Sends a request. Returns the status line and the body of the answer.
fn ask(port: u16, request: &str, body: &str) -> (String, String) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("the service listens");
    stream
        .set_read_timeout(Some(LIMIT))
        .expect("a limit can be set");
    let length = body.len();
    let text = format!(
        "{request} HTTP/1.1\r\nHost: here\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{body}"
    );
    stream
        .write_all(text.as_bytes())
        .expect("the service reads");
    let mut answer = String::new();
    stream
        .read_to_string(&mut answer)
        .expect("the service answers");
    let (head, body) = answer.split_once("\r\n\r\n").expect("the head ends");
    let status = head.lines().next().unwrap_or_default();
    (status.to_owned(), body.trim_end().to_owned())
}

#[test]
fn the_service_keeps_the_notes_of_many_clients_at_once() {
    in_both_styles(|style| {
        const CLIENTS: usize = 20;
        let Some(service) = start_service(style) else {
            return;
        };
        let port = service.port;
        let clients: Vec<_> = (1..=CLIENTS)
            .map(|number| {
                std::thread::spawn(move || {
                    ask(
                        port,
                        "POST /notes",
                        &format!(r#"{{"text":"it's note {number}"}}"#),
                    )
                })
            })
            .collect();
        for client in clients {
            let (status, body) = client.join().expect("the client asks");
            assert_eq!(status, "HTTP/1.1 201 Created");
            assert!(body.contains("it's note "), "{body}");
        }
        let (_, all) = ask(port, "GET /notes", "");
        assert_eq!(all.matches("it's note ").count(), CLIENTS, "{all}");
        assert_eq!(
            ask(port, "DELETE /notes/1", "").0,
            "HTTP/1.1 204 No Content"
        );
        assert_eq!(ask(port, "GET /notes/1", "").0, "HTTP/1.1 404 Not Found");
        assert!(ask(port, "GET /notes/2", "").1.contains(r#""id":2"#));
        assert_eq!(
            ask(port, "POST /notes", "nonsense").0,
            "HTTP/1.1 400 Bad Request"
        );
        assert_eq!(
            ask(port, "PUT /notes", "").0,
            "HTTP/1.1 405 Method Not Allowed"
        );
        service.program.signal("TERM");
        let outcome = service.program.finish();
        outcome.succeeds().quietly();
        has_lines(&outcome, [format!("port {port}").as_str()]);
    });
}

#[test]
fn a_head_or_a_body_of_a_wrong_size_is_refused() {
    in_both_styles(|style| {
        let Some(service) = start_service(style) else {
            return;
        };
        let port = service.port;
        for (text, status) in [
            ("G".repeat(16384), "431"),
            (format!("GET /notes HTTP/1.1\r\n{:x<16363}", "A: "), "431"),
            (
                "POST /notes HTTP/1.1\r\nHost: here\r\nContent-Length: 1048577\r\n\r\n".to_owned(),
                "413",
            ),
            (
                "POST /notes HTTP/1.1\r\nHost: here\r\nContent-Length: -1\r\n\r\n".to_owned(),
                "400",
            ),
        ] {
            let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("the service listens");
            stream
                .set_read_timeout(Some(LIMIT))
                .expect("a limit can be set");
            stream
                .write_all(text.as_bytes())
                .expect("the service reads");
            let mut answer = String::new();
            stream
                .read_to_string(&mut answer)
                .expect("the service answers and closes");
            assert!(
                answer.starts_with(&format!("HTTP/1.1 {status} ")),
                "{answer}"
            );
        }
        assert_eq!(ask(port, "GET /notes", "").0, "HTTP/1.1 200 OK");
        service.program.signal("TERM");
        service.program.finish().succeeds().quietly();
    });
}

#[test]
fn a_client_that_says_nothing_does_not_keep_the_service_from_ending() {
    in_both_styles(|style| {
        let Some(service) = start_service(style) else {
            return;
        };
        let mut silent =
            TcpStream::connect(("127.0.0.1", service.port)).expect("the service listens");
        assert_eq!(ask(service.port, "GET /notes", "").1, "[]");
        service.program.signal("INT");
        assert_eq!(silent.read(&mut [0]).expect("the service closes"), 0);
        service.program.finish().succeeds().quietly();
    });
}

#[test]
fn no_connection_is_lost_while_the_database_cannot_be_reached() {
    in_both_styles(|style| {
        const ROUNDS: usize = 2;
        const ATTEMPTS: usize = 1000;
        let Some(service) = start_service(style) else {
            return;
        };
        let port = service.port;
        let get = || ask(port, "GET /notes", "").0;
        service.administer("ALTER DATABASE postgres WITH ALLOW_CONNECTIONS false");
        service.administer(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'postgres'",
        );
        // Connections are used in turn, and soon end. Then all of them are tried again and again,
        // and each request gets an answer.
        let mut refused = 0;
        for _ in 0..ATTEMPTS {
            let status = get();
            refused = if status == "HTTP/1.1 503 Service Unavailable" {
                refused + 1
            } else {
                0
            };
            if refused == ROUNDS * CONNECTIONS {
                break;
            }
        }
        assert_eq!(refused, ROUNDS * CONNECTIONS);
        service.administer("ALTER DATABASE postgres WITH ALLOW_CONNECTIONS true");
        for _ in 0..ROUNDS * CONNECTIONS {
            assert_eq!(get(), "HTTP/1.1 200 OK");
        }
        service.program.signal("TERM");
        service
            .program
            .finish()
            .succeeds()
            .complained(&format!("{style}: "));
    });
}

#[test]
fn the_service_recovers_when_descriptors_ran_out() {
    in_both_styles(|style| {
        const ATTEMPTS: usize = 1000;
        let Some(mut service) = start(example_with_few_descriptors, style) else {
            return;
        };
        let port = service.port;
        let crowd = connect_crowd(port);
        service.program.await_stderr(" cannot accept: ");
        drop(crowd);
        // While some of the extra clients are connected, the database may get no descriptor.
        assert!((0..ATTEMPTS).any(|_| ask(port, "GET /notes", "").0 == "HTTP/1.1 200 OK"));
        service.program.signal("TERM");
        let outcome = service.program.finish();
        outcome.succeeds();
        assert_eq!(
            outcome.stderr.matches(" cannot accept: ").count(),
            1,
            "{outcome}"
        );
    });
}
