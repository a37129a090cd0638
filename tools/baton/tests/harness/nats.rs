//! A NATS server on this machine, with a directory of its own. It is stopped when it is dropped.

use super::readers::readers;
use super::skip::skip;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A server that runs.
pub(crate) struct Server {
    child: Child,
    directory: tempfile::TempDir,
    port: u16,
}

/// What a server has.
const WITH_JETSTREAM: &str = "jetstream { store_dir: \"DIRECTORY/stored\", sync_interval: always }";

impl Server {
    /// A server with JetStream. `None`: there is no program of it, and that was reported.
    pub(crate) fn start() -> Option<Server> {
        Server::start_with(WITH_JETSTREAM)
    }

    /// A server with JetStream and more lines in its configuration.
    pub(crate) fn start_with_also(lines: &str) -> Option<Server> {
        Server::start_with(&format!("{WITH_JETSTREAM}\n{lines}"))
    }

    /// A server with these lines in its configuration. The word DIRECTORY stands for its directory.
    pub(crate) fn start_with(lines: &str) -> Option<Server> {
        let directory = tempfile::tempdir().expect("a directory for the server");
        Server::start_in(directory, lines)
    }

    pub(crate) fn start_in(directory: tempfile::TempDir, lines: &str) -> Option<Server> {
        if !program().is_file() {
            skip(
                "baton.cluster",
                "run 'cargo xtask readers', which installs nats-server",
            );
            return None;
        }
        let port = free_port();
        let there = directory.path().to_str().expect("its path is a text");
        let lines = lines.replace("DIRECTORY", there);
        let configuration = format!("listen: \"127.0.0.1:{port}\"\n{lines}\n");
        std::fs::write(directory.path().join("nats.conf"), configuration)
            .expect("its configuration can be written");
        let child = started(directory.path());
        Some(Server {
            child,
            directory,
            port,
        })
    }

    pub(crate) fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Asks JetStream, beside all programs. The subject is without `$JS.API.`.
    pub(crate) fn ask(&self, subject: &str) -> serde_json::Value {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).expect("the server listens");
        let request = format!(
            "CONNECT {{\"verbose\":false}}\r\nSUB answer 1\r\n\
             PUB $JS.API.{subject} answer 0\r\n\r\n"
        );
        (&stream).write_all(request.as_bytes()).expect("it reads");
        let mut lines = BufReader::new(&stream).lines().map_while(Result::ok);
        lines
            .by_ref()
            .find(|line| line.starts_with("MSG "))
            .expect("it answers");
        let answer = lines.next().expect("the answer has a text");
        serde_json::from_str(&answer).expect("it is JSON")
    }

    /// How many jobs of a queue are with programs that have not said how they end.
    pub(crate) fn jobs_given(&self, queue: &str) -> u64 {
        let answer = self.ask(&format!("CONSUMER.INFO.BATON_QUEUE_{queue}.workers"));
        answer["num_ack_pending"]
            .as_u64()
            .unwrap_or_else(|| panic!("no number of jobs in {answer}"))
    }

    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Ends it with a signal that it cannot handle, and starts it again with what it has stored.
    pub(crate) fn kill_and_restart(&mut self) {
        self.end();
        self.restart();
    }

    /// Ends it with a signal that it cannot handle.
    pub(crate) fn end(&mut self) {
        self.child.kill().expect("it can be killed");
        self.child.wait().expect("it ends");
    }

    /// Starts it again after [`Server::end`].
    pub(crate) fn restart(&mut self) {
        self.child = started(self.directory.path());
    }

    /// Stops it in the middle of what it does.
    pub(crate) fn freeze(&self) {
        self.signal(nix::sys::signal::Signal::SIGSTOP);
    }

    /// Lets it go on.
    pub(crate) fn thaw(&self) {
        self.signal(nix::sys::signal::Signal::SIGCONT);
    }

    fn signal(&self, signal: nix::sys::signal::Signal) {
        let pid = i32::try_from(self.child.id()).expect("a number of a process");
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), signal).expect("it runs");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn program() -> std::path::PathBuf {
    readers("nats").join("bin/nats-server")
}

/// A port that was free just now.
pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    listener.local_addr().expect("it has an address").port()
}

/// Starts a server in a directory, and waits until it says that it is ready.
fn started(directory: &Path) -> Child {
    let mut child = Command::new(program())
        .arg("-c")
        .arg(directory.join("nats.conf"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the server can be started");
    let log = child.stderr.take().expect("its log is piped");
    let mut lines = BufReader::new(log).lines().map_while(Result::ok);
    let mut read = Vec::new();
    let is_ready = lines.by_ref().any(|line| {
        let is_last = line.contains("Server is ready");
        read.push(line);
        is_last
    });
    assert!(is_ready, "the server did not start:\n{}", read.join("\n"));
    // A full pipe would stop the server.
    std::thread::spawn(move || lines.for_each(drop));
    child
}
