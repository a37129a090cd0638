//! The engine beside servers that send what no server should.

use super::{Nats, Options};
use crate::{Command, Engine, Event};
use bytes::Bytes;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);

/// Serves one connection, as far as these tests need it. To the first subscription of "news" it
/// answers `poison`, if there is any.
fn serve(stream: TcpStream, mut poison: Option<&'static str>) -> std::io::Result<()> {
    let mut to_client = stream.try_clone()?;
    let mut subscriptions: Vec<(String, String)> = Vec::new();
    write!(
        to_client,
        "INFO {{\"server_id\":\"x\",\"version\":\"2.10.0\",\"max_payload\":4096}}\r\n"
    )?;
    let mut lines = BufReader::new(stream);
    loop {
        let mut line = String::new();
        if lines.read_line(&mut line)? == 0 {
            return Ok(());
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["PING"] => to_client.write_all(b"PONG\r\n")?,
            ["SUB", subject, .., number] => {
                subscriptions.push((subject.to_owned(), number.to_owned()));
                if subject == "news"
                    && let Some(poison) = poison.take()
                {
                    to_client.write_all(poison.as_bytes())?;
                }
            }
            ["PUB", subject, .., size] => {
                let mut payload = vec![0; size.parse::<usize>().expect("a number") + 2];
                lines.read_exact(&mut payload)?;
                for (_, number) in subscriptions.iter().filter(|one| one.0 == subject) {
                    write!(to_client, "MSG {subject} {number} {size}\r\n")?;
                    to_client.write_all(&payload)?;
                }
            }
            _ => {}
        }
    }
}

/// Starts a server whose first connection is poisoned. Returns its URL.
fn server(poison: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there is a port");
    let address = listener.local_addr().expect("it has one");
    std::thread::spawn(move || {
        let mut poison = Some(poison);
        for stream in listener.incoming() {
            let (stream, poison) = (stream.expect("somebody connects"), poison.take());
            std::thread::spawn(move || serve(stream, poison));
        }
    });
    format!("nats://{address}")
}

/// Waits for an event.
fn await_event(engine: &mut Nats, what: impl Fn(&Event) -> bool) -> Event {
    let began = Instant::now();
    loop {
        match engine.take(0) {
            Some(event) if what(&event) => return event,
            Some(_) => {}
            None => std::thread::sleep(Duration::from_millis(1)),
        }
        assert!(began.elapsed() < LIMIT, "the event does not come");
    }
}

/// Guards against a client whose task has panicked: it stayed "online", and all was lost for ever.
fn goes_on_after(poison: &'static str) {
    let url = server(poison);
    let options = Options {
        url,
        ..Options::default()
    };
    let mut engine = Nats::connect(options, 1).expect("there is a thread");
    await_event(
        &mut engine,
        |event| matches!(event, Event::Answer { ticket: 1, answer } if answer.is_ok()),
    );
    let subscribe = Command::Subscribe {
        ticket: 2,
        subject: "news".to_owned(),
        group: None,
        most: 10,
    };
    assert!(engine.submit(subscribe, 0));
    await_event(&mut engine, |event| *event == Event::Online(false));
    // While nobody can be reached: it goes to the next client.
    let payload = Bytes::from_static(b"hello");
    let subject = "other".to_owned();
    assert!(engine.submit(Command::Publish { subject, payload }, 0));
    await_event(&mut engine, |event| *event == Event::Online(true));
    assert!(engine.is_online(0));
    let began = Instant::now();
    loop {
        // The subscription may be renewed after this one.
        let (subject, payload) = ("news".to_owned(), Bytes::from_static(b"hello"));
        assert!(engine.submit(Command::Publish { subject, payload }, 0));
        std::thread::sleep(Duration::from_millis(5));
        let received = std::iter::from_fn(|| engine.take(0));
        if let Some(Event::Message {
            ticket, payload, ..
        }) = received
            .into_iter()
            .find(|event| matches!(event, Event::Message { .. }))
        {
            assert_eq!((ticket, &payload[..]), (2, &b"hello"[..]));
            return;
        }
        assert!(began.elapsed() < LIMIT, "the message does not come");
    }
}

/// Guards against publishing that waits for a reply which a lost connection has taken with it.
#[test]
fn a_connection_goes_on_after_a_line_that_nobody_can_read() {
    goes_on_after("INFO {\r\n");
}

#[test]
fn a_connection_goes_on_after_an_error_without_a_text() {
    goes_on_after("-ERR\r\n");
}

#[test]
fn a_connection_goes_on_after_a_message_of_an_impossible_size() {
    goes_on_after("MSG news 1 18446744073709551615\r\n");
}
