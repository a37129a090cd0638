//! Tests `require "baton.cluster"` with what goes wrong: wrong options, servers that refuse, end or
//! stop answering, and messages from others.

mod harness;

use harness::nats::{Server, free_port};
use harness::{Run, Started, baton};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

/// A program with a connection `c`, to the URL in NATS_URL.
fn program(url: &str, options: &str, code: &str) -> Run {
    let head = format!(
        "local process = require 'baton.process' local cluster = require 'baton.cluster' \
         local c = assert(cluster.connect {{ url = os.getenv 'NATS_URL', {options} }}) "
    );
    baton().env("NATS_URL", url).code(&format!("{head}{code}"))
}

/// What a program prints whose connection is refused: one line.
fn refusal(url: &str, options: &str) -> String {
    let code = format!(
        "print(require('baton.cluster').connect {{ url = os.getenv 'NATS_URL', {options} }})"
    );
    let outcome = baton().env("NATS_URL", url).code(&code).run();
    outcome.succeeds().quietly();
    assert!(outcome.stdout.starts_with("nil\t"), "{outcome}");
    assert_eq!(outcome.stdout.lines().count(), 1, "{outcome}");
    outcome.stdout
}

fn has_all(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no '{part}' in: {text}");
    }
}

#[test]
fn a_url_that_is_none_or_where_nobody_listens_is_explained() {
    has_all(
        &refusal("nats://[wrong", ""),
        &["cannot connect to 'nats://[wrong'", "nats://host:4222"],
    );
    let nobody = format!("nats://me:secret@127.0.0.1:{}", free_port());
    let text = refusal(&nobody, "");
    has_all(
        &text,
        &["refused", "check that a NATS server listens there"],
    );
    assert!(!text.contains("secret"), "{text}");
    has_all(
        &refusal("nats://no-such-host.invalid", ""),
        &["'nats://no-such-host.invalid'", "check"],
    );
}

#[test]
fn wrong_credentials_are_explained_and_right_ones_work() {
    let users = "authorization { users: [ { user: me, password: secret } ] }";
    let Some(server) = Server::start_with_also(users) else {
        return;
    };
    for wrong in ["", "credentials = { user = 'me', password = 'wrong' }"] {
        has_all(
            &refusal(&server.url(), wrong),
            &["refuses these credentials", "check 'credentials'"],
        );
    }
    has_all(
        &refusal(&server.url(), "credentials = '/no/such/file'"),
        &["credentials in '/no/such/file'", "nsc generate"],
    );
    let right = "credentials = { user = 'me', password = 'secret' }";
    let outcome = program(&server.url(), right, "print(c:status())").run();
    outcome.succeeds().quietly().wrote("online\n");
    drop(server);
    let Some(server) = Server::start_with_also("authorization { token: word }") else {
        return;
    };
    let outcome = program(
        &server.url(),
        "credentials = { token = 'word' }",
        "print(c:status())",
    );
    outcome.run().succeeds().quietly().wrote("online\n");
}

#[test]
fn a_server_without_jetstream_is_explained() {
    let Some(server) = Server::start_with("") else {
        return;
    };
    let code = "print(c:queue 'jobs') print(c:table 'hosts') print(c:lease('leader', 1))";
    let outcome = program(&server.url(), "", code).run();
    outcome.succeeds().quietly();
    let lines: Vec<&str> = outcome.stdout.lines().collect();
    assert_eq!(lines.len(), 3, "{outcome}");
    for line in lines {
        has_all(
            line,
            &["nil\t", "has no JetStream", "start nats-server with -js"],
        );
    }
}

/// Makes an authority, and certificates for a server on this machine and for a client.
fn make_certificates(directory: &Path) {
    let script = "set -e
        openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 \
            -keyout ca.key -out ca.pem -subj /CN=trial
        for name in server client; do
            openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes \
                -keyout $name.key -out $name.csr -subj /CN=$name
            echo 'subjectAltName=IP:127.0.0.1,DNS:localhost' > $name.ext
            openssl x509 -req -in $name.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 \
                -out $name.pem -extfile $name.ext
        done";
    let made = Command::new("sh")
        .args(["-c", script])
        .current_dir(directory)
        .output()
        .expect("a shell");
    assert!(
        made.status.success(),
        "{}",
        String::from_utf8_lossy(&made.stderr)
    );
}

