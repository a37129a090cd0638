use super::*;
use h2::client::{self, SendRequest};

const BOUNDS: Bounds = Bounds {
    streams: 10,
    header: 4_000,
};

/// A client of h2's own.
struct Client {
    requests: SendRequest<Bytes>,
    connection: client::Connection<Pipe, Bytes>,
    pipe: Pipe,
}

/// Moves what one side has written to the other one, until both are silent.
fn carry(server: &mut Connection, client: &mut Client) {
    let context = &mut Context::from_waker(Waker::noop());
    loop {
        let _ = Pin::new(&mut client.connection).poll(context);
        let sent = take_from(&client.pipe);
        if !sent.is_empty() {
            server.feed(&sent, 0);
        }
        let received = output_of(server);
        if !received.is_empty() {
            client.pipe.wire().feed(&received);
        }
        if sent.is_empty() && received.is_empty() {
            return;
        }
    }
}

fn take_from(pipe: &Pipe) -> Vec<u8> {
    let mut wire = pipe.wire();
    let mut all = Vec::new();
    while wire.pending() > 0 {
        let part = wire.leaving().to_vec();
        wire.sent(part.len());
        all.extend(part);
    }
    all
}

fn output_of(server: &mut Connection) -> Vec<u8> {
    let mut all = Vec::new();
    while server.pending() > 0 {
        let part = server.pipe.wire().leaving().to_vec();
        server.sent(part.len());
        all.extend(part);
    }
    all
}

fn pair() -> (Connection, Client) {
    let mut server = Connection::new(BOUNDS, 0);
    let pipe = Pipe::default();
    let context = &mut Context::from_waker(Waker::noop());
    let mut handshake = Box::pin(client::handshake(pipe.clone()));
    pipe.wire().feed(&output_of(&mut server));
    let Poll::Ready(Ok((requests, connection))) = handshake.as_mut().poll(context) else {
        panic!("the client's side begins at once");
    };
    let mut client = Client {
        requests,
        connection,
        pipe,
    };
    carry(&mut server, &mut client);
    (server, client)
}

impl Client {
    fn ask(&mut self, path: &str, is_all: bool) -> (client::ResponseFuture, h2::SendStream<Bytes>) {
        let uri = format!("http://localhost{path}");
        let request = Request::get(uri).body(()).expect("a request");
        let sent = self.requests.send_request(request, is_all);
        sent.expect("the connection is open")
    }
}

fn expect_request(server: &mut Connection) -> (u32, Box<Head>) {
    match server.next() {
        Some(Change::Request(id, head)) => (id, head),
        other => panic!("a request expected, got {other:?}"),
    }
}

fn status_of(reply: &mut client::ResponseFuture) -> Response<RecvStream> {
    let context = &mut Context::from_waker(Waker::noop());
    match Pin::new(reply).poll(context) {
        Poll::Ready(Ok(response)) => response,
        other => panic!("a response expected, got {other:?}"),
    }
}

fn read_all(body: &mut RecvStream) -> usize {
    let context = &mut Context::from_waker(Waker::noop());
    let mut size = 0;
    while let Poll::Ready(Some(Ok(part))) = body.poll_data(context) {
        size += part.len();
        let released = body.flow_control().release_capacity(part.len());
        released.expect("it was taken");
    }
    size
}

fn fields() -> HeaderMap {
    HeaderMap::new()
}

#[test]
fn a_request_is_answered() {
    let (mut server, mut client) = pair();
    let (mut reply, _) = client.ask("/a?b", true);
    carry(&mut server, &mut client);
    let (id, head) = expect_request(&mut server);
    assert_eq!((&*head.method, &*head.target), ("GET", "/a?b"));
    assert_eq!((&*head.host, head.has_body), ("localhost", false));
    let taken = server.respond(id, StatusCode::OK, fields(), b"hello", true);
    assert_eq!(taken, Ok(5));
    server.forget(id);
    carry(&mut server, &mut client);
    let mut response = status_of(&mut reply);
    assert_eq!(response.status(), 200);
    assert_eq!(read_all(response.body_mut()), 5);
}

#[test]
fn what_does_not_fit_the_window_is_taken_when_the_client_has_read() {
    let (mut server, mut client) = pair();
    let (mut reply, _) = client.ask("/", true);
    carry(&mut server, &mut client);
    let (id, _) = expect_request(&mut server);
    let data = vec![7; 1_000_000];
    let taken = server.respond(id, StatusCode::OK, fields(), &data, true);
    let mut from = taken.expect("it is open");
    assert!(from < data.len());
    carry(&mut server, &mut client);
    let mut response = status_of(&mut reply);
    let mut received = 0;
    for _ in 0..1_000 {
        received += read_all(response.body_mut());
        carry(&mut server, &mut client);
        while let Some(change) = server.next() {
            assert!(matches!(change, Change::Moved(_)), "{change:?}");
        }
        from += server.send(id, &data[from..], true).unwrap_or(0);
        carry(&mut server, &mut client);
        if received == data.len() {
            break;
        }
    }
    assert_eq!(received, data.len());
}

