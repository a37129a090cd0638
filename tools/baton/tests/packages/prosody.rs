//! Tests Prosody, Debian's XMPP server in Lua, unmodified: it serves clients and ends at SIGTERM,
//! under `lua5.4` and under `baton`.
//!
//! Two clients log in without a password: one over XMPP, one over BOSH, which is XMPP within HTTP
//! requests. One sends a message to the other.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use crate::harness::{self, Run, Started, peer};
use crate::is_file;
use crate::server::free_port;

const PROSODY: &str = "/usr/bin/prosody";

/// The limit for one answer, far longer than any takes.
const LIMIT: Duration = Duration::from_secs(60);

const STREAM: &str = "<stream:stream to='localhost' version='1.0' xmlns='jabber:client' \
                      xmlns:stream='http://etherx.jabber.org/streams'>";
const AUTH: &str = "<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='ANONYMOUS'/>";
const BIND: &str = "<iq xmlns='jabber:client' type='set' id='bind'><bind \
                    xmlns='urn:ietf:params:xml:ns:xmpp-bind'/></iq>";
const PING: &str = "<iq type='get' id='ping' to='localhost'><ping xmlns='urn:xmpp:ping'/></iq>";

#[test]
fn prosody_serves_xmpp_and_bosh_and_ends_at_sigterm() {
    if !is_file(PROSODY, "prosody") {
        return;
    }
    let Some(lua) = peer::lua() else { return };
    serves_and_ends(lua);
    serves_and_ends(harness::baton());
}

fn serves_and_ends(run: Run) {
    let (xmpp, http) = (free_port(), free_port());
    let prosody = start(run, xmpp, http);

    let mut by_bosh = Bosh::log_in(http);
    let mut by_xmpp = Xmpp::log_in(xmpp);
    let pong = by_xmpp.ask(PING, "/>");
    assert!(
        pong.contains("type='result'") && pong.contains("id='ping'"),
        "{pong}"
    );
    // The server holds the request until it has an answer.
    let waiting = by_bosh.request("", "");
    let message = format!(
        "<message to='{}' type='chat'><body>over there</body></message>",
        by_bosh.name
    );
    by_xmpp.tell(&message);
    let came = Bosh::answer(waiting);
    assert!(
        came.contains("<body>over there</body>") && came.contains(&by_xmpp.name),
        "{came}"
    );
    by_xmpp.ask("</stream:stream>", "</stream:stream>");

    prosody.signal("TERM");
    let outcome = prosody.finish();
    outcome.succeeds().without_panic();
    for said in ["Received SIGTERM", "Shutdown complete"] {
        assert!(
            outcome.stdout.contains(said),
            "{said:?} expected\n{outcome}"
        );
    }
    assert!(
        !outcome.stdout.contains("traceback"),
        "an error was logged\n{outcome}"
    );
}

/// Starts the server, and returns once it listens on both ports.
fn start(run: Run, xmpp: u16, http: u16) -> Started {
    let dir = run.scratch().to_path_buf();
    let settings_file = dir.join("prosody.cfg.lua");
    std::fs::create_dir(dir.join("certs")).expect("the run's directory can be written to");
    std::fs::write(&settings_file, settings(&dir, xmpp, http))
        .expect("the run's directory can be written to");
    let run = run.env("HOME", &dir).arg(PROSODY).arg("-F");
    let mut prosody = run.arg("--config").arg(settings_file).start();
    for service in [
        "Activated service 'c2s' on",
        "Activated service 'http' on",
        "Serving 'bosh' at http://localhost",
    ] {
        prosody.await_stdout(service);
    }
    prosody
}

fn settings(dir: &Path, xmpp: u16, http: u16) -> String {
    format!(
        "run_as_root = true\ndata_path = '{dir}'\ncertificates = '{dir}/certs'\ninterfaces = {{ \
         '127.0.0.1' }}\n\
         c2s_ports = {{ {xmpp} }}\ns2s_ports = {{}}\nhttp_ports = {{ {http} }}\nhttps_ports = \
         {{}}\n\
         http_interfaces = interfaces\nlog = {{ {{ levels = {{ min = 'info' }}, to = 'console' }} \
         }}\n\
         modules_enabled = {{ 'saslauth', 'ping', 'bosh' }}\nmodules_disabled = {{ 's2s', 'tls' \
         }}\n\
         c2s_require_encryption = false\nconsider_bosh_secure = true\n\
         VirtualHost 'localhost'\nauthentication = 'anonymous'\n",
        dir = dir.display()
    )
}