#[test]
fn an_encrypted_connection_needs_a_known_authority_and_a_certificate() {
    let directory = tempfile::tempdir().expect("a directory");
    make_certificates(directory.path());
    let file = |name: &str| directory.path().join(name).display().to_string();
    let encrypted = format!(
        "tls {{ cert_file: '{}', key_file: '{}', ca_file: '{}', verify: true }}",
        file("server.pem"),
        file("server.key"),
        file("ca.pem")
    );
    let Some(server) = Server::start_with_also(&encrypted) else {
        return;
    };
    let ours = format!(
        "tls = {{ ca = '{}', cert = '{}', key = '{}' }}",
        file("ca.pem"),
        file("client.pem"),
        file("client.key")
    );
    let code = "local q = assert(c:queue 'jobs') print(q:send(1), q:receive(5).value, c:close())";
    let outcome = program(&server.url(), &ours, code).run();
    outcome.succeeds().quietly().wrote("true\t1\ttrue\n");
    has_all(
        &refusal(&server.url(), "tls = true"),
        &["no encrypted connection", "'tls.ca'"],
    );
    let without = format!("tls = {{ ca = '{}' }}", file("ca.pem"));
    has_all(
        &refusal(&server.url(), &without),
        &["wants a certificate of this program", "'tls.cert'"],
    );
    has_all(
        &refusal(&server.url(), "tls = { ca = '/no/such/file' }"),
        &["cannot read the certificates in '/no/such/file'"],
    );
    let Some(plain) = Server::start() else { return };
    has_all(
        &refusal(&plain.url(), "tls = true"),
        &["no encrypted connection", "check 'tls'"],
    );
}

/// Threads of the cluster in this program.
const THREADS: &str = "local function threads() local count = 0
    local pid = io.open('/proc/self/stat'):read 'n'
    for name in io.popen(('cat /proc/%d/task/*/comm 2>/dev/null'):format(pid)):lines() do
        if name == 'baton-cluster' then count = count + 1 end
    end return count end ";

#[test]
fn one_thread_starts_with_the_first_connection_and_ends_with_the_last() {
    let Some(server) = Server::start() else {
        return;
    };
    let code = format!(
        "{THREADS}
         local d = assert(cluster.connect {{ url = os.getenv 'NATS_URL' }})
         print(threads())
         c:close() print(threads(), d:status()) d:close()
         repeat until threads() == 0
         c = assert(cluster.connect {{ url = os.getenv 'NATS_URL' }})
         print(threads(), c:status())"
    );
    let outcome = program(&server.url(), "", &code).run();
    outcome
        .succeeds()
        .quietly()
        .wrote("1\n1\tonline\n1\tonline\n");
    let code = format!("require 'baton.cluster' {THREADS} print(threads())");
    baton().code(&code).run().succeeds().quietly().wrote("0\n");
}

#[test]
fn a_forks_child_has_a_closed_connection_and_its_parent_goes_on() {
    let Some(server) = Server::start() else {
        return;
    };
    let code = "local ffi = require 'baton.ffi'
        ffi.cdef 'int fork(void); int waitpid(int, int *, int); void _exit(int);'
        local sub = c:subscribe 'news'
        local child = ffi.C.fork()
        if child == 0 then
            local is_closed = c:status() == 'closed' and select(2, c:publish('news', 1)) == 'closed'
            local d = cluster.connect { url = os.getenv 'NATS_URL' }
            is_closed = is_closed and d:publish('news', 'of the child') and d:close() and c:close()
            os.exit(is_closed and 0 or 1)
        end
        local status = ffi.new 'int[1]'
        ffi.C.waitpid(child, status, 0)
        print(status[0], sub:receive(5), c:publish('news', 2), sub:receive(5), c:status())";
    let outcome = program(&server.url(), "", code).run();
    outcome
        .succeeds()
        .quietly()
        .wrote("0\tof the child\ttrue\t2\tonline\n");
}

