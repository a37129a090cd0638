//! Tests the chat server, and the load program with its many clients.

use super::{
    complained_once, connect_crowd, example, example_with_few_descriptors, has_lines, with_example,
};
use crate::harness::{LIMIT, Run, Started, baton, missing};
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};

const HERE: [&str; 2] = ["-b", "127.0.0.1"];

fn start_server() -> (Started, u16) {
    start(example("chat_server.lua", &HERE))
}

/// Starts the server on a free port. It ends with its standard input.
fn start(server: Run) -> (Started, u16) {
    let free = TcpListener::bind(("127.0.0.1", 0)).expect("a port is free");
    let port = free.local_addr().expect("it is bound").port();
    drop(free);
    let mut server = server.arg("-p").arg(port.to_string()).open_stdin().start();
    server.await_stdout(&format!("port {port}\n"));
    (server, port)
}

/// A client that sends and receives lines.
struct Talker(BufReader<TcpStream>);

impl Talker {
    fn enter(port: u16, name: &str) -> Talker {
        let stream = TcpStream::connect(("127.0.0.1", port)).expect("the server listens");
        stream
            .set_read_timeout(Some(LIMIT))
            .expect("a limit can be set");
        let mut talker = Talker(BufReader::new(stream));
        talker.hears("* your name?");
        talker.says(name);
        talker
    }

    fn says(&mut self, line: &str) {
        let stream = self.0.get_mut();
        writeln!(stream, "{line}").expect("the server reads");
    }

    fn hears(&mut self, expected: &str) {
        let mut line = String::new();
        self.0.read_line(&mut line).expect("the server writes");
        assert_eq!(line.trim_end(), expected);
    }
}

#[test]
fn all_chat_clients_receive_each_message_until_the_server_ends() {
    if missing::is_luasocket("the chat") {
        return;
    }
    let (mut server, port) = start_server();
    let mut ann = Talker::enter(port, "ann");
    ann.hears("* ann has joined");
    let mut bob = Talker::enter(port, "ann");
    bob.hears("* that name will not do; another one?");
    bob.says("bob");
    for talker in [&mut ann, &mut bob] {
        talker.hears("* bob has joined");
    }
    ann.says("hello");
    for talker in [&mut ann, &mut bob] {
        talker.hears("ann: hello");
    }
    bob.says("/who");
    bob.hears("* ann bob");
    bob.says("/quit");
    ann.hears("* bob has left");
    bob.hears("");
    server.close_stdin();
    ann.hears("* the server ends");
    ann.hears("");
    server.finish().succeeds().quietly();
}

#[test]
fn a_client_whose_line_does_not_end_leaves_the_chat() {
    if missing::is_luasocket("the chat") {
        return;
    }
    let (mut server, port) = start_server();
    let mut ann = Talker::enter(port, "ann");
    ann.hears("* ann has joined");
    ann.says(&format!("{}\r", "a".repeat(1999)));
    ann.hears(&format!("ann: {}", "a".repeat(1999)));
    let mut bob = Talker::enter(port, "bob");
    ann.hears("* bob has joined");
    let stream = bob.0.get_mut();
    stream
        .write_all("b".repeat(2001).as_bytes())
        .expect("the server reads");
    bob.hears("* bob has joined");
    bob.hears("* a line has at most 2000 bytes");
    ann.hears("* bob has left");
    server.close_stdin();
    ann.hears("* the server ends");
    server.finish().succeeds().quietly();
}

/// Interrupts come at random. A process that goes through the table of clients must not meet a new
/// one.
#[test]
fn clients_join_and_leave_while_others_talk() {
    let simulated = baton()
        .arg("--simulate")
        .arg("1-200")
        .script("examples/chat.lua");
    let outcome = with_example(simulated, "chat_server.lua", &[]).run();
    outcome
        .succeeds()
        .wrote("")
        .complained("200 seeds, none failed");
}

#[test]
fn the_chat_recovers_when_descriptors_ran_out() {
    if missing::is_luasocket("the chat") {
        return;
    }
    let (mut server, port) = start(example_with_few_descriptors("chat_server.lua", &HERE));
    let crowd = connect_crowd(port);
    server.await_stderr("chat_server: cannot accept: ");
    drop(crowd);
    let mut ann = Talker::enter(port, "ann");
    ann.hears("* ann has joined");
    server.close_stdin();
    ann.hears("* the server ends");
    let outcome = server.finish();
    outcome.succeeds();
    complained_once(&outcome, "chat_server");
}

#[test]
fn the_chat_holds_under_load() {
    if missing::is_luasocket("the chat") {
        return;
    }
    let (mut server, port) = start_server();
    let load = example(
        "chat_load.lua",
        &["-n", "30", "-m", "10", "-h", "127.0.0.1", "-p"],
    )
    .arg(port.to_string())
    .run();
    load.succeeds().quietly();
    assert!(
        load.stdout
            .starts_with("30 clients, 9000 messages arrived in "),
        "{load}"
    );
    server.close_stdin();
    let outcome = server.finish();
    outcome.succeeds().quietly();
    has_lines(&outcome, [format!("port {port}").as_str()]);
}