/// Returns the text between the first of these and the next one.
fn between<'text>(text: &'text str, before: &str, after: &str) -> &'text str {
    let found = text
        .split_once(before)
        .and_then(|(_, rest)| rest.split_once(after));
    found
        .unwrap_or_else(|| panic!("{before:?} expected in {text}"))
        .0
}

fn connect(port: u16) -> TcpStream {
    let connection = TcpStream::connect(("127.0.0.1", port)).expect("the server listens");
    connection
        .set_read_timeout(Some(LIMIT))
        .expect("a socket takes a timeout");
    connection
}

/// A client with a connection of its own.
struct Xmpp {
    connection: TcpStream,
    name: String,
}

impl Xmpp {
    fn log_in(port: u16) -> Self {
        let mut client = Self {
            connection: connect(port),
            name: String::new(),
        };
        let offered = client.ask(STREAM, "</stream:features>");
        assert!(offered.contains("ANONYMOUS"), "{offered}");
        client.ask(AUTH, "<success");
        client.ask(STREAM, "</stream:features>");
        let bound = client.ask(BIND, "</iq>");
        client.name = between(&bound, "<jid>", "</jid>").to_owned();
        client
    }

    fn tell(&mut self, text: &str) {
        self.connection
            .write_all(text.as_bytes())
            .expect("the server reads");
    }

    /// Sends a text, and returns what arrives up to `end`.
    fn ask(&mut self, text: &str, end: &str) -> String {
        self.tell(text);
        let (mut came, mut piece) = (Vec::new(), [0; 4096]);
        loop {
            let count = self
                .connection
                .read(&mut piece)
                .expect("the server answers in time");
            came.extend_from_slice(&piece[..count]);
            let so_far = String::from_utf8_lossy(&came).into_owned();
            if so_far.contains(end) {
                return so_far;
            }
            assert!(
                count > 0,
                "{end:?} expected, but the connection was closed: {so_far}"
            );
        }
    }
}

/// A client whose stream consists of HTTP requests, numbered in sequence.
struct Bosh {
    port: u16,
    number: u64,
    session: String,
    name: String,
}

impl Bosh {
    fn log_in(port: u16) -> Self {
        let mut client = Self {
            port,
            number: 1000,
            session: String::new(),
            name: String::new(),
        };
        let version = "xmpp:version='1.0' xmlns:xmpp='urn:xmpp:xbosh'";
        let offered = client.ask(
            &format!("to='localhost' wait='60' hold='1' ver='1.6' {version}"),
            "",
        );
        assert!(offered.contains("ANONYMOUS"), "{offered}");
        client.session = format!("sid='{}'", between(&offered, " sid='", "'"));
        assert!(client.ask("", AUTH).contains("<success"));
        client.ask("xmpp:restart='true' xmlns:xmpp='urn:xmpp:xbosh'", "");
        let bound = client.ask("", BIND);
        client.name = between(&bound, "<jid>", "</jid>").to_owned();
        client
    }

    fn ask(&mut self, attributes: &str, content: &str) -> String {
        Self::answer(self.request(attributes, content))
    }

    fn request(&mut self, attributes: &str, content: &str) -> TcpStream {
        self.number += 1;
        let (number, session) = (self.number, &self.session);
        let namespace = "http://jabber.org/protocol/httpbind";
        let body = format!(
            "<body rid='{number}' {session} xmlns='{namespace}' {attributes}>{content}</body>"
        );
        let head = "POST /http-bind HTTP/1.1\r\nHost: localhost\r\nConnection: \
                    close\r\nContent-Type: text/xml\r\n";
        let request = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len());
        let mut connection = connect(self.port);
        connection
            .write_all(request.as_bytes())
            .expect("the server reads");
        connection
    }

    fn answer(mut connection: TcpStream) -> String {
        let mut answer = String::new();
        connection
            .read_to_string(&mut answer)
            .expect("the server answers in time");
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        answer
    }
}