/// Publishes bytes as they are.
fn publish_raw(server: &Server, subject: &str, payload: &[u8]) {
    let stream = TcpStream::connect(("127.0.0.1", server.port())).expect("the server listens");
    let mut reader = BufReader::new(stream.try_clone().expect("a second handle"));
    let mut line = String::new();
    reader.read_line(&mut line).expect("its first line");
    let mut message = b"CONNECT {\"verbose\":false}\r\n".to_vec();
    message.extend(format!("PUB {subject} {}\r\n", payload.len()).bytes());
    message.extend(payload);
    message.extend(b"\r\nPING\r\n");
    (&stream).write_all(&message).expect("it reads");
    loop {
        line.clear();
        reader.read_line(&mut line).expect("it answers");
        if line.starts_with("PONG") {
            return;
        }
    }
}

fn wait_for_line(started: &mut Started, line: &str) {
    started.await_stdout(line);
}

#[test]
fn messages_that_cannot_be_read_are_counted_or_go_to_the_dead() {
    let Some(server) = Server::start() else {
        return;
    };
    let code = "io.stdout:setvbuf 'no'
        local sub, q = c:subscribe 'news', c:queue 'jobs'
        local s = c:serve('strict', { method = function() return 1 end })
        print 'ready'
        local last = sub:receive(60)
        print(last, sub:lost())
        local dead = c:queue('jobs-dead'):receive(10)
        print(dead == nil, q:receive(0))
        s:close()";
    let mut started = program(&server.url(), "", code).start();
    wait_for_line(&mut started, "ready\n");
    publish_raw(&server, "baton.queue.jobs", b"{\"json\": true}");
    publish_raw(&server, "news", b"{\"json\": true}");
    publish_raw(&server, "news", b"");
    publish_raw(&server, "baton.service.strict", b"\x01\x91");
    publish_raw(&server, "news", b"\x01\xa3end");
    let outcome = started.finish();
    outcome.succeeds().quietly();
    // The job that cannot be read is taken for a job only when somebody receives it.
    assert_eq!(
        outcome.stdout.lines().nth(1),
        Some("end\t0\t2"),
        "{outcome}"
    );
}

#[test]
fn a_job_that_cannot_be_read_goes_to_the_dead_with_the_reason() {
    let Some(server) = Server::start() else {
        return;
    };
    let code = "io.stdout:setvbuf 'no'
        local q = c:queue 'jobs'
        print 'ready'
        io.read()
        q:send 'good'
        print(q:receive(10).value, (q:receive(0)))";
    let mut started = program(&server.url(), "", code).open_stdin().start();
    wait_for_line(&mut started, "ready\n");
    publish_raw(&server, "baton.queue.jobs", b"{\"json\": true}");
    started.write_stdin("\n");
    let outcome = started.finish();
    outcome.succeeds().quietly().wrote("ready\ngood\tnil\n");
}

#[test]
fn what_was_published_arrives_if_the_connection_is_closed() {
    let Some(server) = Server::start() else {
        return;
    };
    let code = "io.stdout:setvbuf 'no'
        local sub = c:subscribe('news', { max = 20000 })
        print 'ready'
        local sum = 0
        for i = 1, 10000 do sum = sum + sub:receive(60) end
        print(sum, sub:lost())";
    let mut started = program(&server.url(), "", code).start();
    wait_for_line(&mut started, "ready\n");
    let code = "for i = 1, 10000 do assert(c:publish('news', i)) end assert(c:close())";
    program(&server.url(), "", code).run().succeeds().quietly();
    let outcome = started.finish();
    outcome
        .succeeds()
        .quietly()
        .wrote("ready\n50005000\t0\t0\n");
}

#[test]
fn the_end_of_a_program_waits_for_no_connection() {
    let Some(server) = Server::start() else {
        return;
    };
    let code = "c:subscribe 'news' c:queue 'jobs' server = c
        process.spawn({ daemon = true }, function() c:queue 'jobs':receive() end)
        process.sleep(0.05) print 'end'";
    program(&server.url(), "", code)
        .run()
        .succeeds()
        .quietly()
        .wrote("end\n");
}