#[test]
fn a_body_is_read_and_what_is_unread_is_bounded() {
    let (mut server, mut client) = pair();
    let (_reply, mut body) = client.ask("/", false);
    body.send_data(vec![1; 1_000_000].into(), true)
        .expect("h2 buffers it");
    carry(&mut server, &mut client);
    let (id, head) = expect_request(&mut server);
    assert!(head.has_body);
    let (mut size, mut largest) = (0, 0);
    loop {
        match server.read(id, 10_000) {
            Ok(Part::Bytes(part)) => {
                assert!(part.len() <= 10_000);
                size += part.len();
                largest = largest.max(part.len());
            }
            Ok(Part::Nothing) => carry(&mut server, &mut client),
            Ok(Part::End) => break,
            Err(Lost) => panic!("the client sends all"),
        }
    }
    assert_eq!((size, largest), (1_000_000, 10_000));
}

#[test]
fn a_reset_is_told_and_ends_the_reply() {
    let (mut server, mut client) = pair();
    let (_reply, mut body) = client.ask("/", false);
    carry(&mut server, &mut client);
    let (id, _) = expect_request(&mut server);
    assert_eq!(server.read(id, 100), Ok(Part::Nothing));
    body.send_reset(Reason::CANCEL);
    carry(&mut server, &mut client);
    assert!(matches!(server.next(), Some(Change::Reset(of)) if of == id));
    assert!(server.next().is_none());
    assert_eq!(server.read(id, 100), Err(Lost));
    let sent = server.respond(id, StatusCode::OK, fields(), b"late", true);
    assert_eq!(sent, Err(Lost));
    server.forget(id);
    assert_eq!(server.count(), 0);
}

#[test]
fn shutting_down_answers_open_requests_and_ends() {
    let (mut server, mut client) = pair();
    let (mut reply, _) = client.ask("/", true);
    carry(&mut server, &mut client);
    let (id, _) = expect_request(&mut server);
    server.shut_down();
    server.shut_down();
    carry(&mut server, &mut client);
    assert!(server.next().is_none());
    let sent = server.respond(id, StatusCode::OK, fields(), b"", true);
    assert_eq!(sent, Ok(0));
    server.forget(id);
    carry(&mut server, &mut client);
    assert_eq!(status_of(&mut reply).status(), 200);
    assert!(matches!(server.next(), Some(Change::Over(why)) if why.is_empty()));
}

#[test]
fn the_end_of_the_connection_ends_its_streams() {
    let (mut server, mut client) = pair();
    let (_reply, _body) = client.ask("/", false);
    carry(&mut server, &mut client);
    let (id, _) = expect_request(&mut server);
    server.feed(&[], 0);
    let mut changes = Vec::new();
    while let Some(change) = server.next() {
        changes.push(format!("{change:?}"));
    }
    assert!(changes[0].starts_with("Reset"), "{changes:?}");
    assert!(changes[1].starts_with("Over"), "{changes:?}");
    assert_eq!(server.read(id, 100), Err(Lost));
}

#[test]
fn a_client_that_floods_is_told_to_calm_down() {
    let (mut server, _) = pair();
    let ping = [0, 0, 8, 6, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
    let mut output = Vec::new();
    for _ in 0..20 {
        server.feed(&ping.repeat(1_000), 0);
        output.extend(output_of(&mut server));
    }
    let over = server.next();
    assert!(
        matches!(&over, Some(Change::Over(why)) if why.contains("floods")),
        "{over:?}"
    );
    // GOAWAY with ENHANCE_YOUR_CALM
    let goaway = [0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 11];
    assert!(output.ends_with(&goaway));
}

#[test]
fn a_client_that_does_not_read_fills_no_memory() {
    let (mut server, _) = pair();
    let ping = [0, 0, 8, 6, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
    let mut fed = 0;
    while server.wants_input() {
        server.feed(&ping.repeat(100), 0);
        fed += 100;
        assert!(fed < 100_000);
    }
    assert!(server.pending() < 200_000);
    let before = server.pending();
    while server.pending() > 0 {
        let (_, size) = server.leaving();
        server.sent(size);
        output_of(&mut server);
    }
    assert!(before > 0 && server.wants_input());
}

/// Frames of random kinds never panic.
#[test]
fn any_bytes_are_read_without_a_panic() {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for _ in 0..3_000 {
        let mut server = Connection::new(BOUNDS, 0);
        server.feed(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 0);
        server.feed(&[0, 0, 0, 4, 0, 0, 0, 0, 0], 0);
        for _ in 0..random() % 12 {
            let size = random() % 40;
            let mut frame = vec![0, 0, size as u8, (random() % 11) as u8];
            frame.extend([random() as u8, 0, 0, 0, (random() % 6) as u8]);
            frame.extend((0..size).map(|_| (random() & 0x8f) as u8));
            server.feed(&frame, 0);
            while let Some(change) = server.next() {
                if let Change::Request(id, _) = change {
                    let _ = server.read(id, 10);
                    let _ = server.respond(id, StatusCode::OK, fields(), b"x", random() % 2 == 0);
                    if random() % 2 == 0 {
                        server.forget(id);
                    }
                }
            }
            output_of(&mut server);
        }
    }
}