/// A program that reads lines, and runs each as a chunk with `c`, `q` and `sub`.
fn conversation(url: &str) -> Started {
    let code = "io.stdout:setvbuf 'no'
        q, sub = c:queue 'jobs', c:subscribe 'news'
        _G.c, _G.process = c, process
        print 'ready'
        for line in io.lines() do assert(load(line))() end";
    let mut started = program(url, "", code).open_stdin().start();
    wait_for_line(&mut started, "ready\n");
    started
}

#[test]
fn a_server_that_is_killed_and_restarted_has_lost_nothing_that_was_acknowledged() {
    let Some(mut server) = Server::start() else {
        return;
    };
    let mut started = conversation(&server.url());
    started.write_stdin("for i = 1, 100 do assert(q:send(i)) end print 'sent'\n");
    wait_for_line(&mut started, "sent\n");
    server.kill_and_restart();
    started.write_stdin(
        "for i = 1, 100 do local job = q:receive(30) assert(job.value == i) job:done() end \
         print 'received' repeat process.sleep(0.01) until c:publish('news', 1) \
         print(sub:receive(30))\n",
    );
    wait_for_line(&mut started, "received\n");
    started.close_stdin();
    let outcome = started.finish();
    outcome
        .succeeds()
        .quietly()
        .wrote("ready\nsent\nreceived\n1\n");
}

#[test]
fn while_the_server_cannot_be_reached_senders_are_told_or_wait() {
    let Some(mut server) = Server::start() else {
        return;
    };
    let mut started = conversation(&server.url());
    server.end();
    started.write_stdin(
        "repeat process.sleep(0.01) until c:status() == 'offline' \
         print(c:publish('news', 1)) print(q:send(1, { timeout = 0.1 })) \
         print(c:call('any', 'method')) print(q:receive(0.1)) \
         waiting = process.spawn(function() return q:send 'waited' end) print 'waits'\n",
    );
    wait_for_line(&mut started, "waits\n");
    server.restart();
    started.write_stdin("print(waiting:join(30)) print(q:receive(30).value) print(c:status())\n");
    started.close_stdin();
    let outcome = started.finish();
    outcome.succeeds().quietly().wrote(
        "ready\nnil\toffline\nnil\toffline\nnil\toffline\nnil\ttimeout\nwaits\ntrue\ttrue\nwaited\n\
         online\n",
    );
}

#[test]
fn a_watch_goes_on_after_the_server_was_killed_and_restarted() {
    let Some(mut server) = Server::start() else {
        return;
    };
    let code = "io.stdout:setvbuf 'no'
        local t = c:table 'hosts'
        t:put('one', 1)
        process.spawn({ daemon = true }, function()
            for entry in t:watch() do print(entry.key, entry.value) end
        end)
        io.read()
        repeat process.sleep(0.01) until t:put('two', 2)
        io.read()";
    let mut started = program(&server.url(), "", code).open_stdin().start();
    wait_for_line(&mut started, "one\t1\n");
    server.kill_and_restart();
    started.write_stdin("\n");
    wait_for_line(&mut started, "two\t2\n");
    started.write_stdin("\n");
    started
        .finish()
        .succeeds()
        .quietly()
        .wrote("one\t1\ntwo\t2\n");
}

#[test]
fn a_lease_is_lost_while_the_server_answers_nothing() {
    let Some(server) = Server::start() else {
        return;
    };
    let code = "io.stdout:setvbuf 'no'
        local lease = assert(c:lease('leader', 1))
        print 'held'
        lease:lost():wait()
        print 'lost'
        local later = assert(c:lease('leader', 1))
        print(later.token > lease.token)";
    let mut started = program(&server.url(), "", code).start();
    wait_for_line(&mut started, "held\n");
    server.freeze();
    wait_for_line(&mut started, "lost\n");
    server.thaw();
    started
        .finish()
        .succeeds()
        .quietly()
        .wrote("held\nlost\ntrue\n");
}
